/* Takes over the attempts of an earlier agent: every directory in attempts/ is a run that is alive,
 * has ended, or never began. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/agent_internal.h"
#include "node/cgroup.h"
#include "base/durable.h"
#include "node/attempt/upgrade.h"

enum { STRANDED_GRACE_MS = 1000 /* the work on the lost device is lost already */ };

/* Returns whether no supervisor was started, by the agent's own record first: the attempt never
 * ran, and can be granted again. */
static bool never_was(const struct run *r)
{
    const struct attempt_kept *kept = &r->life.kept;
    struct stat st;
    return r->own.supervisor_pid == 0 && kept->report.phase == ATTEMPT_ACCEPTED &&
           kept->verdict == VERDICT_OWN &&
           fstatat(r->directory_fd, "record.json", &st, AT_SYMLINK_NOFOLLOW) < 0 &&
           fstatat(r->directory_fd, "exit.json", &st, AT_SYMLINK_NOFOLLOW) < 0 && run_has_ended(r);
}

/* Returns a device of the attempt that is missing; NULL: all are present, or the node has none,
 * which is a problem of the driver. */
static const char *missing_device(const struct run *r)
{
    const struct terms *terms = &r->own.terms;
    for (int i = 0; r->agent->info.device_count > 0 && i < terms->device_count; i++)
        if (agent_find_device(r->agent, terms->devices[i]) < 0)
            return terms->devices[i];
    return NULL;
}

/* Describes the stop of an attempt whose device fell off the bus or was removed while no agent ran.
 * The stop does not count as the attempt's own failure. */
static bool describe_stranded(const struct run *r, struct attempt_stop *ret)
{
    const char *uuid = missing_device(r);
    if (!uuid)
        return false;
    *ret = (struct attempt_stop){
        .reason = STOP_REASON_LOST, .verdict = VERDICT_MOVED, .grace_ms = STRANDED_GRACE_MS};
    (void)snprintf(ret->why, sizeof ret->why, "one of its devices is not there any more");
    log_write(r->agent->log, LOG_WARN, "attempt device lost", "attempt=%s device=%s", r->name,
              uuid);
    return true;
}

/* Loads the record of the earlier agent, or converts the files of an older version. */
static int recall(struct error *e, struct run *r)
{
    struct attempt_kept kept = r->life.kept;
    int result = own_record_load(e, r->agent->records_fd, r->name, &r->own, &kept);
    if (result == -ERR_NOT_FOUND)
        result = upgrade_record(e, r, &kept);
    if (result < 0)
        return result;
    run_begin(r);
    r->life.kept = kept;
    r->life.traits.uses_mps = r->life.traits.uses_mps && !kept.without_mps;
    r->is_adopted = true;
    r->recorded = kept.report.phase >= ATTEMPT_STARTING;
    r->record.started_wall_ms = kept.report.started_wall_ms;
    return 0;
}

/* Adopts an attempt that ended while no agent ran. The cause of a failed client of MPS must still
 * be found. */
static void adopt_dead(struct run *r)
{
    bool is_stranded = describe_stranded(r, &r->stranded);
    r->is_unseen = r->life.traits.uses_mps && !is_stranded && r->life.kept.verdict == VERDICT_OWN &&
                   run_failed_unseen(r);
    if (!r->is_unseen) {
        run_look(r);
        return;
    }
    protect_adopt(r);
    run_tell_kind(r, ATTEMPT_ADOPT); /* its device judges the failure */
}

static void adopt_living(struct run *r)
{
    protect_adopt(r);
    run_tell_kind(r, ATTEMPT_ADOPT);
    if (describe_stranded(r, &r->stranded))
        run_stop(r, &r->stranded);
    run_look(r);
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
    struct run *r = run_new(a, workload, attempt, fd);
    if (!r)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    struct error lost = {0};
    int recalled = recall(&lost, r);
    if (recalled < 0 && recalled != -ERR_NOT_FOUND)
        log_write(a->log, LOG_ERROR, "attempt record not read", "attempt=%s error=\"%s\"", name,
                  lost.text);
    if (never_was(r)) {
        (void)run_clean_up(r, true);
        run_free(r);
        own_record_remove(a->records_fd, name);
        return durable_remove_tree(e, a->attempts_fd, name);
    }
    if (!run_is_alive(r))
        run_tell_kind(r, ATTEMPT_ADOPT); /* completes the end */
    else if (run_has_ended(r))
        adopt_dead(r);
    else
        adopt_living(r);
    return 0;
}

static bool share_a_device(const struct run *r, const struct run *other)
{
    return str_equal(r->own.terms.devices[0], other->own.terms.devices[0]);
}

/* Continues with clients of MPS that failed while no agent ran: their ends are reported when the
 * device and its MPS have been checked. */
static void look_at_unseen(struct agent *a)
{
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        list_for_each (other, &a->runs) {
            const struct run *o = list_entry(other, struct run, link);
            r->is_not_alone =
                r->is_not_alone || (o != r && r->is_unseen && o->is_unseen && share_a_device(r, o));
        }
    }
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (r->is_unseen)
            run_look(r);
    }
}

/* Removes the groups of attempts that no longer exist; their processes have ended. */
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
