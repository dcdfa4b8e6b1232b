/*
 * The folder maintain contains commands for the installation itself: configuration, state
 * directory, health. config.c also uses control's check, and state.c reads the store.
 *
 * Files of the folder cli/maintain may include base, wire, abi, cli/frame, cli/connect.
 */
#pragma once
#include "cli/frame/options.h"

int config_command(const struct invocation *in);
int state_command(const struct invocation *in);
int doctor_command(const struct invocation *in);
