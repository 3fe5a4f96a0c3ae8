// SPDX-License-Identifier: GPL-2.0
/* Examples to begin with, files in memory, and messages that nobody reads. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz.h"

int rd_verbosity = -1;

int rd_err(int r, const char *fmt, ...)
{
	(void)fmt;
	return r;
}

void rd_warn(const char *fmt, ...)
{
	(void)fmt;
}

void rd_info(const char *fmt, ...)
{
	(void)fmt;
}

void rd_hint(const char *fmt, ...)
{
	(void)fmt;
}

void rd_remedy(enum rd_remedy remedy, const char *object, const char *fmt, ...)
{
	(void)remedy;
	(void)object;
	(void)fmt;
}

int rd_err_format(const char *path, long long format, long long known)
{
	(void)path;
	(void)format;
	(void)known;
	return -EOPNOTSUPP;
}

void fuzz_seed(const void *data, size_t len)
{
	const char *dir = getenv("FUZZ_SEEDS");
	static unsigned int nr;
	char path[4096];
	FILE *file;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/seed%u", dir, nr++);
	file = fopen(path, "w");
	must(file && fwrite(data, 1, len, file) == len && !fclose(file));
}

void fuzz_seed_texts(const char *const *texts, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		fuzz_seed(texts[i], strlen(texts[i]));
}

int fuzz_file(size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	must(fd >= 0 && !ftruncate(fd, size));
	return fd;
}
