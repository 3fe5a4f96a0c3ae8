// SPDX-License-Identifier: GPL-2.0
/*
 * The ends of a stream of versions: a receiver is given a stream in which records were changed,
 * left out or repeated, as a file or as one end of a conversation; and a sender gets such answers.
 * Checksums are right again, so that what is wrong is what is in the records.
 *
 * Whatever comes, the pool is as check wants it, and a version that claims to be one of the
 * sender's has its content. The pool is put back after each input. Slow, because SQLite is.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/engine/care/check.h"
#include "pool/engine/read/random.h"
#include "pool/engine/snapshot/snapshot.h"
#include "pool/engine/version/session.h"
#include "pool/stream/receive.h"
#include "pool/stream/send.h"
#include "fuzz.h"

#define NR_VERSIONS	3
#define IMAGE_SIZE	(5U << 20)
#define MAX_RECORDS	256

static char directory[64], from_path[96], to_path[96];

/* --- the streams */

static u8 *stream;		/* as send writes it into a file */
static size_t stream_len;
static size_t records[MAX_RECORDS];	/* where each begins */
static unsigned int nr_records;

static u8 images[NR_VERSIONS][IMAGE_SIZE];
static struct rd_version sent[NR_VERSIONS];

static u32 len_at(const u8 *head)
{
	return rd_get_u32(head + 4);
}

/* What is done to a record: a byte each for which, what, where and how. */
struct edit {
	u8 record, what, at, value;
};

static unsigned int take_edits(struct fuzz_input *input, struct edit edits[16])
{
	unsigned int nr;

	for (nr = 0; nr < 16 && input->len >= 4; nr++)
		edits[nr] = (struct edit){ fuzz_take(input, 1), fuzz_take(input, 1),
					   fuzz_take(input, 1), fuzz_take(input, 1) };
	return nr;
}

/* Put the record @nr, whose payload is @data, as the edits have it. */
static void put_edited(struct rd_buffer *to, unsigned int nr, u8 type, const u8 *data, u32 len,
		       const struct edit *edits, unsigned int nr_edits)
{
	unsigned int i, times = 1;
	u8 *copy = malloc(len + 256);

	must(copy);
	memset(copy + len, 0, 256);
	memcpy(copy, data, len);
	for (i = 0; i < nr_edits; i++) {
		const struct edit *edit = &edits[i];

		if (edit->record != nr)
			continue;
		switch (edit->what % 8) {
		case 0:
			times = edit->value % 3;
			break;
		case 1:
			type = edit->value;
			break;
		case 2:
			len = edit->value < len ? len - edit->value : 0;
			break;
		case 3:
			len += edit->value;
			break;
		case 4:
			if (len)
				copy[len - 1 - edit->at % len] = edit->value;
			break;
		default:
			if (len)
				copy[edit->at % len] = edit->value;
		}
		/* It has room for one that is longer. */
		if (edit->what % 8 == 3)
			break;
	}
	for (i = 0; i < times; i++)
		rd_record_put(to, type, copy, rd_min(len, RD_RECORD_MAX));
	free(copy);
}

static void edit_stream(struct rd_buffer *to, const struct edit *edits, unsigned int nr,
			char who)
{
	u8 preamble[RD_PREAMBLE];
	unsigned int i;

	rd_preamble_put(preamble, who);
	rd_buffer_put(to, preamble, sizeof(preamble));
	for (i = 0; i < nr_records; i++) {
		const u8 *head = stream + records[i];

		put_edited(to, i, head[0], head + RD_RECORD_HEAD, len_at(head), edits, nr);
	}
}

/* --- the pool that receives, as it was */

struct kept {
	char path[384];
	u8 *data;
	size_t len, size;
	struct {
		u64 at, len;
	} runs[64];
	unsigned int nr;
};

static struct kept kept[16];
static unsigned int nr_kept;

