// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that compute; see workers.h. One mutex protects two queues, to the threads and
 * from them. An eventfd tells the owner's ring that the second is not empty.
 *
 * The ring polls the eventfd only while a job is out, so that a ring with nothing else to
 * do does not wait for ever.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "workers.h"

#define MAX_THREADS	16

struct queue {
	struct rd_job *first, **end;
};

struct rd_workers {
	struct rd_ring *ring;
	struct rd_op poll;
	bool polling;
	unsigned int busy;		/* the owner's count */
	int event;

	pthread_mutex_t lock;		/* protects all fields below */
	pthread_cond_t work;
	struct queue todo;
	struct queue ready;
	bool stop;

	unsigned int nr_threads;
	pthread_t threads[MAX_THREADS];
};

static void queue_init(struct queue *queue)
{
	queue->first = NULL;
	queue->end = &queue->first;
}

static void queue_put(struct queue *queue, struct rd_job *job)
{
	job->next = NULL;
	*queue->end = job;
	queue->end = &job->next;
}

static struct rd_job *queue_take(struct queue *queue)
{
	struct rd_job *job = queue->first;

	if (job) {
		queue->first = job->next;
		if (!queue->first)
			queue->end = &queue->first;
	}
	return job;
}

static void ring_bell(struct rd_workers *workers)
{
	u64 one = 1;

	/* Other errors mean that the count is near 2^64. */
	while (write(workers->event, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void *thread_main(void *arg)
{
	struct rd_thread thread = { .hasher = rd_hasher_new(), .packer = rd_packer_new() };
	struct rd_workers *workers = arg;

	if (!thread.hasher || !thread.packer)
		abort();
	pthread_mutex_lock(&workers->lock);
	while (!workers->stop) {
		struct rd_job *job = queue_take(&workers->todo);

		if (!job) {
			pthread_cond_wait(&workers->work, &workers->lock);
			continue;
		}
		pthread_mutex_unlock(&workers->lock);
		job->run(job, &thread);
		pthread_mutex_lock(&workers->lock);
		queue_put(&workers->ready, job);
		ring_bell(workers);
	}
	pthread_mutex_unlock(&workers->lock);
	rd_packer_free(thread.packer);
	rd_hasher_free(thread.hasher);
	return NULL;
}

static unsigned int nr_cores(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return CPU_COUNT(&set);
}

static void take_ready(struct rd_op *op, int r);

static void start_polling(struct rd_workers *workers)
{
	if (!workers->ring || workers->polling || !workers->busy)
		return;
	workers->polling = true;
	workers->poll = (struct rd_op){
		.kind = RD_OP_POLL,
		.fd = workers->event,
		.done = take_ready,
		.ctx = workers,
	};
	rd_ring_submit(workers->ring, &workers->poll);
}

static void take_ready(struct rd_op *op, int r)
{
	struct rd_workers *workers = op->ctx;
	struct rd_job *job;
	struct queue ready;
	u64 count;

	(void)r;
	workers->polling = false;
	if (read(workers->event, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
	pthread_mutex_lock(&workers->lock);
	ready = workers->ready;
	if (!ready.first)
		ready.end = &ready.first;
	queue_init(&workers->ready);
	pthread_mutex_unlock(&workers->lock);

	while (ready.first) {
		job = ready.first;
		ready.first = job->next;
		workers->busy--;
		job->done(job);
	}
	start_polling(workers);
}

int rd_workers_fd(const struct rd_workers *workers)
{
	return workers->event;
}

void rd_workers_reap(struct rd_workers *workers)
{
	take_ready(&workers->poll, 0);
}

int rd_workers_new(struct rd_workers **ret, struct rd_ring *ring)
{
	struct rd_workers *workers = calloc(1, sizeof(*workers));
	unsigned int wanted = nr_cores();
	int r = 0;

	if (!workers)
		return -ENOMEM;
	workers->ring = ring;
	workers->poll.ctx = workers;
	workers->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (workers->event < 0) {
		r = -errno;
		free(workers);
		return r;
	}
	queue_init(&workers->todo);
	queue_init(&workers->ready);
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->work, NULL);
	if (wanted > MAX_THREADS)
		wanted = MAX_THREADS;
	while (workers->nr_threads < wanted) {
		r = -pthread_create(&workers->threads[workers->nr_threads], NULL,
				    thread_main, workers);
		if (r)
			break;
		workers->nr_threads++;
	}
	if (!workers->nr_threads) {
		rd_workers_free(workers);
		return r;
	}
	*ret = workers;
	return 0;
}

void rd_workers_free(struct rd_workers *workers)
{
	unsigned int i;

	if (!workers)
		return;
	pthread_mutex_lock(&workers->lock);
	workers->stop = true;
	pthread_cond_broadcast(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	for (i = 0; i < workers->nr_threads; i++)
		pthread_join(workers->threads[i], NULL);
	/* End the poll, if the ring has one. */
	ring_bell(workers);
	pthread_mutex_destroy(&workers->lock);
	pthread_cond_destroy(&workers->work);
	close(workers->event);
	free(workers);
}

void rd_workers_give(struct rd_workers *workers, struct rd_job *job)
{
	workers->busy++;
	pthread_mutex_lock(&workers->lock);
	queue_put(&workers->todo, job);
	pthread_cond_signal(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	start_polling(workers);
}
