// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that are in packs: a cache of decoded groups, and jobs that fill it.
 *
 *        bio or copy -> its group is READY:         it has the blocks at once
 *                       it is being read:           it waits in the group
 *                       a job and room, and nobody
 *                       waits for these:            a job begins to read the group
 *                       else:                       it waits for a job and room
 *
 * A job reads the head of the pack, unless that is known, and the bytes of the group;
 * compares these with their sum; and decodes them. Nothing from the disk is trusted, and
 * nothing wrong is kept: who waits for it gets an error, and who comes later asks again.
 *
 * What a crash leaves: a pack is never changed, and its place not given back as long as an
 * entry names it (dm-revdedup.rst, settle). So what is cached is right as long as it is
 * named. A place that was given back may hold another pack when an entry names it again:
 * the message that says so has what is cached forgotten before (parts.c).
 *
 * Memory: all that this file ever uses is allocated before the first entry names a pack, so
 * no reader waits for any. A job holds its group until that is decoded, a copy until the
 * base has written it, and neither needs anything that another reader may hold: so some job
 * and some group always become free again. Who waits goes on in a work of this file's own
 * queue, since the worker of deferred.c may be waiting for what it has split off. Copies have
 * a mempool, and an io client of their own: reads must not wait for the base. The jobs' bytes
 * and NR_HEADS heads are less than 1 MiB; groups are what `pack_mib` says.
 */
#include <linux/hash.h>
#include <linux/mempool.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/xxhash.h>

#include "decode.h"
#include "packs.h"
#include "queue.h"

#define MAX_JOBS	8U
#define NR_HEADS	64U
#define MIN_COPIES	16U

/* A group may begin anywhere in a block. */
#define JOB_BYTES	(DMR_PACK_GROUP_SIZE + DMR_BLOCK_SIZE)

enum group_state {
	GROUP_EMPTY,
	GROUP_READING,
	GROUP_READY,
};

struct group {
	u64 key;
	enum group_state state;
	struct hlist_node hash;		/* not in it: nobody else may find it */
	struct list_head idle;		/* while it has no user */
	unsigned int users;
	struct dmr_pack_group layout;	/* with READY */
	u8 *data;			/* its blocks, one behind the other */
	struct bio_list bios;		/* that wait for it */
	struct list_head copies;
};

struct job {
	struct work_struct work;
	struct list_head list;		/* while it has nothing to do */
	struct dmr_packs *packs;
	struct group *group;
	void *bytes;
};

/* The head of a pack, read lately. */
struct head {
	struct mutex lock;		/* one reads it. Under no other lock */
	u64 place;			/* under packs->lock; U64_MAX: none */
	struct dmr_pack_head head;
};

struct copy {
	struct list_head list;
	struct dmr_packs *packs;
	struct group *group;
	struct dmr_entry place;
	sector_t sector;
	sector_t count;
	dm_kcopyd_notify_fn fn;
	void *context;
};

struct dmr_packs {
	struct dmr_table *t;
	unsigned int mib;
	spinlock_t lock;		/* with interrupts off; no other lock is taken under it */
	u64 nr_decoded;
	u64 nr_forgets;

	struct hlist_head *hash;
	unsigned int hash_bits;
	struct list_head idle;		/* groups without users, the longest idle first */
	unsigned int nr_groups;
	struct group *groups;
	void *memory;

	struct list_head jobs;
	unsigned int nr_jobs;
	struct job job[MAX_JOBS];

	struct bio_list bios;		/* these wait for a job and room */
	struct list_head copies;
	struct work_struct wait_work;

	struct head heads[NR_HEADS];
	mempool_t copy_pool;
	struct dm_io_client *io;	/* reads of the pool */
	struct dm_io_client *copy_io;
};

/* ------------------------------------------------------------------
 * Groups
 */

static u64 key_of(struct dmr_entry place)
{
	return place.block / DMR_PACK_GROUP_BLOCKS;
}

static struct dmr_entry place_of(u64 key)
{
	struct dmr_entry place = { .kind = DMR_PACK, .block = key * DMR_PACK_GROUP_BLOCKS };

	return place;
}

static struct hlist_head *bucket(struct dmr_packs *p, u64 key)
{
	return &p->hash[hash_64(key, p->hash_bits)];
}

