/*
 * sys/ contains system calls, time, locks, text, and the instrumentation of test and bench builds.
 * sys/ replaces the C library, because other preloaded libraries may replace parts of the C
 * library. Every other folder of the shim may use sys/; sys/ uses no other folder.
 *
 * The functions below make system calls directly. The functions set no errno, are no cancellation
 * points, and need no symbol that another preloaded library may replace or an older C library may
 * lack. Each function returns the kernel's result or a negative errno.
 *
 * Files of the folder shim/sys may include nothing.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "the shim knows the system calls of x86-64 only"
#endif

static inline long sys_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline int sys_getpid(void)
{
    return (int)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_gettid(void)
{
    return (int)sys_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* Returns the address of the calling thread's control block, which identifies the thread at a lower
 * cost than gettid. */
static inline uint64_t sys_thread_word(void)
{
    uint64_t word;
    __asm__("mov %%fs:0, %0" : "=r"(word));
    return word;
}

static inline int sys_close(int fd)
{
    return (int)sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline long sys_write(int fd, const void *bytes, size_t count)
{
    return sys_call(SYS_write, fd, (long)bytes, (long)count, 0, 0, 0);
}

/* Returns NULL on failure. A negative errno, read as an address, is above any mapping. */
static inline void *sys_mmap(size_t bytes, int protection, int flags, int fd)
{
    long result = sys_call(SYS_mmap, 0, (long)bytes, protection, flags, fd, 0);
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

static inline int sys_munmap(const void *address, size_t bytes)
{
    return (int)sys_call(SYS_munmap, (long)address, (long)bytes, 0, 0, 0, 0);
}

/* Blocks every signal except those that the C library sends to change the user of all threads or to
 * cancel a thread: the senders of these signals wait. Returns the previous mask. */
static inline uint64_t sys_block_signals(void)
{
    const uint64_t internal = UINT64_C(7) << 31; /* signals 32, 33 and 34 */
    uint64_t all = ~internal, before = 0;
    (void)sys_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&all, (long)&before, sizeof(all),
                   0, 0);
    return before;
}

static inline void sys_restore_signals(uint64_t before)
{
    (void)sys_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&before, 0, sizeof(before), 0, 0);
}

static inline int sys_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                            const void *timeout)
{
    return (int)sys_call(SYS_futex, (long)word, operation, (long)value, (long)timeout, 0, 0);
}
