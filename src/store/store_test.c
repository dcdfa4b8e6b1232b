/* The same scenarios for every implementation, and a comparison of their results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "store/memory_fixture.h"
#include "store/store_fixture.h"

enum { TEXT_MAX_BYTES = 64 << 20 };

static void commit(struct store *s, struct store_batch *b)
{
    struct error e = {0};
    int r = store_commit(&e, s, b);
    if (r < 0)
        fail_msg("commit: %s", e.text);
    store_batch_free(b);
}

/* ---- scenarios for any store ---- */

static void check_names(struct store *s)
{
    struct store_batch *b = store_batch_new();
    assert_int_equal(fixture_submit(b, 1, 0, 10, "train"), 0);
    assert_int_equal(fixture_submit(b, 2, 3, 10, "sweep"), 0); /* 2, 3, 4 */
    assert_int_equal(fixture_submit(b, 5, 0, 20, "train"), 0);
    assert_int_equal(fixture_submit(b, 6, 2, 20, "sweep"), 0); /* 6, 7 */
    commit(s, b);
    const struct store_owner ten = {.uid = 10};
    uint64_t ids[8];
    assert_int_equal(store_resolve(NULL, s, &ten, "train", ids, 8), 1);
    assert_int_equal(ids[0], 1);
    assert_int_equal(store_resolve(NULL, s, NULL, "train", ids, 8), 1);
    assert_int_equal(ids[0], 5);
    assert_int_equal(store_resolve(NULL, s, &ten, "sweep", ids, 8), 3);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[2], 4);
    assert_int_equal(store_resolve(NULL, s, &ten, "sweep", ids, 2), 2);
    assert_int_equal(store_resolve(NULL, s, NULL, "sweep[1]", ids, 8), 1);
    assert_int_equal(ids[0], 7);
    assert_int_equal(store_resolve(NULL, s, &ten, "sweep[2]", ids, 8), 1);
    assert_int_equal(ids[0], 4);
    assert_int_equal(store_resolve(NULL, s, NULL, "sweep[9]", ids, 8), 0);
    assert_int_equal(store_resolve(NULL, s, NULL, "nothing", ids, 8), 0);
}

static void check_batch(struct store *s)
{
    struct store_batch *b = store_batch_new();
    assert_int_equal(fixture_submit(b, 1, 0, 10, "first"), 0);
    assert_int_equal(fixture_event(b, 1, "submitted"), 0);
    commit(s, b);
    b = store_batch_new();
    assert_int_equal(fixture_submit(b, 2, 0, 10, "second"), 0);
    assert_int_equal(fixture_event(b, 2, "submitted"), 0);
    assert_int_equal(store_batch_node(b, "box", true, "{}"), 0);
    assert_int_equal(store_batch_delete(b, 1), 0);
    assert_int_equal(fixture_submit(b, 2, 0, 10, "again"), 0);
    struct str before, after;
    str_init(&before, TEXT_MAX_BYTES);
    str_init(&after, TEXT_MAX_BYTES);
    fixture_dump(s, &before);
    struct error e = {0};
    assert_int_equal(store_commit(&e, s, b), -ERR_CONFLICT);
    fixture_dump(s, &after);
    assert_string_equal(str_text(&before), str_text(&after));
    store_batch_free(b);
    /* The failed batch does not affect the next one. */
    b = store_batch_new();
    assert_int_equal(fixture_submit(b, 2, 0, 10, "second"), 0);
    commit(s, b);
    assert_int_equal(store_check(&e, s), 0);
    str_done(&before);
    str_done(&after);
}

static int count_row(void *count, const struct store_workload *row)
{
    (void)row;
    ++*(int *)count;
    return 0;
}

static int stop_at_second(void *count, const struct store_workload *row)
{
    (void)row;
    return ++*(int *)count == 2 ? 42 : 0;
}