static struct group *find_group(struct dmr_packs *p, u64 key)
{
	struct group *group;

	lockdep_assert_held(&p->lock);
	hlist_for_each_entry(group, bucket(p, key), hash) {
		if (group->key == key)
			return group;
	}
	return NULL;
}

static void use_group(struct group *group)
{
	if (!group->users++)
		list_del_init(&group->idle);
}

static void drop_group(struct dmr_packs *p, struct group *group)
{
	lockdep_assert_held(&p->lock);
	if (--group->users)
		return;
	if (hlist_unhashed(&group->hash))
		list_add(&group->idle, &p->idle);
	else
		list_add_tail(&group->idle, &p->idle);
}

/* Let nobody find the group any more; its users go on. */
static void forget_group(struct dmr_packs *p, struct group *group)
{
	lockdep_assert_held(&p->lock);
	hlist_del_init(&group->hash);
	if (!group->users)
		list_move(&group->idle, &p->idle);
}

static bool has_job_and_room(struct dmr_packs *p)
{
	return !list_empty(&p->jobs) && !list_empty(&p->idle);
}

static bool has_waiters(struct dmr_packs *p)
{
	return !bio_list_empty(&p->bios) || !list_empty(&p->copies);
}

static struct group *begin_job(struct dmr_packs *p, u64 key)
{
	struct job *job = list_first_entry(&p->jobs, struct job, list);
	struct group *group = list_first_entry(&p->idle, struct group, idle);

	list_del_init(&job->list);
	use_group(group);
	hlist_del_init(&group->hash);
	group->key = key;
	group->state = GROUP_READING;
	hlist_add_head(&group->hash, bucket(p, key));
	job->group = group;
	queue_work(p->t->pack_wq, &job->work);
	return group;
}

/*
 * Find the group, or have it read. NULL: there is no job, no room, or others wait for these and
 * it is not @its_turn. A group that is READY gets another user.
 */
static struct group *want_group(struct dmr_packs *p, u64 key, bool its_turn)
{
	struct group *group = find_group(p, key);

	if (!group && has_job_and_room(p) && (its_turn || !has_waiters(p)))
		group = begin_job(p, key);
	if (group && group->state == GROUP_READY)
		use_group(group);
	return group;
}

static void release_group(struct dmr_packs *p, struct group *group)
{
	unsigned long flags;

	spin_lock_irqsave(&p->lock, flags);
	drop_group(p, group);
	if (unlikely(has_waiters(p)) && has_job_and_room(p))
		queue_work(p->t->pack_wq, &p->wait_work);
	spin_unlock_irqrestore(&p->lock, flags);
}

/* Tell what went wrong with @place; anywhere. */
static void tell_error(struct dmr_packs *p, struct dmr_entry place, int r)
{
	struct dmr_meta *meta = p->t->meta;

	DMERR_LIMIT("%s: cannot read slot %x of the pack at block %llu of the pool: %s",
		    dmr_name(meta), dmr_entry_slot(place), dmr_entry_pool_block(place),
		    r == -EBADMSG ? "it is damaged, or none is there" :
		    r == -ENODATA ? "the pack has no such block" :
		    r == -EOPNOTSUPP ? "a later program made it" : "an I/O error");
	dmr_queue_event(meta);
}

/* ------------------------------------------------------------------
 * Bios
 *
 * One that is here has its place for a sector.
 */

static struct dmr_entry place_of_bio(struct bio *bio)
{
	struct dmr_entry place = {
		.kind = DMR_PACK,
		.block = bio->bi_iter.bi_sector / DMR_BLOCK_SECTORS,
	};

	return place;
}

/* Fill @bio with the blocks of its group, which is READY. */
static void fill_bio(struct dmr_packs *p, struct bio *bio, const struct group *group)
{
	unsigned int slot = dmr_entry_slot(place_of_bio(bio));
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;
	unsigned int nr = DIV_ROUND_UP(into + bio_sectors(bio), DMR_BLOCK_SECTORS);
	const u8 *from = group->data + (into << SECTOR_SHIFT);
	struct bvec_iter iter;
	struct bio_vec bvec;

	if (!dmr_group_has(&group->layout, slot, nr)) {
		tell_error(p, place_of_bio(bio), -ENODATA);
		bio->bi_status = BLK_STS_IOERR;
		return;
	}
	from += dmr_group_block_at(&group->layout, slot) * DMR_BLOCK_SIZE;
	bio_for_each_segment(bvec, bio, iter) {
		memcpy_to_bvec(&bvec, from);
		from += bvec.bv_len;
	}
}

