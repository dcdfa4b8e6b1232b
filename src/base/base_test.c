#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/skew.h"
#include "base/str.h"

static void arena_zeroes_memory_and_enforces_limit(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 10000);
    char *p = arena_alloc(&a, 9000);
    assert_non_null(p);
    for (size_t i = 0; i < 9000; i++)
        assert_int_equal(p[i], 0);
    assert_null(arena_alloc(&a, 2000));
    assert_null(arena_array(&a, SIZE_MAX / 2, 4));
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    arena_done(&a);
    arena_done(&a);
}

static void str_beyond_maximum_fails(void **state)
{
    (void)state;
    struct str s;
    str_init(&s, 8);
    str_append(&s, "12345");
    str_printf(&s, "%d", 678);
    assert_false(str_failed(&s));
    assert_string_equal(str_text(&s), "12345678");
    str_append_char(&s, '9');
    assert_true(str_failed(&s));
    str_done(&s);
}

static void str_extend_and_uint_keep_maximum(void **state)
{
    (void)state;
    struct str s;
    str_init(&s, 24);
    str_append_uint(&s, 0);
    str_append_uint(&s, UINT64_MAX);
    memset(str_extend(&s, 3), 'x', 3);
    assert_string_equal(str_text(&s), "018446744073709551615xxx");
    assert_null(str_extend(&s, 1));
    assert_true(str_failed(&s));
    assert_int_equal(s.length, 24);
    str_done(&s);
}

static void utf8_check_refuses_malformed_and_nul(void **state)
{
    (void)state;
    assert_true(str_is_utf8("na\xc3\xafve", 6));
    assert_true(str_is_utf8("\xf0\x9f\x90\x98", 4));
    assert_false(str_is_utf8("\xc0\x80", 2));
    assert_int_equal(str_utf8_prefix("na\xc3\xafve", 6), 6);
    assert_int_equal(str_utf8_prefix("na\xc3\xafve", 3), 2);
    assert_int_equal(str_utf8_prefix("a\0b", 3), 1);
    assert_int_equal(str_utf8_prefix("", 0), 0);
    assert_false(str_is_utf8("\xed\xa0\x80", 3));
    assert_false(str_is_utf8("\xf4\x90\x80\x80", 4));
    assert_false(str_is_utf8("a\0b", 3));
    assert_false(str_is_utf8("\xe2\x82", 2));
}

static void distance_counts_edits_up_to_limit(void **state)
{
    (void)state;
    assert_int_equal(str_distance("quota", "qouta", 9), 2);
    assert_int_equal(str_distance("share", "share", 9), 0);
    assert_int_equal(str_distance("a", "abcdefgh", 3), 3);
}

static void hash_map_random_operations_match_array(void **state)
{
    (void)state;
    enum { KEYS = 512 };
    static int values[KEYS];
    int *expected[KEYS] = {0};
    struct hash_map m;
    struct rng r;
    hash_map_init(&m);
    rng_seed(&r, 1);
    for (int i = 0; i < 200000; i++) {
        size_t k = rng_below(&r, KEYS);
        if (rng_below(&r, 2)) {
            assert_int_equal(hash_map_put(&m, k, &values[k]), 0);
            expected[k] = &values[k];
        } else {
            assert_ptr_equal(hash_map_remove(&m, k), expected[k]);
            expected[k] = NULL;
        }
        size_t probe = rng_below(&r, KEYS);
        assert_ptr_equal(hash_map_get(&m, probe), expected[probe]);
    }
    size_t cursor = 0, seen = 0;
    void *value;
    uint64_t key;
    while (hash_map_next(&m, &cursor, &key, &value)) {
        assert_ptr_equal(value, expected[key]);
        seen++;
    }
    assert_int_equal(seen, m.count);
    hash_map_done(&m);
}

static void list_removal_and_move_keep_order(void **state)
{
    (void)state;
    struct item {
        int n;
        struct list link;
    } items[4];
    struct list head;
    list_init(&head);
    for (int i = 0; i < 4; i++) {
        items[i].n = i;
        list_append(&head, &items[i].link);
    }
    list_for_each_safe (it, &head) {
        if (list_entry(it, struct item, link)->n % 2)
            list_remove(it);
    }
    int sum = 0;
    list_for_each (it, &head) {
        sum = sum * 10 + list_entry(it, struct item, link)->n;
    }
    assert_int_equal(sum, 2);
    list_remove(&items[1].link);

    struct list other;
    list_init(&other);
    list_append(&other, &items[3].link);
    list_move_all(&head, &other);
    list_move_all(&head, &other);
    assert_true(list_empty(&head));
    assert_ptr_equal(other.next, &items[3].link);
    assert_ptr_equal(other.prev, &items[2].link);
    assert_ptr_equal(items[0].link.prev, &items[3].link);
}

