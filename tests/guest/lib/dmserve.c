// SPDX-License-Identifier: GPL-2.0
/*
 * What bats tests do hundreds of times, in one process that they talk to: an
 * emulated machine takes a good part of a second to start a program.
 *
 * A request is a line, its words separated by tabs. The answer is lines that
 * begin with a space, and then one that begins with a dot: "." for success, or
 * "." and the error as strerror() has it.
 *
 *   create NAME			with a node in /dev/mapper
 *   remove NAME			tries again for two seconds where it is busy
 *   load NAME rw|ro TABLE		lines of the table end with "|"
 *   clear NAME
 *   resume NAME, suspend NAME [noflush]
 *   message NAME TEXT [SIZE]		SIZE of the whole request's buffer
 *   status|table NAME [inactive]	without start, length and type in front
 *   events NAME
 *   names
 *   devno PATH
 *   log				what the kernel said since the last time
 *   hash PATH BYTES			of that many, read past the page cache
 *   zero PATH FIRST BYTES
 *   poke PATH OFFSET BYTES		write random data
 *   fill PATH FIRST SECTORS LETTER	write sectors that say so: letter and number
 *   read PATH FIRST SECTORS		what they say, in ranges "b10,8;z,8;p800,8":
 *				letter, number of the first in hex, count. z: zeros,
 *				e: an I/O error, ?: something else
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dmreq.h"

#define MAX_WORDS	8
#define CHUNK		(256U << 10)

struct words {
	int nr;
	char *word[MAX_WORDS];
};

static int log_fd;
static char *chunk;		/* aligned */

static const char *word(const struct words *w, int n)
{
	return n < w->nr ? w->word[n] : "";
}

/*
 * ---- Devices ----
 */

static void node_path(char *path, size_t size, const char *name)
{
	snprintf(path, size, "/dev/mapper/%s", name);
}

static int do_create(const struct words *w)
{
	struct dmreq rq;
	char path[256];
	int r;

	dmreq_begin(&rq, word(w, 1));
	r = dmreq_send(&rq, DM_DEV_CREATE, sizeof(*rq.head));
	if (r)
		return r;
	node_path(path, sizeof(path), word(w, 1));
	unlink(path);
	r = mknod(path, S_IFBLK | 0600, makedev(major(rq.head->dev), minor(rq.head->dev)));
	return r ? -errno : 0;
}

static int do_remove(const struct words *w)
{
	char path[256];
	int tries, r;

	for (tries = 0; tries < 1000; tries++) {
		r = dmreq_simple(word(w, 1), DM_DEV_REMOVE, 0);
		if (r != -EBUSY)
			break;
		usleep(2000);
	}
	if (!r) {
		node_path(path, sizeof(path), word(w, 1));
		unlink(path);
	}
	return r;
}

static int add_line(struct dmreq *rq, const char *line)
{
	unsigned long long start, sectors;
	char type[DM_MAX_TYPE_NAME];
	int end = 0;

	if (sscanf(line, "%llu %llu %15s %n", &start, &sectors, type, &end) != 3)
		return -ENOMSG;
	return dmreq_add_target(rq, start, sectors, type, line + end);
}

static int do_load(const struct words *w)
{
	char *rest = w->word[3], *line;
	struct dmreq rq;
	int r;

	if (w->nr != 4)
		return -ENOMSG;
	dmreq_begin(&rq, word(w, 1));
	if (!strcmp(word(w, 2), "ro"))
		rq.head->flags |= DM_READONLY_FLAG;
	while ((line = strsep(&rest, "|"))) {
		if (!*line)
			continue;
		r = add_line(&rq, line);
		if (r)
			return r;
	}
	return dmreq_send(&rq, DM_TABLE_LOAD, 1);
}

static int do_clear(const struct words *w)
{
	return dmreq_simple(word(w, 1), DM_TABLE_CLEAR, 0);
}

static int do_resume(const struct words *w)
{
	return dmreq_simple(word(w, 1), DM_DEV_SUSPEND, 0);
}

static int do_suspend(const struct words *w)
{
	bool noflush = !strcmp(word(w, 2), "noflush");

	return dmreq_simple(word(w, 1), DM_DEV_SUSPEND,
			    DM_SUSPEND_FLAG | (noflush ? DM_NOFLUSH_FLAG : 0));
}

static int do_message(const struct words *w)
{
	size_t size = strtoul(word(w, 3), NULL, 0);
	struct dmreq rq;
	int r;

	dmreq_begin(&rq, word(w, 1));
	r = dmreq_set_message(&rq, 0, word(w, 2), strlen(word(w, 2)) + 1);
	if (!r)
		r = dmreq_send(&rq, DM_TARGET_MSG, size);
	if (r)
		return r;
	if (rq.head->flags & DM_BUFFER_FULL_FLAG)
		return -ENOBUFS;
	if (dmreq_text(&rq))
		printf(" %s\n", dmreq_text(&rq));
	return 0;
}

