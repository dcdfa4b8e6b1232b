/*
 * The devices of this node under watch: feeds device_step with what watch.h sees and with the attempts
 * that come and go, and carries out what it answers. On the loop's thread.
 *
 * What must outlast an agent is in its state directory: `disabled` lists the devices that were disabled by their
 * own word or an operator's, and `untested` those whose MPS was lost and that have not passed a self-test since
 * (device_list.h). Of attempts, verdict_file.h.
 */
#pragma once
#include <stdbool.h>

#include "device/device.h"
#include "model/node.h"
#include "node/mps/mps.h"
#include "node/attempt/terms.h"
#include "wire/nodemsg.h"

struct agent;
struct run;
struct monitor;

/* What the monitor keeps with each run. */
struct tenancy {
    int device_count; /* 0: none of its concern */
    int devices[WORKLOAD_DEVICES_MAX];
    struct device_tenant_info info;
    bool there;        /* it is a tenant of them */
    bool told_running; /* and they know that it runs */
    int64_t
        doubt_until_ms; /* its failure may be a device's: nothing is said until then; 0: not yet */
    enum attempt_verdict verdict;
    char why[WORKLOAD_TEXT_MAX]; /* of a verdict that is not its own */
    bool unseen;           /* it failed as a client of MPS, and no agent was there to see it */
    bool not_the_only_one; /* others of its device did, too */
};

/* Does nothing on a node without devices. */
int monitor_open(struct error *e, struct agent *a);
void monitor_close(struct agent *a);

/* Whether a grant may start on its devices now; if not, why. */
bool monitor_admits(struct agent *a, const struct grant *grant, char why[WORKLOAD_TEXT_MAX]);
/* An attempt that was found, before anything else is done with it: what its devices said of it before. */
void monitor_recall(struct run *r);
/* Before it is started; and an attempt that was found running, after its record was read. */
void monitor_came(struct run *r, const struct grant *grant, const struct terms *terms);
/* suspended: it is none now, but may come back. */
void monitor_adopted(struct run *r, bool suspended);
/* It was looked at, and is alive. */
void monitor_alive(struct run *r);
/* It ended, in failure or not. True: ask again, the devices may have more to say about it. */
bool monitor_doubts(struct run *r, bool failed);
/* Nothing of it is left: it is no tenant any more, and r->tenancy has the verdict. */
void monitor_left(struct run *r, bool failed);

/* It is no client of MPS after all. */
void monitor_isolated(struct run *r, const struct terms *terms);

/* It was suspended: it is no tenant until it returns. */
void monitor_suspended(struct run *r);
/* Its device wanted it off, and it could not be suspended. */
void monitor_stays(struct run *r, const char *why);
/* It has to start again: it is ended, and queued again. */
void monitor_moves(struct run *r, const char *why);
/* Whether it may return to its devices now; if not, why. */
bool monitor_readmits(const struct run *r, char why[WORKLOAD_TEXT_MAX]);
/* Before it does. No-op for one that is there. */
void monitor_returns(struct run *r);
/* A device's MPS has changed. */
void monitor_mps(struct agent *a, const char *uuid, enum mps_state state, const char *text);

/* Something that people should know of a device of the node. */
void monitor_note(struct agent *a, int device, const char *text);
/* For hello and beat: valid until the loop runs on. */
size_t monitor_health(struct agent *a, const struct device_health **ret);
/* What control has not heard yet. NULL: nothing is watched. */
struct notes *monitor_notes(struct agent *a);
/* An operator's word. -ERR_NOT_FOUND. */
int monitor_enable(struct agent *a, const char *uuid, bool enable);