static void keep_file(const char *path)
{
	struct kept *file = &kept[nr_kept++];
	int fd = open(path, O_RDONLY);
	off_t at = 0, end;

	must(fd >= 0 && nr_kept < 16);
	snprintf(file->path, sizeof(file->path), "%s", path);
	file->size = lseek(fd, 0, SEEK_END);
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		end = lseek(fd, at, SEEK_HOLE);
		must(end > at && file->nr < 64);
		file->data = realloc(file->data, file->len + end - at);
		must(file->data);
		must(pread(fd, file->data + file->len, end - at, at) == end - at);
		file->runs[file->nr].at = at;
		file->runs[file->nr++].len = end - at;
		file->len += end - at;
		at = end;
	}
	close(fd);
}

static void each_file(const char *dir, void (*call)(const char *path))
{
	struct dirent *entry;
	char path[384];
	DIR *list = opendir(dir);

	must(list);
	while ((entry = readdir(list))) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (entry->d_type == DT_REG)
			call(path);
		else if (entry->d_name[0] != '.')
			each_file(path, call);
	}
	closedir(list);
}

static void drop_file(const char *path)
{
	must(!unlink(path));
}

static void put_back(void)
{
	const u8 *data;
	unsigned int i, run;

	each_file(to_path, drop_file);
	for (i = 0; i < nr_kept; i++) {
		int fd = open(kept[i].path, O_RDWR | O_CREAT | O_TRUNC, 0600);

		must(fd >= 0 && !ftruncate(fd, kept[i].size));
		data = kept[i].data;
		for (run = 0; run < kept[i].nr; run++) {
			ssize_t len = kept[i].runs[run].len;

			must(pwrite(fd, data, len, kept[i].runs[run].at) == len);
			data += len;
		}
		close(fd);
	}
}

/* --- what must be so */

static void must_not_be(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "check: %s\n", text);
	abort();
}

static void must_be_right(struct rd_random *random, const struct rd_version *version)
{
	struct rd_disk disk = { .version = *version, .name = "it" };
	static u8 found[IMAGE_SIZE];
	unsigned int i;

	must(!rd_random_prove(random, &disk));
	for (i = 0; i < NR_VERSIONS; i++) {
		if (version->uid != sent[i].uid || version->sum != sent[i].sum ||
		    version->size != sent[i].size)
			continue;
		must(!rd_random_read(random, &disk, found, version->size, 0));
		must(!memcmp(found, images[i], version->size));
	}
}

static int look_at_all(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct rd_buffer *all = ctx;
	struct rd_version version;
	i64 volume;
	int r = 0;

	(void)resolver;
	all->len = 0;
	for (volume = 1; volume < 8 && !r; volume++) {
		RD_ROW struct rd_row *rows = NULL;

		r = rd_versions(pool->sql, &rows, volume);
		while (!r && (r = rd_next_version(rows, &version)) > 0) {
			rd_buffer_put(all, &version, sizeof(version));
			r = 0;
		}
	}
	return r;
}

static void must_be_whole(void)
{
	struct rd_check_report report = { .wrong = must_not_be };
	struct rd_buffer all = { 0 };
	struct rd_random *random;
	struct rd_pool *pool;
	size_t at;

	must(!rd_session_open(&pool, to_path, RD_POOL_READ, "check", 0, NULL));
	must(!rd_check(pool, &report) && !report.nr_wrong);
	must(!rd_random_new(&random, pool));
	must(!rd_random_ask(random, look_at_all, &all));
	for (at = 0; at < all.len; at += sizeof(struct rd_version))
		must_be_right(random, (const struct rd_version *)(all.data + at));
	rd_buffer_free(&all);
	rd_random_free(random);
	must(!rd_session_close(pool, 0));
}

/* --- a receiver */

static bool is_name(const char *name)
{
	return *name && strlen(name) < 100 && !strchr(name, '@');
}

static bool may_write(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "other");
}

