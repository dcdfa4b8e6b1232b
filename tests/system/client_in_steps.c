/*
 * client_in_steps PREFIX: a client of the driver that pauses between two steps, so that a test can
 * act in between.
 *
 *   cuInit           then PREFIX.joined has the result
 *   waits until      PREFIX.go exists
 *   a context        then PREFIX.context has the result
 *
 * Then it waits to be ended. A result other than 0 is the exit status, at once.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/library.h"

#define CALLS(CALL) CALL(cuInit) CALL(cuCtxCreate_v2)

enum { PATH_BYTES = 512, NO_DRIVER = 2 };

static const char *path_of(const char *prefix, const char *step, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s.%s", prefix, step);
    return path;
}

/* Writes the file atomically. */
static void tell(const char *prefix, const char *step, int answer)
{
    char path[PATH_BYTES], other[PATH_BYTES];
    FILE *file = fopen(path_of(prefix, "new", other), "w");
    if (!file)
        return;
    (void)fprintf(file, "%d\n", answer);
    (void)fclose(file);
    (void)rename(other, path_of(prefix, step, path));
}

int main(int argc, char **argv)
{
    char go[PATH_BYTES];
    const struct timespec moment = {.tv_nsec = 5000000};
    struct {
        CALLS(CALL_MEMBER)
    } driver;
    CUcontext context;
    if (argc != 2 || library_load(CUDA_SONAME, CALL_NAMES(CALLS), &driver).missing)
        return NO_DRIVER;
    int answer = driver.cuInit(0);
    tell(argv[1], "joined", answer);
    while (answer == 0 && access(path_of(argv[1], "go", go), F_OK) < 0)
        nanosleep(&moment, NULL);
    if (answer == 0) {
        answer = driver.cuCtxCreate_v2(&context, 0, 0);
        tell(argv[1], "context", answer);
    }
    while (answer == 0)
        pause();
    return answer & 0xff;
}
