/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The moment of a domain, with the file systems of its guest frozen by the agent, if there is one.
 *
 * The agent answers late, or never, and a virsh that freezes lives on if it is not waited for. So a
 * guard thaws until the agent says, for a while, that nothing is frozen: after SECONDS, and when
 * the command dies. What another program has frozen stays as it is.
 */
#ifndef RD_FREEZE_GUEST_H
#define RD_FREEZE_GUEST_H

#include "domain.h"

/* Freeze, rd_domain_begin_backup(), thaw. */
int rd_freeze_guest(struct rd_domain *domain);

/* In domain.c: begin the backup and the checkpoint. */
int rd_domain_begin_backup(struct rd_domain *domain);

#endif
