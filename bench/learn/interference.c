#include "bench/learn/interference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"

enum { LINE_BYTES = 1024, FIELDS_MAX = 24, SIZES_MAX = 16 };
static const double h200_memory_mib = 143771;

/* A line of a table, split at commas. */
struct line {
    char text[LINE_BYTES];
    char *fields[FIELDS_MAX];
    size_t count;
};

typedef int line_reader(struct error *e, struct interference_table *t, const struct line *line,
                        void *context);

static double number(const struct line *line, size_t field)
{
    return field < line->count ? strtod(line->fields[field], NULL) : NAN;
}

static int for_each_line(struct error *e, const char *folder, const char *name,
                         struct interference_table *t, line_reader *reader, void *context)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return error_set_errno(e, ERR_NOT_FOUND, errno, "%s", path);
    struct line line;
    int rc = 0;
    for (size_t number = 0; rc == 0 && fgets(line.text, sizeof line.text, file) != NULL; number++) {
        line.text[strcspn(line.text, "\r\n")] = '\0';
        line.count = 0;
        char *rest = line.text;
        while (rest != NULL && line.count < FIELDS_MAX)
            line.fields[line.count++] = strsep(&rest, ",");
        if (number > 0) /* the first line has the column names */
            rc = reader(e, t, &line, context);
    }
    fclose(file);
    return rc;
}

/* Returns the index of a model, added if new; the model's family is index + 1. Returns
 * INTERFERENCE_MODELS_MAX if the table is full. */
static size_t model_of(struct interference_table *t, const char *name)
{
    for (size_t i = 0; i < t->model_count; i++)
        if (str_equal(t->models[i], name))
            return i;
    if (t->model_count == INTERFERENCE_MODELS_MAX ||
        !str_copy(t->models[t->model_count], INTERFERENCE_NAME_BYTES, name))
        return INTERFERENCE_MODELS_MAX;
    return t->model_count++;
}

