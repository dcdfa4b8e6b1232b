#include "cli/frame/options.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"

static const struct option help_option = {"help", 'h', NULL, "show this help", NULL};

const struct option *option_help(void)
{
    return &help_option;
}

static const struct option *find_long(const struct command *command, const char *name,
                                      size_t length)
{
    for (const struct option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0)
            return o;
    if (length == strlen(help_option.name) && strncmp(help_option.name, name, length) == 0)
        return &help_option;
    return NULL;
}

static const struct option *find_short(const struct command *command, char letter)
{
    for (const struct option *o = command->options; o && o->name; o++)
        if (o->letter == letter)
            return o;
    return letter == help_option.letter ? &help_option : NULL;
}

/* Returns whether the option may belong to another command, as in "submit python train.py --epochs
 * 3". */
static bool forgets_dashes(const struct invocation *in)
{
    return in->operand_count > 0 && strstr(in->command->operands, "-- COMMAND");
}

static int unknown_long(struct error *e, const struct invocation *in, const char *name)
{
    /* As with commands, a name of three letters has at most one typo. */
    const size_t most = strlen(name) > 3 ? 2 : 1;
    const char *nearest = NULL;
    size_t best = most + 1;
    for (const struct option *o = in->command->options; o && o->name; o++) {
        size_t distance = str_distance(name, o->name, most + 1);
        if (distance < best) {
            best = distance;
            nearest = o->name;
        }
    }
    if (nearest)
        return error_set(e, ERR_INVALID, "unknown option --%s, did you mean --%s?", name, nearest);
    return error_set(e, ERR_INVALID, "unknown option --%s%s", name,
                     forgets_dashes(in) ? "; a command goes after '--'" : "");
}

/* An argument named "a|b|c" is a choice. */
static bool choice_allows(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = choices;; at++) {
        const char *end = strchrnul(at, '|');
        if ((size_t)(end - at) == length && strncmp(at, value, length) == 0)
            return true;
        if (!*end)
            return false;
        at = end;
    }
}

static int add(struct error *e, struct invocation *in, const struct option *option,
               const char *value)
{
    if (option == &help_option)
        in->wants_help = true;
    bool is_choice = option->argument && strchr(option->argument, '|') &&
                     !strpbrk(option->argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (is_choice && !choice_allows(option->argument, value))
        return error_set(e, ERR_INVALID, "--%s must be one of %s, not '%s'", option->name,
                         option->argument, value);
    in->given[in->given_count++] = (struct option_given){option, value};
    return 0;
}

/* args[*at] is "--name…". */
static int parse_long(struct error *e, struct arena *arena, struct invocation *in, int count,
                      char **args, int *at)
{
    const char *name = args[*at] + 2;
    const char *equals = strchrnul(name, '=');
    size_t length = (size_t)(equals - name);
    const struct option *o = find_long(in->command, name, length);
    if (!o) {
        const char *wrong = arena_strndup(arena, name, length);
        return wrong ? unknown_long(e, in, wrong) : error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    if (!o->argument) {
        if (*equals)
            return error_set(e, ERR_INVALID, "--%s takes no argument", o->name);
        return add(e, in, o, NULL);
    }
    if (*equals)
        return add(e, in, o, equals + 1);
    if (*at + 1 >= count)
        return error_set(e, ERR_INVALID, "--%s needs an argument: %s", o->name, o->argument);
    return add(e, in, o, args[++*at]);
}

/* args[*at] is "-x…". */
static int parse_short(struct error *e, struct invocation *in, int count, char **args, int *at)
{
    for (const char *letter = args[*at] + 1; *letter; letter++) {
        const struct option *o = find_short(in->command, *letter);
        if (!o)
            return error_set(e, ERR_INVALID, "unknown option -%c", *letter);
        if (!o->argument) {
            int r = add(e, in, o, NULL);
            if (r < 0)
                return r;
            continue;
        }
        if (letter[1])
            return add(e, in, o, letter + (letter[1] == '=' ? 2 : 1));
        if (*at + 1 >= count)
            return error_set(e, ERR_INVALID, "-%c needs an argument: %s", o->letter, o->argument);
        return add(e, in, o, args[++*at]);
    }
    return 0;
}

static int check_operands(struct error *e, const struct invocation *in)
{
    const struct command *c = in->command;
    size_t count = c->stops_at_operand ? in->rest_count : in->operand_count;
    if (count < c->operands_least)
        return error_set(e, ERR_INVALID, "an operand is missing: gpumux %s %s", c->name,
                         c->operands);
    if (count > c->operands_most && forgets_dashes(in))
        return error_set(e, ERR_INVALID, "a command goes after '--': gpumux %s -- %s %s …", c->name,
                         in->operands[0], in->operands[1]);
    if (count > c->operands_most) {
        char *const *list = c->stops_at_operand ? in->rest : in->operands;
        return error_set(e, ERR_INVALID, "unexpected operand '%s': gpumux %s %s",
                         list[c->operands_most], c->name, c->operands);
    }
    return 0;
}

int options_parse(struct error *e, struct arena *arena, const struct command *command, int count,
                  char **args, struct invocation *ret)
{
    /* A word has at most as many options as letters. */
    size_t letters = 1;
    for (int i = 0; i < count; i++)
        letters += strlen(args[i]) + 1;
    struct invocation in = {.command = command};
    in.given = arena_array(arena, letters, sizeof *in.given);
    in.operands = arena_array(arena, (size_t)count + 1, sizeof *in.operands);
    if (!in.given || !in.operands)
        return error_set(e, ERR_NO_MEMORY, "the command line is too long");
    in.rest = args + count;

    for (int at = 0; at < count; at++) {
        const char *word = args[at];
        int r = 0;
        bool is_operand = word[0] != '-' || !word[1];
        if (is_operand && command->stops_at_operand) {
            in.rest = args + at;
            in.rest_count = (size_t)(count - at);
            break;
        } else if (is_operand) {
            in.operands[in.operand_count++] = args[at];
        } else if (strcmp(word, "--") == 0) {
            in.rest = args + at + 1;
            in.rest_count = (size_t)(count - at - 1);
            break;
        } else if (word[1] == '-') {
            r = parse_long(e, arena, &in, count, args, &at);
        } else {
            r = parse_short(e, &in, count, args, &at);
        }
        if (r < 0)
            return r;
        if (in.wants_help)
            break;
    }
    if (!in.wants_help) {
        int r = check_operands(e, &in);
        if (r < 0)
            return r;
    }
    *ret = in;
    return 0;
}

const char *option_value(const struct invocation *in, const char *name)
{
    assert(find_long(in->command, name, strlen(name)));
    for (size_t i = in->given_count; i > 0; i--)
        if (strcmp(in->given[i - 1].option->name, name) == 0)
            return in->given[i - 1].value;
    return NULL;
}

bool option_given(const struct invocation *in, const char *name)
{
    assert(find_long(in->command, name, strlen(name)));
    for (size_t i = 0; i < in->given_count; i++)
        if (strcmp(in->given[i].option->name, name) == 0)
            return true;
    return false;
}

const char *option_given_of(const struct invocation *in, const char *const *names)
{
    while (*names && !option_given(in, *names))
        names++;
    return *names;
}
