#include "tests/shim/launch_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *registrar_path, *launcher_path, *ptx_path;
static char preload[PRELOAD_MAX], directory[64], socket_path[96], own_ptx[96];
static struct driver_api api;

int finish(const struct talker *talker, const char *last_line)
{
    int status = -1;
    tell(talker, last_line);
    fclose(talker->to);
    fclose(talker->from);
    assert_int_equal(waitpid(talker->pid, &status, 0), talker->pid);
    return status;
}

void start_registrar(struct talker *ret_registrar, const char *name, const char *value,
                     const char *name2, const char *value2)
{
    const char *const arguments[] = {registrar_path, "--socket", socket_path, name,
                                     value,          name2,      value2,      NULL};
    const char *const nothing[] = {NULL};
    char line[16] = "";
    start_talker(ret_registrar, arguments, nothing);
    assert_non_null(fgets(line, sizeof(line), ret_registrar->from));
    assert_string_equal(line, "ready\n");
}

void start_closed_launcher(struct talker *ret_launcher, const char *mark)
{
    const char *const arguments[] = {launcher_path, own_ptx, NULL};
    const char *const variables[] = {
        "LD_PRELOAD", preload, "GPUMUX_REGISTER", socket_path, "GPUMUX_MARK", mark, NULL};
    start_talker(ret_launcher, arguments, variables);
}

void start_launcher(struct talker *ret_launcher, const char *mark)
{
    start_closed_launcher(ret_launcher, mark);
    assert_int_equal(ask(ret_launcher, "open"), 0);
}

uint64_t number_of(const struct talker *registrar, const char *mark, const char *name)
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

void learn_cost_of(const char *launches, const struct talker *registrar, const struct talker *task)
{
    while (number_of(registrar, "task", "launches_timed") < 6) {
        assert_true(ask(task, launches) >= 0);
        assert_int_equal(ask(task, "synchronize"), 0);
    }
}

void end_by_kill(struct talker *talker)
{
    kill(talker->pid, SIGKILL);
    finish(talker, "");
}

/* ---- set-up of all tests ---- */

int set_up_devices(void **state)
{
    (void)state;
    driver_api_make_devices("H200:24g", 1, 1);
    return 0;
}

int set_up_three_devices(void **state)
{
    (void)state;
    driver_api_make_devices("H200:24g,H200:24g,H200:24g", 1, 1);
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

/* Writes burn.ptx with an additional collective kernel. */
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
    preload_shim(argv[3], preload);
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
