#include "cli/frame/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/frame/show.h"
#include "cli/watch/top_frame.h"

enum { TEXT_MAX = 64 << 10 };

static void table_aligns_and_sanitizes_cells(void **state)
{
    (void)state;
    static const char *const titles[] = {"ID", "NAME", "NOTE", NULL};
    struct output_table t;
    output_table_init(&t, titles);
    output_cell(&t, OUTPUT_RED, "%d", 1);
    output_cell(&t, OUTPUT_PLAIN, "größe");
    output_cell(&t, OUTPUT_PLAIN, "a\033[2Jb");
    output_cell(&t, OUTPUT_PLAIN, "22");
    output_cell(&t, OUTPUT_PLAIN, "x");
    output_cell(&t, OUTPUT_PLAIN, "%s", "");
    struct str out;
    str_init(&out, TEXT_MAX);
    output_table_write(&t, false, &out);
    assert_string_equal(str_text(&out), "ID  NAME   NOTE\n"
                                        "1   größe  a?[2Jb\n"
                                        "22  x      \n");
    str_clear(&out);
    output_table_write(&t, true, &out);
    assert_non_null(strstr(str_text(&out), "\033[31m1\033[0m   größe"));
    str_done(&out);
    output_table_done(&t);
}

static void check_cut(size_t width_max, const char *wanted)
{
    static const char *const titles[] = {"ID", "NOTE", NULL};
    struct output_table t;
    output_table_init(&t, titles);
    t.width_max = width_max;
    output_cell(&t, OUTPUT_PLAIN, "1234");
    output_cell(&t, OUTPUT_FAINT, "größer als größe");
    struct str out;
    str_init(&out, TEXT_MAX);
    output_table_write(&t, false, &out);
    assert_string_equal(str_text(&out), wanted);
    str_clear(&out);
    output_table_write(&t, true, &out);
    assert_non_null(strstr(str_text(&out), "\033[0m\n"));
    str_done(&out);
    output_table_done(&t);
}

/* The cut falls between characters; a column of which nothing would be left is not cut. */
static void table_cuts_only_last_column(void **state)
{
    (void)state;
    check_cut(0, "ID    NOTE\n1234  größer als größe\n");
    check_cut(22, "ID    NOTE\n1234  größer als größe\n");
    check_cut(19, "ID    NOTE\n1234  größer als gr\n");
    check_cut(20, "ID    NOTE\n1234  größer als grö\n");
    check_cut(13, "ID    NOTE\n1234  größer als größe\n");
}

static void check_bar(double fraction, size_t width, bool utf8, const char *wanted)
{
    struct str out;
    str_init(&out, TEXT_MAX);
    output_bar(&out, fraction, width, utf8);
    assert_string_equal(str_text(&out), wanted);
    assert_int_equal(output_width(str_text(&out)), width);
    str_done(&out);
}

static void bar_shows_fraction_in_cells(void **state)
{
    (void)state;
    check_bar(0, 4, false, "----");
    check_bar(0.5, 4, false, "##--");
    check_bar(1, 4, false, "####");
    check_bar(7, 4, false, "####");
    check_bar(-1, 4, false, "----");
    check_bar(0.5, 4, true, "██░░");
    check_bar(0.53125, 4, true, "██▏░");
    check_bar(0.99, 4, true, "████");
    check_bar(0.0 / 0.0, 2, true, "░░");
}

static void quantities_are_shown_with_units(void **state)
{
    (void)state;
    char text[SHOW_TEXT_MAX];
    assert_string_equal(show_duration(-1, text), "-");
    assert_string_equal(show_duration(0, text), "0ms");
    assert_string_equal(show_duration(59999, text), "59s");
    assert_string_equal(show_duration(185000, text), "3m05s");
    assert_string_equal(show_duration(7620000, text), "2h07m");
    assert_string_equal(show_duration(INT64_C(443000000), text), "5d03h");
    assert_string_equal(show_bytes(512, text), "512 B");
    assert_string_equal(show_bytes(24.0 * 1024 * 1024 * 1024, text), "24 GiB");
    assert_string_equal(show_bytes(1.5 * 1024 * 1024, text), "1.5 MiB");
    assert_string_equal(show_speed(-1, text), "-");
    assert_string_equal(show_speed(0, text), "0/s");
    assert_string_equal(show_speed(0.25, text), "0.25/s");
    assert_string_equal(show_speed(42.4, text), "42/s");
    assert_string_equal(show_speed(999.7, text), "1.0k/s");
    assert_string_equal(show_speed(5404, text), "5.4k/s");
    assert_string_equal(show_speed(1e15, text), "1000T/s");
    assert_int_equal(show_parse_time("2026-11-15T05:46:15.123Z"), INT64_C(1794721575123));
    assert_int_equal(show_parse_time("1970-01-01T00:00:01Z"), 1000);
    assert_int_equal(show_parse_time("2026-11-15 05:46"), -1);
    assert_int_equal(show_parse_time(""), -1);
}

