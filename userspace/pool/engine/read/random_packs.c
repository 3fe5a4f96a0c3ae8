// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks of packs. The blocks that a piece wants are sorted by place, and cut into parts, each
 * of one group. A part is copied from a group that is still decoded, or its group is read,
 * with its neighbours in one read, and decoded. A group of which all is wanted is decoded to
 * where it is wanted; any other is kept, since a disk is often read in order in small pieces.
 * Threads that want the same group then wait for the first of them, which decodes it.
 *
 * Where a pack is, its head and its groups are hints as places are: numbers of packs are used
 * again. random.c proves each block, and says which packs to forget if one is wrong.
 *
 * Memory: 8 MiB of groups and 3 MiB of heads, and 1 MiB for each buffer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "pool/catalog/packs.h"
#include "random_parts.h"

#define WAYS		4
#define NR_PACK_SETS	1024U
#define GROUP_SET_BITS	5
#define NR_GROUPS	(WAYS << GROUP_SET_BITS)
/* Bytes of packs that a buffer reads at a time: as many heads as there are blocks fit. */
#define READ_BYTES	(1U << 20)
/* What is between two groups is read as well if it is short. */
#define GAP		(4 * RD_BLOCK_SIZE)

_Static_assert(PIECE_BLOCKS * RD_BLOCK_SIZE <= READ_BYTES, "heads");

struct known_pack {
	struct rd_pack pack;		/* frame 0: none */
	u64 used;
	bool has_head;
	struct dmr_pack_head head;
};

struct known_group {
	u64 frame;			/* 0: none, or forgotten while it is loaded */
	unsigned int group;
	u64 used;
	bool is_loading;		/* by the thread that claimed it: no other may touch it */
	u8 at[RD_PACK_GROUP];		/* of each slot: which block, or NO_BLOCK */
	u8 *blocks;
};

#define NO_BLOCK	0xff

struct random_packs {
	pthread_mutex_t lock;
	pthread_cond_t has_loaded;
	u64 clock;
	struct known_pack *packs;
	struct known_group groups[NR_GROUPS];
	u8 *blocks;			/* of the groups */
};

/* Wants of one group. */
struct part {
	u64 frame;
	unsigned int group;
	unsigned int first, nr;		/* wants */
	bool is_done, is_mine;		/* is it this thread that reads it? */
	bool is_whole;			/* all of the group, where it is wanted */
	struct known_group *kept;	/* claimed; or NULL */
	struct known_pack *pack;
};

/* A read of one or several groups. */
struct fetch {
	const struct known_pack *pack;
	u32 begin, end;			/* in the pack */
	u8 *bytes;
	struct rd_op op;
};

struct unpacker {
	struct rd_packer *packer;
	u8 *bytes;			/* READ_BYTES */
	unsigned int nr_wants, nr_parts, nr_packs, nr_fetches;
	struct want {
		rd_place place;
		unsigned int block;
	} wants[PIECE_BLOCKS];
	struct part parts[PIECE_BLOCKS];
	struct known_pack packs[PIECE_BLOCKS];
	struct fetch fetches[PIECE_BLOCKS];
	u8 group[RD_PACK_GROUP_SIZE];	/* that is not kept */
};

bool rd_random_is_packed(rd_place place)
{
	return rd_place_kind(place) == RD_OWN && rd_frame_is_packed(rd_place_id(place));
}

/* --- packs that are known; the caller has the lock */

/* Find it, or NULL; *@ret_oldest: the one to replace. */
static struct known_pack *find_pack(struct random_packs *packs, u64 frame,
				    struct known_pack **ret_oldest)
{
	struct known_pack *set = &packs->packs[frame % NR_PACK_SETS * WAYS];
	unsigned int i;

	*ret_oldest = set;
	for (i = 0; i < WAYS; i++) {
		if (set[i].pack.frame == frame) {
			set[i].used = ++packs->clock;
			return &set[i];
		}
		if (set[i].used < (*ret_oldest)->used)
			*ret_oldest = &set[i];
	}
	return NULL;
}

static void put_pack(struct random_packs *packs, const struct known_pack *new)
{
	struct known_pack *oldest, *known = find_pack(packs, new->pack.frame, &oldest);

	if (!known)
		known = oldest;
	*known = *new;
	known->used = ++packs->clock;
}

