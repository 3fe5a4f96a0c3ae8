// SPDX-License-Identifier: GPL-2.0
/*
 * From root to a user without rights, with what is open by then: what clients send is read by a
 * process that can open nothing of the host.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "nbd.h"

/* --exit-with-parent asks the kernel for a signal, which forgets that when the user changes. */
static int keep_parent(int signal, pid_t parent)
{
	if (!signal)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, signal))
		return -errno;
	return getppid() == parent ? 0 : -raise(signal);
}

int nbd_become(const char *name)
{
	const struct passwd *user;
	pid_t parent = getppid();
	int signal = 0, r = 0;

	errno = 0;
	user = getpwnam(name);
	if (!user)
		return rd_err(errno ? -errno : -ENOENT, "cannot find the user '%s'", name);
	prctl(PR_GET_PDEATHSIG, &signal);
	if (setgroups(0, NULL) || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid))
		r = -errno;
	if (!r)
		r = keep_parent(signal, parent);
	return r ? rd_err(r, "cannot become the user '%s'", name) : 0;
}
