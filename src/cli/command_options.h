/* Options that several commands share, and the long list of sim; used only by commands.c. */
#pragma once
#include "cli/command.h"

/* clang-format off */
#define OPTIONS_END {0}

#define CONNECTION_OPTIONS                                                                         \
    {"socket", 0, "PATH", "connect to the API socket PATH (default: $GPUMUX_SOCKET, then "         \
     "api.sock in the default state directory)", NULL},                                            \
    {"url", 0, "URL", "connect to gpumux on another machine, https://HOST:PORT (default: "         \
     "$GPUMUX_URL)", NULL}
#define OUTPUT_OPTION                                                                              \
    {"output", 'o', "table|wide|json|yaml", "print in this format; wide: the table with more "     \
     "columns", NULL}
#define QUIET_OPTION(help) {"quiet", 'q', NULL, help, NULL}
#define STATE_OPTION                                                                               \
    {"state", 0, "DIR", "use this state directory (default: /var/lib/gpumux for root, "            \
     "$XDG_STATE_HOME/gpumux or ~/.local/state/gpumux for other users)", NULL}

#define DAEMON_OPTIONS                                                                             \
    STATE_OPTION,                                                                                  \
    {"config", 'c', "FILE", "read the configuration from FILE ('gpumux config default' prints a "  \
     "template; default: no file)", NULL},                                                         \
    {"set", 0, "KEY=VALUE", "set a configuration key, with precedence over --config; may be "      \
     "repeated", NULL}
#define POLICY_OPTION                                                                              \
    {"policy", 0, "POLICY", "place workloads by this policy, like --set policy=POLICY: gpumux "    \
     "(default), firstfit, exclusive, …", NULL}
#define LISTEN_OPTION                                                                              \
    {"listen", 0, "ADDRESS", "[HOST:]PORT: accept clients and nodes over TLS; needs 'gpumux "      \
     "control init' (default HOST: 127.0.0.1). unix:PATH: path of the API socket (default: "       \
     "api.sock in the state directory). Each form may be given once", NULL}
#define NODE_SOCKET_OPTION                                                                         \
    {"node-socket", 0, "PATH", "socket that connects control and the nodes of one machine "        \
     "(default: node.sock in the state directory)", NULL}
#define JOIN_OPTIONS                                                                               \
    {"control", 0, "URL", "connect to control on another machine, https://HOST:PORT (default: "    \
     "control on this machine)", NULL},                                                            \
    {"ca", 0, "sha256:HEX", "to join: fingerprint of the certificate authority of control", NULL}, \
    {"token", 0, "TOKEN", "to join: one-time token of 'gpumux token create --role node'", NULL},   \
    {"name", 0, "NAME", "to join: name of this node (default: node_name in the configuration, or " \
     "the host's name)", NULL},                                                                    \
    {"join-only", 0, NULL, "join with --token, then exit", NULL}
#define DEVICE_OPTIONS                                                                             \
    {"emulate", 0, "N[xMODEL[:MEM]]", "emulate N GPUs of MODEL, with MEM of memory each, such as " \
     "4 or 4xH200:24g; commas separate groups, as in '2xA100,T4'; models: H200 (default), A100, "  \
     "RTX3090, T4", NULL},                                                                         \
    {"without-devices", 0, NULL, "start even if the machine has no GPU", NULL}

