#include "control/keeper.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"

static const char directory_name[] = "learnt";
static const char programs_file[] = "programs";
static const char measurements_file[] = "measurements";
static const char model_file[] = "model";

/* The input and the output of the thread. */
struct job {
    struct str programs;               /* bytes to write; empty: none */
    struct observations *measurements; /* copy to write or to train from; NULL: neither */
    bool writes_measurements, trains;
    uint64_t programs_version, measurements_version; /* versions of the contents */
    /* results: */
    struct predictor *model; /* NULL: none */
    uint64_t total;          /* measurements from which the model was trained */
    int result;              /* result of writing */
    struct error error;
};

struct keeper {
    const struct log *log;
    struct learning *learning;
    int directory_fd;
    uint64_t programs_version, measurements_version; /* saved versions */
    int64_t saved_ms, trained_ms;
    bool has_trained, is_failing;
    uint64_t models;
    bool busy; /* the loop thread's view */
    struct event *notified;
    int event_fd;

    bool has_thread;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    /* under the mutex: */
    struct job *wanted, *done; /* owned; at most one is set */
    bool stop;
};

/* ---- jobs ---- */

static void job_free(struct job *j)
{
    if (!j)
        return;
    str_done(&j->programs);
    observations_free(j->measurements);
    predictor_free(j->model);
    free(j);
}

static void write_file(struct keeper *k, struct job *j, const char *name, struct str *bytes)
{
    if (j->result == 0 && str_failed(bytes))
        j->result = error_set(&j->error, ERR_NO_MEMORY, "no memory for '%s'", name);
    if (j->result == 0)
        j->result = durable_write(&j->error, k->directory_fd, name, str_text(bytes), bytes->length);
}

/* Runs a job on the thread, or at the end without the thread. */
static void job_run(struct keeper *k, struct job *j)
{
    struct str bytes;
    if (j->programs.length > 0)
        write_file(k, j, programs_file, &j->programs);
    if (j->writes_measurements) {
        str_init(&bytes, OBSERVATIONS_STORED_MAX);
        observations_save(j->measurements, &bytes);
        write_file(k, j, measurements_file, &bytes);
        str_done(&bytes);
    }
    if (!j->trains)
        return;
    j->total = observations_total(j->measurements);
    /* A failure for lack of memory is not final: a later job trains again, from more
     * measurements. */
    if (predictor_train(j->measurements, PREDICTOR_FOREST_ALONE, j->total, &j->model) < 0)
        return;
    str_init(&bytes, PREDICTOR_STORED_MAX);
    predictor_save(j->model, &bytes);
    write_file(k, j, model_file, &bytes);
    str_done(&bytes);
}

static void *keeper_run(void *arg)
{
    struct keeper *k = arg;
    pthread_mutex_lock(&k->mutex);
    for (;;) {
        while (!k->wanted && !k->stop)
            pthread_cond_wait(&k->wake, &k->mutex);
        struct job *job = k->wanted;
        k->wanted = NULL;
        if (!job)
            break;
        pthread_mutex_unlock(&k->mutex);
        job_run(k, job);
        pthread_mutex_lock(&k->mutex);
        k->done = job;
        eventfd_write(k->event_fd, 1);
    }
    pthread_mutex_unlock(&k->mutex);
    return NULL;
}

/* Makes a job for unsaved content. Returns NULL if there is none, or when out of memory. */
static struct job *job_make(const struct keeper *k, bool trains)
{
    const struct learning *l = k->learning;
    uint64_t programs = learning_programs_version(l);
    uint64_t measurements = learning_measurements_version(l);
    if (programs == k->programs_version && measurements == k->measurements_version && !trains)
        return NULL;
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    *j = (struct job){.programs_version = programs,
                      .measurements_version = measurements,
                      .writes_measurements = measurements != k->measurements_version,
                      .trains = trains};
    str_init(&j->programs, PROGRAMS_STORED_MAX);
    if (programs != k->programs_version)
        programs_save(learning_programs(l), &j->programs);
    if (j->writes_measurements || trains) {
        j->measurements = observations_copy(learning_measurements(l));
        if (!j->measurements) {
            job_free(j);
            return NULL;
        }
    }
    return j;
}

static void job_finish(struct keeper *k, struct job *j)
{
    if (j->model) {
        learning_set_model(k->learning, j->model, j->total);
        j->model = NULL;
        k->models++;
        log_write(k->log, LOG_INFO, "model trained", "measurements=%llu",
                  (unsigned long long)j->total);
    }
    if (j->result < 0) {
        if (!k->is_failing)
            log_write(k->log, LOG_WARN, "learning files not saved", "error=\"%s\"", j->error.text);
        k->is_failing = true;
    } else {
        k->is_failing = false;
        k->programs_version = j->programs_version;
        k->measurements_version = j->measurements_version;
    }
    job_free(j);
}

static void on_notified(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct keeper *k = arg;
    eventfd_t count;
    if (eventfd_read(fd, &count) < 0)
        return;
    pthread_mutex_lock(&k->mutex);
    struct job *j = k->done;
    k->done = NULL;
    pthread_mutex_unlock(&k->mutex);
    k->busy = false;
    if (j)
        job_finish(k, j);
}

void keeper_tick(struct keeper *k, int64_t now_boot_ms)
{
    if (k->busy || now_boot_ms - k->saved_ms < KEEPER_SAVE_MS)
        return;
    bool trains = learning_wants_model(k->learning) &&
                  (!k->has_trained || now_boot_ms - k->trained_ms >= KEEPER_TRAIN_MS);
    struct job *j = job_make(k, trains);
    if (!j)
        return;
    k->saved_ms = now_boot_ms;
    if (trains) {
        k->has_trained = true;
        k->trained_ms = now_boot_ms;
    }
    k->busy = true;
    pthread_mutex_lock(&k->mutex);
    k->wanted = j;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->mutex);
}

