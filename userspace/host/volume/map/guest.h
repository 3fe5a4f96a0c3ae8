/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files in a version, read without a mount: a guest could have made its file systems such that
 * they attack what reads them.
 *
 *	this process			serves the version over NBD, for itself (export.h)
 *	 +- nbdkit			that export
 *	 +- the reader			a user without rights: guest_reader.c, with libguestfs
 *	     +- QEMU			a small guest, whose kernel mounts the file systems
 *
 * The reader sends records and the bytes of a tar. This process looks at no more of them than
 * their lengths, and at the head of the first member. What is printed is the front end's to make
 * harmless.
 *
 * The reader ends with this process, however that ends, and QEMU with the reader: at once where
 * root has called, and else within seconds.
 */
#ifndef RD_GUEST_H
#define RD_GUEST_H

#include "base/units.h"

enum rd_guest_kind {
	RD_GUEST_FILE,		/* text[0]: its path; text[1]: where a link points, or "" */
	RD_GUEST_SYSTEM,	/* a file system, text[0]: its device; [1]: type; [2]: label */
	RD_GUEST_WARNING,	/* text[0]: something is not on the disk */
	RD_GUEST_PARTLY,	/* text[0]: something could not be read */
	RD_GUEST_ERROR,		/* text[0]; nothing follows */
	RD_GUEST_NO_START,	/* the same, of libguestfs itself */
	RD_GUEST_KINDS,
};

#define RD_GUEST_TEXTS	3

struct rd_guest_record {
	u32 kind;
	u32 mode;		/* also the type, as in struct stat */
	u64 uid, gid, size, inode;
	i64 mtime, ctime;	/* seconds */
	u32 mtime_ns, ctime_ns;
	const char *text[RD_GUEST_TEXTS];
};

enum rd_guest_work {
	RD_GUEST_LIST,		/* a directory, or a file; or, path NULL, what there is */
	RD_GUEST_FIND,		/* all files whose name matches the pattern @path */
	RD_GUEST_TAR,		/* a tar of a file or a directory */
};

/*
 * @path: in the system that the disk boots, or in its only file system; else behind the device
 * and a colon, "/dev/vg/home:/user". A pattern with a slash is for whole paths.
 */
struct rd_guest_options {
	const char *pool, *version;
	enum rd_guest_work work;
	const char *path;
	int out;		/* gets the tar; its members begin with "./" and their name */
	/* Take a FILE or a SYSTEM; for a tar there are none. */
	int (*take)(void *ctx, const struct rd_guest_record *record);
	void *ctx;
	volatile int *stop;
};

/* Is all there that it takes? 0, or -errno after a message. */
int rd_guest_is_possible(void);

/*
 * The caller has the pool not open. 1: not all could be read, after a warning. -EINTR: it was asked
 * to stop. -EPIPE: of @out, silent.
 */
int rd_guest_read(const struct rd_guest_options *options);

#endif
