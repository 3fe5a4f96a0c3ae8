// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta dump: print everything on the device, and what a target would make of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/kernel.h>

#include "base/uuid.h"
#include "metatool.h"

/* Superblocks: a field is a line of text, or a JSON member of the same name. */

static void field_text(struct rd_tool *tool, const char *name, const char *text)
{
	if (tool->json)
		rd_json_string(&tool->out, name, text);
	else
		printf("  %-16s%s\n", name, text ? text : "-");
}

static void field_u64(struct rd_tool *tool, const char *name, u64 value)
{
	if (tool->json)
		rd_json_u64(&tool->out, name, value);
	else
		printf("  %-16s%llu\n", name, value);
}

static void field_hex(struct rd_tool *tool, const char *name, u32 value)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%08x", value);
	field_text(tool, name, text);
}

/* Print a UUID; all zeros: not known yet. */
static void field_uuid(struct rd_tool *tool, const char *name, const u8 *uuid)
{
	char text[RD_UUID_TEXT];

	field_text(tool, name, dmr_is_zero(uuid, DMR_UUID_SIZE) ? NULL :
		   rd_uuid_print(text, uuid));
}

/* Print bits, and the names of those that have one. */
static void field_bits(struct rd_tool *tool, const char *name, u32 bits,
		       const char *const *names, unsigned int nr_names)
{
	char text[128], *p = text;
	u32 bit;

	p += sprintf(p, "0x%08x", bits);
	for (bit = 0; bit < nr_names; bit++)
		if (bits & 1U << bit)
			p += sprintf(p, " %s", names[bit]);
	field_text(tool, name, text);
}

static void dump_disk(struct rd_tool *tool, const struct dmr_super_disk *disk)
{
	static const char *const flags[] = {
		"frozen", "lost", "linear_ok", "incomplete", "table", "hydrate",
		"no_pool",
	};
	static const char *const incompat[] = { "pack" };

	field_u64(tool, "format_version", le32_to_cpu(disk->version));
	field_uuid(tool, "meta_uuid", disk->meta_uuid);
	field_uuid(tool, "volume_uuid", disk->volume_uuid);
	field_uuid(tool, "pool_uuid", disk->pool_uuid);
	field_hex(tool, "compat", le32_to_cpu(disk->compat));
	field_hex(tool, "compat_ro", le32_to_cpu(disk->compat_ro));
	field_bits(tool, "incompat", le32_to_cpu(disk->incompat), incompat, ARRAY_SIZE(incompat));
	field_bits(tool, "flags", le32_to_cpu(disk->flags), flags, ARRAY_SIZE(flags));
	field_u64(tool, "seq", le64_to_cpu(disk->seq));
	field_u64(tool, "volume_sectors", le64_to_cpu(disk->volume_sectors));
	field_u64(tool, "meta_blocks", le64_to_cpu(disk->meta_blocks));
	field_u64(tool, "epoch", le64_to_cpu(disk->epoch));
	field_u64(tool, "committed", le64_to_cpu(disk->committed));
	field_u64(tool, "version_nr", le64_to_cpu(disk->version_nr));
	field_u64(tool, "lost_epoch", le64_to_cpu(disk->lost_epoch));
	field_u64(tool, "hydrate_mib", le32_to_cpu(disk->hydrate_mib));
	field_hex(tool, "csum", le32_to_cpu(disk->csum));
}

static const char *copy_state(const struct dmr_super_copy *copy)
{
	switch (-copy->r) {
	case 0:
		return "good";
	case ENODATA:
		return "zero";
	case EMEDIUMTYPE:
		return "foreign";
	case EOPNOTSUPP:
		return "unsupported";
	case EBADMSG:
		return "damaged";
	case ENOSPC:
		return "missing";
	}
	return "unreadable";
}

static void dump_copy(struct rd_tool *tool, const struct dmr_super_copy *copy,
		      const struct rd_meta_raw *raw, const char *name)
{
	/* The fields of a damaged copy are worth a look, if not more. */
	bool has_fields = raw->is_known && copy->r != -ENODATA &&
			  copy->r != -EMEDIUMTYPE;

	if (tool->json) {
		rd_json_add(&tool->out, "{ copy=%s block=%llu state=%s why=%s",
			    name, copy->block, copy_state(copy), copy->r ? copy->why : NULL);
	} else {
		printf("superblock copy %s, block %llu: %s%s%s\n", name,
		       copy->block, copy_state(copy), copy->r ? ": " : "",
		       copy->r ? copy->why : "");
	}
	if (has_fields)
		dump_disk(tool, &raw->disk);
	if (tool->json)
		rd_json_end(&tool->out, '}');
	else
		putchar('\n');
}

/* Bitmaps */

/* Dirty segments, added up over the groups. */
struct totals {
	u64 current;
	u64 frozen;
};

static const char *bits_state(const struct rd_meta_bits *bits)
{
	static const char *const states[] = {
		[RD_BITS_GOOD] = "good",
		[RD_BITS_OLDER] = "older",
		[RD_BITS_DAMAGED] = "damaged",
		[RD_BITS_COMING] = "coming",
		[RD_BITS_UNREADABLE] = "unreadable",
	};

	return states[bits->state];
}

