/*
 * store_bench DIRECTORY [FINISHED QUEUED]: fills a fresh state and measures durable rows a second
 * by batch size beside the bare sync rate, first pages, loading and memory.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/store.h"

/* About the size of a task with an exported environment and one ended attempt. */
enum { SPEC_BYTES = 2000, SUMMARY_BYTES = 150, STATUS_BYTES = 600, SECONDS_EACH_US = 2000000 };

struct bench {
    struct store *s;
    uint64_t next_id;
    char spec[SPEC_BYTES + 32], summary[SUMMARY_BYTES + 32], status[STATUS_BYTES + 32];
};

static void die(const char *what, const struct error *e)
{
    fprintf(stderr, "store_bench: %s: %s\n", what, e->text);
    exit(1);
}

static void fill_json(char *text, int bytes)
{
    int used = snprintf(text, 16, "{\"x\":\"");
    memset(text + used, 'x', (size_t)bytes);
    memcpy(text + used + bytes, "\"}", 3);
}

static void submit(struct bench *b, int count, enum workload_state state)
{
    struct store_batch *batch = store_batch_new();
    struct error e = {0};
    for (int i = 0; i < count; i++) {
        uint64_t id = b->next_id++;
        struct store_workload row = {.id = id,
                                     .group = id,
                                     .first = id,
                                     .submitted = 1,
                                     .spec_id = id,
                                     .uid = 1000,
                                     .user = "me",
                                     .name = "train",
                                     .base = "train",
                                     .array_index = -1,
                                     .state = state,
                                     .status = b->status};
        struct store_event event = {.workload = id, .what = "submitted"};
        store_batch_spec(batch, id, b->spec, b->summary);
        store_batch_workload(batch, &row);
        store_batch_event(batch, &event);
    }
    if (store_commit(&e, b->s, batch) < 0)
        die("commit", &e);
    store_batch_free(batch);
}

static void measure_submits(struct bench *b, int batch)
{
    int64_t start_us = clock_boot_us(), now_us;
    uint64_t first = b->next_id;
    do
        submit(b, batch, WORKLOAD_SUCCEEDED);
    while ((now_us = clock_boot_us()) - start_us < SECONDS_EACH_US);
    double seconds = (double)(now_us - start_us) / 1e6;
    printf("submits of %d a batch: %.0f/s, %.0f commits/s\n", batch,
           (double)(b->next_id - first) / seconds, (double)(b->next_id - first) / batch / seconds);
}

static void measure_syncs(const char *directory)
{
    char path[512], block[4096 * 8] = {0};
    snprintf(path, sizeof path, "%s/sync-rate", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    int64_t start_us = clock_boot_us(), now_us;
    int count = 0;
    do {
        if (write(fd, block, sizeof block) < 0 || fdatasync(fd) < 0)
            perror(path);
        count++;
    } while ((now_us = clock_boot_us()) - start_us < SECONDS_EACH_US);
    printf("bare fdatasync after 32 KiB appended: %.0f/s\n",
           count / ((double)(now_us - start_us) / 1e6));
    close(fd);
    unlink(path);
}

static int ignore_row(void *count, const struct store_workload *row)
{
    (void)row;
    ++*(size_t *)count;
    return 0;
}

static int ignore_node(void *arg, const char *name, bool drained, const char *json)
{
    (void)arg, (void)name, (void)drained, (void)json;
    return 0;
}

static void measure_list(struct bench *b, const char *what, struct store_filter filter)
{
    enum { REPEATS = 50 };
    struct error e = {0};
    size_t rows = 0;
    int64_t start_us = clock_boot_us();
    for (int i = 0; i < REPEATS; i++)
        if (store_list(&e, b->s, &filter, ignore_row, &rows) < 0)
            die("list", &e);
    printf("first page, %s: %.2f ms, %zu rows\n", what,
           (double)(clock_boot_us() - start_us) / 1e3 / REPEATS, rows / REPEATS);
}

static void print_resident(const char *when)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0 || strncmp(line, "VmHWM:", 6) == 0)
            printf("%s: %s", when, line);
    if (f)
        fclose(f);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: store_bench DIRECTORY [FINISHED QUEUED]\n");
        return 2;
    }
    long finished = argc == 4 ? strtol(argv[2], NULL, 10) : 100000;
    long queued = argc == 4 ? strtol(argv[3], NULL, 10) : 10000;
    struct bench b = {.next_id = 1};
    struct error e = {0};
    fill_json(b.spec, SPEC_BYTES);
    fill_json(b.summary, SUMMARY_BYTES);
    fill_json(b.status, STATUS_BYTES);
    int64_t start_us = clock_boot_us();
    if (store_open_sqlite(&e, argv[1], &b.s) < 0)
        die("open", &e);
    for (long i = 0; i < finished; i += 100)
        submit(&b, 100, WORKLOAD_SUCCEEDED);
    for (long i = 0; i < queued; i += 100)
        submit(&b, 100, WORKLOAD_QUEUED);
    printf("filled in %.1f s\n", (double)(clock_boot_us() - start_us) / 1e6);
    store_close(b.s);

    start_us = clock_boot_us();
    if (store_open_sqlite(&e, argv[1], &b.s) < 0)
        die("open", &e);
    size_t rows = 0;
    uint64_t last_id;
    if (store_load(&e, b.s, ignore_node, ignore_row, &rows, &last_id) < 0)
        die("load", &e);
    printf("opened and loaded %zu rows in %.0f ms\n", rows,
           (double)(clock_boot_us() - start_us) / 1e3);
    struct store_filter all = {.kind = -1, .limit = 100};
    measure_list(&b, "all", all);
    struct store_filter queue = {.kind = -1, .limit = 100, .states = 1u << WORKLOAD_QUEUED};
    measure_list(&b, "queued", queue);
    struct store_filter failed = {.kind = -1, .limit = 100, .states = 1u << WORKLOAD_FAILED};
    measure_list(&b, "failed (none)", failed);
    const struct store_owner owner = {.uid = 1000};
    struct store_filter user = {.kind = -1, .limit = 100, .owner = &owner};
    measure_list(&b, "one user", user);
    struct store_filter name = {.kind = -1, .limit = 100, .name = "train"};
    measure_list(&b, "one name", name);
    print_resident("with everything listed");
    measure_syncs(argv[1]);
    measure_submits(&b, 1);
    measure_submits(&b, 16);
    measure_submits(&b, 64);
    store_close(b.s);
    return 0;
}
