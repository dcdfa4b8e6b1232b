#include "cli/daemon/emulation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/connect/paths.h"
#include "emu/device/device_file.h"

enum { SPEC_TEXT_BYTES = 512, BOOT_ID_BYTES = 64 };

/* Places of the libraries, relative to the executable: installed, and in a build tree. */
static const char *const library_places[] = {"../lib/gpumux/emu", "../../emu"};

static int find_libraries(struct error *e, struct arena *arena, const char **ret)
{
    const char *own = paths_own_directory(arena);
    for (size_t i = 0; own && i < sizeof library_places / sizeof library_places[0]; i++) {
        const char *place = arena_printf(arena, "%s/%s", own, library_places[i]);
        const char *library = arena_printf(arena, "%s/libcuda.so.1", place);
        if (library && access(library, R_OK) == 0) {
            char *whole = realpath(place, NULL);
            if (!whole)
                break;
            *ret = arena_strdup(arena, whole);
            free(whole);
            return *ret ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
        }
    }
    return error_set(
        e, ERR_UNSUPPORTED,
        "the emulated libcuda.so.1 is not in %s/%s: install all of gpumux, or build all targets",
        own ? own : "(unknown)", library_places[0]);
}

static bool read_line(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool got = fgets(text, (int)size, f) != NULL;
    fclose(f);
    if (got)
        text[strcspn(text, "\n")] = '\0';
    return got;
}

/* Describes the origin of the devices: spec, options and boot, because their clocks end with it. */
static void describe_devices(const char *spec, const struct emu_device_options *options, char *text,
                             size_t size)
{
    char boot[BOOT_ID_BYTES] = "";
    if (!read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot))
        boot[0] = '\0';
    snprintf(text, size, "%s %g %s %" PRIu64 " %s", spec, options->speed,
             options->shared ? "shared" : "sliced", options->context_bytes, boot);
}

static int write_line(struct error *e, const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    bool ok = fprintf(f, "%s\n", text) > 0;
    ok = fclose(f) == 0 && ok;
    return ok ? 0 : error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
}

int emulation_prepare(struct error *e, struct arena *arena, const char *state, const char *spec,
                      struct emulation *ret)
{
    unsigned count = 0;
    int r = emu_device_spec_check(e, spec, &count);
    if (r < 0) {
        error_prefix_field(e, "--emulate");
        return r;
    }
    struct emulation emulation = {0};
    r = find_libraries(e, arena, &emulation.libraries);
    if (r < 0)
        return r;
    const char *directory = arena_printf(arena, "%s/emu", state);
    const char *made_from = arena_printf(arena, "%s/emu/spec", state);
    emulation.device_file = arena_printf(arena, "%s/emu/devices", state);
    if (!directory || !made_from || !emulation.device_file)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    if (mkdir(directory, 0711) < 0 && errno != EEXIST)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", directory);

    struct emu_device_options options;
    r = emu_device_options_from_environment(e, &options);
    if (r < 0)
        return r;
    char wanted[SPEC_TEXT_BYTES + BOOT_ID_BYTES], found[sizeof wanted];
    describe_devices(spec, &options, wanted, sizeof wanted);
    bool kept = access(emulation.device_file, F_OK) == 0 &&
                read_line(made_from, found, sizeof found) && strcmp(wanted, found) == 0;
    if (!kept) {
        r = emu_device_file_create(e, emulation.device_file, spec, &options);
        /* The devices of a gpumux that runs workloads of other users are open to all users. */
        if (r == 0 && geteuid() == 0 && chmod(emulation.device_file, 0666) < 0)
            r = error_set_errno(e, ERR_IO, errno, "cannot share %s", emulation.device_file);
        if (r == 0)
            r = write_line(e, made_from, wanted);
        if (r < 0)
            return r;
    }
    *ret = emulation;
    return 0;
}