void rd_random_put_packs(struct rd_random *random, const struct rd_pack *packs, unsigned int nr)
{
	struct known_pack *known, *oldest;
	unsigned int i;

	pthread_mutex_lock(&random->packs->lock);
	for (i = 0; i < nr; i++) {
		known = find_pack(random->packs, packs[i].frame, &oldest);
		if (!known || memcmp(&known->pack, &packs[i], sizeof(packs[i])))
			put_pack(random->packs, &(struct known_pack){ .pack = packs[i] });
	}
	pthread_mutex_unlock(&random->packs->lock);
}

static void forget_pack(struct random_packs *packs, u64 frame)
{
	struct known_pack *oldest, *known = find_pack(packs, frame, &oldest);
	unsigned int i;

	if (known)
		known->pack.frame = 0;
	for (i = 0; i < NR_GROUPS; i++)
		if (packs->groups[i].frame == frame)
			packs->groups[i].frame = 0;
}

void rd_random_forget_packs(struct rd_random *random, const struct known *known,
			    unsigned int nr)
{
	u64 last = 0;
	unsigned int i;

	pthread_mutex_lock(&random->packs->lock);
	for (i = 0; i < nr; i++) {
		if (!rd_random_is_packed(known->at[i]) || rd_place_id(known->at[i]) == last)
			continue;
		last = rd_place_id(known->at[i]);
		forget_pack(random->packs, last);
	}
	pthread_mutex_unlock(&random->packs->lock);
}

/* --- what is wanted */

static void add_part(struct unpacker *unpack, unsigned int first, unsigned int nr)
{
	const struct want *wants = &unpack->wants[first];
	struct part *part = &unpack->parts[unpack->nr_parts++];
	unsigned int i;

	*part = (struct part){
		.frame = rd_place_id(wants->place),
		.group = rd_place_slot(wants->place) / RD_PACK_GROUP,
		.first = first,
		.nr = nr,
	};
	part->is_whole = nr == RD_PACK_GROUP;
	for (i = 1; i < nr && part->is_whole; i++)
		part->is_whole = wants[i].place == wants->place + i &&
			wants[i].block == wants->block + i;
}

static u64 group_of(rd_place place)
{
	return place / RD_PACK_GROUP;
}

static void make_parts(struct unpacker *unpack, const struct known *known, unsigned int nr)
{
	struct want *wants = unpack->wants;
	unsigned int i, first, end;

	unpack->nr_wants = 0;
	unpack->nr_parts = 0;
	for (i = 0; i < nr; i++)
		if (rd_random_is_packed(known->at[i]))
			wants[unpack->nr_wants++] = (struct want){ known->at[i], i };
	rd_sort(wants, unpack->nr_wants, place);
	for (first = 0; first < unpack->nr_wants; first = end) {
		for (end = first + 1; end < unpack->nr_wants; end++)
			if (group_of(wants[end].place) != group_of(wants[first].place))
				break;
		add_part(unpack, first, end - first);
	}
}

static u8 *want_to(const struct buffer *buffer, const struct want *want)
{
	return buffer->data + (size_t)want->block * RD_BLOCK_SIZE;
}

/* Copy what the part wants from its group, which is decoded. */
static int copy_part(struct buffer *buffer, struct part *part, const u8 at[RD_PACK_GROUP],
		     const u8 *blocks)
{
	const struct want *want = &buffer->unpacker->wants[part->first];
	const struct want *end = want + part->nr;

	for (; want < end; want++) {
		u8 block = at[rd_place_slot(want->place) % RD_PACK_GROUP];

		if (block == NO_BLOCK)
			return -EBADMSG;
		memcpy(want_to(buffer, want), blocks + (size_t)block * RD_BLOCK_SIZE,
		       RD_BLOCK_SIZE);
	}
	part->is_done = true;
	return 0;
}

/* --- groups that are kept; the caller has the lock */

/* Find it, or NULL; *@ret_oldest: the one to replace, or NULL. */
static struct known_group *find_group(struct random_packs *packs, const struct part *part,
				      struct known_group **ret_oldest)
{
	u64 hash = (part->frame * RD_PACK_GROUPS + part->group) * 0x9e3779b97f4a7c15ULL;
	struct known_group *set = &packs->groups[(hash >> (64 - GROUP_SET_BITS)) * WAYS];
	unsigned int i;

