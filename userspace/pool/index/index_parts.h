/* SPDX-License-Identifier: GPL-2.0 */
/* An open index, for the files that make it up: index.c and build.c. */
#ifndef RD_INDEX_PARTS_H
#define RD_INDEX_PARTS_H

#include "gather.h"
#include "index.h"
#include "merge.h"
#include "files.h"

struct rd_index {
	struct rd_files files;
	struct rd_gather gather;
	struct rd_index_counts counts;
	struct rd_sql *sql;		/* to prune; or NULL */
	bool without_vector;
	unsigned int fan;
	bool lost;			/* a run was not written */
};

#endif