static void rng_same_seed_repeats_uniform_numbers(void **state)
{
    (void)state;
    struct rng a, b;
    rng_seed(&a, 42);
    rng_seed(&b, 42);
    int buckets[10] = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t x = rng_below(&a, 10);
        assert_int_equal(x, rng_below(&b, 10));
        buckets[x]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(buckets[i], 9500, 10500);
}

static void error_carries_field_text_and_status(void **state)
{
    (void)state;
    struct error e = {0};
    assert_int_equal(error_set_field(&e, ERR_INVALID, "share.max", "%d is over 100", 120),
                     -ERR_INVALID);
    error_prefix_element(&e, "workloads", 3);
    assert_string_equal(e.field, "workloads[3].share.max");
    error_prefix_element(&e, "", 12);
    error_prefix_field(&e, "lists");
    assert_string_equal(e.field, "lists[12].workloads[3].share.max");
    assert_string_equal(e.text, "120 is over 100");
    assert_int_equal(error_http_status(-ERR_QUEUE_FULL), 429);
    assert_int_equal(error_from_slug("queue-full"), ERR_QUEUE_FULL);
    assert_int_equal(error_set(NULL, ERR_IO, "nobody listens"), -ERR_IO);
}

static void clock_format_writes_utc_or_dash(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_MAX];
    assert_string_equal(clock_format(1000, text), "1970-01-01T00:00:01.000Z");
    assert_string_equal(clock_format(-1, text), "-");
}

static void log_value_newline_becomes_space(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct log log;
    log_init(&log, fds[1], LOG_INFO, true);
    log_write(&log, LOG_DEBUG, "dropped", "%s", "");
    log_write(&log, LOG_WARN, "node lost", "node=%s reason=\"%s\"", "box", "no\nanswer");
    char line[512] = {0};
    assert_true(read(fds[0], line, sizeof line - 1) > 0);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_non_null(strstr(line, "\"node\": \"box\", \"reason\": \"no answer\"}"));
    close(fds[0]);
    close(fds[1]);
}

static void fence_held_elsewhere_fails_after_patience(void **state)
{
    (void)state;
    char path[] = "/tmp/gpumux-fence-XXXXXX";
    int held = mkstemp(path);
    assert_true(held >= 0 && fence_take(held));
    int second = open(path, O_RDWR | O_CLOEXEC);
    int64_t before_ms = clock_boot_ms();
    assert_false(fence_take(second));
    assert_true(clock_boot_ms() - before_ms >= FENCE_PATIENCE_MS);
    close(held);
    assert_true(fence_take(second));
    close(second);
    unlink(path);
}

static void version_skew_allows_one_minor(void **state)
{
    (void)state;
    assert_true(skew_is_allowed("0.1.0", "0.1.7"));
    assert_true(skew_is_allowed("0.2.0", "0.1.7"));
    assert_true(skew_is_allowed("1.2.0", "1.3.0"));
    assert_false(skew_is_allowed("0.3.0", "0.1.0"));
    assert_false(skew_is_allowed("1.1.0", "0.1.0"));
    assert_false(skew_is_allowed("1.1.0", "newest"));
    assert_false(skew_is_allowed("1.1.0", "1.1"));
}

static void duration_text_chooses_unit_by_length(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0.0 s"},    {179.9, "180 s"}, {180, "3.0 min"}, {3 * 3600, "3.0 h"},
                 {-5, "-5.0 s"},  {1e6, "11.6 d"},  {1e7, "116 d"},   {1e300, "1.16e+295 d"},
                 {INFINITY, "-"}, {NAN, "-"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[DURATION_TEXT_MAX];
        duration_text(cases[i].seconds, text);
        assert_string_equal(text, cases[i].text);
    }
    assert_string_equal(duration_unit_for(10800)->name, "h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_zeroes_memory_and_enforces_limit),
        cmocka_unit_test(str_beyond_maximum_fails),
        cmocka_unit_test(str_extend_and_uint_keep_maximum),
        cmocka_unit_test(utf8_check_refuses_malformed_and_nul),
        cmocka_unit_test(distance_counts_edits_up_to_limit),
        cmocka_unit_test(hash_map_random_operations_match_array),
        cmocka_unit_test(list_removal_and_move_keep_order),
        cmocka_unit_test(rng_same_seed_repeats_uniform_numbers),
        cmocka_unit_test(error_carries_field_text_and_status),
        cmocka_unit_test(clock_format_writes_utc_or_dash),
        cmocka_unit_test(fence_held_elsewhere_fails_after_patience),
        cmocka_unit_test(version_skew_allows_one_minor),
        cmocka_unit_test(log_value_newline_becomes_space),
        cmocka_unit_test(duration_text_chooses_unit_by_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
