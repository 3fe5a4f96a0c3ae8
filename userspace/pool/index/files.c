// SPDX-License-Identifier: GPL-2.0
/* The files of the index; see files.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/plain.h"
#include "files.h"

#define FOLDER		"index"
#define WHOLE		"whole"
#define LOCK		"lock"
#define NEW		".new"
/* For the lock of names, which nobody holds for long. */
#define WAIT_MS		10000

/* The locks of the class RD_LOCK_INDEX. */
#define LOCK_NAMES	0
#define LOCK_MERGE	1
#define LOCK_NUMBER	2	/* + the number of a run */

/* -ENAMETOOLONG, -ENOTDIR: the folder is foreign. */
static int path_in(char path[PATH_MAX], const struct rd_files *files, const char *name)
{
	int n = snprintf(path, PATH_MAX, "%s/%s", files->path, name);

	if (files->is_foreign)
		return -ENOTDIR;
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int path_of_number(char path[PATH_MAX], const struct rd_files *files, u64 number,
			  const char *end)
{
	char name[RD_INDEX_RUN_NAME];

	snprintf(name, sizeof(name), "%llu%s", number, end);
	return path_in(path, files, name);
}

static void remove_name(const struct rd_files *files, const char *name)
{
	char path[PATH_MAX];

	/* What cannot be removed stays, and does no harm. */
	if (!path_in(path, files, name))
		unlink(path);
}

static void remove_number(const struct rd_files *files, u64 number, const char *end)
{
	char path[PATH_MAX];

	if (!path_of_number(path, files, number, end))
		unlink(path);
}

static int sync_folder(const struct rd_files *files)
{
	RD_CLOSE int fd = open(files->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

/* --- names */

/* Read the number that @name begins with, and what follows it. */
static bool is_number(const char *name, u64 *ret, const char **ret_end)
{
	char *end;

	if (*name < '1' || *name > '9' || strlen(name) >= RD_INDEX_RUN_NAME)
		return false;
	*ret = strtoull(name, &end, 10);
	*ret_end = end;
	return *ret < 1ULL << 40 && (!*end || !strcmp(end, NEW));
}

struct names {
	u64 *numbers;		/* of runs */
	unsigned int nr;
	u64 last;		/* the greatest, of those that are written, too */
};

static int add_number(struct names *names, u64 number)
{
	u64 *numbers = realloc(names->numbers, (names->nr + 1) * sizeof(*numbers));

	if (!numbers)
		return -ENOMEM;
	names->numbers = numbers;
	numbers[names->nr++] = number;
	return 0;
}

/* List the runs. @clean: remove what writers that died have left; names are locked. */
static int list(const struct rd_files *files, struct names *names, bool clean)
{
	RD_DIR DIR *folder = files->is_foreign ? NULL : opendir(files->path);
	struct dirent *entry;
	const char *end;
	u64 number;
	int r = 0;

	*names = (struct names){ 0 };
	if (files->is_foreign)
		return 0;
	if (!folder)
		return errno == ENOENT ? 0 : -errno;
	while (!r && (entry = readdir(folder))) {
		if (!is_number(entry->d_name, &number, &end))
			continue;
		names->last = rd_max(names->last, number);
		if (!*end)
			r = add_number(names, number);
		else if (clean && !rd_lock_is_held(files->lock_fd, RD_LOCK_INDEX,
						   LOCK_NUMBER + number))
			remove_name(files, entry->d_name);
	}
	return r;
}

/* --- runs that are open */

static void forget(struct rd_files *files, struct rd_index_run *run)
{
	unsigned int i;

	for (i = 0; files->runs[i] != run; i++)
		;
	memmove(&files->runs[i], &files->runs[i + 1],
		(--files->nr - i) * sizeof(struct rd_index_run *));
	if (run->vector)
		files->vectors -= rd_index_run_vector_bytes(run);
	/* Another one may have room now. */
	files->has_vectors = false;
	rd_index_run_close(run);
	free(run);
}

static void tell_dropped(struct rd_files *files, u64 number, int error)
{
	rd_warn("part %llu of the index '%s' %s (%s); it is dropped, and fewer blocks are found",
		number, files->path,
		error == -EBADMSG ? "is damaged, or of another pool" : "cannot be read",
		strerror(-error));
	remove_name(files, WHOLE);
	remove_number(files, number, "");
}

void rd_files_drop(struct rd_files *files, struct rd_index_run *run, int error)
{
	u64 number = run->number;

	forget(files, run);
	if (error != -ENOMEM)
		tell_dropped(files, number, error);
}

void rd_files_remove(struct rd_files *files, struct rd_index_run *run)
{
	remove_number(files, run->number, "");
	forget(files, run);
}

static bool is_newer(const struct rd_index_run *a, const struct rd_index_run *b)
{
	return a->head.generation > b->head.generation ||
		(a->head.generation == b->head.generation && a->number > b->number);
}

static int insert(struct rd_files *files, struct rd_index_run *run)
{
	struct rd_index_run **runs = realloc(files->runs, (files->nr + 1) * sizeof(*runs));
	unsigned int i = files->nr;

	if (!runs)
		return -ENOMEM;
	files->runs = runs;
	for (; i && is_newer(run, runs[i - 1]); i--)
		runs[i] = runs[i - 1];
	runs[i] = run;
	files->nr++;
	files->has_vectors = false;
	return 0;
}

static int open_run(struct rd_files *files, struct rd_index_run *run)
{
	char path[PATH_MAX];
	u64 number = run->number;
	int fd, r;

	run->fd = -1;
	r = path_of_number(path, files, number, "");
	if (r)
		return r;
	fd = rd_open_plain(path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	r = rd_index_run_open(run, fd, files->uuid);
	run->number = number;
	return r;
}

static void add_run(struct rd_files *files, u64 number)
{
	struct rd_index_run *run = malloc(sizeof(*run));
	int r;

	if (!run)
		return;
	run->number = number;
	run->vector = NULL;
	r = open_run(files, run);
	if (!r)
		r = insert(files, run);
	if (!r)
		return;
	rd_index_run_close(run);
	free(run);
	/* Another process has merged it meanwhile. */
	if (r != -ENOENT && r != -ENOMEM)
		tell_dropped(files, number, r);
}

/* The smallest first: they are asked as often as the others. */
void rd_files_load_vectors(struct rd_files *files)
{
	struct rd_index_run *least;
	unsigned int i;
	int r;

	while (!files->has_vectors) {
		files->has_vectors = true;
		least = NULL;
		for (i = 0; i < files->nr; i++)
			if (!files->runs[i]->vector &&
			    (!least || files->runs[i]->head.nr_lines < least->head.nr_lines))
				least = files->runs[i];
		if (!least || files->vectors + rd_index_run_vector_bytes(least) > RD_FILES_VECTORS)
			return;
		r = rd_index_run_load_vector(least);
		if (r)
			rd_files_drop(files, least, r);
		else
			files->vectors += rd_index_run_vector_bytes(least);
		files->has_vectors = false;
	}
}

static bool has(const u64 *numbers, unsigned int nr, u64 number)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

static bool is_open(const struct rd_files *files, u64 number)
{
	unsigned int i;

	for (i = 0; i < files->nr; i++)
		if (files->runs[i]->number == number)
			return true;
	return false;
}

void rd_files_refresh(struct rd_files *files)
{
	struct names names;
	unsigned int i;
	int r;

	r = list(files, &names, false);
	for (i = files->nr; !r && i--;)
		if (!has(names.numbers, names.nr, files->runs[i]->number))
			forget(files, files->runs[i]);
	for (i = 0; !r && i < names.nr; i++)
		if (!is_open(files, names.numbers[i]))
			add_run(files, names.numbers[i]);
	free(names.numbers);
}

/* --- open and close */

static int open_lock(struct rd_files *files, int flags)
{
	char path[PATH_MAX];
	int r = path_in(path, files, LOCK);

	if (r)
		return r;
	files->lock_fd = rd_open_plain(path, O_RDWR | flags, 0600);
	return rd_min(files->lock_fd, 0);
}

/* Open the folder, without its runs. */
static int find_folder(struct rd_files *files, const char *pool_path)
{
	struct stat st;

	*files = (struct rd_files){ .lock_fd = -1 };
	if (asprintf(&files->path, "%s/" FOLDER, pool_path) < 0) {
		files->path = NULL;
		return -ENOMEM;
	}
	files->is_foreign = !lstat(files->path, &st) && !S_ISDIR(st.st_mode);
	if (files->is_foreign)
		rd_warn("'%s' is not a folder: the index is not used", files->path);
	open_lock(files, 0);
	return 0;
}

int rd_files_open(struct rd_files *files, const char *pool_path, const u8 uuid[16])
{
	int r = find_folder(files, pool_path);

	if (r)
		return r;
	memcpy(files->uuid, uuid, sizeof(files->uuid));
	rd_files_refresh(files);
	return 0;
}

void rd_files_close(struct rd_files *files)
{
	while (files->nr)
		forget(files, files->runs[0]);
	if (files->lock_fd >= 0)
		close(files->lock_fd);
	free(files->runs);
	free(files->path);
}

static int make_folder(struct rd_files *files)
{
	if (files->lock_fd >= 0)
		return 0;
	if (files->is_foreign)
		return -ENOTDIR;
	if (mkdir(files->path, 0700) && errno != EEXIST)
		return -errno;
	return open_lock(files, O_CREAT);
}

/* Take the lock of all names in the folder, which is made if there is none. */
static int lock_names(struct rd_files *files, struct rd_lock *ret)
{
	int r = make_folder(files);

	return r ? r : rd_lock_take(ret, files->lock_fd, RD_LOCK_INDEX, LOCK_NAMES, true, WAIT_MS);
}

/* --- new runs */

static void tell_unwritten(struct rd_files *files, int error)
{
	if (!files->told_write)
		rd_warn("cannot write the index '%s': %s; fewer blocks are found later",
			files->path, strerror(-error));
	files->told_write = true;
}

static int take_number(struct rd_files *files, struct rd_new_run *run)
{
	char path[PATH_MAX];
	struct names names;
	int r;

	r = list(files, &names, true);
	free(names.numbers);
	if (r)
		return r;
	run->number = names.last + 1;
	r = rd_lock_take(&run->lock, files->lock_fd, RD_LOCK_INDEX, LOCK_NUMBER + run->number,
			 true, 0);
	if (r)
		return r;
	r = path_of_number(path, files, run->number, NEW);
	if (r)
		return r;
	run->fd = rd_open_plain(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	return rd_min(run->fd, 0);
}

static int begin(struct rd_files *files, struct rd_new_run *run)
{
	struct rd_lock names = RD_LOCK_NONE;
	int r;

	r = rd_failpoint("index-begin");
	if (!r)
		r = lock_names(files, &names);
	if (!r)
		r = take_number(files, run);
	rd_lock_drop(&names);
	return r;
}

/* End what rd_files_begin() began, but for the file itself. */
static void release(struct rd_files *files, struct rd_new_run *run, int r)
{
	rd_index_run_writer_free(&run->writer);
	if (run->fd >= 0) {
		close(run->fd);
		if (r)
			remove_number(files, run->number, NEW);
	}
	rd_lock_drop(&run->lock);
	if (r)
		tell_unwritten(files, r);
}

int rd_files_begin(struct rd_files *files, struct rd_new_run *ret, u64 nr, u64 generation)
{
	int r;

	*ret = (struct rd_new_run){ .fd = -1, .lock = RD_LOCK_NONE };
	r = begin(files, ret);
	if (!r)
		r = rd_index_run_begin(&ret->writer, ret->fd, files->uuid,
				       generation ? generation : ret->number, nr);
	if (r)
		release(files, ret, r);
	return r;
}

static int flush_file(int fd)
{
	int r = rd_failpoint("index-flush");

	return r ? r : fsync(fd) ? -errno : 0;
}

static int rename_new(struct rd_files *files, const struct rd_new_run *run)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r;

	r = files->lazy ? 0 : flush_file(run->fd);
	if (!r)
		r = rd_failpoint("index-rename");
	if (!r)
		r = path_of_number(from, files, run->number, NEW);
	if (!r)
		r = path_of_number(to, files, run->number, "");
	if (r)
		return r;
	if (rename(from, to))
		return -errno;
	return files->lazy ? 0 : sync_folder(files);
}

int rd_files_end(struct rd_files *files, struct rd_new_run *run, int r)
{
	u64 number = run->number;

	if (!r)
		r = rd_index_run_end(&run->writer);
	if (!r)
		r = rename_new(files, run);
	release(files, run, r);
	if (r)
		return r;
	add_run(files, number);
	return 0;
}

bool rd_files_lock_merge(struct rd_files *files, struct rd_lock *ret)
{
	return files->lock_fd >= 0 &&
		!rd_lock_take(ret, files->lock_fd, RD_LOCK_INDEX, LOCK_MERGE, true, 0);
}

/* --- all of it */

void rd_files_clear(struct rd_files *files)
{
	remove_name(files, WHOLE);
	/* Before any run goes: an index without them must not look whole after a crash. */
	sync_folder(files);
	rd_files_refresh(files);
	while (files->nr)
		rd_files_remove(files, files->runs[0]);
}

bool rd_files_is_whole(const char *pool_path)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" FOLDER "/" WHOLE, pool_path) < PATH_MAX &&
		!access(path, F_OK);
}

void rd_files_set_whole(struct rd_files *files)
{
	char path[PATH_MAX];
	int r, fd = -1;
	unsigned int i;

	r = make_folder(files);
	for (i = 0; i < files->nr && !r; i++)
		r = flush_file(files->runs[i]->fd);
	/* The names of runs are stable before that of the file which says that they are all. */
	if (!r)
		r = sync_folder(files);
	if (!r)
		r = path_in(path, files, WHOLE);
	if (!r) {
		fd = rd_open_plain(path, O_WRONLY | O_CREAT, 0600);
		r = rd_min(fd, 0);
	}
	if (fd >= 0)
		close(fd);
	if (!r)
		r = sync_folder(files);
	if (r)
		tell_unwritten(files, r);
}
