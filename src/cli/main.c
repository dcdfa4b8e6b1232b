/* gpumux: finds the command and runs it. The table of commands is in commands.c. */
#include <stdio.h>
#include <string.h>

#include "cli/frame/help.h"
#include "cli/frame/options.h"

enum { ARENA_BYTES = 16 << 20 };

static int usage_error(const struct command *command, const struct error *e)
{
    fprintf(stderr, "gpumux: %s: %s\nSee 'gpumux %s --help'.\n", command->name, e->text,
            command->name);
    return COMMAND_USAGE;
}

static const struct command *choose(const char *word)
{
    if (!word || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return command_find("help");
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return command_find("version");
    return command_find(word);
}

int main(int argc, char **argv)
{
    const struct command *command = choose(argc > 1 ? argv[1] : NULL);
    if (!command)
        return help_unknown_command(argv[1]);
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    struct invocation in;
    struct error e = {0};
    int status = COMMAND_OK;
    int skipped = argc > 1 ? 2 : 1;
    if (options_parse(&e, &arena, command, argc - skipped, argv + skipped, &in) < 0)
        status = usage_error(command, &e);
    else if (in.wants_help)
        status = help_print_command(command);
    else
        status = command->run(&in);
    arena_done(&arena);
    /* Output that could not be written, for instance to a full disk, is a failure. */
    if (fflush(stdout) != 0 && status == COMMAND_OK) {
        perror("gpumux: standard output");
        status = COMMAND_FAILED;
    }
    return status;
}
