/*
 * The store: what survives. One writer (the store thread) commits batches; one reader (the loop
 * thread) answers the API's questions from what is committed. sqlite.c implements the store;
 * memory_fixture.c implements it again for the tests, which compare the two.
 *
 * A row of `workload` holds columns to search by, and two JSON texts written by wire/: the spec
 * (shared by the elements of an array, immutable, with a summary for lists) and the status
 * (replaced at every change). Every event gets the next revision; a watcher resumes at the
 * revision it has seen.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/workload.h"

enum { STORE_SCHEMA_VERSION = 3, STORE_PAGE_MAX = 1000 };

struct store;
struct store_batch;

struct store_workload {
    uint64_t id;
    uint64_t group; /* id of the first element of its array; its own id otherwise */
    uint64_t first; /* the submission it came with: ids first … first + submitted - 1 */
    size_t submitted;
    uint64_t spec_id;
    uint32_t uid;            /* the submitter's; UID_BY_NAME: an account that is only a name here */
    const char *user;        /* submitter's account name at that time */
    const char *name, *base; /* "sweep[3]", "sweep" */
    const char *key;         /* NULL: none */
    int array_index;         /* -1: not of an array */
    enum workload_kind kind;
    int priority;
    enum workload_state state;
    int64_t submitted_wall_ms, ended_wall_ms;
    const char *after;   /* JSON: [[id, succeeded], …] */
    const char *status;  /* JSON */
    const char *spec;    /* JSON; "": it is lost; NULL for a finished one of store_load, and where a
                           summary takes its place */
    const char *summary; /* JSON object with what a list shows of the spec; NULL: not read */
};

struct store_event {
    uint64_t revision; /* given by the store */
    int64_t wall_ms;
    uint64_t workload; /* 0: none */
    int attempt;
    uint32_t uid;     /* owner of the workload */
    const char *node; /* or "" */
    const char *what;
    const char *text;
};

/* A token that lets somebody in. Its secret is not kept: see tls/token.h. */
struct store_token {
    uint64_t id;
    const char *hash;    /* unlike that of any other */
    const char *role;    /* "viewer", "user", "admin"; "node": lets one node join, once */
    const char *account; /* as whom it acts; of a node's: the name the node must have, or "" */
    const char *creator;
    int64_t created_wall_ms, expires_wall_ms; /* 0: never */
};

/* ---- opening ---- */

/*
 * Opens or creates `directory`/gpumux.db. Takes the directory's lock first (-ERR_BUSY: another
 * gpumux has it, and the text names its pid). An older schema is copied beside itself, then
 * migrated; a newer one is refused (-ERR_TOO_NEW); damage is -ERR_CORRUPT with the command that
 * helps.
 */
int store_open_sqlite(struct error *e, const char *directory, struct store **ret);
/* The same, read-only, without the lock: `state check|export`. */
int store_open_sqlite_readonly(struct error *e, const char *directory, struct store **ret);
void store_close(struct store *s);

/* ---- copying ---- */

struct store_backup {
    const char *file;
    bool overwrites; /* false: -ERR_CONFLICT if the file exists */
    /* Called after every piece; an answer other than 0 ends the copy with that answer. NULL: none.
     * done == all: the copy is being verified. */
    int (*progress)(void *arg, uint64_t done_bytes, uint64_t all_bytes);
    void *arg;
};

/* What the copy holds, read back from it. */
struct store_copy {
    int64_t version, workloads, revision;
    uint64_t bytes;
};

/*
 * Copies the state in `directory`, as of one moment, to a file that only its owner may read; a
 * gpumux that has the state open goes on. The file is durable, and is a whole and sound copy, or is
 * as it was before. An older layout is copied as it is; a newer one is -ERR_TOO_NEW.
 */
int store_back_up_sqlite(struct error *e, const char *directory, const struct store_backup *backup,
                         struct store_copy *ret);

/* ---- writing: a batch is built by one thread, then committed by the writer's ---- */

struct store_batch *store_batch_new(void);
void store_batch_free(struct store_batch *b);
/* Everything is copied. 0 or -ERR_NO_MEMORY. Operations take effect in the order they came in. */
int store_batch_spec(struct store_batch *b, uint64_t spec_id, const char *json,
                     const char *summary);
int store_batch_workload(struct store_batch *b, const struct store_workload *row);
/* A status or a delete of a workload that is not there does nothing. The last workload that is
 * deleted takes its spec along. */
