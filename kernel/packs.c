// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that are in packs: a cache of decoded groups, and jobs that fill it.
 *
 *        bio or copy -> its group is READY:   it has the blocks at once
 *                       it is being read:     it waits in the group
 *                       a job and room:       a job begins to read the group
 *                       else:                 it waits for a job, or for room
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
 * and some group always become free again. Copies have a mempool. The jobs' bytes and
 * NR_HEADS heads are less than 1 MiB; groups are what `pack_mib` says.
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
#define HASH_BITS	8

/* Bios that look again while jobs are at work: when one of these ends others do. */
#define MAX_AGAIN	(4 * MAX_JOBS)

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
	u64 block;			/* of the volume, that is wanted first */
	void *bytes;
};

/* The head of a pack, read lately. */
struct head {
	struct mutex lock;		/* under no other lock; those of dm-io come below */
	u64 place;			/* U64_MAX: none */
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

	struct hlist_head hash[1 << HASH_BITS];
	struct list_head idle;		/* groups without users, the longest idle first */
	unsigned int nr_groups;
	struct group *groups;
	void *memory;

	struct list_head jobs;
	unsigned int nr_jobs;
	unsigned int nr_busy;
	struct job job[MAX_JOBS];

	struct bio_list bios;		/* these wait for a job, or for room */
	struct list_head copies;
	struct work_struct copy_work;

	struct head heads[NR_HEADS];
	mempool_t copy_pool;
	struct workqueue_struct *wq;
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

static struct group *find_group(struct dmr_packs *p, u64 key)
{
	struct group *group;