static void check_deletion(struct store *s)
{
    struct store_batch *b = store_batch_new();
    assert_int_equal(fixture_submit(b, 1, 2, 10, "pair"), 0);
    commit(s, b);
    b = store_batch_new();
    assert_int_equal(store_batch_delete(b, 2), 0);
    store_batch_clear(b); /* operations before this call never happen */
    assert_int_equal(store_batch_count(b), 0);
    assert_int_equal(store_batch_delete(b, 1), 0);
    commit(s, b);
    struct error e = {0};
    assert_int_equal(store_check(&e, s), 0); /* 2 still has the spec that 1 shared */
    struct str text;
    str_init(&text, TEXT_MAX_BYTES);
    assert_int_equal(store_get(&e, s, 2, fixture_dump_workload, &text), 0);
    assert_non_null(strstr(str_text(&text), "\"command\""));
    str_done(&text);
    b = store_batch_new();
    assert_int_equal(store_batch_delete(b, 2), 0);
    assert_int_equal(store_batch_delete(b, 77), 0);
    assert_int_equal(store_batch_status(b, 77, WORKLOAD_FAILED, 1, "{}"), 0);
    commit(s, b);
    assert_int_equal(store_get(&e, s, 2, count_row, NULL), -ERR_NOT_FOUND);
    uint64_t last_id = 0;
    int rows = 0;
    assert_int_equal(store_load(&e, s, fixture_dump_node, count_row, &rows, &last_id), 0);
    assert_int_equal(rows, 0);
    assert_int_equal(last_id, 2);
    /* The spec is gone too: its id is free again. */
    b = store_batch_new();
    assert_int_equal(store_batch_spec(b, 1, "{}", NULL), 0);
    commit(s, b);
}

static void check_list(struct store *s)
{
    struct store_batch *b = store_batch_new();
    assert_int_equal(fixture_submit(b, 1, 5, 10, "five"), 0);
    commit(s, b);
    struct store_filter all = {.kind = -1, .limit = STORE_PAGE_MAX};
    int count = 0;
    assert_int_equal(store_list(NULL, s, &all, stop_at_second, &count), 42);
    assert_int_equal(count, 2);
    count = 0;
    assert_int_equal(store_list(NULL, s, &all, count_row, &count), 0);
    assert_int_equal(count, 5);
}

static void check_trim(struct store *s)
{
    struct error e = {0};
    for (int i = 1; i <= 10; i++) {
        struct store_batch *b = store_batch_new();
        assert_int_equal(fixture_event(b, (uint64_t)i, "tick"), 0);
        commit(s, b);
    }
    assert_int_equal(store_revision(s), 10);
    assert_int_equal(store_trim(&e, s, 4), 0);
    struct str text;
    str_init(&text, TEXT_MAX_BYTES);
    assert_int_equal(store_events(&e, s, 5, 0, 100, fixture_dump_event, &text), -ERR_GONE);
    assert_int_equal(store_events(&e, s, 6, 0, 2, fixture_dump_event, &text), 0);
    assert_int_equal(strncmp(str_text(&text), "7 ", 2), 0);
    assert_non_null(strstr(str_text(&text), "\n8 "));
    assert_null(strstr(str_text(&text), "\n9 "));
    assert_int_equal(store_trim(&e, s, 0), 0);
    assert_int_equal(store_revision(s), 10);
    assert_int_equal(store_events(&e, s, 10, 0, 2, fixture_dump_event, &text), 0);
    assert_int_equal(store_events(&e, s, 9, 0, 2, fixture_dump_event, &text), -ERR_GONE);
    str_done(&text);
}

static void run_scenario(void (*scenario)(struct store *s))
{
    struct error e = {0};
    struct store *s;
    assert_int_equal(store_open_memory(&e, &s), 0);
    scenario(s);
    store_close(s);
    char *directory = fixture_directory();
    assert_int_equal(store_open_sqlite(&e, directory, &s), 0);
    scenario(s);
    store_close(s);
    fixture_remove(directory);
}

#define SCENARIO(name, scenario)                                                                   \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_scenario(scenario);                                                                    \
    }
SCENARIO(name_resolves_to_newest_workload, check_names)
SCENARIO(batch_with_conflict_changes_nothing, check_batch)
SCENARIO(deletion_keeps_shared_specs_and_ids, check_deletion)
SCENARIO(list_stops_when_callback_returns_nonzero, check_list)
SCENARIO(events_before_trim_are_gone, check_trim)

/* ---- random operations on both stores ---- */

struct pair_of_stores {
    struct rng rng;
    struct store *memory, *sqlite;
    uint64_t last_id;
};

static const char *const names[] = {"a", "b", "train", "sweep", "x.y-z"};

static const char *random_name(struct rng *r)
{
    return names[rng_below(r, sizeof names / sizeof names[0])];
}

