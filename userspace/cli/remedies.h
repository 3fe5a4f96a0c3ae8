/* SPDX-License-Identifier: GPL-2.0 */
/* Messages of revdedupctl, and its texts for remedies. */
#ifndef CTL_REMEDIES_H
#define CTL_REMEDIES_H

#include <stdbool.h>

#define CTL_MESSAGE_TEXT	1200

/* The first error, and the hint behind it. */
struct ctl_message {
	unsigned int nr;	/* how many errors there were */
	char error[CTL_MESSAGE_TEXT], hint[CTL_MESSAGE_TEXT];
};

struct ctl_progress;

/* Print all messages from now on, each in the place of the line of @over. */
void ctl_print_messages(struct ctl_progress *over);

/*
 * Print the first error, if there was one, and its hint as a line of JSON. The last line of a
 * command that ends with the status @exit. @is_missing: what it names does not exist.
 */
void ctl_print_error_json(int exit, bool is_missing);

/* Why the command failed: the text of its first error, and of the hint behind it, or "". */
const char *ctl_first_error(void);
const char *ctl_first_hint(void);

/* From now on print no message, and keep the first one in @to; NULL: print them again. */
void ctl_keep_messages(struct ctl_message *to);

#endif