uint64_t keeper_models(const struct keeper *k)
{
    return k->models;
}

/* ---- saved content ---- */

/* Renames the file, so that an operator can examine it. */
static void refuse(const struct keeper *k, const char *name, const struct error *why)
{
    char aside[32];
    (void)snprintf(aside, sizeof aside, "%s.refused", name);
    (void)renameat(k->directory_fd, name, k->directory_fd, aside);
    log_write(k->log, LOG_WARN, "learning file discarded", "file=%s/%s error=\"%s\"",
              directory_name, name, why->text);
}

/* Reads a file into `bytes`; *ret_there: the file exists and fits. Returns 0, or -ERR_x if it
 * cannot be read. */
static int read_file(struct error *e, const struct keeper *k, const char *name, struct str *bytes,
                     bool *ret_there)
{
    int r = durable_read(e, k->directory_fd, name, geteuid(), bytes);
    *ret_there = r == 0;
    if (r == -ERR_TOO_LARGE)
        refuse(k, name, e);
    return r == -ERR_NOT_FOUND || r == -ERR_TOO_LARGE ? 0 : r;
}

static bool is_refused(int result)
{
    return result == -ERR_CORRUPT || result == -ERR_TOO_NEW;
}

static int restore(struct error *e, struct keeper *k)
{
    struct programs *programs = NULL;
    struct observations *measurements = NULL;
    struct predictor *model = NULL;
    static const struct {
        const char *name;
        size_t max;
    } files[] = {{programs_file, PROGRAMS_STORED_MAX},
                 {measurements_file, OBSERVATIONS_STORED_MAX},
                 {model_file, PREDICTOR_STORED_MAX}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof files / sizeof files[0]; i++) {
        struct str bytes;
        bool there;
        str_init(&bytes, files[i].max);
        r = read_file(e, k, files[i].name, &bytes, &there);
        if (r == 0 && there && i == 0)
            r = programs_load(e, str_text(&bytes), bytes.length, &programs);
        else if (r == 0 && there && i == 1)
            r = observations_load(e, str_text(&bytes), bytes.length, &measurements);
        else if (r == 0 && there)
            r = predictor_load(e, str_text(&bytes), bytes.length, &model);
        if (is_refused(r)) {
            refuse(k, files[i].name, e);
            r = 0;
        }
        str_done(&bytes);
    }
    if (r < 0) {
        programs_free(programs);
        observations_free(measurements);
        predictor_free(model);
        return r;
    }
    if (learning_restore(k->learning, programs, measurements, model) < 0)
        return error_set(e, ERR_NO_MEMORY, "no memory for what was learnt");
    return 0;
}

/* ---- life ---- */

static int open_directory(struct error *e, struct keeper *k, const char *parent)
{
    int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = parent_fd < 0 ? errno : 0;
    if (!failed && mkdirat(parent_fd, directory_name, 0700) < 0 && errno != EEXIST)
        failed = errno;
    if (!failed) {
        k->directory_fd =
            openat(parent_fd, directory_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        failed = k->directory_fd < 0 ? errno : 0;
    }
    if (parent_fd >= 0)
        close(parent_fd);
    return failed ? error_set_errno(e, ERR_IO, failed, "cannot use '%s/%s'", parent, directory_name)
                  : 0;
}

static int start_thread(struct error *e, struct keeper *k, struct event_base *base)
{
    k->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->event_fd >= 0)
        k->notified = event_new(base, k->event_fd, EV_READ | EV_PERSIST, on_notified, k);
    int failed = !k->notified || event_add(k->notified, NULL) < 0
                     ? ENOMEM
                     : pthread_create(&k->thread, NULL, keeper_run, k);
    if (failed)
        return error_set_errno(e, ERR_NO_MEMORY, failed, "the keeper could not be started");
    k->has_thread = true;
    return 0;
}

int keeper_new(struct error *e, struct event_base *base, const struct log *log,
               const char *directory, struct learning *learning, struct keeper **ret)
{
    struct keeper *k = calloc(1, sizeof *k);
    if (!k)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *k = (struct keeper){.log = log, .learning = learning, .directory_fd = -1, .event_fd = -1};
    pthread_mutex_init(&k->mutex, NULL);
    pthread_cond_init(&k->wake, NULL);
    int r = open_directory(e, k, directory);
    if (r == 0)
        r = restore(e, k);
    k->programs_version = learning_programs_version(learning);
    k->measurements_version = learning_measurements_version(learning);
    if (r == 0)
        r = start_thread(e, k, base);
    if (r < 0) {
        keeper_free(k);
        return r;
    }
    *ret = k;
    return 0;
}

static void stop_thread(struct keeper *k)
{
    pthread_mutex_lock(&k->mutex);
    k->stop = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->mutex);
    pthread_join(k->thread, NULL);
    if (k->done)
        job_finish(k, k->done);
    struct job *last = job_make(k, false);
    if (last) {
        job_run(k, last);
        job_finish(k, last);
    }
}

void keeper_free(struct keeper *k)
{
    if (!k)
        return;
    if (k->has_thread)
        stop_thread(k);
    if (k->notified)
        event_free(k->notified);
    if (k->event_fd >= 0)
        close(k->event_fd);
    if (k->directory_fd >= 0)
        close(k->directory_fd);
    pthread_cond_destroy(&k->wake);
    pthread_mutex_destroy(&k->mutex);
    free(k);
}