/* Have @bio read, or wait; false: it found no job, or no room, and is the first to wait. */
static bool route_bio(struct dmr_packs *p, struct bio *bio, bool its_turn)
{
	struct group *group;
	unsigned long flags;
	bool is_ready;

	spin_lock_irqsave(&p->lock, flags);
	group = want_group(p, key_of(place_of_bio(bio)), its_turn);
	is_ready = group && group->state == GROUP_READY;
	if (!group && its_turn)
		bio_list_add_head(&p->bios, bio);
	else if (!is_ready)
		dmr_queue_in(group ? &group->bios : &p->bios, bio);
	spin_unlock_irqrestore(&p->lock, flags);
	if (is_ready) {
		fill_bio(p, bio, group);
		release_group(p, group);
		bio_endio(bio);
	}
	return group;
}

void dmr_packs_read(struct dmr_table *t, struct bio *bio, struct dmr_entry place)
{
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;

	bio->bi_iter.bi_sector = place.block * DMR_BLOCK_SECTORS + into;
	route_bio(t->packs, bio, false);
}

/* ------------------------------------------------------------------
 * Copies home
 */

static void end_copy(struct copy *copy, int read_err, unsigned long write_err)
{
	dm_kcopyd_notify_fn fn = copy->fn;
	void *context = copy->context;

	mempool_free(copy, &copy->packs->copy_pool);
	/* The table may be freed once the last of them has ended. */
	fn(read_err, write_err, context);
}

static void copy_was_written(DMR_DM_IO_ERRORS, void *context)
{
	struct copy *copy = context;

	release_group(copy->packs, copy->group);
	end_copy(copy, 0, DMR_DM_IO_FAILED);
}

/* Write the blocks of @copy, which is one of the users of its group, home. Sleeps. */
static void write_copy(struct copy *copy)
{
	struct group *group = copy->group;
	unsigned int slot = dmr_entry_slot(copy->place);
	unsigned int nr = DIV_ROUND_UP(copy->count, DMR_BLOCK_SECTORS);
	struct dm_io_region where = {
		.bdev = copy->packs->t->base,
		.sector = copy->sector,
		.count = copy->count,
	};
	struct dm_io_request req = {
		.bi_opf = REQ_OP_WRITE,
		.mem.type = DM_IO_VMA,
		.mem.ptr.vma = group->data +
			       dmr_group_block_at(&group->layout, slot) * DMR_BLOCK_SIZE,
		.notify.fn = copy_was_written,
		.notify.context = copy,
		.client = copy->packs->copy_io,
	};

	if (dmr_group_has(&group->layout, slot, nr)) {
		dmr_dm_io(&req, 1, &where, NULL);
	} else {
		tell_error(copy->packs, copy->place, -ENODATA);
		release_group(copy->packs, group);
		end_copy(copy, -EIO, 0);
	}
}

/* Write the copy, or have it wait; false: as route_bio(). Sleeps. */
static bool route_copy(struct dmr_packs *p, struct copy *copy, bool its_turn)
{
	struct group *group;
	bool is_ready;

	spin_lock_irq(&p->lock);
	group = want_group(p, key_of(copy->place), its_turn);
	is_ready = group && group->state == GROUP_READY;
	copy->group = group;
	if (!group && its_turn)
		list_add(&copy->list, &p->copies);
	else if (!is_ready)
		list_add_tail(&copy->list, group ? &group->copies : &p->copies);
	spin_unlock_irq(&p->lock);
	if (is_ready)
		write_copy(copy);
	return group;
}

void dmr_packs_copy_home(struct dmr_table *t, struct dmr_entry place, sector_t sector,
			 sector_t count, dm_kcopyd_notify_fn fn, void *context)
{
	struct copy *copy = mempool_alloc(&t->packs->copy_pool, GFP_NOIO);

	copy->packs = t->packs;
	copy->place = place;
	copy->sector = sector;
	copy->count = count;
	copy->fn = fn;
	copy->context = context;
	route_copy(t->packs, copy, false);
}