/* The keys of a description as options; the last member is the key that the option sets. */
#define SPEC_OPTIONS                                                                               \
    {"kind", 'k', "task|service", "kind of workload: a task runs to its end (default), a service " \
     "until it is cancelled", "kind"},                                                             \
    {"name", 'n', "NAME", "name of the workload (default: made from the command)", "name"},        \
    {"devices", 'd', "N", "number of GPUs, all on one node; 0: no GPU (default 1)", "devices"},    \
    {"model", 0, "MODEL", "run only on devices whose model name contains MODEL", "model"},         \
    {"quota", 'm', "SIZE", "memory quota on each device, such as 8g (default: the whole device, "  \
     "shared with no other workload)", "quota"},                                                   \
    {"share", 's', "PERCENT", "percent of each device's SMs: sets --share-min and --share-max",    \
     "share"},                                                                                     \
    {"share-min", 0, "PERCENT", "guaranteed percent of each device's SMs (default 0)",             \
     "share.min"},                                                                                 \
    {"share-max", 0, "PERCENT", "largest percent of each device's SMs that the workload may use "  \
     "(default 100)", "share.max"},                                                                \
    {"batch", 0, "N", "batch size for which the command was tuned; the command gets this number "  \
     "as GPUMUX_BATCH_SIZE", "batch.reference"},                                                   \
    {"batch-min", 0, "N", "smallest batch size that gpumux may choose", "batch.min"},              \
    {"batch-max", 0, "N", "largest batch size that gpumux may choose", "batch.max"},               \
    {"batch-step", 0, "N", "choose only batch sizes that are multiples of N", "batch.step"},       \
    {"slo", 0, "PERCENTILE:TIME", "latency target of a service; 99:50ms: 99 % of the requests "    \
     "within 50 ms", "slo"},                                                                       \
    {"slo-first", 0, "TIME", "target of a service for the time to the first byte of an answer, "   \
     "such as 200ms, at the percentile of --slo (default 99)", "slo.first"},                       \
    {"slo-between", 0, "TIME", "target of a service for the time between two pieces of a "         \
     "streamed answer, such as 50ms, at the percentile of --slo (default 99)", "slo.between"},     \
    {"samples", 0, "N", "expected number of samples that the task processes", "expected.samples"}, \
    {"duration", 0, "TIME", "expected run time of the task alone on a device, such as 90m",        \
     "expected.duration"},                                                                         \
    {"time-limit", 't', "TIME", "end an attempt that runs longer than TIME, such as 4h (default: " \
     "no limit)", "time_limit"},                                                                   \
    {"priority", 'p', "N", "priority from -1000 to 1000; workloads with a larger priority start "  \
     "first (default 0)", "priority"},                                                             \
    {"retries", 0, "N", "largest number of retries after failures of the workload itself "         \
     "(default 0)", "retries"},                                                                    \
    {"grace", 0, "TIME", "time between SIGTERM and SIGKILL when gpumux ends the workload "         \
     "(default 10s)", "grace"},                                                                    \
    {"resume", 0, "COMMAND", "shell command of every attempt after the first attempt that ran "    \
     "(default: the submitted command)", "resume"},                                                \
    {"label", 'l', "KEY=VALUE", "attach a label to the workload; may be repeated", "labels"},      \
    {"node-label", 0, "KEY=VALUE", "run only on nodes with this label; may be repeated",           \
     "node_labels"},                                                                               \
    {"after", 0, "WORKLOAD[:ended]", "start after WORKLOAD, a name or id, has succeeded; with "    \
     ":ended, after any end of WORKLOAD; may be repeated", "after"},                               \
    {"env", 'e', "KEY=VALUE", "set an environment variable of the workload; may be repeated",      \
     "environment"},                                                                               \
    {"export", 0, "all|none|LIST", "environment variables to pass on: all (default); none: only "  \
     "PATH, HOME, USER, LOGNAME, SHELL and LANG; a list NAME,NAME: these six variables and the "   \
     "listed variables", NULL},                                                                    \
    {"directory", 'C', "DIR", "working directory (default: your current directory)", "directory"}, \
    {"user", 'u', "NAME", "account under which the workload runs (default: yours); only "          \
     "administrators may name another account", "user"},                                           \
    {"ready", 0, "started|client|port:N|command:TEXT", "condition for a service to count as "      \
     "running: started: its process runs (default); client: the service reports readiness "        \
     "through libgpumux; port:N: port N accepts connections; command:TEXT: shell command TEXT "    \
     "succeeds", "ready"},                                                                         \
    {"port", 0, "PORT[:BACKEND]", "port on which clients reach the service; with --proxy, the "    \
     "command listens on the port BACKEND (default: a free port, in GPUMUX_PORT)", "port"},        \
    {"proxy", 0, "http|off", "http: gpumux listens on --port, measures every request and "         \
     "forwards it to the command (default off)", "proxy"},                                         \
    {"latency-from", 0, "auto|vllm|sglang|triton|prometheus", "server whose metrics page tells "   \
     "the latencies of the service (default: auto if --port is given, without --proxy)",           \
     "latency.from"},                                                                              \
    {"latency-port", 0, "PORT", "port of the metrics page (default: --port)", "latency.port"},     \
    {"latency-metric", 0, "NAME", "with --latency-from prometheus: name of a histogram of "       \
     "request durations", "latency.metric"},                                                       \
    {"on-node-lost", 0, "requeue|wait", "action if the node of the workload is lost: requeue the " \
     "workload (default), or wait until the node is back", "on_node_lost"},                        \
    {"protection", 0, "on|off", "enforce quota and share (default on); only administrators may "   \
     "turn protection off", "protection"},                                                         \
    {"swappable", 0, NULL, "of a task with a quota: while a service needs the device memory of "   \
     "the task, the task waits and its memory is in host memory", "swappable"}