/* @role: the set that the block holds now, or NULL for none. */
static void dump_bits(struct rd_tool *tool, const struct rd_meta_bits *bits,
		      const char *role)
{
	bool has_epoch = bits->state != RD_BITS_DAMAGED &&
			 bits->state != RD_BITS_UNREADABLE;

	if (tool->json) {
		rd_json_add(&tool->out, "{ block=%llu set=%s state=%s",
			    bits->block, role, bits_state(bits));
		if (has_epoch)
			rd_json_u64(&tool->out, "epoch", bits->epoch);
		if (role)
			rd_json_u64(&tool->out, "dirty", bits->nr_dirty);
		rd_json_end(&tool->out, '}');
		return;
	}
	printf("  block %llu, ", bits->block);
	if (has_epoch)
		printf("epoch %llu", bits->epoch);
	if (!has_epoch || bits->state == RD_BITS_COMING)
		printf("%s%s", has_epoch ? ", " : "", bits_state(bits));
	if (role)
		printf(": %s, %u dirty\n", role, bits->nr_dirty);
	else
		puts(": not in use");
}

static void dump_group(struct rd_tool *tool, u64 group, struct totals *totals)
{
	const struct rd_meta *meta = &tool->meta;
	bool frozen = meta->super.flags & DMR_FLAG_FROZEN;
	u64 epoch = meta->super.epoch;
	struct rd_meta_bits bits;

	rd_meta_read_bits(meta, group, epoch, &bits);
	totals->current += bits.nr_dirty;
	if (tool->json) {
		rd_json_add(&tool->out, "{ group=%llu first=%llu segments=%u",
			    group, bits.first, bits.nr_segs);
		rd_json_begin(&tool->out, "bitmaps", '[');
	} else {
		printf("group %llu, segments %llu to %llu\n", group, bits.first,
		       bits.first + bits.nr_segs - 1);
	}
	dump_bits(tool, &bits, "current");
	/* The other bitmap is that of the epoch before, or free for the next one. */
	rd_meta_read_bits(meta, group, frozen ? epoch - 1 : epoch + 1, &bits);
	if (frozen)
		totals->frozen += bits.nr_dirty;
	dump_bits(tool, &bits, frozen ? "frozen" : NULL);
	if (tool->json) {
		rd_json_end(&tool->out, ']');
		rd_json_end(&tool->out, '}');
	}
}

/* The target */

static const char *action(const struct rd_meta *meta)
{
	if (meta->r == -ENODATA)
		return "format";
	return meta->r || meta->refused ? "refuse" : "load";
}

/* Blocks may be in a pool, so a target needs it. The constructor of the target asks the same. */
static bool needs_pool(const struct rd_meta *meta)
{
	return !(meta->super.flags & (DMR_FLAG_LINEAR_OK | DMR_FLAG_NO_POOL));
}

static void text_target(const struct rd_meta *meta, const struct totals *totals)
{
	const struct dmr_super *super = &meta->super;
	bool lost = super->flags & DMR_FLAG_LOST;

	if (!meta->r) {
		printf("\nstate: copy %c, epoch %llu, version %llu, tracking %s, %llu of %llu segments dirty\n",
		       meta->chosen, super->epoch, super->version_nr,
		       lost ? "lost" : "ok", totals->current, meta->nr_segs);
		if (super->flags & DMR_FLAG_FROZEN)
			printf("checkpoint %llu is neither committed nor aborted: %llu segments frozen\n",
			       super->epoch, totals->frozen);
	}
	printf("a target would %s", action(meta));
	if (!meta->r && !meta->refused)
		printf(" it%s%s\n", super->compat_ro ? ", read-only" : "",
		       needs_pool(meta) ? ", with the pool device" : "");
	else
		printf(" it: %s\n%s\n", meta->r ? meta->why : meta->refused,
		       rd_meta_advice(meta));
}

static void json_target(struct rd_tool *tool, const struct totals *totals)
{
	const struct rd_meta *meta = &tool->meta;
	const struct dmr_super *super = &meta->super;
	bool refused = meta->r || meta->refused;
	char copy[2] = { meta->chosen, 0 };

	rd_json_add(&tool->out, "target={ action=%s why=%s advice=%s",
		    action(meta), meta->r ? meta->why : meta->refused,
		    refused ? rd_meta_advice(meta) : NULL);
	if (!meta->r) {
		rd_json_add(&tool->out, "copy=%s mode=%s tracking=%s epoch=%llu version=%llu",
			    copy, super->compat_ro ? "ro" : "rw",
			    super->flags & DMR_FLAG_LOST ? "lost" : "ok", super->epoch,
			    super->version_nr);
		rd_json_add(&tool->out, "segments=%llu dirty=%llu needs_pool=%d waits=%d",
			    meta->nr_segs, totals->current, needs_pool(meta),
			    !!(super->flags & DMR_FLAG_FROZEN));
		rd_json_u64(&tool->out, "frozen", totals->frozen);
	}
	rd_json_end(&tool->out, '}');
}

static void dump_copies(struct rd_tool *tool)
{
	if (tool->json) {
		rd_tool_json_begin(tool);
		rd_json_begin(&tool->out, "superblocks", '[');
	} else {
		printf("'%s': %llu blocks of 4 KiB\n\n", tool->path,
		       tool->source.nr_blocks);
	}
	dump_copy(tool, &tool->meta.a, &tool->meta.raw_a, "A");
	dump_copy(tool, &tool->meta.b, &tool->meta.raw_b, "B");
	if (tool->json) {
		rd_json_end(&tool->out, ']');
		rd_json_begin(&tool->out, "groups", '[');
	}
}

int rd_tool_dump(struct rd_tool *tool)
{
	const struct rd_meta *meta = &tool->meta;
	struct totals totals = { 0 };
	u64 group;

	dump_copies(tool);
	for (group = 0; group < meta->nr_groups; group++)
		dump_group(tool, group, &totals);
	if (!meta->r && (meta->super.flags & DMR_FLAG_LOST))
		totals.current = meta->nr_segs;
	if (tool->json) {
		rd_json_end(&tool->out, ']');
		json_target(tool, &totals);
		rd_tool_json_end(tool);
	} else {
		text_target(meta, &totals);
	}
	return rd_tool_exit(tool);
}
