// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta make: format a metadata device, with the places that a text lists. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "base/uuid.h"
#include "meta/table_write.h"
#include "metatool.h"

/* The text. getline() would take longer than everything else here together. */

#define TEXT_SIZE	(1 << 20)

struct text {
	int fd;
	const char *name;
	u64 line_nr;
	char *data;
	size_t size;
	size_t at, end;		/* what is left in data */
	bool is_at_end;
};

/* Read more, behind the bytes that are left; room for a NUL remains. */
static int read_more(struct text *text)
{
	size_t left = text->end - text->at;
	ssize_t n;

	if (left)
		memmove(text->data, text->data + text->at, left);
	text->at = 0;
	text->end = left;
	if (left + 1 >= text->size) {
		size_t size = text->size ? text->size * 2 : TEXT_SIZE;
		char *data = realloc(text->data, size);

		if (!data)
			return -ENOMEM;
		text->data = data;
		text->size = size;
	}
	do {
		n = read(text->fd, text->data + left, text->size - left - 1);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	text->end += n;
	text->is_at_end = !n;
	return 0;
}

/* Return 1 and the next line, which ends with a NUL at *@ret_end; 0 at the end; or -errno. */
static int next_line(struct text *text, char **ret, char **ret_end)
{
	char *end = NULL;
	int r;

	while (text->at == text->end ||
	       !(end = memchr(text->data + text->at, '\n', text->end - text->at))) {
		if (text->is_at_end)
			break;
		r = read_more(text);
		if (r)
			return r;
	}
	if (text->at == text->end)
		return 0;
	if (!end)
		end = text->data + text->end;
	*ret = text->data + text->at;
	*ret_end = end;
	text->at = end - text->data + (end < text->data + text->end);
	*end = 0;
	text->line_nr++;
	return 1;
}

static int refuse_line(const struct text *text, const char *what)
{
	return rd_tool_fail("'%s', line %llu: %s", text->name, text->line_nr, what);
}

static int refuse_range(const struct text *text, const struct dmr_range *range, int r)
{
	const char *what = "ranges must ascend and not overlap";

	if (r == -ERANGE)
		what = "the range ends beyond the end of the volume";
	else if (r == -EOVERFLOW)
		what = "the number of the pool block is too large";
	return rd_tool_fail("'%s', line %llu: %llx,%llx: %s", text->name, text->line_nr,
			    range->first, range->len, what);
}

static int add_line(struct rd_tool *tool, struct text *text, struct rd_table_writer *table,
		    const char *p, const char *end)
{
	/* rd_table_add() knows the limits, and tells apart what is wrong. */
	static const struct dmr_range_rules rules = {
		.limit = U64_MAX, .nr_places = 1, .pool_blocks = U64_MAX,
	};
	struct dmr_range range;
	int r;

	while (p < end) {
		if (dmr_range_next(&p, &rules, &range) <= 0)
			return refuse_line(text, "not <first>,<len>,<place>");
		r = rd_table_add(table, &range);
		if (r == -EINVAL || r == -ERANGE || r == -EOVERFLOW)
			return refuse_range(text, &range, r);
		if (r)
			return rd_tool_complain("write", tool->path, r);
	}
	return EXIT_FINE;
}

static int add_lines(struct rd_tool *tool, struct text *text, struct rd_table_writer *table)
{
	char *line = NULL, *end = NULL;
	int r, code;

	while ((r = next_line(text, &line, &end)) > 0) {
		code = add_line(tool, text, table, line, end);
		if (code)
			return code;
	}
	return r ? rd_tool_complain("read", text->name, r) : EXIT_FINE;
}

/* The device */

/* @text NULL: the UUID is not known yet, all zeros. */
static bool parse_uuid(const char *text, u8 *uuid)
{
	return !text || rd_uuid_parse(uuid, text);
}

static int parse(struct rd_tool *tool, struct dmr_super *super)
{
	u64 nr_segs;

	if (!tool->sectors)
		return rd_tool_misused("'make' needs --sectors");
	if (dmr_parse_u64(tool->sectors, &super->volume_sectors))
		return rd_tool_misused("not a number of sectors: '%s'", tool->sectors);
	nr_segs = dmr_nr_segs(super->volume_sectors);
	if (!nr_segs || nr_segs > DMR_MAX_SEGS)
		return rd_tool_misused("a volume cannot have %s sectors", tool->sectors);
	if (!parse_uuid(tool->volume_uuid, super->volume_uuid))
		return rd_tool_misused("not a UUID: '%s'", tool->volume_uuid);
	if (!parse_uuid(tool->pool_uuid, super->pool_uuid))
		return rd_tool_misused("not a UUID: '%s'", tool->pool_uuid);
	return EXIT_FINE;
}

static int refuse_full(struct rd_tool *tool)
{
	rd_tool_fail("'%s': %s", tool->path,
		     tool->meta.r ? tool->meta.why : "it holds metadata already");
	return rd_tool_fail("nothing was changed; --force overwrites it");
}

/* Refuse a device that is too small or not empty. An empty file gets the size needed. */
static int take_device(struct rd_tool *tool, int fd, struct dmr_super *super)
{
	u64 needed = dmr_meta_blocks_needed(dmr_nr_segs(super->volume_sectors),
					    DMR_FLAG_TABLE);
	bool is_device;
	u64 bytes;
	int r = rd_size_of(fd, &bytes, &is_device);

	if (!r && !bytes && !is_device) {
		bytes = needed << DMR_BLOCK_SHIFT;
		if (ftruncate(fd, bytes))
			return rd_tool_complain("extend", tool->path, -errno);
	}
	if (!r)
		r = rd_meta_source_fd(&tool->source, fd);
	if (r)
		return rd_tool_complain("read", tool->path, r);
	super->meta_blocks = bytes >> DMR_BLOCK_SHIFT;
	if (super->meta_blocks < needed)
		return rd_tool_fail("'%s' is too small: it has %llu blocks of 4 KiB, the table of this volume needs %llu",
				    tool->path, super->meta_blocks, needed);
	/* Empty is what a target would format. */
	if (rd_meta_open(&tool->meta, &tool->source) != -ENODATA && !tool->force)
		return refuse_full(tool);
	return EXIT_FINE;
}

static void print_end(struct rd_tool *tool, const struct rd_table_writer *table)
{
	bool linear_ok = table->super.flags & DMR_FLAG_LINEAR_OK;

	if (!tool->json) {
		printf("'%s': made a table of %llu blocks: %llu of zeros, %llu in the pool; %llu pages\n",
		       tool->path, table->nr_blocks, table->nr_zero, table->nr_pool,
		       table->nr_pages);
		return;
	}
	rd_tool_json_begin(tool);
	rd_json_add(&tool->out, "volume_blocks=%llu zero=%llu pool=%llu pages=%llu linear_ok=%d",
		    table->nr_blocks, table->nr_zero, table->nr_pool, table->nr_pages, linear_ok);
	rd_tool_json_end(tool);
}

static int write_table(struct rd_tool *tool, struct text *text, int fd,
		       const struct dmr_super *super)
{
	struct rd_table_writer table;
	int r = rd_table_begin(&table, fd, super), code = EXIT_FINE;

	if (!r) {
		code = add_lines(tool, text, &table);
		if (!code)
			r = rd_table_end(&table);
	}
	if (r)
		code = rd_tool_complain("write", tool->path, r);
	if (!code)
		print_end(tool, &table);
	rd_table_free(&table);
	return code;
}

static int make(struct rd_tool *tool, struct text *text, struct dmr_super *super)
{
	bool is_new = access(tool->path, F_OK) && errno == ENOENT;
	int fd = rd_tool_open_alone(tool->path, O_RDWR | (is_new ? O_CREAT | O_EXCL : 0));
	int r;

	if (fd < 0)
		return rd_tool_complain("open", tool->path, fd);
	r = take_device(tool, fd, super);
	if (!r)
		r = write_table(tool, text, fd, super);
	/* Leave no file that a target would format. */
	if (r && is_new)
		unlink(tool->path);
	close(fd);
	return r;
}

int rd_tool_make(struct rd_tool *tool)
{
	bool is_stdin = !strcmp(tool->args[0], "-");
	struct text text = { .name = is_stdin ? "standard input" : tool->args[0] };
	struct dmr_super super = { .seq = 0 };
	int r = parse(tool, &super);

	if (r)
		return r;
	r = rd_uuid_make(super.meta_uuid);
	if (r)
		return rd_tool_fail("cannot make a UUID: %s", strerror(-r));
	text.fd = is_stdin ? STDIN_FILENO : open(text.name, O_RDONLY | O_CLOEXEC);
	if (text.fd < 0)
		return rd_tool_complain("open", text.name, -errno);
	r = make(tool, &text, &super);
	free(text.data);
	if (!is_stdin)
		close(text.fd);
	return r;
}
