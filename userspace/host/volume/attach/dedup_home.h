/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bring blocks home that are zeros by the metadata alone, and take the table away that a
 * volume without a pool has for them.
 *
 * That is the end of a run in mode ZEROS, and what mends an interrupted one. A command that is
 * killed leaves one of these states; each reads the same to programs that use the volume:
 *
 *	the table has "zeros", all is home	nothing was begun, or all was ended
 *	marks					they hold up nothing; the next run drops them
 *	zeros, and the base still has them	alias, before shed
 *	zeros, and the base is discarded	within shed: it reads as zeros as well
 *
 * In the last two the target does not call the volume linear, so that no linear table can be
 * put in its place; the attachment has is_zeros since before the first such block, by which
 * the volume is brought up without a pool. The next dedup or attach comes here again.
 */
#ifndef RD_DEDUP_HOME_H
#define RD_DEDUP_HOME_H

#include "host/volume/device/attachment.h"

/*
 * Do what can be done at once: give back what is zeros in whole chunks, copy the rest in the
 * background, drop the table if all is home. *@ret_home: it is. Does nothing to a volume
 * with a pool in its table.
 */
int rd_dedup_bring_home(struct rd_attachment *at, bool *ret_home);

/*
 * Give back what is zeros in whole chunks, if the base reads as zeros there afterwards. What
 * cannot be given back now stays: it is only zeros.
 */
int rd_dedup_shed_zeros(const struct rd_attachment *at);

/*
 * Tag the logical volume below while blocks of it lie in a pool only, for people who look at it
 * with LVM's own commands: a copy or a snapshot of it is not the volume. The second removes the
 * tag once all is home.
 */
int rd_dedup_tag(struct rd_attachment *at);
int rd_dedup_untag_home(struct rd_attachment *at);

#endif