int store_batch_status(struct store_batch *b, uint64_t id, enum workload_state state,
                       int64_t ended_wall_ms, const char *json);
int store_batch_delete(struct store_batch *b, uint64_t id);
int store_batch_node(struct store_batch *b, const char *name, bool drained, const char *json);
/* -ERR_CONFLICT at commit: its id or hash is there already. */
int store_batch_token(struct store_batch *b, const struct store_token *token);
int store_batch_delete_token(struct store_batch *b, uint64_t id);
/* event->revision is ignored; the next one is given at commit. */
int store_batch_event(struct store_batch *b, const struct store_event *event);
/* Empties it. */
void store_batch_clear(struct store_batch *b);
size_t store_batch_count(const struct store_batch *b);

/* All of it, durably, or nothing. Writer's thread only. -ERR_CONFLICT: a spec, workload or token
 * has an id that is there already; -ERR_STORE: it could not be written (a full disk), the store
 * stays usable. */
int store_commit(struct error *e, struct store *s, const struct store_batch *b);
/* Deletes the oldest events past `keep_events`. Writer's thread only. */
int store_trim(struct error *e, struct store *s, uint64_t keep_events);

/* ---- reading: reader's thread only; strings handed to a callback live until it returns ---- */

/* A callback that answers other than 0 stops, and its answer is returned. It may not call the
 * store. */
typedef int (*store_workload_fn)(void *arg, const struct store_workload *row);
typedef int (*store_event_fn)(void *arg, const struct store_event *event);
typedef int (*store_node_fn)(void *arg, const char *name, bool drained, const char *json);
typedef int (*store_token_fn)(void *arg, const struct store_token *token);

/* Whose a workload is: a uid's, or with UID_BY_NAME the account's of that name. */
struct store_owner {
    uint32_t uid;
    const char *user; /* looked at only with UID_BY_NAME */
};

struct store_filter {
    uint32_t states;                 /* bit per enum workload_state; 0: all */
    int kind;                        /* enum workload_kind, or -1 */
    const struct store_owner *owner; /* NULL: anybody */
    const char *name;                /* name or array's base name; NULL: all */
    uint64_t before;                 /* ids below this; 0: from the newest */
    size_t limit;                    /* ≤ STORE_PAGE_MAX */
    bool
        summaries; /* a row gets its summary, and its spec only if it is WORKLOAD_STARTING or has no
                       summary, because an older gpumux stored it */
};
/* Newest first. */
int store_list(struct error *e, struct store *s, const struct store_filter *filter,
               store_workload_fn fn, void *arg);
/* -ERR_NOT_FOUND */
int store_get(struct error *e, struct store *s, uint64_t id, store_workload_fn fn, void *arg);
/* The ids of the newest submission of this owner (NULL: of anybody) under that name; an array's
 * base name gives all its elements. Returns how many were written (≤ room), 0: none. */
int store_resolve(struct error *e, struct store *s, const struct store_owner *owner,
                  const char *name, uint64_t *ret_ids, size_t room);
/* Everything, oldest first, for building a cluster: live workloads with spec, finished ones without
 * spec and status (both NULL). *ret_last_id: the largest id that was ever given, deleted or not. */
int store_load(struct error *e, struct store *s, store_node_fn node_fn,
               store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id);
/* Every node that ever joined, by name. */
int store_nodes(struct error *e, struct store *s, store_node_fn fn, void *arg);
/* Every token, by id. *ret_last_id: the largest id that was ever given, deleted or not. */
int store_tokens(struct error *e, struct store *s, store_token_fn fn, void *arg,
                 uint64_t *ret_last_id);
/* Events after `since`, oldest first. -ERR_GONE: some of them are no longer kept. */
int store_events(struct error *e, struct store *s, uint64_t since, uint64_t workload, size_t limit,
                 store_event_fn fn, void *arg);
/* The newest revision that is committed. */
uint64_t store_revision(struct store *s);

struct store_counters {
    uint64_t commits; /* each is one sync */
    uint64_t operations;
    uint64_t bytes; /* size of the database */
};
/* Counts at least what store_revision() has announced. */
void store_count(struct store *s, struct store_counters *ret);
/* Integrity check of everything; -ERR_CORRUPT says what. */
int store_check(struct error *e, struct store *s);
