#include "control/programs.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FAMILY = 7, DEVICE = 3 };

/* Adds a program with this latency alone. */
static void add(struct programs *p, uint64_t key, uint64_t family, double ms, double requests)
{
    struct program program = {.key = key, .family = family, .kind = WORKLOAD_SERVICE};
    uint32_t number;
    assert_int_equal(programs_number(p, &program, 1, &number), 0);
    struct program_alone *alone = program_alone_add(programs_at(p, number), DEVICE + number);
    assert_non_null(alone);
    alone->requests = (struct program_requests){.p99 = ms, .count = requests};
}

static double alone_ms(const struct programs *p, uint64_t key)
{
    const struct program program = {.key = key, .family = FAMILY};
    return programs_alone_ms(p, &program);
}

static void unknown_program_has_no_latency(void **state)
{
    (void)state;
    struct programs *p = programs_new();
    assert_non_null(p);
    assert_true(alone_ms(p, 1) == 0);
    add(p, 1, FAMILY, 4, PROGRAM_REQUESTS_MIN - 1);
    add(p, 2, FAMILY + 1, 5, PROGRAM_REQUESTS_MIN);
    assert_true(alone_ms(p, 1) == 0);
    programs_free(p);
}

static void own_latency_precedes_family(void **state)
{
    (void)state;
    struct programs *p = programs_new();
    assert_non_null(p);
    add(p, 1, FAMILY, 4, PROGRAM_REQUESTS_MIN);
    add(p, 2, FAMILY, 3, PROGRAM_REQUESTS_MIN);
    add(p, 3, FAMILY, 9, PROGRAM_REQUESTS_MIN);
    assert_true(alone_ms(p, 1) == 4);
    assert_true(alone_ms(p, 3) == 9);
    assert_true(alone_ms(p, 4) == 3);
    programs_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_program_has_no_latency),
        cmocka_unit_test(own_latency_precedes_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