static void receive(struct fuzz_input *input, bool is_file, enum rd_share share)
{
	struct rd_receive_options options = {
		.share = share,
		.is_volume = is_name,
		.is_tag = is_name,
		.may_write = may_write,
		.limit = U64_MAX,
	};
	struct rd_wire wire = { .out = -1, .peer = "it" };
	struct rd_receive_report report;
	struct rd_buffer bytes = { 0 };
	struct edit edits[16];
	struct rd_pool *pool;
	unsigned int nr;
	char who;
	int r;

	nr = take_edits(input, edits);
	edit_stream(&bytes, edits, nr, is_file ? 'F' : 'S');
	must(!bytes.failed);
	wire.in = fuzz_file(bytes.len);
	must(pwrite(wire.in, bytes.data, bytes.len, 0) == (ssize_t)bytes.len);
	if (!is_file)
		wire.out = open("/dev/null", O_WRONLY);
	must(!rd_session_open(&pool, to_path, RD_POOL_WRITE, "receive", 0, NULL));
	r = rd_wire_begin(&wire, is_file ? 'R' : 0, &who);
	if (!r)
		r = rd_receive(pool, &wire, &options, &report);
	/* A stream that does not listen sends what a conversation does not ask for. */
	must(nr || !r || !is_file);
	rd_wire_end(&wire);
	close(wire.in);
	if (!is_file)
		close(wire.out);
	rd_session_close(pool, r);
	rd_buffer_free(&bytes);
	must_be_whole();
	put_back();
}

/* --- a sender, and who answers it */

struct answering {
	int fd;
	struct edit edits[16];
	unsigned int nr_edits, nr;
};

/* Where an answer was changed, both may wait for each other. */
static bool read_all(const struct answering *answering, void *to, size_t len)
{
	struct pollfd fd = { .fd = answering->fd, .events = POLLIN };
	ssize_t n;

	for (; len; len -= n, to = (u8 *)to + n) {
		if (answering->nr_edits && answering->nr && !poll(&fd, 1, 50))
			return false;
		n = read(fd.fd, to, len);
		if (n <= 0)
			return false;
	}
	return true;
}

static void answer(struct answering *answering, u8 type, const void *data, u32 len)
{
	struct rd_buffer out = { 0 };

	put_edited(&out, answering->nr++, type, data, len, answering->edits,
		   answering->nr_edits);
	if (out.len && write(answering->fd, out.data, out.len) < 0)
		shutdown(answering->fd, SHUT_RDWR);
	rd_buffer_free(&out);
}

/* All is lacking, and of each second segment a part is to be proven. */
static void answer_blocks(struct answering *answering, const struct rd_record *record)
{
	struct rd_buffer payload = { 0 };
	struct rd_blocks_of blocks;
	struct rd_need need = { 0 };

	must(!rd_blocks_of_get(record, &blocks));
	need.segment = blocks.segment;
	need.need = blocks.slots;
	if (blocks.segment % 2) {
		need.prove.bits[0] = need.need.bits[0];
		need.need.bits[0] = 0;
	}
	rd_need_put(&payload, &need);
	answer(answering, RD_REC_NEED, payload.data, payload.len);
	rd_buffer_free(&payload);
}

static void answer_offer(struct answering *answering)
{
	struct rd_buffer payload = { 0 };
	struct rd_want want = { 0 };

	/* The second one builds on the first. */
	if (answering->nr > 2)
		want.base = (struct rd_known){ sent[0].uid, sent[0].number, sent[0].sum };
	rd_want_put(&payload, &want);
	answer(answering, RD_REC_WANT, payload.data, payload.len);
	rd_buffer_free(&payload);
}

static void answer_one(struct answering *answering, const struct rd_record *record)
{
	u8 number[8] = { 1 }, have[RD_RECORD_MAX / RD_NAMED_SIZE];
	u32 i;

	switch (record->type) {
	case RD_REC_VOLUME:
		return answer(answering, RD_REC_HAS, "", 0);
	case RD_REC_OFFER:
		return answer_offer(answering);
	case RD_REC_SEGMENTS:
		for (i = 0; i < record->len / RD_NAMED_SIZE; i++)
			have[i] = i == 1 ? RD_HAVE_PROVE : RD_HAVE_NOT;
		return answer(answering, RD_REC_HAVE, have, i);
	case RD_REC_BLOCKS:
		return answer_blocks(answering, record);
	case RD_REC_END:
		return answer(answering, RD_REC_DONE, number, sizeof(number));
	}
}

