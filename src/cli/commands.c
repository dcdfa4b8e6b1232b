/* The table of commands. command.h says what the members mean. */
#include "cli/command.h"

#include <string.h>

#include "base/str.h"
#include "cli/change/access.h"
#include "cli/change/changing.h"
#include "cli/command_options.h"
#include "cli/daemon/daemons.h"
#include "cli/frame/help.h"
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
    {"url", 0, "URL", "init: where nodes and clients will find control, https://HOST:PORT", NULL},
    OPTIONS_END};
static const struct option node_options[] = {JOIN_OPTIONS, DEVICE_OPTIONS, DAEMON_OPTIONS,
                                             NODE_SOCKET_OPTION, OPTIONS_END};
static const struct option submit_options[] = {
    SPEC_OPTIONS,
    {"array", 'a', "N", "N copies: NAME[0] …, each with its GPUMUX_ARRAY_INDEX", "array"},
    {"dry-run", 0, NULL, "submit nothing: say where it would run now, or why it would wait", NULL},
    {"key", 0, "KEY", "the same key never submits twice; one is made if not given", NULL},
    OUTPUT_OPTION,
    QUIET_OPTION("print ids only"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option run_options[] = {
    SPEC_OPTIONS,
    {"no-stdin", 0, NULL, "do not forward standard input", NULL},
    QUIET_OPTION("say nothing about waiting and ending"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option ps_options[] = {
    {"all", 'a', NULL, "all that are kept, not only live and the 20 that ended last", NULL},
    {"state", 0, "STATE,…", "only in these states", NULL},
    {"kind", 'k', "task|service", "only of this kind", NULL},
    {"user", 'u', "NAME", "only this user's", NULL},
    {"name", 'n', "NAME", "only of this name", NULL},
    OUTPUT_OPTION,
    QUIET_OPTION("print ids only"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option describe_options[] = {OUTPUT_OPTION, CONNECTION_OPTIONS, OPTIONS_END};
static const struct option logs_options[] = {
    {"follow", 'f', NULL, "go on until the attempt has ended", NULL},
    {"tail", 'n', "N", "the last N lines of what there is", NULL},
    {"attempt", 0, "N", "this attempt's, instead of the last one's", NULL},
    {"timestamps", 't', NULL, "begin every line with its time", NULL},
    {"stdout", 0, NULL, "only what came from standard output", NULL},
    {"stderr", 0, NULL, "only what came from standard error", NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option cancel_options[] = {
    {"grace", 0, "TIME", "between SIGTERM and SIGKILL; 0s kills at once", NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option socket_options[] = {CONNECTION_OPTIONS, OPTIONS_END};
static const struct option wait_options[] = {
    {"timeout", 0, "TIME", "give up after this, such as 10m", NULL},
    QUIET_OPTION("do not say how each ended"),
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option top_options[] = {
    {"once", 0, NULL, "print one frame as plain text", NULL},
    {"interval", 'i', "TIME", "between two looks (default 1s)", NULL},
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option nodes_options[] = {OUTPUT_OPTION, QUIET_OPTION("print names only"),
                                              CONNECTION_OPTIONS, OPTIONS_END};
static const struct option events_options[] = {
    {"follow", 'f', NULL, "go on with what happens from now on", NULL},
    {"since", 0, "REVISION", "those after this revision; 0: all that are kept", NULL},
    OUTPUT_OPTION,
    CONNECTION_OPTIONS,
    OPTIONS_END};
static const struct option state_options[] = {
    STATE_OPTION, {"overwrite", 0, NULL, "backup: replace FILE if it exists", NULL}, OPTIONS_END};
static const struct option man_options[] = {
    {"all", 0, "DIR", "write every page into this directory", NULL}, OPTIONS_END};
static const struct option doctor_options[] = {STATE_OPTION, CONNECTION_OPTIONS, OPTIONS_END};

static const struct option sim_options[] = {
    {"trace", 0, "FILE",
     "who comes when: a table, '-' is standard input; or philly, tasks-300 (default), poisson, "
     "bursty, diurnal",
     NULL},
    {"nodes", 0, "NxMxMODEL[:MEM]",
     "N nodes of M devices, such as 5x4xH200:24g (default); several "
     "separated by commas; models H200, H100, B200, A100, A10, L4, V100, T4, RTX4090, RTX3090",
     NULL},
    {"policy", 0, "POLICY,…", "policies to compare, or all; POLICY-PART: without that part of it",
     NULL},
    {"without", 0, "PART,…",
     "all policies without these parts: tuner, predictor, optimizer, matching, gate", NULL},
    {"ablate", 0, "PART,…",
     "every policy also without each of these parts, and without all of them: what each is worth",
     NULL},
    {"jobs", 0, "N", "the first N of the trace, which begins again after its end", NULL},
    {"rate", 0, "X,…", "arrivals so many times as fast as in the trace (default 1)", NULL},
    {"load", 0, "X,…",
     "instead: arrivals so fast that X times the devices would be busy, if nobody shared", NULL},
    {"mix", 0, "MODEL[:BATCH]=WEIGHT,…",
     "which models come how often, where the trace does not say", NULL},
    {"services", 0, "N", "N services with SLOs are there before the tasks come, and stay", NULL},
    {"faults", 0, "X", "GPU faults a device and day, on average (default 0)", NULL},
    {"outages", 0, "X", "times a node and day, on average, that it falls silent (default 0)", NULL},
    {"outage-minutes", 0, "X", "until it is back, on average (default 10)", NULL},
    {"seed", 0, "N", "of everything random (default 1)", NULL},
    {"seeds", 0, "N", "N runs of the same trace with the seeds that follow, and their means", NULL},
    {"noise", 0, "X", "of slow-downs, about this part of them (default 0.05)", NULL},
    {"estimate-error", 0, "X", "of the durations that tasks say of themselves (default 0.3)", NULL},
    {"max-neighbours", 0, "N", "workloads on one device (default 4)", NULL},
    {"threads", 0, "N", "runs at a time (default: one a core)", NULL},
    {"out", 0, "DIR",
     "write report.html there, keep every workload, course and device as CSV, and resume from it",
     NULL},
    {"json", 0, NULL, "print JSON instead of a table", NULL},
    {"explain", 0, "N",
     "print what the first policy thinks of every class of devices when workload N comes", NULL},
    {"validate", 0, "TABLE",
     "simulate nothing: how far the model of contention is from measured pairs", NULL},
    OPTIONS_END};
static const struct option token_options[] = {
    {"role", 0, "viewer|user|admin|node",
     "viewer reads; user submits, and changes what is its account's; admin does everything; node "
     "lets one node join, once",
     NULL},
    {"account", 0, "NAME", "whom it acts for: its workloads run as this account of the node", NULL},
    {"name", 0, "NODE", "of a node: the only name with which it may join", NULL},
    {"ttl", 0, "TIME", "how long it is good, such as 12h (default 90d, of a node 1d)", NULL},
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
            "Starts everything that one machine needs, control and node, in one process that stays "
            "in the foreground and logs to standard error. Its devices are the GPUs that NVML "
            "finds, or emulated ones.\n\n"
            "It may be stopped (Ctrl-C, SIGTERM) or die at any moment: workloads run on under "
            "their supervisors, and the next 'gpumux up' with the same state directory takes them "
            "up again. Without root it serves its own user.\n\n"
            "Emulated devices live as long as the machine is up: the same --emulate finds the same "
            "devices again.",
        .options = up_options,
        .examples =
            EXAMPLES({"gpumux up", "share this machine's GPUs"},
                     {"gpumux up --emulate 4xH200:24g", "try it with four emulated GPUs of 24 GiB"},
                     {"gpumux up --policy exclusive --set keep_finished=7d",
                      "one workload a device; forget finished ones after a week"}),
        .run = up_command,
    },
    {
        .name = "submit",
        .operands = "[FILE] [-- COMMAND…]",
        .summary = "queue workloads and print their ids",
        .description =
            "Submits the workloads that FILE describes (YAML or JSON, one or many; '-' is standard "
            "input), or the command after '--'. Flags are put over a file's one workload. "
            "Directory and environment are your own where nothing else is said.\n\n"
            "A submission is taken once: if the answer is lost because gpumux is restarted, it is "
            "sent again under the same key for up to 10 seconds. After a second without an answer "
            "one line on standard error says until when the command waits.",
        .options = submit_options,
        .examples = EXAMPLES(
            {"gpumux submit --quota 8g --share 50 -- python train.py", "half a device, 8 GiB"},
            {"gpumux submit sweep.yaml --dry-run", "where would it run now?"},
            {"gpumux submit --array 10 --after prepare -- sh step.sh", "ten, after 'prepare'"}),
        .exits = "6    with --dry-run: one of them would never start here\n",
        .completes = "files",
        .operands_most = 1,
        .run = submit_command,
    },
    {
        .name = "run",
        .operands = "[--] COMMAND [ARGUMENT…]",
        .summary = "run a command as a workload and wait for it",
        .description =
            "Submits the command, prints its output as it comes (standard output and error apart, "
            "byte for byte), and exits with its exit code. Options come before the command.\n\n"
            "Standard input is forwarded unless it is /dev/null, closed, or the terminal of "
            "another job; a second attempt gets none of it. SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 "
            "are forwarded. The first Ctrl-C cancels the workload, the second kills it, a third "
            "leaves it to itself. A restart of gpumux in the middle changes nothing; after a "
            "second "
            "without an answer one line on standard error says so.",
        .options = run_options,
        .examples = EXAMPLES({"gpumux run -- env", "what does a workload see?"},
                             {"gpumux run -m 4g python train.py --epochs 3", "in 4 GiB"}),
        .exits = "N    the command's own exit code; 128+N if signal N ended it\n"
                 "127  the command could not be started\n"
                 "130  it was cancelled before it ran\n"
                 "1-5  of gpumux itself, as below: with --quiet only then a line 'gpumux: …' is on "
                 "standard error\n",
        .stops_at_operand = true,
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = run_command,
    },
    {
        .name = "ps",
        .operands = "",
        .summary = "list workloads",
        .description =
            "Lists everybody's live workloads, newest first, then those that ended last. "
            "The first columns of the table stay as they are in later versions.",
        .options = ps_options,
        .examples = EXAMPLES({"gpumux ps -o wide", "with quota, share and command"},
                             {"gpumux ps --state failed -q", "ids of all that failed"}),
        .run = ps_command,
    },
    {
        .name = "describe",
        .operands = "WORKLOAD…",
        .summary = "tell everything about workloads",
        .description = "Shows state, reason, needs, use and attempts. A WORKLOAD, here and "
                       "everywhere, is an id, or a name: the newest workload of that name, or "
                       "all of the newest array.",
        .options = describe_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = describe_command,
    },
    {
        .name = "explain",
        .operands = "WORKLOAD…",
        .summary = "tell why workloads go where they go, or wait",
        .description =
            "Shows what the policy thinks of every device for a workload now, the best first; "
            "devices "
            "that are alike stand in one line. Speed and PD (time per unit of progress, against "
            "running alone) are its own there, gain is its speed less what its neighbours would "
            "lose, P99 is that of the service there that is nearest to its SLO. One that runs is "
            "looked at as if it came anew.",
        .options = describe_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = explain_command,
    },
    {
        .name = "logs",
        .operands = "WORKLOAD",
        .summary = "print a workload's output",
        .description = "Prints what the last attempt wrote, standard output to standard output and "
                       "standard error to standard error.",
        .options = logs_options,
        .examples =
            EXAMPLES({"gpumux logs -f -n 20 17", "the last 20 lines of 17, then all until it ends"},
                     {"gpumux logs --attempt 1 --stderr train", "why the first one failed"}),
        .completes = "ids",
        .operands_least = 1,
        .operands_most = 1,
        .run = logs_command,
    },
    {
        .name = "cancel",
        .operands = "WORKLOAD…",
        .summary = "end workloads for good",
        .description = "Ends workloads: SIGTERM, and after the grace period SIGKILL. What waits is "
                       "taken from the queue.",
        .options = cancel_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = cancel_command,
    },
    {
        .name = "requeue",
        .operands = "WORKLOAD…",
        .summary = "stop workloads and put them back into the queue",
        .description = "Ends the attempt that runs and opens a new one when there is room. It does "
                       "not count as a failure.",
        .options = socket_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = requeue_command,
    },
    {
        .name = "suspend",
        .operands = "TASK…",
        .summary = "move tasks off their devices, into the memory of their hosts",
        .description = "Moves a task's device memory to its host's and lets it stand still; its "
                       "devices are free for others meanwhile. Waits until that is done, which "
                       "takes a second for some GiB. Not for clients of MPS: what cannot be "
                       "suspended runs on.",
        .options = socket_options,
        .examples = EXAMPLES({"gpumux suspend train", "make room"},
                             {"gpumux resume train", "go on from there, when there is room"}),
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = suspend_command,
    },
    {
        .name = "resume",
        .operands = "TASK…",
        .summary = "bring suspended tasks back to their devices",
        .description = "Moves the memory of suspended tasks back as soon as their devices have "
                       "room for them; ps says what they wait for.",
        .options = socket_options,
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = resume_command,
    },
    {
        .name = "wait",
        .operands = "WORKLOAD…",
        .summary = "wait until workloads have ended",
        .description = "Waits for all of them and prints how each ended.",
        .options = wait_options,
        .examples = EXAMPLES({"gpumux wait $(gpumux submit sweep.yaml)", "submit and wait"}),
        .exits = "0    all have succeeded\n"
                 "1    some have not, or something else failed\n"
                 "124  not all have ended in time (--timeout)\n",
        .completes = "ids",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = wait_command,
    },
    {
        .name = "top",
        .operands = "",
        .summary = "watch devices and workloads live",
        .description = "Shows devices with their load, memory and power, and live workloads. "
                       "q quits; s, m and c sort by state, device memory and CPU; the arrows "
                       "scroll.",
        .options = top_options,
        .run = top_command,
    },
    {
        .name = "nodes",
        .operands = "",
        .summary = "list nodes and their devices",
        .description = "One line a device: its memory and load, and what is booked on it.",
        .options = nodes_options,
        .run = nodes_command,
    },
    {
        .name = "drain",
        .operands = "NODE…",
        .summary = "place nothing more on nodes",
        .description = "What runs there runs to its end. For administrators.",
        .options = socket_options,
        .completes = "nodes",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = drain_command,
    },
    {
        .name = "undrain",
        .operands = "NODE…",
        .summary = "use drained nodes again",
        .description = "Takes back a drain. For administrators.",
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
        .description = "What runs there is ended, with its grace period, and queued again; nothing "
                       "new comes until the device is enabled. DEVICE is NODE:INDEX, or a UUID or "
                       "its beginning. For administrators.",
        .options = socket_options,
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = disable_command,
    },
    {
        .name = "enable",
        .operands = "DEVICE…",
        .summary = "use devices again that were disabled",
        .description = "By an operator, or because the device reported an error that ends its use. "
                       "DEVICE is NODE:INDEX, or a UUID or its beginning. For administrators.",
        .options = socket_options,
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = enable_command,
    },
    {
        .name = "events",
        .operands = "[WORKLOAD]",
        .summary = "tell what happened",
        .description = "Prints the last 100 events, or all that are kept of one workload. Every "
                       "event has a revision; following resumes there after any interruption.",
        .options = events_options,
        .completes = "ids",
        .operands_most = 1,
        .run = events_command,
    },
    {
        .name = "token",
        .operands = "create | list | revoke ID…",
        .summary = "let somebody in over the network, or a node join",
        .description =
            "'create' makes a token and prints it, this once; for a node it prints the command "
            "with "
            "which the node joins. 'list' shows those that are good, without their secret. "
            "'revoke' "
            "refuses some from now on, and ends what follows or watches with them. For "
            "administrators.\n\n"
            "A client has its token in GPUMUX_TOKEN, or in ~/.config/gpumux/token, which only its "
            "owner may read; GPUMUX_URL says where gpumux is, GPUMUX_CA whom to trust there.",
        .options = token_options,
        .examples = EXAMPLES(
            {"gpumux token create --role user --account ada", "for Ada, for 90 days"},
            {"gpumux token create --role viewer --account prometheus --ttl 365d", "for metrics"},
            {"gpumux token create --role node", "the command with which another node joins"},
            {"gpumux token revoke 3", "refuse a token from now on"}),
        .completes = "create list revoke",
        .operands_least = 1,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = token_command,
    },
    {
        .name = "config",
        .operands = "default | check FILE",
        .summary = "print the default configuration, or check a file",
        .description = "'default' prints every key with its default and what it means; 'check' "
                       "says whether a file is right, and if not, where.",
        .options = no_options,
        .completes = "default check",
        .operands_least = 1,
        .operands_most = 2,
        .run = config_command,
    },
    {
        .name = "state",
        .operands = "check | export | backup FILE",
        .summary = "check the stored state, print it as JSON lines, or copy it",
        .description =
            "Reads the state directory itself, whether gpumux is up or not. 'check' reads all of "
            "it and says whether it is sound; 'export' prints every workload and event, one JSON "
            "object a line.\n\n"
            "'backup' copies the state as of one moment to FILE, which only its owner may read: "
            "descriptions hold users' environments. The copy is synced, read back and verified "
            "before it appears as FILE; a backup that fails leaves FILE as it was.",
        .options = state_options,
        .examples = EXAMPLES({"gpumux state backup --overwrite /var/backups/gpumux.db",
                              "copy the machine's state, over the last copy"}),
        .completes = "check export backup",
        .operands_least = 1,
        .operands_most = 2,
        .run = state_command,
    },
    {
        .name = "sim",
        .operands = "",
        .summary = "try policies on a cluster that is not there",
        .description =
            "Runs policies, with the code that runs a real cluster, on nodes that are only played, "
            "and "
            "compares them. How fast tasks are beside each other was measured on an H200, where it "
            "was; "
            "else it comes from a model that was fitted to that. Devices of other models are "
            "scaled "
            "by SMs and bandwidth, and called extrapolated.\n\n"
            "The same seed gives the same bytes, whatever the number of threads. A run that was "
            "stopped goes on with the same command, if it has --out.",
        .options = sim_options,
        .examples = EXAMPLES(
            {"gpumux sim --policy exclusive,firstfit --load 2", "300 tasks for twice 20 devices"},
            {"gpumux sim --trace philly --jobs 2000 --nodes 50x8xA100 --load 0.9",
             "part of Philly"},
            {"gpumux sim --validate h200_train_pairs.csv", "how good is the model?"}),
        .run = sim_command,
    },
    {
        .name = "doctor",
        .operands = "",
        .summary = "check what gpumux needs on this machine",
        .description =
            "Checks driver, NVML, CUDA, MPS, cgroups, state directory, clock and limits. "
            "Each line is ok, warn (gpumux works, with less) or fail, with the command "
            "that mends it.",
        .options = doctor_options,
        .exits = "1    some check failed\n",
        .run = doctor_command,
    },
    {
        .name = "control",
        .operands = "[init]",
        .summary = "start only the part that queues and places workloads",
        .description =
            "Starts control without a node of its own: the store, the policy, the API, and a "
            "socket to which nodes of this machine connect; with --listen also a port for nodes "
            "and clients of others.\n\n"
            "'init' prepares a cluster, once: it makes a certificate authority and control's own "
            "certificate in the state directory, and prints the command with which a first node "
            "joins. It starts nothing.",
        .options = control_options,
        .examples = EXAMPLES(
            {"gpumux control init --url https://gpu-control.example:7443", "prepare a cluster"},
            {"gpumux control --listen 0.0.0.0:7443", "start its control"}),
        .completes = "init",
        .operands_most = 1,
        .run = control_command,
    },
    {
        .name = "node",
        .operands = "",
        .summary = "start only the part that runs workloads here",
        .description =
            "Starts a node: it connects to control, and starts, watches and ends workloads as it "
            "is told. What runs outlives it.\n\n"
            "Control is on this machine (the socket in the state directory), or, with --control, "
            "on another. There a node joins once, with the command that 'gpumux control init' or "
            "'gpumux token create --role node' prints; from then on --control is enough. Its "
            "certificate is renewed by itself.",
        .options = node_options,
        .examples = EXAMPLES({"gpumux node --control https://gpu-control.example:7443",
                              "start a node that has joined"}),
        .run = node_command,
    },
    {
        .name = "help",
        .operands = "[COMMAND]",
        .summary = "list the commands, or tell more of one",
        .description = "Lists the commands, or prints the help text of one.",
        .options = no_options,
        .completes = "commands",
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
        .examples = EXAMPLES({"source <(gpumux completion bash)", "complete in this shell"}),
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
        .options = man_options,
        .hidden = true,
        .operands_most = 1,
        .run = man_command,
    },
    {
        .name = "supervise",
        .operands = "ATTEMPT",
        .summary = "run one attempt of a workload",
        .description = "The supervisor of one attempt, started by a node in its directory.",
        .options = no_options,
        .hidden = true,
        .operands_least = 1,
        .operands_most = 1,
        .run = supervise_command,
    },
    {
        .name = "checkpoint",
        .operands = "off|back LOCK [PID…]",
        .summary = "move the device memory of processes to the host's, or back",
        .description = "Started by a node to suspend and resume tasks. Prints done, or why not.",
        .options = no_options,
        .hidden = true,
        .operands_least = 2,
        .operands_most = COMMAND_OPERANDS_ANY,
        .run = checkpoint_command,
    },
    {
        .name = "self-test",
        .operands = "",
        .summary = "use the first visible device once",
        .description = "Whether a device is of use; started by a node for one that was repaired. "
                       "Prints nothing; its exit status is 0 if it is.",
        .options = no_options,
        .hidden = true,
        .run = self_test_command,
    },
    {
        .name = "mps-guard",
        .operands = "STATE PROGRAM EMULATION LIBRARIES",
        .summary = "end MPS daemons that no attempt needs",
        .description =
            "Started by a node, and outlives it: when the node has ended, waits until no "
            "attempt needs an MPS daemon of its, and ends the daemon.",
        .options = no_options,
        .hidden = true,
        .operands_least = 4,
        .operands_most = 4,
        .run = mps_guard_command,
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

/* What other tools call it, and near to a command that does something else. */
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
    /* Two wrong letters of three make another word. */
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
