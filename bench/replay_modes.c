#include "bench/replay_modes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "contention/contention.h"

enum { LINE_BYTES = 128, SMS = 132, REQUESTS_PER_S = 150, SEED = 1, MPS_PARTY = 9 };

const struct mode modes[MODE_COUNT] = {
    {"service alone", true, false, true, 100, 0, 1.0, 0},
    {"task alone", false, true, true, 100, 0, 0, 1.00},
    {"no MPS", true, true, false, 100, 0, 4.5, 0.80},
    {"MPS", true, true, true, 100, 0, 5.8, 0.95},
    {"MPS, task share 80 %", true, true, true, 80, 0, 2.5, 0.83},
    {"MPS, task share 50 %", true, true, true, 50, 0, 1.6, 0.72},
    {"MPS, task share 25 %", true, true, true, 25, 0, 1.4, 0.41},
    {"MPS, task share 10 %", true, true, true, 10, 0, 1.2, 0.18},
    {"MPS, priority", true, true, true, 100, 1, 2.6, 0.94},
    {"MPS, priority, task share 50 %", true, true, true, 50, 1, 1.4, 0.70},
};

static int add_kernel(struct mode_kernels *kernels, const char *line)
{
    char workload[16];
    double duration_us, block_us;
    unsigned sm_permille, dram_permille;
    if (sscanf(line, "%15[^,],%lf,%lf,%u,%u", workload, &duration_us, &block_us, &sm_permille,
               &dram_permille) != 5)
        return -ERR_SYNTAX;
    bool is_service = str_equal(workload, "service");
    size_t *count = is_service ? &kernels->service_count : &kernels->task_count;
    if (*count == MODE_KERNELS_MAX)
        return -ERR_TOO_LARGE;
    struct replay_kernel *list = is_service ? kernels->service : kernels->task;
    list[(*count)++] = (struct replay_kernel){
        .duration_ns = (uint64_t)llround(duration_us * 1e3),
        .block_ns = (uint32_t)llround(block_us * 1e3),
        .sm_permille = (uint16_t)sm_permille,
        .dram_permille = (uint16_t)dram_permille,
    };
    return 0;
}

int mode_kernels_load(struct error *e, const char *path, struct mode_kernels *ret_kernels)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "r");
    if (!file)
        return error_set_errno(e, ERR_NOT_FOUND, errno, "cannot read %s", path);
    memset(ret_kernels, 0, sizeof(*ret_kernels));
    int r = 0;
    for (unsigned number = 1; r == 0 && fgets(line, sizeof(line), file); number++) {
        if (number > 1)
            r = add_kernel(ret_kernels, line);
        if (r < 0)
            r = error_set(e, (enum error_code) - r, "%s, line %u", path, number);
    }
    fclose(file);
    if (r == 0 && (ret_kernels->service_count == 0 || ret_kernels->task_count == 0))
        r = error_set(e, ERR_SYNTAX, "%s has no service or no task", path);
    return r;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* All modes get the same arrivals. */
static size_t make_arrivals(double seconds, uint64_t *due_ns, size_t size)
{
    struct rng rng;
    size_t count = 0;
    rng_seed(&rng, SEED);
    for (double at_s = 0; count < size;) {
        at_s += -log(1 - rng_double(&rng)) / REQUESTS_PER_S;
        if (at_s >= seconds)
            break;
        due_ns[count++] = (uint64_t)(at_s * 1e9);
    }
    return count;
}

static void measure(const struct mode *mode, const struct mode_kernels *kernels, double seconds,
                    uint64_t *due_ns, uint64_t *latency_ns, size_t size,
                    struct mode_result *ret_result)
{
    unsigned share =
        contention_share_permille(SMS, mode->task_share_percent * CONTENTION_FULL_PERMILLE / 100);
    struct replay_client service = {
        .kernels = kernels->service,
        .kernel_count = kernels->service_count,
        .due_ns = due_ns,
        .due_count = make_arrivals(seconds, due_ns, size),
        .latency_ns = latency_ns,
        .party = mode->is_mps ? MPS_PARTY : 0,
        .share_permille = CONTENTION_FULL_PERMILLE,
    };
    struct replay_client task = {
        .kernels = kernels->task,
        .kernel_count = kernels->task_count,
        .party = mode->is_mps ? MPS_PARTY : 1,
        .share_permille = (uint16_t)share,
        .priority = (uint16_t)mode->task_priority,
    };
    struct replay_client clients[2];
    size_t count = 0;
    if (mode->has_service)
        clients[count++] = service;
    if (mode->has_task)
        clients[count++] = task;
    replay_run(clients, count, (uint64_t)(seconds * 1e9));
    *ret_result = (struct mode_result){.p50_ms = 0};
    if (mode->has_task)
        ret_result->kernels_per_s = (double)clients[count - 1].kernels_done / seconds;
    size_t answered = mode->has_service ? clients[0].kernels_done / service.kernel_count : 0;
    if (answered > 0) {
        qsort(latency_ns, answered, sizeof(*latency_ns), compare_times);
        ret_result->p50_ms = (double)latency_ns[answered / 2] / 1e6;
        ret_result->p99_ms = (double)latency_ns[answered * 99 / 100] / 1e6;
    }
}

int mode_run(const struct mode *mode, const struct mode_kernels *kernels, double seconds,
             struct mode_result *ret_result)
{
    size_t size = (size_t)(seconds * REQUESTS_PER_S * 2) + 1;
    uint64_t *due_ns = calloc(size, sizeof(*due_ns));
    uint64_t *latency_ns = calloc(size, sizeof(*latency_ns));
    int r = due_ns && latency_ns ? 0 : -ERR_NO_MEMORY;
    if (r == 0)
        measure(mode, kernels, seconds, due_ns, latency_ns, size, ret_result);
    free(due_ns);
    free(latency_ns);
    return r;
}

static double value_of(const struct mode_result results[MODE_COUNT], size_t mode, bool is_p99)
{
    return is_p99 ? results[mode].p99_ms / results[MODE_SERVICE_ALONE].p99_ms
                  : results[mode].kernels_per_s / results[MODE_TASK_ALONE].kernels_per_s;
}

static double measured_of(size_t mode, bool is_p99)
{
    return is_p99 ? modes[mode].p99_ratio : modes[mode].kept;
}

struct mode_ratios mode_compare(const struct mode_result results[MODE_COUNT], size_t mode)
{
    struct mode_ratios ratios = {.p99 = 1, .kept = 1};
    if (modes[mode].p99_ratio > 0)
        ratios.p99 = value_of(results, mode, true) / modes[mode].p99_ratio;
    if (modes[mode].kept > 0)
        ratios.kept = value_of(results, mode, false) / modes[mode].kept;
    return ratios;
}

bool mode_is_ranked(const struct mode_result results[MODE_COUNT], bool by_p99, double margin,
                    size_t ret_pair[2])
{
    for (size_t a = 0; a < MODE_COUNT; a++) {
        for (size_t b = 0; b < MODE_COUNT; b++) {
            bool is_comparable = measured_of(a, by_p99) > 0 && measured_of(b, by_p99) > 0;
            if (is_comparable && measured_of(a, by_p99) > measured_of(b, by_p99) &&
                value_of(results, a, by_p99) <= value_of(results, b, by_p99) * (1 + margin)) {
                ret_pair[0] = a;
                ret_pair[1] = b;
                return false;
            }
        }
    }
    return true;
}
