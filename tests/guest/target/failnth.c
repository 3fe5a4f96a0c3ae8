// SPDX-License-Identifier: GPL-2.0
/*
 * failnth [OPERATION...]: make every allocation and every metadata I/O of each
 * operation fail once, one at a time.
 *
 * For n = 1, 2, 3, ... until no n-th fault came: bring a volume into a known
 * state, let the n-th point in this thread's way through the kernel that can
 * fail do so (/proc/thread-self/fail-nth), and call the operation. It must
 * succeed or fail cleanly: called again without faults it succeeds, and the
 * volume is what it must be then. Leaks and misuse of memory are found by the
 * debug kernel and by the runner.
 *
 * An operation that reads the metadata may find less than is there, because a
 * read failed: then more is dirty than must be, or all, as lost.
 *
 * Operations of a remap table begin with one that maps some blocks, and in the end
 * the table is what it must be, block for block. Some of them have blocks in a pack: what
 * it takes to read these is allocated before the first entry names it, so there the read
 * itself must succeed, whichever allocation fails.
 *
 * faults.bats makes /dev/mapper/rdt-m and lets its I/O fail (make-it-fail); the
 * base is /dev/ram0, the pool /dev/ram2.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "lib/dmreq.h"
#include "lib/pack.h"

#define VOL		"rdt-v"
#define VOL_PATH	"/dev/mapper/rdt-v"
#define META		"rdt-m"
#define META_PATH	"/dev/mapper/rdt-m"
#define META_GROUND	"/dev/ram1"
#define BASE		"/dev/ram0"
#define POOL		"/dev/ram2"
#define META_SECTORS	2048U
#define META_BYTES	(META_SECTORS * 512)
#define SEG_SECTORS	4096U
#define NR_SEGS		16U
#define MAX_POINTS	2000U
/* In seconds: how long a thing takes depends on what else the host does. */
#define PATIENCE	120

static int fail_nth_fd;
static char *image;		/* what a used volume leaves on rdt-m */
static char *mapped_image;	/* and one with a table */
static char *packed_image;	/* and with blocks in a pack */
static bool mapped;		/* the operation is one of the table */
static char *zeros;
static char *page;
static unsigned int nth;
static const char *op_name = "setup";

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list args;

	printf("FAILED: %s, fault %u: ", op_name, nth);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

static void must(int r, const char *what)
{
	if (r)
		die("%s: %s", what, strerror(-r));
}

/*
 * ---- Faults ----
 */

static void fault_arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_nth_fd, text, len, 0) != len)
		err(1, "fail-nth");
}

/* True if the fault came. */
static bool fault_disarm(void)
{
	char text[16] = "";

	if (pread(fail_nth_fd, text, sizeof(text) - 1, 0) <= 0)
		err(1, "fail-nth");
	fault_arm(0);
	return atoi(text) == 0;
}

/*
 * ---- Device-mapper ----
 */

static int load(const char *name, uint64_t sectors, const char *type,
		const char *params, uint32_t flags)
{
	struct dmreq rq;

	dmreq_begin(&rq, name);
	rq.head->flags = flags;
	dmreq_add_target(&rq, 0, sectors, type, params);
	return dmreq_send(&rq, DM_TABLE_LOAD, 1);
}

static int load_vol(uint64_t segs, uint32_t flags)
{
	return load(VOL, segs * SEG_SECTORS, "revdedup",
		    mapped ? BASE " " META_PATH " " POOL : BASE " " META_PATH " -", flags);
}

static int create(const char *name)
{
	return dmreq_simple(name, DM_DEV_CREATE, 0);
}

static int resume(const char *name)
{
	return dmreq_simple(name, DM_DEV_SUSPEND, 0);
}

static int suspend(const char *name, uint32_t flags)
{
	return dmreq_simple(name, DM_DEV_SUSPEND, DM_SUSPEND_FLAG | flags);
}

/* Somebody may just look at the device. */
static int remove_retry(const char *name)
{
	int r, tries;

	for (tries = 0; tries < PATIENCE * 1000; tries++) {
		r = dmreq_simple(name, DM_DEV_REMOVE, 0);
		if (r != -EBUSY)
			break;
		usleep(1000);
	}
	return r;
}

