/* Options that several commands have, for the table in commands.c alone. */
#pragma once
#include "cli/command.h"

/* clang-format off */
#define OPTIONS_END {0}

#define CONNECTION_OPTIONS                                                                         \
    {"socket", 0, "PATH", "the API socket, instead of $GPUMUX_SOCKET or the usual places", NULL},  \
    {"url", 0, "URL", "gpumux on another machine, https://HOST:PORT, instead of $GPUMUX_URL",      \
     NULL}
#define OUTPUT_OPTION                                                                              \
    {"output", 'o', "table|wide|json|yaml", "how to show it", NULL}
#define QUIET_OPTION(help) {"quiet", 'q', NULL, help, NULL}
#define STATE_OPTION                                                                               \
    {"state", 0, "DIR", "the state directory: /var/lib/gpumux for root, ~/.local/state/gpumux "    \
     "($XDG_STATE_HOME) for others", NULL}

#define DAEMON_OPTIONS                                                                             \
    STATE_OPTION,                                                                                  \
    {"config", 'c', "FILE", "configuration, as 'gpumux config default' prints it", NULL},          \
    {"set", 0, "KEY=VALUE", "set one key of the configuration; may be repeated", NULL}
#define POLICY_OPTION                                                                              \
    {"policy", 0, "POLICY", "which workloads go to which devices: gpumux, firstfit, exclusive, …", \
     NULL}
#define LISTEN_OPTION                                                                              \
    {"listen", 0, "ADDRESS", "[HOST:]PORT: also on the network, with TLS, for clients and nodes "  \
     "(HOST: 127.0.0.1 if not given; see 'control init'); unix:PATH: the API socket, instead of "  \
     "api.sock in the state directory", NULL}
#define NODE_SOCKET_OPTION                                                                         \
    {"node-socket", 0, "PATH", "where nodes connect, instead of node.sock in the state directory", \
     NULL}
#define JOIN_OPTIONS                                                                               \
    {"control", 0, "URL", "control on another machine: https://HOST:PORT", NULL},                  \
    {"ca", 0, "sha256:HEX", "to join: the fingerprint of control's authority", NULL},              \
    {"token", 0, "TOKEN", "to join: a one-time token ('gpumux token create --role node')", NULL},  \
    {"name", 0, "NAME", "to join: this node's name, instead of the host's", NULL},                 \
    {"join-only", 0, NULL, "join, and start nothing", NULL}
#define DEVICE_OPTIONS                                                                             \
    {"emulate", 0, "N[xMODEL[:MEM]]", "emulate N GPUs: 4, 2xA100, 4xH200:24g, 2xA100,T4; models "  \
     "H200, A100, RTX3090, T4", NULL},                                                             \
    {"without-devices", 0, NULL, "start on a machine that has no GPU all the same", NULL}

/* What a description says, as flags: the last member is the key that each sets. */
#define SPEC_OPTIONS                                                                               \
    {"kind", 'k', "task|service", "task: runs to an end; service: runs until cancelled", "kind"},  \
    {"name", 'n', "NAME", "what it is called; made from the command if not given", "name"},        \
    {"devices", 'd', "N", "GPUs, all on one node; 0: none (default 1)", "devices"},                \
    {"model", 0, "MODEL", "only on devices whose model's name contains this", "model"},            \
    {"quota", 'm', "SIZE", "device memory on each device, such as 8g; not given: the whole device",\
     "quota"},                                                                                     \
    {"share", 's', "PERCENT", "part of each device's SMs, guaranteed and at most", "share"},       \
    {"share-min", 0, "PERCENT", "part that is guaranteed", "share.min"},                           \
    {"share-max", 0, "PERCENT", "part that is the cap", "share.max"},                              \
    {"batch", 0, "N", "batch size that the command uses", "batch.reference"},                      \
    {"batch-min", 0, "N", "smallest batch size it can be given", "batch.min"},                     \
    {"batch-max", 0, "N", "largest batch size it can be given", "batch.max"},                      \
    {"batch-step", 0, "N", "batch sizes are multiples of this", "batch.step"},                     \
    {"slo", 0, "PERCENTILE:TIME", "a service's latency target, such as 99:50ms", "slo"},           \
    {"samples", 0, "N", "samples that it will process", "expected.samples"},                       \
    {"duration", 0, "TIME", "how long it is expected to run", "expected.duration"},                \
    {"time-limit", 't', "TIME", "end an attempt after this, such as 4h", "time_limit"},            \
    {"priority", 'p', "N", "larger goes first (-1000 … 1000)", "priority"},                        \
    {"retries", 0, "N", "own failures that are forgiven", "retries"},                              \
    {"grace", 0, "TIME", "between SIGTERM and SIGKILL (default 10s)", "grace"},                    \
    {"resume", 0, "COMMAND", "run by sh instead of the command once an attempt has run",        \
     "resume"},                                                                                    \
    {"label", 'l', "KEY=VALUE", "a label of the workload; may be repeated", "labels"},             \
    {"node-label", 0, "KEY=VALUE", "only on nodes with this label; may be repeated",               \
     "node_labels"},                                                                               \
    {"after", 0, "WORKLOAD[:ended]", "start once another has succeeded (or ended in any way); may "\
     "be repeated", "after"},                                                                      \
    {"env", 'e', "KEY=VALUE", "an environment variable; may be repeated", "environment"},          \
    {"export", 0, "all|none|LIST", "which of your own variables it gets: all (the default), none " \
     "but PATH, HOME, USER, LOGNAME, SHELL and LANG, or these and a list of names", NULL},         \
    {"directory", 'C', "DIR", "where it runs; your current directory if not given", "directory"},  \
    {"user", 'u', "NAME", "account it runs as; others than your own are for administrators",       \
     "user"},                                                                                      \
    {"ready", 0, "started|client|port:N|command:TEXT", "when a service counts as running",         \
     "ready"},                                                                                     \
    {"on-node-lost", 0, "requeue|wait", "what follows when its node is lost", "on_node_lost"},     \
    {"protection", 0, "on|off", "off: nothing holds it to its quota and share (administrators)",   \
     "protection"}
/* clang-format on */
