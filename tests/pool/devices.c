// SPDX-License-Identifier: GPL-2.0
/* Devices that read the data area by themselves. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/catalog/segments.h"
#include "pool/engine/engine.h"
#include "pool/engine/inflate.h"
#include "pool/engine/journal.h"
#include "pool/engine/lease_drop.h"
#include "pool/engine/resolve.h"
#include "devices.h"

struct devices *devices;

void devices_begin(void)
{
	devices = mmap(NULL, sizeof(*devices), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (devices == MAP_FAILED)
		abort();
}

/* --- the table */

/* NULL: all blocks. */
static bool is_asked(const struct device *device, const struct rd_doomed *doomed, unsigned int i)
{
	return !doomed || (device->places[i] && rd_doomed_has(doomed, device->places[i]));
}

static bool any_asked(const struct device *device, const struct rd_doomed *doomed, u64 seg)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (is_asked(device, doomed, seg * RD_SEG_BLOCKS + i))
			return true;
	return false;
}

static void set_place(struct device *device, unsigned int i, rd_place place,
		      const struct rd_doomed *doomed)
{
	u64 block = 0;

	if (rd_place_kind(place) == RD_OWN && rd_frame_is_packed(rd_place_id(place))) {
		fprintf(stderr, "devices: block %u of %s is in a pack\n", i, device->name);
		_exit(9);
	}
	if (rd_place_kind(place) == RD_OWN)
		block = rd_place_offset(place) / RD_BLOCK_SIZE;
	if (block && doomed && rd_doomed_has(doomed, block)) {
		fprintf(stderr, "devices: block %u of %s is to go where it goes from\n", i,
			device->name);
		_exit(9);
	}
	device->places[i] = block;
	devices->nr_left += !!doomed;
}

static int load_seg(struct device *device, struct rd_pool *pool, struct rd_resolver *resolver,
		    const struct rd_doomed *doomed, u64 seg)
{
	struct rd_map map = { 0 };
	struct rd_seg_fp fp;
	unsigned int i;
	i64 recipe;
	int r;

	r = rd_segments_read(pool->sql, device->volume, device->number, seg, 1, &recipe);
	if (!r && recipe)
		r = rd_resolve(resolver, recipe, &map, &fp);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++)
		if (is_asked(device, doomed, seg * RD_SEG_BLOCKS + i))
			set_place(device, seg * RD_SEG_BLOCKS + i, recipe ? map.at[i] : 0, doomed);
	return r;
}

/* Store raw what is to be read, as all who make tables of places. */
static int inflate(struct device *device, struct rd_pool *pool, const struct rd_doomed *doomed)
{
	u8 wanted[DEVICE_BLOCKS / RD_SEG_BLOCKS / 8 + 1] = { 0 };
	const struct rd_inflate what = { .wanted = wanted, .may_fill_up = doomed };
	struct rd_version version;
	u64 seg, bytes;
	int r;

	r = rd_version_kept(pool->sql, device->volume, device->number, &version);
	for (seg = 0; seg < rd_nr_segs(device->size); seg++)
		if (any_asked(device, doomed, seg))
			wanted[seg / 8] |= 1 << seg % 8;
	if (!r)
		r = rd_inflate(pool, &version, &what, &bytes);
	if (!r && bytes && doomed)
		devices->nr_inflated_leaving++;
	else if (!r && bytes)
		devices->nr_inflated++;
	return r || !bytes ? r : rd_journal_flush(pool);
}

/* What is @doomed, or all of it, from the catalog. */
static int load(struct device *device, struct rd_pool *pool, const struct rd_doomed *doomed)
{
	struct rd_resolver *resolver = rd_resolver_new(pool->sql);
	u64 seg;
	int r;

	if (!resolver)
		return -ENOMEM;
	r = inflate(device, pool, doomed);
	if (!r)
		r = rd_sql_begin_read(pool->sql);
	if (!r) {
		for (seg = 0; seg < rd_nr_segs(device->size) && !r; seg++)
			if (any_asked(device, doomed, seg))
				r = load_seg(device, pool, resolver, doomed, seg);
		rd_sql_end_read(pool->sql);
	}
	rd_resolver_free(resolver);
	return r;
}

/* --- leaving */

static struct device *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < NR_DEVICES; i++)
		if (devices->device[i].exists && !strcmp(devices->device[i].name, name))
			return &devices->device[i];
	return NULL;
}

/* What a device that is down names stays. */
static void keep(const struct device *device, struct rd_doomed *doomed)
{
	unsigned int i;

	for (i = 0; i < DEVICE_BLOCKS; i++) {
		if (!is_asked(device, doomed, i))
			continue;
		rd_doomed_keep(doomed, device->places[i]);
		devices->nr_kept++;
	}
}

