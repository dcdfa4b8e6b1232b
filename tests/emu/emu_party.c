#include "tests/emu/emu_party.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 64 << 20,
    PROGRAM_MS_MAX = 10000,
    TIMED_OUT = 124,
    WAIT_MS_MAX = 30000,
    STEPS_OF_PROGRESS = 3,
};

static const char *const program_names[] = {
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "gpumux-emu-fault",
};
static const char staged_variable[] = "EMU_PARTY_STAGED"; /* folder of the copies */

static void fail(const char *what)
{
    fprintf(stderr, "emu_party: %s\n", what);
    exit(1);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void allocate(const struct driver_api *api, struct party_report *report, uint64_t bytes)
{
    uint64_t address;
    while (report->allocated_bytes < bytes) {
        int r = api->cuMemAlloc_v2(&address, PIECE_BYTES);
        report->allocation_error = r;
        if (r != CUDA_SUCCESS)
            return;
        report->allocated_bytes += PIECE_BYTES;
    }
}

/* Queues the ordered work once; afterwards the client only runs kernels. */
static int follow(const struct driver_api *api, struct party_report *report)
{
    int ordered = report->ordered, r = CUDA_SUCCESS;
    switch ((enum party_order)report->order) {
    case PARTY_RUN:
        break;
    case PARTY_QUEUE:
        for (unsigned i = 0; i < report->amount && r == CUDA_SUCCESS; i++)
            r = driver_api_burn(api, NULL, 100, 0, report->kernel_us * UINT64_C(1000));
        break;
    case PARTY_ILLEGAL:
        r = api->cuLaunchKernel(api->illegal_function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        break;
    case PARTY_LEAVE:
        r = api->cuDevicePrimaryCtxRelease_v2(0);
        report->done = ordered;
        for (;;)
            pause();
    }
    report->done = ordered;
    return r;
}

static void work(struct driver_api *api, struct party_report *report, uint64_t allocate_bytes)
{
    int sms = 0;
    int r = driver_api_try_open(api);
    if (r == CUDA_SUCCESS)
        api->cuDeviceGetAttribute(&sms, CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    report->sms = sms;
    if (r == CUDA_SUCCESS)
        allocate(api, report, allocate_bytes);
    report->opened = r;
    while (r == CUDA_SUCCESS) {
        if (report->done != report->ordered)
            r = follow(api, report);
        else
            r = driver_api_burn(api, NULL, 100, 0, report->kernel_us * UINT64_C(1000));
        if (r == CUDA_SUCCESS)
            r = api->cuCtxSynchronize();
        if (r == CUDA_SUCCESS)
            report->steps++;
        else if (report->error == 0)
            report->error = r;
    }
    for (;;) {
        if (report->done != report->ordered)
            (void)follow(api, report);
        usleep(1000);
    }
}

struct party_client party_start(struct driver_api *api, unsigned kernel_us, uint64_t allocate_bytes)
{
    return party_start_as(api, getuid(), kernel_us, allocate_bytes);
}

struct party_client party_start_as(struct driver_api *api, uid_t uid, unsigned kernel_us,
                                   uint64_t allocate_bytes)
{
    struct party_report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        fail("no memory");
    report->opened = PARTY_NOT_YET;
    report->kernel_us = kernel_us;
    pid_t pid = fork();
    if (pid < 0)
        fail("no process");
    if (pid == 0) {
        if (uid != getuid() && setuid(uid) < 0)
            _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no process behind */
        work(api, report, allocate_bytes);
        _exit(0);
    }
    return (struct party_client){.pid = pid, .report = report};
}

static void pause_or_fail(int64_t start_ms, const char *what)
{
    if (now_ms() - start_ms > WAIT_MS_MAX)
        fail(what);
    usleep(1000);
}

int party_opened(const struct party_client *client)
{
    int64_t start_ms = now_ms();
    while (client->report->opened == PARTY_NOT_YET)
        pause_or_fail(start_ms, "a client does not start");
    return client->report->opened;
}

void party_order(const struct party_client *client, enum party_order order, unsigned amount,
                 unsigned kernel_us)
{
    struct party_report *report = client->report;
    int64_t start_ms = now_ms();
    report->order = (int)order;
    report->amount = amount;
    report->kernel_us = kernel_us;
    report->ordered++;
    while (report->done != report->ordered)
        pause_or_fail(start_ms, "a client does not do as it is told");
}

bool party_makes_progress(const struct party_client *client)
{
    int64_t start_ms = now_ms();
    unsigned before = client->report->steps;
    while (client->report->steps - before < STEPS_OF_PROGRESS) {
        if (client->report->error != 0)
            return false;
        pause_or_fail(start_ms, "a client makes no progress");
    }
    return true;
}

int party_error(const struct party_client *client)
{
    int64_t start_ms = now_ms();
    while (client->report->error == 0)
        pause_or_fail(start_ms, "a client gets no error");
    return client->report->error;
}

void party_end(struct party_client *client, int signal_number)
{
    if (client->pid > 0) {
        kill(client->pid, signal_number);
        waitpid(client->pid, NULL, 0);
    }
    client->pid = 0;
    munmap(client->report, sizeof(*client->report));
    client->report = NULL;
}

void party_make_directories(void)
{
    char folder[] = "/tmp/gpumux-mps.XXXXXX";
    if (!mkdtemp(folder))
        fail("mkdtemp");
    setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
    setenv("CUDA_MPS_LOG_DIRECTORY", folder, 1);
}

void party_remove_directories(void)
{
    static const char *const names[] = {"control",     "control_lock",
                                        "control.log", "server.log",
                                        "emulated",    "nvidia-cuda-mps-control.pid"};
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof(program_names) / sizeof(*program_names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, program_names[i]);
        unlink(path);
    }
    unsetenv(staged_variable);
    rmdir(folder);
}

static void program_path(char *path, size_t size, const char *name)
{
    const char *staged = getenv(staged_variable);
    if (staged)
        snprintf(path, size, "%s/%s", staged, name);
    else
        snprintf(path, size, "%s/emu/bin/%s", getenv("GPUMUX_BUILD"), name);
}

static void copy_program(const char *from, const char *to)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    if (in < 0 || out < 0 || fstat(in, &st) < 0)
        fail(from);
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0)
            fail(to);
        left -= n;
    }
    fchmod(out, 0755);
    close(in);
    close(out);
}

