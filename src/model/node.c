#include "model/node.h"

#include "base/str.h"

static const char *const phase_names[ATTEMPT_PHASE_END] = {
    [ATTEMPT_ACCEPTED] = "accepted",
    [ATTEMPT_STARTING] = "starting",
    [ATTEMPT_RUNNING] = "running",
    [ATTEMPT_EXITED] = "exited",
};

const char *attempt_phase_name(enum attempt_phase phase)
{
    return phase < ATTEMPT_PHASE_END ? phase_names[phase] : "?";
}

int attempt_phase_parse(const char *text, enum attempt_phase *ret)
{
    for (enum attempt_phase i = 0; i < ATTEMPT_PHASE_END; i++)
        if (str_equal(text, phase_names[i])) {
            *ret = i;
            return 0;
        }
    return -ERR_INVALID;
}
