/* Commands about the installation itself: configuration, state, health; and what needs none. */
#pragma once
#include "cli/frame/options.h"

int config_command(const struct invocation *in);
int state_command(const struct invocation *in);
int doctor_command(const struct invocation *in);
int sim_command(const struct invocation *in);
