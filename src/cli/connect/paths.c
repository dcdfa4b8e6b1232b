#include "cli/connect/paths.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/str.h"

static const char machine_state[] = "/var/lib/gpumux";

const char *paths_state_default(struct arena *arena)
{
    if (geteuid() == 0)
        return machine_state;
    const char *base = getenv("XDG_STATE_HOME");
    if (base && base[0] == '/')
        return arena_printf(arena, "%s/gpumux", base);
    const char *home = getenv("HOME");
    if (!home || home[0] != '/') {
        /* Only without HOME, because a lookup of accounts takes longer than the rest of the
         * start. */
        const struct passwd *account = getpwuid(geteuid());
        home = account ? account->pw_dir : NULL;
    }
    return home ? arena_printf(arena, "%s/.local/state/gpumux", home) : NULL;
}

bool paths_is_held(const char *socket)
{
    char lock[PATH_MAX];
    const char *slash = strrchr(socket, '/');
    int length = slash ? (int)(slash - socket) : 1;
    int bytes = snprintf(lock, sizeof lock, "%.*s/lock", length, slash ? socket : ".");
    return bytes < (int)sizeof lock && fence_is_taken(lock);
}

const char *paths_api_socket(struct arena *arena, const char *given)
{
    const char *socket = given ? given : getenv("GPUMUX_SOCKET");
    if (socket && *socket)
        return str_starts_with(socket, "unix:") ? socket + strlen("unix:") : socket;
    const char *state = paths_state_default(arena);
    if (state) {
        const char *own = arena_printf(arena, "%s/api.sock", state);
        if (own && (access(own, F_OK) == 0 || paths_is_held(own)))
            return own;
    }
    return arena_printf(arena, "%s/api.sock", machine_state);
}

const char *paths_own_directory(struct arena *arena)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return arena_strdup(arena, path);
}

/* Like mkdir -p; `mode` applies to the last directory. */
static int make_directory(struct error *e, const char *path, mode_t mode)
{
    char part[4096];
    if (!str_copy(part, sizeof part, path))
        return error_set(e, ERR_INVALID, "the path %s is too long", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return error_set_errno(e, ERR_IO, errno, "cannot create %s", part);
        *slash = '/';
    }
    if (mkdir(path, mode) < 0 && errno != EEXIST)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", path);
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(e, ERR_IO, "%s is not a directory", path);
    if (st.st_uid == geteuid() && (st.st_mode & 07777) != mode && chmod(path, mode) < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot set the mode of %s", path);
    return 0;
}

int paths_make_state(struct error *e, struct arena *arena, const char *given, const char **ret)
{
    const char *state = given ? given : paths_state_default(arena);
    if (state && state[0] != '/') {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here))
            return error_set_errno(e, ERR_IO, errno, "cannot determine the current directory");
        state = arena_printf(arena, "%s/%s", here, state);
    }
    if (!state)
        return error_set(e, ERR_INVALID, "no home directory: give --state DIR");
    int r = make_directory(e, state, 0711);
    if (r == 0)
        *ret = state;
    return r;
}

/* In an installation, as of the Debian package, or in a build tree. */
const char *paths_shim(struct arena *arena)
{
    static const char *const places[] = {"../lib/gpumux", "../lib/x86_64-linux-gnu/gpumux",
                                         "../../lib"};
    const char *own = paths_own_directory(arena);
    for (size_t i = 0; own && i < sizeof places / sizeof places[0]; i++) {
        const char *path = arena_printf(arena, "%s/%s/libgpumux-cuda.so", own, places[i]);
        char *whole = path ? realpath(path, NULL) : NULL;
        if (!whole)
            continue;
        const char *found = arena_strdup(arena, whole);
        free(whole);
        return found;
    }
    return NULL;
}

const char *paths_mps_control(struct arena *arena, const char *given, const char *emulated)
{
    static const char *const places[] = {"/usr/bin", "/usr/local/bin", "/opt/nvidia/bin"};
    if (given[0])
        return given;
    const char *own =
        emulated ? arena_printf(arena, "%s/bin/nvidia-cuda-mps-control", emulated) : NULL;
    if (emulated)
        return own && access(own, X_OK) == 0 ? own : NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *path = arena_printf(arena, "%s/nvidia-cuda-mps-control", places[i]);
        if (path && access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}
