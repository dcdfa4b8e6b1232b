/*
 * kill_task JOURNAL LABEL LINES SLEEP_MS: the task of the kill test.
 *
 * Records its life in a journal that all tasks append to, in whole lines with one write each:
 *     start LABEL ATTEMPT PID BOOT_US
 *     end LABEL ATTEMPT PID BOOT_US
 * and prints "LABEL ATTEMPT i" for i = 1 … LINES. While alive, the task holds a lock named after
 * its label: a second living copy cannot take the lock, and writes "overlap" instead of "start".
 * With a CUDA driver, the task allocates device memory and leaves the release to the driver.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/clock.h"
#include "base/library.h"

#define CALLS(CALL) CALL(cuInit) CALL(cuCtxCreate_v2) CALL(cuMemAlloc_v2)

enum { MEMORY_BYTES = 64 << 20, LINE_BYTES = 512 };

static const char *attempt_number(void)
{
    const char *attempt = getenv("GPUMUX_ATTEMPT");
    return attempt ? attempt : "0";
}

static int note(int journal, const char *what, const char *label)
{
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "%s %s %s %d %lld\n", what, label, attempt_number(),
                          (int)getpid(), (long long)clock_boot_us());
    return write(journal, line, (size_t)length) == length ? 0 : -1;
}

/* Returns -1 if another copy is alive. */
static int lock_label(const char *journal_path, const char *label)
{
    char path[LINE_BYTES];
    snprintf(path, sizeof path, "%s.%s.lock", journal_path, label);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -1;
}

/* Returns 0 also without a driver, because then there is no memory to allocate. */
static int take_device_memory(void)
{
    struct {
        CALLS(CALL_MEMBER)
    } driver;
    CUcontext context;
    CUdeviceptr memory;
    struct library found = library_load(CUDA_SONAME, CALL_NAMES(CALLS), &driver);
    if (!found.handle)
        return 0;
    return !found.missing && driver.cuInit(0) == 0 && driver.cuCtxCreate_v2(&context, 0, 0) == 0 &&
                   driver.cuMemAlloc_v2(&memory, MEMORY_BYTES) == 0
               ? 0
               : -1;
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    const char *journal_path = argv[1], *label = argv[2];
    long lines = strtol(argv[3], NULL, 10), ms = strtol(argv[4], NULL, 10);
    int journal = open(journal_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (journal < 0)
        return 3;
    if (lock_label(journal_path, label) < 0) {
        note(journal, "overlap", label);
        return 4;
    }
    if (note(journal, "start", label) < 0)
        return 5;
    if (take_device_memory() < 0) {
        fprintf(stderr, "%s: no device memory\n", label);
        return 6;
    }
    for (long i = 1; i <= lines; i++) {
        printf("%s %s %ld\n", label, attempt_number(), i);
        fflush(stdout);
        sleep_ms(ms / lines);
    }
    return note(journal, "end", label) < 0 ? 7 : 0;
}
