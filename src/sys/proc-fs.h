/* SPDX-License-Identifier: MIT */
/* proc-fs.h - threads of this machine in /proc */
#ifndef LOCKSHM_SYS_PROC_FS_H
#define LOCKSHM_SYS_PROC_FS_H

#include <stdbool.h>
#include <stdint.h>

/* Start time of a thread in clock ticks since boot, outside all time namespaces; 0 = no such thread, or unknown.
 * @initial_clock: this process is known to be in the initial time namespace. */
uint64_t procfs_start_time(int32_t pid, int32_t tid, bool initial_clock);

/* Has this process one thread?  False also if unknown. */
bool procfs_is_single_thread(void);

/* Inode of this process' pid namespace; 0 = unknown, or /proc is another namespace's. */
uint64_t procfs_pid_namespace(void);

/* Has the kernel no such thread any more?  @pid 0 = of any process.  Exact, needs no /proc. */
bool procfs_thread_is_gone(int32_t pid, int32_t tid);

/*
 * Proof that the thread with that start time will never run user code again: it is gone, its number belongs to a
 * younger thread, or it is exiting (flags of the kernel, state Z or X).  False if unknown.  Only for threads of this
 * process' pid namespace.
 */
bool procfs_thread_is_dead(int32_t pid, int32_t tid, uint64_t start_time);

/* Proof that the thread with exactly that start time exists and is exiting, or in a core dump of its process.  It never
 * runs user code again; the kernel may not yet have walked its robust list. */
bool procfs_thread_is_leaving(int32_t pid, int32_t tid, uint64_t start_time);

/* Proof that the kernel has finished the thread's exit: gone, or a zombie with exactly that start time. */
bool procfs_thread_has_ended(int32_t pid, int32_t tid, uint64_t start_time);

#endif
