/*
 * A thread that looks at the devices every 200 ms and listens to what the driver tells of them, for
 * the monitor. What it has found is read on the loop's thread, which a descriptor wakes.
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
    size_t
        xid_count; /* since the last news, each of a device once; of more than fit, the gravest */
    struct watch_xid xids[WATCH_XIDS_MAX];
    /* Who holds memory: only while a device has more of it in use than was asked about. */
    bool has_processes;
    struct gpu_sample processes;
};

/* gpu is used by its thread alone until watch_free; the caller closes it afterwards. full_percent: of a
 * device's memory in use, above which it is of interest who holds it. */
int watch_new(struct error *e, struct gpu *gpu, int device_count, int full_percent,
              struct watch **ret);
void watch_free(struct watch *w);
/* Readable when there is news. */
int watch_fd(const struct watch *w);
/* What is new since the last call. */
void watch_read(struct watch *w, struct watch_news *ret);

/* An Xid of a device is news too; see xid_count. */
void watch_news_add_xid(struct watch_news *news, int device, int xid);
