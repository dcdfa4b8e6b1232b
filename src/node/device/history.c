#include "node/device/history.h"

#include <stdlib.h>
#include <string.h>

#include "node/device/kept.h"

#define HISTORY_MAGIC UINT64_C(0x31797469766d6d67) /* "gmmvity1" */

struct history_file {
    uint64_t magic;
    uint64_t service_bytes; /* bytes of one entry, by which another layout is detected */
    struct share_service services[HISTORY_SERVICES_MAX];
};

struct history {
    struct history_file *file;
};

static void forget_what_is_spoilt(struct history_file *file)
{
    if (file->magic != HISTORY_MAGIC || file->service_bytes != sizeof file->services[0])
        memset(file, 0, sizeof *file);
    file->magic = HISTORY_MAGIC;
    file->service_bytes = sizeof file->services[0];
    for (size_t i = 0; i < HISTORY_SERVICES_MAX; i++)
        if (!share_service_is_sane(&file->services[i]))
            share_service_init(&file->services[i], 0);
}

int history_open(struct error *e, int directory_fd, struct history **ret)
{
    struct history *h = calloc(1, sizeof *h);
    void *map = NULL;
    if (!h)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    int r = kept_open(e, directory_fd, "activity", sizeof *h->file, &map);
    if (r < 0) {
        free(h);
        return r;
    }
    h->file = map;
    forget_what_is_spoilt(h->file);
    *ret = h;
    return 0;
}

void history_close(struct history *h)
{
    if (!h)
        return;
    kept_close(h->file, sizeof *h->file);
    free(h);
}

const struct share_service *history_find(const struct history *h, uint64_t workload)
{
    for (size_t i = 0; i < HISTORY_SERVICES_MAX; i++)
        if (h->file->services[i].workload == workload)
            return &h->file->services[i];
    return NULL;
}

struct share_service *history_get(struct history *h, uint64_t workload)
{
    struct share_service *oldest = &h->file->services[0];
    for (size_t i = 0; i < HISTORY_SERVICES_MAX; i++) {
        struct share_service *s = &h->file->services[i];
        if (s->workload == workload)
            return s;
        if (s->seen_ms < oldest->seen_ms)
            oldest = s;
    }
    share_service_init(oldest, workload);
    return oldest;
}