static void add_random_op(struct pair_of_stores *p, struct store_batch *b)
{
    struct rng *r = &p->rng;
    uint64_t some_id = 1 + rng_below(r, p->last_id + 2);
    char json[64];
    switch (rng_below(r, 8)) {
    case 0:
    case 1: {
        int count = rng_below(r, 3) ? 0 : 1 + (int)rng_below(r, 6);
        uint32_t uid = rng_below(r, 4) ? (uint32_t)(1000 + rng_below(r, 3)) : UID_BY_NAME;
        assert_int_equal(fixture_submit(b, p->last_id + 1, count, uid, random_name(r)), 0);
        p->last_id += (uint64_t)(count ? count : 1);
        break;
    }
    case 2:
        assert_int_equal(store_batch_delete(b, some_id), 0);
        break;
    case 3:
        snprintf(json, sizeof json, "{\"n\":%" PRIu64 "}", rng_below(r, 1000));
        assert_int_equal(store_batch_node(b, random_name(r), rng_below(r, 2), json), 0);
        break;
    case 4:
        assert_int_equal(fixture_event(b, rng_below(r, 2) ? some_id : 0, "tick"), 0);
        break;
    default:
        snprintf(json, sizeof json, "{\"s\":%" PRIu64 "}", rng_below(r, 1000));
        assert_int_equal(store_batch_status(b, some_id,
                                            (enum workload_state)rng_below(r, WORKLOAD_STATE_END),
                                            (int64_t)rng_below(r, 5), json),
                         0);
    }
}

/* Returns a random owner, sometimes one known only by name; half of those own nothing. */
static struct store_owner random_owner(struct rng *r)
{
    bool by_name = rng_below(r, 4) == 0;
    uint32_t uid = (uint32_t)(1000 + rng_below(r, 4));
    return (struct store_owner){.uid = by_name ? UID_BY_NAME : uid,
                                .user = rng_below(r, 2) ? "somebody" : "nobody"};
}

static void ask_random_questions(struct rng *r, struct store *s, uint64_t last_id, struct str *out)
{
    struct error e = {0};
    struct store_owner owner = random_owner(r), other = random_owner(r);
    struct store_filter filter = {
        .states = rng_below(r, 2) ? (uint32_t)rng_below(r, 1u << WORKLOAD_STATE_END) : 0,
        .kind = (int)rng_below(r, 3) - 1,
        .owner = rng_below(r, 2) ? &owner : NULL,
        .name = rng_below(r, 3) ? NULL : random_name(r),
        .before = rng_below(r, 2) ? rng_below(r, last_id + 2) : 0,
        .limit = rng_below(r, 20),
        .summaries = rng_below(r, 2),
    };
    str_printf(out, "list %d\n", store_list(&e, s, &filter, fixture_dump_workload, out));
    uint64_t ids[4] = {0}, id = rng_below(r, last_id + 2);
    char name[32];
    snprintf(name, sizeof name, rng_below(r, 2) ? "%s" : "%s[1]", random_name(r));
    int found = store_resolve(&e, s, rng_below(r, 2) ? &other : NULL, name, ids, 4);
    str_printf(out, "resolve %d: %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", found, ids[0], ids[1],
               ids[3]);
    str_printf(out, "get %d\n", store_get(&e, s, id, fixture_dump_workload, out));
    uint64_t since = rng_below(r, store_revision(s) + 3);
    str_printf(out, "events %d\n",
               store_events(&e, s, since, rng_below(r, 2) ? id : 0, rng_below(r, 9),
                            fixture_dump_event, out));
}

/* Compares both stores with the same random numbers. */
static void compare(struct pair_of_stores *p, uint64_t seed, int round)
{
    struct str a, b;
    str_init(&a, TEXT_MAX_BYTES);
    str_init(&b, TEXT_MAX_BYTES);
    struct rng again = p->rng;
    ask_random_questions(&p->rng, p->memory, p->last_id, &a);
    ask_random_questions(&again, p->sqlite, p->last_id, &b);
    if (round % 10 == 0) {
        fixture_dump(p->memory, &a);
        fixture_dump(p->sqlite, &b);
    }
    if (strcmp(str_text(&a), str_text(&b)) != 0)
        fail_msg("seed %" PRIu64 " round %d:\nmemory:\n%.2000s\nsqlite:\n%.2000s", seed, round,
                 str_text(&a), str_text(&b));
    assert_false(str_failed(&a));
    str_done(&a);
    str_done(&b);
}

