/*
 * The daemons: options, configuration, log and loop for control/ and node/, which do the work.
 * Workloads survive the end of a daemon.
 */
#include "cli/daemon/daemons.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"
#include "base/str.h"
#include "base/version.h"
#include "cli/daemon/emulation.h"
#include "cli/connect/paths.h"
#include "control/control.h"
#include "node/agent.h"
#include "node/checkpoint/checkpoint.h"
#include "node/link/join.h"
#include "node/device/self_test.h"
#include "node/mps/mps_guard.h"
#include "node/supervisor/supervisor.h"
#include "proxy/proxy.h"
#include "tls/fingerprint.h"
#include "wire/address.h"

enum { ARENA_BYTES = 4 << 20, STOP_SIGNALS = 3, JOIN_MS = 30000 };

struct daemon {
    struct arena arena;
    struct config config;
    struct log log;
    struct notifier notifier;
    bool ready; /* the service manager knows */
    struct event_base *base;
    struct event *signals[STOP_SIGNALS];
    const char *state, *api_socket, *node_socket;
    struct address listen;          /* port "": not on the network */
    struct address control_address; /* of a node; port "": on this machine, over the unix socket */
    struct control *control;
    struct agent *agent;
    bool emulated; /* emulated devices, which nvidia-smi does not show */
};

/* ---- service manager ---- */

/* state: "READY=1" or another line of the protocol; NULL: only the status. */
static void tell_manager(struct daemon *d, const char *state, const char *status)
{
    struct error e = {0};
    if (notify_send(&e, &d->notifier, "%s%sSTATUS=%s", state ? state : "", state ? "\n" : "",
                    status) < 0)
        log_write(&d->log, LOG_WARN, "service manager notification failed", "error=\"%s\"", e.text);
}

static void tell_ready(struct daemon *d, const char *status)
{
    tell_manager(d, d->ready ? NULL : "READY=1", status);
    d->ready = true;
}

static void on_link(void *arg, bool joined)
{
    struct daemon *d = arg;
    if (joined)
        tell_ready(d, "joined control");
    else
        tell_manager(d, NULL,
                     "control cannot be reached; tasks keep running until their lease expires");
}

/* A daemon with both parts is ready once its node has joined. A node alone is ready as soon as it
 * watches its workloads, because control may be away for longer than a start may take. */
static void tell_started(struct daemon *d)
{
    if (d->control && d->agent)
        tell_manager(d, NULL, "the API listens, the node is joining");
    else
        tell_ready(d, d->control ? "the API listens" : "connecting to control");
}

static void stop(int signal_number, short what, void *arg)
{
    (void)what;
    struct daemon *d = arg;
    log_write(&d->log, LOG_INFO, "stop requested", "signal=%s", sigabbrev_np(signal_number));
    tell_manager(d, "STOPPING=1", "stopping; workloads keep running");
    event_base_loopbreak(d->base);
}

static int catch_signals(struct error *e, struct daemon *d)
{
    static const int numbers[STOP_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        d->signals[i] = evsignal_new(d->base, numbers[i], stop, d);
        if (!d->signals[i] || event_add(d->signals[i], NULL) < 0)
            return error_set(e, ERR_NO_MEMORY, "cannot catch signals");
    }
    return 0;
}

/* A key that only the other daemon reads would have no effect. */
static int check_reader(struct error *e, const struct invocation *in, const char *key)
{
    bool is_node = in->command->run == node_command,
         is_control = in->command->run == control_command;
    if ((is_node && config_reader(key) == CONFIG_BY_CONTROL) ||
        (is_control && config_reader(key) == CONFIG_BY_NODE))
        return error_set_field(e, ERR_INVALID, key,
                               "'gpumux %s' does not read this key: give the key to 'gpumux %s'",
                               in->command->name, is_node ? "control" : "node");
    return 0;
}

