/*
 * The room sim: the command sim, and its report. Only this room uses sim/ and report/; control and
 * node do not depend on them.
 */
#pragma once
#include "cli/frame/options.h"

int sim_command(const struct invocation *in);