	lockdep_assert_held(&p->lock);
	hlist_for_each_entry(group, &p->hash[hash_64(key, HASH_BITS)], hash) {
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

/* Have a job read the group; false: all are at work, or all groups in use. */
static bool begin_job(struct dmr_packs *p, u64 key, u64 block)
{
	struct job *job = list_first_entry_or_null(&p->jobs, struct job, list);
	struct group *group = list_first_entry_or_null(&p->idle, struct group, idle);

	if (!job || !group)
		return false;
	list_del_init(&job->list);
	p->nr_busy++;
	use_group(group);
	hlist_del_init(&group->hash);
	group->key = key;
	group->state = GROUP_READING;
	hlist_add_head(&group->hash, &p->hash[hash_64(key, HASH_BITS)]);
	job->group = group;
	job->block = block;
	queue_work(p->wq, &job->work);
	return true;
}

/*
 * Find the group for block @block of the volume, which is in it, or have it read. NULL: there is
 * no job, or no room. A group that is READY gets another user.
 */
static struct group *want_group(struct dmr_packs *p, u64 key, u64 block)
{
	struct group *group = find_group(p, key);

	if (!group && begin_job(p, key, block))
		group = find_group(p, key);
	if (group && group->state == GROUP_READY)
		use_group(group);
	return group;
}

/* ------------------------------------------------------------------
 * Bios
 *
 * One that waits in a group has its place for a sector.
 */

static void fill_bio(struct bio *bio, const struct group *group)
{
	unsigned int slot = bio->bi_iter.bi_sector / DMR_BLOCK_SECTORS % DMR_SEG_BLOCKS;
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;
	unsigned int nr = DIV_ROUND_UP(into + bio_sectors(bio), DMR_BLOCK_SECTORS);
	const u8 *from = group->data + (into << SECTOR_SHIFT);
	struct bvec_iter iter;
	struct bio_vec bvec;

	/* An entry names a block that the pack has not. */
	if (!dmr_group_has(&group->layout, slot, nr)) {
		bio->bi_status = BLK_STS_IOERR;
		return;
	}
	from += dmr_group_block_at(&group->layout, slot) * DMR_BLOCK_SIZE;
	bio_for_each_segment(bvec, bio, iter) {
		memcpy_to_bvec(&bvec, from);
		from += bvec.bv_len;
	}
}

/* Have bios and copies that found no job, or no room, look again. Anywhere. */
static void go_on(struct dmr_packs *p)
{
	struct bio_list again = BIO_EMPTY_LIST;
	unsigned int i;
	unsigned long flags;
	struct bio *bio;

	spin_lock_irqsave(&p->lock, flags);
	for (i = 0; i < MAX_AGAIN || !p->nr_busy; i++) {
		bio = bio_list_pop(&p->bios);
		if (!bio)
			break;
		bio_list_add(&again, bio);
	}
	if (!list_empty(&p->copies))
		queue_work(p->wq, &p->copy_work);
	spin_unlock_irqrestore(&p->lock, flags);
	if (bio_list_empty(&again))
		return;
	spin_lock_irqsave(&p->t->lock, flags);
	dmr_queue_bios(p->t, &again);
	spin_unlock_irqrestore(&p->t->lock, flags);
}

static void release_group(struct dmr_packs *p, struct group *group)
{
	unsigned long flags;
	bool wanted;

	spin_lock_irqsave(&p->lock, flags);
	drop_group(p, group);
	wanted = !bio_list_empty(&p->bios) || !list_empty(&p->copies);
	spin_unlock_irqrestore(&p->lock, flags);
	if (unlikely(wanted))
		go_on(p);
}

void dmr_packs_read(struct dmr_table *t, struct bio *bio, struct dmr_entry place)
{
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;
	struct dmr_packs *p = t->packs;
	struct group *group;
	unsigned long flags;
	bool is_ready;

	spin_lock_irqsave(&p->lock, flags);
	group = want_group(p, key_of(place), dmr_bio_first_block(bio));
	is_ready = group && group->state == GROUP_READY;
	/* The worker looks up again where it is: its sector stays. */
	if (group)
		bio->bi_iter.bi_sector = place.block * DMR_BLOCK_SECTORS + into;
	if (!is_ready)
		dmr_queue_in(group ? &group->bios : &p->bios, bio);
	spin_unlock_irqrestore(&p->lock, flags);
	if (!is_ready)
		return;
	fill_bio(bio, group);
	release_group(p, group);
	bio_endio(bio);
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
		.client = copy->packs->t->io,
	};

	if (dmr_group_has(&group->layout, slot, nr)) {
		dmr_dm_io(&req, 1, &where, NULL);
	} else {
		release_group(copy->packs, group);
		end_copy(copy, -EIO, 0);
	}
}

/* Write the copy, or have it wait; false: there is no job, or no room. */
static bool route_copy(struct copy *copy)
{
	u64 block = copy->sector / DMR_BLOCK_SECTORS;
	struct dmr_packs *p = copy->packs;
	struct group *group;
	bool is_ready;

	spin_lock_irq(&p->lock);
	group = want_group(p, key_of(copy->place), block);
	is_ready = group && group->state == GROUP_READY;
	copy->group = group;
	if (!group)
		list_add(&copy->list, &p->copies);
	else if (!is_ready)
		list_add_tail(&copy->list, &group->copies);
	spin_unlock_irq(&p->lock);
	if (is_ready)
		write_copy(copy);
	return group;
}

static void do_copies(struct work_struct *work)
{
	struct dmr_packs *p = container_of(work, struct dmr_packs, copy_work);
	unsigned int noio = memalloc_noio_save();
	struct copy *copy;

	do {
		spin_lock_irq(&p->lock);
		copy = list_first_entry_or_null(&p->copies, struct copy, list);
		if (copy)
			list_del_init(&copy->list);
		spin_unlock_irq(&p->lock);
	} while (copy && route_copy(copy));
	memalloc_noio_restore(noio);
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
	route_copy(copy);
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
		.client = t->io,
	};