/* Reads --config, then --set and options that stand for one key; later values take precedence. */
static int read_config(struct error *e, struct daemon *d, const struct invocation *in)
{
    int r = config_default(&d->arena, &d->config);
    if (r < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    const char *path = option_value(in, "config");
    if (path && (r = config_load(e, &d->arena, path, &d->config)) < 0)
        return r;
    for (size_t i = 0; i < in->given_count; i++) {
        const struct option *o = in->given[i].option;
        const char *key = NULL, *value = in->given[i].value;
        if (strcmp(o->name, "set") == 0) {
            const char *equals = strchr(value, '=');
            if (!equals)
                return error_set(e, ERR_INVALID, "--set must be KEY=VALUE, not '%s'", value);
            key = arena_strndup(&d->arena, value, (size_t)(equals - value));
            value = equals + 1;
        } else if (strcmp(o->name, "policy") == 0) {
            key = "policy";
        } else {
            continue;
        }
        if (!key)
            return error_set(e, ERR_NO_MEMORY, "out of memory");
        r = check_reader(e, in, key);
        if (r == 0)
            r = config_set(e, &d->arena, &d->config, key, value);
        if (r < 0)
            return r;
    }
    return config_check(e, &d->config);
}

/* --listen may be given twice: for the unix socket of the API and for the network. */
static int choose_listen(struct error *e, struct daemon *d, const struct invocation *in)
{
    for (size_t i = 0; i < in->given_count; i++) {
        const char *value = in->given[i].value;
        int r = 0;
        if (strcmp(in->given[i].option->name, "listen") != 0)
            continue;
        if (value[0] == '/' || str_starts_with(value, "unix:"))
            d->api_socket = value[0] == '/' ? value : value + strlen("unix:");
        else
            r = address_parse(e, value, "127.0.0.1", &d->listen);
        if (r < 0) {
            error_prefix_field(e, "--listen");
            return r;
        }
    }
    return 0;
}

static int choose_sockets(struct error *e, struct daemon *d, const struct invocation *in)
{
    const char *node = in->command->run == up_command ? NULL : option_value(in, "node-socket");
    const char *control = in->command->run == node_command ? option_value(in, "control") : NULL;
    int r = choose_listen(e, d, in);
    if (r == 0 && control && (r = address_parse_url(e, control, &d->control_address)) < 0)
        error_prefix_field(e, "--control");
    if (r == 0 && control && node)
        r = error_set(e, ERR_INVALID, "--control and --node-socket cannot be combined");
    if (r < 0)
        return r;
    if (!d->api_socket)
        d->api_socket = arena_printf(&d->arena, "%s/api.sock", d->state);
    d->node_socket = node ? node : arena_printf(&d->arena, "%s/node.sock", d->state);
    if (!d->api_socket || !d->node_socket)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

/* The loop has precise timers, because control waits for fractions of a disk's sync. */
static int make_loop(struct error *e, struct daemon *d)
{
    struct event_config *options = event_config_new();
    if (options && evthread_use_pthreads() == 0 &&
        event_config_set_flag(options, EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
        d->base = event_base_new_with_config(options);
    if (options)
        event_config_free(options);
    return d->base ? 0 : error_set(e, ERR_NO_MEMORY, "cannot create an event loop");
}

static int daemon_init(struct error *e, struct daemon *d, const struct invocation *in)
{
    *d = (struct daemon){.notifier = {.fd = -1}};
    arena_init(&d->arena, ARENA_BYTES);
    umask(022);
    int r = read_config(e, d, in);
    if (r < 0)
        return r;
    enum log_level level;
    if (!log_level_parse(d->config.log_level, &level))
        return error_set(e, ERR_INVALID, "log_level must be error, warn, info or debug, not '%s'",
                         d->config.log_level);
    log_init(&d->log, STDERR_FILENO, level, str_equal(d->config.log_format, "json"));
    struct error deaf = {0};
    if (notify_init(&deaf, &d->notifier, getenv("NOTIFY_SOCKET")) < 0)
        log_write(&d->log, LOG_WARN, "service manager connection failed", "error=\"%s\"",
                  deaf.text);
    if ((r = paths_make_state(e, &d->arena, option_value(in, "state"), &d->state)) < 0 ||
        (r = choose_sockets(e, d, in)) < 0)
        return r;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if ((r = make_loop(e, d)) < 0)
        return r;
    return catch_signals(e, d);
}

static void daemon_done(struct daemon *d)
{
    agent_free(d->agent);
    control_free(d->control);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        if (d->signals[i])
            event_free(d->signals[i]);
    if (d->base) {
        /* The loop frees a stream with a deferred callback in its next turn. */
        (void)event_base_loop(d->base, EVLOOP_NONBLOCK);
        event_base_free(d->base);
    }
    notify_done(&d->notifier);
    arena_done(&d->arena);
}

static int start_control(struct error *e, struct daemon *d)
{
    struct control_options options = {.directory = d->state,
                                      .api_socket = d->api_socket,
                                      .node_socket = d->node_socket,
                                      .listen = d->listen.port[0] ? &d->listen : NULL,
                                      .config = &d->config,
                                      .log = &d->log};
    return control_new(e, d->base, &options, &d->control);
}

/* Joining comes first, because without it the node is unknown to control. */
static int join(struct error *e, struct daemon *d, const struct invocation *in,
                const char *directory)
{
    struct join_options options = {.directory = directory,
                                   .control = &d->control_address,
                                   .token = option_value(in, "token"),
                                   .name = option_value(in, "name"),
                                   .timeout_ms = JOIN_MS};
    const char *ca = option_value(in, "ca");
    if (!d->control_address.port[0])
        return error_set(e, ERR_INVALID, "--token needs --control URL and --ca sha256:…");
    if (!ca)
        return error_set(e, ERR_INVALID,
                         "--token needs --ca sha256:…, the fingerprint that came with the token");
    if (!options.name)
        options.name = d->config.node_name;
    int r = fingerprint_parse(e, ca, &options.ca);
    if (r < 0)
        error_prefix_field(e, "--ca");
    char name[NODE_NAME_MAX];
    bool before = false;
    if (r == 0)
        r = join_cluster(e, &options, name, &before);
    if (r == 0)
        log_write(&d->log, LOG_INFO, before ? "node join skipped" : "node joined",
                  "node=%s control=%s%s", name, option_value(in, "control"),
                  before ? " reason=\"already joined\"" : "");
    return r;
}

static int start_agent(struct error *e, struct daemon *d, const struct invocation *in)
{
    bool alone = in->command->run == node_command;
    const char *directory = arena_printf(&d->arena, "%s/node", d->state);
    if (!directory)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    static const char *const of_join[] = {"ca", "name", NULL};
    if (alone && option_given(in, "token")) {
        int r = join(e, d, in, directory);
        if (r < 0)
            return r;
    }
    if (alone && !option_given(in, "token") && option_given_of(in, of_join))
        return error_set(e, ERR_INVALID, "--%s is only for joining, with --token",
                         option_given_of(in, of_join));
    const char *spec = option_value(in, "emulate");
    struct emulation emulation = {0};
    d->emulated = spec != NULL;
    if (spec) {
        int r = emulation_prepare(e, &d->arena, d->state, spec, &emulation);
        if (r < 0)
            return r;
    }
    bool networked = d->control_address.port[0];
    struct agent_options options = {
        .directory = directory,
        .control_socket = networked ? NULL : d->node_socket,
        .control_host = d->control_address.host,
        .control_port = d->control_address.port,
        .emulate = emulation.device_file,
        .emulate_libraries = emulation.libraries,
        .shim = paths_shim(&d->arena),
        .mps_control = paths_mps_control(&d->arena, d->config.mps_control, emulation.libraries),
        .config = &d->config,
        .log = &d->log,
        .on_link = on_link,
        .on_link_arg = d};
    int r = agent_new(e, d->base, &options, &d->agent);
    if (r < 0)
        return r;
    if (agent_device_count(d->agent) == 0 && !option_given(in, "without-devices"))
        return error_set(e, ERR_NO_DEVICE,
                         "NVML finds no GPU on this machine ('gpumux doctor' shows why).\n"
                         "To try gpumux with emulated GPUs: gpumux %s --emulate 4\n"
                         "To run workloads without GPUs: gpumux %s --without-devices",
                         in->command->name, in->command->name);
    return 0;
}

/* Prints a word quoted for a shell. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+,:=@%";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

static void greet(const struct daemon *d)
{
    if (d->agent)
        printf("gpumux %s is up with %zu device%s%s\n", GPUMUX_VERSION,
               agent_device_count(d->agent), agent_device_count(d->agent) == 1 ? "" : "s",
               agent_alive(d->agent) ? ", running workloads are adopted" : "");
    else
        printf("gpumux %s: control is up\n", GPUMUX_VERSION);
    if (d->control)
        printf("  API       unix:%s\n", d->api_socket);
    if (d->control && control_port(d->control))
        printf("  network   %s, port %u\n", d->listen.host, control_port(d->control));
    printf("  state     %s\n", d->state);
    struct arena scratch;
    arena_init(&scratch, 16 << 10);
    const char *found = paths_api_socket(&scratch, NULL);
    if (d->control && !str_equal(found, d->api_socket)) {
        printf("  clients   export GPUMUX_SOCKET=");
        print_word(d->api_socket);
        putchar('\n');
    }
    arena_done(&scratch);
    if (d->agent && geteuid() == 0 && !d->config.allow_root)
        printf("  root      workloads of root are refused: --set allow_root=true\n");
    if (d->control)
        printf("  try       gpumux run -- %s     gpumux top     gpumux help\n",
               d->emulated ? "env" : "nvidia-smi");
    fflush(stdout);
}

/* Returns whether the option tells where devices or control are, so that a restart needs it too. */
static bool is_place(const struct option *o)
{
    static const char *const places[] = {"emulate", "without-devices", "control", "node-socket"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(o->name, places[i]) == 0)
            return true;
    return false;
}

static void farewell(const struct daemon *d, const struct invocation *in)
{
    size_t alive = d->agent ? agent_alive(d->agent) : 0;
    if (alive == 0)
        return;
    printf("gpumux stopped; %zu workload%s on. 'gpumux %s --state %s", alive,
           alive == 1 ? " runs" : "s run", in->command->name, d->state);
    for (size_t i = 0; i < in->given_count; i++) {
        const char *value = in->given[i].value;
        if (is_place(in->given[i].option))
            printf(" --%s%s%s", in->given[i].option->name, value ? " " : "", value ? value : "");
    }
    printf("' adopts %s.\n", alive == 1 ? "the workload" : "the workloads");
    fflush(stdout);
}

/* Returns whether an option other than --config sets this key. */
static bool sets_key(const struct invocation *in, const char *key, size_t length)
{
    for (size_t i = 0; i < in->given_count; i++) {
        const char *name = in->given[i].option->name, *value = in->given[i].value;
        if (strcmp(name, "set") == 0)
            name = value;
        else if (strcmp(name, "policy") != 0)
            continue;
        if (strncmp(name, key, length) == 0 && (!name[length] || name[length] == '='))
            return true;
    }
    return false;
}

/* An invalid option, or an invalid key set by one, is wrong usage; an invalid file is not. */
static int fail(const struct invocation *in, const struct error *e)
{
    fprintf(stderr, "gpumux: %s: %s%s%s\n", in->command->name, e->field, *e->field ? ": " : "",
            e->text);
    bool is_misuse = str_starts_with(*e->field ? e->field : e->text, "--") ||
                     (*e->field && sets_key(in, e->field, strcspn(e->field, ".[")));
    return e->code == ERR_INVALID && is_misuse ? COMMAND_USAGE : COMMAND_FAILED;
}

/* with_control, with_agent: the parts of this process. */
static int run_daemon(const struct invocation *in, bool with_control, bool with_agent)
{
    struct daemon d;
    struct error e = {0};
    int r = daemon_init(&e, &d, in);
    /* Control first: its lock on the state directory keeps a second gpumux out. */
    if (r == 0 && with_control)
        r = start_control(&e, &d);
    if (r == 0 && with_agent)
        r = start_agent(&e, &d, in);
    if (r == 0) {
        greet(&d);
        tell_started(&d);
        if (event_base_dispatch(d.base) < 0)
            r = error_set(&e, ERR_INTERNAL, "the event loop failed");
        farewell(&d, in);
    }
    int status = r < 0 ? fail(in, &e) : COMMAND_OK;
    daemon_done(&d);
    return status;
}

int up_command(const struct invocation *in)
{
    return run_daemon(in, true, true);
}

int control_command(const struct invocation *in)
{
    if (in->operand_count > 0)
        return control_init_command(in);
    if (option_given(in, "url")) {
        fprintf(stderr, "gpumux: control: --url belongs to 'gpumux control init'; give control's "
                        "address with --listen\n");
        return COMMAND_USAGE;
    }
    return run_daemon(in, true, false);
}

static int join_command(const struct invocation *in)
{
    struct daemon d;
    struct error e = {0};
    int r = daemon_init(&e, &d, in);
    const char *directory = r == 0 ? arena_printf(&d.arena, "%s/node", d.state) : NULL;
    if (r == 0 && !option_given(in, "token"))
        r = error_set(&e, ERR_INVALID, "--join-only needs --token");
    else if (r == 0)
        r = directory ? join(&e, &d, in, directory) : error_set(&e, ERR_NO_MEMORY, "out of memory");
    int status = r < 0 ? fail(in, &e) : COMMAND_OK;
    daemon_done(&d);
    return status;
}

int node_command(const struct invocation *in)
{
    return option_given(in, "join-only") ? join_command(in) : run_daemon(in, false, true);
}

/* The operand is for lists of processes; the supervisor works in its current directory. */
int supervise_command(const struct invocation *in)
{
    (void)in;
    return supervisor_main(".");
}

/* The first operand is for lists of processes. */
int proxy_command(const struct invocation *in)
{
    return proxy_main(in->operands + 1, in->operand_count - 1);
}

int self_test_command(const struct invocation *in)
{
    (void)in;
    return self_test_run() == 0 ? COMMAND_OK : COMMAND_FAILED;
}

int mps_guard_command(const struct invocation *in)
{
    return mps_guard_run(in->operands) == 0 ? COMMAND_OK : COMMAND_FAILED;
}

int checkpoint_command(const struct invocation *in)
{
    bool off = strcmp(in->operands[0], "off") == 0;
    return checkpoint_run(off, in->operands[1], in->operands + 2, in->operand_count - 2) == 0
               ? COMMAND_OK
               : COMMAND_FAILED;
}
