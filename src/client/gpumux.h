/*
 * libgpumux: what a program that runs as a workload of gpumux says to it, and learns from it.
 *
 *     struct gpumux *g = gpumux_open();
 *     while (samples < wanted) {
 *         uint64_t batch = gpumux_batch_size(g, 64);
 *         train_step(batch);
 *         gpumux_report_progress(g, samples += batch);
 *     }
 *     gpumux_close(g);
 *
 * The same program runs without gpumux: then gpumux_open() gives NULL, and every call takes NULL,
 * does nothing, and answers what is said at it as "outside".
 *
 * No call prints, ends the process, raises a signal, starts a thread or changes errno, and none
 * waits unless it is told to. All can be called by several threads at once, except that
 * gpumux_close() is the last. No file is open between calls, so fork() and exec() carry nothing
 * with them; after fork() both processes may go on with what was opened. The environment is read by
 * gpumux_open() alone.
 *
 * A call that can fail returns 0 or a negative errno. What was not heard is no reason to stop: it
 * is said again with the next report.
 */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct gpumux;

/* NULL outside: gpumux did not start this program, or there is no memory. The caller owns what it
 * gets and ends it with gpumux_close(). */
struct gpumux *gpumux_open(void);
/* Sends what gpumux_report_progress() and gpumux_report_latency() held back. NULL is allowed. */
void gpumux_close(struct gpumux *g);

/* ---- what is said ---- */

#define GPUMUX_PROGRESS_MAX UINT64_C(1000000000000000)

/* How many samples this attempt has done so far, or requests if it is a service: its speed is
 * measured by that. Call it as often as you like, at least once in 10 seconds: a count that comes
 * too soon after the last is held back and costs some 100 ns. A count lower than before (back to a
 * checkpoint) starts the measurement anew. Of several processes of a workload let one report.
 * Outside: 0. -EINVAL above GPUMUX_PROGRESS_MAX, else what stood in the way, such as -EAGAIN or
 * -ECONNREFUSED. */
int gpumux_report_progress(struct gpumux *g, uint64_t done);

#define GPUMUX_LATENCY_MAX UINT64_C(200000000)

/* A service has answered a request: how long that took, in microseconds, from when the request
 * came. What is reported is compared with the service's SLO, and tasks beside it are held back or
 * sent away when they slow it down. Call it for every request: most calls only count, and cost some
 * 100 ns; a few times a second the counts are sent. Several processes of a workload may report,
 * each for its own requests. A longer time than GPUMUX_LATENCY_MAX counts as that. Outside: 0. Else
 * 0, or what stood in the way; then nothing is lost, the counts go with the next report. */
int gpumux_report_latency(struct gpumux *g, uint64_t latency_us);

/* The service is ready: it counts as running from now on, if it was submitted with `ready: client`.
 * Saying it again is harmless. wait_ms 0: it is sent, and that is all that 0 says. Larger: it waits
 * that long at most, and 0 says that it was heard. Outside: 0. -ETIMEDOUT, -EPROTO (the answer was
 * no), -EINVAL (wait_ms below 0), else what stood in the way. */
int gpumux_tell_ready(struct gpumux *g, int wait_ms);

/* ---- what is asked ---- */

/* The batch size to use now; `otherwise` if gpumux suggests none, and outside. It may change while
 * the program runs, so ask again wherever you are able to change it: today it is the one that the
 * workload was submitted with (`batch`), and stays the same during an attempt. */
uint64_t gpumux_batch_size(const struct gpumux *g, uint64_t otherwise);
/* Batch sizes that were allowed at submission; 0: not said, and outside. */
uint64_t gpumux_batch_size_min(const struct gpumux *g);
uint64_t gpumux_batch_size_max(const struct gpumux *g);
uint64_t gpumux_batch_size_step(const struct gpumux *g); /* sizes are multiples of this */

/* The number and the name of the workload, and of this attempt at it, from 1: above 1 there may be
 * a checkpoint to go on from. Outside: 0, "", 0. The text lives until gpumux_close(). */
uint64_t gpumux_workload_id(const struct gpumux *g);
const char *gpumux_workload_name(const struct gpumux *g);
int gpumux_attempt(const struct gpumux *g);
/* Its number in an array of workloads, from 0; -1: it is in none, and outside. */
int gpumux_array_index(const struct gpumux *g);
/* The machine's name in the cluster. Outside: "". The text lives until gpumux_close(). */
const char *gpumux_node_name(const struct gpumux *g);

/* Memory that it may hold on each device; 0: no quota was given, and outside. */
uint64_t gpumux_quota_bytes(const struct gpumux *g);
/* Percent of each device's SMs that are guaranteed, and that are the cap. Outside: 0, 100. */
int gpumux_share_min_percent(const struct gpumux *g);
int gpumux_share_max_percent(const struct gpumux *g);

/* The version of this library, such as "0.1.0". */
const char *gpumux_library_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