	*ret_oldest = NULL;
	for (i = 0; i < WAYS; i++) {
		if (set[i].frame == part->frame && set[i].group == part->group)
			return &set[i];
		if (!set[i].is_loading && (!*ret_oldest || set[i].used < (*ret_oldest)->used))
			*ret_oldest = &set[i];
	}
	return NULL;
}

static void claim(struct part *part, struct known_group *kept)
{
	part->is_mine = true;
	/* Of another group this thread was told before that it is not kept. */
	part->kept = part->is_whole ? NULL : kept;
	if (!part->kept)
		return;
	kept->frame = part->frame;
	kept->group = part->group;
	kept->is_loading = true;
}

/* End what claim() has begun. */
static void give_back(struct random_packs *packs, struct part *part, bool is_good)
{
	struct known_group *kept = part->kept;

	part->is_mine = false;
	part->kept = NULL;
	if (!kept)
		return;
	pthread_mutex_lock(&packs->lock);
	if (!is_good)
		kept->frame = 0;
	kept->is_loading = false;
	kept->used = ++packs->clock;
	pthread_cond_broadcast(&packs->has_loaded);
	pthread_mutex_unlock(&packs->lock);
}

/*
 * Copy parts whose groups are kept, and claim those that no thread loads. If all that are left
 * are loaded by others, wait for them: this thread has claimed nothing then that another could
 * wait for. Returns how many were claimed, or -EBADMSG.
 */
static int share(struct random_packs *packs, struct buffer *buffer)
{
	struct unpacker *unpack = buffer->unpacker;
	struct known_group *group, *oldest;
	int r = 0, nr = 0;
	bool wait = true;
	unsigned int i;

	pthread_mutex_lock(&packs->lock);
	while (wait && !r && !nr) {
		wait = false;
		for (i = 0; i < unpack->nr_parts && !r; i++) {
			struct part *part = &unpack->parts[i];

			if (part->is_done)
				continue;
			group = find_group(packs, part, &oldest);
			if (!group) {
				claim(part, oldest);
				nr++;
			} else if (group->is_loading) {
				wait = true;
			} else {
				group->used = ++packs->clock;
				r = copy_part(buffer, part, group->at, group->blocks);
			}
		}
		if (wait && !r && !nr)
			pthread_cond_wait(&packs->has_loaded, &packs->lock);
	}
	pthread_mutex_unlock(&packs->lock);
	return r ? r : nr;
}

/* --- reading */

static struct fetch *add_fetch(struct unpacker *unpack, const struct known_pack *pack, u8 *bytes,
			       u32 begin, u32 end)
{
	struct fetch *fetch = &unpack->fetches[unpack->nr_fetches++];

	fetch->pack = pack;
	fetch->bytes = bytes;
	fetch->begin = begin;
	fetch->end = end;
	return fetch;
}

static u64 fetch_offset(const struct fetch *fetch)
{
	return rd_pack_offset(&fetch->pack->pack) + fetch->begin;
}

/* Read all fetches, and what else is in the ring. */
static int read_fetches(struct rd_random *random, struct buffer *buffer)
{
	struct unpacker *unpack = buffer->unpacker;
	const struct rd_area *area = &random->pool->area;
	unsigned int i;
	int r = 0;

	if (unpack->nr_fetches == 1 && !rd_ring_busy(buffer->ring))
		return rd_area_read_direct(area, unpack->fetches->bytes,
					   unpack->fetches->end - unpack->fetches->begin,
					   fetch_offset(unpack->fetches));
	for (i = 0; i < unpack->nr_fetches; i++) {
		struct fetch *fetch = &unpack->fetches[i];

		rd_random_submit(random, buffer, &fetch->op, fetch->bytes,
				 fetch->end - fetch->begin, fetch_offset(fetch));
	}
	while (!r && rd_ring_busy(buffer->ring))
		r = rd_ring_wait(buffer->ring);
	return r ? r : buffer->r;
}

/* --- heads */

/* Find those that were not known; unpack->packs has their frames. */
static int find_places(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct unpacker *unpack = ctx;
	unsigned int i;
	int r = 0;

	(void)resolver;
	for (i = 0; i < unpack->nr_packs && !r; i++) {
		struct rd_pack *pack = &unpack->packs[i].pack;

		if (!pack->blocks)
			r = rd_pack_find(pool->sql, pack->frame, pack);
	}
	return r == -ENOENT || r == -EUCLEAN ? -EBADMSG : r;
}

