#include "workloads/burn_profile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { LINE_BYTES_MAX = 1024, COLUMNS_MAX = 32, ROWS_MAX = 64 };

/* The largest number in a table: above every real value, and the sum of two does not overflow. */
static const double number_max = 1e12;

enum column { MODEL, BATCH, ITER_MS, MEM_MIB, GR_ACTIVE, SM_ACTIVE, DRAM, COLUMN_COUNT };

static const char *const column_names[COLUMN_COUNT] = {
    [MODEL] = "model",
    [BATCH] = "batch",
    [ITER_MS] = "iter_ms",
    [MEM_MIB] = "mem_mib",
    [GR_ACTIVE] = "gr_active_pct",
    [SM_ACTIVE] = "sm_active_pct",
    [DRAM] = "dram_pct",
};

struct row {
    double values[COLUMN_COUNT]; /* of MODEL: unused */
};

/* Splits the line into fields, in place. */
static unsigned split(char *line, char *fields[COLUMNS_MAX])
{
    unsigned count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    while (count < COLUMNS_MAX) {
        fields[count++] = line;
        line = strchr(line, ',');
        if (!line)
            break;
        *line++ = '\0';
    }
    return count;
}

static int find_columns(struct error *e, const char *path, char *header,
                        unsigned places[COLUMN_COUNT])
{
    char *fields[COLUMNS_MAX];
    unsigned count = split(header, fields);
    for (int c = 0; c < COLUMN_COUNT; c++) {
        unsigned place = 0;
        while (place < count && !str_equal(fields[place], column_names[c]))
            place++;
        if (place == count)
            return error_set(e, ERR_SYNTAX, "%s has no column '%s'", path, column_names[c]);
        places[c] = place;
    }
    return 0;
}

static int parse_row(struct error *e, const char *path, unsigned line_number, char *fields[],
                     unsigned count, const unsigned places[COLUMN_COUNT], struct row *row)
{
    for (int c = 0; c < COLUMN_COUNT; c++) {
        char *end = NULL;
        if (c == MODEL)
            continue;
        if (places[c] < count)
            row->values[c] = strtod(fields[places[c]], &end);
        if (!end || end == fields[places[c]] || *end != '\0' || !(row->values[c] >= 0) ||
            row->values[c] > number_max)
            return error_set(e, ERR_SYNTAX, "%s, line %u: '%s' is not a number from 0 to %g", path,
                             line_number, column_names[c], number_max);
    }
    return 0;
}

/* Reads the next line. false: at the end of the file, or failed with *result < 0. */
static bool next_line(struct error *e, FILE *file, const char *path, unsigned *line_number,
                      char line[LINE_BYTES_MAX], int *result)
{
    if (!fgets(line, LINE_BYTES_MAX, file))
        return false;
    ++*line_number;
    if (strlen(line) == LINE_BYTES_MAX - 1 && line[LINE_BYTES_MAX - 2] != '\n') {
        *result = error_set(e, ERR_SYNTAX, "%s, line %u: longer than %d bytes", path, *line_number,
                            LINE_BYTES_MAX - 2);
        return false;
    }
    return true;
}

/* Reads the rows of one model. */
static int read_rows(struct error *e, FILE *file, const char *path, const char *model,
                     struct row rows[ROWS_MAX], unsigned *ret_count)
{
    char line[LINE_BYTES_MAX], *fields[COLUMNS_MAX];
    unsigned places[COLUMN_COUNT], count = 0, line_number = 0;
    int r = 0;
    if (!next_line(e, file, path, &line_number, line, &r))
        return r < 0 ? r : error_set(e, ERR_SYNTAX, "%s is empty", path);
    r = find_columns(e, path, line, places);
    while (r == 0 && next_line(e, file, path, &line_number, line, &r)) {
        unsigned field_count = split(line, fields);
        if (places[MODEL] >= field_count || !str_equal(fields[places[MODEL]], model))
            continue;
        if (count == ROWS_MAX)
            return error_set(e, ERR_TOO_LARGE, "%s has more than %d rows of '%s'", path, ROWS_MAX,
                             model);
        r = parse_row(e, path, line_number, fields, field_count, places, &rows[count++]);
    }
    if (r == 0 && count == 0)
        r = error_set(e, ERR_NOT_FOUND, "%s has no model '%s'", path, model);
    if (r == 0)
        *ret_count = count;
    return r;
}

static int by_batch(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return (x->values[BATCH] > y->values[BATCH]) - (x->values[BATCH] < y->values[BATCH]);
}

static struct burn_profile profile_of(const struct row *row)
{
    double busy = row->values[GR_ACTIVE];
    /* The table has averages over the step; the demand of a kernel counts while the kernel runs. */
    double scale = busy > 0 ? 100 / busy : 0;
    double sm = row->values[SM_ACTIVE] * scale, dram = row->values[DRAM] * scale;
    return (struct burn_profile){
        .step_ms = row->values[ITER_MS],
        .busy_percent = busy > 100 ? 100 : busy,
        .sm_percent = sm > 100 ? 100 : sm,
        .dram_percent = dram > 100 ? 100 : dram,
        .memory_mib = row->values[MEM_MIB],
    };
}

static int interpolate(struct error *e, const char *model, const struct row *rows, unsigned count,
                       double *batch, struct burn_profile *ret_profile)
{
    if (*batch == 0)
        *batch = rows[0].values[BATCH];
    if (*batch < rows[0].values[BATCH] || *batch > rows[count - 1].values[BATCH])
        return error_set(e, ERR_INVALID, "'%s' was measured with batch sizes from %g to %g, not %g",
                         model, rows[0].values[BATCH], rows[count - 1].values[BATCH], *batch);
    unsigned high = 0;
    while (rows[high].values[BATCH] < *batch)
        high++;
    struct row row = rows[high];
    if (rows[high].values[BATCH] > *batch) {
        const struct row *a = &rows[high - 1], *b = &rows[high];
        double part = (*batch - a->values[BATCH]) / (b->values[BATCH] - a->values[BATCH]);
        for (int c = 0; c < COLUMN_COUNT; c++)
            row.values[c] = a->values[c] + part * (b->values[c] - a->values[c]);
    }
    *ret_profile = profile_of(&row);
    return 0;
}

int burn_profile_parse(struct error *e, FILE *file, const char *path, const char *model,
                       double *batch, struct burn_profile *ret_profile)
{
    struct row rows[ROWS_MAX] = {0};
    unsigned count = 0;
    int r = read_rows(e, file, path, model, rows, &count);
    if (r < 0)
        return r;
    qsort(rows, count, sizeof(*rows), by_batch);
    return interpolate(e, model, rows, count, batch, ret_profile);
}

int burn_profile_read(struct error *e, const char *path, const char *model, double *batch,
                      struct burn_profile *ret_profile)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(e, ERR_IO, errno, "cannot read the profile %s", path);
    int r = burn_profile_parse(e, file, path, model, batch, ret_profile);
    fclose(file);
    return r;
}
