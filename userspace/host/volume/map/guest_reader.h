/* SPDX-License-Identifier: GPL-2.0 */
/* The process that reads a guest's files: see guest.h. */
#ifndef RD_GUEST_READER_H
#define RD_GUEST_READER_H

#include "guest.h"

/* What it has open, and nothing else; 0 to 2 are not the user's. */
#define RD_GUEST_FD_RECORDS	3
#define RD_GUEST_FD_TAR		4	/* of a tar only */

/* Before a record's texts, each with its zero. */
struct rd_guest_head {
	u32 len[RD_GUEST_TEXTS];	/* with the zero */
	struct rd_guest_record record;
};

/* More is no path. */
#define RD_GUEST_TEXT_MAX	65536

struct rd_guest_place {
	const char *socket;
	const char *dir;	/* for its sockets */
	const char *tmp;	/* for its temporary files */
};

/* Do the work. Returns an exit status. */
int rd_guest_serve(const struct rd_guest_options *options, const struct rd_guest_place *place);

#endif