static void *answer_all(void *arg)
{
	u8 *record_bytes = malloc(RD_RECORD_HEAD + RD_RECORD_MAX), preamble[RD_PREAMBLE];
	struct answering *answering = arg;
	struct rd_record record;
	char who;

	must(record_bytes && read_all(answering, preamble, sizeof(preamble)));
	must(!rd_preamble_get(preamble, &who) && who == 'S');
	rd_preamble_put(preamble, 'R');
	must(write(answering->fd, preamble, sizeof(preamble)) == sizeof(preamble));
	while (read_all(answering, record_bytes, RD_RECORD_HEAD)) {
		/* What it sends is right, whatever it is answered. */
		must(!rd_record_head(record_bytes, &record));
		if (!read_all(answering, record_bytes + RD_RECORD_HEAD, record.len))
			break;
		record.data = record_bytes + RD_RECORD_HEAD;
		must(rd_record_is_sound(record_bytes, &record));
		if (record.type == RD_REC_BYE)
			break;
		answer_one(answering, &record);
	}
	shutdown(answering->fd, SHUT_RDWR);
	free(record_bytes);
	return NULL;
}

static void send_to(struct fuzz_input *input)
{
	struct rd_send_pick pick = { .volume = 1, .name = "vm1", .as = "vm1" };
	struct rd_send_options options = {
		.picks = &pick,
		.nr = 1,
		.compression = rd_compression_default,
		.force = true,
	};
	struct answering answering = { 0 };
	struct rd_wire wire = { .peer = "it" };
	struct rd_send_report report;
	struct rd_pool *pool;
	pthread_t thread;
	int fds[2], r;
	char who;

	answering.nr_edits = take_edits(input, answering.edits);
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	answering.fd = fds[1];
	must(!pthread_create(&thread, NULL, answer_all, &answering));
	must(!rd_session_open(&pool, from_path, RD_POOL_READ, "send", 0, NULL));
	wire.in = fds[0];
	wire.out = fds[0];
	r = rd_wire_begin(&wire, 'S', &who);
	if (!r)
		r = rd_send(pool, &wire, &options, &report);
	must(answering.nr_edits || !r);
	rd_wire_end(&wire);
	rd_session_close(pool, r);
	close(fds[0]);
	must(!pthread_join(thread, NULL));
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	unsigned int mode = fuzz_take(&input, 1) % 5;

	if (mode == 4)
		send_to(&input);
	else
		receive(&input, !mode, mode ? mode - 1 : 0);
	return 0;
}

/* --- begin and end */

static void clean_up(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	must(!system(command));
}

static void fill(u8 *image, unsigned int block, unsigned int nr)
{
	size_t i;

	for (i = block * RD_BLOCK_SIZE; i < (block + nr) * (size_t)RD_BLOCK_SIZE; i++)
		image[i] = random();
}

static void make_images(void)
{
	fill(images[0], 0, 6);
	fill(images[0], 600, 4);
	memcpy(images[1], images[0], IMAGE_SIZE);
	fill(images[1], 3, 1);
	fill(images[1], 1100, 3);
	memcpy(images[2], images[1], IMAGE_SIZE);
	fill(images[2], 601, 1);
	memset(images[2], 0, 2 * RD_BLOCK_SIZE);
}

