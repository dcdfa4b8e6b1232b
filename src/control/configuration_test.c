#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "control/control.h"
#include "policy/policy.h"
#include "wire/config.h"

enum { ARENA_BYTES = 64 << 10 };

/* The answer to a configuration that is the default but for its policy. */
static int check_policy(struct error *e, const char *policy)
{
    struct arena arena;
    struct config config;
    arena_init(&arena, ARENA_BYTES);
    assert_int_equal(config_default(&arena, &config), 0);
    config.policy = policy;
    *e = (struct error){0};
    int r = control_check(e, &config);
    arena_done(&arena);
    return r;
}

static void policy_for_simulator_is_refused(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(check_policy(&e, "oracle"), -ERR_INVALID);
    assert_string_equal(e.field, "policy");
    assert_non_null(strstr(e.text, "'oracle'"));
    assert_non_null(strstr(e.text, "gpumux sim"));
}

static void other_policies_are_accepted(void **state)
{
    (void)state;
    struct error e;
    for (size_t i = 0; policy_at(i); i++)
        if (strcmp(policy_at(i)->name, "oracle") != 0)
            assert_int_equal(check_policy(&e, policy_at(i)->name), 0);
}

static void unknown_policy_error_lists_usable_policies(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(check_policy(&e, "nonsense"), -ERR_INVALID);
    assert_non_null(strstr(e.text, "gpumux, iadeep"));
    assert_null(strstr(e.text, "oracle"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy_for_simulator_is_refused),
        cmocka_unit_test(other_policies_are_accepted),
        cmocka_unit_test(unknown_policy_error_lists_usable_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
