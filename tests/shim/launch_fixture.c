#include "tests/shim/launch_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *registrar_path, *launcher_path, *ptx_path;
static char preload[8192], directory[64], socket_path[96], own_ptx[96];
static struct driver_api api;

static void start(struct program *ret_program, const char *const *arguments, const char *mark)
{
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        dup2(to[0], 0);
        dup2(from[1], 1);
        if (mark) {
            setenv("LD_PRELOAD", preload, 1);
            setenv("GPUMUX_REGISTER", socket_path, 1);
            setenv("GPUMUX_MARK", mark, 1);
        }
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    assert_true(pid > 0);
    close(to[0]);
    close(from[1]);
    *ret_program = (struct program){pid, fdopen(to[1], "w"), fdopen(from[0], "r")};
}

void tell(const struct program *program, const char *line)
{
    fprintf(program->to, "%s\n", line);
    fflush(program->to);
}

int hear(const struct program *program)
{
    char line[64] = "";
    assert_non_null(fgets(line, sizeof(line), program->from));
    return (int)strtol(line, NULL, 10);
}

int ask(const struct program *program, const char *line)
{
    tell(program, line);
    return hear(program);
}

int finish(const struct program *program, const char *last_line)
{
    int status = -1;
    tell(program, last_line);
    fclose(program->to);
    fclose(program->from);
    assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
    return status;
}

void start_registrar(struct program *ret_registrar, const char *name, const char *value,
                     const char *name2, const char *value2)
{
    const char *const arguments[] = {registrar_path, "--socket", socket_path, name,
                                     value,          name2,      value2,      NULL};
    char line[16] = "";
    start(ret_registrar, arguments, NULL);
    assert_non_null(fgets(line, sizeof(line), ret_registrar->from));
    assert_string_equal(line, "ready\n");
}

void start_closed_launcher(struct program *ret_launcher, const char *mark)
{
    const char *const arguments[] = {launcher_path, own_ptx, NULL};
    start(ret_launcher, arguments, mark);
}

void start_launcher(struct program *ret_launcher, const char *mark)
{
    start_closed_launcher(ret_launcher, mark);
    assert_int_equal(ask(ret_launcher, "open"), 0);
}

uint64_t number_of(const struct program *registrar, const char *mark, const char *name)
{
    char line[8192], wanted[64];
    uint64_t number = UINT64_MAX;
    tell(registrar, "show");
    for (;;) {
        assert_non_null(fgets(line, sizeof(line), registrar->from));
        if (strcmp(line, "end\n") == 0)
            return number;
        snprintf(wanted, sizeof(wanted), " mark=%s ", mark);
        if (!strstr(line, wanted))
            continue;
        snprintf(wanted, sizeof(wanted), " %s=", name);
        const char *found = strstr(line, wanted);
        assert_non_null(found);
        number = strtoull(found + strlen(wanted), NULL, 10);
    }
}

void end_by_kill(struct program *program)
{
    kill(program->pid, SIGKILL);
    finish(program, "");
}

/* ---- around all tests ---- */

int set_up_devices(void **state)
{
    (void)state;
    driver_api_make_devices("H200:24g", 1, 1);
    return 0;
}

int set_up_sliced_devices(void **state)
{
    (void)state;
    driver_api_make_devices("H200:24g", 1, 0);
    return 0;
}

int tear_down_devices(void **state)
{
    (void)state;
    driver_api_remove_devices();
    return 0;
}

/* A sanitizer's runtime that this program is linked with must be the first library of the launcher too. */
static int add_runtime(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    (void)argument;
    if (strstr(info->dlpi_name, "/libasan.so") || strstr(info->dlpi_name, "/libtsan.so"))
        snprintf(preload, sizeof(preload), "%s:", info->dlpi_name);
    return 0;
}

/* burn.ptx, and a collective. */
static void make_ptx(void)
{
    char text[1 << 16];
    FILE *from = fopen(ptx_path, "r"), *to;
    snprintf(directory, sizeof(directory), "/tmp/gpumux-launch-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(socket_path, sizeof(socket_path), "%s/register", directory);
    snprintf(own_ptx, sizeof(own_ptx), "%s/own.ptx", directory);
    assert_non_null(from);
    size_t size = fread(text, 1, sizeof(text), from);
    fclose(from);
    to = fopen(own_ptx, "w");
    assert_non_null(to);
    fwrite(text, 1, size, to);
    fprintf(to, "\n.visible .entry ncclDevKernel_AllReduce()\n{\n    ret;\n}\n");
    fclose(to);
}

bool launch_fixture_begin(int argc, char **argv)
{
    if (argc != 5)
        return false;
    registrar_path = argv[1];
    launcher_path = argv[2];
    ptx_path = argv[4];
    dl_iterate_phdr(add_runtime, NULL);
    size_t length = strlen(preload);
    snprintf(preload + length, sizeof(preload) - length, "%s", argv[3]);
    signal(SIGPIPE, SIG_IGN);
    driver_api_load(&api);
    make_ptx();
    return true;
}

void launch_fixture_end(void)
{
    unlink(own_ptx);
    rmdir(directory);
}

struct driver_api *launch_fixture_api(void)
{
    return &api;
}