static int print_targets(const struct words *w, uint32_t flags)
{
	const struct dm_target_spec *spec;
	struct dmreq rq;
	unsigned int i;
	int r;

	dmreq_begin(&rq, word(w, 1));
	rq.head->flags = flags;
	if (!strcmp(word(w, 2), "inactive"))
		rq.head->flags |= DM_QUERY_INACTIVE_TABLE_FLAG;
	r = dmreq_send(&rq, DM_TABLE_STATUS, 65536);
	if (r)
		return r;
	for (i = 0; (spec = dmreq_target(&rq, i)); i++)
		printf(" %s\n", (const char *)(spec + 1));
	return 0;
}

static int do_status(const struct words *w)
{
	return print_targets(w, 0);
}

static int do_table(const struct words *w)
{
	return print_targets(w, DM_STATUS_TABLE_FLAG);
}

static int do_events(const struct words *w)
{
	struct dmreq rq;
	int r;

	dmreq_begin(&rq, word(w, 1));
	r = dmreq_send(&rq, DM_DEV_STATUS, sizeof(*rq.head));
	if (!r)
		printf(" %u\n", rq.head->event_nr);
	return r;
}

static int do_names(const struct words *w)
{
	const struct dm_name_list *names;
	struct dmreq rq;
	int r;

	(void)w;
	dmreq_begin(&rq, "");
	r = dmreq_send(&rq, DM_LIST_DEVICES, 65536);
	if (r)
		return r;
	names = (void *)((char *)rq.head + rq.head->data_start);
	while (names->dev) {
		printf(" %s\n", names->name);
		if (!names->next)
			break;
		names = (void *)((char *)names + names->next);
	}
	return 0;
}

static int do_devno(const struct words *w)
{
	struct stat st;

	if (stat(word(w, 1), &st))
		return -errno;
	printf(" %u:%u\n", major(st.st_rdev), minor(st.st_rdev));
	return 0;
}

/*
 * ---- The log ----
 */

/* A record: "prefix;text\n", and continuation lines that nobody needs here. */
static int do_log(const struct words *w)
{
	char record[8192], *text;
	ssize_t len;

	(void)w;
	for (;;) {
		len = read(log_fd, record, sizeof(record) - 1);
		if (len < 0 && errno == EPIPE)
			continue;
		if (len <= 0)
			break;
		record[len] = 0;
		text = strchr(record, ';');
		text = text ? text + 1 : record;
		text[strcspn(text, "\n")] = 0;
		printf(" %s\n", text);
	}
	return errno == EAGAIN ? 0 : -errno;
}

/*
 * ---- Data ----
 */

/* FNV, a word at a time: to tell contents apart, not to resist anybody. */
static uint64_t hash_words(uint64_t hash, const void *data, size_t len)
{
	const uint64_t *p = data;

	for (; len >= sizeof(*p); len -= sizeof(*p))
		hash = (hash ^ *p++) * 0x100000001b3ULL;
	return hash;
}

static int do_hash(const struct words *w)
{
	uint64_t left = strtoull(word(w, 2), NULL, 0);
	uint64_t hash = 0xcbf29ce484222325ULL;
	int fd = open(word(w, 1), O_RDONLY | O_DIRECT);
	ssize_t len = 0;

	if (fd < 0)
		return -errno;
	while (left) {
		len = read(fd, chunk, left < CHUNK ? left : CHUNK);
		if (len <= 0)
			break;
		hash = hash_words(hash, chunk, len);
		left -= len;
	}
	len = left ? len ? -errno : -ENODATA : 0;
	close(fd);
	if (!len)
		printf(" %016llx\n", (unsigned long long)hash);
	return len;
}

static int write_at(const char *path, uint64_t offset, uint64_t left, bool random)
{
	int fd = open(path, O_WRONLY | O_DIRECT);
	int r = 0;

	if (fd < 0)
		return -errno;
	memset(chunk, 0, CHUNK);
	while (left && !r) {
		size_t len = left < CHUNK ? left : CHUNK;

		if (random && getrandom(chunk, len > 256 ? 256 : len, 0) < 0)
			r = -errno;
		else if (pwrite(fd, chunk, len, offset) != (ssize_t)len)
			r = -errno;
		offset += len;
		left -= len;
	}
	close(fd);
	return r;
}

static int do_zero(const struct words *w)
{
	return write_at(word(w, 1), strtoull(word(w, 2), NULL, 0),
			strtoull(word(w, 3), NULL, 0), false);
}

static int do_poke(const struct words *w)
{
	return write_at(word(w, 1), strtoull(word(w, 2), NULL, 0),
			strtoull(word(w, 3), NULL, 0), true);
}

/*
 * ---- Sectors that say where they were written ----
 */

