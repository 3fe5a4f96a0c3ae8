// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta finish: copy blocks from the pool to the base; see meta/copy_home.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/clock.h"
#include "base/direct.h"
#include "meta/copy_home.h"
#include "metatool.h"

#define MIB_BLOCKS	256
#define PROGRESS_US	200000

struct finish {
	struct rd_copy_home home;
	struct rd_tool *tool;
	const char *base;
	const char *pool;	/* "-": there are only zeros to be written */
	u64 told;		/* when progress was printed last, in us */
};

/* Progress */

static void print_progress(struct rd_copy_home *home, u64 done)
{
	struct finish *finish = (struct finish *)home;
	u64 all = home->nr_pool + home->nr_zero, now = rd_now_us();

	if (now - finish->told < PROGRESS_US && done < all)
		return;
	finish->told = now;
	fprintf(stderr, "\r\033[K%llu of %llu MiB, %llu %%%s", done / MIB_BLOCKS,
		all / MIB_BLOCKS, done * 100 / all, done < all ? "" : "\r\033[K");
	fflush(stderr);
}

/* Refusals */

static void print_bad(struct rd_copy_home *home, const struct rd_run *run)
{
	char text[DMR_PLACE_TEXT];

	if (run->state != RD_RUN_KNOWN) {
		rd_tool_bad_run(run);
		return;
	}
	dmr_place_print(text, run->place);
	rd_tool_fail("blocks %llx,%llx,%s lie beyond the end of the pool, which has %llx blocks",
		     run->first, run->len, text, home->pool_blocks);
}

static int refuse_table(struct finish *finish, int r)
{
	rd_tool_fail("nothing was changed");
	if (r == -EBADMSG)
		return EXIT_DAMAGE;
	if (r == -ERANGE)
		rd_tool_fail("check that '%s' is the right pool", finish->pool);
	return EXIT_FAILED;
}

