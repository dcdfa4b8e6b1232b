/* The environment of a workload. */
#include "node/attempt/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

static const char *value(const struct words *environment, const char *key)
{
    const char *found = NULL;
    size_t length = strlen(key);
    for (size_t i = 0; i < environment->count; i++)
        if (strncmp(environment->items[i], key, length) == 0 &&
            environment->items[i][length] == '=') {
            assert_null(found); /* never twice, because programs differ in which one they use */
            found = environment->items[i] + length + 1;
        }
    return found;
}

static void gpumux_variables_override_workload_variables(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct pair given[] = {{"CUDA_VISIBLE_DEVICES", "0"},
                           {"GPUMUX_ARRAY_INDEX", "99"},
                           {"HOME", "/here"},
                           {"LD_LIBRARY_PATH", "/mine"}};
    struct workload_spec spec = {
        .needs = {.quota_bytes = 1024, .share_min_percent = 10, .share_max_percent = 50},
        .environment = {.count = 4, .items = given},
        .batch_reference = 128,
        .batch_min = 32};
    struct grant grant = {.workload = 17,
                          .attempt = 2,
                          .array_index = 3,
                          .name = "resnet",
                          .device_count = 2,
                          .devices = {"GPU-a", "GPU-b"},
                          .spec = &spec};
    struct environment_node node = {.name = "box",
                                    .instance = "abc",
                                    .control_path = "/x/control.sock",
                                    .emulate = "/emu/devices",
                                    .emulate_libraries = "/emu/lib"};
    struct words words;
    assert_int_equal(environment_make(&arena, &grant, &node, &words), 0);
    assert_null(words.items[words.count]);
    assert_string_equal(value(&words, "CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
    assert_string_equal(value(&words, "GPUMUX_ATTEMPT"), "2");
    assert_string_equal(value(&words, "GPUMUX_MARK"), "abc/17.2");
    assert_string_equal(value(&words, "GPUMUX_ARRAY_INDEX"), "3");
    assert_string_equal(value(&words, "GPUMUX_QUOTA_BYTES"), "1024");
    assert_string_equal(value(&words, "GPUMUX_KIND"), "task");
    assert_string_equal(value(&words, "GPUMUX_SHARE_MIN"), "10");
    assert_string_equal(value(&words, "GPUMUX_SHARE_MAX"), "50");
    assert_string_equal(value(&words, "GPUMUX_BATCH_SIZE"), "128");
    assert_string_equal(value(&words, "GPUMUX_BATCH_SIZE_MIN"), "32");
    assert_null(value(&words, "GPUMUX_BATCH_SIZE_MAX"));
    assert_string_equal(value(&words, "LD_LIBRARY_PATH"), "/emu/lib:/mine");
    assert_string_equal(value(&words, "GPUMUX_EMU"), "/emu/devices");
    assert_null(value(&words, "GPUMUX_EMU_SPEED"));
    assert_string_equal(value(&words, "HOME"), "/here");
    arena_done(&arena);
}

static void workload_without_devices_sees_none(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct pair given[] = {{"LD_LIBRARY_PATH", "/mine"}};
    struct workload_spec spec = {.environment = {.count = 1, .items = given}};
    struct grant grant = {
        .workload = 1, .attempt = 1, .array_index = -1, .name = "x", .spec = &spec};
    struct environment_node node = {
        .name = "box", .instance = "abc", .control_path = "/x/control.sock"};
    struct words words;
    assert_int_equal(environment_make(&arena, &grant, &node, &words), 0);
    assert_string_equal(value(&words, "CUDA_VISIBLE_DEVICES"), "");
    assert_string_equal(value(&words, "LD_LIBRARY_PATH"), "/mine");
    assert_null(value(&words, "GPUMUX_EMU"));
    assert_null(value(&words, "GPUMUX_ARRAY_INDEX"));
    assert_null(value(&words, "GPUMUX_QUOTA_BYTES"));
    arena_done(&arena);
    arena_init(&arena, 64); /* too little memory is an error, not a partial environment */
    assert_int_equal(environment_make(&arena, &grant, &node, &words), -ERR_NO_MEMORY);
    arena_done(&arena);
}

/* A lower number is the higher priority. */
static void mps_client_gets_priority_and_share(void **state)
{
    (void)state;
    static const struct {
        enum workload_kind kind;
        const char *priority;
    } cases[] = {{WORKLOAD_SERVICE, "0"}, {WORKLOAD_TASK, "1"}};
    for (size_t i = 0; i < 2; i++) {
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct pair given[] = {{"CUDA_MPS_CLIENT_PRIORITY", "7"}};
        struct workload_spec spec = {
            .needs = {.kind = cases[i].kind, .quota_bytes = (UINT64_C(3) << 30) + 1},
            .environment = {.count = 1, .items = given}};
        struct grant grant = {.workload = 1,
                              .attempt = 1,
                              .array_index = -1,
                              .name = "x",
                              .device_count = 1,
                              .devices = {"GPU-a"},
                              .spec = &spec};
        struct environment_node node = {.name = "box",
                                        .instance = "abc",
                                        .control_path = "/x/control.sock",
                                        .mps_directory = "/x/mps",
                                        .share_percent = 30};
        struct words words;
        assert_int_equal(environment_make(&arena, &grant, &node, &words), 0);
        assert_string_equal(value(&words, "CUDA_MPS_CLIENT_PRIORITY"), cases[i].priority);
        assert_string_equal(value(&words, "CUDA_MPS_PIPE_DIRECTORY"), "/x/mps");
        assert_string_equal(value(&words, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
        assert_string_equal(value(&words, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=3073M");
        node.mps_directory = NULL;
        assert_int_equal(environment_make(&arena, &grant, &node, &words), 0);
        assert_null(value(&words, "CUDA_MPS_PIPE_DIRECTORY"));
        arena_done(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpumux_variables_override_workload_variables),
        cmocka_unit_test(workload_without_devices_sees_none),
        cmocka_unit_test(mps_client_gets_priority_and_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
