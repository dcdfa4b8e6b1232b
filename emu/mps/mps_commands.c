/* The commands of nvidia-cuda-mps-control, with the output of the real program (driver 580). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "emu/mps/mps_daemon.h"
#include "emu/mps/mps_log.h"

enum { WORDS_MAX = 4 };

struct command {
    struct mps_daemon *daemon;
    unsigned count; /* number of words */
    char *words[WORDS_MAX];
    struct str *reply;
};

static const char *word(const struct command *c, unsigned index)
{
    return index < c->count ? c->words[index] : "";
}

static long number(const struct command *c, unsigned index)
{
    return strtol(word(c, index), NULL, 10);
}

/* Returns the server with the pid in a word, or NULL after writing an error to the reply. */
static struct mps_server *named_server(const struct command *c, unsigned index)
{
    struct mps_server *server = &c->daemon->server;
    long pid = number(c, index);
    if (server->pid != 0 && pid == (long)server->pid)
        return server;
    str_printf(c->reply, "Server %ld not found\n", pid);
    return NULL;
}

static void print_percentage(const struct command *c, const struct mps_settings *settings)
{
    str_printf(c->reply, "%.1f\n", settings->percentage / (double)MPS_PERCENTAGE_ONE);
}

static void set_percentage(const struct command *c, struct mps_settings *settings, const char *text)
{
    if (!mps_parse_percentage(text, &settings->percentage))
        mps_log(c->daemon->log, "Control", "Invalid percentage, expected between (0.0, 100.0]");
    print_percentage(c, settings);
}

static char *limit_at(struct mps_settings *settings, const char *device)
{
    char *end;
    unsigned long index = strtoul(device, &end, 10);
    return end != device && *end == '\0' && index < EMU_DEVICES_MAX ? settings->limits[index]
                                                                    : NULL;
}

static void print_limit(const struct command *c, struct mps_settings *settings, const char *device)
{
    const char *limit = limit_at(settings, device);
    if (limit && limit[0] != '\0')
        str_printf(c->reply, "%s\n", limit);
}

static void set_limit(struct mps_settings *settings, const char *device, const char *text)
{
    uint64_t bytes;
    char *limit = limit_at(settings, device);
    if (limit && (!mps_parse_bytes(text, &bytes) || !str_copy(limit, MPS_LIMIT_TEXT_MAX, text)))
        limit[0] = '\0';
}

static bool get_server_list(const struct command *c)
{
    if (c->daemon->server.pid != 0)
        str_printf(c->reply, "%d\n", (int)c->daemon->server.pid);
    return true;
}

static bool get_server_status(const struct command *c)
{
    if (c->count < 2)
        str_append(c->reply, "A server PID is required\n");
    else if (named_server(c, 1))
        mps_daemon_ask(c->daemon, "status", c->reply);
    return true;
}

static bool get_client_list(const struct command *c)
{
    if (named_server(c, 1))
        mps_daemon_ask(c->daemon, "clients", c->reply);
    return true;
}

static bool get_device_client_list(const struct command *c)
{
    if (c->count < 2 ? c->daemon->server.pid != 0 : named_server(c, 1) != NULL)
        mps_daemon_ask(c->daemon, "devices", c->reply);
    return true;
}

static bool ps(const struct command *c)
{
    if (c->daemon->server.pid == 0)
        str_append(c->reply, "Server not found\n");
    else if (!str_equal(word(c, 1), "-p") || named_server(c, 2))
        mps_daemon_ask(c->daemon, "ps", c->reply);
    return true;
}

static bool terminate_client(const struct command *c)
{
    if (!named_server(c, 1)) {
        str_printf(c->reply, "Server %ld not found!\n1\n", number(c, 1));
        return true;
    }
    char request[MPS_LINE_BYTES_MAX];
    snprintf(request, sizeof(request), "terminate %ld", number(c, 2));
    mps_daemon_ask(c->daemon, request, c->reply);
    return true;
}

static bool start_server(const struct command *c)
{
    char *end;
    unsigned long uid = strtoul(word(c, 2), &end, 10);
    if (!str_equal(word(c, 1), "-uid") || *end != '\0' || end == word(c, 2))
        str_append(c->reply, "A user ID is required\n");
    else if (c->daemon->server.pid == 0)
        mps_daemon_start_server(c->daemon, (uid_t)uid);
    return true;
}

