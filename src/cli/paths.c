#include "cli/paths.h"

#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        /* Only without HOME: looking up accounts costs more than everything else at start-up. */
        const struct passwd *account = getpwuid(geteuid());
        home = account ? account->pw_dir : NULL;
    }
    return home ? arena_printf(arena, "%s/.local/state/gpumux", home) : NULL;
}

const char *paths_api_socket(struct arena *arena, const char *given)
{
    const char *socket = given ? given : getenv("GPUMUX_SOCKET");
    if (socket && *socket)
        return str_starts_with(socket, "unix:") ? socket + strlen("unix:") : socket;
    const char *state = paths_state_default(arena);
    if (state) {
        const char *own = arena_printf(arena, "%s/api.sock", state);
        if (own && access(own, F_OK) == 0)
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
