// SPDX-License-Identifier: GPL-2.0
/* Devices that read the data area by themselves. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/volume/device/target_place.h"
#include "pool/catalog/segments.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/version/version.h"
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
static bool is_asked(const struct device *device, struct rd_doomed *doomed, unsigned int i)
{
	return !doomed || rd_place_is_doomed(doomed, device->places[i]);
}

static bool any_asked(const struct device *device, struct rd_doomed *doomed, u64 seg)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (is_asked(device, doomed, seg * RD_SEG_BLOCKS + i))
			return true;
	return false;
}

static int set_place(struct device *device, struct rd_target_places *places, unsigned int i,
		     rd_place place, struct rd_doomed *doomed)
{
	struct dmr_entry to;
	int r = rd_target_place(places, place, &to, NULL);

	if (r)
		return r;
	if (doomed && rd_place_is_doomed(doomed, to)) {
		fprintf(stderr, "devices: block %u of %s is to go where it goes from\n", i,
			device->name);
		_exit(9);
	}
	if (doomed)
		devices->nr_packed_left += device->places[i].kind == DMR_PACK;
	else
		devices->nr_packed += to.kind == DMR_PACK;
	device->places[i] = to;
	devices->nr_left += !!doomed;
	return 0;
}

static int load_seg(struct device *device, struct rd_pool *pool, struct rd_resolver *resolver,
		    struct rd_doomed *doomed, u64 seg)
{
	struct rd_target_places places = { .sql = pool->sql };
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
			r = set_place(device, &places, seg * RD_SEG_BLOCKS + i,
				      recipe ? map.at[i] : 0, doomed);
	return r;
}

/* What is @doomed, or all of it, from the catalog. */
static int load(struct device *device, struct rd_pool *pool, struct rd_doomed *doomed)
{
	struct rd_resolver *resolver = rd_resolver_new(pool->sql);
	u64 seg;
	int r;

	if (!resolver)
		return -ENOMEM;
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
		rd_place_keep(doomed, device->places[i], 1);
		devices->nr_kept++;
	}
}

/* Does @place name a block of @frame, or a pack that may reach into it? */
static bool names_frame(struct dmr_entry place, u64 frame)
{
	u64 first = rd_frame_offset(frame) / RD_BLOCK_SIZE, last = first + RD_SEG_BLOCKS - 1;
	u64 block = dmr_entry_pool_block(place);

	if (place.kind == DMR_PACK)
		return block <= last && block + RD_DOOMED_BEFORE >= first;
	return place.kind == DMR_POOL && block <= last && block >= first;
}

bool devices_down_name(u64 frame)
{
	unsigned int i, j;

	for (i = 0; i < NR_DEVICES; i++) {
		const struct device *device = &devices->device[i];

		for (j = 0; device->exists && device->is_down && j < DEVICE_BLOCKS; j++)
			if (names_frame(device->places[j], frame))
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

/* Read as the kernel does: the head of the pack, then the one group, and nothing else. */
static bool read_packed(int fd, struct dmr_entry place, u8 block[RD_BLOCK_SIZE])
{
	static struct rd_packer *packer;
	static u8 bytes[RD_PACK_GROUP_SIZE], blocks[RD_PACK_GROUP_SIZE];
	u64 begin = dmr_entry_pool_block(place) * RD_BLOCK_SIZE;
	unsigned int slot = dmr_entry_slot(place), group = slot / RD_PACK_GROUP;
	struct dmr_pack_disk disk;
	struct dmr_pack_head head;
	u32 len;

	if (!packer)
		packer = rd_packer_new();
	if (!packer || pread(fd, &disk, sizeof(disk), begin) != sizeof(disk) ||
	    dmr_pack_head_unpack(&disk, RD_PACK_MAX, &head) || !rd_pack_has(&head, slot))
		return false;
	len = head.groups[group].len;
	if (len > sizeof(bytes) ||
	    pread(fd, bytes, len, begin + dmr_pack_offset(&head, group)) != (ssize_t)len ||
	    rd_pack_decode(packer, &head, group, bytes, blocks))
		return false;
	memcpy(block, blocks + (size_t)rd_pack_block_at(&head, slot) * RD_BLOCK_SIZE,
	       RD_BLOCK_SIZE);
	return true;
}

static bool read_place(int fd, struct dmr_entry place, u8 block[RD_BLOCK_SIZE])
{
	memset(block, 0, RD_BLOCK_SIZE);
	if (place.kind == DMR_PACK)
		return read_packed(fd, place, block);
	return place.kind != DMR_POOL ||
		pread(fd, block, RD_BLOCK_SIZE, place.block * RD_BLOCK_SIZE) == RD_BLOCK_SIZE;
}

static bool is_right(const struct device *device, int fd, const u8 contents[][RD_BLOCK_SIZE])
{
	u8 block[RD_BLOCK_SIZE], want[RD_BLOCK_SIZE];
	unsigned int i;

	for (i = 0; i < rd_nr_segs(device->size) * RD_SEG_BLOCKS; i++) {
		bool is_read = read_place(fd, device->places[i], block);

		get_want(device, i, contents, want);
		if (is_read && !memcmp(block, want, sizeof(block)))
			continue;
		fprintf(stderr, "devices: %s reads block %u of %lld@%lld at %d:%llu: wanted content %u, found %s that begins with %02x%02x\n",
			device->name, i, device->volume, device->number, device->places[i].kind,
			device->places[i].block, device->want[i], is_read ? "one" : "none",
			block[0], block[1]);
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
