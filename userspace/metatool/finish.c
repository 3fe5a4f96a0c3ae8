// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta finish: what is in the pool comes home; see userspace/meta/copy_home.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "meta/copy_home.h"
#include "metatool.h"

#define MIB_BLOCKS	256

struct finish {
	struct rd_copy_home finish;
	struct rd_tool *tool;
	const char *base;
	const char *pool;
	u64 told;		/* ms */
};

/* Progress */

static u64 now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void tell(struct rd_copy_home *base, u64 done)
{
	struct finish *finish = (struct finish *)base;
	u64 all = base->nr_pool + base->nr_zero, now = now_ms();

	if (now - finish->told < 200 && done < all)
		return;
	finish->told = now;
	fprintf(stderr, "\r\033[K%llu of %llu MiB, %llu %%%s", done / MIB_BLOCKS,
		all / MIB_BLOCKS, done * 100 / all, done < all ? "" : "\r\033[K");
	fflush(stderr);
}

/* Refusals */

static void bad(struct rd_copy_home *base, const struct rd_run *run)
{
	char text[RD_PLACE_TEXT];

	if (run->state != RD_RUN_KNOWN)
		rd_tool_bad_run(run);
	else
		rd_tool_fail("blocks %llx,%llx,%s are outside of the pool, which has %llx blocks",
			     run->first, run->len, rd_place_print(text, &run->place),
			     base->pool_blocks);
}

static int refuse_table(struct finish *finish, int r)
{
	rd_tool_fail("nothing was changed");
	if (r == -EBADMSG)
		return EXIT_DAMAGE;
	if (r == -ERANGE)
		rd_tool_fail("look whether '%s' is the right pool", finish->pool);
	return EXIT_FAILED;
}

static int refuse_state(struct rd_tool *tool)
{
	const struct rd_meta *meta = &tool->meta;

	if (meta->r)
		return rd_tool_refuse(tool);
	if (meta->super.flags & DMR_FLAG_INCOMPLETE) {
		rd_tool_fail("'%s': %s: it is not known where all blocks are", tool->path,
			     meta->refused);
		return EXIT_DAMAGE;
	}
	if (meta->super.compat_ro)
		return rd_tool_fail("'%s' has features that can only be read (compat_ro %#x)",
				    tool->path, meta->super.compat_ro);
	return EXIT_FINE;
}