bool devices_down_name(u64 frame)
{
	unsigned int i, j, slot;
	u64 named;

	for (i = 0; i < NR_DEVICES; i++) {
		const struct device *device = &devices->device[i];

		for (j = 0; device->exists && device->is_down && j < DEVICE_BLOCKS; j++)
			if (device->places[j] &&
			    rd_area_slot_at(device->places[j] * RD_BLOCK_SIZE, &named, &slot) &&
			    named == frame)
				return true;
	}
	return false;
}

static int vacate(struct rd_lease_ops *ops, struct rd_pool *pool, const struct rd_lease *lease,
		  struct rd_doomed *doomed)
{
	struct device *device = find(lease->device);
	struct rd_version version;
	unsigned int i;

	(void)ops;
	for (i = 0; i < doomed->nr; i++)
		if (rd_slots_are_none(&doomed->frames[i].slots)) {
			fprintf(stderr, "devices: nothing of frame %llu is going\n",
				doomed->frames[i].frame);
			_exit(9);
		}
	if (!device) {
		devices->nr_gone++;
		return 1;
	}
	if (!device->is_reachable) {
		devices->nr_unreachable++;
		return -EIO;
	}
	if (device->is_down) {
		keep(device, doomed);
		return 0;
	}
	if (rd_lease_version(pool->sql, lease, &version)) {
		fprintf(stderr, "devices: the version that %s reads is gone\n", device->name);
		_exit(9);
	}
	return load(device, pool, doomed);
}

struct rd_lease_ops devices_lease_ops = { .vacate = vacate };

unsigned int devices_orphans(struct rd_pool *pool)
{
	struct rd_buffer leases = { 0 };
	const struct rd_lease *list;
	unsigned int nr = 0;
	size_t i;

	if (rd_lease_list(pool->sql, NULL, &leases))
		abort();
	list = (const struct rd_lease *)leases.data;
	for (i = 0; i < leases.len / sizeof(*list); i++)
		nr += !find(list[i].device);
	rd_buffer_free(&leases);
	return nr;
}

/* --- coming and going */

static int make_locked(struct device *device, struct rd_pool *pool,
		       const struct rd_version *version)
{
	int r;

	r = rd_lease_add(pool, version, device->name, &device->lease);
	if (!r)
		r = load(device, pool, NULL);
	if (!r)
		device->exists = true;
	return r;
}

int device_make(struct device *device, struct rd_pool *pool, const struct rd_version *version,
		const u8 *blocks)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	*device = (struct device){
		.is_reachable = true,
		.volume = version->volume,
		.number = version->number,
		.size = version->size,
	};
	snprintf(device->name, sizeof(device->name), "REVDEDUP-%llu", ++devices->nr_made);
	memcpy(device->want, blocks, DEVICE_BLOCKS);
	r = rd_lease_shut(pool, &lock);
	if (!r)
		r = make_locked(device, pool, version);
	rd_lock_drop(&lock);
	return r ? r : rd_free_queue(pool);
}

void device_vanish(struct device *device)
{
	device->exists = false;
}

int device_drop(struct device *device, struct rd_pool *pool, bool by_name)
{
	device_vanish(device);
	return by_name ? rd_lease_drop_device(pool, device->name) :
		rd_lease_drop(pool, device->lease);
}

/* --- reading */

/* Of the last block there may be a part; zeros follow. */
static void get_want(const struct device *device, unsigned int i,
		     const u8 contents[][RD_BLOCK_SIZE], u8 want[RD_BLOCK_SIZE])
{
	u64 offset = (u64)i * RD_BLOCK_SIZE;

	memset(want, 0, RD_BLOCK_SIZE);
	if (device->want[i] && offset < device->size)
		memcpy(want, contents[device->want[i]],
		       rd_min(device->size - offset, RD_BLOCK_SIZE));
}

static bool is_right(const struct device *device, int fd, const u8 contents[][RD_BLOCK_SIZE])
{
	u8 block[RD_BLOCK_SIZE], want[RD_BLOCK_SIZE];
	unsigned int i;

	for (i = 0; i < rd_nr_segs(device->size) * RD_SEG_BLOCKS; i++) {
		get_want(device, i, contents, want);
		if (!device->places[i])
			memset(block, 0, sizeof(block));
		else if (pread(fd, block, sizeof(block), device->places[i] * RD_BLOCK_SIZE) !=
			 sizeof(block))
			return false;
		if (!memcmp(block, want, sizeof(block)))
			continue;
		fprintf(stderr, "devices: %s reads block %u of %lld@%lld at %llu: wanted content %u, found one that begins with %02x%02x\n",
			device->name, i, device->volume, device->number, device->places[i],
			device->want[i], block[0], block[1]);
		return false;
	}
	return true;
}

bool devices_are_right(const char *data, const u8 contents[][RD_BLOCK_SIZE])
{
	int fd = open(data, O_RDONLY);
	bool good = fd >= 0;
	unsigned int i;

	for (i = 0; i < NR_DEVICES && good; i++)
		if (devices->device[i].exists)
			good = is_right(&devices->device[i], fd, contents);
	if (fd >= 0)
		close(fd);
	return good;
}
