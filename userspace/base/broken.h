/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ways to break the engine on purpose, to see that the tests catch it: a test sets
 * rd_break, and then the engine does not flush, and so on. A build without RD_TEST
 * has none of this.
 */
#ifndef RD_BROKEN_H
#define RD_BROKEN_H

#include <stdbool.h>

enum rd_break {
	RD_BREAK_NOTHING,
	RD_BREAK_NORMAL,	/* the catalog does not flush each transaction */
	RD_BREAK_SYNC,		/* data is not flushed before the catalog names it */
	RD_BREAK_MOVE_SYNC,	/* nor what compaction moved */
	RD_BREAK_PUNCH,		/* places go before the journal knows */
	RD_BREAK_HIT,		/* what the pool had is not looked up again */
	RD_BREAK_VACATE,		/* places go before the devices have left them */
	RD_BREAK_HOLD,		/* what a device reads is deleted as all else */
	RD_BREAK_PAGES,		/* the page map is not flushed before the catalog and its log */
};

#ifdef RD_TEST
extern enum rd_break rd_break;

static inline bool rd_is_broken(enum rd_break how)
{
	return how == rd_break;
}
#else
static inline bool rd_is_broken(enum rd_break how)
{
	(void)how;
	return false;
}
#endif

#endif
