/* SPDX-License-Identifier: GPL-2.0 */
/* Describe versions, for list and show. */
#ifndef CTL_DESCRIBE_H
#define CTL_DESCRIBE_H

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
};

/*
 * Append a struct ctl_described for each version of @volume, oldest first. CTL_DAMAGE, from
 * this and the next one: all is there, but the catalog is damaged, and nothing is unique.
 */
int ctl_describe_volume(struct ctl *ctl, const struct ctl_volume *volume, struct rd_buffer *ret);
/* Describe the one version ret->v. */
int ctl_describe(struct ctl *ctl, struct ctl_described *ret);
void ctl_described_free(struct rd_buffer *described);

/* Everything that is not as usual: "protected, in use", or "". */
#define CTL_STATE_TEXT	80
const char *ctl_state_print(char text[CTL_STATE_TEXT], const struct ctl_described *described);

/* Begin a line of JSON with all that is known of the version. */
void ctl_json_described(struct ctl *ctl, const struct ctl_described *described);

/* Print a comment without its control characters, which could change the terminal. */
void ctl_print_comment(const char *comment);

#endif