static bool shutdown_server(const struct command *c)
{
    struct mps_server *server = named_server(c, 1);
    if (server && str_equal(word(c, 2), "-f"))
        mps_daemon_end_server(c->daemon);
    else if (server)
        server->is_leaving = true;
    return true;
}

static bool quit(const struct command *c)
{
    struct mps_daemon *daemon = c->daemon;
    daemon->is_quitting = true;
    daemon->server.is_leaving = true;
    daemon->quit_at_ms = -1;
    if (str_equal(word(c, 1), "-t")) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        daemon->quit_at_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000 + number(c, 2) * 1000;
    }
    return false;
}

static bool get_default_percentage(const struct command *c)
{
    print_percentage(c, &c->daemon->defaults);
    return true;
}

static bool set_default_percentage(const struct command *c)
{
    set_percentage(c, &c->daemon->defaults, word(c, 1));
    return true;
}

static bool get_percentage(const struct command *c)
{
    const struct mps_server *server = named_server(c, 1);
    if (server)
        print_percentage(c, &server->settings);
    return true;
}

static bool set_active_percentage(const struct command *c)
{
    struct mps_server *server = named_server(c, 1);
    if (server)
        set_percentage(c, &server->settings, word(c, 2));
    return true;
}

static bool get_default_limit(const struct command *c)
{
    print_limit(c, &c->daemon->defaults, word(c, 1));
    return true;
}

static bool set_default_limit(const struct command *c)
{
    set_limit(&c->daemon->defaults, word(c, 1), word(c, 2));
    return true;
}

static bool get_limit(const struct command *c)
{
    struct mps_server *server = named_server(c, 1);
    if (server)
        print_limit(c, &server->settings, word(c, 2));
    return true;
}

static bool set_server_limit(const struct command *c)
{
    struct mps_server *server = named_server(c, 1);
    if (server)
        set_limit(&server->settings, word(c, 2), word(c, 3));
    return true;
}

static bool get_default_priority(const struct command *c)
{
    str_printf(c->reply, "%u\n", c->daemon->defaults.priority);
    return true;
}

static bool set_default_priority(const struct command *c)
{
    if (str_equal(word(c, 1), "0") || str_equal(word(c, 1), "1"))
        c->daemon->defaults.priority = (uint32_t)(word(c, 1)[0] - '0');
    else
        str_append(c->reply, "Invalid priority value - must be 0 or 1!\n");
    return true;
}

static const struct {
    const char *name;
    bool (*run)(const struct command *c);
} commands[] = {
    {"get_server_list", get_server_list},
    {"get_server_status", get_server_status},
    {"get_client_list", get_client_list},
    {"get_device_client_list", get_device_client_list},
    {"ps", ps},
    {"terminate_client", terminate_client},
    {"start_server", start_server},
    {"shutdown_server", shutdown_server},
    {"quit", quit},
    {"get_default_active_thread_percentage", get_default_percentage},
    {"set_default_active_thread_percentage", set_default_percentage},
    {"get_active_thread_percentage", get_percentage},
    {"set_active_thread_percentage", set_active_percentage},
    {"get_default_device_pinned_mem_limit", get_default_limit},
    {"set_default_device_pinned_mem_limit", set_default_limit},
    {"get_device_pinned_mem_limit", get_limit},
    {"set_device_pinned_mem_limit", set_server_limit},
    {"get_default_client_priority", get_default_priority},
    {"set_default_client_priority", set_default_priority},
};

bool mps_command(struct mps_daemon *daemon, const char *line, struct str *reply)
{
    char text[MPS_LINE_BYTES_MAX];
    struct command c = {.daemon = daemon, .reply = reply};
    char *rest = NULL;
    str_copy(text, sizeof(text), line);
    for (char *at = strtok_r(text, " \t", &rest); at && c.count < WORDS_MAX;
         at = strtok_r(NULL, " \t", &rest))
        c.words[c.count++] = at;
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        if (str_equal(word(&c, 0), commands[i].name))
            return commands[i].run(&c);
    }
    str_printf(reply, "Unknown command \"%s\"\n", word(&c, 0));
    return true;
}
