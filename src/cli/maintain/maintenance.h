/*
 * The room maintain: commands for the installation itself: configuration, state directory, health.
 * The room uses connect and frame; config.c also control's check, and state.c the store, read-only.
 */
#pragma once
#include "cli/frame/options.h"

int config_command(const struct invocation *in);
int state_command(const struct invocation *in);
int doctor_command(const struct invocation *in);
