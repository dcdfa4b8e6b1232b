/*
 * A program for C libraries of other releases, compiled against them: prints the C library's
 * version if all checks pass. Run with a quota of 64 MiB. PROGRAM_PLAIN: the program has neither
 * libdl nor libpthread, where those are libraries; PROGRAM_THREADS: it has both.
 */
#ifdef PROGRAM_MUSL
#define VERSION "musl"
#else
#include <gnu/libc-version.h>
#define VERSION gnu_get_libc_version()
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PROGRAM_PLAIN
#include <dlfcn.h>
#endif
#ifdef PROGRAM_THREADS
#include <pthread.h>
#endif

#ifndef PROGRAM_PLAIN
static void *use_driver(void *argument)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    uint64_t a, b;
    if (!driver)
        return NULL;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    int (*release)(uint64_t) = (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2");
    int is_right = init(0) == 0 && alloc(&a, 64 << 20) == 0 && alloc(&b, 1) == 2 &&
                   release(a) == 0 && alloc(&a, 1) == 0 && release(a) == 0;
    return is_right ? argument : NULL;
}
#endif

int main(void)
{
    int is_right = 1, status = -1;
#ifndef PROGRAM_PLAIN
    is_right &= dlsym(RTLD_DEFAULT, "getenv") == (void *)getenv;
    is_right &= !dlsym(RTLD_DEFAULT, "cuInit") && dlerror();
#ifndef PROGRAM_MUSL
    is_right &= use_driver(&status) != NULL;
#endif
#endif
#ifdef PROGRAM_THREADS
    pthread_t thread;
    void *result = NULL;
    is_right &= pthread_create(&thread, NULL, use_driver, &status) == 0 &&
                pthread_join(thread, &result) == 0 && result == &status;
#endif
    pid_t child = fork();
    if (child == 0) {
#if !defined(PROGRAM_PLAIN) && !defined(PROGRAM_MUSL)
        is_right &= use_driver(&status) != NULL;
#endif
        _exit(!is_right);
    }
    is_right &= waitpid(child, &status, 0) == child && status == 0;
    printf("%s\n", is_right ? VERSION : "wrong");
    return !is_right;
}
