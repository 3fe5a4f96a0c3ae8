/* SPDX-License-Identifier: GPL-2.0 */
/* Messages of revdedupctl, and its texts for remedies. */
#ifndef CTL_REMEDIES_H
#define CTL_REMEDIES_H

struct ctl_progress;

/* Print all messages from now on, each in the place of the line of @over. */
void ctl_print_messages(struct ctl_progress *over);

#endif
