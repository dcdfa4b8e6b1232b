/*
 * spawn_bench COUNT COMMAND...: time of a command as a process, from fork to its end, over COUNT
 * sequential runs. Prints median_us, p99_us and an exit status other than 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/clock.h"

enum { COUNT_MAX = 100000 };
extern char **environ;

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long count = argc < 3 ? 0 : strtol(argv[1], NULL, 10);
    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "usage: spawn_bench COUNT COMMAND...\n");
        return 2;
    }
    int64_t *took_us = calloc((size_t)count, sizeof *took_us);
    posix_spawn_file_actions_t actions;
    if (!took_us || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) != 0)
        return 2;
    for (long i = 0; i < count; i++) {
        pid_t pid;
        int status = 0;
        int64_t start_us = clock_boot_us();
        if (posix_spawnp(&pid, argv[2], &actions, NULL, argv + 2, environ) != 0) {
            fprintf(stderr, "spawn_bench: cannot start %s\n", argv[2]);
            return 2;
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        took_us[i] = clock_boot_us() - start_us;
        if (status != 0) {
            fprintf(stderr, "spawn_bench: %s ended with wait status %#x\n", argv[2], status);
            return 1;
        }
    }
    qsort(took_us, (size_t)count, sizeof *took_us, compare);
    printf("count=%ld median_us=%lld p99_us=%lld\n", count, (long long)took_us[count / 2],
           (long long)took_us[count * 99 / 100]);
    posix_spawn_file_actions_destroy(&actions);
    free(took_us);
    return 0;
}
