/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attachments: which volumes are tracked on this host. Each has a file, by which it is
 * attached again at boot.
 *
 *	/etc/revdedup/volumes/revdedup-vg-vm1
 *
 *	volume=vg/vm1
 *	uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427	in the metadata, made by attach
 *	device_uuid=2c5f...		in the dm UUID of its device, where that is another one: the
 *					device was in use when it was detached, see attach.h
 *	base=/dev/vg/vm1
 *	base_uuid=LVM-...		its dm UUID, where it has one: names may change
 *	meta=/dev/vg/vm1_rdmeta
 *	meta_uuid=LVM-...
 *	pool=/srv/pool			where blocks that are not on the base lie, or lay: a
 *					clone or roll-back was made from it; left out: none was
 *	version_uid=5103...		the version that the next one is based on, as its pool
 *					knows it: another pool may have one of that number;
 *					0: none, or it may lack what was written past the target
 *	version_pool=/backup/pool	the pool to which the last version went
 *	zeros=yes			some blocks may be zeros by the metadata alone; none is in
 *					a pool: 'trim' was interrupted, see dedup_home.h
 *	dedup=pool			'offload' reads cold blocks from it; left out: not
 *	partial=yes			the base has a tag that says that it lacks blocks
 *	zeros_cursor=81920		the block at which 'trim' or 'offload' goes on: what one
 *	pool_cursor=163840		has left half done there, the other does not finish
 *	dedup_in_pool=40960		the blocks in the pool when 'offload' last ended
 *	dedup_cold=48			its --cold, if so many came home that it was raised
 *	dedup_time=1764000000		when it last ended without an error
 *	dedup_lost_marks=2		how often a window of it had to begin again
 *	unfinished=yes			a clone that is being made, see clone.h, or was
 *					interrupted: it is not in use yet
 *
 * REVDEDUP_CONFIG names another directory than /etc/revdedup.
 *
 * A guest uses /dev/mapper/revdedup-vg-vm1: each / of the volume's name becomes a -, and
 * each - two, as LVM does it. Devices that belong to it are named after it, with a colon,
 * which no volume has in its name, and a word.
 */
#ifndef RD_ATTACHMENT_H
#define RD_ATTACHMENT_H

#include <limits.h>

#include "base/buffer.h"
#include "target.h"

#define RD_VOLUME_MAX	128

struct rd_pool;

struct rd_attachment {
	char volume[RD_VOLUME_MAX + 1];
	char device[RD_DM_NAME_MAX];	/* from its name */
	u8 uuid[16];
	u8 device_uuid[16];		/* zeros: @uuid */
	char base[PATH_MAX];
	char base_uuid[RD_DM_NAME_MAX];
	char meta[PATH_MAX];
	char meta_uuid[RD_DM_NAME_MAX];
	char pool[PATH_MAX];
	i64 version_uid;		/* 0: none yet */
	char version_pool[PATH_MAX];
	bool is_zeros;
	bool dedup_pool;
	bool is_partial;
	u64 zeros_cursor, pool_cursor;
	u64 dedup_in_pool;		/* 0: not known */
	u64 dedup_cold;			/* 0: it was not raised */
	u64 dedup_time;			/* 0: never, in seconds of time() */
	u64 dedup_lost_marks;
	bool is_unfinished;
	bool is_locked;			/* by us */
	int lock_fd;			/* if so */
};

/* The path of @name in the directory of our configuration; NULL: no memory. */
char *rd_config_path(const char *name);

/* Name the device of a volume. -ENAMETOOLONG; says so. */
int rd_device_name(const char *volume, char ret[RD_DM_NAME_MAX]);

/*
 * Fill in what follows from the name; and, when both devices exist, what follows from
 * them. Say what went wrong.
 */
int rd_attachment_init(struct rd_attachment *at, const char *volume, const char *base,
		       const char *meta);
int rd_attachment_identify(struct rd_attachment *at);

/* -ENOENT, without a word: it is not attached. */
int rd_attachment_load(struct rd_attachment *at, const char *volume);
/* Stable when it returns. */
int rd_attachment_save(const struct rd_attachment *at);
int rd_attachment_remove(const struct rd_attachment *at);
/*
 * Save that it may be written past the target, in segments that the metadata call clean: whatever
 * becomes of the command, the next snapshot reads everything.
 */
int rd_attachment_bypassed(struct rd_attachment *at);

/*
 * Lock it, so that one command at a time changes its devices, until it is unlocked or the
 * process ends. -EBUSY; says so.
 */
int rd_attachment_lock(struct rd_attachment *at, unsigned int wait_ms);
void rd_attachment_unlock(struct rd_attachment *at);
/* Does another command hold its lock? */
bool rd_attachment_is_busy(const struct rd_attachment *at);

/*
 * Read it again once it is locked: the command that had the lock may have changed it.
 * -ENOENT, and says so: that command detached it.
 */
int rd_attachment_refresh(struct rd_attachment *at);

/* Append a struct rd_attachment for each. */
int rd_attachments(struct rd_buffer *ret);

/*
 * Find base and metadata by their UUIDs, and fill in their present names. -ENODEV, and
 * says so: one does not exist.
 */
int rd_attachment_locate(struct rd_attachment *at);
/* The same for the metadata alone, without a word: 0 or -errno. */
int rd_attachment_locate_meta(struct rd_attachment *at);

/* Find the path of @pool as the file has it: it must be the same from any directory. */
int rd_attachment_path(char ret[PATH_MAX], const struct rd_pool *pool);

/* The name of one of its parts, "meta" */
const char *rd_part_name(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			 const char *part);
/*
 * Ask device-mapper for a part; @part NULL: the device itself. -EEXIST, and says so:
 * another device has that name.
 */
int rd_part_info(const struct rd_attachment *at, const char *part, struct rd_dm_info *ret);
/* Resume it, if an interrupted command has left it suspended. */
int rd_part_wake(const struct rd_attachment *at, const char *part, unsigned int flags);
/* Remove it; do nothing where there is none. */
int rd_part_remove(const struct rd_attachment *at, const char *part);
/* Its dm UUID; @part NULL: the device itself */
const char *rd_part_uuid(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			 const char *part);

#endif