void party_stage_programs(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char from[PATH_MAX], to[PATH_MAX];
    for (size_t i = 0; i < sizeof(program_names) / sizeof(*program_names); i++) {
        program_path(from, sizeof(from), program_names[i]);
        snprintf(to, sizeof(to), "%s/%s", folder, program_names[i]);
        copy_program(from, to);
    }
    setenv(staged_variable, folder, 1);
}

static void become(const char *name, const char *const *arguments, int in, int out)
{
    char path[PATH_MAX];
    char *argv[8] = {path};
    program_path(path, sizeof(path), name);
    for (size_t i = 0; arguments[i] && i + 2 < sizeof(argv) / sizeof(*argv); i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(path, argv);
    _exit(127);
}

/* A daemon in the background may keep the pipe open: reads until the program itself ends. */
static int collect(pid_t pid, int fd, char *output, size_t size)
{
    int64_t start_ms = now_ms();
    size_t length = 0;
    int status, ended = 0;
    for (;;) {
        ended = waitpid(pid, &status, WNOHANG) == pid;
        ssize_t n;
        while (length + 1 < size && (n = read(fd, output + length, size - 1 - length)) > 0)
            length += (size_t)n;
        if (ended || now_ms() - start_ms > PROGRAM_MS_MAX)
            break;
        usleep(500);
    }
    output[length] = '\0';
    if (ended)
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return TIMED_OUT;
}

int party_program(const char *name, const char *const *arguments, const char *input, char *output,
                  size_t size)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        fail("pipe");
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    /* Before the program starts: it may end without reading. */
    if (input && write(in[1], input, strlen(input)) < 0)
        fail("write");
    pid_t pid = fork();
    if (pid < 0)
        fail("no process");
    if (pid == 0)
        become(name, arguments, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    close(in[1]);
    int status = collect(pid, out[0], output, size);
    close(out[0]);
    return status;
}

int party_control(const char *command, char *output, size_t size)
{
    static const char *const none[] = {NULL};
    char line[256];
    snprintf(line, sizeof(line), "%s\n", command);
    return party_program("nvidia-cuda-mps-control", none, line, output, size);
}

void party_fault(const char *fault, const char *argument)
{
    const char *const arguments[] = {"0", fault, argument, NULL};
    char output[1024];
    if (party_program("gpumux-emu-fault", arguments, NULL, output, sizeof(output)) != 0)
        fail(output);
}

pid_t party_server(void)
{
    char output[256];
    party_control("get_server_list", output, sizeof(output));
    return (pid_t)strtol(output, NULL, 10);
}
