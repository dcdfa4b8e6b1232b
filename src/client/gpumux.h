/*
 * libgpumux: a program that runs as a workload of gpumux reports its progress through this library
 * and reads the facts of its attempt.
 *
 *     struct gpumux *g = gpumux_open();
 *     while (samples < wanted) {
 *         uint64_t batch = gpumux_batch_size(g, 64);
 *         train_step(batch);
 *         gpumux_report_progress(g, samples += batch);
 *     }
 *     gpumux_close(g);
 *
 * The same program also runs without gpumux: gpumux_open() then returns NULL, and every call
 * accepts NULL, does nothing, and returns the value that the call's comment gives as "outside".
 *
 * No call prints, ends the process, raises a signal, starts a thread or changes errno. No call
 * waits, except gpumux_tell_ready() with a wait_ms above 0. Several threads may make all calls at
 * the same time, but gpumux_close() must be the last call. A process that reports keeps one
 * connection to gpumux open. exec() closes the connection; after fork() both processes may use the
 * handle, and the child opens a connection of its own; a program may close all files that it does
 * not know, and the library connects again. Only gpumux_open() reads the environment.
 *
 * A call that can fail returns 0 or a negative errno. A program need not stop after a failed report
 * of progress or latency: the next report includes the counts of the failed report.
 */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct gpumux;

/* Returns NULL outside (gpumux did not start this program), and when out of memory. The caller owns
 * the handle and frees it with gpumux_close(). */
struct gpumux *gpumux_open(void);
/* Sends the counts that gpumux_report_progress() and gpumux_report_latency() have not sent yet, and
 * frees the handle. NULL is allowed. */
void gpumux_close(struct gpumux *g);

/* ---- reports ---- */

#define GPUMUX_PROGRESS_MAX UINT64_C(1000000000000000)

/* Reports how many samples (a service: requests) this attempt has done so far; gpumux measures the
 * attempt's speed by that count. Call at least once every 10 seconds and as often as you like: the
 * library sends at most four counts per second, and every other call costs about 100 ns. A count
 * below the last reported count (after a return to a checkpoint) restarts the measurement. Only one
 * process of a workload should report progress.
 * Outside: 0. Errors: -EINVAL above GPUMUX_PROGRESS_MAX, or the reason why the count could not be
 * sent, such as -EAGAIN or -ECONNREFUSED. */
int gpumux_report_progress(struct gpumux *g, uint64_t done);

#define GPUMUX_LATENCY_MAX UINT64_C(200000000)

/* Reports the latency of one request of a service, in microseconds from the request's arrival to
 * its answer. gpumux compares the latencies with the service's SLO, and throttles or evicts tasks
 * on the same device that make the service miss its SLO. Call once for every request: most calls
 * only count and cost about 100 ns; the counts are sent at most four times per second. Several
 * processes of a workload may report, each for its own requests. A latency above GPUMUX_LATENCY_MAX
 * counts as GPUMUX_LATENCY_MAX.
 * Outside: 0. Errors: the reason why the counts could not be sent; the next call sends them. */
int gpumux_report_latency(struct gpumux *g, uint64_t latency_us);

/* Says that a service has received a request, age_us ago: the time for which the request waited
 * before the program could read it counts as latency, too. If the service has an SLO, the request's
 * deadline becomes visible to the tasks on the service's devices, which make way before a deadline
 * could be missed. Call as early as possible, and end or drop every request.
 * Returns a token for one of the next two calls, which any thread of the process may make. At most
 * 32 requests of a process have visible deadlines; the others are only counted when they end. The
 * three calls cost less than 200 ns when nothing is sent. An age above GPUMUX_LATENCY_MAX counts as
 * GPUMUX_LATENCY_MAX. Outside: 0, which the next two calls accept. */
uint64_t gpumux_request_begin(struct gpumux *g, uint64_t age_us);
/* Says that the request has been answered, and reports its latency as gpumux_report_latency() does:
 * do not report the latency of the request again. Call once for each token. After a request has
 * been neither ended nor dropped for 30 s beyond its deadline, gpumux ignores the deadline.
 * Outside: 0. Errors: as gpumux_report_latency(). */
int gpumux_request_end(struct gpumux *g, uint64_t token);
/* Says that the request will not be answered, or that its latency does not count. */
void gpumux_request_drop(struct gpumux *g, uint64_t token);

/* Reports that the service is ready. A service that was submitted with `ready: client` counts as
 * running from then on. Repeated calls are harmless. With a wait_ms of 0 the call returns 0 as soon
 * as the report is sent. With a larger wait_ms the call waits for that time at most, and 0 means
 * that gpumux has received the report.
 * Outside: 0. Errors: -ETIMEDOUT, -EPROTO (gpumux refused the report), -EINVAL (wait_ms below 0),
 * or the reason why the report could not be sent. */
int gpumux_tell_ready(struct gpumux *g, int wait_ms);

/* ---- facts ---- */

/* Returns the batch size to use now, or `otherwise` if gpumux suggests none, and outside. The size
 * changes during an attempt when gpumux advises another one, which is within the smallest and the
 * largest size and a multiple of the step below. Call again wherever the program can change its
 * batch size, such as before each step: the call costs less than 200 ns. */
uint64_t gpumux_batch_size(const struct gpumux *g, uint64_t otherwise);
/* Says which batch size the program has used for its last step. After a call that follows
 * gpumux_batch_size(), gpumux knows that its advice took effect, even if the program has used
 * another size. Costs less than 200 ns. */
void gpumux_use_batch(struct gpumux *g, uint64_t batch);
/* Returns 1 if gpumux asks for a checkpoint: once in each process for each request. Outside: 0.
 * Costs less than 200 ns. */
int gpumux_checkpoint_wanted(struct gpumux *g);
/* Returns the smallest or the largest batch size that the description of the workload allows. 0:
 * not set, and outside. */
uint64_t gpumux_batch_size_min(const struct gpumux *g);
uint64_t gpumux_batch_size_max(const struct gpumux *g);
/* Returns a number of which every batch size is a multiple. 0: not set, and outside. */
uint64_t gpumux_batch_size_step(const struct gpumux *g);

/* Returns the number or the name of the workload. Outside: 0 and "". The name is valid until
 * gpumux_close(). */
uint64_t gpumux_workload_id(const struct gpumux *g);
const char *gpumux_workload_name(const struct gpumux *g);
/* Returns the number of this attempt, from 1. If the number is above 1, an earlier attempt may have
 * left a checkpoint. Outside: 0. */
int gpumux_attempt(const struct gpumux *g);
/* Returns the workload's index in its array, from 0. -1: the workload is in no array, and
 * outside. */
int gpumux_array_index(const struct gpumux *g);
/* Returns the name of the node. Outside: "". The name is valid until gpumux_close(). */
const char *gpumux_node_name(const struct gpumux *g);

/* Returns the device memory that the workload may allocate on each device. 0: no quota, and
 * outside. */
uint64_t gpumux_quota_bytes(const struct gpumux *g);
/* Returns the percentage of each device's SMs that the workload is guaranteed. Outside: 0. */
int gpumux_share_min_percent(const struct gpumux *g);
/* Returns the percentage of each device's SMs that the workload may use at most. Outside: 100. */
int gpumux_share_max_percent(const struct gpumux *g);

/* Returns the version of this library, such as "0.1.0". */
const char *gpumux_library_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