static int message(const char *text)
{
	struct dmreq rq;

	dmreq_begin(&rq, VOL);
	dmreq_set_message(&rq, 0, text, strlen(text) + 1);
	return dmreq_send(&rq, DM_TARGET_MSG, 4096);
}

static int query(uint32_t flags, char *ret, size_t size)
{
	const struct dm_target_spec *spec;
	struct dmreq rq;
	int r;

	dmreq_begin(&rq, VOL);
	rq.head->flags = flags;
	r = dmreq_send(&rq, DM_TABLE_STATUS, 4096);
	spec = r ? NULL : dmreq_target(&rq, 0);
	if (ret)
		snprintf(ret, size, "%s", spec ? (const char *)(spec + 1) : "");
	return r;
}

/* Segments of the current or frozen set as a mask. */
static uint32_t dirty(const char *set)
{
	unsigned int first, len;
	uint32_t mask = 0;
	struct dmreq rq;
	char text[64];
	const char *p;

	dmreq_begin(&rq, VOL);
	snprintf(text, sizeof(text), "dirty %s 0 32", set);
	dmreq_set_message(&rq, 0, text, strlen(text) + 1);
	must(dmreq_send(&rq, DM_TARGET_MSG, 4096), text);
	p = dmreq_text(&rq);
	while (p && sscanf(p, "%x,%x", &first, &len) == 2) {
		mask |= ((1ULL << len) - 1) << first;
		p = strpbrk(p, "; ") + 1;
	}
	return mask;
}

/*
 * ---- States ----
 */

#define SET		"set 210,20,p200;c00,1,z"
#define PACK_AT		0x600U		/* in the pool */
#define PACK_SET	"set 210,20,k600.30;c00,1,z"

static void write_meta(const char *data)
{
	int fd = open(META_PATH, O_WRONLY | O_DIRECT);

	if (fd < 0 || pwrite(fd, data, META_BYTES, 0) != META_BYTES)
		err(1, META_PATH);
	close(fd);
}

static void read_meta(char *data)
{
	int fd = open(META_PATH, O_RDONLY | O_DIRECT);

	if (fd < 0 || pread(fd, data, META_BYTES, 0) != META_BYTES)
		err(1, META_PATH);
	close(fd);
}

static int write_at(off_t offset, size_t bytes)
{
	int fd = open(VOL_PATH, O_WRONLY | O_DIRECT);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (pwrite(fd, page, bytes, offset) != (ssize_t)bytes)
		r = -errno;
	close(fd);
	return r;
}

static int write_seg(unsigned int seg)
{
	return write_at((off_t)seg * SEG_SECTORS * 512, 4096);
}

static void none(void)
{
	write_meta(zeros);
	must(create(VOL), "create");
}

static void none_loaded(void)
{
	none();
	must(load_vol(NR_SEGS, 0), "load");
}

static void known(void)
{
	write_meta(mapped ? mapped_image : image);
	must(create(VOL), "create");
}

static void known_packed(void)
{
	write_meta(packed_image);
	must(create(VOL), "create");
}

static void known_packed_loaded(void)
{
	known_packed();
	must(load_vol(NR_SEGS, 0), "load");
}

static void live_packed(void)
{
	known_packed_loaded();
	must(resume(VOL), "resume");
}

static void known_loaded(void)
{
	known();
	must(load_vol(NR_SEGS, 0), "load");
}

static void known_loaded_ro(void)
{
	known();
	must(load_vol(NR_SEGS, DM_READONLY_FLAG), "load");
}

/* Epoch 2 waits with segment 7, segment 9 is dirty in epoch 2. */
static void live(void)
{
	known_loaded();
	must(resume(VOL), "resume");
}

static void live_suspended(void)
{
	live();
	must(suspend(VOL, 0), "suspend");
}

static void live_loaded(void)
{
	live();
	must(load_vol(NR_SEGS, 0), "load");
}

static void live_loaded_large(void)
{
	live();
	must(load_vol(NR_SEGS + 4, 0), "load");
}

