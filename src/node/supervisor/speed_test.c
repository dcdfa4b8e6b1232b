/* Progress reports of a program: their packets, the resulting speed, and the notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/supervisor/control_socket.h"
#include "node/supervisor/speed.h"

static void speed_follows_progress_reports(void **state)
{
    (void)state;
    struct speed speed = {0};
    double samples_per_s = -1;
    assert_false(speed_report(&speed, 100, 5000, &samples_per_s)); /* no earlier report */
    assert_false(speed_report(&speed, 700, 5999, &samples_per_s)); /* too short a span */
    assert_true(samples_per_s == -1);
    assert_true(speed_report(&speed, 1100, 6000, &samples_per_s));
    assert_true(samples_per_s == 1000);
    assert_true(speed_report(&speed, 1100, 8000, &samples_per_s)); /* no progress */
    assert_true(samples_per_s == 0);
    assert_false(speed_report(&speed, 50, 9500, &samples_per_s)); /* back to a checkpoint */
    assert_true(speed_report(&speed, 60, 49500, &samples_per_s));
    assert_true(samples_per_s == 0.25);
}

static void speed_notice_is_parsed_strictly(void **state)
{
    (void)state;
    char notice[CONTROL_REPLY_MAX];
    double samples_per_s = -1;
    static const char *const bad[] = {"speed",    "speed x",   "speed -1", "speed nan",
                                      "speed 1 ", "speed inf", "changed",  "speed 1e16"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(control_notice_parse_speed(bad[i], &samples_per_s));
    assert_true(samples_per_s == -1);
    control_notice_write_speed(5404.25, notice);
    assert_string_equal(notice, "speed 5404.25");
    assert_true(control_notice_parse_speed(notice, &samples_per_s));
    assert_true(samples_per_s == 5404.25);
}

static void progress_packet_is_parsed_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *packet;
        size_t length;
    } bad[] = {
        {"progress", 8},
        {"progress ", 9},
        {"progress -1", 11},
        {"progress 1e3", 12},
        {"progress 5 6", 12},
        {"progress  5", 11},
        {"progress 5\0", 11},
        {"progress 5\nx", 12},
        {"progress 1000000000000001", 25},
        {"progress 18446744073709551617", 29},
    };
    struct control_command parsed;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(control_command_parse(bad[i].packet, bad[i].length, &parsed),
                         -ERR_PROTOCOL);
    char packet[CONTROL_REPLY_MAX];
    const struct control_command most = {.kind = CONTROL_PROGRESS, .samples = CONTROL_SAMPLES_MAX};
    size_t length = control_command_write(&most, packet);
    assert_int_equal(control_command_parse(packet, length, &parsed), 0);
    assert_int_equal(parsed.kind, CONTROL_PROGRESS);
    assert_int_equal(parsed.samples, CONTROL_SAMPLES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speed_follows_progress_reports),
        cmocka_unit_test(speed_notice_is_parsed_strictly),
        cmocka_unit_test(progress_packet_is_parsed_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
