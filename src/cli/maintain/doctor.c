/*
 * gpumux doctor: checks the machine. Each check prints one line: ok, warn (gpumux works, with less)
 * or fail (gpumux does not work), and the command that fixes the problem. A new check is a function
 * and a line in the table at the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "abi/nvml.h"
#include "base/cgroup_place.h"
#include "base/library.h"
#include "cli/connect/client.h"
#include "cli/maintain/maintenance.h"
#include "cli/frame/output.h"
#include "cli/connect/paths.h"
#include "cli/frame/show.h"

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

struct finding {
    enum verdict verdict;
    char text[256];
    char mend[256]; /* a command, or "" */
};

struct doctor {
    struct arena arena;
    const struct invocation *in;
    const char *state;
    bool has_driver;
};

__attribute__((format(printf, 3, 4))) static void find(struct finding *f, enum verdict verdict,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    f->verdict = verdict;
}

__attribute__((format(printf, 2, 3))) static void mend(struct finding *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->mend, sizeof f->mend, format, args);
    va_end(args);
}

static void check_driver(struct doctor *d, struct finding *f)
{
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    char line[256] = "";
    d->has_driver = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    if (d->has_driver) {
        find(f, VERDICT_OK, "%.200s", line);
        return;
    }
    find(f, VERDICT_WARN, "the NVIDIA kernel driver is not loaded: no real GPU can be used");
    mend(f, "apt install nvidia-driver && modprobe nvidia     (or: gpumux up --emulate 4)");
}

#define NVML_CALLS(CALL) CALL(nvmlInit_v2) CALL(nvmlDeviceGetCount_v2) CALL(nvmlShutdown)

static void check_nvml(struct doctor *d, struct finding *f)
{
    enum verdict bad = d->has_driver ? VERDICT_FAIL : VERDICT_WARN;
    struct {
        NVML_CALLS(CALL_MEMBER)
    } nvml;
    struct library library = library_load(NVML_SONAME, CALL_NAMES(NVML_CALLS), &nvml);
    if (!library.handle) {
        find(f, bad, "cannot load " NVML_SONAME);
        mend(f, "apt install libnvidia-ml1");
        return;
    }
    unsigned count = 0;
    int r = library.missing ? NVML_ERROR_FUNCTION_NOT_FOUND : nvml.nvmlInit_v2();
    if (r == 0)
        r = nvml.nvmlDeviceGetCount_v2(&count);
    if (r == 0) {
        find(f, count ? VERDICT_OK : VERDICT_WARN, "NVML finds %u device%s", count,
             count == 1 ? "" : "s");
        (void)nvml.nvmlShutdown();
    } else {
        find(f, bad, "NVML fails with error %d", r);
        mend(f, "nvidia-smi     (shows the cause)");
    }
    dlclose(library.handle);
}

static void check_cuda(struct doctor *d, struct finding *f)
{
    struct library library = library_load(CUDA_SONAME, NULL, NULL);
    if (library.handle) {
        find(f, VERDICT_OK, CUDA_SONAME " can be loaded");
        dlclose(library.handle);
        return;
    }
    find(f, d->has_driver ? VERDICT_FAIL : VERDICT_WARN, "cannot load " CUDA_SONAME);
    mend(f, "apt install libcuda1");
}

