// SPDX-License-Identifier: GPL-2.0
/*
 * Fingerprints of frames in memory; see fp_cache.h. An entry is a slot of a page. Entries whose
 * fingerprints have the same hash are in a chain, linked both ways: a page goes as a whole, and
 * a chain may be long, of content that is everywhere.
 */
#include <stdlib.h>

#include "fp_cache.h"

#define NO_ENTRY	(-1U)
/* Entries of a chain that are looked at. */
#define MAX_STEPS	64

struct page {
	u64 frame;		/* U64_MAX: none */
	u64 used;
	struct rd_fp fps[RD_SEG_BLOCKS];
};

struct rd_fp_cache {
	unsigned int max;
	u64 now;
	struct page *pages;
	unsigned int *next, *before;	/* of an entry; the first of a chain has none before */
	unsigned int *chains;
	unsigned int mask;
};

struct rd_fp_cache *rd_fp_cache_new(unsigned int max)
{
	struct rd_fp_cache *cache = calloc(1, sizeof(*cache));
	size_t nr = (size_t)max * RD_SEG_BLOCKS, chains = 1;

	if (!cache)
		return NULL;
	while (chains < nr)
		chains *= 2;
	cache->max = max;
	cache->mask = chains - 1;
	cache->pages = calloc(max, sizeof(*cache->pages));
	cache->next = calloc(nr, sizeof(*cache->next));
	cache->before = calloc(nr, sizeof(*cache->before));
	cache->chains = calloc(chains, sizeof(*cache->chains));
	if (cache->pages && cache->next && cache->before && cache->chains) {
		rd_fp_cache_clear(cache);
		return cache;
	}
	rd_fp_cache_free(cache);
	return NULL;
}

void rd_fp_cache_free(struct rd_fp_cache *cache)
{
	if (!cache)
		return;
	free(cache->pages);
	free(cache->next);
	free(cache->before);
	free(cache->chains);
	free(cache);
}

void rd_fp_cache_clear(struct rd_fp_cache *cache)
{
	unsigned int i;

	for (i = 0; i < cache->max; i++)
		cache->pages[i].frame = U64_MAX;
	memset(cache->chains, 0xff, (cache->mask + 1ULL) * sizeof(*cache->chains));
}

static const struct rd_fp *fp_of(const struct rd_fp_cache *cache, unsigned int entry)
{
	return &cache->pages[entry / RD_SEG_BLOCKS].fps[entry % RD_SEG_BLOCKS];
}

static unsigned int *chain_of(const struct rd_fp_cache *cache, const struct rd_fp *fp)
{
	u32 hash;

	memcpy(&hash, fp->b + 8, sizeof(hash));
	return &cache->chains[hash & cache->mask];
}

static void link_entry(struct rd_fp_cache *cache, unsigned int entry)
{
	unsigned int *chain = chain_of(cache, fp_of(cache, entry));

	cache->next[entry] = *chain;
	cache->before[entry] = NO_ENTRY;
	if (*chain != NO_ENTRY)
		cache->before[*chain] = entry;
	*chain = entry;
}

static void unlink_entry(struct rd_fp_cache *cache, unsigned int entry)
{
	unsigned int next = cache->next[entry], before = cache->before[entry];

	if (next != NO_ENTRY)
		cache->before[next] = before;
	if (before != NO_ENTRY)
		cache->next[before] = next;
	else
		*chain_of(cache, fp_of(cache, entry)) = next;
}

static void drop_page(struct rd_fp_cache *cache, struct page *page)
{
	unsigned int i, first = (page - cache->pages) * RD_SEG_BLOCKS;

	if (page->frame == U64_MAX)
		return;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&page->fps[i]))
			unlink_entry(cache, first + i);
	page->frame = U64_MAX;
}

static struct page *page_of(const struct rd_fp_cache *cache, u64 frame)
{
	unsigned int i;

	for (i = 0; i < cache->max; i++)
		if (cache->pages[i].frame == frame)
			return &cache->pages[i];
	return NULL;
}

/* One that is free, or the one that was not used for the longest time. */
static struct page *oldest_page(const struct rd_fp_cache *cache)
{
	struct page *page, *oldest = cache->pages;

	for (page = cache->pages; page < cache->pages + cache->max; page++) {
		if (page->frame == U64_MAX)
			return page;
		if (page->used < oldest->used)
			oldest = page;
	}
	return oldest;
}

const struct rd_fp *rd_fp_cache_get(struct rd_fp_cache *cache, u64 frame)
{
	struct page *page = page_of(cache, frame);

	if (!page)
		return NULL;
	page->used = ++cache->now;
	return page->fps;
}

void rd_fp_cache_put(struct rd_fp_cache *cache, u64 frame, const struct rd_fp *fps)
{
	struct page *page = page_of(cache, frame);
	unsigned int i, first;

	if (!page)
		page = oldest_page(cache);
	drop_page(cache, page);
	page->frame = frame;
	page->used = ++cache->now;
	memcpy(page->fps, fps, RD_FPS_SIZE);
	first = (page - cache->pages) * RD_SEG_BLOCKS;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_is_zero(&fps[i]))
			link_entry(cache, first + i);
}

unsigned int rd_fp_cache_find(const struct rd_fp_cache *cache, const struct rd_fp *fp,
			      u64 *places, unsigned int max)
{
	unsigned int entry = *chain_of(cache, fp), nr = 0, steps = 0;

	for (; entry != NO_ENTRY && nr < max && steps < MAX_STEPS; steps++) {
		if (rd_fp_equal(fp_of(cache, entry), fp))
			places[nr++] = cache->pages[entry / RD_SEG_BLOCKS].frame * RD_SEG_BLOCKS +
				entry % RD_SEG_BLOCKS;
		entry = cache->next[entry];
	}
	return nr;
}
