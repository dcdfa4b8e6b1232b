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

/* Checks a configuration with this policy and these parts left out, and defaults otherwise. */
static int check_without(struct error *e, const char *policy, const char *without)
{
    struct arena arena;
    struct config config;
    arena_init(&arena, ARENA_BYTES);
    assert_int_equal(config_default(&arena, &config), 0);
    config.policy = policy;
    config.without = without;
    *e = (struct error){0};
    int r = control_check(e, &config);
    arena_done(&arena);
    return r;
}

static int check_policy(struct error *e, const char *policy)
{
    return check_without(e, policy, "");
}

static void simulator_policy_is_refused(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(check_policy(&e, "oracle"), -ERR_INVALID);
    assert_string_equal(e.field, "policy");
    assert_non_null(strstr(e.text, "'oracle'"));
    assert_non_null(strstr(e.text, "gpumux sim"));
}

static void policies_except_oracle_are_accepted(void **state)
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

/* Every accepted value has an effect: the cluster uses these three parts if the policy has them. */
static void unusable_policy_part_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++)
        for (enum policy_part part = 0; part < POLICY_PART_END; part++) {
            struct error e;
            const struct policy *policy = policy_at(i);
            const char *name = policy_part_name(part);
            bool is_simulated = part == POLICY_PART_TUNER || part == POLICY_PART_GATE;
            if (policy->needs_truth)
                continue;
            int r = check_without(&e, policy->name, name);
            if (!is_simulated && policy_has_part(policy, part)) {
                assert_int_equal(r, 0);
                continue;
            }
            assert_int_equal(r, -ERR_INVALID);
            assert_string_equal(e.field, "without");
            assert_non_null(strstr(e.text, name));
            assert_non_null(strstr(e.text, is_simulated ? "gpumux sim" : policy->name));
        }
}

static void part_list_error_names_refused_part(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(check_without(&e, "gpumux", "predictor,optimizer,matching"), 0);
    assert_int_equal(check_without(&e, "gpumux", "predictor,gate"), -ERR_INVALID);
    assert_non_null(strstr(e.text, "gate_us_max"));
    assert_int_equal(check_without(&e, "gpumux", "predictor,wings"), -ERR_INVALID);
    assert_non_null(strstr(e.text, "there are: predictor, optimizer, matching"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulator_policy_is_refused),
        cmocka_unit_test(policies_except_oracle_are_accepted),
        cmocka_unit_test(unknown_policy_error_lists_usable_policies),
        cmocka_unit_test(unusable_policy_part_is_refused),
        cmocka_unit_test(part_list_error_names_refused_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
