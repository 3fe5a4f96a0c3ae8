// SPDX-License-Identifier: GPL-2.0
/*
 * What is compressed, decoded. See decode.h.
 *
 * A thread has a context only while it computes, so whoever waits for one does not wait
 * for I/O, nor for memory.
 */
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <linux/zstd.h>

#include "decode.h"

/* More of them would not be faster than what is decoded can be copied. */
#define MAX_CONTEXTS	8U

struct context {
	struct mutex lock;		/* of whoever decodes */
	zstd_dctx *dctx;
	void *workspace;
};

static DEFINE_MUTEX(users_lock);
static unsigned int nr_users;
static unsigned int nr_contexts;
static struct context *contexts;

static void free_contexts(void)
{
	unsigned int i;

	for (i = 0; contexts && i < nr_contexts; i++) {
		vfree(contexts[i].workspace);
		mutex_destroy(&contexts[i].lock);
	}
	kfree(contexts);
	contexts = NULL;
}

static int alloc_contexts(void)
{
	size_t size = zstd_dctx_workspace_bound();
	unsigned int i;

	nr_contexts = min(num_possible_cpus(), MAX_CONTEXTS);
	contexts = kcalloc(nr_contexts, sizeof(*contexts), GFP_KERNEL);
	if (!contexts)
		return -ENOMEM;
	for (i = 0; i < nr_contexts; i++)
		mutex_init(&contexts[i].lock);
	for (i = 0; i < nr_contexts; i++) {
		struct context *context = &contexts[i];

		context->workspace = __vmalloc(size, GFP_KERNEL | __GFP_NOWARN);
		if (context->workspace)
			context->dctx = zstd_init_dctx(context->workspace, size);
		if (!context->dctx) {
			free_contexts();
			return -ENOMEM;
		}
	}
	return 0;
}

int dmr_decode_get(void)
{
	int r = 0;

	mutex_lock(&users_lock);
	if (!nr_users)
		r = alloc_contexts();
	if (!r)
		nr_users++;
	mutex_unlock(&users_lock);
	return r;
}

void dmr_decode_put(void)
{
	mutex_lock(&users_lock);
	if (!--nr_users)
		free_contexts();
	mutex_unlock(&users_lock);
}

int dmr_decode(const void *from, size_t len, void *to, size_t want)
{
	struct context *context = &contexts[raw_smp_processor_id() % nr_contexts];
	size_t got;

	mutex_lock(&context->lock);
	got = zstd_decompress_dctx(context->dctx, to, want, from, len);
	mutex_unlock(&context->lock);
	return !zstd_is_error(got) && got == want ? 0 : -EBADMSG;
}