static void live_loaded_small(void)
{
	live();
	must(load_vol(8, 0), "load");
}

static void live_loaded_ro(void)
{
	live();
	must(load_vol(NR_SEGS, DM_READONLY_FLAG), "load");
}

static void live_meta_large(void)
{
	live_suspended();
	must(load(META, META_SECTORS * 2, "linear", META_GROUND " 0", 0), "load");
	must(resume(META), "resume");
}

/* A batch, in which SET has not been sent. */
static void live_begun(void)
{
	live_suspended();
	must(message("begin"), "begin");
}

static void live_set(void)
{
	live_begun();
	must(message(SET), "set");
}

static void live_watched(void)
{
	live();
	must(message("watch 1 600,8"), "watch");
}

/* Each byte of the pack's blocks is that of @page. */
static void make_pack(void)
{
	static u8 blocks[DMR_PACK_GROUP_SIZE];
	static struct pack pack;
	unsigned int i;
	int fd = open(POOL, O_WRONLY | O_CLOEXEC);
	ssize_t len;

	memset(blocks, page[0], sizeof(blocks));
	pack_begin(&pack);
	for (i = 0; i < DMR_PACK_GROUPS; i++)
		pack_add(&pack, 0xffff, blocks, DMR_CODEC_ZSTD);
	len = pack_end(&pack) * DMR_BLOCK_SIZE;
	if (fd < 0 || pwrite(fd, pack.bytes, len, (off_t)PACK_AT * DMR_BLOCK_SIZE) != len ||
	    fsync(fd))
		err(1, POOL);
	close(fd);
}

static void make_table_image(const char *set, char *to)
{
	mapped = true;
	none_loaded();
	must(resume(VOL), "resume");
	must(suspend(VOL, 0), "suspend");
	must(message("begin"), "begin");
	must(message(set), "set");
	must(message("end"), "end");
	must(resume(VOL), "resume");
	must(remove_retry(VOL), "remove");
	read_meta(to);
	mapped = false;
}

static void make_image(void)
{
	none_loaded();
	must(resume(VOL), "resume");
	must(suspend(VOL, 0), "suspend");
	must(message("checkpoint 1"), "checkpoint");
	must(resume(VOL), "resume");
	must(message("commit 1 1"), "commit");
	must(message("mark 7,1"), "mark");
	must(suspend(VOL, 0), "suspend");
	must(message("checkpoint 2"), "checkpoint");
	must(resume(VOL), "resume");
	must(message("mark 9,1"), "mark");
	must(remove_retry(VOL), "remove");
	read_meta(image);
}

/*
 * ---- Operations ----
 */

static int do_create(void) { return create(VOL); }
static int do_load(void) { return load_vol(NR_SEGS, 0); }
static int do_load_ro(void) { return load_vol(NR_SEGS, DM_READONLY_FLAG); }
static int do_resume(void) { return resume(VOL); }
static int do_suspend(void) { return suspend(VOL, 0); }
static int do_suspend_noflush(void) { return suspend(VOL, DM_NOFLUSH_FLAG); }
static int do_clear(void) { return dmreq_simple(VOL, DM_TABLE_CLEAR, 0); }
static int do_remove(void) { return remove_retry(VOL); }
static int do_status(void) { return query(0, NULL, 0); }
static int do_table(void) { return query(DM_STATUS_TABLE_FLAG, NULL, 0); }
static int do_checkpoint(void) { return message("checkpoint 3"); }
static int do_commit(void) { return message("commit 2 2"); }
static int do_abort(void) { return message("abort 2"); }
static int do_mark(void) { return message("mark 0,2"); }
static int do_dirty(void) { return message("dirty frozen 0 32"); }
static int do_lost_noted(void) { return message("lost-noted"); }
static int do_garbage(void) { return message("garbage") == -EINVAL ? 0 : -EPROTO; }
static int do_first_write(void) { return write_seg(11); }
static int do_begin(void) { return message("begin"); }
static int do_set(void) { return message(SET); }
static int do_set_packed(void) { return message(PACK_SET); }
static int do_end(void) { return message("end"); }
static int do_remap_packed(void) { return message("remap 210,8,z,k600.8"); }
static int do_remap(void) { return message("remap 0,10,p0,p100;210,8,z,p300"); }
static int do_print(void) { return message("table 0 8192"); }
static int do_print_part(void) { return message("table 0 8192 100 50"); }
static int do_watch(void) { return message("watch 1 600,8"); }
static int do_alias(void) { return message("alias 1 600,4,p500"); }
static int do_shed(void) { return message("shed 0,2000 zeroed"); }
static int do_hydrate(void) { return message("hydrate start"); }
static int do_write_part(void) { return write_at(3 * 4096 + 512, 1024); }

