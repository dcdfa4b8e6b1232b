/* The properties of a valid run, checked with the API, with the journal that the tasks wrote, and
 * with /proc. */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "scenario.h"
#include "wire/http/http_client.h"
#include "wire/logline.h"

enum {
    CALL_MS = 30000,
    TARGET_BYTES = 256,
    PAGE = 500,
    POLL_US = 20000,
    GONE_MS = 60000, /* time limit for processes and memory of ended tasks to be gone */
};

struct judge {
    const struct scenario *scenario;
    struct http_client *client;
    int breaches;
};

static void breach(struct judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void breach(struct judge *j, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("breach: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    j->breaches++;
}

/* Returns the document of the answer, or NULL. */
static json_t *get(struct judge *j, const char *target)
{
    struct error e = {0};
    struct http_call call = {.method = "GET", .target = target, .timeout_ms = CALL_MS};
    int r = http_client_call(&e, j->client, &call);
    size_t length = 0;
    const char *body = r < 0 ? "" : http_client_body(j->client, &length);
    json_t *document =
        r < 0 || http_client_status(j->client) != 200 ? NULL : json_loadb(body, length, 0, NULL);
    if (!document)
        breach(j, "GET %s: %s%.*s", target, r < 0 ? e.text : "", (int)length, body);
    return document;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static uint64_t number_of(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static bool is_terminal(const char *word)
{
    return strcmp(word, "succeeded") == 0 || strcmp(word, "failed") == 0 ||
           strcmp(word, "cancelled") == 0;
}

/* Returns the number of the task with this id, or -1. */
static int task_of(const struct scenario *s, uint64_t id)
{
    for (int task = 0; task < s->tasks; task++)
        if (atomic_load(&s->progress->ids[task]) == id)
            return task;
    return -1;
}

int verdict_wait(const struct scenario *s, int64_t deadline_boot_ms)
{
    char socket[DAEMON_PATH_MAX];
    daemons_socket(&s->daemons, socket);
    struct http_client *client = http_client_new(socket);
    bool over = false;
    while (client && !over && clock_boot_ms() < deadline_boot_ms) {
        struct http_call call = {.method = "GET",
                                 .target = "/v1/"
                                           "workloads?state=queued,placed,starting,running,"
                                           "suspending,suspended,resuming,stopping&limit=1",
                                 .timeout_ms = CALL_MS};
        if (http_client_call(NULL, client, &call) == 0 && http_client_status(client) == 200) {
            size_t length = 0;
            const char *body = http_client_body(client, &length);
            json_t *document = json_loadb(body, length, 0, NULL);
            over = document && json_array_size(json_object_get(document, "workloads")) == 0;
            json_decref(document);
        }
        if (!over)
            usleep(POLL_US);
    }
    http_client_free(client);
    return over ? 0 : -1;
}

static void judge_workload(struct judge *j, const json_t *workload, int *seen)
{
    uint64_t id = number_of(workload, "id");
    int task = task_of(j->scenario, id);
    if (task < 0) {
        breach(j, "workload %llu was never accepted", (unsigned long long)id);
        return;
    }
    if (seen[task]++ > 0)
        breach(j, "task %d is listed twice", task);
    if (strcmp(text_of(workload, "state"), "succeeded") != 0)
        breach(j, "task %d (workload %llu) is %s: %s", task, (unsigned long long)id,
               text_of(workload, "state"), text_of(workload, "text"));
}

static void judge_list(struct judge *j)
{
    int *seen = calloc((size_t)j->scenario->tasks, sizeof *seen);
    char target[TARGET_BYTES], cursor[64] = "";
    for (bool more = seen != NULL; more;) {
        snprintf(target, sizeof target, "/v1/workloads?limit=%d%s%s", PAGE,
                 *cursor ? "&cursor=" : "", cursor);
        json_t *page = get(j, target), *workload;
        size_t i;
        json_array_foreach(json_object_get(page, "workloads"), i, workload)
            judge_workload(j, workload, seen);
        snprintf(cursor, sizeof cursor, "%s", text_of(page, "next"));
        more = page && *cursor;
        json_decref(page);
    }
    for (int task = 0; seen && task < j->scenario->tasks; task++)
        if (seen[task] == 0)
            breach(j, "task %d is lost", task);
    free(seen);
}

static void judge_events(struct judge *j)
{
    int tasks = j->scenario->tasks;
    int *submitted = calloc((size_t)tasks, sizeof *submitted);
    int *ended = calloc((size_t)tasks, sizeof *ended);
    char target[TARGET_BYTES];
    uint64_t since = 0;
    for (bool more = submitted && ended; more;) {
        snprintf(target, sizeof target, "/v1/events?since=%llu&limit=%d", (unsigned long long)since,
                 PAGE);
        json_t *page = get(j, target), *event;
        size_t i;
        more = json_array_size(json_object_get(page, "events")) > 0;
        json_array_foreach(json_object_get(page, "events"), i, event)
        {
            uint64_t revision = number_of(event, "revision");
            if (revision <= since)
                breach(j, "revision %llu comes after %llu", (unsigned long long)revision,
                       (unsigned long long)since);
            since = revision;
            int task = number_of(event, "workload")
                           ? task_of(j->scenario, number_of(event, "workload"))
                           : -1;
            if (task < 0)
                continue;
            submitted[task] += strcmp(text_of(event, "what"), "submitted") == 0;
            ended[task] += is_terminal(text_of(event, "what"));
        }
        json_decref(page);
    }
    for (int task = 0; submitted && ended && task < tasks; task++)
        if (submitted[task] != 1 || ended[task] != 1)
            breach(j, "task %d: %d submitted and %d terminal events", task, submitted[task],
                   ended[task]);
    free(submitted);
    free(ended);
}

struct life {
    int starts, ends, open_attempt; /* open_attempt: of the living copy at this line, or 0 */
    int last_attempt;
};

/* Lines are in the order of their events: each is one write to a file opened for append. */
static void judge_journal_line(struct judge *j, struct life *lives, const char *what, int task,
                               int attempt)
{
    struct life *life = &lives[task];
    if (strcmp(what, "start") == 0) {
        if (attempt <= life->last_attempt)
            breach(j, "task %d: attempt %d started after attempt %d", task, attempt,
                   life->last_attempt);
        life->starts++;
        life->open_attempt = life->last_attempt = attempt;
    } else if (strcmp(what, "end") == 0) {
        if (life->open_attempt != attempt)
            breach(j, "task %d: attempt %d ended beside attempt %d", task, attempt,
                   life->open_attempt);
        life->ends++;
        life->open_attempt = 0;
    } else {
        breach(j, "task %d: attempt %d started while another copy lived", task, attempt);
    }
}

static void judge_journal(struct judge *j)
{
    const struct scenario *s = j->scenario;
    struct life *lives = calloc((size_t)s->tasks, sizeof *lives);
    FILE *file = fopen(s->journal, "re");
    if (!lives || !file) {
        breach(j, "no journal");
        free(lives);
        return;
    }
    char what[16];
    int task, attempt, pid;
    long long boot_us;
    while (fscanf(file, "%15s t%d %d %d %lld", what, &task, &attempt, &pid, &boot_us) == 5)
        if (task >= 0 && task < s->tasks)
            judge_journal_line(j, lives, what, task, attempt);
    if (!feof(file))
        breach(j, "the journal has a broken line");
    fclose(file);
    for (task = 0; task < s->tasks; task++) {
        const struct life *life = &lives[task];
        /* A task that ended on a lost node before its report arrived runs again. */
        bool once = life->starts == 1 && life->ends == 1;
        if (s->outlives ? !once : life->ends < 1)
            breach(j, "task %d: %d starts, %d ends", task, life->starts, life->ends);
    }
    free(lives);
}

/* Polls until success, because a node shown as connected may be about to notice that its connection
 * broke, and gpumux must then say so. */
static int get_log(struct error *e, struct judge *j, int task)
{
    char target[TARGET_BYTES];
    snprintf(target, sizeof target, "/v1/workloads/%llu/logs",
             (unsigned long long)atomic_load(&j->scenario->progress->ids[task]));
    struct http_call call = {.method = "GET", .target = target, .timeout_ms = CALL_MS};
    int64_t until_ms = clock_boot_ms() + GONE_MS;
    for (;;) {
        int r = http_client_call(e, j->client, &call);
        bool not_now = r == -ERR_UNAVAILABLE || r == -ERR_PROTOCOL ||
                       (r == 0 && http_client_status(j->client) == 503);
        if (!not_now || clock_boot_ms() > until_ms)
            return r;
        usleep(POLL_US);
    }
}

/* Checks that every line of the last attempt is there, once and in order. */
static void judge_log(struct judge *j, int task)
{
    struct error e = {0};
    if (get_log(&e, j, task) < 0 || http_client_status(j->client) != 200) {
        breach(j, "task %d: logs: status %d %s", task, http_client_status(j->client), e.text);
        return;
    }
    size_t length = 0;
    const char *at = http_client_body(j->client, &length), *end = at + length;
    int expected = 1;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct logline line;
        int of_task = -1, attempt = 0, number = 0;
        char text[64] = "";
        if (newline && logline_parse(at, (size_t)(newline - at), &line) && line.is_full &&
            line.length < sizeof text)
            memcpy(text, line.text, line.length);
        if (sscanf(text, "t%d %d %d", &of_task, &attempt, &number) != 3 || of_task != task ||
            number != expected)
            breach(j, "task %d: log line %d is \"%s\"", task, expected, text);
        expected++;
        at = newline ? newline + 1 : end;
    }
    if (expected != TASK_LINES + 1)
        breach(j, "task %d: %d log lines of %d", task, expected - 1, TASK_LINES);
}

/* Returns the memory that is still booked or used on any device; polled until it is 0 or the
 * deadline passes. */
static uint64_t device_remains(struct judge *j)
{
    json_t *document = get(j, "/v1/nodes"), *node, *device;
    size_t i, k;
    uint64_t remains = document ? 0 : 1;
    json_array_foreach(json_object_get(document, "nodes"), i, node)
        json_array_foreach(json_object_get(node, "devices"), k, device)
    {
        const json_t *usage = json_object_get(device, "usage");
        remains += number_of(json_object_get(device, "booked"), "quota_bytes");
        remains += json_array_size(json_object_get(device, "workloads"));
        remains += json_is_object(usage) ? number_of(usage, "memory_used_bytes") : 1;
    }
    json_decref(document);
    return remains;
}

static void judge_devices(struct judge *j)
{
    int64_t deadline_ms = clock_boot_ms() + GONE_MS;
    uint64_t remains;
    while ((remains = device_remains(j)) > 0 && clock_boot_ms() < deadline_ms)
        usleep(POLL_US);
    if (remains > 0)
        breach(j, "devices are not empty: %llu bytes and workloads", (unsigned long long)remains);
}

int verdict_judge(const struct scenario *s)
{
    char socket[DAEMON_PATH_MAX];
    daemons_socket(&s->daemons, socket);
    struct judge judge = {.scenario = s, .client = http_client_new(socket)};
    if (!judge.client)
        return 1;
    judge_list(&judge);
    judge_events(&judge);
    judge_journal(&judge);
    for (int task = 0; task < s->tasks; task++)
        judge_log(&judge, task);
    judge_devices(&judge);
    http_client_free(judge.client);
    return judge.breaches;
}

/* Returns whether a process belongs to this run: the run's directory is in its arguments, or is its
 * working directory. */
static bool is_ours(const char *pid, const char *directory)
{
    char path[64], text[4096];
    size_t wanted = strlen(directory);
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    if (length > 0 && memmem(text, (size_t)length, directory, wanted))
        return true;
    snprintf(path, sizeof path, "/proc/%.20s/cwd", pid);
    length = readlink(path, text, sizeof text);
    return length > (ssize_t)wanted && memcmp(text, directory, wanted) == 0;
}

static int count_ours(const char *directory)
{
    DIR *processes = opendir("/proc");
    int count = 0;
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            strtol(entry->d_name, NULL, 10) != getpid())
            count += is_ours(entry->d_name, directory);
    if (processes)
        closedir(processes);
    return processes ? count : 1;
}

int verdict_judge_processes(const struct scenario *s)
{
    int64_t deadline_ms = clock_boot_ms() + GONE_MS;
    int left;
    while ((left = count_ours(s->daemons.directory)) > 0 && clock_boot_ms() < deadline_ms)
        usleep(POLL_US);
    if (left > 0)
        fprintf(stderr, "breach: %d processes are left behind\n", left);
    return left;
}