static bool is_on_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[4096];
    for (const char *at = path ? path : ""; *at;) {
        size_t length = strcspn(at, ":");
        if (snprintf(file, sizeof file, "%.*s/%s", (int)length, at, program) < (int)sizeof file &&
            access(file, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static void check_mps(struct doctor *d, struct finding *f)
{
    (void)d;
    if (is_on_path("nvidia-cuda-mps-control")) {
        find(f, VERDICT_OK, "nvidia-cuda-mps-control is installed");
        return;
    }
    find(f, VERDICT_WARN,
         "nvidia-cuda-mps-control is not installed: workloads take turns on a device");
    mend(f, "apt install nvidia-cuda-mps");
}

/* Makes a group as a node does, and removes the group. */
static void check_cgroup(struct doctor *d, struct finding *f)
{
    (void)d;
    char path[PATH_MAX], name[64];
    snprintf(name, sizeof name, "gpumux-doctor-%d", (int)getpid());
    int fd = cgroup_place_find(name, path);
    if (fd >= 0) {
        find(f, VERDICT_OK, "cgroup v2 is writable at %.150s", path);
        cgroup_place_close(fd, name);
    } else if (!*path) {
        find(f, VERDICT_WARN,
             "no cgroup v2: gpumux finds the processes of a workload only by their parents");
        mend(f, "boot with systemd.unified_cgroup_hierarchy=1");
    } else if (errno == ENOSYS) {
        find(f, VERDICT_WARN, "the kernel cannot kill a whole cgroup: gpumux makes none");
        mend(f, "install Linux 5.14 or newer");
    } else {
        find(f, VERDICT_WARN, "no cgroup can be made in %.150s: %s", path, strerror(errno));
        mend(f, "systemd-run --user --scope -p Delegate=yes gpumux up");
    }
}

/* Returns whether a gpumux serves its API in this directory. */
static bool is_served(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/api.sock", state);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool served = fd >= 0 && length < (int)sizeof address.sun_path &&
                  connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return served;
}

static void check_state(struct doctor *d, struct finding *f)
{
    struct stat st;
    if (!d->state) {
        find(f, VERDICT_FAIL, "no home directory for the state directory");
        mend(f, "gpumux up --state DIR");
    } else if (stat(d->state, &st) < 0 && errno == ENOENT) {
        find(f, VERDICT_OK, "gpumux will create %.150s", d->state);
    } else if (stat(d->state, &st) == 0 && st.st_uid != geteuid() && is_served(d->state)) {
        find(f, VERDICT_OK, "%.150s belongs to another user, whose gpumux is up", d->state);
    } else if (stat(d->state, &st) < 0 || !S_ISDIR(st.st_mode) || access(d->state, W_OK) < 0) {
        find(f, VERDICT_FAIL, "cannot write to %.150s: %s", d->state, strerror(errno));
        mend(f, "chown -R $USER %.150s", d->state);
    } else if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        find(f, VERDICT_FAIL, "other users may write to %.150s", d->state);
        mend(f, "chmod 0711 %.150s", d->state);
    } else {
        find(f, VERDICT_OK, "only its owner may write to %.150s", d->state);
    }
}

static void check_space(struct doctor *d, struct finding *f)
{
    const double least = 1024.0 * 1024 * 1024;
    struct statvfs fs;
    char path[4096], text[SHOW_TEXT_MAX];
    if (!d->state || !str_copy(path, sizeof path, d->state)) {
        find(f, VERDICT_WARN, "no state directory whose free space could be checked");
        return;
    }
    while (statvfs(path, &fs) < 0) { /* the nearest directory that exists */
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            find(f, VERDICT_WARN, "cannot determine the free space at %.150s", d->state);
            return;
        }
        *slash = '\0';
    }
    double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    find(f, free_bytes < least ? VERDICT_WARN : VERDICT_OK, "%s free for the state directory",
         show_bytes(free_bytes, text));
    if (f->verdict != VERDICT_OK)
        mend(f,
             "df -h %.150s     (free some space, or choose another place: gpumux up --state DIR)",
             path);
}

static void check_clock(struct doctor *d, struct finding *f)
{
    (void)d;
    struct timespec boot, wall;
    struct timex tx = {0};
    if (clock_gettime(CLOCK_BOOTTIME, &boot) < 0 || clock_gettime(CLOCK_REALTIME, &wall) < 0) {
        find(f, VERDICT_FAIL, "cannot read the boot clock, which leases need");
        return;
    }
    enum { YEAR_2024 = 1704067200 };
    if (wall.tv_sec < YEAR_2024) {
        find(f, VERDICT_FAIL, "the clock is years behind");
        mend(f, "timedatectl set-ntp true");
    } else if (adjtimex(&tx) == TIME_ERROR && (tx.status & STA_UNSYNC)) {
        find(f, VERDICT_WARN, "the clock is not synchronised: times in records may be wrong");
        mend(f, "timedatectl set-ntp true");
    } else {
        find(f, VERDICT_OK, "the clock is synchronised");
    }
}

static void check_limits(struct doctor *d, struct finding *f)
{
    (void)d;
    enum { FILES_LEAST = 4096 };
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        find(f, VERDICT_WARN, "cannot read the limit of open files");
    } else if (files.rlim_max < FILES_LEAST) {
        find(f, VERDICT_WARN, "a process may open only %llu files, too few for many workloads",
             (unsigned long long)files.rlim_max);
        mend(f, "ulimit -Hn %d     (permanently: /etc/security/limits.conf)", FILES_LEAST);
    } else {
        find(f, VERDICT_OK, "a process may open %llu files", (unsigned long long)files.rlim_max);
    }
}

