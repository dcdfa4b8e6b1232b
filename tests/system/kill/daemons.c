#include "daemons.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16 };

int daemons_parts(const struct daemons *d)
{
    return d->apart ? 2 : 1;
}

void daemons_socket(const struct daemons *d, char path[DAEMON_PATH_MAX])
{
    snprintf(path, DAEMON_PATH_MAX, "%s/s/api.sock", d->directory);
}

/* Writes one file for both parts; each part ignores the keys of the other. */
static void write_config(const struct daemons *d, const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        _exit(126);
    for (size_t i = 0; d->settings[i]; i++) {
        int name = (int)strcspn(d->settings[i], "=");
        fprintf(file, "%.*s: %s\n", name, d->settings[i], d->settings[i] + name + 1);
    }
    if (fclose(file) != 0)
        _exit(126);
}

static void become(const struct daemons *d, int part, pid_t parent)
{
    char state[DAEMON_PATH_MAX], log[DAEMON_PATH_MAX], config[DAEMON_PATH_MAX];
    snprintf(config, sizeof config, "%s/gpumux.%d.yaml", d->directory, part);
    snprintf(state, sizeof state, "%s/s", d->directory);
    snprintf(log, sizeof log, "%s/daemon.log", d->directory);
    const char *arguments[ARGUMENTS_MAX];
    size_t count = 0;
    arguments[count++] = d->program;
    arguments[count++] = !d->apart ? "up" : part == 0 ? "control" : "node";
    arguments[count++] = "--state";
    arguments[count++] = state;
    if (!d->apart || part == 1) {
        arguments[count++] = "--emulate";
        arguments[count++] = "4xH200:24g";
    }
    arguments[count++] = "--config";
    arguments[count++] = config;
    arguments[count] = NULL;
    write_config(d, config);
    int fd = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    execv(d->program, (char *const *)arguments);
    _exit(127);
}

int daemons_start(struct daemons *d, int part)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        become(d, part, parent);
    d->pids[part] = pid;
    return 0;
}

void daemons_kill(struct daemons *d, int part)
{
    if (!d->pids[part])
        return;
    kill(d->pids[part], SIGKILL);
    while (waitpid(d->pids[part], NULL, 0) < 0 && errno == EINTR)
        ;
    d->pids[part] = 0;
}

int daemons_stop(struct daemons *d)
{
    int result = 0;
    for (int part = 0; part < daemons_parts(d); part++) {
        int status = 0;
        if (!d->pids[part])
            continue;
        kill(d->pids[part], SIGTERM);
        while (waitpid(d->pids[part], &status, 0) < 0 && errno == EINTR)
            ;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "part %d ended with wait status %#x\n", part, status);
            result = -1;
        }
        d->pids[part] = 0;
    }
    return result;
}

bool daemons_answer(const struct daemons *d)
{
    char path[DAEMON_PATH_MAX];
    daemons_socket(d, path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool answered = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return answered;
}
