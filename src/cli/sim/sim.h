/*
 * The folder sim contains the command sim and its report. Only this folder uses sim/ and report/;
 * control and node do not depend on sim/ or report/.
 *
 * Files of the folder cli/sim may include base, wire, sim, cli/frame, cli/submit.
 */
#pragma once
#include "cli/frame/options.h"

int sim_command(const struct invocation *in);