/* Bios and copies that wait go on in turn, as far as there are jobs and room. */
static void do_wait(struct work_struct *work)
{
	struct dmr_packs *p = container_of(work, struct dmr_packs, wait_work);
	unsigned int noio = memalloc_noio_save();
	struct copy *copy;
	struct bio *bio;
	bool more;

	do {
		spin_lock_irq(&p->lock);
		bio = bio_list_pop(&p->bios);
		copy = list_first_entry_or_null(&p->copies, struct copy, list);
		if (copy)
			list_del_init(&copy->list);
		spin_unlock_irq(&p->lock);
		more = bio || copy;
		if (bio)
			more &= route_bio(p, bio, true);
		if (copy)
			more &= route_copy(p, copy, true);
	} while (more);
	memalloc_noio_restore(noio);
}

/* ------------------------------------------------------------------
 * Jobs
 */

static int read_pool(struct dmr_table *t, u64 block, unsigned int nr, void *to)
{
	struct dm_io_region where = {
		.bdev = t->pool,
		.sector = block * DMR_BLOCK_SECTORS,
		.count = nr * DMR_BLOCK_SECTORS,
	};
	struct dm_io_request req = {
		.bi_opf = REQ_OP_READ,
		.mem.type = DM_IO_VMA,
		.mem.ptr.vma = to,
		.client = t->packs->io,
	};

	if (!t->pool || block >= t->pool_blocks || nr > t->pool_blocks - block)
		return -EIO;
	return dmr_dm_io(&req, 1, &where, NULL) ? -EIO : 0;
}

static int read_head(struct dmr_table *t, u64 place, void *bytes, struct dmr_pack_head *head)
{
	const u8 *uuid = t->meta->super.pool_uuid;
	/* A pack is smaller than what it has. */
	u64 len = min_t(u64, t->pool_blocks - place, DMR_SEG_BLOCKS) * DMR_BLOCK_SIZE;
	int r = read_pool(t, place, 1, bytes);

	if (!r)
		r = dmr_pack_head_unpack(bytes, len, head);
	if (!r && !dmr_is_zero(uuid, DMR_UUID_SIZE) && memcmp(uuid, head->uuid, DMR_UUID_SIZE))
		r = -EBADMSG;
	return r;
}

static struct head *head_of(struct dmr_packs *p, u64 place)
{
	return &p->heads[hash_64(place, ilog2(NR_HEADS))];
}

/* Read the head at @place into @head. If a message has it forgotten meanwhile, it is not kept. */
static int fill_head(struct job *job, struct head *head, u64 place)
{
	struct dmr_packs *p = job->packs;
	u64 nr_forgets;
	int r;

	spin_lock_irq(&p->lock);
	head->place = U64_MAX;
	nr_forgets = p->nr_forgets;
	spin_unlock_irq(&p->lock);
	r = read_head(p->t, place, job->bytes, &head->head);
	spin_lock_irq(&p->lock);
	if (!r && p->nr_forgets == nr_forgets)
		head->place = place;
	spin_unlock_irq(&p->lock);
	return r;
}

/* Find how the group lies that begins at @place. */
static int find_layout(struct job *job, struct dmr_entry place, struct dmr_pack_group *layout)
{
	struct dmr_packs *p = job->packs;
	u64 block = dmr_entry_pool_block(place);
	struct head *head = head_of(p, block);
	bool is_known;
	int r = 0;

	/* Those who need the same one wait until it has been read. */
	mutex_lock(&head->lock);
	spin_lock_irq(&p->lock);
	is_known = head->place == block;
	spin_unlock_irq(&p->lock);
	if (!is_known)
		r = fill_head(job, head, block);
	if (!r)
		dmr_pack_group(&head->head, dmr_entry_slot(place) / DMR_PACK_GROUP_BLOCKS, layout);
	mutex_unlock(&head->lock);
	return r;
}

static int decode_group(const struct dmr_pack_group *layout, const void *bytes, void *to)
{
	size_t all = dmr_group_blocks(layout) * DMR_BLOCK_SIZE;

	if (xxh64(bytes, layout->len, 0) != layout->sum)
		return -EBADMSG;
	switch (layout->codec) {
	case DMR_CODEC_RAW:
		memcpy(to, bytes, all);
		return 0;
	case DMR_CODEC_ZSTD:
		return dmr_decode(bytes, layout->len, to, all);
	default:
		return -EOPNOTSUPP;
	}
}

