/*
 * The node's side: joins control, starts what it is granted under supervisors, reports, keeps the
 * lease.
 *
 * State on disk (`directory`, mode 0711), enough for a new agent to take over after a crash:
 *   node.json      this node's instance
 *   ca.pem, node.pem, node.key   of a node that joined over the network; see credentials.h
 *   agent.lock     flock: one agent at a time
 *   lease          8 bytes: boot-clock ms until which tasks may run; mapped by supervisors
 *   locks/W.A      flock held by the supervisor of attempt A of workload W while it lives
 *   attempts/W.A/  owned by the user it runs as; see supervisor.h. Here until control has settled it
 *   records/W.A…   all that decides about it, the agent's own: attempt/own_record.h
 *   suspended/     locks of what moves device memory: checkpoint/suspend.h
 *   mps/UUID/      pipes and logs of a device's MPS daemon: mps.h
 *   register/W.A   the socket where its processes register: registrar.h
 *   finished/W.A/  the same, afterwards: its output can be read until retention deletes it
 *
 * An attempt whose lock is free and that has no exit record was ended with its supervisor: a failed
 * attempt. One without `record.json` and with a free lock never ran. A stop for an attempt that is
 * not known leaves a directory with an exit record, so that no late grant ever starts it.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "wire/config.h"

struct event_base;
struct agent;

struct agent_options {
    const char *directory;      /* of the state; made if missing */
    const char *control_socket; /* unix socket of control's node port; or NULL, and … */
    const char *control_host, *control_port; /* … where control listens with TLS */
    const char *emulate; /* emulated devices' state file, or NULL: real ones through NVML */
    const char
        *emulate_libraries;  /* directory with the emulated libcuda.so.1 and libnvidia-ml.so.1 */
    const char *shim;        /* path of libgpumux-cuda.so; NULL: it is not there */
    const char *mps_control; /* nvidia-cuda-mps-control; NULL: workloads do without MPS */
    const struct config *config;
    const struct log *log;
    /* Told when control has welcomed this node, and when it is lost again. May be NULL. */
    void (*on_link)(void *arg, bool joined);
    void *on_link_arg;
};

/* Adopts what runs, then keeps connecting to control for ever. */
int agent_new(struct error *e, struct event_base *base, const struct agent_options *options,
              struct agent **ret);
/* Leaves everything running; supervisors go on by themselves. */
void agent_free(struct agent *a);
/* How many attempts are alive here. */
size_t agent_alive(const struct agent *a);
size_t agent_device_count(const struct agent *a);