/* Of a group that was not read yet; what opens the device may need memory. */
static int do_read_packed(void)
{
	static char *buf;
	static int fd = -1;
	ssize_t r;

	if (!buf)
		buf = aligned_alloc(4096, 4096);
	if (fd < 0)
		fd = open(VOL_PATH, O_RDONLY | O_DIRECT);
	if (fd < 0 || !buf)
		return fd < 0 ? -errno : -ENOMEM;
	memset(buf, 0, 4096);
	r = pread(fd, buf, 4096, 0);
	close(fd);
	fd = -1;
	if (r != 4096)
		die("a read of a packed block: %s", r < 0 ? strerror(errno) : "short");
	return memcmp(buf, page, 4096) ? -EUCLEAN : 0;
}

static int do_load_opts(void)
{
	char params[256];

	snprintf(params, sizeof(params), "%s %s - 4 volume_uuid %s pool_uuid %s",
		 BASE, META_PATH, "11111111-2222-3333-4444-555555555555",
		 "99999999-8888-7777-6666-555555555555");
	return load(VOL, NR_SEGS * SEG_SECTORS, "revdedup", params, 0);
}

/* Lines that are refused late, when there is most to undo. */
static int do_load_wrong(void)
{
	int r = load(VOL, NR_SEGS * SEG_SECTORS, "revdedup", BASE " " BASE " -", 0);

	return r == -EINVAL ? 0 : -EPROTO;
}

/* What the volume is in the end; masks of segments. */
struct state {
	const char *status;	/* in front of the dirty count */
	uint32_t current;
	uint32_t frozen;
	const char *rest;	/* behind, after the tracking */
	const char *table;	/* or NULL: has none */
};

#define SEG(n)		(1U << (n))
#define ALL(n)		((1U << (n)) - 1)

static const struct state state_new = { "1 0 - 0", ALL(NR_SEGS), 0, "rw", NULL };
static const struct state state_same = { "1 2 2 1", SEG(9), SEG(7), "rw", NULL };
static const struct state state_same_ro = { "1 2 2 1", SEG(9), SEG(7), "ro", NULL };
static const struct state state_checkpoint = { "1 3 3 1", 0, SEG(7) | SEG(9), "rw", NULL };
static const struct state state_commit = { "1 2 - 2", SEG(9), 0, "rw", NULL };
static const struct state state_abort = { "1 2 - 1", SEG(7) | SEG(9), 0, "rw", NULL };
static const struct state state_mark = { "1 2 2 1", SEG(9) | SEG(0) | SEG(1), SEG(7), "rw", NULL };
static const struct state state_write = { "1 2 2 1", SEG(9) | SEG(11), SEG(7), "rw", NULL };
static const struct state state_large = { "1 2 2 1", SEG(9) | 0xf0000, SEG(7), "rw", NULL };
static const struct state state_small = { "1 2 2 1", 0, SEG(7), "rw", NULL };

/* A volume with a table, of which all is dirty and nothing committed. */
#define MAPPED(text)	{ "1 0 - 0", ALL(NR_SEGS), 0, "rw", text " 8192" }

static const struct state mapped_same =
	MAPPED("0,200,p0;200,200,z;400,600,b;a00,100,p400;b00,1500,b");
static const struct state mapped_set =
	MAPPED("0,200,p0;200,10,z;210,20,p200;230,1d0,z;400,600,b;a00,100,p400;b00,100,b;"
	       "c00,1,z;c01,13ff,b");
