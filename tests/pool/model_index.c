// SPDX-License-Identifier: GPL-2.0
/*
 * The index of fingerprints, lost, damaged or of another time: no step may be the worse for
 * it. See model.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/index/index.h"
#include "model.h"

static char folder[600], kept[600];

bool has_index(void)
{
	return rd_index_exists(path_of(pool_name));
}

static bool exists_file(const char *path)
{
	return !access(path, F_OK);
}

static void remove_folder(void)
{
	char command[700];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (system(command))
		fail("cannot remove '%s'", folder);
}

/* Find any run: their names are numbers. */
static bool find_run(char *path, size_t size)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned int nr = 0;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && !below(++nr))
			snprintf(path, size, "%s/%s", folder, entry->d_name);
	if (dir)
		closedir(dir);
	return nr;
}

/* A run is cut off, or a bit of it is another one. */
static void damage(const char *path)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	u64 at;
	u8 byte;

	if (fd < 0 || fstat(fd, &st) || !st.st_size)
		fail("cannot open '%s': %s", path, strerror(errno));
	at = below(st.st_size);
	if (below(2)) {
		if (ftruncate(fd, at))
			fail("cannot cut '%s'", path);
	} else {
		if (pread(fd, &byte, 1, at) != 1)
			fail("cannot read '%s'", path);
		byte ^= 1 << below(8);
		if (pwrite(fd, &byte, 1, at) != 1)
			fail("cannot write '%s'", path);
	}
	close(fd);
	covered[INDEX_DAMAGED]++;
}

/* What it says of places was right then. */
static void put_back(void)
{
	remove_folder();
	if (rename(kept, folder))
		fail("cannot rename '%s'", kept);
	covered[INDEX_OLD]++;
}

void spoil_index(void)
{
	char run[1300];

	snprintf(folder, sizeof(folder), "%s/index", path_of("pool"));
	snprintf(kept, sizeof(kept), "%s", path_of("kept-index"));
	switch (below(4)) {
	case 0:
		if (!exists_file(folder))
			break;
		remove_folder();
		covered[INDEX_REMOVED]++;
		break;
	case 1:
		if (find_run(run, sizeof(run)))
			damage(run);
		break;
	default:
		if (exists_file(kept))
			put_back();
		else if (exists_file(folder))
			copy(folder, kept);
	}
}