static void check_slo(const char *slo, const char *wanted)
{
    char text[SHOW_TEXT_MAX];
    json_t *parsed = json_loads(slo, JSON_DECODE_ANY, NULL);
    assert_string_equal(show_slo(parsed, text), wanted);
    json_decref(parsed);
}

static void slo_is_shown_in_words(void **state)
{
    (void)state;
    check_slo("{\"percentile\": 99, \"latency\": \"50ms\"}", "p99 below 50 ms");
    check_slo("{\"percentile\": 99.9, \"latency\": \"2.2000000000000002ms\"}",
              "p99.9 below 2.2 ms");
    check_slo("null", "");
}

static void check_ran(const char *stopped, const char *ended, const char *wanted)
{
    char text[SHOW_TEXT_MAX];
    json_t *w = json_pack("{s:s, s:s?, s:s?}", "started", "1970-01-01T00:00:01Z", "stopped",
                          stopped, "ended", ended);
    assert_non_null(w);
    assert_string_equal(show_run_time(w, 9000, text), wanted);
    json_decref(w);
}

/* The waits for another attempt and for the report of the end do not count. */
static void run_time_ends_with_attempt(void **state)
{
    (void)state;
    check_ran(NULL, NULL, "8s");
    check_ran("1970-01-01T00:00:03Z", NULL, "2s");
    check_ran("1970-01-01T00:00:03Z", "1970-01-01T00:00:07Z", "2s");
    check_ran(NULL, "1970-01-01T00:00:07Z", "6s"); /* of the attempt, or of an older control */
}

static void yaml_quotes_ambiguous_strings(void **state)
{
    (void)state;
    json_t *value = json_loads("{\"id\": 1, \"name\": \"x\", \"none\": null, \"on\": \"yes\", "
                               "\"number\": \"12\", \"list\": [\"a\", {\"b\": 0.5}], "
                               "\"text\": \"a: b\"}",
                               0, NULL);
    struct str out;
    str_init(&out, TEXT_MAX);
    assert_int_equal(output_write_yaml(&out, value), 0);
    assert_string_equal(str_text(&out), "id: 1\nname: x\nnone: null\n\"on\": \"yes\"\n"
                                        "number: \"12\"\nlist:\n- a\n- b: 0.5\ntext: 'a: b'\n");
    str_done(&out);
    json_decref(value);
}

static void gather(void *arg, enum output_colour colour, const char *text)
{
    (void)colour;
    str_append(arg, text);
}

/* Precedes each coloured text with the letter of its colour; plain text has none. */
static void gather_coloured(void *arg, enum output_colour colour, const char *text)
{
    str_printf(arg, "%s%s", colour == OUTPUT_RED ? "R" : colour == OUTPUT_YELLOW ? "Y" : "", text);
}

static void gather_end(void *arg)
{
    str_append(arg, "\n");
}

/* Checks the width of every line; returns the number of lines. */
static size_t count_lines(const char *text, size_t width_max)
{
    size_t lines = 0;
    char line[1024];
    while (*text) {
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        assert_true(output_width(line) <= width_max);
        lines++;
        text += length + 1;
    }
    return lines;
}

