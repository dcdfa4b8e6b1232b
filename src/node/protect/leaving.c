/* Delays closing the device files of an ended process; see abi/register.h for the reason. */
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/protect/registrar_internal.h"

enum {
    LOOK_MS = 5,
    /* Stillness after which work without completed marks counts as done, in addition to its
     * remaining cost: such work has no mark, or waits for a signal that no process sends. */
    STILL_MS = 300,
    LEAVING_MS_MAX = 2000,
    LEAVINGS_MAX = 256, /* simultaneous; beyond this limit files close at once */
};

struct files {
    size_t count;
    int fds[REGISTER_FILES_MAX];
};

struct leaving {
    struct list link; /* in registrar.leavings */
    struct registrar *registrar;
    struct event *look;
    struct files *files;
    struct status_mapping status;
    uint64_t started[PAGE_STREAMS_MAX]; /* marks when the process ended */
    uint64_t completed;                 /* sum at the last look */
    int64_t moved_ms, until_ms;
};

/* ---- closing ---- */

static void *close_files(void *arg)
{
    struct files *files = arg;
    for (size_t i = 0; i < files->count; i++)
        close(files->fds[i]);
    free(files);
    return NULL;
}

/* Closes the files on a thread, because the driver destroys a context when its last file closes,
 * which may take long. */
static void close_apart(struct files *files)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        close_files(files);
        return;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, close_files, files) != 0)
        close_files(files);
    pthread_attr_destroy(&attributes);
}

static void free_leaving(struct leaving *l)
{
    close_apart(l->files);
    status_done(&l->status);
    event_free(l->look);
    list_remove(&l->link);
    l->registrar->leaving_count--;
    free(l);
}

void leavings_free(struct registrar *r)
{
    list_for_each_safe (it, &r->leavings)
        free_leaving(list_entry(it, struct leaving, link));
}

/* ---- waiting ---- */

/* Returns whether the work is done. A process that wrote wrong marks only keeps its own files open,
 * for at most LEAVING_MS_MAX. */
static bool is_done(struct leaving *l, int64_t now_ms)
{
    uint64_t sum = 0, left_ns = 0;
    for (int i = 0; i < PAGE_STREAMS_MAX; i++) {
        uint64_t completed = atomic_load(&l->status.page->completed[i]);
        sum += completed;
        if (completed < l->started[i])
            left_ns = claims_add(left_ns, l->started[i] - completed);
    }
    if (sum != l->completed)
        l->moved_ms = now_ms;
    l->completed = sum;
    uint64_t still_ms = (uint64_t)(now_ms - l->moved_ms);
    return left_ns == 0 || still_ms >= STILL_MS + left_ns / 1000000 || now_ms >= l->until_ms;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct leaving *l = arg;
    const struct timeval soon = {.tv_usec = LOOK_MS * 1000};
    if (is_done(l, clock_boot_ms()) || event_add(l->look, &soon) < 0)
        free_leaving(l);
}

static bool begin_leaving(struct member *m, struct files *files)
{
    struct registrar *r = m->session->registrar;
    struct leaving *l = r->leaving_count < LEAVINGS_MAX ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return false;
    l->look = event_new(r->options.base, -1, 0, on_look, l);
    if (!l->look) {
        free(l);
        return false;
    }
    l->registrar = r;
    l->files = files;
    l->status = m->status;
    m->status = (struct status_mapping){.fd = -1};
    for (int i = 0; i < PAGE_STREAMS_MAX; i++)
        l->started[i] = atomic_load(&l->status.page->started[i]);
    l->moved_ms = clock_boot_ms();
    l->until_ms = l->moved_ms + LEAVING_MS_MAX;
    list_append(&r->leavings, &l->link);
    r->leaving_count++;
    status_clear_marks(&l->status);
    on_look(-1, 0, l);
    return true;
}

/* Takes the member's files; NULL: none left. */
static struct files *take_out(struct member *m)
{
    struct files *files = m->file_count > 0 ? malloc(sizeof *files) : NULL;
    if (!files) {
        member_drop_files(m);
        return NULL;
    }
    files->count = m->file_count;
    memcpy(files->fds, m->files, m->file_count * sizeof *m->files);
    m->file_count = 0;
    return files;
}

void member_leave_files(struct member *m)
{
    struct files *files = take_out(m);
    if (files && (m->status.fd < 0 || !begin_leaving(m, files)))
        close_apart(files);
}

void member_check_files(struct member *m)
{
    bool has_left = m->fd < 0 && m->left_ms > 0 && clock_boot_ms() - m->left_ms >= LEAVING_MS_MAX;
    struct files *files = has_left ? take_out(m) : NULL;
    if (files)
        close_apart(files);
}

/* ---- members ---- */

void member_drop_files(struct member *m)
{
    for (size_t i = 0; i < m->file_count; i++)
        close(m->files[i]); /* the process has these files open too */
    m->file_count = 0;
}

/* Returns whether the file is a device's, real or emulated: closing any other file could have
 * effects on others, or take time. */
static bool is_device_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISREG(st.st_mode));
}

/* Takes the files only under MPS. Without MPS the end of a process harms no other, and the driver
 * may have to close the files to move the process's memory to the host's. */
void member_take_files(struct member *m, const int *files, size_t count)
{
    member_drop_files(m);
    for (size_t i = 0; i < count; i++) {
        if (m->session->terms->has_mps && m->file_count < REGISTER_FILES_MAX &&
            is_device_file(files[i]))
            m->files[m->file_count++] = files[i];
        else
            close(files[i]);
    }
}
