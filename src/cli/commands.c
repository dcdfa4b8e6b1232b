/* The table of commands. command.h documents the members. */
#include "cli/command.h"

#include <string.h>

#include "base/str.h"
#include "cli/change/access.h"
#include "cli/change/changing.h"
#include "cli/command_options.h"
#include "cli/daemon/daemons.h"
#include "cli/frame/help.h"
#include "cli/load/load.h"
#include "cli/maintain/maintenance.h"
#include "cli/sim/sim.h"
#include "cli/frame/options.h"
#include "cli/submit/submit.h"
#include "cli/watch/watching.h"

static const struct option no_options[] = {OPTIONS_END};
static const struct option up_options[] = {DEVICE_OPTIONS, DAEMON_OPTIONS, LISTEN_OPTION,
                                           POLICY_OPTION, OPTIONS_END};
static const struct option control_options[] = {
    DAEMON_OPTIONS,
    LISTEN_OPTION,
    NODE_SOCKET_OPTION,
    POLICY_OPTION,
    {"url", 0, "URL", "init: address at which nodes and clients reach control, https://HOST:PORT",
     NULL},
    OPTIONS_END};
static const struct option node_options[] = {JOIN_OPTIONS, DEVICE_OPTIONS, DAEMON_OPTIONS,
                                             NODE_SOCKET_OPTION, OPTIONS_END};
