#include "emu/device/device_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/device/mapping.h"
#include "emu/device/uuid.h"
#include "emu/device/visible.h"

static void device_specifications_are_parsed(void **state)
{
    (void)state;
    const struct {
        const char *spec;
        unsigned count;
    } good[] = {
        {"1", 1},       {"2", 2},           {"64", 64},   {"H200", 1},           {"4xH200:24g", 4},
        {"rtx3090", 1}, {"2XA100:512m", 2}, {"3:10g", 3}, {"2xH200,T4:8g,1", 4},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        unsigned count = 0;
        assert_int_equal(emu_device_spec_check(NULL, good[i].spec, &count), 0);
        assert_int_equal(count, good[i].count);
    }
    const char *bad[] = {
        "",     "0",     "65",      "x",        "2x",          "2y",
        "H100", "H200:", "H200:24", "H200:24k", "T4:17g",      "T4:999999999999999999999g",
        "2,",   ",2",    "2 ",      "-1",       "33xT4,32xT4", "H200x2",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct error error = {0};
        assert_int_equal(emu_device_spec_check(&error, bad[i], NULL), -ERR_INVALID);
        assert_true(strlen(error.text) > 10);
    }
}

struct seen {
    unsigned indices[8], count;
};

static void note(void *argument, unsigned index)
{
    struct seen *seen = argument;
    seen->indices[seen->count++] = index;
}

static void visible_devices_match_driver_rules(void **state)
{
    (void)state;
    char path[] = "/tmp/gpumux-emu-file.XXXXXX", uuid[UUID_TEXT_MAX], list[UUID_TEXT_MAX + 8];
    struct mapping mapping;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(emu_device_file_create(NULL, path, "3xT4", NULL), 0);
    assert_int_equal(mapping_open(NULL, path, &mapping), 0);
    struct visible_among all;
    visible_among_all(&mapping, &all);
    const struct {
        const char *list;
        unsigned count, first;
    } cases[] = {
        {NULL, 3, 0}, {"", 0, 0},    {"1", 1, 1}, {"2,0", 2, 2},      {"1,9,0", 1, 1},
        {"-1", 0, 0}, {"0,0", 1, 0}, {"x", 0, 0}, {"GPU-zz,0", 0, 0}, {" 2 , 1", 2, 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct seen seen = {.count = 0};
        visible_for_each(cases[i].list, &mapping, &all, note, &seen);
        assert_int_equal(seen.count, cases[i].count);
        if (seen.count > 0)
            assert_int_equal(seen.indices[0], cases[i].first);
    }
    uuid_format(mapping_device(&mapping, 2)->uuid, uuid);
    /* A beginning of the UUID, and all of it. */
    for (unsigned length = 12; length <= 40; length += 28) {
        struct seen seen = {.count = 0};
        memcpy(list, uuid, length);
        memcpy(list + length, ",0", 3);
        visible_for_each(list, &mapping, &all, note, &seen);
        assert_int_equal(seen.count, 2);
        assert_int_equal(seen.indices[0], 2);
    }
    /* For a client of an MPS server, indices refer to the server's devices. */
    const struct visible_among served = {.count = 2, .devices = {2, 1}};
    struct seen seen = {.count = 0};
    visible_for_each("1,0", &mapping, &served, note, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.indices[0], 1);
    uuid_format(mapping_device(&mapping, 0)->uuid, uuid);
    seen.count = 0;
    visible_for_each(uuid, &mapping, &served, note, &seen);
    assert_int_equal(seen.count, 0);
    mapping_close(&mapping);
    unlink(path);
}

static void invalid_device_files_are_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/gpumux-emu-file.XXXXXX";
    struct mapping mapping;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(mapping_open(NULL, path, &mapping), -ERR_CORRUPT);
    char zeros[8192] = {0};
    assert_int_equal(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
    assert_int_equal(mapping_open(NULL, path, &mapping), -ERR_CORRUPT);
    assert_int_equal(emu_device_file_create(NULL, path, "1", NULL), 0);
    assert_int_equal(truncate(path, 8192), 0);
    assert_int_equal(mapping_open(NULL, path, &mapping), -ERR_CORRUPT);
    close(fd);
    unlink(path);
    assert_int_equal(mapping_open(NULL, path, &mapping), -ERR_NOT_FOUND);
}

static void device_options_come_from_environment(void **state)
{
    (void)state;
    struct emu_device_options options;
    setenv("GPUMUX_EMU_SPEED", "2.5", 1);
    setenv("GPUMUX_EMU_MODE", "shared", 1);
    assert_int_equal(emu_device_options_from_environment(NULL, &options), 0);
    assert_true(options.speed == 2.5 && options.shared);
    const char *bad[] = {"0", "-1", "fast", "1e9", "nan", "2x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct error error = {0};
        setenv("GPUMUX_EMU_SPEED", bad[i], 1);
        assert_int_equal(emu_device_options_from_environment(&error, &options), -ERR_INVALID);
        assert_string_equal(error.field, "GPUMUX_EMU_SPEED");
    }
    unsetenv("GPUMUX_EMU_SPEED");
    setenv("GPUMUX_EMU_MODE", "both", 1);
    assert_int_equal(emu_device_options_from_environment(NULL, &options), -ERR_INVALID);
    unsetenv("GPUMUX_EMU_MODE");
    assert_int_equal(emu_device_options_from_environment(NULL, &options), 0);
    assert_int_equal(options.context_bytes, 0);
    setenv("GPUMUX_EMU_CONTEXT_MIB", "600", 1);
    assert_int_equal(emu_device_options_from_environment(NULL, &options), 0);
    assert_int_equal(options.context_bytes, 600 << 20);
    const char *bad_sizes[] = {"-1", "600m", "1048577", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad_sizes) / sizeof(*bad_sizes); i++) {
        struct error error = {0};
        setenv("GPUMUX_EMU_CONTEXT_MIB", bad_sizes[i], 1);
        assert_int_equal(emu_device_options_from_environment(&error, &options), -ERR_INVALID);
        assert_string_equal(error.field, "GPUMUX_EMU_CONTEXT_MIB");
    }
    unsetenv("GPUMUX_EMU_CONTEXT_MIB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_specifications_are_parsed),
        cmocka_unit_test(visible_devices_match_driver_rules),
        cmocka_unit_test(invalid_device_files_are_refused),
        cmocka_unit_test(device_options_come_from_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
