// SPDX-License-Identifier: GPL-2.0
/* Load libraries: see library.h. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "library.h"
#include "log.h"

int rd_library_load(struct rd_library *library, void *ret)
{
	void *handle, *call;
	size_t i;

	if (library->handle)
		return 0;
	handle = dlopen(library->file, RTLD_NOW);
	if (!handle) {
		rd_err(0, "%s takes %s: %s", library->purpose, library->name, dlerror());
		rd_hint("Debian's package is %s", library->packages);
		return -ELIBACC;
	}
	for (i = 0; i < library->nr; i++) {
		/* Or in a library that it was loaded with. */
		call = dlsym(handle, library->calls[i].name);
		if (!call)
			return rd_err(-ELIBACC, "%s has no '%s'", library->name,
				      library->calls[i].name);
		memcpy((char *)ret + library->calls[i].at, &call, sizeof(call));
	}
	library->handle = handle;
	return 0;
}
