/*
 * ledger_watch AGENT DEATHS SPARED: watches the ledger of the only attempt of the agent (a pid),
 * kills its processes now and then except the one with the pid SPARED, and measures how long the
 * agent takes to clear the slots of the dead. Some processes die by themselves at a fault point.
 * Prints "deaths=N held=N late=N slowest_ms=N": deaths of processes that held memory (held), and
 * those still counted 200 ms later (late). Exits with 1 if a slot is never cleared.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/page.h"

enum { REPAIR_MS = 200, PATIENCE_MS = 60000, LOOK_MS = 1, KILL_EVERY_MS = 15 };

/* A process with a slot. */
struct owner {
    uint64_t word; /* in ledger_page.owners; 0: none */
    int pid_fd;
    int64_t died_ms; /* 0: alive */
    bool has_held;   /* held memory when it died */
};

struct watch {
    const struct ledger_page *ledger;
    pid_t spared;
    struct owner owners[PAGE_PROCESSES_MAX];
    int64_t next_kill_ms;
    int deaths, held, late;
    int64_t slowest_ms;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fail(const char *what)
{
    printf("%s\n", what);
    exit(1);
}

static int open_ledger(const char *agent)
{
    char path[64], target[128];
    int fd = -1;
    snprintf(path, sizeof path, "/proc/%s/fd", agent);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && fd < 0 && (entry = readdir(folder));) {
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strncmp(target, "/memfd:gpumux-ledger", 20) == 0)
            fd = openat(dirfd(folder), entry->d_name, O_RDONLY);
    }
    if (folder)
        closedir(folder);
    return fd;
}

static bool holds(const struct watch *w, int slot)
{
    uint64_t bytes = 0;
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        bytes |= atomic_load(&w->ledger->held_bytes[i][slot]) |
                 atomic_load(&w->ledger->context_bytes[i][slot]);
    return bytes != 0;
}

static void take_owner(struct watch *w, int slot, uint64_t word)
{
    int pid_fd = (int)syscall(SYS_pidfd_open, (pid_t)(word >> 32), 0);
    if (pid_fd >= 0) /* otherwise already gone, and not watched */
        w->owners[slot] = (struct owner){.word = word, .pid_fd = pid_fd};
}

static void note_repair(struct watch *w, struct owner *owner)
{
    int64_t took_ms = now_ms() - owner->died_ms;
    w->deaths++;
    w->held += owner->has_held;
    w->late += took_ms > REPAIR_MS;
    if (took_ms > w->slowest_ms)
        w->slowest_ms = took_ms;
    close(owner->pid_fd);
    *owner = (struct owner){0};
}

static void look_at(struct watch *w, int slot)
{
    struct owner *owner = &w->owners[slot];
    uint64_t word = atomic_load(&w->ledger->owners[slot]);
    if (owner->word == 0 && word != 0)
        take_owner(w, slot, word);
    if (owner->word == 0)
        return;
    struct pollfd end = {.fd = owner->pid_fd, .events = POLLIN};
    if (owner->died_ms == 0 && poll(&end, 1, 0) == 1) {
        owner->died_ms = now_ms();
        owner->has_held = holds(w, slot);
    }
    if (owner->died_ms == 0)
        return;
    if (word != owner->word)
        note_repair(w, owner);
    else if (now_ms() - owner->died_ms > PATIENCE_MS)
        fail("a dead process keeps its slot");
}

/* Kills a random living process. */
static void kill_one(struct watch *w)
{
    int first = rand() % PAGE_PROCESSES_MAX;
    w->next_kill_ms = now_ms() + rand() % KILL_EVERY_MS;
    for (int i = 0; i < PAGE_PROCESSES_MAX; i++) {
        struct owner *owner = &w->owners[(first + i) % PAGE_PROCESSES_MAX];
        if (owner->word == 0 || owner->died_ms != 0 || (pid_t)(owner->word >> 32) == w->spared)
            continue;
        (void)syscall(SYS_pidfd_send_signal, owner->pid_fd, SIGKILL, NULL, 0);
        return;
    }
}

int main(int argc, char **argv)
{
    static struct watch w;
    if (argc != 4)
        return 2;
    int fd = open_ledger(argv[1]), wanted = (int)strtol(argv[2], NULL, 10);
    w.spared = (pid_t)strtol(argv[3], NULL, 10);
    w.ledger = fd >= 0 ? mmap(NULL, sizeof *w.ledger, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (w.ledger == MAP_FAILED)
        fail("the agent has no ledger");
    const char *seed = getenv("GPUMUX_SEED");
    srand(seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL));
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    for (int64_t until_ms = now_ms() + 4 * PATIENCE_MS; w.deaths < wanted;) {
        for (int slot = 0; slot < PAGE_PROCESSES_MAX; slot++)
            look_at(&w, slot);
        if (now_ms() >= w.next_kill_ms)
            kill_one(&w);
        if (now_ms() > until_ms)
            fail("too few died in time");
        nanosleep(&pause, NULL);
    }
    printf("deaths=%d held=%d late=%d slowest_ms=%lld\n", w.deaths, w.held, w.late,
           (long long)w.slowest_ms);
    return 0;
}
