// SPDX-License-Identifier: GPL-2.0
/* The page map of the catalog. See pages.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/crc32c.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/plain.h"
#include "pages.h"

#define MAGIC		0x3153454741504452ULL	/* "RDPAGES1" */
#define FORMAT		1
#define ENTRIES		4096			/* where they begin */
#define NO_LOG		1			/* as a salt: there may be none */
#define TRIES		20
#define TRY_US		1000

struct head {
	__le64 magic;
	__le32 crc;
	__le32 format;
	__le64 salt;
	__le64 salt_before;
	u8 zeros[32];
};

_Static_assert(sizeof(struct head) == 64, "head of the page map");

static __le32 crc_of(const struct head *head)
{
	struct head copy = *head;

	copy.crc = 0;
	return cpu_to_le32(~crc32c(~0U, &copy, sizeof(copy)));
}

/* --- the file */

static int put(int fd, const void *data, size_t len, u64 offset)
{
	u64 id = rd_trace_buffer(RD_TRACE_PAGES, data, len, offset);
	int r = rd_failpoint("pages-write");
	ssize_t n;

	if (r)
		return r;
	n = pwrite(fd, data, len, offset);
	if (n < 0 || (size_t)n < len)
		return n < 0 ? -errno : -ENOSPC;
	rd_trace_written(id);
	return 0;
}

int rd_pages_sync(int fd)
{
	int r = rd_failpoint("pages-sync");
	u64 id;

	if (r)
		return r;
	id = rd_trace_sync(RD_TRACE_PAGES);
	if (fdatasync(fd))
		return -errno;
	rd_trace_synced(id);
	return 0;
}

/* --- the head */

static int try_head(int fd, struct head *head)
{
	ssize_t n = pread(fd, head, sizeof(*head), 0);

	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(*head) || head->magic != cpu_to_le64(MAGIC) ||
	    head->crc != crc_of(head) || head->format != cpu_to_le32(FORMAT))
		return -EUCLEAN;
	return 0;
}

/* Another process may be in the middle of writing it. */
static int read_head(int fd, struct head *head)
{
	unsigned int tries = TRIES;
	int r;

	while ((r = try_head(fd, head)) == -EUCLEAN && --tries)
		usleep(TRY_US);
	return r;
}

int rd_pages_check(int fd)
{
	struct head head;

	return read_head(fd, &head);
}

static int write_head(int fd, u64 salt, u64 salt_before)
{
	struct head head = {
		.magic = cpu_to_le64(MAGIC),
		.format = cpu_to_le32(FORMAT),
		.salt = cpu_to_le64(salt),
		.salt_before = cpu_to_le64(salt_before),
	};

	head.crc = crc_of(&head);
	return put(fd, &head, sizeof(head), 0);
}

int rd_pages_open(int *ret_fd, const char *catalog, bool create, bool writable)
{
	RD_FREE char *path = NULL;
	int fd, r = 0;

	if (asprintf(&path, "%s" RD_PAGES_SUFFIX, catalog) < 0)
		return -ENOMEM;
	fd = rd_open_plain(path, create ? O_RDWR | O_CREAT | O_TRUNC :
			   writable ? O_RDWR : O_RDONLY, 0600);
	if (fd < 0)
		return fd;
	if (create)
		r = write_head(fd, 0, 0);
	if (r)
		close(fd);
	else
		*ret_fd = fd;
	return r;
}

int rd_pages_know_format(const char *catalog)
{
	RD_CLOSE int fd = -1;
	RD_FREE char *path = NULL;
	struct head head;

	if (asprintf(&path, "%s" RD_PAGES_SUFFIX, catalog) < 0)
		return -ENOMEM;
	fd = rd_open_plain(path, O_RDONLY, 0);
	/* What is missing or damaged is told where it is used. */
	if (fd < 0 || pread(fd, &head, sizeof(head), 0) < (ssize_t)sizeof(head) ||
	    head.magic != cpu_to_le64(MAGIC) || head.crc != crc_of(&head) ||
	    head.format == cpu_to_le32(FORMAT))
		return 0;
	return rd_err_format(path, le32_to_cpu(head.format), FORMAT);
}

int rd_pages_begin_log(int fd, u64 salt, u64 salt_before)
{
	struct head head;
	int r = read_head(fd, &head);

	/* That the file of the last log, which has ended, is gone may not be stable. */
	if (!r && !salt_before && !head.salt)
		salt_before = head.salt_before;
	if (!r)
		r = write_head(fd, salt, salt_before ? salt_before : NO_LOG);
	return r ? r : rd_pages_sync(fd);
}

bool rd_pages_log_is_known(int fd)
{
	struct head head;

	return !read_head(fd, &head) && !head.salt_before;
}

int rd_pages_log_is_stable(int fd)
{
	struct head head;
	int r;

	r = read_head(fd, &head);
	/* That this is stable as well does not matter. */
	return r || !head.salt_before ? r : write_head(fd, le64_to_cpu(head.salt), 0);
}

int rd_pages_end_log(int fd)
{
	struct head head;
	int r;

	r = read_head(fd, &head);
	if (!r && !head.salt)
		return 0;
	if (!r)
		r = write_head(fd, 0, le64_to_cpu(head.salt));
	return r ? r : rd_pages_sync(fd);
}

int rd_pages_need_log(int fd, bool *ret)
{
	struct head head;
	int r;

	r = read_head(fd, &head);
	*ret = !r && head.salt && !head.salt_before;
	return r;
}

int rd_pages_know_log(int fd, u64 salt, bool *ret)
{
	struct head head;
	int r;

	r = read_head(fd, &head);
	*ret = !r && (le64_to_cpu(head.salt) == salt || le64_to_cpu(head.salt_before) == salt);
	return r;
}

/* --- entries */

static u64 entry_offset(u64 offset)
{
	return ENTRIES + offset / RD_PAGE_SIZE * sizeof(__le64);
}

/* Where the page is need not be in it: the page's own check says that. */
static __le64 entry_of(const void *page)
{
	u8 hash[SHA256_DIGEST_LENGTH];
	__le64 entry;

	SHA256(page, RD_PAGE_SIZE - RD_PAGE_CHECK, hash);
	memcpy(&entry, hash, sizeof(entry));
	return entry ? entry : cpu_to_le64(1);
}

/* What cannot be read agrees with nothing. */
static __le64 read_entry(int fd, u64 offset, bool *ret_read)
{
	__le64 entry = 0;
	ssize_t n = pread(fd, &entry, sizeof(entry), entry_offset(offset));

	/* The map ends where the catalog did when it was last written to. */
	*ret_read = n == sizeof(entry) || !n;
	return entry;
}

int rd_pages_note(int fd, const void *page, u64 offset)
{
	__le64 entry = entry_of(page);

	return put(fd, &entry, sizeof(entry), entry_offset(offset));
}

bool rd_pages_agree(int fd, const void *page, u64 offset)
{
	bool is_read;
	__le64 entry = read_entry(fd, offset, &is_read);

	return is_read && entry && entry == entry_of(page);
}

bool rd_pages_has(int fd, u64 offset)
{
	bool is_read;

	return read_entry(fd, offset, &is_read) || !is_read;
}

int rd_pages_cut(int fd, u64 size)
{
	u64 end = entry_offset(size);

	rd_trace_cut(RD_TRACE_PAGES, end);
	return ftruncate(fd, end) ? -errno : 0;
}
