#include "bench/replay_tables.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "contention/contention.h"

enum { LINE_BYTES = 256, PATH_BYTES = 512, STEPS_MIN = 8 };

/* Handles one line after the header; returns 0 or a negative error code. */
typedef int (*line_reader)(struct replay_tables *tables, const char *line);

static int read_solo(struct replay_tables *tables, const char *line)
{
    if (tables->solo_count == REPLAY_SOLO_MAX)
        return -ERR_TOO_LARGE;
    struct replay_solo *row = &tables->solo[tables->solo_count++];
    int fields =
        sscanf(line, "%15[^,],%u,%lf,%*f,%*f,%*f,%*f,%lf,%lf,%*f,%*f,%lf", row->model, &row->batch,
               &row->iter_ms, &row->busy_percent, &row->sm_percent, &row->dram_percent);
    return fields == 6 ? 0 : -ERR_SYNTAX;
}

static int read_pair(struct replay_tables *tables, const char *line)
{
    if (tables->pair_count == REPLAY_PAIRS_MAX)
        return -ERR_TOO_LARGE;
    struct replay_pair *row = &tables->pairs[tables->pair_count++];
    int fields =
        sscanf(line, "%15[^,],%u,%15[^,],%u,%*f,%*f,%*f,%*f,%lf,%lf", row->models[0],
               &row->batches[0], row->models[1], &row->batches[1], &row->kept[0], &row->kept[1]);
    return fields == 6 ? 0 : -ERR_SYNTAX;
}

static int read_model(struct replay_tables *tables, const char *line)
{
    if (tables->model_count == REPLAY_MODELS_MAX)
        return -ERR_TOO_LARGE;
    struct replay_model *row = &tables->models[tables->model_count++];
    int fields = sscanf(line, "%15[^,],%u,%u,%u", row->name, &row->kernels, &row->narrow_permille,
                        &row->host_permille);
    return fields == 4 && row->kernels > 0 && row->kernels <= REPLAY_KERNELS_MAX ? 0 : -ERR_SYNTAX;
}

static int read_file(struct error *e, const char *folder, const char *name, line_reader reader,
                     struct replay_tables *tables)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return error_set_errno(e, ERR_NOT_FOUND, errno, "cannot read %s", path);
    int r = 0;
    for (unsigned number = 1; r == 0 && fgets(line, sizeof(line), file); number++) {
        if (number > 1)
            r = reader(tables, line);
        if (r < 0)
            r = error_set(e, (enum error_code) - r, "%s, line %u", path, number);
    }
    fclose(file);
    return r;
}

static const struct replay_model *find_model(const struct replay_tables *tables, const char *name)
{
    for (size_t i = 0; i < tables->model_count; i++) {
        if (str_equal(tables->models[i].name, name))
            return &tables->models[i];
    }
    return NULL;
}

static void name_models(struct replay_tables *tables)
{
    for (size_t i = 0; i < tables->solo_count; i++) {
        if (find_model(tables, tables->solo[i].model) || tables->model_count == REPLAY_MODELS_MAX)
            continue;
        struct replay_model *model = &tables->models[tables->model_count++];
        str_copy(model->name, sizeof(model->name), tables->solo[i].model);
    }
}

static const struct replay_solo *find_solo(const struct replay_tables *tables, const char *model,
                                           unsigned batch)
{
    for (size_t i = 0; i < tables->solo_count; i++) {
        if (str_equal(tables->solo[i].model, model) && tables->solo[i].batch == batch)
            return &tables->solo[i];
    }
    return NULL;
}

static int check_pairs(struct error *e, const struct replay_tables *tables)
{
    for (size_t i = 0; i < tables->pair_count; i++) {
        for (unsigned k = 0; k < 2; k++) {
            const struct replay_pair *pair = &tables->pairs[i];
            if (!find_solo(tables, pair->models[k], pair->batches[k]) ||
                !find_model(tables, pair->models[k]))
                return error_set(e, ERR_SYNTAX, "%s at batch %u was not measured alone",
                                 pair->models[k], pair->batches[k]);
        }
    }
    return 0;
}

