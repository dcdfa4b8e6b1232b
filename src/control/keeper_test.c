/* Saving, refusing damaged files, and training models. */
#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/durable.h"
#include "base/rng.h"
#include "base/str.h"
#include "control/keeper.h"

enum { MEASUREMENTS = 40, WAIT_MS = 60000 };

struct fixture {
    char directory[64];
    int fd;
    struct event_base *base;
    struct learning *learning;
    struct keeper *keeper;
    int64_t now_ms;
};

static void open_keeper(struct fixture *f)
{
    struct error e = {0};
    f->learning = learning_new();
    assert_non_null(f->learning);
    if (keeper_new(&e, f->base, NULL, f->directory, f->learning, &f->keeper) < 0)
        fail_msg("%s", e.text);
}

static void close_keeper(struct fixture *f)
{
    keeper_free(f->keeper);
    learning_free(f->learning);
}

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/gmk.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->fd = open(f->directory, O_RDONLY | O_DIRECTORY);
    f->base = event_base_new();
    f->now_ms = 1000000;
    open_keeper(f);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    close_keeper(f);
    event_base_free(f->base);
    close(f->fd);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->directory), 0);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    close_keeper(f);
    open_keeper(f);
}

/* Adds measurements as if made before a restart. */
static void measure(struct fixture *f, size_t count)
{
    struct observations *o = observations_new(1);
    struct str bytes;
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < count; i++) {
        struct task_profile own = {.family = 1 + i % 4, .sm_activity = 0.2 * (double)(i % 4)};
        struct task_profile other = {.family = 5, .sm_activity = rng_double(&rng)};
        assert_int_equal(observations_add(o, &own, &other, 1, 1 + other.sm_activity), 0);
    }
    str_init(&bytes, OBSERVATIONS_STORED_MAX);
    observations_save(o, &bytes);
    assert_int_equal(
        durable_write(NULL, f->fd, "learnt/measurements", str_text(&bytes), bytes.length), 0);
    str_done(&bytes);
    observations_free(o);
    reopen(f);
    assert_int_equal(observations_count(learning_measurements(f->learning)), count);
}

static bool exists(const struct fixture *f, const char *name)
{
    struct stat st;
    return fstatat(f->fd, name, &st, 0) == 0;
}

/* Ticks until a model was trained. */
static void wait_for_model(struct fixture *f)
{
    uint64_t before = keeper_models(f->keeper);
    for (int i = 0; i < WAIT_MS && keeper_models(f->keeper) == before; i++) {
        f->now_ms += KEEPER_SAVE_MS;
        keeper_tick(f->keeper, f->now_ms);
        event_base_loop(f->base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    assert_int_equal(keeper_models(f->keeper), before + 1);
}

static void damage(const struct fixture *f, const char *name)
{
    int fd = openat(f->fd, name, O_RDWR);
    char byte;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 100), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
    close(fd);
}

static void keeper_without_lessons_writes_no_files(void **state)
{
    struct fixture *f = *state;
    keeper_tick(f->keeper, f->now_ms);
    reopen(f);
    assert_true(exists(f, "learnt"));
    assert_false(exists(f, "learnt/programs"));
    assert_false(exists(f, "learnt/measurements"));
    assert_false(exists(f, "learnt/model"));
}

/* A program that was alone is known again, even without a tick before the end. */
static void restart_restores_learnt_program(void **state)
{
    struct fixture *f = *state;
    const char *words[] = {"train", NULL};
    const struct forecast_device type = {.memory_bytes = 1000, .sm_count = 10, .hash = 9};
    struct workload_spec s;
    workload_spec_init(&s);
    s.name = "train";
    s.directory = "/";
    s.command = (struct words){.count = 1, .items = words};
    uint32_t kind = learning_program(f->learning, "alice", &s, 1);
    struct learning_member m = {.workload = 1, .attempt = 1, .program = kind, .is_at_work = true};
    m.memory_bytes = 100;
    m.samples_per_s = -1;
    m.speed_since_ms = -1;
    for (int64_t now_ms = 1000; now_ms < 9000; now_ms += 1000) {
        const struct learning_report r = {.uuid = "GPU-1",
                                          .type = &type,
                                          .sm_activity = 0.3,
                                          .dram_rate = -1,
                                          .count = 1,
                                          .members = &m,
                                          .now_ms = now_ms};
        learning_report(f->learning, &r);
    }
    reopen(f);
    assert_true(exists(f, "learnt/programs"));
    const struct forecast *forecast = learning_forecast(f->learning);
    kind = learning_program(f->learning, "alice", &s, 2);
    const struct forecast_profile *p = forecast->profile(forecast->context, &type, kind);
    assert_non_null(p);
    assert_true(p->sm_activity > 0.29 && p->sm_activity < 0.31);
    assert_string_equal(p->name, "train");
}

static void trained_model_survives_restart(void **state)
{
    struct fixture *f = *state;
    measure(f, MEASUREMENTS);
    assert_true(learning_wants_model(f->learning));
    wait_for_model(f);
    assert_false(learning_wants_model(f->learning));
    assert_true(exists(f, "learnt/model"));
    reopen(f);
    assert_false(learning_wants_model(f->learning));
    assert_int_equal(keeper_models(f->keeper), 0);
}

/* Control trains a new model in the place of a damaged one. */
static void damaged_files_are_refused_and_renamed(void **state)
{
    struct fixture *f = *state;
    measure(f, MEASUREMENTS);
    wait_for_model(f);
    damage(f, "learnt/model");
    reopen(f);
    assert_true(exists(f, "learnt/model.refused"));
    assert_false(exists(f, "learnt/model"));
    assert_true(learning_wants_model(f->learning));
    wait_for_model(f);
    assert_true(exists(f, "learnt/model"));
    int fd = openat(f->fd, "learnt/measurements", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, "nonsense", 8), 8);
    close(fd);
    reopen(f);
    assert_true(exists(f, "learnt/measurements.refused"));
    assert_int_equal(observations_count(learning_measurements(f->learning)), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(keeper_without_lessons_writes_no_files),
        TEST(restart_restores_learnt_program),
        TEST(trained_model_survives_restart),
        TEST(damaged_files_are_refused_and_renamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
