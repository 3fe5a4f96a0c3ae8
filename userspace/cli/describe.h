/* SPDX-License-Identifier: GPL-2.0 */
/* Describe versions, for list and show. */
#ifndef CTL_DESCRIBE_H
#define CTL_DESCRIBE_H

#include "boottest.h"
#include "cli.h"

/* A version, and properties that its row in the catalog does not have. */
struct ctl_described {
	struct ctl_version v;
	/*
	 * Bytes that only this version has: deleting it alone frees them. CTL_UNKNOWN where too
	 * much would have to be looked at.
	 */
	u64 unique;
	bool in_use;		/* a device reads it */
	bool clock_went_back;	/* it is dated earlier than the version before it */
	char *tags;		/* "a,b", or "" */
	struct ctl_boot_test boot;	/* what came of booting it; time 0: nothing did */
};

/*
 * Append a struct ctl_described for each version of @volume, oldest first. CTL_DAMAGE, from
 * this and the next one: all is there, but the catalog is damaged, and nothing is unique.
 */
int ctl_describe_volume(struct ctl *ctl, const struct ctl_volume *volume, struct rd_buffer *ret);
/* Describe the one version ret->v. */
int ctl_describe(struct ctl *ctl, struct ctl_described *ret);
/* Fill in what came of booting @nr versions; there, most are not tested. */
void ctl_describe_boots(const struct rd_buffer *tests, struct ctl_described *list, size_t nr);
void ctl_described_free(struct rd_buffer *described);

/* Everything that is not as usual: "protected, in use", or "". */
#define CTL_STATE_TEXT	100
const char *ctl_state_print(char text[CTL_STATE_TEXT], const struct ctl_described *described);

/* Begin a line of JSON with all that is known of the version. */
void ctl_json_described(struct ctl *ctl, const struct ctl_described *described);

/* Print a comment without what could change the terminal: what rd_shown_len() knows as 0. */
void ctl_print_comment(const char *comment);

#endif