static void snapshot(const char *pool_path, const char *volume, unsigned int nr)
{
	struct rd_snapshot_options options = { .volume = volume, .tags = "a\0" };
	struct rd_snapshot_report report;
	struct rd_pool *pool;
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/image", directory);
	file = fopen(path, "w");
	must(file && fwrite(images[nr], 1, IMAGE_SIZE, file) == IMAGE_SIZE && !fclose(file));
	options.from = path;
	must(!rd_session_open(&pool, pool_path, RD_POOL_WRITE, "snapshot", 0, NULL));
	must(!rd_snapshot(pool, &options, &report));
	must(!rd_session_close(pool, 0));
	if (!strcmp(volume, "vm1"))
		sent[nr] = report.version;
}

static void make_stream(void)
{
	struct rd_send_pick pick = { .volume = 1, .name = "vm1", .as = "vm1" };
	struct rd_send_options options = {
		.picks = &pick,
		.nr = 1,
		.compression = rd_compression_default,
	};
	struct rd_wire wire = { .in = -1, .out = fuzz_file(0), .peer = "it" };
	struct rd_send_report report;
	struct rd_pool *pool;
	size_t at;

	must(!rd_session_open(&pool, from_path, RD_POOL_READ, "send", 0, NULL));
	must(!rd_wire_begin(&wire, 'F', NULL));
	must(!rd_send_file(pool, &wire, &options, &report));
	must(!rd_session_close(pool, 0));
	stream_len = lseek(wire.out, 0, SEEK_END);
	stream = malloc(stream_len);
	must(stream && pread(wire.out, stream, stream_len, 0) == (ssize_t)stream_len);
	rd_wire_end(&wire);
	close(wire.out);
	for (at = RD_PREAMBLE; at < stream_len; at += RD_RECORD_HEAD + len_at(stream + at)) {
		must(nr_records < MAX_RECORDS);
		records[nr_records++] = at;
	}
}

/* What another volume has, and the first version, which is the first of the stream. */
static void make_receiver(struct rd_pool_options *options)
{
	struct rd_receive_options receive = { .share = RD_SHARE_ALL, .is_volume = is_name,
					      .is_tag = is_name, .limit = U64_MAX };
	struct rd_wire wire = { .out = -1, .peer = "it" };
	struct rd_receive_report report;
	struct rd_pool *pool;
	unsigned int i = 1;
	char who;

	must(!rd_pool_create(to_path, options));
	snapshot(to_path, "other", 2);
	while (stream[records[i]] != RD_REC_OFFER)
		i++;
	wire.in = fuzz_file(records[i]);
	must(pwrite(wire.in, stream, records[i], 0) == (ssize_t)records[i]);
	must(!rd_session_open(&pool, to_path, RD_POOL_WRITE, "receive", 0, NULL));
	must(!rd_wire_begin(&wire, 'R', &who));
	/* It ends early, behind that version. */
	must(rd_receive(pool, &wire, &receive, &report) && report.versions == 1);
	must(!rd_session_close(pool, 0));
	rd_wire_end(&wire);
	close(wire.in);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rd_pool_options options = {
		.size = 128 << 20,
		.reserve = 4096,
		.compression = rd_compression_default,
	};
	u8 seeds[5] = { 0 };
	unsigned int i;

	(void)argc;
	(void)argv;
	srandom(1);
	snprintf(directory, sizeof(directory), "/dev/shm/fuzz-stream-XXXXXX");
	must(mkdtemp(directory));
	atexit(clean_up);
	snprintf(from_path, sizeof(from_path), "%s/from", directory);
	snprintf(to_path, sizeof(to_path), "%s/to", directory);
	make_images();
	must(!rd_pool_create(from_path, &options));
	for (i = 0; i < NR_VERSIONS; i++)
		snapshot(from_path, "vm1", i);
	make_stream();
	make_receiver(&options);
	each_file(to_path, keep_file);
	for (i = 0; i < 5; i++) {
		seeds[0] = i;
		fuzz_seed(seeds, 1);
		seeds[1] = 6 + i, seeds[2] = 4, seeds[3] = i * 3, seeds[4] = 0x55;
		fuzz_seed(seeds, 5);
	}
	return 0;
}
