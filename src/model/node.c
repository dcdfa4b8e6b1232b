#include "model/node.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

bool node_name_is_valid(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(name);
    return length > 0 && length < NODE_NAME_MAX && strspn(name, letters) == length;
}

void device_write_name(const char *node, int index, char ret[DEVICE_NAME_MAX])
{
    (void)snprintf(ret, DEVICE_NAME_MAX, "%s:%d", node, index);
}

DEFINE_NAMES(enum attempt_phase,
             attempt_phase, [ATTEMPT_ACCEPTED] = "accepted", [ATTEMPT_STARTING] = "starting",
             [ATTEMPT_RUNNING] = "running", [ATTEMPT_EXITED] = "exited")
DEFINE_NAMES(enum device_state, device_state, [DEVICE_INIT] = "init", [DEVICE_HEALTHY] = "healthy",
             [DEVICE_UNHEALTHY] = "unhealthy", [DEVICE_OVERLIMIT] = "overlimit",
             [DEVICE_DISABLED] = "disabled")
DEFINE_NAMES(
    enum device_admission,
    device_admission, [ADMIT_NONE] = "none", [ADMIT_SERVICES] = "services", [ADMIT_ALL] = "all")
DEFINE_NAMES(
    enum sharing_mode,
    sharing_mode, [SHARING_ALONE] = "alone", [SHARING_TIME] = "time", [SHARING_SPACE] = "space")
DEFINE_NAMES(enum attempt_verdict, attempt_verdict, [VERDICT_OWN] = "own",
             [VERDICT_MOVED] = "moved", [VERDICT_SUSPECT] = "suspect", [VERDICT_GUILTY] = "guilty")
DEFINE_NAMES(enum suspension,
             suspension, [SUSPENSION_NONE] = "none", [SUSPENSION_LEAVING] = "suspending",
             [SUSPENSION_DONE] = "suspended", [SUSPENSION_RETURNING] = "resuming")