static const struct state packed_set =
	MAPPED("0,200,p0;200,10,z;210,20,k600.30;230,1d0,z;400,600,b;a00,100,p400;b00,100,b;"
	       "c00,1,z;c01,13ff,b");
static const struct state packed_remap =
	MAPPED("0,200,p0;200,10,z;210,8,k600.8;218,1e8,z;400,600,b;a00,100,p400;b00,1500,b");
static const struct state packed_same =
	MAPPED("0,200,k600.0;200,200,z;400,600,b;a00,100,k600.100;b00,1500,b");
static const struct state mapped_remap =
	MAPPED("0,10,p100;10,1f0,p10;200,10,z;210,8,p300;218,1e8,z;400,600,b;a00,100,p400;"
	       "b00,1500,b");
static const struct state mapped_alias =
	MAPPED("0,200,p0;200,200,z;400,200,b;600,4,p500;604,3fc,b;a00,100,p400;b00,1500,b");
static const struct state mapped_shed =
	MAPPED("0,200,p0;200,800,b;a00,100,p400;b00,1500,b");
static const struct state mapped_write =
	MAPPED("0,3,p0;3,1,b;4,1fc,p4;200,200,z;400,600,b;a00,100,p400;b00,1500,b");
static const struct state mapped_home = MAPPED("0,2000,b");

/* After @act: what makes the volume live, if it is not. */
enum finish { NOTHING, RESUME, LOAD_RESUME, CREATE_LOAD_RESUME, END_RESUME, HYDRATED };

static const struct op {
	const char *name;
	void (*prepare)(void);
	int (*act)(void);
	enum finish finish;
	const struct state *state;
	bool reads;		/* the metadata: more may be dirty, or lost */
} ops[] = {
	{ "create", NULL, do_create, LOAD_RESUME, &state_new, true },
	{ "load, empty metadata", none, do_load, RESUME, &state_new, true },
	{ "load", known, do_load, RESUME, &state_same, true },
	{ "load with options", known, do_load_opts, RESUME, &state_same, true },
	{ "load, read-only", known, do_load_ro, RESUME, &state_same_ro, true },
	{ "load a wrong line", known, do_load_wrong, LOAD_RESUME, &state_same, true },
	{ "clear", known_loaded, do_clear, LOAD_RESUME, &state_same, true },
	{ "remove, not resumed", known_loaded, do_remove, CREATE_LOAD_RESUME, &state_same, true },
	/* One superblock copy may be there from a try that failed. */
	{ "resume, empty metadata", none_loaded, do_resume, NOTHING, &state_new, true },
	{ "resume", known_loaded, do_resume, NOTHING, &state_same, true },
	{ "resume, read-only", known_loaded_ro, do_resume, NOTHING, &state_same_ro, true },
	{ "load the same", live, do_load, RESUME, &state_same, false },
	{ "load, live and wrong", live, do_load_wrong, NOTHING, &state_same, false },
	{ "resume the same", live_loaded, do_resume, NOTHING, &state_same, false },
	{ "resume a larger one", live_loaded_large, do_resume, NOTHING, &state_large, false },
	{ "resume a smaller one", live_loaded_small, do_resume, NOTHING, &state_small, false },
	{ "resume a read-only one", live_loaded_ro, do_resume, NOTHING, &state_same_ro, false },
	{ "resume, larger metadata", live_meta_large, do_resume, NOTHING, &state_same, false },
	{ "suspend", live, do_suspend, RESUME, &state_same, false },
	{ "suspend, noflush", live, do_suspend_noflush, RESUME, &state_same, false },
	{ "remove", live, do_remove, CREATE_LOAD_RESUME, &state_same, true },
	{ "status", live, do_status, NOTHING, &state_same, false },
	{ "table", live, do_table, NOTHING, &state_same, false },
	{ "message checkpoint", live_suspended, do_checkpoint, RESUME, &state_checkpoint, false },
	{ "message commit", live, do_commit, NOTHING, &state_commit, false },
	{ "message abort", live, do_abort, NOTHING, &state_abort, false },
	{ "message mark", live, do_mark, NOTHING, &state_mark, false },
	{ "message dirty", live, do_dirty, NOTHING, &state_same, false },
	{ "message lost-noted", live, do_lost_noted, NOTHING, &state_same, false },
	{ "message that is wrong", live, do_garbage, NOTHING, &state_same, false },
	{ "first write", live, do_first_write, NOTHING, &state_write, false },

	{ "load, mapped", known, do_load, RESUME, &mapped_same, true },
	{ "resume, mapped", known_loaded, do_resume, NOTHING, &mapped_same, true },
	{ "suspend, mapped", live, do_suspend, RESUME, &mapped_same, false },
	{ "message begin", live_suspended, do_begin, END_RESUME, &mapped_same, false },
	{ "message set", live_begun, do_set, END_RESUME, &mapped_set, false },
	/* These name the first pack. */
	{ "message set, packed", live_begun, do_set_packed, END_RESUME, &packed_set, false },
	{ "message remap, packed", live, do_remap_packed, NOTHING, &packed_remap, false },
	{ "load, packed", known_packed, do_load, RESUME, &packed_same, true },
	{ "resume, packed", known_packed_loaded, do_resume, NOTHING, &packed_same, true },
	{ "read of a packed block", live_packed, do_read_packed, NOTHING, &packed_same, false },
	{ "message hydrate, packed", live_packed, do_hydrate, HYDRATED, &mapped_home, false },
	{ "message end", live_set, do_end, RESUME, &mapped_set, false },
	{ "message remap", live, do_remap, NOTHING, &mapped_remap, false },
	{ "message table", live, do_print, NOTHING, &mapped_same, false },
	{ "message table of a part", live, do_print_part, NOTHING, &mapped_same, false },
	{ "message watch", live, do_watch, NOTHING, &mapped_same, false },
	{ "message alias", live_watched, do_alias, NOTHING, &mapped_alias, false },
	{ "message shed", live, do_shed, NOTHING, &mapped_shed, false },
	{ "message hydrate", live, do_hydrate, HYDRATED, &mapped_home, false },
	{ "write to a part of a block", live, do_write_part, NOTHING, &mapped_write, false },
};