#define SECTOR	512U
#define WORDS	(SECTOR / sizeof(uint64_t))

static void label(uint64_t *sector, char letter, uint64_t number)
{
	size_t i;

	for (i = 0; i < WORDS; i++)
		sector[i] = (uint64_t)letter << 56 | number;
}

static int do_fill(const struct words *w)
{
	uint64_t first = strtoull(word(w, 2), NULL, 0);
	uint64_t left = strtoull(word(w, 3), NULL, 0);
	int fd = open(word(w, 1), O_WRONLY | O_DIRECT);
	int r = 0;

	if (fd < 0)
		return -errno;
	while (left && !r) {
		uint64_t n = left < CHUNK / SECTOR ? left : CHUNK / SECTOR, i;

		for (i = 0; i < n; i++)
			label((uint64_t *)chunk + i * WORDS, *word(w, 4), first + i);
		if (pwrite(fd, chunk, n * SECTOR, first * SECTOR) != (ssize_t)(n * SECTOR))
			r = -errno;
		first += n;
		left -= n;
	}
	close(fd);
	return r;
}

/* A run of sectors; its letter is 0 before the first. */
struct run {
	char letter;
	uint64_t first;
	uint64_t len;
	bool printed;
};

static void end_run(struct run *run)
{
	if (run->letter)
		printf("%s%c", run->printed ? ";" : " ", run->letter);
	if (run->letter && !strchr("ze?", run->letter))
		printf("%llx", (unsigned long long)run->first);
	if (run->letter)
		printf(",%llx", (unsigned long long)run->len);
	run->printed = run->letter;
}

static void add_sector(struct run *run, char letter, uint64_t number)
{
	if (letter != run->letter || number != run->first + run->len) {
		end_run(run);
		run->letter = letter;
		run->first = number;
		run->len = 0;
	}
	run->len++;
}

static void read_sector(struct run *run, const uint64_t *sector)
{
	uint64_t same = 0, next = run->first + run->len;
	char letter = sector[0] >> 56;
	size_t i;

	for (i = 1; i < WORDS; i++)
		same |= sector[i] ^ sector[0];
	/* Those that say nothing follow each other. */
	if (same || (sector[0] && (letter < 'A' || letter > 'z')))
		add_sector(run, '?', next);
	else if (!sector[0])
		add_sector(run, 'z', next);
	else
		add_sector(run, letter, sector[0] & ((1ULL << 56) - 1));
}

static int do_read(const struct words *w)
{
	uint64_t at = strtoull(word(w, 2), NULL, 0);
	uint64_t end = at + strtoull(word(w, 3), NULL, 0), n, i;
	int fd = open(word(w, 1), O_RDONLY | O_DIRECT);
	struct run run = { 0 };

	if (fd < 0)
		return -errno;
	for (; at < end; at += n) {
		/* By blocks, so that an error is where it belongs. */
		n = 8 - at % 8;
		if (n > end - at)
			n = end - at;
		if (pread(fd, chunk, n * SECTOR, at * SECTOR) == (ssize_t)(n * SECTOR))
			for (i = 0; i < n; i++)
				read_sector(&run, (uint64_t *)chunk + i * WORDS);
		else
			for (i = 0; i < n; i++)
				add_sector(&run, 'e', run.first + run.len);
	}
	close(fd);
	end_run(&run);
	printf("\n");
	return 0;
}

/*
 * ---- Requests ----
 */

static const struct command {
	const char *name;
	int (*run)(const struct words *w);
} commands[] = {
	{ "create", do_create }, { "remove", do_remove }, { "load", do_load },
	{ "clear", do_clear }, { "resume", do_resume }, { "suspend", do_suspend },
	{ "message", do_message }, { "status", do_status }, { "table", do_table },
	{ "events", do_events }, { "names", do_names }, { "devno", do_devno },
	{ "log", do_log }, { "hash", do_hash }, { "zero", do_zero },
	{ "poke", do_poke }, { "fill", do_fill }, { "read", do_read },
	{ NULL }
};

static int run_line(char *line)
{
	const struct command *command;
	struct words w = { 0 };

	while (w.nr < MAX_WORDS && line)
		w.word[w.nr++] = strsep(&line, "\t");
	for (command = commands; command->name; command++) {
		if (!strcmp(command->name, w.word[0]))
			return command->run(&w);
	}
	return -EOPNOTSUPP;
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int r;

	dmreq_open();
	chunk = aligned_alloc(4096, CHUNK);
	log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (!chunk || log_fd < 0)
		return 1;
	lseek(log_fd, 0, SEEK_END);
	while ((len = getline(&line, &size, stdin)) > 0) {
		line[len - 1] = 0;
		r = run_line(line);
		printf(".%s\n", r ? strerror(-r) : "");
		fflush(stdout);
	}
	free(line);
	return 0;
}