int replay_tables_load(struct error *e, const char *folder, bool measured_only,
                       struct replay_tables *ret_tables)
{
    struct replay_tables *tables = ret_tables;
    memset(tables, 0, sizeof(*tables));
    int r = read_file(e, folder, "h200_train_solo.csv", read_solo, tables);
    if (r == 0)
        r = read_file(e, folder, "h200_train_pairs.csv", read_pair, tables);
    if (r == 0 && measured_only)
        name_models(tables);
    else if (r == 0)
        r = read_file(e, folder, "h200_train_kernels.csv", read_model, tables);
    return r == 0 ? check_pairs(e, tables) : r;
}

/* Returns the host time of a step: the whole step where the device clearly waits for the host. The
 * host time does not depend on the batch size, so it also holds for the model's other batch sizes.
 * Returns 0 if the device never waits, so that the host is no limit. */
static double host_ms(const struct replay_tables *tables, const struct replay_solo *solo)
{
    static const double waits_below_percent = 85;
    if (solo->busy_percent < waits_below_percent)
        return solo->iter_ms;
    double ms = INFINITY;
    for (size_t i = 0; i < tables->solo_count; i++) {
        const struct replay_solo *row = &tables->solo[i];
        if (str_equal(row->model, solo->model) && row->busy_percent < waits_below_percent)
            ms = fmin(ms, row->iter_ms);
    }
    return isfinite(ms) ? ms : 0;
}

static size_t make_step(const struct replay_solo *solo, const struct replay_model *model,
                        struct replay_kernel kernels[REPLAY_KERNELS_MAX])
{
    double average = solo->sm_percent / solo->busy_percent;
    double narrow = fmin(model->narrow_permille / 1000.0, average);
    double wide_part = narrow < 1 ? (average - narrow) / (1 - narrow) : 1;
    double dram = fmin(1, solo->dram_percent / solo->busy_percent);
    double duration_ns = solo->iter_ms * 1e6 * solo->busy_percent / 100 / model->kernels;
    for (unsigned i = 0; i < model->kernels; i++) {
        bool is_wide = floor((i + 1) * wide_part) > floor(i * wide_part);
        kernels[i] = (struct replay_kernel){
            .duration_ns = (uint64_t)duration_ns,
            .sm_permille = (uint16_t)lround((is_wide ? 1 : narrow) * 1000),
            .dram_permille = (uint16_t)lround(dram * 1000),
        };
    }
    return model->kernels;
}

void replay_pair_run(const struct replay_tables *tables, const struct replay_pair *pair,
                     double ret_kept[2])
{
    struct replay_kernel kernels[2][REPLAY_KERNELS_MAX];
    struct replay_client clients[2];
    double longest_ms = 0, alone_ms[2];
    for (unsigned k = 0; k < 2; k++) {
        const struct replay_solo *solo = find_solo(tables, pair->models[k], pair->batches[k]);
        const struct replay_model *model = find_model(tables, pair->models[k]);
        assert(solo && model);
        size_t count = make_step(solo, model, kernels[k]);
        double launch_ms = host_ms(tables, solo) / (double)count;
        alone_ms[k] = fmax(launch_ms * (double)count, solo->iter_ms * solo->busy_percent / 100);
        longest_ms = fmax(longest_ms, alone_ms[k]);
        clients[k] = (struct replay_client){
            .kernels = kernels[k],
            .kernel_count = count,
            .launch_ns = (uint64_t)(launch_ms * 1e6 * (1 + model->host_permille / 1000.0)),
            .share_permille = CONTENTION_FULL_PERMILLE,
        };
    }
    double until_ms = STEPS_MIN * longest_ms;
    replay_run(clients, 2, (uint64_t)(until_ms * 1e6));
    for (unsigned k = 0; k < 2; k++) {
        double steps = (double)clients[k].kernels_done / (double)clients[k].kernel_count;
        ret_kept[k] = steps * alone_ms[k] / until_ms;
    }
}