static int add_row(struct error *e, struct interference_table *t, const struct task_profile *own,
                   const struct task_profile *neighbour, double interference)
{
    if (!(interference > 0) || !isfinite(interference))
        return error_set(e, ERR_SYNTAX, "a measurement is not a number above 0");
    if (t->count == INTERFERENCE_ROWS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d rows", INTERFERENCE_ROWS_MAX);
    t->rows[t->count++] = (struct interference_row){.own = *own,
                                                    .neighbour = *neighbour,
                                                    .own_model = own->family - 1,
                                                    .neighbour_model = neighbour->family - 1,
                                                    .interference = interference};
    return 0;
}

/* Tasks alone, by model and batch size. */
struct alone {
    size_t count;
    struct {
        struct task_profile profile;
        double batch;
    } tasks[INTERFERENCE_MODELS_MAX * SIZES_MAX];
    double reference[INTERFERENCE_MODELS_MAX]; /* batch size; 0: unknown yet */
};

static int read_h200_alone(struct error *e, struct interference_table *t, const struct line *line,
                           void *context)
{
    struct alone *alone = context;
    size_t model = line->count < 12 ? INTERFERENCE_MODELS_MAX : model_of(t, line->fields[0]);
    if (model == INTERFERENCE_MODELS_MAX ||
        alone->count == sizeof alone->tasks / sizeof *alone->tasks)
        return error_set(e, ERR_SYNTAX, "the table of tasks alone is not as expected");
    alone->tasks[alone->count].batch = number(line, 1);
    alone->tasks[alone->count++].profile = (struct task_profile){
        .family = model + 1,
        .iteration_ms = number(line, 2),
        .memory_part = number(line, 5) / h200_memory_mib,
        .parameters = number(line, 6),
        .busy = number(line, 7) / 100,
        .sm_activity = number(line, 8) / 100,
        .sm_occupancy = number(line, 9) / 100,
        .tensor_activity = number(line, 10) / 100,
        .dram_rate = number(line, 11) / 100,
        .share = 1,
    };
    return 0;
}

/* The table starts with pairs in which all models have their reference batch sizes. */
static const struct task_profile *find_alone(struct alone *alone, size_t model, double batch)
{
    if (model == INTERFERENCE_MODELS_MAX)
        return NULL;
    if (alone->reference[model] == 0)
        alone->reference[model] = batch;
    for (size_t i = 0; i < alone->count; i++) {
        struct task_profile *profile = &alone->tasks[i].profile;
        if (profile->family != model + 1 || alone->tasks[i].batch != batch)
            continue;
        profile->batch_log2 = log2(batch / alone->reference[model]);
        return profile;
    }
    return NULL;
}

static int read_h200_pair(struct error *e, struct interference_table *t, const struct line *line,
                          void *context)
{
    if (line->count < 8)
        return error_set(e, ERR_SYNTAX, "the table of pairs is not as expected");
    const struct task_profile *a =
        find_alone(context, model_of(t, line->fields[0]), number(line, 1));
    const struct task_profile *b =
        find_alone(context, model_of(t, line->fields[2]), number(line, 3));
    if (a == NULL || b == NULL)
        return error_set(e, ERR_SYNTAX, "a pair of tasks that are not in the other table");
    int rc = add_row(e, t, a, b, number(line, 4) / number(line, 6));
    return rc < 0 ? rc : add_row(e, t, b, a, number(line, 5) / number(line, 7));
}

int interference_load_h200(struct error *e, const char *folder, struct interference_table *ret)
{
    struct alone alone = {0};
    *ret = (struct interference_table){0};
    int rc = for_each_line(e, folder, "h200_train_solo.csv", ret, read_h200_alone, &alone);
    if (rc < 0)
        return rc;
    return for_each_line(e, folder, "h200_train_pairs.csv", ret, read_h200_pair, &alone);
}

struct gavel {
    const char *gpu;
};

enum {
    GAVEL_GPU = 0,
    GAVEL_MODEL_A = 1,
    GAVEL_BATCH_A,
    GAVEL_MODEL_B,
    GAVEL_BATCH_B,
    GAVEL_SOLO_A,
    GAVEL_TOGETHER_A,
    GAVEL_SOLO_B,
    GAVEL_TOGETHER_B,
    GAVEL_FIELDS,
};

/* batch_log2 is relative to 1 here; centre_batches() makes it relative to the middle of the model's
 * sizes. */
static int read_gavel(struct error *e, struct interference_table *t, const struct line *line,
                      void *context)
{
    const struct gavel *gavel = context;
    if (line->count < GAVEL_FIELDS)
        return error_set(e, ERR_SYNTAX, "the table of pairs is not as expected");
    if (!str_equal(line->fields[GAVEL_GPU], gavel->gpu))
        return 0;
    struct task_profile tasks[2];
    for (size_t i = 0; i < 2; i++) {
        size_t model = model_of(t, line->fields[i == 0 ? GAVEL_MODEL_A : GAVEL_MODEL_B]);
        if (model == INTERFERENCE_MODELS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more models than expected");
        double batch = number(line, i == 0 ? GAVEL_BATCH_A : GAVEL_BATCH_B);
        tasks[i] = (struct task_profile){
            .family = model + 1,
            .iteration_ms = 1000 / number(line, i == 0 ? GAVEL_SOLO_A : GAVEL_SOLO_B),
            .batch_log2 = batch > 0 ? log2(batch) : 0,
            .share = 1,
        };
    }
    int rc = add_row(e, t, &tasks[0], &tasks[1],
                     number(line, GAVEL_SOLO_A) / number(line, GAVEL_TOGETHER_A));
    return rc < 0 ? rc
                  : add_row(e, t, &tasks[1], &tasks[0],
                            number(line, GAVEL_SOLO_B) / number(line, GAVEL_TOGETHER_B));
}

static void centre_batches(struct interference_table *t)
{
    double least[INTERFERENCE_MODELS_MAX], most[INTERFERENCE_MODELS_MAX];
    for (size_t m = 0; m < t->model_count; m++) {
        least[m] = INFINITY;
        most[m] = -INFINITY;
    }
    for (size_t i = 0; i < t->count; i++) {
        size_t m = t->rows[i].own_model;
        least[m] = fmin(least[m], t->rows[i].own.batch_log2);
        most[m] = fmax(most[m], t->rows[i].own.batch_log2);
    }
    for (size_t i = 0; i < t->count; i++) {
        struct interference_row *row = &t->rows[i];
        row->own.batch_log2 -= (least[row->own_model] + most[row->own_model]) / 2;
        row->neighbour.batch_log2 -= (least[row->neighbour_model] + most[row->neighbour_model]) / 2;
    }
}

int interference_load_gavel(struct error *e, const char *folder, const char *gpu,
                            struct interference_table *ret)
{
    struct gavel gavel = {.gpu = gpu};
    *ret = (struct interference_table){0};
    int rc = for_each_line(e, folder, "gavel_pairs.csv", ret, read_gavel, &gavel);
    if (rc == 0)
        centre_batches(ret);
    return rc;
}

/* Returns the index of a pair of models in triangular order: (0,0) (0,1) … (1,1) … */
static size_t pair_of(size_t models, size_t a, size_t b)
{
    size_t low = a < b ? a : b, high = a < b ? b : a;
    return low * models - low * (low + 1) / 2 + high;
}

void interference_split_pairs(const struct interference_table *t, unsigned long seed,
                              bool ret_held_out[INTERFERENCE_ROWS_MAX])
{
    enum { PAIRS_MAX = INTERFERENCE_MODELS_MAX * (INTERFERENCE_MODELS_MAX + 1) / 2 };
    size_t order[PAIRS_MAX], pairs = t->model_count * (t->model_count + 1) / 2;
    bool held[PAIRS_MAX] = {false};
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < pairs; i++)
        order[i] = i;
    for (size_t i = 0; i < pairs / 4; i++) {
        size_t other = i + rng_below(&rng, pairs - i), drawn = order[other];
        order[other] = order[i];
        held[drawn] = true;
    }
    for (size_t i = 0; i < t->count; i++)
        ret_held_out[i] =
            held[pair_of(t->model_count, t->rows[i].own_model, t->rows[i].neighbour_model)];
}

void interference_split_model(const struct interference_table *t, size_t model,
                              bool ret_held_out[INTERFERENCE_ROWS_MAX])
{
    for (size_t i = 0; i < t->count; i++)
        ret_held_out[i] = t->rows[i].own_model == model || t->rows[i].neighbour_model == model;
}