static int read_group(struct job *job, struct dmr_entry place)
{
	struct group *group = job->group;
	struct dmr_pack_group *layout = &group->layout;
	unsigned int into;
	int r;

	r = find_layout(job, place, layout);
	if (r)
		return r;
	into = layout->offset % DMR_BLOCK_SIZE;
	r = read_pool(job->packs->t, dmr_entry_pool_block(place) + layout->offset / DMR_BLOCK_SIZE,
		      DIV_ROUND_UP(into + layout->len, DMR_BLOCK_SIZE), job->bytes);
	return r ? r : decode_group(layout, job->bytes + into, group->data);
}

/* End what has waited for the group, of which the job is still a user. */
static void serve(struct dmr_packs *p, struct group *group, struct bio_list *bios,
		  struct list_head *copies, int r)
{
	struct copy *copy, *next;
	struct bio *bio;

	while ((bio = bio_list_pop(bios))) {
		if (r)
			bio->bi_status = BLK_STS_IOERR;
		else
			fill_bio(p, bio, group);
		bio_endio(bio);
	}
	list_for_each_entry_safe(copy, next, copies, list) {
		list_del_init(&copy->list);
		if (r)
			end_copy(copy, r, 0);
		else
			write_copy(copy);
	}
}

static void do_job(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);
	unsigned int noio = memalloc_noio_save();
	struct group *group = job->group;
	struct dmr_entry place = place_of(group->key);
	struct dmr_packs *p = job->packs;
	struct bio_list bios;
	struct copy *copy;
	LIST_HEAD(copies);
	int r;

	r = read_group(job, place);
	if (r)
		tell_error(p, place, r);
	spin_lock_irq(&p->lock);
	p->nr_decoded += !r;
	group->state = r ? GROUP_EMPTY : GROUP_READY;
	if (r)
		hlist_del_init(&group->hash);
	bios = group->bios;
	bio_list_init(&group->bios);
	list_splice_init(&group->copies, &copies);
	list_for_each_entry(copy, &copies, list)
		group->users += !r;
	spin_unlock_irq(&p->lock);
	serve(p, group, &bios, &copies, r);
	/* Only now: the base may have the copies wait. */
	spin_lock_irq(&p->lock);
	list_add_tail(&job->list, &p->jobs);
	spin_unlock_irq(&p->lock);
	release_group(p, group);
	memalloc_noio_restore(noio);
}

/* ------------------------------------------------------------------
 * Forgetting
 */

void dmr_packs_forget(struct dmr_table *t, u64 head)
{
	struct dmr_packs *p = t->packs;
	struct group *group;
	unsigned int i;

	spin_lock_irq(&p->lock);
	p->nr_forgets++;
	if (head_of(p, head)->place == head)
		head_of(p, head)->place = U64_MAX;
	for (i = 0; i < DMR_PACK_GROUPS; i++) {
		group = find_group(p, key_of(dmr_pack_entry(head, i * DMR_PACK_GROUP_BLOCKS)));
		if (group)
			forget_group(p, group);
	}
	spin_unlock_irq(&p->lock);
}

void dmr_packs_forget_all(struct dmr_table *t)
{
	struct dmr_packs *p = t->packs;
	unsigned int i;

	spin_lock_irq(&p->lock);
	p->nr_forgets++;
	for (i = 0; i < NR_HEADS; i++)
		p->heads[i].place = U64_MAX;
	spin_unlock_irq(&p->lock);
	for (i = 0; i < p->nr_groups; i++) {
		spin_lock_irq(&p->lock);
		forget_group(p, &p->groups[i]);
		spin_unlock_irq(&p->lock);
	}
}

/* ------------------------------------------------------------------
 * Life
 */

void dmr_packs_count(struct dmr_table *t, unsigned int *mib, u64 *nr_decoded)
{
	struct dmr_packs *p = t->packs;

	*mib = p ? p->mib : 0;
	*nr_decoded = p ? READ_ONCE(p->nr_decoded) : 0;
}

static void *alloc_quietly(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_NOWARN);
}

