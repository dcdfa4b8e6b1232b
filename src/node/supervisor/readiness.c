#include "node/supervisor/readiness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECT_WAIT_MS = 20 };

static bool become_ready(struct readiness *r)
{
    bool news = !r->ready;
    r->ready = true;
    r->next_ms = INT64_MAX;
    return news;
}

void readiness_start(struct readiness *r, const struct attempt_grant *grant, int64_t now_ms)
{
    *r = (struct readiness){.grant = grant, .next_ms = now_ms};
    if (!grant->service || grant->ready == READY_STARTED)
        become_ready(r);
    else if (grant->ready == READY_CLIENT)
        r->next_ms = INT64_MAX;
}

static bool port_answers(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (!answers && errno == EINPROGRESS) {
        struct pollfd waits = {.fd = fd, .events = POLLOUT};
        int failed = 0;
        socklen_t length = sizeof failed;
        answers = poll(&waits, 1, CONNECT_WAIT_MS) == 1 &&
                  getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0 && failed == 0;
    }
    close(fd);
    return answers;
}

static void start_probe(struct readiness *r, int64_t now_ms)
{
    struct task_options options = {.command = &r->grant->ready_command,
                                   .environment = &r->grant->environment,
                                   .directory = r->grant->directory,
                                   .silent = true,
                                   .cgroup_fd = -1};
    r->next_ms = now_ms + READINESS_COMMAND_EVERY_MS;
    if (task_fork(NULL, &options, &r->probe) < 0) {
        r->probe.pid = 0;
        return;
    }
    task_release(&r->probe);
    task_close(&r->probe);
    r->probe_limit_ms = now_ms + READINESS_COMMAND_LIMIT_MS;
    r->next_ms = r->probe_limit_ms;
}

bool readiness_step(struct readiness *r, int64_t now_ms)
{
    if (r->ready || now_ms < r->next_ms)
        return false;
    if (r->grant->ready == READY_PORT) {
        r->next_ms = now_ms + READINESS_PORT_EVERY_MS;
        return port_answers(r->grant->ready_port) && become_ready(r);
    }
    if (r->probe.pid == 0)
        start_probe(r, now_ms);
    else { /* the time limit has passed; the end arrives as a reaped child */
        kill(-r->probe.pid, SIGKILL);
        r->next_ms = now_ms + READINESS_COMMAND_EVERY_MS;
    }
    return false;
}

bool readiness_reaped(struct readiness *r, pid_t pid, int wait_status, int64_t now_ms)
{
    if (r->probe.pid == 0 || pid != r->probe.pid)
        return false;
    r->probe.pid = 0;
    if (r->ready)
        return false;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return become_ready(r);
    int64_t begun_ms = r->probe_limit_ms - READINESS_COMMAND_LIMIT_MS;
    r->next_ms = begun_ms + READINESS_COMMAND_EVERY_MS;
    if (r->next_ms < now_ms)
        r->next_ms = now_ms;
    return false;
}

bool readiness_told(struct readiness *r)
{
    return r->grant && r->grant->service && r->grant->ready == READY_CLIENT && become_ready(r);
}
