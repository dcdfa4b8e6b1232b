/*
 * The room sim: the command sim, and its report. The only room that uses sim/ and report/: neither
 * control nor node knows of them.
 */
#pragma once
#include "cli/frame/options.h"

int sim_command(const struct invocation *in);