/* Copy what is known of the packs of all parts that this thread reads. */
static void get_packs(struct random_packs *packs, struct unpacker *unpack, bool *ret_has_places)
{
	struct known_pack *known, *oldest, *pack = NULL;
	unsigned int i;

	unpack->nr_packs = 0;
	*ret_has_places = true;
	pthread_mutex_lock(&packs->lock);
	for (i = 0; i < unpack->nr_parts; i++) {
		struct part *part = &unpack->parts[i];

		if (!part->is_mine)
			continue;
		if (!pack || pack->pack.frame != part->frame) {
			pack = &unpack->packs[unpack->nr_packs++];
			known = find_pack(packs, part->frame, &oldest);
			if (known)
				*pack = *known;
			else
				*pack = (struct known_pack){ .pack.frame = part->frame };
			*ret_has_places &= !!known;
		}
		part->pack = pack;
	}
	pthread_mutex_unlock(&packs->lock);
}

static int read_heads(struct rd_random *random, struct buffer *buffer)
{
	struct unpacker *unpack = buffer->unpacker;
	struct known_pack *pack = unpack->packs, *end = pack + unpack->nr_packs;
	u8 *bytes = unpack->bytes;
	int r;

	unpack->nr_fetches = 0;
	for (; pack < end; pack++)
		if (!pack->has_head) {
			add_fetch(unpack, pack, bytes, 0, RD_BLOCK_SIZE);
			bytes += RD_BLOCK_SIZE;
		}
	if (!unpack->nr_fetches)
		return 0;
	r = read_fetches(random, buffer);
	bytes = unpack->bytes;
	for (pack = unpack->packs; pack < end && !r; pack++) {
		if (pack->has_head)
			continue;
		r = rd_pack_read_head(&pack->head, bytes, (size_t)pack->pack.blocks * RD_BLOCK_SIZE,
				      random->pool->area.super.uuid, pack->pack.frame);
		bytes += RD_BLOCK_SIZE;
		if (r)
			break;
		pack->has_head = true;
		pthread_mutex_lock(&random->packs->lock);
		put_pack(random->packs, pack);
		pthread_mutex_unlock(&random->packs->lock);
	}
	return r;
}

/* --- groups */

/* Find for each slot of the group which block of it that is. */
static void make_index(const struct dmr_pack_head *head, unsigned int group,
		       u8 at[RD_PACK_GROUP])
{
	unsigned int i, slot;

	for (i = 0; i < RD_PACK_GROUP; i++) {
		slot = group * RD_PACK_GROUP + i;
		at[i] = rd_pack_has(head, slot) ? rd_pack_block_at(head, slot) : NO_BLOCK;
	}
}

static int decode_part(struct random_packs *packs, struct buffer *buffer, struct part *part,
		       const u8 *bytes)
{
	struct unpacker *unpack = buffer->unpacker;
	const struct dmr_pack_head *head = &part->pack->head;
	struct known_group *kept = part->kept;
	u8 *blocks = kept ? kept->blocks : unpack->group;
	u8 here[RD_PACK_GROUP], *at = kept ? kept->at : here;
	int r;

	if (part->is_whole && rd_pack_group_blocks(head, part->group) == RD_PACK_GROUP) {
		r = rd_pack_decode(unpack->packer, head, part->group, bytes,
				   want_to(buffer, &unpack->wants[part->first]));
		part->is_done = !r;
	} else {
		make_index(head, part->group, at);
		r = rd_pack_decode(unpack->packer, head, part->group, bytes, blocks);
		if (!r)
			r = copy_part(buffer, part, at, blocks);
	}
	give_back(packs, part, !r);
	return r;
}

/*
 * Plan to read groups from part @first on, as many as fit. Returns the first part that does
 * not.
 */
static unsigned int plan(struct unpacker *unpack, unsigned int first)
{
	struct fetch *fetch = NULL;
	unsigned int i;

	unpack->nr_fetches = 0;
	for (i = first; i < unpack->nr_parts; i++) {
		const struct part *part = &unpack->parts[i];
		const struct known_pack *pack = part->pack;
		u8 *to = fetch ? fetch->bytes + fetch->end - fetch->begin : unpack->bytes;
		u32 begin, end;

		if (!part->is_mine)
			continue;
		begin = dmr_pack_offset(&pack->head, part->group);
		end = rd_round_up(begin + rd_max(pack->head.groups[part->group].len, 1U),
				  RD_BLOCK_SIZE);
		begin -= begin % RD_BLOCK_SIZE;
		if (fetch && fetch->pack == pack && begin <= fetch->end + GAP)
			begin = fetch->end;
		else
			fetch = NULL;
		if (to + (end - begin) > unpack->bytes + READ_BYTES)
			break;
		if (fetch)
			fetch->end = end;
		else
			fetch = add_fetch(unpack, pack, to, begin, end);
	}
	return i;
}