static void frame_fits_any_screen(void **state)
{
    (void)state;
    json_t *nodes = json_loads(
        "{\"nodes\": [{\"name\": \"box\", \"connected\": true, \"drained\": false, \"devices\": "
        "[{\"uuid\": \"GPU-1\", \"model\": \"NVIDIA H200\", \"index\": 0, \"memory_bytes\": "
        "25769803776, \"booked\": {\"workloads\": 2}, \"usage\": {\"sm_percent\": 50, "
        "\"memory_used_bytes\": 12884901888, \"power_watts\": 350, \"power_limit_watts\": 700, "
        "\"temperature_celsius\": 41}}, {\"uuid\": \"GPU-2\", \"model\": \"NVIDIA H200\", "
        "\"index\": 1, \"memory_bytes\": 25769803776, \"usage\": null}]}]}",
        0, NULL);
    json_t *workloads =
        json_loads("[{\"id\": 2, \"name\": \"waits\", \"kind\": \"task\", \"state\": \"queued\", "
                   "\"node\": \"box\", \"devices\": [\"GPU-2\"], \"device_names\": [\"box:1\"]}, "
                   "{\"id\": 1, \"name\": \"runs\", \"kind\": \"task\", \"state\": \"running\", "
                   "\"node\": \"box\", "
                   "\"devices\": [\"GPU-1\", \"GPU-2\", \"GPU-9\"], "
                   "\"device_names\": [\"box:0\", \"box:1\", \"GPU-9\"], \"share\": "
                   "{\"min\": 10, \"max\": 50}, \"usage\": {\"memory_used_bytes\": 1073741824, "
                   "\"cpu_percent\": 97, \"samples_per_s\": 5404}}]",
                   0, NULL);
    assert_non_null(nodes);
    assert_non_null(workloads);
    struct str out;
    str_init(&out, TEXT_MAX);
    struct top_sink sink = {.arg = &out, .put = gather, .end_line = gather_end};
    struct top_view view = {
        .nodes = nodes, .workloads = workloads, .policy = "firstfit", .width = 132};
    assert_int_equal(top_draw(&view, &sink), 9);
    assert_non_null(strstr(str_text(&out), "1 running, 1 queued"));
    assert_non_null(strstr(str_text(&out), "50%"));
    assert_non_null(strstr(str_text(&out), "12 GiB / 24 GiB"));
    assert_non_null(strstr(str_text(&out), "350 / 700 W"));
    assert_non_null(strstr(str_text(&out), "box:0 box:1 GPU-9"));
    assert_null(strstr(strstr(str_text(&out), "waits"), "box:1")); /* of an attempt that ended */
    assert_non_null(strstr(str_text(&out), " 5.4k/s "));
    assert_true(strstr(str_text(&out), "runs") < strstr(str_text(&out), "waits"));
    assert_int_equal(count_lines(str_text(&out), 132), 9);

    for (size_t width = 1; width < 160; width += 13) {
        str_clear(&out);
        view.width = width;
        view.utf8 = width % 2;
        view.height = width % 10 + 2;
        size_t lines = top_draw(&view, &sink);
        assert_true(lines <= view.height);
        assert_int_equal(count_lines(str_text(&out), width), lines);
        assert_true(str_is_utf8(str_text(&out), out.length));
    }
    str_done(&out);
    json_decref(nodes);
    json_decref(workloads);
}

