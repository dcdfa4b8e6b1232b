/* Output files and durable files, in directories that another user may have prepared. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/supervisor/attempt_file.h"
#include "node/supervisor/control_socket.h"
#include "base/durable.h"
#include "node/supervisor/output.h"

struct fixture {
    char top[64];
    int fd;
    struct output output;
    char text[4096];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->top, sizeof f->top, "/tmp/gpumux-output-XXXXXX");
    assert_non_null(mkdtemp(f->top));
    f->fd = open(f->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    close(f->fd);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->top), 0);
    free(f);
    return 0;
}

static int read_from(struct fixture *f, uint64_t offset, struct output_slice *ret)
{
    return output_read(NULL, f->fd, getuid(), offset, f->text, sizeof f->text - 1, ret);
}

static void output_reader_follows_no_link(void **state)
{
    struct fixture *f = *state;
    struct output_slice slice;
    assert_int_equal(symlinkat("/etc/passwd", f->fd, "output.0.log"), 0);
    assert_int_equal(read_from(f, 0, &slice), -ERR_DENIED);
    unlinkat(f->fd, "output.0.log", 0);
    assert_int_equal(mkfifoat(f->fd, "output.0.log", 0600), 0);
    assert_int_equal(read_from(f, 0, &slice), -ERR_DENIED);
}

static void file_writer_follows_no_link(void **state)
{
    struct fixture *f = *state;
    int target = openat(f->fd, "target", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(symlinkat("target", f->fd, "record.json.tmp"), 0);
    assert_int_equal(durable_write(NULL, f->fd, "record.json", "x", 1), 0);
    assert_int_equal(linkat(f->fd, "target", f->fd, "record.json.tmp", 0), 0);
    assert_int_equal(durable_write(NULL, f->fd, "record.json", "y", 1), 0);
    assert_int_equal(symlinkat("target", f->fd, "output.0.log"), 0);
    output_init(&f->output, f->fd, 4096, 2);
    output_append(&f->output, OUTPUT_STDOUT, "secret\n", 7);
    assert_true(f->output.dropped_bytes > 0);
    output_done(&f->output);
    struct stat st;
    assert_int_equal(fstat(target, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(target);
}

static void dropped_output_is_noted(void **state)
{
    struct fixture *f = *state;
    struct output_slice slice;
    assert_int_equal(mkdirat(f->fd, "output.0.log", 0700), 0);
    output_init(&f->output, f->fd, 4096, 2);
    output_append(&f->output, OUTPUT_STDOUT, "lost\n", 5);
    assert_int_equal(unlinkat(f->fd, "output.0.log", AT_REMOVEDIR), 0);
    output_append(&f->output, OUTPUT_STDOUT, "kept\n", 5);
    output_done(&f->output);
    assert_int_equal(read_from(f, 0, &slice), 0);
    f->text[slice.length] = '\0';
    assert_non_null(strstr(f->text, "[gpumux: 45 bytes of output were dropped: File exists]\n"));
    assert_non_null(strstr(f->text, "stdout F kept\n"));
    assert_null(strstr(f->text, "lost"));
}

static void durable_write_uses_reserved_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(durable_reserve(NULL, f->fd, "exit.json", 4096), 0);
    struct stat reserved, written;
    assert_int_equal(fstatat(f->fd, "exit.json.tmp", &reserved, 0), 0);
    assert_int_equal(durable_write(NULL, f->fd, "exit.json", "{}", 2), 0);
    assert_int_equal(fstatat(f->fd, "exit.json", &written, 0), 0);
    assert_int_equal(reserved.st_ino, written.st_ino);
    assert_int_equal(written.st_size, 2);
}

static void attempt_names_are_parsed_strictly(void **state)
{
    (void)state;
    uint64_t workload;
    int attempt;
    assert_true(attempt_name_parse("17.2", &workload, &attempt));
    assert_int_equal(workload, 17);
    assert_int_equal(attempt, 2);
    const char *wrong[] = {"",      "17",    "17.",   "17.0", "17.-1",
                           "017.2", "17.2x", "17.02", "-1.2", "99999999999999999999.1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(attempt_name_parse(wrong[i], &workload, &attempt));
}

static void attempt_files_are_parsed_strictly(void **state)
{
    (void)state;
    struct attempt_report report;
    struct attempt_record record;
    struct attempt_grant grant;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    const char *wrong[] = {"", "{", "[]", "{}", "null", "{\"workload\":\"x\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t length = strlen(wrong[i]);
        assert_int_equal(attempt_exit_parse(NULL, wrong[i], length, &report), -ERR_CORRUPT);
        assert_int_equal(attempt_record_parse(NULL, wrong[i], length, &record), -ERR_CORRUPT);
        assert_int_equal(attempt_grant_parse(NULL, &arena, wrong[i], length, &grant), -ERR_CORRUPT);
    }
    arena_done(&arena);
}

/* A sentence that was truncated within a character must not invalidate the whole file. */
static void text_cut_within_character_is_written(void **state)
{
    (void)state;
    struct attempt_report end = {.workload = 17, .attempt = 1, .phase = ATTEMPT_EXITED}, again;
    end.text[0] = 'a';
    for (size_t i = 1; i + 1 < sizeof end.text; i++)
        end.text[i] = i % 2 ? '\xc3' : '\xa9';
    end.text[sizeof end.text - 2] = '\xc3';
    struct str text;
    str_init(&text, ATTEMPT_EXIT_MAX);
    assert_int_equal(attempt_exit_write(&end, &text), 0);
    assert_int_equal(attempt_exit_parse(NULL, str_text(&text), text.length, &again), 0);
    assert_int_equal(strlen(again.text), sizeof end.text - 3);
    assert_memory_equal(again.text, end.text, sizeof end.text - 3);
    str_done(&text);
}

