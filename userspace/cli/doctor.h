/* SPDX-License-Identifier: GPL-2.0 */
/* The checks of 'revdedupctl doctor', in the order in which it runs them. */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include "cli.h"
#include "remedies.h"

enum ctl_finding_state {
	CTL_FINDING_OK,
	CTL_FINDING_NOTE,	/* works without; or the user may want it so */
	CTL_FINDING_WRONG,
	CTL_FINDING_UNKNOWN,	/* it cannot be found out here, or by this user */
};

/* What one check has found; zeros before it runs. */
struct ctl_finding {
	enum ctl_finding_state state;
	char text[CTL_MESSAGE_TEXT];
	char mend[CTL_MESSAGE_TEXT];	/* "": nothing to do */
};

/* A program of another package, without which all else works: how it says its version. */
struct ctl_doctor_program {
	char *argv[3];
	const char *purpose, *deb, *rpm;
};

/*
 * A check calls ctl_find_that() once. Where it returns -errno without that, what the layers below
 * have said is the text, and their hint what mends it, and it is wrong.
 */
struct ctl_doctor_check {
	const char *name;
	int (*run)(struct ctl_finding *ret);
	int (*ask)(struct ctl *ctl, struct ctl_finding *ret);	/* the same, of settings or pool */
	struct ctl_doctor_program program;	/* where there is neither: is it there? */
};

/* Of the host, and of the pool and the volumes. Each ends with one without a name. */
extern const struct ctl_doctor_check ctl_host_checks[], ctl_pool_checks[];

/* Say what was found. Returns 0. */
__attribute__((format(printf, 3, 4)))
int ctl_find_that(struct ctl_finding *ret, enum ctl_finding_state state, const char *fmt, ...);
/* Say what mends it: a command, where there is one. Returns 0. */
__attribute__((format(printf, 2, 3)))
int ctl_mend(struct ctl_finding *ret, const char *fmt, ...);
/* The same, by a package: its names for apt and for dnf. */
int ctl_mend_by_package(struct ctl_finding *ret, const char *deb, const char *rpm);

/* Is the program there? Returns 0. */
int ctl_find_program(struct ctl_finding *ret, const struct ctl_doctor_program *program);

/* Run a program quietly, and keep the first line that it prints; -errno, or its exit status. */
int ctl_ask_program(char *const *argv, char *ret, size_t size);

#endif
