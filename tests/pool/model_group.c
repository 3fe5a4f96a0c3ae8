// SPDX-License-Identifier: GPL-2.0
/* Versions of two volumes that begin to exist together. See model.h. */
#include <stdio.h>
#include <string.h>

#include "pool/engine/snapshot/snapshot_group.h"
#include "model.h"

bool can_group(const struct model_volume *a, const struct model_volume *b)
{
	return a != b && a->nr < MAX_VERSIONS && b->nr < MAX_VERSIONS;
}

/* The catalog counts all that happens: so no two groups have one name. */
static const char *any_name(void)
{
	static char name[32];

	snprintf(name, sizeof(name), "g%lld", number("SELECT generation FROM state"));
	return name;
}

int take_group(struct model_volume *const of[2], struct model_version *const versions[2])
{
	struct rd_compression compression = any_compression();
	struct rd_snapshot_report reports[2];
	struct rd_snapshot_options options[2];
	struct rd_snapshot_group *group;
	u8 trackers[2][RD_TRACKER_SIZE];
	unsigned int i;
	int r = rd_snapshot_group_new(&group, pool, any_name(), 2);

	for (i = 0; i < 2 && !r; i++) {
		options[i] = (struct rd_snapshot_options){
			.volume = of[i]->name,
			.from = path_of(of[i]->name),
			.compression = &compression,
			.epoch = versions[i]->epoch,
			.waits = true,
		};
		memset(trackers[i], versions[i]->epoch, RD_TRACKER_SIZE);
		if (versions[i]->epoch)
			options[i].tracker = trackers[i];
		write_image(options[i].from, versions[i]);
		r = rd_snapshot_group_copy(group, &options[i], &reports[i]);
	}
	/* Until all exist, none does. */
	if (!r && (exists(of[0], reports[0].version.number) ||
		   exists(of[1], reports[1].version.number)))
		fail("a version of a group exists before the others");
	if (!r)
		r = rd_snapshot_group_bear(group);
	if (!r)
		r = rd_snapshot_group_settle(group, 0);
	rd_snapshot_group_free(group);
	for (i = 0; i < 2 && !r; i++)
		versions[i]->number = reports[i].version.number;
	return r;
}

/* The newest tag: those of deleted versions are gone. */
static void check_name(const struct model_volume *volume, const struct model_version *version)
{
	struct rd_version found;
	i64 id;

	if (rd_volume_find(pool->sql, volume->name, &id) ||
	    rd_version_load(pool->sql, id, version->number, &found))
		fail("%s@%lld is missing", volume->name, version->number);
	if (number("SELECT count(*) FROM tag WHERE tag = (SELECT tag FROM tag ORDER BY"
		   " CAST(substr(tag, 2) AS INTEGER) DESC LIMIT 1)") != 2)
		fail("the versions of the last group do not have one name");
}

void check_group(struct model_volume *const of[2], struct model_version *const versions[2])
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		check_name(of[i], versions[i]);
	for (i = 0; i < 2; i++) {
		add_version(of[i], versions[i]);
		check_restore(of[i], versions[i]);
	}
	check_pool();
}

void do_group(struct model_volume *a, struct model_volume *b)
{
	struct model_volume *const of[2] = { a, b };
	struct model_version *const versions[2] = { prepare_snapshot(a), prepare_snapshot(b) };

	if (take_group(of, versions))
		fail("a group of %s and %s failed", a->name, b->name);
	check_group(of, versions);
}
