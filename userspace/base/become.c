// SPDX-License-Identifier: GPL-2.0
/* From root to a user without rights: see become.h. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "become.h"
#include "log.h"

/* It is that also where no file says so. */
#define NOBODY	65534

/* --exit-with-parent asks the kernel for a signal, which forgets that when the user changes. */
static int keep_parent(int signal, pid_t parent)
{
	if (!signal)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, signal))
		return -errno;
	return getppid() == parent ? 0 : -raise(signal);
}

int rd_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *user;

	errno = 0;
	user = getpwnam(name);
	if (!user && strcmp(name, "nobody"))
		return rd_err(errno ? -errno : -ENOENT, "cannot find the user '%s'", name);
	*ret_uid = user ? user->pw_uid : NOBODY;
	*ret_gid = user ? user->pw_gid : NOBODY;
	return 0;
}

pid_t rd_fork_apart(unsigned long more)
{
	return syscall(SYS_clone, CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWPID | more | SIGCHLD, 0, 0,
		       0, 0);
}

gid_t rd_kvm_group(void)
{
	struct stat st;

	return !stat("/dev/kvm", &st) && S_ISCHR(st.st_mode) ? st.st_gid : 0;
}

int rd_become(uid_t uid, gid_t gid, gid_t also)
{
	pid_t parent = getppid();
	int signal = 0, r = 0;

	prctl(PR_GET_PDEATHSIG, &signal);
	if (setgroups(!!also, &also) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		r = -errno;
	if (!r)
		r = keep_parent(signal, parent);
	return r ? rd_err(r, "cannot become the user %u", uid) : 0;
}