static void compare_stores(uint64_t seed, int rounds)
{
    struct error e = {0};
    struct pair_of_stores p = {0};
    rng_seed(&p.rng, seed);
    char *directory = fixture_directory();
    assert_int_equal(store_open_memory(&e, &p.memory), 0);
    assert_int_equal(store_open_sqlite(&e, directory, &p.sqlite), 0);
    for (int round = 0; round < rounds; round++) {
        struct store_batch *b = store_batch_new();
        for (uint64_t i = rng_below(&p.rng, 12); i > 0; i--)
            add_random_op(&p, b);
        assert_int_equal(store_commit(&e, p.memory, b), 0);
        assert_int_equal(store_commit(&e, p.sqlite, b), 0);
        store_batch_free(b);
        if (rng_below(&p.rng, 20) == 0) {
            uint64_t keep = rng_below(&p.rng, 50);
            assert_int_equal(store_trim(&e, p.memory, keep), 0);
            assert_int_equal(store_trim(&e, p.sqlite, keep), 0);
        }
        if (rng_below(&p.rng, 20) == 0) {
            store_close(p.sqlite);
            assert_int_equal(store_open_sqlite(&e, directory, &p.sqlite), 0);
        }
        compare(&p, seed, round);
    }
    assert_int_equal(store_check(&e, p.sqlite), 0);
    store_close(p.memory);
    store_close(p.sqlite);
    fixture_remove(directory);
}

static int dump_token(void *str, const struct store_token *t)
{
    str_printf(str, "%" PRIu64 " %s %s %s %s %" PRId64 " %" PRId64 "\n", t->id, t->hash, t->role,
               t->account, t->creator, t->created_wall_ms, t->expires_wall_ms);
    return 0;
}

static void check_tokens(struct store *s)
{
    struct error e = {0};
    struct str text;
    uint64_t last = 9;
    struct store_token one = {.id = 1,
                              .hash = "aa",
                              .role = "user",
                              .account = "ada",
                              .creator = "root",
                              .created_wall_ms = 5,
                              .expires_wall_ms = 7};
    struct store_token two = one, again = one;
    two.id = 2;
    two.hash = "bb";
    again.id = 3; /* an existing hash */
    struct store_batch *b = store_batch_new();
    str_init(&text, TEXT_MAX_BYTES);
    assert_int_equal(store_tokens(&e, s, dump_token, &text, &last), 0);
    assert_int_equal(last, 0);
    assert_int_equal(store_batch_token(b, &one), 0);
    assert_int_equal(store_batch_token(b, &two), 0);
    assert_int_equal(store_commit(&e, s, b), 0);
    store_batch_clear(b);
    assert_int_equal(store_batch_delete_token(b, 2), 0);
    assert_int_equal(store_batch_delete_token(b, 77), 0);
    assert_int_equal(store_commit(&e, s, b), 0);
    store_batch_clear(b);
    assert_int_equal(store_batch_token(b, &again), 0);
    assert_int_equal(store_commit(&e, s, b), -ERR_CONFLICT);
    assert_int_equal(store_tokens(&e, s, dump_token, &text, &last), 0);
    assert_string_equal(str_text(&text), "1 aa user ada root 5 7\n");
    assert_int_equal(last, 2); /* deleted, and never assigned again */
    str_done(&text);
    store_batch_free(b);
}

static void token_ids_are_never_reused(void **state)
{
    (void)state;
    struct error e = {0};
    struct store *s;
    char *directory = fixture_directory();
    assert_int_equal(store_open_memory(&e, &s), 0);
    check_tokens(s);
    store_close(s);
    assert_int_equal(store_open_sqlite(&e, directory, &s), 0);
    check_tokens(s);
    store_close(s);
    fixture_remove(directory);
}

static void sqlite_store_matches_memory_store(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        compare_stores(seed, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_resolves_to_newest_workload),
        cmocka_unit_test(batch_with_conflict_changes_nothing),
        cmocka_unit_test(deletion_keeps_shared_specs_and_ids),
        cmocka_unit_test(list_stops_when_callback_returns_nonzero),
        cmocka_unit_test(events_before_trim_are_gone),
        cmocka_unit_test(token_ids_are_never_reused),
        cmocka_unit_test(sqlite_store_matches_memory_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
