/*
 * The agent of a node: connects to control, starts granted attempts under supervisors, reports
 * their state to control, and extends the lease.
 *
 * State on disk (`directory`, mode 0711), enough for a new agent to take over after a crash:
 *   node.json      this node's instance
 *   ca.pem, node.pem, node.key   of a node that joined over the network; see credentials.h
 *   agent.lock     flock: one agent at a time
 *   lease          8 bytes: boot-clock ms until which tasks may run; mapped by supervisors
 *   locks/W.A      flock held by the supervisor of attempt A of workload W while it lives
 *   attempts/W.A/  attempt's directory until settling; owned by the workload's user: supervisor.h
 *   records/W.A…   the agent's own record of the attempt: attempt/own_record.h
 *   suspended/     locks of processes that move device memory: checkpoint/suspend.h
 *   mps/UUID/      pipes and logs of a device's MPS daemon: mps.h
 *   register/W.A   socket where the attempt's processes register: registrar.h
 *   finished/W.A/  the attempt's directory after settling, until retention deletes it
 *
 * An attempt with a free lock and without an exit record has failed: its supervisor was killed. An
 * attempt with a free lock and without `record.json` never ran. A stop for an unknown attempt
 * leaves a directory with an exit record, so that a late grant cannot start the attempt.
 *
 * This folder contains the agent, with a folder for each topic. Files of the folder node may
 * include base, model, wire, tls, device, attempt, abi.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "wire/config.h"

struct event_base;
struct agent;

struct agent_options {
    const char *directory;      /* state directory; created if missing */
    const char *control_socket; /* unix socket of control's node port; NULL: control_host is used */
    const char *control_host, *control_port; /* address of control's TLS port */
    const char *emulate; /* state file of emulated devices; NULL: real devices through NVML */
    const char
        *emulate_libraries;  /* directory with the emulated libcuda.so.1 and libnvidia-ml.so.1 */
    const char *shim;        /* path of libgpumux-cuda.so; NULL: not installed */
    const char *mps_control; /* path of nvidia-cuda-mps-control; NULL: without MPS */
    const struct config *config;
    const struct log *log;
    /* Called when control has welcomed this node, and when the connection is lost. May be NULL. */
    void (*on_link)(void *arg, bool joined);
    void *on_link_arg;
};

/* Adopts running attempts, then connects to control and reconnects whenever the connection is
 * lost. */
int agent_new(struct error *e, struct event_base *base, const struct agent_options *options,
              struct agent **ret);
/* Frees the agent; attempts keep running under their supervisors. */
void agent_free(struct agent *a);
/* Returns the number of live attempts. */
size_t agent_alive(const struct agent *a);
size_t agent_device_count(const struct agent *a);