static int refuse_state(struct rd_tool *tool)
{
	const struct rd_meta *meta = &tool->meta;

	if (meta->r)
		return rd_tool_refuse(tool);
	if (meta->super.flags & DMR_FLAG_INCOMPLETE) {
		rd_tool_fail("'%s': %s, so the location of some blocks is unknown", tool->path,
			     meta->refused);
		return EXIT_DAMAGE;
	}
	if (meta->super.compat_ro)
		return rd_tool_fail("'%s' has unknown features that allow reading only (compat_ro %#x)",
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
 * Compare the UUID in the pool's superblock, see pool/data/area.h, with the one in the
 * metadata. A pool without a superblock may be the right one, too.
 */
static bool is_other_pool(const struct finish *finish)
{
	_Alignas(DMR_BLOCK_SIZE) u8 block[DMR_BLOCK_SIZE];	/* for O_DIRECT */
	static const char magic[8] = "RVDPOOL\n";
	const u8 *uuid = finish->tool->meta.super.pool_uuid;
	u64 copy;

	for (copy = 0; copy < 2; copy++) {
		if (!rd_read_direct(finish->home.pool_fd, block, sizeof(block),
				    copy << 20) &&
		    !memcmp(block, magic, sizeof(magic)))
			return !dmr_is_zero(uuid, DMR_UUID_SIZE) &&
			       memcmp(block + 16, uuid, DMR_UUID_SIZE);
	}
	return false;
}

static int check_base(const struct finish *finish)
{
	const struct dmr_super *super = &finish->tool->meta.super;
	u64 bytes;
	bool is_device;
	int r = rd_size_of(finish->home.base_fd, &bytes, &is_device);

	if (r)
		return rd_tool_complain("read", finish->base, r);
	if (bytes >> 9 < super->volume_sectors)
		return rd_tool_fail("'%s' is too small: it has %llu sectors, the volume has %llu",
				    finish->base, bytes >> 9, super->volume_sectors);
	return EXIT_FINE;
}

static int check_pool(struct finish *finish)
{
	struct rd_copy_home *home = &finish->home;
	u64 pool_bytes;
	bool is_device;
	int r;

	if (is_same(home->pool_fd, home->base_fd) || is_same(home->pool_fd, home->meta_fd))
		return rd_tool_fail("'%s' is given twice: as the pool, and as the base or the metadata",
				    finish->pool);
	r = rd_size_of(home->pool_fd, &pool_bytes, &is_device);
	if (r)
		return rd_tool_complain("read", finish->pool, r);
	home->pool_blocks = pool_bytes >> DMR_BLOCK_SHIFT;
	if (is_other_pool(finish))
		return rd_tool_fail("'%s' is not the pool of '%s'",
				    finish->pool, finish->tool->path);
	return EXIT_FINE;
}

/* Work */

/* Ask whether to write, unless --yes has answered it. */
static bool ask(struct finish *finish)
{
	char answer[8];

	if (finish->tool->yes)
		return true;
	fprintf(stderr, "Write %llu blocks of 4 KiB to '%s'? [y/N] ",
		finish->home.nr_pool + finish->home.nr_zero, finish->base);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

static void print_end(struct finish *finish, bool linear_ok)
{
	const struct rd_copy_home *home = &finish->home;
	struct rd_tool *tool = finish->tool;

	if (!tool->json) {
		if (tool->dry_run && !linear_ok)
			printf("'%s': would copy %llu blocks from '%s', and zero %llu blocks\n",
			       finish->base, home->nr_pool, finish->pool, home->nr_zero);
		else if (home->nr_pool + home->nr_zero)
			printf("'%s': copied %llu blocks from '%s', and zeroed %llu blocks\n",
			       finish->base, home->nr_pool, finish->pool, home->nr_zero);
		else
			printf("'%s': nothing to do, every block is on it already\n", finish->base);
		return;
	}
	rd_tool_json_begin(tool);
	rd_json_add(&tool->out, "base=%s pool_device=%s pool=%llu zero=%llu dry_run=%d",
		    finish->base, finish->pool, finish->home.nr_pool, finish->home.nr_zero,
		    tool->dry_run);
	rd_json_bool(&tool->out, "linear_ok", linear_ok);
	rd_tool_json_end(tool);
}

static int refuse_copy(const char *what, int r)
{
	if (r == -EBADMSG)
		rd_tool_fail("%s", what);
	else
		rd_tool_fail("%s: %s", what, strerror(-r));
	return rd_tool_fail("nothing is lost; repeat the command once the cause is fixed");
}

static int copy_home(struct finish *finish)
{
	struct rd_copy_home *home = &finish->home;
	int r = rd_copy_home_plan(home);

	if (r)
		return refuse_table(finish, r);
	if (finish->tool->dry_run) {
		print_end(finish, false);
		return EXIT_FINE;
	}
	if (!ask(finish))
		return rd_tool_fail("nothing was changed");
	r = rd_copy_home_copy(home);
	if (!r)
		r = rd_copy_home_seal(home);
	if (r)
		return refuse_copy(home->what, r);
	print_end(finish, true);
	return EXIT_FINE;
}

static int open_base(struct finish *finish)
{
	int flags = finish->tool->dry_run ? O_RDONLY : O_RDWR;
	int fd = rd_tool_open_alone(finish->base, flags);

	/* Some disks take only whole blocks past the page cache. */
	if (fd >= 0 && finish->tool->meta.super.volume_sectors % DMR_BLOCK_SECTORS)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

static int with_pool(struct finish *finish)
{
	int fd, r = check_base(finish);

	if (r)
		return r;
	finish->home.pool_fd = -1;
	/* Then the pool has no blocks, and a table that names one is refused. */
	if (!strcmp(finish->pool, "-"))
		return copy_home(finish);
	fd = rd_meta_open_path(finish->pool, NULL);
	if (fd < 0)
		return rd_tool_complain("open", finish->pool, fd);
	finish->home.pool_fd = fd;
	r = check_pool(finish);
	if (!r)
		r = copy_home(finish);
	close(fd);
	return r;
}

static int with_base(struct finish *finish)
{
	int fd = open_base(finish);
	int r;

	if (fd < 0)
		return rd_tool_complain("open", finish->base, fd);
	finish->home.base_fd = fd;
	r = with_pool(finish);
	close(fd);
	return r;
}

static int with_meta(struct finish *finish)
{
	struct rd_tool *tool = finish->tool;
	int r = rd_meta_source_fd(&tool->source, finish->home.meta_fd);

	if (r)
		return rd_tool_complain("read", tool->path, r);
	rd_meta_open(&tool->meta, &tool->source);
	r = refuse_state(tool);
	if (r)
		return r;
	if (!(tool->meta.super.flags & DMR_FLAG_LINEAR_OK))
		return with_base(finish);
	/* An earlier run may have been killed after its last write. */
	print_end(finish, true);
	return EXIT_FINE;
}

int rd_tool_finish(struct rd_tool *tool)
{
	struct finish finish = {
		.tool = tool,
		.base = tool->args[0],
		.pool = tool->args[1],
		.home.meta = &tool->meta,
		.home.bad = print_bad,
	};
	int r;

	if (!tool->yes && !tool->dry_run && !isatty(STDIN_FILENO))
		return rd_tool_misused("'finish' writes to '%s' and cannot ask here: add --yes or --dry-run",
				       finish.base);
	if (isatty(STDERR_FILENO))
		finish.home.progress = print_progress;
	finish.home.meta_fd = rd_tool_open_alone(tool->path,
						 tool->dry_run ? O_RDONLY : O_RDWR);
	if (finish.home.meta_fd < 0)
		return rd_tool_complain("open", tool->path, finish.home.meta_fd);
	r = with_meta(&finish);
	close(finish.home.meta_fd);
	return r;
}
