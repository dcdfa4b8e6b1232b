/* gpumux config default | check FILE */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "cli/connect/client.h"
#include "cli/maintain/maintenance.h"
#include "control/control.h"
#include "wire/config.h"

enum { ARENA_BYTES = 4 << 20, TEXT_MAX = 1 << 20 };

static int print_default(struct error *e, struct arena *arena)
{
    struct config config;
    struct str out;
    str_init(&out, TEXT_MAX);
    int r = config_default(arena, &config);
    if (r == 0)
        r = config_write(&config, &out);
    if (r == 0 && fputs(str_text(&out), stdout) < 0)
        r = -ERR_IO;
    str_done(&out);
    return r < 0 ? error_set(e, (enum error_code) - r, "cannot print the configuration") : 0;
}

static int check_file(struct error *e, struct arena *arena, const char *path)
{
    struct config config;
    int r = config_default(arena, &config);
    if (r == 0)
        r = config_load(e, arena, path, &config);
    if (r == 0)
        r = control_check(e, &config);
    if (r == 0)
        printf("%s is valid\n", path);
    return r;
}

int config_command(const struct invocation *in)
{
    const char *what = in->operands[0];
    bool checks = strcmp(what, "check") == 0;
    if ((!checks && strcmp(what, "default") != 0) || (in->operand_count == 2) != checks) {
        fprintf(stderr,
                "gpumux: config: use 'gpumux config default' or 'gpumux config check FILE'\n");
        return COMMAND_USAGE;
    }
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    struct error e = {0};
    int r = checks ? check_file(&e, &arena, in->operands[1]) : print_default(&e, &arena);
    int status = r < 0 ? command_fail(in, &e) : COMMAND_OK;
    arena_done(&arena);
    return status == COMMAND_NOT_FOUND ? COMMAND_FAILED : status;
}
