#include "cli/watch/protection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { TEXT_MAX = 64 << 10 };

/* Expects this text about the counters, below the line "Allocated", which is always printed. */
static void expect(const char *counters, const char *wanted)
{
    static const char account[] = "Allocated    0 B (peak 0 B), 0 B unaccounted, of which 0 B "
                                  "count against the quota\n";
    json_t *protection = json_pack("{s:o}", "counters", json_loads(counters, 0, NULL));
    struct str out, all;
    str_init(&out, TEXT_MAX);
    str_init(&all, TEXT_MAX);
    str_printf(&all, "%s%s", account, wanted);
    protection_write(protection, &out);
    assert_string_equal(str_text(&out), str_text(&all));
    str_done(&out);
    str_done(&all);
    json_decref(protection);
}

static void hold_times_name_their_cause(void **state)
{
    (void)state;
    expect("{\"held_gate_ns\": 4960000000, \"passes_gate\": 9}",
           "Delayed      4.96 s for a busy service (passed 9 times after the longest wait)\n");
    expect("{\"held_gate_ns\": 2000000, \"holds_gate\": 1}",
           "Delayed      2 ms for a busy service (1 launch)\n");
    expect("{\"held_window_ns\": 2000000, \"holds_window\": 20, \"passes_window\": 1}",
           "Delayed      2 ms because the window was full (20 launches, passed 1 time after the "
           "longest wait)\n");
    expect("{\"held_gate_ns\": 2000000}", "Delayed      2 ms for a busy service\n");
}

static void counts_use_singular_and_plural(void **state)
{
    (void)state;
    expect("{\"allocations\": 1, \"held_peak\": 1024, \"out_of_memory\": 1}",
           "Memory       1 allocation, at most 1 KiB in one process, 1 refused allocation\n");
    expect("{\"allocations\": 2, \"out_of_memory\": 3}",
           "Memory       2 allocations, at most 0 B in one process, 3 refused allocations\n");
    expect("{\"launches_kernel\": 1, \"launches_graph\": 2}", "Launches     1 kernel, 2 graphs\n");
}

static void missing_protection_prints_nothing(void **state)
{
    struct str out;
    (void)state;
    str_init(&out, TEXT_MAX);
    protection_write(NULL, &out);
    assert_string_equal(str_text(&out), "");
    str_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hold_times_name_their_cause),
        cmocka_unit_test(counts_use_singular_and_plural),
        cmocka_unit_test(missing_protection_prints_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