static const struct option submit_options[] = {
    SPEC_OPTIONS,
    {"array", 'a', "N",
     "submit N copies, NAME[0] to NAME[N-1]; each copy gets its number as GPUMUX_ARRAY_INDEX",
     "array"},
    {"dry-run", 0, NULL,
     "submit nothing; print where each workload would start now, or why it would wait", NULL},
    {"key", 0, "KEY",
     "submit under this key; a repeated key submits nothing and prints the ids of the first "
     "submission (default: a random key)",
     NULL},
    OUTPUT_OPTION,
    QUIET_OPTION("print ids only, and no warnings"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option run_options[] = {
    SPEC_OPTIONS,
    {"no-stdin", 0, NULL, "do not forward standard input", NULL},
    QUIET_OPTION("do not print to standard error why the workload waits and how the workload ends"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option ps_options[] = {
    {"all", 'a', NULL,
     "list all stored workloads (default: live workloads and the 20 that ended last)", NULL},
    {"state", 0, "STATE,…", "list only workloads in these states, such as queued,running", NULL},
    {"kind", 'k', "task|service", "list only tasks, or only services", NULL},
    {"user", 'u', "NAME", "list only workloads of this user", NULL},
    {"name", 'n', "NAME", "list only workloads of this name", NULL},
    OUTPUT_OPTION,
    QUIET_OPTION("print ids only"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option describe_options[] = {OUTPUT_OPTION, CONNECTION_OPTIONS, OPTIONS_END};
static const struct option logs_options[] = {
    {"follow", 'f', NULL, "keep printing new output until the attempt ends", NULL},
    {"tail", 'n', "N", "print only the last N lines of the output so far", NULL},
    {"attempt", 0, "N", "print the output of attempt N (default: the last attempt)", NULL},
    {"timestamps", 't', NULL, "print the time before each line", NULL},
    {"stdout", 0, NULL, "print only standard output", NULL},
    {"stderr", 0, NULL, "print only standard error", NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option cancel_options[] = {
    {"grace", 0, "TIME",
     "time between SIGTERM and SIGKILL; 0s kills at once (default: the workload's grace period)",
     NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option advise_options[] = {
    {"batch", 'b', "N", "samples in a batch; 0 withdraws the advice", NULL},
    {"checkpoint", 0, NULL, "request a checkpoint", NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option socket_options[] = {CONNECTION_OPTIONS, OPTIONS_END};
static const struct option wait_options[] = {
    {"timeout", 0, "TIME", "stop waiting after TIME, such as 10m (default: wait for ever)", NULL},
    QUIET_OPTION("do not print how each workload ended"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option top_options[] = {
    {"once", 0, NULL, "print one frame as plain text, then exit", NULL},
    {"interval", 'i', "TIME", "time between two updates (default 1s)", NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option slo_options[] = {
    {"follow", 'f', NULL, "print the table again and again until interrupted", NULL},
    {"interval", 'i', "TIME", "with --follow: time between two tables (default 2s)", NULL},
    OUTPUT_OPTION,
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option nodes_options[] = {OUTPUT_OPTION, QUIET_OPTION("print names only"),
                                              CONNECTION_OPTIONS, OPTIONS_END};
static const struct option events_options[] = {
    {"follow", 'f', NULL, "keep printing new events until interrupted", NULL},
    {"since", 0, "REVISION", "print the events after this revision; 0: all stored events", NULL},
    OUTPUT_OPTION,
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option state_options[] = {
    STATE_OPTION, {"overwrite", 0, NULL, "backup: replace an existing FILE", NULL}, OPTIONS_END};
static const struct option man_options[] = {
    {"all", 0, "DIR", "write every man page into DIR", NULL}, OPTIONS_END};
static const struct option doctor_options[] = {STATE_OPTION, CONNECTION_OPTIONS, OPTIONS_END};

static const struct option sim_options[] = {SIM_OPTIONS, OPTIONS_END};
static const struct option load_options[] = {
    {"rate", 'r', "RATE",
     "mean rate of the requests, such as 150/s or 20/m; scales a trace to this mean rate", NULL},
    {"arrivals", 'a', "PROCESS",
     "poisson (default): exponential gaps. uniform: equal gaps. diurnal[:PERIOD[:SWING]]: the rate "
     "swings by SWING (default 0.8) around --rate, once per PERIOD (default: the run). "
     "step:RATE@TIME,…: --rate, then RATE from TIME on. trace:FILE[:COLUMN]: CSV with t_s and the "
     "rate from that time on in COLUMN (default: rate); without such a column, t_s are the times "
     "of the requests",
     NULL},
    {"seconds", 's', "TIME",
     "measure for this time, such as 30 or 5m (default 10s; a trace: once to its end)", NULL},
    {"requests", 'n', "N", "end after N requests, including those of --warmup", NULL},
    {"warmup", 0, "TIME", "send requests for this time before the measurement (default 0)", NULL},
    {"speed", 0, "X", "play a trace X times as fast; rates of a trace stay as they are", NULL},
    {"seed", 0, "N",
     "seed of arrivals and tensors; the same seed gives the same arrivals "
     "(default 1)",
     NULL},
    {"connections", 'c', "N", "open at most N connections, as needed (default 64)", NULL},
    {"queue", 0, "N",
     "largest number of requests that wait for a connection; further requests fail as dropped "
     "(default 10000)",
     NULL},
    {"timeout", 't', "TIME",
     "a request fails without a complete answer within TIME after it was due (default 10s)", NULL},
    {"method", 'X', "METHOD", "HTTP method (default: GET, or POST with a body)", NULL},
    {"header", 'H', "NAME: VALUE", "add a header to every request; may be repeated", NULL},
    {"body", 'd', "TEXT|@FILE", "send this text, or the content of FILE, as the body", NULL},
    {"oip", 0, "MODEL",
     "send inference requests of the Open Inference Protocol, version 2, to MODEL", NULL},
    {"tensor", 0, "NAME:TYPE:SHAPE",
     "with --oip: an input with random values, such as input:FP32:1x3x224x224; may be repeated",
     NULL},
    {"binary", 0, NULL, "with --oip: send the tensors as bytes after the JSON, not as JSON", NULL},
    {"stream", 0, NULL,
     "measure the time to the first chunk of each answer and the gaps between chunks; a chunk is "
     "a server-sent event, or the bytes that arrived together",
     NULL},
    {"slo", 0, "TARGET,…",
     "latency target, such as p99<=20ms; prints the fraction of requests within the target", NULL},
    {"json", 0, "FILE",
     "write all figures and histograms to FILE ('-': print them instead of the "
     "table)",
     NULL},
    {"svg", 0, "FILE", "draw latency and rates to FILE", NULL},
    OPTIONS_END};
static const struct option token_options[] = {
    {"role", 0, "viewer|user|admin|node",
     "permissions of the token: viewer reads; user submits, and changes workloads of its account; "
     "admin does everything; node lets one node join, once",
     NULL},
    {"account", 0, "NAME",
     "account whose workloads the token may change, and under which its submitted workloads run",
     NULL},
    {"name", 0, "NODE", "with --role node: the only name under which the node may join", NULL},
    {"ttl", 0, "TIME", "lifetime of the token, such as 12h (default 90d; with --role node 1d)",
     NULL},
    OUTPUT_OPTION,
    QUIET_OPTION("print nothing but the token"),
    CONNECTION_OPTIONS,
    OPTIONS_END};

#define EXAMPLES(...)                                                                              \
    (const struct example[])                                                                       \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

static const struct command commands[] = {
    {
        .name = "up",
        .operands = "",
        .summary = "start gpumux on this machine",
        .description =
            "Starts control and a node in one process, which stays in the foreground and logs to "
            "standard error. The node's devices are the GPUs that NVML finds, or emulated GPUs.\n\n"
            "Workloads survive gpumux. If gpumux is stopped (Ctrl-C, SIGTERM) or crashes, the "
            "workloads keep running under their supervisors. The next 'gpumux up' with the same "
            "state directory adopts the workloads. Without root, gpumux runs only workloads of the "
            "user who started gpumux.\n\n"
            "Emulated devices last until the machine reboots. 'gpumux up' with the same --emulate "
            "finds the same devices again.",
        .options = up_options,
        .examples = EXAMPLES(
            {"gpumux up", "share this machine's GPUs"},
            {"gpumux up --emulate 4xH200:24g", "try gpumux with four emulated GPUs of 24 GiB"},
            {"gpumux up --policy exclusive --set keep_finished=7d",
             "run one workload on each device; delete finished workloads after a week"}),
        .run = up_command,
    },
    {
        .name = "submit",
        .operands = "[FILE] [-- COMMAND…]",
        .summary = "queue workloads and print their ids",
        .description =
            "Submits the workloads that FILE describes (YAML or JSON; '-' is standard input), or "
            "the command after '--'. Options override a FILE that describes one workload. A "
            "workload runs in your current directory and with your environment, unless FILE or an "
            "option says otherwise.\n\n"
            "A submission takes effect once. If gpumux restarts before answering, this command "
            "retries the submission under the same key for up to 10 seconds. After one second "
            "without an answer, the command prints to standard error that gpumux does not answer, "
            "and the time until which the command waits.",
        .options = submit_options,
        .examples = EXAMPLES(
            {"gpumux submit --quota 8g --share 50 -- python train.py",
             "train with half a device and 8 GiB"},
            {"gpumux submit sweep.yaml --dry-run", "print where the workloads would start now"},
            {"gpumux submit --array 10 --after prepare -- sh step.sh",
             "run ten copies after 'prepare'"}),
        .exits = "6    with --dry-run: a workload would never start here\n",
        .completes = "files",
        .operands_most = 1,
        .run = submit_command,
    },
    {
        .name = "run",
        .operands = "[--] COMMAND [ARGUMENT…]",
        .summary = "run a command as a workload and wait for its end",
        .description =
            "Submits the command, passes its standard output and standard error on unchanged, and "
            "exits with its exit code. Options come before the command.\n\n"
            "Standard input is forwarded to the first attempt, unless it is /dev/null, closed, or "
            "the terminal of another job. SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are forwarded. The "
            "first Ctrl-C cancels the workload, the second kills the workload, and the third "
            "leaves the workload running and exits. 'gpumux run' survives a restart of gpumux. "
            "After one second without an answer, 'gpumux run' prints to standard error that gpumux "
            "does not answer.",
        .options = run_options,
        .examples = EXAMPLES(
            {"gpumux run -- env", "print the environment of a workload"},
            {"gpumux run -m 4g python train.py --epochs 3", "train with 4 GiB of device memory"}),
        .exits = "N    exit code of the command; 128+N if signal N ended the command\n"
                 "127  the command could not be started\n"
                 "130  the workload was cancelled before it ran\n"
                 "1-5  gpumux failed, as below; with --quiet, only such a failure prints "
                 "'gpumux: …'\n",
        .stops_at_operand = true,
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = run_command,
    },
    {
        .name = "ps",
        .operands = "",
        .summary = "list workloads",
        .description = "Lists the live workloads of all users, newest first, then the 20 workloads "
                       "that ended last. The first columns of the table stay the same in later "
                       "versions.",
        .options = ps_options,
        .examples =
            EXAMPLES({"gpumux ps -o wide", "add quota, share, UUIDs and command"},
                     {"gpumux ps --state failed -q", "print the ids of all failed workloads"}),
        .run = ps_command,
    },
    {
        .name = "describe",
        .operands = "WORKLOAD…",
        .summary = "show all details of workloads",
        .description = "Shows the state of each WORKLOAD with the reason, and the needs, use and "
                       "attempts of the workload. In every command, WORKLOAD is an id or a name. A "
                       "name means the newest workload of that name, or all elements of the newest "
                       "array of that name.",
        .options = describe_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = describe_command,
    },
    {
        .name = "explain",
        .operands = "WORKLOAD…",
        .summary = "explain where workloads go, or why workloads wait",
        .description =
            "Shows how the policy judges every device for a workload now, the best device first. "
            "gpumux judges a running workload as if you submitted the workload again. ALIKE is the "
            "number of equivalent devices.\n\n"
            "RELATIVE is the predicted speed, relative to the workload alone on the device. PD is "
            "1/RELATIVE. GAIN is the predicted change in the total speed of all tasks on the "
            "device. P99 and MEASURED describe the service closest to its SLO: P99 is the "
            "predicted p99, and MEASURED is the current p99.",
        .options = describe_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = explain_command,
    },
    {
        .name = "logs",
        .operands = "WORKLOAD",
        .summary = "print the output of a workload",
        .description = "Prints the output of the workload's last attempt: the standard output of "
                       "the attempt to standard output, its standard error to standard error.",
        .options = logs_options,
        .examples = EXAMPLES(
            {"gpumux logs -f -n 20 17", "print the last 20 lines of workload 17, then new lines"},
            {"gpumux logs --attempt 1 --stderr train", "print the errors of the first attempt"}),
        .completes = "ids",
        .operands_least = 1,
        .operands_most = 1,
        .run = logs_command,
    },
    {
        .name = "cancel",
        .operands = "WORKLOAD…",
        .summary = "end workloads for good",
        .description =
            "Ends workloads. A running workload gets SIGTERM, and SIGKILL after the grace period. "
            "A queued workload leaves the queue. gpumux does not retry a cancelled workload.",
        .options = cancel_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = cancel_command,
    },
    {
        .name = "requeue",
        .operands = "WORKLOAD…",
        .summary = "end workloads and put them back into the queue",
        .description = "Ends the running attempt as 'gpumux cancel' does, and starts a new attempt "
                       "when a node has room. The ended attempt does not count as a failure.",
        .options = socket_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = requeue_command,
    },
    {
        .name = "suspend",
        .operands = "TASK…",
        .summary = "move the device memory of tasks to host memory",
        .description = "Pauses a task and moves its device memory to host memory. While the task "
                       "is suspended, its devices are free for other workloads. The command waits "
                       "until the memory has moved, which takes about a second for 2 GB. A client "
                       "of MPS cannot be suspended, and keeps running.",
        .options = socket_options,
        .examples =
            EXAMPLES({"gpumux suspend train", "make room on the devices of 'train'"},
                     {"gpumux resume train", "continue 'train' when its devices have room"}),
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = suspend_command,
    },
    {
        .name = "resume",
        .operands = "TASK…",
        .summary = "bring suspended tasks back to their devices",
        .description = "Moves the memory of suspended tasks back to their devices as soon as the "
                       "devices have room. 'gpumux ps' shows the reason why a task waits.",
        .options = socket_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = resume_command,
    },
    {
        .name = "advise",
        .operands = "WORKLOAD…",
        .summary = "advise a batch size to workloads, or request a checkpoint",
        .description = "Passes advice to the programs of a workload that use libgpumux. A program "
                       "follows the advice at its next step, and keeps its smallest and its "
                       "largest batch size. 'gpumux describe' shows the advice and the batch size "
                       "in use. The batch size also applies to later attempts.",
        .options = advise_options,
        .examples = EXAMPLES({"gpumux advise --batch 64 train", "use batches of 64 samples"},
                             {"gpumux advise --checkpoint train", "save a checkpoint soon"}),
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = advise_command,
    },
    {
        .name = "wait",
        .operands = "WORKLOAD…",
        .summary = "wait until workloads have ended",
        .description = "Waits until every WORKLOAD has ended, and prints how each WORKLOAD ended.",
        .options = wait_options,
        .examples = EXAMPLES({"gpumux wait $(gpumux submit sweep.yaml)", "submit and wait"}),
        .exits = "0    every workload succeeded\n"
                 "1    a workload did not succeed, or this command failed\n"
                 "124  --timeout passed before every workload had ended\n",
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = wait_command,
    },
    {
        .name = "top",
        .operands = "",
        .summary = "watch devices and workloads live",
        .description =
            "Shows the devices with their load, memory and power, and the live workloads. Press q "
            "to quit; s, m or c to sort by state, device memory or CPU; arrows to scroll.",
        .options = top_options,
        .run = top_command,
    },
    {
        .name = "slo",
        .operands = "[SERVICE]",
        .summary = "show how services keep their targets, and the cost to tasks",
        .description =
            "Prints one line for each live service: the target, the part of requests that were "
            "answered in time (over the last minute, 10 minutes and hour, and since the attempt "
            "started), the number of late requests, and the setting under which tasks run beside "
            "the service. TASKS is the speed of these tasks, relative to the fastest setting that "
            "was measured for them. A service has a controller while the service runs with "
            "protection, and live_control is true on its node.\n\n"
            "With SERVICE, prints only this service, the reason for the setting, and the history "
            "of the last hour: one character for each minute, from the lowest minute to 100%. "
            "-o json prints the numbers.",
        .options = slo_options,
        .examples = EXAMPLES({"gpumux slo", "list all services"},
                             {"gpumux slo -f web", "watch one service"}),
        .exits =
            "1    SERVICE missed its target: more requests of the last 10 minutes were late than "
            "allowed\n",
        .completes = "ids",
        .operands_most = 1,
        .run = slo_command,
    },
    {
        .name = "nodes",
        .operands = "",
        .summary = "list nodes and their devices",
        .description = "Prints one line for each device: memory, load, and the quotas and shares "
                       "of the workloads placed on the device.",
        .options = nodes_options,
        .run = nodes_command,
    },
    {
        .name = "drain",
        .operands = "NODE…",
        .summary = "stop placing workloads on nodes",
        .description = "Places no workload on NODE until 'gpumux undrain'; running workloads stay "
                       "on NODE until they end. Only administrators may drain nodes.",
        .options = socket_options,
        .completes = "nodes",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = drain_command,
    },
    {
        .name = "undrain",
        .operands = "NODE…",
        .summary = "place workloads on drained nodes again",
        .description = "Ends the effect of 'gpumux drain'. Also releases a node that gpumux holds "
                       "because workloads failed to start there. Only administrators may undrain "
                       "nodes.",
        .options = socket_options,
        .completes = "nodes",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = undrain_command,
    },
    {
        .name = "disable",
        .operands = "DEVICE…",
        .summary = "take devices out of use",
        .description =
            "Ends the workloads on DEVICE, with their grace periods, and requeues them. gpumux "
            "places no workload on DEVICE until 'gpumux enable'. DEVICE is NODE:INDEX, a UUID, or "
            "the first characters of a UUID. Only administrators may disable devices.",
        .options = socket_options,
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = disable_command,
    },
    {
        .name = "enable",
        .operands = "DEVICE…",
        .summary = "put disabled devices back into use",
        .description = "Enables devices that an administrator disabled, or that gpumux disabled "
                       "after a hardware error. DEVICE is NODE:INDEX, a UUID, or the first "
                       "characters of a UUID. Only administrators may enable devices.",
        .options = socket_options,
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = enable_command,
    },
    {
        .name = "events",
        .operands = "[WORKLOAD]",
        .summary = "list events",
        .description =
            "Prints the last 100 events, or all stored events of WORKLOAD. Every event has a "
            "revision. After an interruption, --follow resumes at the last revision printed.",
        .options = events_options,
        .completes = "ids",
        .operands_most = 1,
        .run = events_command,
    },
    {
        .name = "token",
        .operands = "create | list | revoke ID…",
        .summary = "create, list and revoke tokens for users and nodes on the network",
        .description =
            "'create' prints a new token, which is never shown again. For a node, 'create' prints "
            "the command with which the node joins. 'list' shows the valid tokens without their "
            "secrets. 'revoke' makes tokens invalid, and ends open streams (--follow) that use "
            "these tokens. Only administrators may use this command.\n\n"
            "A client reads its token from GPUMUX_TOKEN, or from ~/.config/gpumux/token, which "
            "only its owner may read. GPUMUX_URL is the address of gpumux. GPUMUX_CA is the "
            "certificate authority that the client trusts at this address.",
        .options = token_options,
        .examples = EXAMPLES(
            {"gpumux token create --role user --account ada", "admit Ada for 90 days"},
            {"gpumux token create --role viewer --account prometheus --ttl 365d",
             "let Prometheus read metrics for a year"},
            {"gpumux token create --role node", "print the command with which a node joins"},
            {"gpumux token revoke 3", "make token 3 invalid"}),
        .completes = "create list revoke",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = token_command,
    },
    {
        .name = "config",
        .operands = "default | check FILE",
        .summary = "print the default configuration, or check a file",
        .description = "'default' prints every key with its default and its meaning. 'check' "
                       "prints the first error in FILE, or that FILE is valid.",
        .options = no_options,
        .completes = "default check",
        .operands_least = 1,
        .operands_most = 2,
        .run = config_command,
    },
    {
        .name = "state",
        .operands = "check | export | backup FILE",
        .summary = "check, export or back up the stored state",
        .description =
            "Reads the state directory itself, whether gpumux is up or not. 'check' verifies the "
            "whole state. 'export' prints every workload and event, one JSON object per line.\n\n"
            "'backup' writes a consistent copy of the state to FILE. Only the owner of FILE may "
            "read it, because descriptions contain users' environments. gpumux syncs, reads back "
            "and verifies the copy before renaming the copy to FILE. A backup that fails leaves an "
            "existing FILE unchanged.",
        .options = state_options,
        .examples = EXAMPLES({"gpumux state backup --overwrite /var/backups/gpumux.db",
                              "replace the last backup of this machine's state"}),
        .completes = "check export backup",
        .operands_least = 1,
        .operands_most = 2,
        .run = state_command,
    },
    {
        .name = "sim",
        .operands = "",
        .summary = "compare policies on a simulated cluster",
        .description =
            "Runs policies on simulated nodes, with the code that runs a real cluster, and "
            "compares the results. The speeds of tasks that share a device were measured on an "
            "H200. A model predicts the speeds of combinations that were not measured. Speeds of "
            "other GPU models are scaled by SMs and bandwidth, and marked as extrapolated.\n\n"
            "The same seed produces the same output, byte for byte, with any number of threads. To "
            "continue an interrupted campaign with --out, repeat the command.",
        .options = sim_options,
        .examples = EXAMPLES({"gpumux sim --policy exclusive,firstfit --load 2",
                              "run 300 tasks at twice the load of 20 devices"},
                             {"gpumux sim --trace philly --jobs 2000 --nodes 50x8xA100 --load 0.9",
                              "run part of the Philly trace"},
                             {"gpumux sim --validate h200_train_pairs.csv",
                              "print the errors of the contention model"}),
        .run = sim_command,
    },
    {
        .name = "load",
        .operands = "TARGET",
        .summary = "send requests to a service at a given rate, and measure its latency",
        .description =
            "Sends HTTP requests to TARGET: http://HOST[:PORT][/PATH], HOST:PORT[/PATH] or "
            "unix:SOCKET[:/PATH]. The requests are due at random times with the given rate, also "
            "while the service is slow or stalls (open loop). The latency of a request counts from "
            "the time at which it was due, including the wait for a connection.\n\n"
            "The table lists latency, wait (from due to sent) and lag (the delay of the generator "
            "itself, which is part of both). A request is late if it was sent more than 1 ms after "
            "it was due. A status other than 2xx is a failure, and a failed request misses every "
            "target of --slo. Ctrl-C ends the run and prints the results so far.",
        .options = load_options,
        .examples = EXAMPLES(
            {"gpumux load http://localhost:8000/ --rate 150/s --slo 'p99<=20ms'",
             "send 150 requests per second for 10 seconds"},
            {"gpumux load localhost:8000 -r 150 --oip resnet50 --tensor x:FP32:1x3x224x224",
             "measure an inference server"},
            {"gpumux load localhost:8000 -r 50 -a trace:rates.csv:middle --speed 600",
             "play a trace 600 times as fast, scaled to a mean of 50 per second"}),
        .exits = "1    a target of --slo was missed, or no request was answered with status 2xx\n"
                 "5    the first connection could not be opened; no request was sent\n",
        .operands_least = 1,
        .operands_most = 1,
        .run = load_command,
    },
    {
        .name = "doctor",
        .operands = "",
        .summary = "check what gpumux needs on this machine",
        .description = "Checks the driver, NVML, CUDA, MPS, cgroups, the state directory, the "
                       "clock and limits. Each line says ok, warn (gpumux works, with "
                       "restrictions) or fail, and names the command that fixes the problem.",
        .options = doctor_options,
        .exits = "1    a check failed\n",
        .run = doctor_command,
    },
    {
        .name = "control",
        .operands = "[init]",
        .summary = "start control, which queues and places workloads",
        .description = "Starts control without a node: the store, the policy, the API, and a "
                       "socket for the nodes of this machine. With --listen, control also opens a "
                       "port for nodes and clients of other machines.\n\n"
                       "'init' prepares a cluster, once. 'init' creates a certificate authority "
                       "and control's certificate in the state directory, and prints the command "
                       "with which the first node joins. 'init' starts no daemon.",
        .options = control_options,
        .examples = EXAMPLES(
            {"gpumux control init --url https://gpu-control.example:7443", "prepare a cluster"},
            {"gpumux control --listen 0.0.0.0:7443", "start control of the cluster"}),
        .completes = "init",
        .operands_most = 1,
        .run = control_command,
    },
    {
        .name = "node",
        .operands = "",
        .summary = "start a node, which runs workloads",
        .description =
            "Starts a node, which connects to control and runs workloads on this machine. "
            "Workloads keep running while the node is down. A restarted node adopts its "
            "workloads.\n\n"
            "Without --control, the node connects to control on this machine. With --control, the "
            "node must join once, with the command that 'gpumux control init' or 'gpumux token "
            "create --role node' prints. Later starts need only --control. The node renews its "
            "certificate by itself.",
        .options = node_options,
        .examples = EXAMPLES({"gpumux node --control https://gpu-control.example:7443",
                              "start a node that has joined before"}),
        .run = node_command,
    },
    {
        .name = "help",
        .operands = "[COMMAND]",
        .summary = "list the commands, or show the help of one command",
        .description = "Lists the commands, or prints the help of COMMAND.",
        .options = no_options,
        .completes = "commands",
        .operands_most = 1,
        .run = help_command,
    },
    {
        .name = "version",
        .operands = "",
        .summary = "print the version",
        .description = "Prints the version of gpumux.",
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
            EXAMPLES({"source <(gpumux completion bash)", "enable completion in this shell"}),
        .completes = "bash zsh fish",
        .operands_least = 1,
        .operands_most = 1,
        .run = completion_command,
    },
    {
        .name = "man",
        .operands = "[COMMAND]",
        .summary = "print a man page",
        .description = "Prints the man page of gpumux or of COMMAND. The build uses this command.",
        .options = man_options,
        .hidden = true,
        .operands_most = 1,
        .run = man_command,
    },
#include "cli/commands_hidden.def"
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

/* Command names of other tools. The nearest name here may mean something else. */
static const char *command_called(const char *name)
{
    static const struct {
        const char *name, *command;
    } synonyms[] = {{"kill", "cancel"},   {"stop", "cancel"},    {"rm", "cancel"},
                    {"delete", "cancel"}, {"list", "ps"},        {"ls", "ps"},
                    {"status", "ps"},     {"queue", "ps"},       {"show", "describe"},
                    {"info", "describe"}, {"start", "up"},       {"exec", "run"},
                    {"log", "logs"},      {"restart", "requeue"}};
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++)
        if (strcmp(synonyms[i].name, name) == 0)
            return synonyms[i].command;
    return NULL;
}

const char *command_nearest(const char *name)
{
    const char *called = command_called(name);
    if (called)
        return called;
    /* Two typos in three letters make another word. */
    size_t distance_max = strlen(name) > 3 ? 2 : 1;
    const char *nearest = NULL;
    size_t best = distance_max + 1;
    for (const struct command *c = commands; c->name; c++) {
        size_t distance = str_distance(name, c->name, distance_max + 1);
        if (distance < best && !c->hidden) {
            best = distance;
            nearest = c->name;
        }
    }
    return nearest;
}
