/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which volumes have the target over them on this host: a file for each, so that
 * they are attached again at boot.
 *
 *	/etc/revdedup/volumes/revdedup-vg-vm1
 *
 *	volume=vg/vm1
 *	uuid=1b4e28ba-2fa1-41d2-883f-0016d3cca427	in the metadata, made by attach
 *	base=/dev/vg/vm1
 *	base_uuid=LVM-...		its dm UUID, where it has one: names may change
 *	meta=/dev/vg/vm1_rdmeta
 *	meta_uuid=LVM-...
 *	pool=/srv/pool			may be left out: none yet
 *	version_uid=5103...		the version that the next one is based on, as its pool
 *					knows it: another pool may have one of that number;
 *					0: none, or it may lack what was written past the target
 *	unfinished=yes			a clone that is being made, see clone.h, or was cut
 *					short: nobody uses it yet
 *
 * REVDEDUP_CONFIG names another directory than /etc/revdedup.
 *
 * The device that those above use is /dev/mapper/revdedup-vg-vm1: of the name each /
 * is a -, and each - two, as LVM does it. Devices that belong to it have its name,
 * a colon, which no volume has in its name, and a word.
 */
#ifndef RD_ATTACHMENT_H
#define RD_ATTACHMENT_H

#include <limits.h>

#include "base/buffer.h"
#include "target.h"

#define RD_VOLUME_MAX	128

struct rd_attachment {
	char volume[RD_VOLUME_MAX + 1];
	char device[RD_DM_NAME_MAX];	/* from its name */
	u8 uuid[16];
	char base[PATH_MAX];
	char base_uuid[RD_DM_NAME_MAX];
	char meta[PATH_MAX];
	char meta_uuid[RD_DM_NAME_MAX];
	char pool[PATH_MAX];
	i64 version_uid;		/* 0: none yet */
	bool is_unfinished;
	bool is_locked;			/* by us */
	int lock_fd;			/* if so */
};

/* What @name is called in the directory of our configuration; NULL: no memory. */
char *rd_config_path(const char *name);

/* The name of the device for a volume. -ENAMETOOLONG, and that is said. */
int rd_device_name(const char *volume, char ret[RD_DM_NAME_MAX]);

/*
 * Fill in what follows from the name, and then, as soon as they are there, from the
 * two devices. Say what went wrong.
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
 * One command at a time changes its devices. Lasts until the process ends, if nobody
 * unlocks it. -EBUSY, and that is said.
 */
int rd_attachment_lock(struct rd_attachment *at, unsigned int wait_ms);
void rd_attachment_unlock(struct rd_attachment *at);
/* Does another command change its devices just now? */
bool rd_attachment_is_busy(const struct rd_attachment *at);

/*
 * Read it again once it is locked: who had the lock may have changed it. -ENOENT, and
 * that is said: he detached it.
 */
int rd_attachment_refresh(struct rd_attachment *at);

/* Append a struct rd_attachment for each. */
int rd_attachments(struct rd_buffer *ret);

/*
 * Where base and metadata are now, should their names have changed: fills in base
 * and meta. -ENODEV, and that is said: one is not there.
 */
int rd_attachment_locate(struct rd_attachment *at);

/* The name of one of its parts, "meta" */
const char *rd_part_name(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			 const char *part);
/*
 * What device-mapper says of it; @part NULL: of the device itself. -EEXIST, and that
 * is said: there is one of that name that is not ours.
 */
int rd_part_info(const struct rd_attachment *at, const char *part, struct rd_dm_info *ret);
/* Resume it, if a command that died has left it suspended. */
int rd_part_wake(const struct rd_attachment *at, const char *part, unsigned int flags);
/* Nothing where there is none. */
int rd_part_remove(const struct rd_attachment *at, const char *part);
/* Its dm UUID; @part NULL: the device itself */
const char *rd_part_uuid(char ret[RD_DM_NAME_MAX], const struct rd_attachment *at,
			 const char *part);

#endif
