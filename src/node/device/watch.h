/*
 * A thread that samples the devices every 200 ms and waits for Xids of the driver, for the monitor.
 * The thread wakes the loop through a descriptor, and the loop reads the new readings and Xids.
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
    /* Xids since the last watch_read(): each Xid of a device once; beyond WATCH_XIDS_MAX, only the
     * gravest Xids */
    size_t xid_count;
    struct watch_xid xids[WATCH_XIDS_MAX];
    /* `processes` is valid. The thread reads the processes only while a device uses more than
     * full_percent of its memory. */
    bool has_processes;
    struct gpu_sample processes;
};

/* Starts the thread. Until watch_free() only the thread uses gpu, which the caller then closes. The
 * thread reads processes while more than full_percent of a device's memory is in use. */
int watch_new(struct error *e, struct gpu *gpu, int device_count, int full_percent,
              struct watch **ret);
void watch_free(struct watch *w);
/* Returns a descriptor that is readable when watch_read() has new readings or Xids. */
int watch_fd(const struct watch *w);
/* Takes the readings and Xids since the last call. */
void watch_read(struct watch *w, struct watch_news *ret);

/* Adds an Xid; see xid_count. */
void watch_news_add_xid(struct watch_news *news, int device, int xid);