/*
 * ---- Checks ----
 */

static uint32_t all_of(const struct state *state)
{
	return state == &state_large ? ALL(NR_SEGS + 4) :
	       state == &state_small ? ALL(8) : ALL(NR_SEGS);
}

/* The status line @text says that; what follows is about a table. */
static bool tracking_is(const char *tracking, const struct op *op, const char *text)
{
	char words[32];

	snprintf(words, sizeof(words), " %s %s ", tracking, op->state->rest);
	return strstr(text, words);
}

/*
 * Wait for the worker to get over an outage: the last status is in @text. What
 * was lost by a read that failed stays so, but then all is dirty.
 */
static bool is_lost(const struct op *op, char *text, size_t size)
{
	struct timespec now, start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		must(query(0, text, size), "status");
		if (tracking_is("ok", op, text))
			return false;
		if (op->reads && tracking_is("lost", op, text) &&
		    dirty("current") == all_of(op->state))
			return true;
		usleep(10000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < PATIENCE);
	die("status is '%s'", text);
}

static void check_state(const struct op *op)
{
	const struct state *want = op->state;
	uint32_t current, frozen = 0;
	char text[256];
	bool lost = is_lost(op, text, sizeof(text));

	if (strncmp(text, want->status, strlen(want->status)) ||
	    text[strlen(want->status)] != ' ')
		die("status is '%s', must begin with '%s'", text, want->status);
	current = dirty("current");
	if (want->frozen)
		frozen = dirty("frozen");
	if ((current & want->current) != want->current ||
	    (frozen & want->frozen) != want->frozen)
		die("dirty is %x, frozen %x; at least %x and %x must be", current,
		    frozen, want->current, want->frozen);
	if (!lost && !op->reads &&
	    (current != want->current || frozen != want->frozen))
		die("dirty is %x, frozen %x; must be %x and %x", current, frozen,
		    want->current, want->frozen);
}

