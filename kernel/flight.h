/* SPDX-License-Identifier: GPL-2.0 */
/*
 * I/O in flight, counted by the phase in which it began.
 */
#ifndef DMR_FLIGHT_H
#define DMR_FLIGHT_H

#include "dmr_table.h"

/* Count a bio or copy that is about to look at the table; returns its phase. Anywhere. */
static inline unsigned int dmr_flight_begin(struct dmr_table *t)
{
	/* Pairs with the change of phase in dmr_flight_drain(). */
	unsigned int phase = smp_load_acquire(&t->phase);

	this_cpu_inc(t->flight->nr[phase]);
	return phase;
}

/* End what began in @phase. Anywhere. */
static inline void dmr_flight_end(struct dmr_table *t, unsigned int phase)
{
	this_cpu_dec(t->flight->nr[phase]);
}

/* Wait for all that began before: 0, or -ERESTARTSYS for a signal. Sleeps, under message_lock. */
int dmr_flight_drain(struct dmr_table *t);

#endif
