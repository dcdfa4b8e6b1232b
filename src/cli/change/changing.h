/*
 * The folder change contains commands that change workloads, nodes, devices and tokens. A command
 * sends one request for each operand.
 *
 * Files of the folder cli/change may include base, model, cli/frame, cli/connect.
 */
#pragma once
#include "cli/frame/options.h"

int cancel_command(const struct invocation *in);
int requeue_command(const struct invocation *in);
int suspend_command(const struct invocation *in);
int resume_command(const struct invocation *in);
int advise_command(const struct invocation *in);
int drain_command(const struct invocation *in);
int undrain_command(const struct invocation *in);
int enable_command(const struct invocation *in);
int disable_command(const struct invocation *in);
