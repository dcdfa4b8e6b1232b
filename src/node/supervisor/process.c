#include "node/supervisor/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    GENERATIONS_MAX = 4096,
    STAT_MAX = 1024,
    ENVIRONMENT_BLOCK = 64 << 10,
    PATH_BYTES = 64,
    EXEC_NS = 1000000,
    EXEC_LOOKS_MAX = 1000, /* limit for one scan on looks at processes within an exec */
};

/* Reads a whole small file. Returns its length, or -1. */
static ssize_t read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    if (n >= 0)
        text[n] = '\0';
    return n;
}

/* Fields of /proc/PID/stat after the command, in the order of proc(5). */
enum stat_field {
    STAT_PARENT,
    STAT_USER = 10,
    STAT_SYSTEM,
    STAT_CHILDREN_USER,
    STAT_CHILDREN_SYSTEM,
    STAT_START = 18,
    STAT_RESIDENT_PAGES = 20,
    STAT_FIELDS,
    STAT_CODE_START = 22,
    STAT_ENVIRONMENT_START = 46,
    STAT_ENVIRONMENT_END,
    STAT_FIELDS_MAX,
};

/* Reads the first `count` fields. The command in parentheses may contain anything, so that fields
 * are counted after its last ')'. Parsing is by hand, because a scan of all processes, several
 * times per second, would spend most of its time in sscanf(). */
static bool read_fields(pid_t pid, size_t count, uint64_t *ret_fields, char *ret_state)
{
    char path[PATH_BYTES], text[STAT_MAX];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const char *at = read_small(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    if (!at || at[1] != ' ' || at[2] == '\0')
        return false;
    *ret_state = at[2];
    at += 3;
    for (size_t i = 0; i < count; i++) {
        char *end;
        ret_fields[i] = strtoull(at, &end, 10); /* a negative number gives its two's complement */
        if (end == at)
            return false;
        at = end;
    }
    return true;
}

static bool read_stat(pid_t pid, struct process *ret)
{
    uint64_t fields[STAT_FIELDS];
    char state;
    *ret = (struct process){.pid = pid};
    if (!read_fields(pid, STAT_FIELDS, fields, &state))
        return false;
    ret->parent = (pid_t)fields[STAT_PARENT];
    ret->zombie = state == 'Z' || state == 'X';
    ret->start = fields[STAT_START];
    ret->cpu_ticks = fields[STAT_USER] + fields[STAT_SYSTEM] + fields[STAT_CHILDREN_USER] +
                     fields[STAT_CHILDREN_SYSTEM];
    ret->resident_bytes = fields[STAT_RESIDENT_PAGES] * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

static pid_t parse_pid(const char *name)
{
    char *end;
    long pid = strtol(name, &end, 10);
    return *end == '\0' && pid > 0 && pid < INT32_MAX ? (pid_t)pid : 0;
}

static int compare_pids(const void *a, const void *b)
{
    const struct process *left = a, *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

int process_table_read(struct process_table *ret)
{
    DIR *directory = opendir("/proc");
    if (!directory)
        return -ERR_IO;
    struct process_table table = {0};
    size_t capacity = 0;
    for (struct dirent *entry; (entry = readdir(directory)) && table.count < PROCESS_TABLE_MAX;) {
        struct process process;
        pid_t pid = parse_pid(entry->d_name);
        if (!pid || !read_stat(pid, &process))
            continue;
        if (table.count == capacity) {
            capacity = capacity ? 2 * capacity : 128;
            struct process *grown = realloc(table.items, capacity * sizeof *grown);
            if (!grown) {
                free(table.items);
                closedir(directory);
                return -ERR_NO_MEMORY;
            }
            table.items = grown;
        }
        table.items[table.count++] = process;
    }
    closedir(directory);
    if (table.count)
        qsort(table.items, table.count, sizeof *table.items, compare_pids);
    *ret = table;
    return 0;
}

void process_table_done(struct process_table *table)
{
    free(table->items);
    *table = (struct process_table){0};
}

const struct process *process_table_find(const struct process_table *table, pid_t pid)
{
    struct process key = {.pid = pid};
    if (!table->count)
        return NULL;
    return bsearch(&key, table->items, table->count, sizeof key, compare_pids);
}

size_t process_table_mark_tree(struct process_table *table, pid_t root)
{
    for (size_t i = 0; i < table->count; i++)
        table->items[i].member = table->items[i].pid == root;
    size_t members = process_table_find(table, root) ? 1 : 0, before;
    do { /* pids wrap, so that a parent may follow its child, and one pass is not enough */
        before = members;
        for (size_t i = 0; i < table->count; i++) {
            struct process *p = &table->items[i];
            const struct process *parent = p->member ? NULL : process_table_find(table, p->parent);
            /* a younger parent took the pid of the real parent during the scan */
            if (parent && parent->member && parent->start <= p->start) {
                p->member = true;
                members++;
            }
        }
    } while (members > before);
    return members;
}

uint64_t process_start(pid_t pid)
{
    struct process process;
    return read_stat(pid, &process) ? process.start : 0;
}

bool process_is_alive(pid_t pid)
{
    struct process process;
    return read_stat(pid, &process) && !process.zombie;
}

bool process_descends(pid_t pid, pid_t root)
{
    struct process process;
    for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
        if (!read_stat(pid, &process))
            return false;
        if (process.parent == root)
            return true;
        pid = process.parent;
    }
    return false;
}

bool process_boot_id(char ret_id[BOOT_ID_MAX])
{
    char text[BOOT_ID_MAX];
    if (read_small("/proc/sys/kernel/random/boot_id", text, sizeof text) <= 0)
        return false;
    text[strcspn(text, "\n")] = '\0';
    return str_copy(ret_id, BOOT_ID_MAX, text);
}

bool process_has_ended(pid_t pid, uint64_t start)
{
    struct process process;
    if (!read_stat(pid, &process))
        return kill(pid, 0) < 0 && errno == ESRCH;
    return process.zombie || process.start != start;
}

/* Signals the process that started then, not a later one with its pid. Returns 0 or an errno. */
static int signal_process(pid_t pid, uint64_t start, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), failed = fd < 0 ? errno : 0;
    if (fd >= 0 && process_has_ended(pid, start))
        failed = ESRCH;
    else if (fd >= 0 && syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0)
        failed = errno;
    if (fd >= 0)
        close(fd);
    return failed;
}

size_t process_signal_descendants(pid_t root, uint64_t start, int signal, size_t *ret_failed)
{
    size_t signalled = 0, failed = 0;
    struct process_table table;
    if (process_table_read(&table) == 0) {
        const struct process *top = process_table_find(&table, root);
        if (top && top->start == start)
            process_table_mark_tree(&table, root);
        for (size_t i = 0; i < table.count; i++) {
            const struct process *p = &table.items[i];
            if (!p->member || p->pid == root || p->zombie)
                continue;
            int error = signal_process(p->pid, p->start, signal);
            signalled += error == 0;
            failed += error == EPERM;
        }
        process_table_done(&table);
    }
    if (ret_failed)
        *ret_failed = failed;
    return signalled;
}

enum finding { MARK_ABSENT, MARK_FOUND, MARK_UNKNOWN };

/* Returns whether `mark` is one of the NUL-separated strings of this environment, or that there is
 * no environment. Reads blocks, because an environment can be large. */
static enum finding environment_has(const char *path, const char *mark)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return MARK_ABSENT;
    size_t wanted = strlen(mark) + 1, kept = 0;
    char *block = malloc(ENVIRONMENT_BLOCK);
    bool found = false, at_start = true, is_empty = true;
    ssize_t n;
    while (block && !found && (n = read(fd, block + kept, ENVIRONMENT_BLOCK - kept)) > 0) {
        size_t length = kept + (size_t)n;
        is_empty = false;
        if (at_start && length >= wanted && memcmp(block, mark, wanted) == 0)
            found = true;
        for (char *at = block; !found && at < block + length;) {
            at = memchr(at, '\0', (size_t)(block + length - at));
            if (!at || (size_t)(block + length - at) < wanted + 1)
                break;
            found = memcmp(++at, mark, wanted) == 0;
        }
        /* Keeps enough of the tail for a mark across the block's end. */
        kept = length < wanted ? length : wanted;
        at_start = at_start && kept == length;
        memmove(block, block + length - kept, kept);
    }
    free(block);
    close(fd);
    return found ? MARK_FOUND : is_empty ? MARK_UNKNOWN : MARK_ABSENT;
}

