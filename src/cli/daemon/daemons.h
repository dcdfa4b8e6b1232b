/* The commands that stay: up, control, node, and the supervisor of one attempt. */
#pragma once
#include "cli/frame/options.h"

int up_command(const struct invocation *in);
int control_command(const struct invocation *in);
int control_init_command(const struct invocation *in);
int node_command(const struct invocation *in);
int supervise_command(const struct invocation *in);
int self_test_command(const struct invocation *in);
int checkpoint_command(const struct invocation *in);
