/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The schema of a catalog that a stranger may have made: a view may have no end, and a trigger
 * or a generated column runs what it likes. So before any of its tables is used, the schema is
 * compared with the one that this program makes.
 */
#ifndef RD_SCHEMA_H
#define RD_SCHEMA_H

#include "db.h"

/*
 * Has @sql, the catalog @path, nothing but what @made has, word by word? It may lack some.
 * -EUCLEAN, after a message.
 */
int rd_schema_compare(struct rd_sql *sql, struct rd_sql *made, const char *path);

#endif
