/* SPDX-License-Identifier: GPL-2.0 */
/* Say how an attached volume is, for status. */
#ifndef CTL_HEALTH_H
#define CTL_HEALTH_H

#include "host/volume/attach/health.h"

#define CTL_NOTE_TEXT	(PATH_MAX + 160)

#define CTL_PROBLEM_TEXT	(2 * PATH_MAX + 160)

/* What the user has to mend, or NULL; @text has CTL_PROBLEM_TEXT bytes for it. */
const char *ctl_problem_print(char *text, const struct rd_health *health);
/* What ends by itself, or NULL; @text has CTL_NOTE_TEXT bytes for it. */
const char *ctl_note_print(char *text, const struct rd_health *health);

/* "tracked" */
const char *ctl_stack_name(enum rd_stack_state stack);

#endif
