/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The priority of this process at disks whose scheduler knows priorities: idle, only when nothing
 * else wants the disk, or as it was. What holds a lock that others wait for must not be idle.
 */
#ifndef RD_PRIORITY_H
#define RD_PRIORITY_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/ioprio.h, which is not on every host that builds this. */
static inline void rd_disk_idle(bool is_idle)
{
	const int who_process = 1, class_none = 0, class_idle = 3 << 13;

	syscall(SYS_ioprio_set, who_process, 0, is_idle ? class_idle : class_none);
}

#endif
