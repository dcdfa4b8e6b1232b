/*
 * The folder daemon contains the commands that run a daemon: up, control, node and the supervisor
 * of one attempt. Only this folder uses control/ and node/ as a whole; emulation.c prepares emu/.
 *
 * Files of the folder cli/daemon may include base, wire, tls, cli/frame, cli/connect.
 */
#pragma once
#include "cli/frame/options.h"

int up_command(const struct invocation *in);
int control_command(const struct invocation *in);
int control_init_command(const struct invocation *in);
int node_command(const struct invocation *in);
int supervise_command(const struct invocation *in);
int proxy_command(const struct invocation *in);
int self_test_command(const struct invocation *in);
int mps_guard_command(const struct invocation *in);
int checkpoint_command(const struct invocation *in);