static void check_table(const char *want)
{
	struct dmreq rq;
	const char *text;

	dmreq_begin(&rq, VOL);
	dmreq_set_message(&rq, 0, "table 0 8192", sizeof("table 0 8192"));
	must(dmreq_send(&rq, DM_TARGET_MSG, 4096), "table");
	text = dmreq_text(&rq);
	if (!text || strcmp(text, want))
		die("the table is '%s', must be '%s'", text ? text : "", want);
}

static void wait_hydrated(void)
{
	unsigned int tries;
	char text[256];

	for (tries = 0; tries < PATIENCE * 100; tries++) {
		must(query(0, text, sizeof(text)), "status");
		if (strstr(text, " off "))
			return;
		usleep(10000);
	}
	die("not all comes home: status is '%s'", text);
}

static void clean_up(const struct op *op)
{
	must(remove_retry(VOL), "remove");
	if (op->prepare != live_meta_large)
		return;
	must(load(META, META_SECTORS, "linear", META_GROUND " 0", 0), "load");
	must(resume(META), "resume");
}

/* One try. True if the fault came. */
static bool try_nth(const struct op *op)
{
	bool fault;
	int r;

	mapped = op->state->table;
	if (op->prepare)
		op->prepare();
	else
		write_meta(zeros);
	fault_arm(nth);
	r = op->act();
	fault = fault_disarm();
	if (r && !fault)
		die("%s", strerror(-r));
	/* A disk that could not be added is none that can be added again. */
	if (r && (op->prepare == none || op->prepare == known || op->prepare == known_packed)) {
		must(remove_retry(VOL), "remove");
		must(create(VOL), "create");
	}
	if (r)
		must(op->act(), "once more, and without a fault");

	if (op->finish == CREATE_LOAD_RESUME)
		must(create(VOL), "create");
	if (op->finish == LOAD_RESUME || op->finish == CREATE_LOAD_RESUME)
		must(load_vol(NR_SEGS, 0), "load");
	if (op->finish == END_RESUME)
		must(message("end"), "end");
	if (op->finish == HYDRATED)
		wait_hydrated();
	else if (op->finish != NOTHING)
		must(resume(VOL), "resume");
	check_state(op);
	if (op->state->table)
		check_table(op->state->table);
	clean_up(op);
	return fault;
}

static unsigned int run_op(const struct op *op)
{
	op_name = op->name;
	for (nth = 1; nth <= MAX_POINTS; nth++) {
		if (!try_nth(op))
			break;
	}
	printf("%-32s %3u faults\n", op->name, nth - 1);
	fflush(stdout);
	return nth - 1;
}

static bool is_wanted(const char *name, char **names)
{
	while (*names) {
		if (!strcmp(*names++, name))
			return true;
	}
	return false;
}

static void node(const char *path, const char *name)
{
	struct dmreq rq;

	dmreq_begin(&rq, name);
	must(dmreq_send(&rq, DM_DEV_CREATE, 1), "create");
	unlink(path);
	if (mknod(path, S_IFBLK | 0600,
		  makedev(major(rq.head->dev), minor(rq.head->dev))))
		err(1, "%s", path);
	must(remove_retry(name), "remove");
}

int main(int argc, char **argv)
{
	unsigned int total = 0;
	size_t i;

	dmreq_open();
	fail_nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fail_nth_fd < 0)
		err(1, "/proc/thread-self/fail-nth");
	image = aligned_alloc(4096, META_BYTES);
	mapped_image = aligned_alloc(4096, META_BYTES);
	packed_image = aligned_alloc(4096, META_BYTES);
	zeros = aligned_alloc(4096, META_BYTES);
	page = aligned_alloc(4096, 4096);
	if (!image || !mapped_image || !packed_image || !zeros || !page)
		err(1, "malloc");
	memset(zeros, 0, META_BYTES);
	memset(page, 0x5a, 4096);
	node(VOL_PATH, VOL);

	make_image();
	make_pack();
	make_table_image("set 0,200,p0;200,200,z;a00,100,p400", mapped_image);
	make_table_image("set 0,200,k600.0;200,200,z;a00,100,k600.100", packed_image);
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (argc < 2 || is_wanted(ops[i].name, argv + 1))
			total += run_op(&ops[i]);
	}
	printf("%u faults in all\n", total);
	return 0;
}