static void check_up(struct doctor *d, struct finding *f)
{
    struct client c;
    if (client_init(&c, d->in) != COMMAND_OK) {
        find(f, VERDICT_FAIL, "the address of gpumux, its authority or the token is not valid");
        return;
    }
    struct http_client *http = c.http;
    struct http_call call = {.method = "GET", .target = "/v1/version", .timeout_ms = 5000};
    struct error e = {0};
    int r = http_client_call(&e, http, &call);
    if (r == 0 && http_client_status(http) >= 300) {
        (void)client_problem(&e, http_client_status(http), http_client_body(http, NULL),
                             strlen(http_client_body(http, NULL)));
        find(f, VERDICT_FAIL, "gpumux is up, but refuses this command: %.150s", e.text);
    } else if (r == 0 && client_check_server(&e, http_client_server(http)) < 0) {
        find(f, VERDICT_FAIL, "%s", e.text);
    } else if (r == 0) {
        json_t *answer = json_loads(http_client_body(http, NULL), 0, NULL);
        find(f, VERDICT_OK, "gpumux %s is up, policy %s", json_text(answer, "version", "?"),
             json_text(answer, "policy", "?"));
        json_decref(answer);
    } else {
        find(f, VERDICT_WARN, "gpumux is not up: %.150s", e.text);
        mend(f, "%s", c.socket ? "gpumux up" : "check GPUMUX_URL");
    }
    client_done(&c);
}

static const struct {
    const char *name;
    void (*check)(struct doctor *d, struct finding *f);
} checks[] = {
    {"driver", check_driver}, {"nvml", check_nvml},     {"cuda", check_cuda},
    {"mps", check_mps},       {"cgroup", check_cgroup}, {"state", check_state},
    {"space", check_space},   {"clock", check_clock},   {"limits", check_limits},
    {"gpumux", check_up},
};

static void print_finding(const char *name, const struct finding *f, bool colour)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    static const enum output_colour colours[] = {OUTPUT_GREEN, OUTPUT_YELLOW, OUTPUT_RED};
    printf("%s%-4s%s  %-8s %s\n", colour ? output_colour_code(colours[f->verdict]) : "",
           words[f->verdict], colour ? "\033[0m" : "", name, f->text);
    if (*f->mend)
        printf("      %-8s %s\n", "", f->mend);
}

int doctor_command(const struct invocation *in)
{
    struct doctor d = {.in = in};
    arena_init(&d.arena, 64 << 10);
    const char *given = option_value(in, "state");
    d.state = given ? given : paths_state_default(&d.arena);
    int status = COMMAND_OK;
    bool colour = output_has_colour(stdout);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct finding f = {0};
        checks[i].check(&d, &f);
        print_finding(checks[i].name, &f, colour);
        if (f.verdict == VERDICT_FAIL)
            status = COMMAND_FAILED;
    }
    arena_done(&d.arena);
    return status;
}
