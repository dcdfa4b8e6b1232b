#include "node/supervisor/companion.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "proxy/proxy.h"

enum { BACKLOG = 1024, PARKED_FD = 16, OPTION_MAX = 192, OPTIONS_MAX = 4, VARIABLES = 2 };

/* ---- ports ---- */

/* Listens on all addresses, of IPv6 and IPv4, or of IPv4 alone where the system has no IPv6. */
static int listen_on(int port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, off = 0;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, (struct sockaddr *)&any6, sizeof any6) == 0 && listen(fd, BACKLOG) == 0)
            return fd;
        int failed = errno;
        close(fd);
        errno = failed;
        if (failed != EADDRNOTAVAIL)
            return -1;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&any4, sizeof any4) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int failed = errno;
    close(fd);
    errno = failed;
    return -1;
}

/* Returns a port of the loopback address that nobody uses now; 0: none. Another program may take
 * the port before the service does: the service then fails to listen, and is started again. */
static int find_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int port = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* ---- the environment ---- */

static bool sets(const char *word, const char *name)
{
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=';
}

/* Sets PORT, by which many servers already choose their port, and GPUMUX_PORT. */
static int add_variables(struct arena *arena, struct words *environment, int port)
{
    static const char *const names[VARIABLES] = {"PORT", "GPUMUX_PORT"};
    const char **items = arena_array(arena, environment->count + VARIABLES + 1, sizeof *items);
    size_t count = 0;
    for (size_t i = 0; items && i < environment->count; i++)
        if (!sets(environment->items[i], names[0]) && !sets(environment->items[i], names[1]))
            items[count++] = environment->items[i];
    for (size_t i = 0; items && i < VARIABLES; i++)
        if (!(items[count++] = arena_printf(arena, "%s=%d", names[i], port)))
            return -ERR_NO_MEMORY;
    if (!items)
        return -ERR_NO_MEMORY;
    *environment = (struct words){.count = count, .items = items};
    return 0;
}

int companion_open(struct error *e, struct companion *c, struct arena *arena,
                   struct attempt_grant *grant)
{
    *c = (struct companion){.grant = grant, .listen_fd = -1, .start_ms = INT64_MAX};
    c->is_wanted = grant->proxy != PROXY_OFF || grant->latency_from != LATENCY_SOURCE_NONE;
    c->start_ms = c->is_wanted ? 0 : INT64_MAX;
    if (grant->proxy == PROXY_OFF)
        return 0;
    c->listen_fd = listen_on(grant->port);
    if (c->listen_fd < 0)
        return error_set_errno(e, ERR_CONFLICT, errno, "its proxy cannot listen on port %d",
                               grant->port);
    c->backend_port = grant->backend_port ? grant->backend_port : find_free_port();
    if (c->backend_port == 0)
        return error_set(e, ERR_CONFLICT, "there is no free port for the program");
    if (grant->ready == READY_PORT && grant->ready_port == grant->port)
        grant->ready_port = c->backend_port; /* the proxy listens from the start */
    if (add_variables(arena, &grant->environment, c->backend_port) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory for its environment");
    return 0;
}

/* ---- the process ---- */

/* Passes the mark, by which the agent finds the processes of a supervisor that was killed, and the
 * options of sanitizers. */
static bool is_passed(const char *word)
{
    static const char *const names[] = {"GPUMUX_MARK", "ASAN_OPTIONS", "UBSAN_OPTIONS",
                                        "TSAN_OPTIONS", "LSAN_OPTIONS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sets(word, names[i]))
            return true;
    return false;
}

enum { PASSED_MAX = 8 };

static void add_passed(char *const *words, char *passed[PASSED_MAX], size_t *count)
{
    for (; words && *words; words++)
        if (is_passed(*words) && *count + 1 < PASSED_MAX)
            passed[(*count)++] = *words;
}

struct arguments {
    char name[ATTEMPT_NAME_MAX], options[OPTIONS_MAX][OPTION_MAX];
    char *words[3 + OPTIONS_MAX + 1];
};

static void make_arguments(const struct companion *c, struct arguments *ret)
{
    const struct attempt_grant *g = c->grant;
    size_t count = 0;
    attempt_name(g->workload, g->attempt, ret->name);
    if (g->proxy != PROXY_OFF)
        snprintf(ret->options[count++], OPTION_MAX, "backend=%d", c->backend_port);
    if (g->latency_from != LATENCY_SOURCE_NONE) {
        snprintf(ret->options[count++], OPTION_MAX, "scrape=%d", g->latency_port);
        snprintf(ret->options[count++], OPTION_MAX, "from=%s",
                 latency_source_name(g->latency_from));
        if (g->latency_metric && *g->latency_metric)
            snprintf(ret->options[count++], OPTION_MAX, "metric=%s", g->latency_metric);
    }
    ret->words[0] = (char *)(uintptr_t) "gpumux";
    ret->words[1] = (char *)(uintptr_t) "proxy";
    ret->words[2] = ret->name;
    for (size_t i = 0; i < count; i++)
        ret->words[3 + i] = ret->options[i];
    ret->words[3 + count] = NULL;
}

static _Noreturn void run_child(const struct companion *c, int channel_fd, pid_t parent)
{
    struct arguments arguments;
    char *passed[PASSED_MAX] = {0};
    size_t count = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int listen_fd = c->listen_fd < 0 ? -1 : fcntl(c->listen_fd, F_DUPFD, PARKED_FD);
    int own_fd = fcntl(channel_fd, F_DUPFD, PARKED_FD);
    close(PROXY_LISTEN_FD);
    if ((listen_fd >= 0 && dup2(listen_fd, PROXY_LISTEN_FD) < 0) ||
        dup2(own_fd, PROXY_CHANNEL_FD) < 0)
        _exit(1);
    close_range(PROXY_CHANNEL_FD + 1, ~0U, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    make_arguments(c, &arguments);
    add_passed((char *const *)(uintptr_t)c->grant->environment.items, passed, &count);
    add_passed(environ, passed, &count);
    execve("/proc/self/exe", arguments.words, passed);
    _exit(127);
}

static bool start(struct companion *c, struct control_socket *control)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return false;
    pid_t parent = getpid();
    pid_t pid = control_socket_adopt(control, pair[0]) ? fork() : -1;
    if (pid == 0)
        run_child(c, pair[1], parent);
    close(pair[1]); /* without a child, the peer has ended */
    if (pid < 0)
        return false;
    c->pid = pid;
    return true;
}

void companion_step(struct companion *c, struct control_socket *control, int64_t now_ms)
{
    if (now_ms < c->start_ms)
        return;
    c->start_ms = start(c, control) ? INT64_MAX : now_ms + COMPANION_AGAIN_MS;
}

bool companion_reaped(struct companion *c, pid_t pid, int64_t now_ms)
{
    if (c->pid == 0 || pid != c->pid)
        return false;
    c->pid = 0;
    c->start_ms = c->is_wanted ? now_ms + COMPANION_AGAIN_MS : INT64_MAX;
    return true;
}

void companion_end(struct companion *c)
{
    if (c->listen_fd >= 0)
        close(c->listen_fd);
    c->listen_fd = -1;
    c->is_wanted = false;
    c->start_ms = INT64_MAX;
}
