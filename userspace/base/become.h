/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From root to a user without rights, with what is open by then: what clients send, or what guests
 * have written, is read by a process that can open nothing of the host.
 */
#ifndef RD_BECOME_H
#define RD_BECOME_H

#include <sys/types.h>

/* Find a user, and "nobody" also where no file has it. Says what is wrong. */
int rd_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);

/*
 * Fork into namespaces of its own for processes, the network and shared memory, and such as @more
 * has: the kernel ends all that is in there together with the first process. -1, with errno: it
 * may not.
 */
pid_t rd_fork_apart(unsigned long more);

/* The group that may use /dev/kvm; 0: none but root. QEMU is slow without it. */
gid_t rd_kvm_group(void);

/*
 * Become this user for good, with no group but @gid and @also, if that is not 0. A signal that this
 * process gets when its parent ends stays so. Says what is wrong.
 */
int rd_become(uid_t uid, gid_t gid, gid_t also);

#endif
