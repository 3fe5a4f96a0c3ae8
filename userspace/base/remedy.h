/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a user can do about an error. A library names the remedy; only the front end
 * knows by which verb or option it is to be had, and has a text for each.
 *
 *	rd_err(0, "'%s' is full", path);
 *	rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, "nothing was changed");
 */
#ifndef RD_REMEDY_H
#define RD_REMEDY_H

/* In brackets: the object, which may be NULL where there is none. */
enum rd_remedy {
	/* locks */
	RD_REMEDY_WAIT_FOR_LOCK,	/* wait until the other command ends */
	RD_REMEDY_TAKE_OVER,		/* of a pool that another host has */
	RD_REMEDY_REPAIR_THERE,		/* its journal, from its catalog */

	/* a pool: the object is its directory, where that is not the pool in use */
	RD_REMEDY_NAME_POOL,		/* name another pool */
	RD_REMEDY_MAKE_NEW_POOL,	/* by the program that is installed now */
	RD_REMEDY_REBUILD_CATALOG,	/* [directory] make a new catalog from the pool */
	RD_REMEDY_RENEW_COPY,		/* replace the damaged copy of the catalog */
	RD_REMEDY_RECOUNT_FRAMES,	/* the same, to count which frames are in use */
	RD_REMEDY_REBUILD_SUPERS,	/* make both superblocks from the catalog */
	RD_REMEDY_CHOOSE_SIDE,		/* of a data area and a catalog that parted */
	RD_REMEDY_ACCEPT_OLDER,		/* rebuild from what is there, and lose newer versions */
	RD_REMEDY_ACCEPT_LOSS,		/* rebuild without what only the old catalog has */
	RD_REMEDY_SCRUB,		/* read everything, to know what is damaged */
	RD_REMEDY_MAKE_ROOM,		/* delete versions */
	RD_REMEDY_GROW,			/* give a full pool more frames */
	RD_REMEDY_NAME_TEMP,		/* name a directory for temporary files */
	RD_REMEDY_NAME_DATA,		/* name the file or device of the data area */
	RD_REMEDY_NAME_SIZE,		/* give a new or empty file its size */
	RD_REMEDY_USE_ANYWAY,		/* [path] although it is not empty */
	RD_REMEDY_OVERWRITE,		/* use it, and lose what it holds */
	RD_REMEDY_WRITE_ANYWAY,		/* although it is something else, or in use */
	RD_REMEDY_READ_INSIDE,		/* [format:path] the disk in a qcow2 file or the like */
	RD_REMEDY_WRITE_INSIDE,		/* format:path the same, to write to it */
	RD_REMEDY_NAME_DISK,		/* name a disk of a QEMU that runs */
	RD_REMEDY_READ_FILE,		/* that the disk of a guest lies in, which does not run */
	RD_REMEDY_RISK_QEMU,		/* take a version although a kill may end that */
	RD_REMEDY_TAKE_FILE,		/* keep a file as it is, and not the disk in it */
	RD_REMEDY_ALLOW_CHANGES,	/* read an image that is in use */
	RD_REMEDY_FORGET_DEVICE,	/* [dm UUID] give up one that will not come back */
	RD_REMEDY_TELL_POOL,		/* [dm UUID] tell a pool that the device is gone */

	/* attached volumes: the object is the volume */
	RD_REMEDY_LIST_ATTACHED,
	RD_REMEDY_SEE_STATUS,		/* how much is still to be copied back */
	RD_REMEDY_REATTACH,		/* detach it, then attach it */
	RD_REMEDY_DETACH,
	RD_REMEDY_DETACH_ANYWAY,	/* although its pool or its state cannot be read */
	RD_REMEDY_ABANDON,		/* detach it, and lose what only the pool has */
	RD_REMEDY_CLEAR_CLONE,		/* remove what an interrupted clone left */
	RD_REMEDY_REDO_CLONE,		/* the same, or clone again */
	RD_REMEDY_ROLL_BACK,		/* [version] instead of writing to the device */
	RD_REMEDY_FINISH_ROLL_BACK,
	RD_REMEDY_ROLL_BACK_WITHOUT,	/* without keeping what the volume is now */
	RD_REMEDY_SNAPSHOT,		/* instead of reading the device */
	RD_REMEDY_NAME_META,		/* name a metadata device */
	RD_REMEDY_NAME_ANOTHER_META,
	RD_REMEDY_MORE_COW,		/* more room for what is overwritten meanwhile */
	RD_REMEDY_LESS_COW,
	RD_REMEDY_THIN_CLONE,
	RD_REMEDY_CLONE_THIN,		/* make a thin volume of a version */
	RD_REMEDY_TRIM,			/* write zeros that were given back half */
	RD_REMEDY_REPEAT,		/* what was interrupted */
	RD_REMEDY_RECALL,		/* copy back what lies in the pool only */
	RD_REMEDY_DEDUP_ANYWAY,		/* although it may not be worth it */
	RD_REMEDY_TAKE_SNAPSHOT,	/* into the pool in question */
	RD_REMEDY_FINISH_SNAPSHOT,	/* clean up after one that was interrupted */

	/* other pools */
	RD_REMEDY_SEND_AS,		/* under another name, or although it is another disk */
	RD_REMEDY_RECEIVE_AS,		/* the same, where the receiver has asked for it */

	/* versions as devices */
	RD_REMEDY_RESTORE,		/* write it to a disk instead */
	RD_REMEDY_MAP,			/* map the version instead */
	RD_REMEDY_UNMAP,		/* [name] */
	RD_REMEDY_UNMOUNT,		/* [directory] */
	RD_REMEDY_NAME_PARTITION,
	RD_REMEDY_MOUNT_WRITABLE,

	/* exports */
	RD_REMEDY_USE_TLS,
	RD_REMEDY_NAME_SOCKET,
	RD_REMEDY_UNEXPORT,		/* [name] */

	RD_REMEDIES
};

/*
 * Print one line after an error: @fmt, which says what became of things and may be
 * NULL, and the front end's text for @remedy.
 */
__attribute__((format(printf, 3, 4)))
void rd_remedy(enum rd_remedy remedy, const char *object, const char *fmt, ...);

#endif
