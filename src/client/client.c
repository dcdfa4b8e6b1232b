/* The handle: facts from the environment, read once. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client_internal.h"
#include "client/gpumux.h"

/* Digits and nothing else, at most `max`. */
static bool read_number(const char *name, uint64_t max, uint64_t *ret)
{
    const char *text = secure_getenv(name);
    if (!text || *text == '\0')
        return false;
    uint64_t number = 0;
    for (; *text; text++) {
        unsigned digit = (unsigned char)*text - (unsigned)'0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (number > max)
        return false;
    *ret = number;
    return true;
}

static uint64_t number_or(const char *name, uint64_t max, uint64_t otherwise)
{
    uint64_t number;
    return read_number(name, max, &number) ? number : otherwise;
}

static int int_or(const char *name, int max, int otherwise)
{
    uint64_t number;
    return read_number(name, (uint64_t)max, &number) ? (int)number : otherwise;
}

static const char *text_of(const char *name)
{
    const char *text = secure_getenv(name);
    return text ? text : "";
}

static const char *keep_text(char **place, const char *text)
{
    char *kept = *place;
    size_t size = strlen(text) + 1;
    memcpy(kept, text, size);
    *place += size;
    return kept;
}

struct gpumux *gpumux_open(void)
{
    const int errno_before = errno;
    uint64_t id = number_or("GPUMUX_WORKLOAD_ID", UINT64_MAX, 0);
    int attempt = int_or("GPUMUX_ATTEMPT", INT_MAX, 0);
    const char *control = text_of("GPUMUX_CONTROL");
    if (id == 0 || attempt == 0 || *control == '\0')
        return NULL;
    const char *name = text_of("GPUMUX_WORKLOAD_NAME"), *node = text_of("GPUMUX_NODE");
    size_t texts_size = strlen(control) + strlen(name) + strlen(node) + 3;
    struct gpumux *g = calloc(1, sizeof *g + texts_size);
    errno = errno_before;
    if (!g)
        return NULL;
    char *place = g->texts;
    g->control_path = keep_text(&place, control);
    g->workload_name = keep_text(&place, name);
    g->node_name = keep_text(&place, node);
    g->workload_id = id;
    g->attempt = attempt;
    g->opened_by = getpid();
    g->array_index = int_or("GPUMUX_ARRAY_INDEX", INT_MAX, -1);
    g->quota_bytes = number_or("GPUMUX_QUOTA_BYTES", UINT64_MAX, 0);
    g->share_min_percent = int_or("GPUMUX_SHARE_MIN", 100, 0);
    g->share_max_percent = int_or("GPUMUX_SHARE_MAX", 100, 100);
    g->batch_size = number_or("GPUMUX_BATCH_SIZE", UINT64_MAX, 0);
    g->batch_min = number_or("GPUMUX_BATCH_SIZE_MIN", UINT64_MAX, 0);
    g->batch_max = number_or("GPUMUX_BATCH_SIZE_MAX", UINT64_MAX, 0);
    g->batch_step = number_or("GPUMUX_BATCH_SIZE_STEP", UINT64_MAX, 0);
    return g;
}

void gpumux_close(struct gpumux *g)
{
    if (!g)
        return;
    const int errno_before = errno;
    uint64_t done = atomic_load(&g->done);
    /* A child of fork() must not send its copy of the parent's count: the parent may have sent a
     * higher count since. */
    if (done != atomic_load(&g->sent) && g->opened_by == getpid())
        (void)gpumux_client_send_progress(g, done);
    if (g->opened_by == getpid())
        (void)gpumux_client_send_latencies(g);
    gpumux_client_disconnect(g);
    free(g);
    errno = errno_before;
}

uint64_t gpumux_batch_size_min(const struct gpumux *g)
{
    return g ? g->batch_min : 0;
}

uint64_t gpumux_batch_size_max(const struct gpumux *g)
{
    return g ? g->batch_max : 0;
}

uint64_t gpumux_batch_size_step(const struct gpumux *g)
{
    return g ? g->batch_step : 0;
}

uint64_t gpumux_workload_id(const struct gpumux *g)
{
    return g ? g->workload_id : 0;
}

const char *gpumux_workload_name(const struct gpumux *g)
{
    return g ? g->workload_name : "";
}

int gpumux_attempt(const struct gpumux *g)
{
    return g ? g->attempt : 0;
}

int gpumux_array_index(const struct gpumux *g)
{
    return g ? g->array_index : -1;
}

const char *gpumux_node_name(const struct gpumux *g)
{
    return g ? g->node_name : "";
}

uint64_t gpumux_quota_bytes(const struct gpumux *g)
{
    return g ? g->quota_bytes : 0;
}

int gpumux_share_min_percent(const struct gpumux *g)
{
    return g ? g->share_min_percent : 0;
}

int gpumux_share_max_percent(const struct gpumux *g)
{
    return g ? g->share_max_percent : 100;
}

const char *gpumux_library_version(void)
{
    return GPUMUX_LIBRARY_VERSION;
}
