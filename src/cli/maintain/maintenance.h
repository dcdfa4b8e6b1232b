/*
 * The folder maintain: commands for the installation itself: configuration, state directory,
 * health. The folder uses connect and frame. config.c also uses control's check, and state.c reads
 * the store.
 */
#pragma once
#include "cli/frame/options.h"

int config_command(const struct invocation *in);
int state_command(const struct invocation *in);
int doctor_command(const struct invocation *in);
