#include "learn/memory.h"

#include <math.h>
#include <string.h>

#include "learn/linear.h"
#include "learn/stored.h"

static const char stored_kind[] = "memo";
enum { STORED_VERSION = 1 };

static const uint64_t margin_bytes_min = (uint64_t)256 << 20;
static const double margin_min = 0.10, batch_max_factor = 1.25;
/* Upper limit of a plausible byte count, so that sums of eight fit in 64 bits. */
static const uint64_t bytes_max = (uint64_t)1 << 60;

static size_t degree_for(size_t sizes)
{
    return sizes < 6 ? 1 : sizes < 8 ? 2 : 3;
}

static double polynomial(const struct memory_model *m, uint32_t batch)
{
    double x = batch / (double)m->samples[m->count - 1].batch, sum = 0;
    for (size_t i = MEMORY_DEGREE_MAX + 1; i-- > 0;)
        sum = sum * x + m->coefficients[i];
    return sum;
}

uint64_t memory_predict(const struct memory_model *m, uint32_t batch)
{
    if (m->count == 0)
        return 0;
    double bytes;
    /* One size gives no slope: the upper bound is flat below that size and proportional above. */
    if (m->count == 1)
        bytes = (double)m->samples[0].bytes * fmax(1, batch / (double)m->samples[0].batch);
    else
        bytes = polynomial(m, batch);
    return (uint64_t)fmin(ceil(bytes), (double)bytes_max);
}

uint64_t memory_booking(const struct memory_model *m, uint32_t batch)
{
    uint64_t predicted = memory_predict(m, batch);
    if (predicted == 0)
        return 0;
    uint64_t relative = (uint64_t)ceil((double)predicted * margin_min);
    return predicted + (relative > m->margin_bytes ? relative : m->margin_bytes);
}

uint32_t memory_batch_max(const struct memory_model *m)
{
    if (m->count == 0)
        return 0;
    return (uint32_t)fmin(m->samples[m->count - 1].batch * batch_max_factor, UINT32_MAX);
}

static void fit(struct memory_model *m)
{
    double a[MEMORY_SIZES_MAX * LINEAR_COLUMNS_MAX], y[MEMORY_SIZES_MAX];
    size_t columns = degree_for(m->count) + 1;
    memset(m->coefficients, 0, sizeof m->coefficients);
    for (size_t i = 0; i < m->count; i++) {
        double x = m->samples[i].batch / (double)m->samples[m->count - 1].batch;
        double term = 1 / (double)m->samples[i].bytes;
        for (size_t j = 0; j < columns; j++, term *= x)
            a[i * columns + j] = term;
        y[i] = 1;
    }
    if (m->count > 1)
        (void)linear_least_squares(a, y, m->count, columns, 0, m->coefficients);
    double worst = 0;
    for (size_t i = 0; i < m->count; i++)
        worst = fmax(worst, fabs((double)memory_predict(m, m->samples[i].batch) -
                                 (double)m->samples[i].bytes));
    m->margin_bytes = (uint64_t)fmax((double)margin_bytes_min, ceil(worst));
}

/* Returns the inner sample, of count ≥ 3, whose neighbours are closest to each other. */
static size_t most_crowded(const struct memory_sample *samples, size_t count)
{
    size_t crowded = 1;
    double least = INFINITY;
    for (size_t i = 1; i + 1 < count; i++) {
        double ratio = samples[i + 1].batch / (double)samples[i - 1].batch;
        if (ratio < least) {
            least = ratio;
            crowded = i;
        }
    }
    return crowded;
}

static void insert(struct memory_model *m, size_t at, struct memory_sample sample)
{
    struct memory_sample all[MEMORY_SIZES_MAX + 1];
    memcpy(all, m->samples, at * sizeof *all);
    all[at] = sample;
    memcpy(all + at + 1, m->samples + at, (m->count - at) * sizeof *all);
    size_t count = m->count + 1;
    if (count > MEMORY_SIZES_MAX) {
        size_t gone = most_crowded(all, count);
        memmove(all + gone, all + gone + 1, (count - gone - 1) * sizeof *all);
        count--;
    }
    memcpy(m->samples, all, count * sizeof *all);
    m->count = count;
}

int memory_observe(struct memory_model *m, uint32_t batch, uint64_t bytes)
{
    if (batch == 0 || bytes == 0 || bytes > bytes_max)
        return -ERR_INVALID;
    size_t at = 0;
    while (at < m->count && m->samples[at].batch < batch)
        at++;
    if (at == m->count || m->samples[at].batch != batch)
        insert(m, at, (struct memory_sample){batch, bytes});
    else if (bytes > m->samples[at].bytes)
        m->samples[at].bytes = bytes;
    fit(m);
    return 0;
}

/* Payload: count, then batch and bytes of each sample. The fit is recomputed. */
void memory_save(const struct memory_model *m, struct str *to)
{
    size_t start = stored_begin(to, stored_kind, STORED_VERSION);
    stored_put_u64(to, m->count);
    for (size_t i = 0; i < m->count; i++) {
        stored_put_u64(to, m->samples[i].batch);
        stored_put_u64(to, m->samples[i].bytes);
    }
    stored_end(to, start);
}

int memory_load(struct error *e, const void *bytes, size_t length, struct memory_model *ret_model)
{
    struct stored_reader r;
    uint32_t version;
    int rc = stored_open(e, bytes, length, stored_kind, STORED_VERSION, &r, &version);
    if (rc < 0)
        return rc;
    struct memory_model m = {.count = stored_get_size(&r, MEMORY_SIZES_MAX)};
    uint32_t last = 0;
    for (size_t i = 0; i < m.count; i++) {
        uint32_t batch = (uint32_t)stored_get_size(&r, UINT32_MAX);
        uint64_t taken = stored_get_u64(&r);
        m.samples[i] = (struct memory_sample){batch, taken};
        r.failed |= batch <= last || taken == 0 || taken > bytes_max;
        last = batch;
    }
    rc = stored_close(e, &r);
    if (rc < 0)
        return rc;
    fit(&m);
    *ret_model = m;
    return 0;
}
