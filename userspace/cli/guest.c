// SPDX-License-Identifier: GPL-2.0
/* Print files of a guest: see guest.h. */
#include <stdio.h>
#include <sys/stat.h>

#include "guest.h"

void ctl_print_name(const char *name)
{
	while (*name) {
		unsigned int len = *name == '\\' ? 0 : rd_shown_len(name);

		if (len) {
			printf("%.*s", len, name);
			name += len;
		} else {
			printf("\\x%02x", (u8)*name++);
		}
	}
}

static const struct type {
	mode_t mode;
	char letter;
	const char *name;
} types[] = {
	{ S_IFREG, '-', "file" },
	{ S_IFDIR, 'd', "directory" },
	{ S_IFLNK, 'l', "link" },
	{ S_IFCHR, 'c', "character device" },
	{ S_IFBLK, 'b', "block device" },
	{ S_IFIFO, 'p', "pipe" },
	{ S_IFSOCK, 's', "socket" },
	{ 0, '?', "unknown" },
};

static const struct type *type_of(u32 mode)
{
	const struct type *type;

	for (type = types; type->mode && type->mode != (mode & S_IFMT); type++)
		;
	return type;
}

static void print_mode(u32 mode)
{
	static const char all[] = "rwxrwxrwx";
	static const u32 special[] = { S_ISUID, S_ISGID, S_ISVTX };
	char text[] = "----------";
	unsigned int i;

	text[0] = type_of(mode)->letter;
	for (i = 0; i < 9; i++)
		if (mode & (0400 >> i))
			text[1 + i] = all[i];
	for (i = 0; i < 3; i++) {
		char *x = &text[3 + 3 * i];

		if (mode & special[i])
			*x = *x == 'x' ? "sst"[i] : "SST"[i];
	}
	fputs(text, stdout);
}

void ctl_print_file(const struct rd_guest_record *file)
{
	print_mode(file->mode);
	printf(" %5llu %5llu %12llu %s", file->uid, file->gid, file->size, ctl_time(file->mtime));
}

void ctl_json_file(struct ctl *ctl, const struct rd_guest_record *file)
{
	char mode[16];

	snprintf(mode, sizeof(mode), "%04o", file->mode & 07777);
	rd_json_add(&ctl->out,
		    "kind=%s mode=%s uid=%llu gid=%llu size=%llu mtime=%lld mtime_nanoseconds=%u ctime=%lld inode=%llu",
		    type_of(file->mode)->name, mode, file->uid, file->gid, file->size, file->mtime,
		    file->mtime_ns, file->ctime, file->inode);
}
