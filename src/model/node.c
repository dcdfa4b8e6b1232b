#include "model/node.h"

#include <string.h>

#include "base/str.h"

bool node_name_is_valid(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(name);
    return length > 0 && length < NODE_NAME_MAX && strspn(name, letters) == length;
}

static const char *const phase_names[ATTEMPT_PHASE_END] = {
    [ATTEMPT_ACCEPTED] = "accepted",
    [ATTEMPT_STARTING] = "starting",
    [ATTEMPT_RUNNING] = "running",
    [ATTEMPT_EXITED] = "exited",
};

static const char *const state_names[DEVICE_STATE_END] = {
    [DEVICE_INIT] = "init",           [DEVICE_HEALTHY] = "healthy",
    [DEVICE_UNHEALTHY] = "unhealthy", [DEVICE_OVERLIMIT] = "overlimit",
    [DEVICE_DISABLED] = "disabled",
};

static const char *const admission_names[ADMISSION_END] = {
    [ADMIT_NONE] = "none",
    [ADMIT_SERVICES] = "services",
    [ADMIT_ALL] = "all",
};

static const char *const sharing_names[SHARING_END] = {
    [SHARING_ALONE] = "alone", [SHARING_TIME] = "time", [SHARING_SPACE] = "space"};

static const char *const verdict_names[VERDICT_END] = {
    [VERDICT_OWN] = "own",
    [VERDICT_MOVED] = "moved",
    [VERDICT_SUSPECT] = "suspect",
    [VERDICT_GUILTY] = "guilty",
};

static const char *const suspension_names[SUSPENSION_END] = {
    [SUSPENSION_NONE] = "none",
    [SUSPENSION_LEAVING] = "suspending",
    [SUSPENSION_DONE] = "suspended",
    [SUSPENSION_RETURNING] = "resuming",
};

/* The index of text among names; -ERR_INVALID. */
static int find_name(const char *const *names, unsigned int count, const char *text)
{
    for (unsigned int i = 0; i < count; i++)
        if (str_equal(text, names[i]))
            return (int)i;
    return -ERR_INVALID;
}

const char *attempt_phase_name(enum attempt_phase phase)
{
    return phase < ATTEMPT_PHASE_END ? phase_names[phase] : "?";
}

int attempt_phase_parse(const char *text, enum attempt_phase *ret)
{
    int i = find_name(phase_names, ATTEMPT_PHASE_END, text);
    if (i < 0)
        return i;
    *ret = (enum attempt_phase)i;
    return 0;
}

const char *device_state_name(enum device_state state)
{
    return state < DEVICE_STATE_END ? state_names[state] : "?";
}

int device_state_parse(const char *text, enum device_state *ret)
{
    int i = find_name(state_names, DEVICE_STATE_END, text);
    if (i < 0)
        return i;
    *ret = (enum device_state)i;
    return 0;
}

const char *device_admission_name(enum device_admission admission)
{
    return admission < ADMISSION_END ? admission_names[admission] : "?";
}

int device_admission_parse(const char *text, enum device_admission *ret)
{
    int i = find_name(admission_names, ADMISSION_END, text);
    if (i < 0)
        return i;
    *ret = (enum device_admission)i;
    return 0;
}

const char *sharing_mode_name(enum sharing_mode mode)
{
    return mode < SHARING_END ? sharing_names[mode] : "?";
}

int sharing_mode_parse(const char *text, enum sharing_mode *ret)
{
    int i = find_name(sharing_names, SHARING_END, text);
    if (i < 0)
        return i;
    *ret = (enum sharing_mode)i;
    return 0;
}

const char *attempt_verdict_name(enum attempt_verdict verdict)
{
    return verdict < VERDICT_END ? verdict_names[verdict] : "?";
}

int attempt_verdict_parse(const char *text, enum attempt_verdict *ret)
{
    int i = find_name(verdict_names, VERDICT_END, text);
    if (i < 0)
        return i;
    *ret = (enum attempt_verdict)i;
    return 0;
}

const char *suspension_name(enum suspension suspension)
{
    return suspension < SUSPENSION_END ? suspension_names[suspension] : "?";
}

int suspension_parse(const char *text, enum suspension *ret)
{
    int i = find_name(suspension_names, SUSPENSION_END, text);
    if (i < 0)
        return i;
    *ret = (enum suspension)i;
    return 0;
}
