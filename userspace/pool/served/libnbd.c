// SPDX-License-Identifier: GPL-2.0
/* Load libnbd: see libnbd.h. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "libnbd.h"

#define LIBRARY		"libnbd.so.0"

static const char *const names[] = {
#define RD_LIBNBD_CALL(name)	"nbd_" #name,
	RD_LIBNBD_CALLS(RD_LIBNBD_CALL)
#undef RD_LIBNBD_CALL
};

/* A call for each name, in the same order. */
_Static_assert(sizeof(struct rd_libnbd) == sizeof(names) / sizeof(*names) * sizeof(void *),
	       "a pointer for each name");

int rd_libnbd_load(const struct rd_libnbd **ret)
{
	static struct rd_libnbd calls;
	static void *library;
	size_t i;
	void *call;

	*ret = &calls;
	if (library)
		return 0;
	library = dlopen(LIBRARY, RTLD_NOW);
	if (!library) {
		rd_err(0, "to read over NBD takes libnbd: %s", dlerror());
		rd_hint("Debian's package is 'libnbd0', Fedora's 'libnbd'");
		return -ELIBACC;
	}
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		call = dlsym(library, names[i]);
		if (!call)
			return rd_err(0, "libnbd is too old: it has no '%s'", names[i]), -ELIBACC;
		memcpy((char *)&calls + i * sizeof(call), &call, sizeof(call));
	}
	return 0;
}
