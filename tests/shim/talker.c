#include "tests/shim/talker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int add_runtime(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    char *preload = argument;
    if (strstr(info->dlpi_name, "/libasan.so") || strstr(info->dlpi_name, "/libtsan.so"))
        snprintf(preload, PRELOAD_MAX, "%s:", info->dlpi_name);
    return 0;
}

void preload_shim(const char *shim, char ret_preload[PRELOAD_MAX])
{
    ret_preload[0] = '\0';
    dl_iterate_phdr(add_runtime, ret_preload);
    size_t length = strlen(ret_preload);
    snprintf(ret_preload + length, PRELOAD_MAX - length, "%s", shim);
}

void start_talker(struct talker *ret_talker, const char *const *arguments,
                  const char *const *variables)
{
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no process behind */
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (; *variables; variables += 2)
            setenv(variables[0], variables[1], 1);
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    assert_true(pid > 0);
    close(to[0]);
    close(from[1]);
    *ret_talker = (struct talker){pid, fdopen(to[1], "w"), fdopen(from[0], "r")};
}

void tell(const struct talker *talker, const char *line)
{
    fprintf(talker->to, "%s\n", line);
    fflush(talker->to);
}

int hear(const struct talker *talker)
{
    char line[64] = "";
    assert_non_null(fgets(line, sizeof(line), talker->from));
    return (int)strtol(line, NULL, 10);
}

int ask(const struct talker *talker, const char *line)
{
    tell(talker, line);
    return hear(talker);
}
