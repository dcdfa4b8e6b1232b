/*
 * A thread that samples the devices every 200 ms and waits for Xids of the driver, for the monitor.
 * The loop reads its findings; a descriptor wakes the loop.
 */
#pragma once
#include "node/device/gpu.h"

struct watch;

enum { WATCH_EVERY_MS = 200, WATCH_XIDS_MAX = 64 };

struct watch_xid {
    int device, xid;
};

struct watch_news {
    bool looked; /* the readings are new */
    struct gpu_reading readings[NODE_DEVICES_MAX];
    size_t xid_count; /* since the last news; each Xid of a device once, the gravest if there are
                         too many */
    struct watch_xid xids[WATCH_XIDS_MAX];
    /* The processes, only while a device has more memory in use than full_percent. */
    bool has_processes;
    struct gpu_sample processes;
};

/* gpu belongs to the thread until watch_free; the caller closes it afterwards. full_percent: of a
 * device's memory, above which processes are read. */
int watch_new(struct error *e, struct gpu *gpu, int device_count, int full_percent,
              struct watch **ret);
void watch_free(struct watch *w);
/* Readable when there is news. */
int watch_fd(const struct watch *w);
/* News since the last call. */
void watch_read(struct watch *w, struct watch_news *ret);

/* Adds an Xid; see xid_count. */
void watch_news_add_xid(struct watch_news *news, int device, int xid);