/* Read and decode the parts from @first to @end, which were planned. */
static int read_parts(struct rd_random *random, struct buffer *buffer, unsigned int first,
		      unsigned int end)
{
	struct unpacker *unpack = buffer->unpacker;
	const struct fetch *fetch = unpack->fetches;
	int r = read_fetches(random, buffer);

	for (; first < end && !r; first++) {
		struct part *part = &unpack->parts[first];
		u32 offset;

		if (!part->is_mine)
			continue;
		offset = dmr_pack_offset(&part->pack->head, part->group);
		while (fetch->pack != part->pack || offset >= fetch->end)
			fetch++;
		r = decode_part(random->packs, buffer, part,
				fetch->bytes + offset - fetch->begin);
	}
	return r;
}

/* Read all parts that this thread has claimed. */
static int read_mine(struct rd_random *random, struct buffer *buffer)
{
	struct unpacker *unpack = buffer->unpacker;
	unsigned int first, end;
	bool has_places;
	int r = 0;

	get_packs(random->packs, unpack, &has_places);
	if (!has_places)
		r = rd_random_ask(random, find_places, unpack);
	if (!r)
		r = read_heads(random, buffer);
	for (first = 0; first < unpack->nr_parts && !r; first = end) {
		end = plan(unpack, first);
		if (unpack->nr_fetches)
			r = read_parts(random, buffer, first, end);
	}
	return r;
}

/* --- */

int rd_random_read_packs(struct rd_random *random, struct buffer *buffer, unsigned int nr)
{
	struct unpacker *unpack = buffer->unpacker;
	unsigned int i;
	int r, s = 0;

	make_parts(unpack, &buffer->known, nr);
	do {
		r = share(random->packs, buffer);
		if (r > 0)
			s = read_mine(random, buffer);
	} while (r > 0 && !s);
	/* After an error, others may wait for what is still claimed. */
	for (i = 0; i < unpack->nr_parts; i++)
		if (unpack->parts[i].is_mine)
			give_back(random->packs, &unpack->parts[i], false);
	r = s ? s : r;
	/* What is in flight has the buffer. */
	s = 0;
	while (!s && rd_ring_busy(buffer->ring))
		s = rd_ring_wait(buffer->ring);
	return r ? r : s;
}

struct unpacker *rd_random_unpacker_new(void)
{
	struct unpacker *unpack = calloc(1, sizeof(*unpack));

	if (!unpack)
		return NULL;
	unpack->packer = rd_packer_new();
	if (posix_memalign((void **)&unpack->bytes, RD_BLOCK_SIZE, READ_BYTES))
		unpack->bytes = NULL;
	if (unpack->packer && unpack->bytes)
		return unpack;
	rd_random_unpacker_free(unpack);
	return NULL;
}

void rd_random_unpacker_free(struct unpacker *unpack)
{
	if (!unpack)
		return;
	rd_packer_free(unpack->packer);
	free(unpack->bytes);
	free(unpack);
}

int rd_random_make_packs(struct rd_random *random)
{
	struct random_packs *packs = calloc(1, sizeof(*packs));
	unsigned int i;

	random->packs = packs;
	if (!packs)
		return -ENOMEM;
	pthread_mutex_init(&packs->lock, NULL);
	pthread_cond_init(&packs->has_loaded, NULL);
	/* Pages that are never touched take no memory. */
	packs->packs = calloc(NR_PACK_SETS * WAYS, sizeof(*packs->packs));
	packs->blocks = calloc(NR_GROUPS, RD_PACK_GROUP_SIZE);
	if (!packs->packs || !packs->blocks)
		return -ENOMEM;
	for (i = 0; i < NR_GROUPS; i++)
		packs->groups[i].blocks = packs->blocks + (size_t)i * RD_PACK_GROUP_SIZE;
	return 0;
}

void rd_random_free_packs(struct rd_random *random)
{
	if (!random->packs)
		return;
	free(random->packs->packs);
	free(random->packs->blocks);
	free(random->packs);
}
