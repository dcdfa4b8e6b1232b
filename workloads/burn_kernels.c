#include "workloads/burn_kernels.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/str.h"

enum { LINE_BYTES_MAX = 256, NAME_BYTES_MAX = 64, PERMILLE_MAX = 1000 };
static const double duration_us_max = 1e9;

static bool parse_row(const char *line, char name[NAME_BYTES_MAX], struct burn_kernel *ret_kernel)
{
    double duration_us, block_us, sm_permille, dram_permille;
    int end = 0;
    static_assert(NAME_BYTES_MAX == 64, "the width below");
    if (sscanf(line, "%63[^,],%lf,%lf,%lf,%lf %n", name, &duration_us, &block_us, &sm_permille,
               &dram_permille, &end) != 5 ||
        line[end] != '\0')
        return false;
    if (!(duration_us > 0 && duration_us <= duration_us_max) ||
        !(block_us >= 0 && block_us <= duration_us) ||
        !(sm_permille >= 0 && sm_permille <= PERMILLE_MAX) ||
        !(dram_permille >= 0 && dram_permille <= PERMILLE_MAX))
        return false;
    *ret_kernel = (struct burn_kernel){
        .duration_ms = duration_us / 1e3,
        .block_ms = block_us / 1e3,
        .sm_percent = sm_permille / 10,
        .dram_percent = dram_permille / 10,
    };
    return true;
}

int burn_kernels_parse(struct error *e, FILE *file, const char *path, const char *name,
                       struct burn_kernels *ret_kernels)
{
    char line[LINE_BYTES_MAX], row_name[NAME_BYTES_MAX];
    size_t count = 0;
    struct burn_kernel kernel;
    for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
        if (number == 1)
            continue;
        if (!parse_row(line, row_name, &kernel))
            return error_set(e, ERR_SYNTAX,
                             "%s, line %u: not 'workload,duration_us,block_us,sm_permille,"
                             "dram_permille'",
                             path, number);
        if (!str_equal(row_name, name))
            continue;
        if (count == BURN_KERNELS_MAX)
            return error_set(e, ERR_TOO_LARGE, "%s has more than %d kernels of '%s'", path,
                             BURN_KERNELS_MAX, name);
        ret_kernels->list[count++] = kernel;
    }
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "%s has no workload '%s'", path, name);
    ret_kernels->count = count;
    return 0;
}

int burn_kernels_read(struct error *e, const char *path, const char *name,
                      struct burn_kernels *ret_kernels)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(e, ERR_IO, errno, "cannot read the list of kernels %s", path);
    int r = burn_kernels_parse(e, file, path, name, ret_kernels);
    fclose(file);
    return r;
}

double burn_kernels_ms(const struct burn_kernels *kernels)
{
    double ms = 0;
    for (size_t i = 0; i < kernels->count; i++)
        ms += kernels->list[i].duration_ms;
    return ms;
}