static int alloc_groups(struct dmr_packs *p)
{
	unsigned int i;

	p->nr_groups = p->mib * (SZ_1M / DMR_PACK_GROUP_SIZE);
	p->groups = kvcalloc(p->nr_groups, sizeof(*p->groups), GFP_KERNEL);
	p->memory = alloc_quietly((size_t)p->mib * SZ_1M);
	p->hash_bits = ilog2(p->nr_groups);
	p->hash = kvcalloc(1UL << p->hash_bits, sizeof(*p->hash), GFP_KERNEL);
	if (!p->groups || !p->memory || !p->hash)
		return -ENOMEM;
	for (i = 0; i < p->nr_groups; i++) {
		struct group *group = &p->groups[i];

		INIT_HLIST_NODE(&group->hash);
		INIT_LIST_HEAD(&group->copies);
		bio_list_init(&group->bios);
		group->data = p->memory + (size_t)i * DMR_PACK_GROUP_SIZE;
		list_add_tail(&group->idle, &p->idle);
	}
	return 0;
}

static int alloc_jobs(struct dmr_packs *p)
{
	unsigned int nr = clamp(2 * num_online_cpus(), 2U, MAX_JOBS);

	for (; p->nr_jobs < nr; p->nr_jobs++) {
		struct job *job = &p->job[p->nr_jobs];

		job->bytes = alloc_quietly(JOB_BYTES);
		if (!job->bytes)
			return -ENOMEM;
		job->packs = p;
		INIT_WORK(&job->work, do_job);
		list_add_tail(&job->list, &p->jobs);
	}
	return 0;
}

static int alloc_client(struct dm_io_client **client)
{
	*client = dm_io_client_create();
	if (!IS_ERR(*client))
		return 0;
	*client = NULL;
	return -ENOMEM;
}

static int alloc_packs(struct dmr_packs *p)
{
	int r = alloc_groups(p);

	if (!r)
		r = alloc_jobs(p);
	if (!r)
		r = mempool_init_kmalloc_pool(&p->copy_pool, MIN_COPIES, sizeof(struct copy));
	if (!r)
		r = alloc_client(&p->io);
	if (!r)
		r = alloc_client(&p->copy_io);
	return r;
}

static void free_packs(struct dmr_packs *p)
{
	unsigned int i;

	if (p->io)
		dm_io_client_destroy(p->io);
	if (p->copy_io)
		dm_io_client_destroy(p->copy_io);
	mempool_exit(&p->copy_pool);
	for (i = 0; i < p->nr_jobs; i++)
		vfree(p->job[i].bytes);
	for (i = 0; i < NR_HEADS; i++)
		mutex_destroy(&p->heads[i].lock);
	kvfree(p->hash);
	kvfree(p->groups);
	vfree(p->memory);
	kvfree(p);
}

static struct dmr_packs *make_packs(struct dmr_table *t)
{
	struct dmr_packs *p = kvzalloc(sizeof(*p), GFP_KERNEL);
	unsigned int i;

	if (!p)
		return NULL;
	p->t = t;
	p->mib = t->pack_mib;
	spin_lock_init(&p->lock);
	INIT_LIST_HEAD(&p->idle);
	INIT_LIST_HEAD(&p->jobs);
	INIT_LIST_HEAD(&p->copies);
	INIT_WORK(&p->wait_work, do_wait);
	bio_list_init(&p->bios);
	for (i = 0; i < NR_HEADS; i++) {
		mutex_init(&p->heads[i].lock);
		p->heads[i].place = U64_MAX;
	}
	if (!alloc_packs(p))
		return p;
	free_packs(p);
	return NULL;
}

int dmr_packs_begin(struct dmr_table *t)
{
	struct dmr_packs *p;
	int r;

	if (t->packs)
		return 0;
	r = dmr_decode_get();
	if (r)
		return r;
	p = make_packs(t);
	if (!p) {
		dmr_decode_put();
		return -ENOMEM;
	}
	/* Readers that begin from now on see it, before they see an entry that needs it. */
	WRITE_ONCE(t->packs, p);
	synchronize_rcu();
	return 0;
}

void dmr_packs_end(struct dmr_table *t)
{
	if (!t->packs)
		return;
	/* All that was read has ended, but a job may still be at its end. */
	flush_workqueue(t->pack_wq);
	free_packs(t->packs);
	t->packs = NULL;
	dmr_decode_put();
}
