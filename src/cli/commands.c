/* The table of commands. command.h says what the members mean. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/daemons.h"
#include "cli/help.h"
#include "cli/options.h"

#define DAEMON_OPTIONS                                                                             \
    {"state", 0, "DIR", "where everything that must survive is kept", NULL},                       \
        {"config", 'c', "FILE", "configuration, as 'gpumux config default' prints it", NULL},      \
    {                                                                                              \
        "set", 0, "KEY=VALUE", "set one key of the configuration; may be repeated", NULL           \
    }
#define POLICY_OPTION                                                                              \
    {                                                                                              \
        "policy", 0, "exclusive|firstfit|random", "which workloads go to which devices", NULL      \
    }
#define LISTEN_OPTION                                                                              \
    {                                                                                              \
        "listen", 0, "unix:PATH", "API socket, instead of api.sock in the state directory", NULL   \
    }
#define DEVICE_OPTIONS                                                                             \
    {"emulate", 0, "N[xMODEL[:MEM]]",                                                              \
     "emulate N GPUs: 4, 2xA100, 4xH200:24g, 2xA100,T4; models H200, A100, RTX3090, T4", NULL},    \
    {                                                                                              \
        "without-devices", 0, NULL, "start on a machine that has no GPU all the same", NULL        \
    }
#define NODE_SOCKET_OPTION                                                                         \
    {                                                                                              \
        "node-socket", 0, "PATH",                                                                  \
            "where nodes connect, instead of node.sock in the state directory", NULL               \
    }
#define OPTIONS_END                                                                                \
    {                                                                                              \
        0                                                                                          \
    }

static const struct option no_options[] = {OPTIONS_END};

static const struct option up_options[] = {DEVICE_OPTIONS, DAEMON_OPTIONS, LISTEN_OPTION,
                                           POLICY_OPTION, OPTIONS_END};
static const struct option control_options[] = {DAEMON_OPTIONS, LISTEN_OPTION, NODE_SOCKET_OPTION,
                                                POLICY_OPTION, OPTIONS_END};
static const struct option node_options[] = {DEVICE_OPTIONS, DAEMON_OPTIONS, NODE_SOCKET_OPTION,
                                             OPTIONS_END};

static const struct command commands[] = {
    {
        .name = "up",
        .operands = "",
        .summary = "start gpumux on this machine",
        .description =
            "Starts everything that one machine needs, control and node, in one process that stays "
            "in the foreground and logs to standard error. Its devices are the GPUs that NVML "
            "finds, or emulated ones.\n\n"
            "It may be stopped (Ctrl-C, SIGTERM) or die at any moment: workloads run on under "
            "their supervisors, and the next 'gpumux up' with the same state directory takes them "
            "up again. Without root it serves its own user.",
        .options = up_options,
        .examples =
            (const struct example[]){
                {"gpumux up", "share this machine's GPUs"},
                {"gpumux up --emulate 4xH200:24g", "try it with four emulated GPUs of 24 GiB"},
                {"gpumux up --policy exclusive --set keep_finished=7d",
                 "one workload a device; forget finished ones after a week"},
                {0}},
        .run = up_command,
    },
    {
        .name = "control",
        .operands = "",
        .summary = "start only the part that queues and places workloads",
        .description = "Starts control without a node of its own: the store, the policy, the API, "
                       "and a socket to which nodes connect.",
        .options = control_options,
        .run = control_command,
    },
    {
        .name = "node",
        .operands = "",
        .summary = "start only the part that runs workloads on this machine's devices",
        .description = "Starts a node: it connects to control, and starts, watches and ends "
                       "workloads as it is told. What runs outlives it.",
        .options = node_options,
        .run = node_command,
    },
    {
        .name = "help",
        .operands = "[COMMAND]",
        .summary = "say what commands there are, or tell more of one",
        .description = "Lists the commands, or prints the help text of one.",
        .options = no_options,
        .operands_most = 1,
        .run = help_command,
    },
    {
        .name = "version",
        .operands = "",
        .summary = "print the version",
        .description = "Prints the version of this gpumux.",
        .options = no_options,
        .run = version_command,
    },
    {
        .name = "completion",
        .operands = "bash|zsh|fish",
        .summary = "print a completion script for a shell",
        .description = "Prints a script that makes the shell complete commands, options and ids.",
        .options = no_options,
        .examples =
            (const struct example[]){{"source <(gpumux completion bash)", "complete in this shell"},
                                     {0}},
        .completes = "bash zsh fish",
        .operands_least = 1,
        .operands_most = 1,
        .run = completion_command,
    },
    {
        .name = "man",
        .operands = "[COMMAND]",
        .summary = "print a man page",
        .description = "Prints the man page of gpumux or of one command; used by the build.",
        .options = no_options,
        .hidden = true,
        .operands_most = 1,
        .run = man_command,
    },
    {
        .name = "supervise",
        .operands = "DIRECTORY",
        .summary = "run one attempt of a workload",
        .description = "The supervisor of one attempt, started by a node.",
        .options = no_options,
        .hidden = true,
        .operands_least = 1,
        .operands_most = 1,
        .run = supervise_command,
    },
    {0},
};

const struct command *command_table(void)
{
    return commands;
}

const struct command *command_find(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

const char *command_nearest(const char *name)
{
    enum { DISTANCE_MAX = 2 };
    const char *nearest = NULL;
    size_t best = DISTANCE_MAX + 1;
    for (const struct command *c = commands; c->name; c++) {
        size_t distance = str_distance(name, c->name, DISTANCE_MAX + 1);
        if (distance < best && !c->hidden) {
            best = distance;
            nearest = c->name;
        }
    }
    return nearest;
}
