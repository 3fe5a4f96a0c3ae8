// SPDX-License-Identifier: GPL-2.0
/*
 * Wait until no I/O is in flight that may have seen an older table.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "dmr_table.h"
#include "flight.h"

static long in_flight(struct dmr_table *t, unsigned int phase)
{
	long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		nr += READ_ONCE(per_cpu_ptr(t->flight, cpu)->nr[phase]);
	return nr;
}

static int wait_for_phase(struct dmr_table *t, unsigned int phase)
{
	while (in_flight(t, phase)) {
		if (signal_pending(current))
			return -ERESTARTSYS;
		msleep_interruptible(1);
	}
	return 0;
}

/*
 * Bios that come from now on are counted in the other phase. That one must be empty
 * first, since the last drain may have been interrupted. After the grace period no
 * thread is between reading the phase and counting itself.
 */
int dmr_flight_drain(struct dmr_table *t)
{
	unsigned int old = t->phase;
	int r = wait_for_phase(t, !old);

	if (r)
		return r;
	/* Pairs with dmr_flight_begin(): a bio in the new phase sees new places. */
	smp_store_release(&t->phase, !old);
	synchronize_rcu();
	return wait_for_phase(t, old);
}