	if (!t->pool || block >= t->pool_blocks || nr > t->pool_blocks - block)
		return -EIO;
	return dmr_dm_io(&req, 1, &where, NULL) ? -EIO : 0;
}

static int read_head(struct dmr_table *t, u64 place, void *bytes, struct dmr_pack_head *head)
{
	const u8 *uuid = t->meta->super.pool_uuid;
	/* A pack is smaller than what it has. */
	u64 len = min((t->pool_blocks - place) * DMR_BLOCK_SIZE, DMR_SEG_BLOCKS * DMR_BLOCK_SIZE);
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

/* Find how the group lies that begins at @place. */
static int find_layout(struct job *job, struct dmr_entry place, struct dmr_pack_group *layout)
{
	struct dmr_packs *p = job->packs;
	u64 block = dmr_entry_pool_block(place);
	struct head *head = head_of(p, block);
	int r = 0;

	/* Those who need the same one wait until it has been read. */
	mutex_lock(&head->lock);
	if (head->place != block) {
		head->place = U64_MAX;
		r = read_head(p->t, block, job->bytes, &head->head);
		if (!r)
			head->place = block;
	}
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

static void tell_error(struct job *job, struct dmr_entry place, int r)
{
	struct dmr_meta *meta = job->packs->t->meta;

	DMERR_LIMIT("%s: cannot read block %llu: the pack at block %llu of the pool %s",
		    dmr_name(meta), job->block, dmr_entry_pool_block(place),
		    r == -EBADMSG ? "is damaged, or none is there" :
		    r == -EOPNOTSUPP ? "was made by a later program" : "cannot be read");
	dmr_queue_event(meta);
}

/* End what has waited for the group, of which the job is still a user. */
static void serve(struct group *group, struct bio_list *bios, struct list_head *copies, int r)
{
	struct copy *copy, *next;
	struct bio *bio;

	while ((bio = bio_list_pop(bios))) {
		if (r)
			bio->bi_status = BLK_STS_IOERR;
		else
			fill_bio(bio, group);
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
		tell_error(job, place, r);
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
	list_add(&job->list, &p->jobs);
	p->nr_busy--;
	spin_unlock_irq(&p->lock);
	serve(group, &bios, &copies, r);
	release_group(p, group);
	memalloc_noio_restore(noio);
}

/* ------------------------------------------------------------------
 * Forgetting
 */

static void forget_head(struct head *head)
{
	mutex_lock(&head->lock);
	head->place = U64_MAX;
	mutex_unlock(&head->lock);
}

void dmr_packs_forget(struct dmr_table *t, u64 head)
{
	struct dmr_packs *p = t->packs;
	struct group *group;
	unsigned int i;

	forget_head(head_of(p, head));
	spin_lock_irq(&p->lock);
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

	for (i = 0; i < NR_HEADS; i++)
		forget_head(&p->heads[i]);
	spin_lock_irq(&p->lock);
	for (i = 0; i < p->nr_groups; i++)
		forget_group(p, &p->groups[i]);
	spin_unlock_irq(&p->lock);
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
	if (!p->groups || !p->memory)
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

static int alloc_packs(struct dmr_packs *p)
{
	int r = alloc_groups(p);

	if (!r)
		r = alloc_jobs(p);
	if (!r)
		r = mempool_init_kmalloc_pool(&p->copy_pool, MIN_COPIES, sizeof(struct copy));
	if (r)
		return r;
	p->wq = alloc_workqueue("revdedup_packs", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return p->wq ? 0 : -ENOMEM;
}

static void free_packs(struct dmr_packs *p)
{
	unsigned int i;

	if (p->wq)
		destroy_workqueue(p->wq);
	mempool_exit(&p->copy_pool);
	for (i = 0; i < p->nr_jobs; i++)
		vfree(p->job[i].bytes);
	for (i = 0; i < NR_HEADS; i++)
		mutex_destroy(&p->heads[i].lock);
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
	INIT_WORK(&p->copy_work, do_copies);
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
	free_packs(t->packs);
	t->packs = NULL;
	dmr_decode_put();
}