static bool is_same(int fd, int other)
{
	struct stat a, b;

	if (fstat(fd, &a) || fstat(other, &b))
		return false;
	if (S_ISBLK(a.st_mode) && S_ISBLK(b.st_mode))
		return a.st_rdev == b.st_rdev;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * A pool that has a superblock says which one it is, see userspace/pool/data/area.h;
 * one that has none may be right as well.
 */
static bool is_other_pool(const struct finish *finish)
{
	_Alignas(DMR_BLOCK_SIZE) u8 block[DMR_BLOCK_SIZE];	/* for O_DIRECT */
	static const char magic[8] = "RVDPOOL\n";
	const u8 *uuid = finish->tool->meta.super.pool_uuid;
	u64 copy;

	for (copy = 0; copy < 2; copy++) {
		if (!rd_read_direct(finish->finish.pool_fd, block, sizeof(block),
				    copy << 20) &&
		    !memcmp(block, magic, sizeof(magic)))
			return !dmr_is_zero(uuid, DMR_UUID_SIZE) &&
			       memcmp(block + 16, uuid, DMR_UUID_SIZE);
	}
	return false;
}

static int check_devices(struct finish *finish)
{
	const struct dmr_super *super = &finish->tool->meta.super;
	struct rd_copy_home *f = &finish->finish;
	u64 base_bytes, pool_bytes;
	bool is_device;
	int r;

	if (is_same(f->pool_fd, f->base_fd) || is_same(f->pool_fd, f->meta_fd))
		return rd_tool_fail("'%s' is not the pool only", finish->pool);
	r = rd_size_of(f->base_fd, &base_bytes, &is_device);
	if (r)
		return rd_tool_complain("read", finish->base, r);
	r = rd_size_of(f->pool_fd, &pool_bytes, &is_device);
	if (r)
		return rd_tool_complain("read", finish->pool, r);
	if (base_bytes >> 9 < super->volume_sectors)
		return rd_tool_fail("'%s' has %llu sectors, the volume %llu", finish->base,
				    base_bytes >> 9, super->volume_sectors);
	f->pool_blocks = pool_bytes >> DMR_BLOCK_SHIFT;
	if (is_other_pool(finish))
		return rd_tool_fail("'%s' is another pool than that of '%s'",
				    finish->pool, finish->tool->path);
	return EXIT_FINE;
}

/* Work */

static bool is_agreed(struct finish *finish)
{
	char answer[8];

	if (finish->tool->yes)
		return true;
	fprintf(stderr, "Write %llu blocks of 4 KiB to '%s'? [y/N] ",
		finish->finish.nr_pool + finish->finish.nr_zero, finish->base);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

static void print_end(struct finish *finish, const char *did, bool linear_ok)
{
	struct rd_tool *tool = finish->tool;

	if (!tool->json) {
		printf("'%s': %s%llu blocks from '%s', %llu blocks of zeros\n", finish->base,
		       did, finish->finish.nr_pool, finish->pool, finish->finish.nr_zero);
		return;
	}
	rd_tool_json_begin(tool);
	rd_json_string(&tool->out, "base", finish->base);
	rd_json_string(&tool->out, "pool_device", finish->pool);
	rd_json_u64(&tool->out, "pool", finish->finish.nr_pool);
	rd_json_u64(&tool->out, "zero", finish->finish.nr_zero);
	rd_json_bool(&tool->out, "dry_run", tool->dry_run);
	rd_json_bool(&tool->out, "linear_ok", linear_ok);
	rd_tool_json_end(tool);
}

static int bring_home(struct finish *finish)
{
	struct rd_copy_home *f = &finish->finish;
	int r = rd_copy_home_plan(f);

	if (r)
		return refuse_table(finish, r);
	if (finish->tool->dry_run) {
		print_end(finish, "would get ", false);
		return EXIT_FINE;
	}
	if (!is_agreed(finish))
		return rd_tool_fail("nothing was changed");
	r = rd_copy_home_copy(f);
	if (!r)
		r = rd_copy_home_seal(f);
	if (r)
		return rd_tool_fail("%s: %s; nothing is lost, begin again when that is mended",
				    f->what, strerror(-r));
	print_end(finish, "got ", true);
	return EXIT_FINE;
}

static int open_base(struct finish *finish)
{
	int flags = finish->tool->dry_run ? O_RDONLY : O_RDWR;
	int fd = rd_tool_open_alone(finish->base, flags);

	/* Past the page cache go whole blocks only, on some disks. */
	if (fd >= 0 && finish->tool->meta.super.volume_sectors % DMR_BLOCK_SECTORS)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

static int with_pool(struct finish *finish)
{
	int fd = rd_meta_open_path(finish->pool, NULL);
	int r;

	if (fd < 0)
		return rd_tool_complain("open", finish->pool, fd);
	finish->finish.pool_fd = fd;
	r = check_devices(finish);
	if (!r)
		r = bring_home(finish);
	close(fd);
	return r;
}

static int with_base(struct finish *finish)
{
	int fd = open_base(finish);
	int r;

	if (fd < 0)
		return rd_tool_complain("open", finish->base, fd);
	finish->finish.base_fd = fd;
	r = with_pool(finish);
	close(fd);
	return r;
}

static int with_meta(struct finish *finish)
{
	struct rd_tool *tool = finish->tool;
	int r = rd_meta_source_fd(&tool->source, finish->finish.meta_fd);

	if (r)
		return rd_tool_complain("read", tool->path, r);
	rd_meta_open(&tool->meta, &tool->source);
	r = refuse_state(tool);
	if (r)
		return r;
	if (!(tool->meta.super.flags & DMR_FLAG_LINEAR_OK))
		return with_base(finish);
	/* Perhaps because somebody was here before. */
	print_end(finish, "nothing to do: ", true);
	return EXIT_FINE;
}

int rd_tool_finish(struct rd_tool *tool)
{
	struct finish finish = {
		.tool = tool,
		.base = tool->args[0],
		.pool = tool->args[1],
		.finish.meta = &tool->meta,
		.finish.bad = bad,
	};
	int r;

	if (!tool->yes && !tool->dry_run && !isatty(STDIN_FILENO))
		return rd_tool_misused("'finish' writes to '%s': say --yes, or --dry-run",
				       finish.base);
	if (isatty(STDERR_FILENO))
		finish.finish.tell = tell;
	finish.finish.meta_fd = rd_tool_open_alone(tool->path,
						   tool->dry_run ? O_RDONLY : O_RDWR);
	if (finish.finish.meta_fd < 0)
		return rd_tool_complain("open", tool->path, finish.finish.meta_fd);
	r = with_meta(&finish);
	close(finish.finish.meta_fd);
	return r;
}
