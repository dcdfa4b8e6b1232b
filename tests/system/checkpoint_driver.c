/*
 * A libcuda.so.1 for `gpumux checkpoint` only, in front of the emulated driver, which is beside it
 * as libcuda-real.so. Before each call it follows the file GPUMUX_EMU.STEP, if present: fail, kill
 * (the calling process), or hang while the file says so. STEP is state, lock, checkpoint, restore
 * or unlock.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ERROR_UNKNOWN = 999, PATH_BYTES = 4096, LOOK_US = 5000 };

static int steer(const char *step)
{
    char path[PATH_BYTES], word[16];
    const char *devices = getenv("GPUMUX_EMU");
    if (!devices || snprintf(path, sizeof path, "%s.%s", devices, step) >= (int)sizeof path)
        return ERROR_UNKNOWN;
    for (;; usleep(LOOK_US)) {
        FILE *file = fopen(path, "re");
        if (!file)
            return 0;
        int words = fscanf(file, "%15s", word);
        (void)fclose(file);
        if (words == 1 && strcmp(word, "fail") == 0)
            return ERROR_UNKNOWN;
        if (words == 1 && strcmp(word, "kill") == 0)
            raise(SIGKILL);
    }
}

static void *real(const char *name)
{
    void *library = dlopen("libcuda-real.so", RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function)
        abort();
    return function;
}

/* The arguments are passed to the emulated driver unchanged. */
#define STEERED(name, step)                                                                        \
    int name(int pid, void *argument);                                                             \
    int name(int pid, void *argument)                                                              \
    {                                                                                              \
        int (*call)(int, void *) = (int (*)(int, void *))real(#name);                              \
        int error = steer(step);                                                                   \
        return error ? error : call(pid, argument);                                                \
    }

STEERED(cuCheckpointProcessGetState, "state")
STEERED(cuCheckpointProcessLock, "lock")
STEERED(cuCheckpointProcessCheckpoint, "checkpoint")
STEERED(cuCheckpointProcessRestore, "restore")
STEERED(cuCheckpointProcessUnlock, "unlock")

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    int (*call)(unsigned) = (int (*)(unsigned))real("cuInit");
    return call(flags);
}
