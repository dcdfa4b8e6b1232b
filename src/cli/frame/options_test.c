#include "cli/frame/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct option options[] = {
    {"name", 'n', "NAME", "a name", NULL},          {"format", 'o', "table|json", "a choice", NULL},
    {"mixed", 0, "all|LIST", "not a choice", NULL}, {"quiet", 'q', NULL, "a flag", NULL},
    {"all", 'a', NULL, "another flag", NULL},       {0}};
static const struct command plain = {
    .name = "plain", .operands = "[ID…]", .options = options, .operands_most = 2};
static const struct command dashes = {
    .name = "dashes", .operands = "[FILE] [-- COMMAND…]", .options = options, .operands_most = 1};
static const struct command prefix = {.name = "prefix",
                                      .operands = "COMMAND",
                                      .options = options,
                                      .stops_at_operand = true,
                                      .operands_least = 1,
                                      .operands_most = COMMAND_OPERANDS_ANY};

enum { WORDS_MAX = 16 };

struct line {
    struct arena arena;
    struct invocation in;
    struct error e;
    int result;
    char *words[WORDS_MAX + 1];
};

/* words: ended by NULL. */
static void parse(struct line *line, const struct command *command, const char *const *words)
{
    *line = (struct line){0};
    arena_init(&line->arena, 64 << 10);
    int count = 0;
    for (; words[count]; count++)
        line->words[count] = arena_strdup(&line->arena, words[count]);
    line->result = options_parse(&line->e, &line->arena, command, count, line->words, &line->in);
}

#define PARSE(line, command, ...) parse(line, command, (const char *const[]){__VA_ARGS__, NULL})

static void options_are_parsed_in_all_forms(void **state)
{
    (void)state;
    struct line l;
    PARSE(&l, &plain, "--name", "a", "x", "--format=json", "-qa", "y");
    assert_int_equal(l.result, 0);
    assert_string_equal(option_value(&l.in, "name"), "a");
    assert_string_equal(option_value(&l.in, "format"), "json");
    assert_true(option_given(&l.in, "quiet"));
    assert_true(option_given(&l.in, "all"));
    assert_false(option_given(&l.in, "mixed"));
    assert_int_equal(l.in.operand_count, 2);
    assert_string_equal(l.in.operands[1], "y");
    arena_done(&l.arena);

    PARSE(&l, &plain, "-nfirst", "-n", "--", "-qn=last", "--", "--name", "-");
    assert_int_equal(l.result, 0);
    assert_string_equal(option_value(&l.in, "name"), "last");
    assert_int_equal(l.in.given_count, 4);
    assert_string_equal(l.in.given[1].value, "--");
    assert_int_equal(l.in.operand_count, 0);
    assert_int_equal(l.in.rest_count, 2);
    assert_string_equal(l.in.rest[0], "--name");
    assert_null(l.in.rest[2]);
    arena_done(&l.arena);
}

static void empty_option_value_is_kept(void **state)
{
    (void)state;
    struct line l;
    PARSE(&l, &plain, "--name=", "-", "--mixed", "A,B");
    assert_int_equal(l.result, 0);
    assert_string_equal(option_value(&l.in, "name"), "");
    assert_string_equal(l.in.operands[0], "-");
    assert_string_equal(option_value(&l.in, "mixed"), "A,B");
    arena_done(&l.arena);
}

static void parsing_stops_at_first_operand(void **state)
{
    (void)state;
    struct line l;
    PARSE(&l, &prefix, "-q", "python", "--name", "x", "--", "-z");
    assert_int_equal(l.result, 0);
    assert_int_equal(l.in.given_count, 1);
    assert_int_equal(l.in.rest_count, 5);
    assert_string_equal(l.in.rest[0], "python");
    arena_done(&l.arena);
    PARSE(&l, &prefix, "--", "-z");
    assert_int_equal(l.result, 0);
    assert_string_equal(l.in.rest[0], "-z");
    arena_done(&l.arena);
    PARSE(&l, &prefix, "-q");
    assert_int_equal(l.result, -ERR_INVALID);
    arena_done(&l.arena);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *words[4], *text;
    } cases[] = {
        {{"--nme", "x"}, "did you mean --name?"},
        {{"--nonsense=x"}, "unknown option --nonsense"},
        {{"-qz"}, "unknown option -z"},
        {{"--name"}, "--name needs an argument: NAME"},
        {{"-n"}, "-n needs an argument: NAME"},
        {{"--quiet=1"}, "--quiet takes no argument"},
        {{"--format", "tab"}, "must be one of table|json, not 'tab'"},
        {{"-o", ""}, "must be one of"},
        {{"1", "2", "3"}, "unexpected operand '3'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct line l;
        parse(&l, &plain, cases[i].words);
        assert_int_equal(l.result, -ERR_INVALID);
        if (!strstr(l.e.text, cases[i].text))
            fail_msg("'%s' does not say '%s'", l.e.text, cases[i].text);
        arena_done(&l.arena);
    }
}

static void check_text(const struct command *command, const char *const *words, const char *text)
{
    struct line l;
    parse(&l, command, words);
    assert_int_equal(l.result, -ERR_INVALID);
    assert_string_equal(l.e.text, text);
    arena_done(&l.arena);
}

static void hint_suggests_likely_correction(void **state)
{
    (void)state;
    /* No option is close to a short word with only wrong letters. */
    check_text(&plain, (const char *const[]){"--foo", NULL}, "unknown option --foo");
    check_text(&plain, (const char *const[]){"--nax", NULL}, "unknown option --nax");
    check_text(&dashes, (const char *const[]){"python", "a.py", NULL},
               "a command goes after '--': gpumux dashes -- python a.py …");
    check_text(&dashes, (const char *const[]){"python", "--epochs=3", NULL},
               "unknown option --epochs; a command goes after '--'");
    check_text(&dashes, (const char *const[]){"file", "--nme=x", NULL},
               "unknown option --nme, did you mean --name?");
}

static void help_option_counts_before_operand(void **state)
{
    (void)state;
    struct line l;
    PARSE(&l, &prefix, "-q", "--help");
    assert_int_equal(l.result, 0);
    assert_true(l.in.wants_help);
    arena_done(&l.arena);
    PARSE(&l, &prefix, "python", "--help");
    assert_int_equal(l.result, 0);
    assert_false(l.in.wants_help);
    arena_done(&l.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_parsed_in_all_forms),
        cmocka_unit_test(empty_option_value_is_kept),
        cmocka_unit_test(parsing_stops_at_first_operand),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(hint_suggests_likely_correction),
        cmocka_unit_test(help_option_counts_before_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