static void draw(struct str *out, const json_t *nodes, const json_t *workloads, size_t width,
                 size_t height)
{
    struct top_sink sink = {.arg = out, .put = gather_coloured, .end_line = gather_end};
    struct top_view view = {.nodes = nodes,
                            .workloads = workloads,
                            .policy = "gpumux",
                            .width = width,
                            .height = height};
    str_clear(out);
    size_t lines = top_draw(&view, &sink);
    assert_true(height == 0 || lines <= height);
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

static void check_rows(const struct str *out, size_t devices, size_t workloads, const char *others)
{
    assert_int_equal(count_of(str_text(out), "T4"), devices);
    assert_int_equal(count_of(str_text(out), "waits"), workloads);
    assert_int_equal(count_of(str_text(out), "more (gpumux nodes)"), others ? 1 : 0);
    assert_true(!others || strstr(str_text(out), others));
}

/* Workloads get half of few lines, and devices the lines that workloads leave. */
static void crowded_frame_divides_lines(void **state)
{
    (void)state;
    json_t *devices = json_array(), *workloads = json_array();
    for (int i = 0; i < 40; i++)
        (void)json_array_append_new(
            devices, json_pack("{s:s, s:i, s:s}", "model", "T4", "index", i, "state", "healthy"));
    for (int i = 0; i < 20; i++)
        (void)json_array_append_new(workloads,
                                    json_pack("{s:i, s:s, s:s, s:s}", "id", i, "name", "waits",
                                              "state", "queued", "text", "all is taken"));
    json_t *nodes = json_pack("{s:[{s:s, s:b, s:o}]}", "nodes", "name", "box", "connected", 1,
                              "devices", devices);
    json_t *few = json_array();
    (void)json_array_append(few, json_array_get(workloads, 0));
    struct str out;
    str_init(&out, TEXT_MAX);
    draw(&out, nodes, workloads, 79, 23);
    check_rows(&out, 9, 8, "... and 31 more");
    assert_non_null(strstr(str_text(&out), "STATE      RAN    SPEED   DEVICES    NOTE"));
    assert_int_equal(count_of(str_text(&out), "all is taken"), 8);
    assert_int_equal(count_of(str_text(&out), "SHARE"), 0);
    draw(&out, nodes, few, 79, 23);
    check_rows(&out, 16, 1, "... and 24 more");
    draw(&out, nodes, few, 79, 46);
    check_rows(&out, 40, 1, NULL);
    draw(&out, nodes, workloads, 160, 0);
    check_rows(&out, 40, 20, NULL);
    assert_int_equal(count_of(str_text(&out), "SHARE"), 1);
    str_done(&out);
    json_decref(few);
    json_decref(workloads);
    json_decref(nodes);
}

/* Every name can be used in a command, so none is cut. */
static void frame_shows_whole_device_names(void **state)
{
    (void)state;
    json_t *names = json_array();
    for (int i = 0; i < 16; i++)
        (void)json_array_append_new(names, json_sprintf("gpu-node-of-the-lab-17:%d", i));
    json_t *workloads =
        json_pack("[{s:i, s:s, s:o}]", "id", 1, "state", "running", "device_names", names);
    json_t *nodes = json_loads("{\"nodes\": [{\"name\": \"gpu-node-of-the-lab-17\", "
                               "\"devices\": [{\"index\": 15}]}]}",
                               0, NULL);
    struct str out;
    str_init(&out, TEXT_MAX);
    draw(&out, nodes, workloads, 80, 0);
    assert_non_null(strstr(str_text(&out), "gpu-node-of-the-lab-17:15 "));
    assert_non_null(strstr(str_text(&out), " gpu-node-of-the-lab-17:0 +15"));
    draw(&out, nodes, workloads, 240, 0);
    assert_non_null(
        strstr(str_text(&out), " gpu-node-of-the-lab-17:0 gpu-node-of-the-lab-17:1 +14"));
    draw(&out, nodes, workloads, SIZE_MAX, 0);
    assert_non_null(strstr(str_text(&out), " gpu-node-of-the-lab-17:15 "));
    assert_null(strstr(str_text(&out), " +"));
    str_done(&out);
    json_decref(workloads);
    json_decref(nodes);
}

/* A server of an earlier version sends UUIDs alone. */
static void devices_without_names_show_uuids(void **state)
{
    (void)state;
    json_t *old = json_loads("{\"devices\": [\"GPU-1\", \"GPU-2\"]}", 0, NULL);
    struct str out;
    str_init(&out, TEXT_MAX);
    show_devices(old, &out);
    assert_string_equal(str_text(&out), "GPU-1 GPU-2");
    str_done(&out);
    json_decref(old);
}

/* A screen of any width shows the marks; a suspended workload has no speed. */
static void frame_marks_unavailable_devices(void **state)
{
    (void)state;
    json_t *nodes =
        json_loads("{\"nodes\": [{\"name\": \"box\", \"connected\": true, \"drained\": true, "
                   "\"devices\": [{\"index\": 0, \"state\": \"disabled\"}, {\"index\": 1, "
                   "\"state\": \"unhealthy\"}, {\"index\": 2, \"state\": \"healthy\"}]}, "
                   "{\"name\": \"gone\", \"connected\": false, \"devices\": [{\"index\": 0, "
                   "\"state\": \"overlimit\"}]}]}",
                   0, NULL);
    json_t *workloads =
        json_loads("[{\"id\": 1, \"state\": \"suspended\", \"usage\": {\"samples_per_s\": 7}},"
                   "{\"id\": 2, \"state\": \"running\", \"usage\": {\"samples_per_s\": 8}}]",
                   0, NULL);
    struct str out;
    str_init(&out, TEXT_MAX);
    for (size_t width = 79; width < 200; width += 30) {
        draw(&out, nodes, workloads, width, 0);
        const char *text = str_text(&out);
        assert_non_null(strstr(text, "1 running, 0 queued, 1 suspended"));
        assert_non_null(strstr(text, " 0R disabled\n"));
        assert_non_null(strstr(text, " 0Y unhealthy\n"));
        assert_non_null(strstr(text, " 0Y drained\n"));
        assert_non_null(strstr(text, " 0Y not connected\n"));
        assert_null(strstr(text, "7.0/s"));
        assert_non_null(strstr(text, "8.0/s"));
    }
    str_done(&out);
    json_decref(workloads);
    json_decref(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_aligns_and_sanitizes_cells),
        cmocka_unit_test(table_cuts_only_last_column),
        cmocka_unit_test(bar_shows_fraction_in_cells),
        cmocka_unit_test(quantities_are_shown_with_units),
        cmocka_unit_test(slo_is_shown_in_words),
        cmocka_unit_test(run_time_ends_with_attempt),
        cmocka_unit_test(yaml_quotes_ambiguous_strings),
        cmocka_unit_test(frame_fits_any_screen),
        cmocka_unit_test(crowded_frame_divides_lines),
        cmocka_unit_test(frame_marks_unavailable_devices),
        cmocka_unit_test(frame_shows_whole_device_names),
        cmocka_unit_test(devices_without_names_show_uuids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