/* clang-format on */

/* sim */
#define SIM_OPTIONS                                                                                \
    {"trace", 0, "FILE",                                                                           \
     "read arrivals from FILE, a CSV file with one workload per line ('-': standard input), or "   \
     "use "                                                                                        \
     "a built-in trace: philly, tasks-300 (default), poisson, bursty, diurnal",                    \
     NULL},                                                                                        \
        {"nodes", 0, "NxMxMODEL[:MEM]",                                                            \
         "simulate N nodes with M devices each, such as 5x4xH200:24g (default); commas separate "  \
         "groups; models: H200, H100, B200, A100, A10, L4, V100, T4, RTX4090, RTX3090",            \
         NULL},                                                                                    \
        {"policy", 0, "POLICY,…",                                                                  \
         "compare these policies, or all (default gpumux); POLICY-PART is POLICY without that "    \
         "part",                                                                                   \
         NULL},                                                                                    \
        {"without", 0, "PART,…",                                                                   \
         "leave these parts out of every policy: tuner, predictor, optimizer, matching, gate",     \
         NULL},                                                                                    \
        {"ablate", 0, "PART,…",                                                                    \
         "also run every policy without each of these parts, and without all of them", NULL},      \
        {"jobs", 0, "N",                                                                           \
         "number of workloads to take from the trace; a shorter trace is repeated", NULL},         \
        {"rate", 0, "X,…", "multiply the arrival rate of the trace by X (default 1)", NULL},       \
        {"load", 0, "X,…",                                                                         \
         "scale the arrival rate so that, without sharing, the tasks would keep X times as many "  \
         "devices busy as the cluster has; cannot be combined with --rate",                        \
         NULL},                                                                                    \
        {"mix", 0, "MODEL[:BATCH]=WEIGHT,…",                                                       \
         "relative frequency of models and batch sizes, for workloads whose trace names no model", \
         NULL},                                                                                    \
        {"services", 0, "N",                                                                       \
         "number of services with SLOs, which start before all tasks (default 0)", NULL},          \
        {"faults", 0, "X", "mean number of GPU faults per device and day (default 0)", NULL},      \
        {"outages", 0, "X", "mean number of outages per node and day (default 0)", NULL},          \
        {"outage-minutes", 0, "X", "mean duration of an outage in minutes (default 10)", NULL},    \
        {"seed", 0, "N", "seed of the trace and of all random numbers (default 1)", NULL},         \
        {"seeds", 0, "N",                                                                          \
         "run the same trace with N consecutive seeds, and report means (default 1)", NULL},       \
        {"noise", 0, "X", "relative noise added to each simulated slowdown (default 0.05)", NULL}, \
        {"estimate-error", 0, "X",                                                                 \
         "error of declared run times: standard deviation of log(declared / true run time) "       \
         "(default "                                                                               \
         "0.3)",                                                                                   \
         NULL},                                                                                    \
        {"max-neighbours", 0, "N", "largest number of workloads on one device (default 4)", NULL}, \
        {"threads", 0, "N", "number of simulations at a time (default: one for each CPU core)",    \
         NULL},                                                                                    \
        {"out", 0, "DIR",                                                                          \
         "write report.html, and CSV files of workloads, devices and use over time, to DIR; a "    \
         "campaign "                                                                               \
         "that was interrupted continues from DIR",                                                \
         NULL},                                                                                    \
        {"json", 0, NULL, "print JSON instead of a table", NULL},                                  \
        {"explain", 0, "N",                                                                        \
         "print how the first policy judges each group of equivalent devices when workload N "     \
         "arrives",                                                                                \
         NULL},                                                                                    \
    {                                                                                              \
        "validate", 0, "TABLE",                                                                    \
            "simulate nothing; print the errors of the contention model on the measured pairs in " \
            "TABLE",                                                                               \
            NULL                                                                                   \
    }
