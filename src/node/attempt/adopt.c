/* What an agent before us left: every directory in attempts/ is one run, alive, ended, or nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/agent_internal.h"
#include "node/cgroup.h"
#include "base/durable.h"
#include "node/attempt/verdict_file.h"

enum { STRANDED_GRACE_MS = 1000 /* what it did on its device is lost already */ };

/* Never got to its record, and nobody holds its lock: nothing was run, so it can be granted again. */
static bool never_was(struct agent *a, const char *name, int directory_fd)
{
    struct stat st;
    if (fstatat(directory_fd, "record.json", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
        fstatat(directory_fd, "exit.json", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    int fd = openat(a->locks_fd, name, O_RDWR | O_CLOEXEC);
    bool is_free = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return is_free;
}

/* Of the devices that it was given; NULL: all are there, or none at all, which says more about the driver. */
static const char *missing_device(const struct run *r)
{
    const struct terms *terms = r->ward ? ward_terms(r->ward) : NULL;
    for (int i = 0; terms && r->agent->info.device_count > 0 && i < terms->device_count; i++)
        if (agent_find_device(r->agent, terms->devices[i]) < 0)
            return terms->devices[i];
    return NULL;
}

/* A device that fell off the bus while no agent ran, or was taken out: its end is no failure of its own. */
static void judge_stranded(struct run *r)
{
    struct verdict verdict = {.verdict = VERDICT_MOVED};
    struct error e = {0};
    const char *uuid = missing_device(r);
    if (!uuid || r->tenancy.verdict != VERDICT_OWN)
        return;
    (void)snprintf(verdict.why, sizeof verdict.why, "its device %s is not there any more", uuid);
    r->tenancy.verdict = verdict.verdict;
    str_copy(r->tenancy.why, sizeof r->tenancy.why, verdict.why);
    log_write(r->agent->log, LOG_WARN, "attempt has lost its device", "attempt=%s device=%s",
              r->name, uuid);
    if (verdict_save(&e, r->agent->terms_fd, r->name, &verdict) < 0)
        log_write(r->agent->log, LOG_ERROR, "cannot record why an attempt is ended",
                  "attempt=%s error=\"%s\"", r->name, e.text);
}

static void end_stranded(struct run *r)
{
    const struct control_command stop = {
        .kind = CONTROL_STOP, .grace_ms = suspend_is_on_the_way(r) ? 0 : STRANDED_GRACE_MS};
    if (missing_device(r) && mailbox_post(r, 0, &stop) == 0)
        r->stop_grace_ms = stop.grace_ms;
}

/* True: it has ended, and what of can be told when all are known. */
static bool adopt_failed(struct run *r)
{
    if (r->tenancy.verdict != VERDICT_OWN || !run_failed_unseen(r))
        return false;
    protect_adopt(r);
    judge_stranded(r);
    if (!r->ward || !ward_terms(r->ward)->has_mps || r->tenancy.verdict != VERDICT_OWN)
        return false;
    r->tenancy.unseen = true;
    monitor_adopted(r, false);
    return true;
}

static int adopt_one(struct error *e, struct agent *a, const char *name)
{
    uint64_t workload;
    int attempt;
    if (!attempt_name_parse(name, &workload, &attempt))
        return 0;
    int fd = openat(a->attempts_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "attempts/%s cannot be opened", name);
    if (never_was(a, name, fd)) {
        close(fd);
        cgroup_end(a->cgroup_fd, name);
        return durable_remove_tree(e, a->attempts_fd, name);
    }
    struct run *r = run_new(a, workload, attempt, fd);
    if (!r)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    monitor_recall(r);
    if (adopt_failed(r))
        return 0;
    run_look(r);
    if (!run_is_alive(r))
        return 0;
    if (!r->ward)
        protect_adopt(r);
    bool suspended = suspend_adopt(r);
    judge_stranded(r);
    monitor_adopted(r, suspended);
    end_stranded(r);
    if (suspended && !missing_device(r))
        suspend_continue(r);
    return 0;
}

static const char *unseen_on(const struct run *r)
{
    return r->tenancy.unseen ? ward_terms(r->ward)->devices[0] : NULL;
}

/* Clients of MPS that failed while nobody watched: their ends are told when the device and its MPS have been asked. */
static void look_at_unseen(struct agent *a)
{
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        list_for_each (other, &a->runs)
            if (other != it && unseen_on(r) &&
                str_equal(unseen_on(r), unseen_on(list_entry(other, struct run, link))))
                r->tenancy.not_the_only_one = true;
    }
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (r->tenancy.unseen)
            run_look(r);
    }
}

/* Groups of attempts that are no more, removed now that nothing can be in them. */
static void end_stale_groups(struct agent *a)
{
    int fd = a->cgroup_fd < 0 ? -1 : openat(a->cgroup_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    uint64_t workload;
    int attempt;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (attempt_name_parse(entry->d_name, &workload, &attempt) &&
            !run_find(a, workload, attempt))
            cgroup_end(a->cgroup_fd, entry->d_name);
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
}

int adopt_all(struct error *e, struct agent *a)
{
    int fd = openat(a->attempts_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, ERR_IO, errno, "attempts/ cannot be read");
    }
    int r = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(directory));)
        r = adopt_one(e, a, entry->d_name);
    closedir(directory);
    if (r < 0)
        return r;
    look_at_unseen(a);
    end_stale_groups(a);
    if (agent_alive(a) == 0)
        lease_reset(&a->lease);
    return 0;
}