/* Returns whether a process without visible environment may still get one. Within an exec the new
 * memory has no environment for some microseconds, or for as long as the process does not run; the
 * kernel sets the address of the code last. A kernel thread has no program. */
static bool may_get_environment(pid_t pid)
{
    uint64_t fields[STAT_FIELDS_MAX];
    char path[PATH_BYTES], target[1], state;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    return readlink(path, target, sizeof target) > 0 &&
           read_fields(pid, STAT_FIELDS_MAX, fields, &state) &&
           (fields[STAT_CODE_START] == 0 ||
            fields[STAT_ENVIRONMENT_START] != fields[STAT_ENVIRONMENT_END]);
}

static bool is_marked(pid_t pid, const char *mark, int *looks_left)
{
    char path[PATH_BYTES];
    const struct timespec wait = {.tv_nsec = EXEC_NS};
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    enum finding finding = environment_has(path, mark);
    while (finding == MARK_UNKNOWN && *looks_left > 0 && may_get_environment(pid)) {
        --*looks_left;
        nanosleep(&wait, NULL);
        finding = environment_has(path, mark);
    }
    return finding == MARK_FOUND;
}

/* Returns whether the process runs for the user. The owner of /proc/PID does not tell: it is root
 * if the process is not dumpable. */
static bool is_of(pid_t pid, uid_t uid)
{
    char path[PATH_BYTES], text[STAT_MAX];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    const char *at = read_small(path, text, sizeof text) > 0 ? strstr(text, "\nUid:\t") : NULL;
    return at && strtoul(at + strlen("\nUid:\t"), NULL, 10) == uid;
}

size_t process_kill_marked(const char *mark, uid_t uid)
{
    DIR *directory = opendir("/proc");
    if (!directory)
        return 0;
    size_t killed = 0;
    pid_t self = getpid();
    int looks_left = EXEC_LOOKS_MAX;
    for (struct dirent *entry; (entry = readdir(directory));) {
        pid_t pid = parse_pid(entry->d_name);
        if (!pid || pid == self)
            continue;
        uint64_t start = process_start(pid);
        killed += is_of(pid, uid) && is_marked(pid, mark, &looks_left) &&
                  signal_process(pid, start, SIGKILL) == 0;
    }
    closedir(directory);
    return killed;
}
