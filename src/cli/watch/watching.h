/*
 * The folder watch contains commands that show workloads and nodes, and change nothing. Every
 * request is a GET.
 *
 * Files of the folder cli/watch may include base, model, wire, cli/frame, cli/connect.
 */
#pragma once
#include "cli/frame/options.h"

int ps_command(const struct invocation *in);
int describe_command(const struct invocation *in);
int explain_command(const struct invocation *in);
int logs_command(const struct invocation *in);
int wait_command(const struct invocation *in);
int events_command(const struct invocation *in);
int nodes_command(const struct invocation *in);
int slo_command(const struct invocation *in);
int top_command(const struct invocation *in);