/* Control closes the connection of a node with such reports, so that a user must not be able to
 * cause them. */
static void impossible_exit_records_are_refused(void **state)
{
    (void)state;
    const struct attempt_report good = {
        .workload = 17, .attempt = 1, .started_wall_ms = 1, .ended_wall_ms = 2, .signal = 9};
    struct attempt_report wrong[] = {good, good, good, good, good, good}, parsed;
    wrong[1].signal = -1;
    wrong[2].signal = 65;
    wrong[3].started_wall_ms = -1;
    wrong[4].ended_wall_ms = INT64_MAX;
    wrong[5].attempt = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct str text;
        str_init(&text, ATTEMPT_EXIT_MAX);
        assert_int_equal(attempt_exit_write(&wrong[i], &text), 0);
        assert_int_equal(attempt_exit_parse(NULL, str_text(&text), text.length, &parsed),
                         i == 0 ? 0 : -ERR_CORRUPT);
        str_done(&text);
    }
}

static void control_packets_are_parsed_strictly(void **state)
{
    (void)state;
    static const char *const good[] = {"stop 0",       "stop 5000", "kill",  "signal 64",
                                       "input 3 1\nx", "ready",     "watch", "watch endings"};
    static const char *const wrong[] = {
        "",           "stop",         "stop -1",
        "stop 5000 ", "stop 0x10",    "stop 9223372036854775807",
        "signal 0",   "signal 65",    "signal 2147483648",
        "input 3 1",  "input 3 2\nx", "input 18446744073709551616 1\nx",
        "kill all",   "watch ending", "watch  endings"};
    struct control_command command;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(control_command_parse(good[i], strlen(good[i]), &command), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(control_command_parse(wrong[i], strlen(wrong[i]), &command),
                         -ERR_PROTOCOL);
    uint64_t offset;
    assert_true(control_reply_parse_taken("ok 17", &offset));
    assert_int_equal(offset, 17);
    assert_false(control_reply_parse_taken("ok", &offset));
    assert_false(control_reply_parse_taken("ok -1", &offset));
    assert_false(control_reply_parse_taken("ok 18446744073709551616", &offset));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(output_reader_follows_no_link),
        CASE(file_writer_follows_no_link),
        CASE(dropped_output_is_noted),
        CASE(durable_write_uses_reserved_file),
        CASE(attempt_names_are_parsed_strictly),
        CASE(attempt_files_are_parsed_strictly),
        CASE(text_cut_within_character_is_written),
        CASE(impossible_exit_records_are_refused),
        CASE(control_packets_are_parsed_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
