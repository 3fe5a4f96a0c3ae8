/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pictures of a line, on a terminal alone: where output goes elsewhere, or TERM is "dumb", there is
 * none. They need no colour, and no more than ASCII where the locale has no UTF-8. Where a line has
 * no room for one, it is left out.
 */
#ifndef CTL_BAR_H
#define CTL_BAR_H

#include "base/units.h"

#define CTL_BAR_WIDTH	24

/* How wide may one be behind @used columns and two blanks? 0: there is none. */
unsigned int ctl_bar_room(unsigned int used);

/* Print a text as map.h describes it, of so many parts at most, in @width columns. */
void ctl_bar_map(const char *text, unsigned int width);
/* Print a bar as long as @part is of @all, @width columns at most. */
void ctl_bar_share(u64 part, u64 all, unsigned int width);

#endif
