// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: LD_PRELOAD=io-faults.so IO_FAULTS=SEED:ONE_IN:KIND PROGRAM...
 *        LD_PRELOAD=io-faults.so IO_FAULTS=OFFSET:LEN:bad PROGRAM...
 *
 * With the first, one in ONE_IN reads and writes of files, SQLite's included,
 *
 *	short	does a part, as when a signal interrupts the kernel, or memory for an
 *		io_uring's submission is short
 *	error	fails with EIO or ENOSPC; so do flushes, truncations and punches
 *	again	of io_uring ends with EAGAIN, as often as it is not given to a thread that may wait
 *
 * With the second, reads of these bytes of a file "data" fail.
 *
 * Terminals, pipes and sockets are left alone. IO_FAULTS_LOG=FILE gets a line for each fault.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* glibc's own, which those below stand before. */
#define REAL(name)	((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static unsigned long long state;
static unsigned int one_in;
static int want_errors, want_again;
static unsigned long long bad_begin, bad_end;

__attribute__((constructor))
static void begin(void)
{
	char kind[16] = "";
	const char *wish = getenv("IO_FAULTS");

	if (!wish || sscanf(wish, "%llu:%u:%15s", &state, &one_in, kind) != 3)
		one_in = 0;
	state = state * 2654435761ULL + 88172645463325252ULL;
	want_errors = !strcmp(kind, "error");
	want_again = !strcmp(kind, "again");
	if (!strcmp(kind, "bad")) {
		sscanf(wish, "%llu", &bad_begin);
		bad_end = bad_begin + one_in;
		one_in = 0;
	}
}

static int is_bad(int fd, off_t offset, size_t len)
{
	char link[64], path[4096] = "";
	unsigned long long at = offset;
	size_t end;

	if (at >= bad_end || at + len <= bad_begin)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	end = readlink(link, path, sizeof(path) - 1) < 0 ? 0 : strlen(path);
	if (end < 5 || strcmp(path + end - 5, "/data"))
		return 0;
	errno = EIO;
	return 1;
}

/* xorshift64*; that threads mix it up does no harm. */
static unsigned int below(unsigned int limit)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL >> 33) % limit;
}

static void note(const char *what, int fd, long long number)
{
	const char *path = getenv("IO_FAULTS_LOG");
	FILE *log = path ? fopen(path, "a") : NULL;

	if (!log)
		return;
	fprintf(log, "%s of %d: %lld\n", what, fd, number);
	fclose(log);
}

static int is_hit(int fd)
{
	struct stat st;

	if (!one_in || fd <= 2 || below(one_in))
		return 0;
	return !fstat(fd, &st) && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
}

/* 0, or -1 with errno; those that read have no ENOSPC. */
static int fails(const char *what, int fd, int reads)
{
	int error = reads || below(2) ? EIO : ENOSPC;

	if (!want_errors || !is_hit(fd))
		return 0;
	note(what, fd, -error);
	errno = error;
	return -1;
}

/* How much of @len: in whole sectors, for O_DIRECT. */
static size_t part(const char *what, int fd, size_t len)
{
	if (want_errors || want_again || len <= 512 || !is_hit(fd))
		return len;
	len = (1 + below((len - 1) / 512)) * 512;
	note(what, fd, len);
	return len;
}

ssize_t pread64(int fd, void *buf, size_t len, off_t offset)
{
	if (is_bad(fd, offset, len) || fails("pread", fd, 1))
		return -1;
	return REAL(pread64)(fd, buf, part("pread", fd, len), offset);
}

ssize_t pwrite64(int fd, const void *buf, size_t len, off_t offset)
{
	if (fails("pwrite", fd, 0))
		return -1;
	return REAL(pwrite64)(fd, buf, part("pwrite", fd, len), offset);
}

/* The first vector is enough of a part. */
static ssize_t transfer(const char *what, int fd, const struct iovec *iov, int nr, off_t offset,
			int reads)
{
	size_t len = 0;
	int i;

	for (i = 0; i < nr; i++)
		len += iov[i].iov_len;
	if ((reads && is_bad(fd, offset, len)) || fails(what, fd, reads))
		return -1;
	len = part(what, fd, iov->iov_len);
	if (len < iov->iov_len)
		return reads ? REAL(pread64)(fd, iov->iov_base, len, offset) :
			REAL(pwrite64)(fd, iov->iov_base, len, offset);
	return reads ? REAL(preadv64)(fd, iov, nr, offset) : REAL(pwritev64)(fd, iov, nr, offset);
}

ssize_t preadv64(int fd, const struct iovec *iov, int nr, off_t offset)
{
	return transfer("preadv", fd, iov, nr, offset, 1);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int nr, off_t offset)
{
	return transfer("pwritev", fd, iov, nr, offset, 0);
}

int fdatasync(int fd)
{
	return fails("fdatasync", fd, 0) ? -1 : REAL(fdatasync)(fd);
}

int fsync(int fd)
{
	return fails("fsync", fd, 0) ? -1 : REAL(fsync)(fd);
}

int ftruncate64(int fd, off_t size)
{
	return fails("ftruncate", fd, 0) ? -1 : REAL(ftruncate64)(fd, size);
}

int fallocate64(int fd, int mode, off_t offset, off_t len)
{
	return fails("fallocate", fd, 0) ? -1 : REAL(fallocate64)(fd, mode, offset, len);
}

/* What the ring of this thread has in flight that is to be refused, by its data. */
static __thread unsigned long long refused[256];
static __thread unsigned int nr_refused;

static int forget(unsigned long long data)
{
	unsigned int i;

	for (i = 0; i < nr_refused; i++) {
		if (refused[i] == data) {
			refused[i] = refused[--nr_refused];
			return 1;
		}
	}
	return 0;
}

static void choose_refused(struct io_uring *ring)
{
	unsigned int i;

	for (i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		const struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];

		forget(sqe->user_data);
		if (sqe->opcode != IORING_OP_POLL_ADD && !(sqe->flags & IOSQE_ASYNC) &&
		    nr_refused < 256 && !below(one_in))
			refused[nr_refused++] = sqe->user_data;
	}
}

static void refuse(struct io_uring *ring)
{
	unsigned int i, end = io_uring_smp_load_acquire(ring->cq.ktail);

	for (i = *ring->cq.khead; i != end; i++) {
		struct io_uring_cqe *cqe = &ring->cq.cqes[i & ring->cq.ring_mask];

		if (!forget(cqe->user_data))
			continue;
		note("transfer", -1, -EAGAIN);
		cqe->res = -EAGAIN;
	}
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned int wait_nr)
{
	int r;

	if (one_in && !want_errors && !want_again && !below(one_in)) {
		note("submit", -1, -EAGAIN);
		return -EAGAIN;
	}
	if (!want_again)
		return REAL(io_uring_submit_and_wait)(ring, wait_nr);
	choose_refused(ring);
	r = REAL(io_uring_submit_and_wait)(ring, wait_nr);
	refuse(ring);
	return r;
}
