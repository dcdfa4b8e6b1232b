#include "emu/device/undo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { BYTES = 4096 };

struct shared {
    struct undo_log log;
    unsigned char bytes[BYTES];
};

static struct shared *make_shared(void)
{
    struct shared *shared = calloc(1, sizeof(*shared));
    assert_non_null(shared);
    return shared;
}

static void uncommitted_changes_are_rolled_back(void **state)
{
    (void)state;
    struct shared *shared = make_shared();
    unsigned char before[BYTES];
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 1000; round++) {
        memcpy(before, shared->bytes, BYTES);
        unsigned changes = (unsigned)rng_below(&rng, 20);
        for (unsigned i = 0; i < changes; i++) {
            size_t bytes = 1 + rng_below(&rng, 100);
            unsigned char *at = shared->bytes + rng_below(&rng, BYTES - bytes);
            undo_save(&shared->log, shared, at, bytes);
            memset(at, (int)rng_below(&rng, 256), bytes);
        }
        if (rng_below(&rng, 2)) {
            undo_commit(&shared->log);
            memcpy(before, shared->bytes, BYTES);
        }
        undo_roll_back(&shared->log, shared);
        assert_memory_equal(shared->bytes, before, BYTES);
    }
    free(shared);
}

static void interrupted_rollback_can_be_repeated(void **state)
{
    (void)state;
    struct shared *shared = make_shared();
    undo_save(&shared->log, shared, shared->bytes, 10);
    memset(shared->bytes, 1, 10);
    undo_save(&shared->log, shared, shared->bytes + 5, 10);
    memset(shared->bytes + 5, 2, 10);
    uint64_t used = shared->log.used_bytes;
    undo_roll_back(&shared->log, shared);
    shared->log.used_bytes = used; /* as if killed before the end of the roll-back */
    undo_roll_back(&shared->log, shared);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(shared->bytes[i], 0);
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uncommitted_changes_are_rolled_back),
        cmocka_unit_test(interrupted_rollback_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
