/*
 * The store: the durable state of the cluster. One writer (the store thread) commits batches; one
 * reader (the loop thread) answers the API's requests from committed state. sqlite.c implements the
 * store on disk. memory_fixture.c implements a store in memory; the tests compare both.
 *
 * A row of `workload` has columns for searches, and two JSON texts written by wire/: the spec
 * (shared by the elements of an array, immutable, with a summary for lists) and the status
 * (replaced at every change). Every event gets the next revision; a watcher resumes at the last
 * revision that it received.
 *
 * This folder contains the durable state. Files of the folder store may include base, model, wire.
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
    uint64_t first; /* first id of the submission, whose ids are first … first + submitted - 1 */
    size_t submitted;
    uint64_t spec_id;
    uint32_t uid;            /* uid of the submitter; UID_BY_NAME: the account is known only by name
                              * on this machine */
    const char *user;        /* name of the submitter's account at the time of submission */
    const char *name, *base; /* "sweep[3]", "sweep" */
    const char *key;         /* key of an idempotent submission; NULL: none */
    int array_index;         /* index in the array; -1: not in an array */
    enum workload_kind kind;
    int priority;
    enum workload_state state;
    int64_t submitted_wall_ms, ended_wall_ms;
    const char *after;   /* JSON: [[id, succeeded], …] */
    const char *status;  /* JSON */
    const char *spec;    /* JSON; "": lost; NULL for a finished workload in store_load(), and where
                          * a summary replaces the spec */
    const char *summary; /* JSON object with the members of the spec that lists show; NULL: not
                          * read */
};

struct store_event {
    uint64_t revision; /* assigned by the store */
    int64_t wall_ms;
    uint64_t workload; /* id of the workload; 0: none */
    int attempt;
    uint32_t uid;     /* owner of the workload */
    const char *node; /* name of the node; "": none */
    const char *what;
    const char *text;
};

/* A token that gives access. The store contains the token's hash, not the secret: see
 * tls/token.h. */
struct store_token {
    uint64_t id;
    const char *hash;    /* unique among all tokens */
    const char *role;    /* "viewer", "user", "admin"; "node": lets one node join, once */
    const char *account; /* account of the token's user; for a role "node" the required name of the
                          * node, or "" for any name */
    const char *creator;
    int64_t created_wall_ms, expires_wall_ms; /* 0: never expires */
};

/* ---- opening ---- */

/*
 * Opens or creates `directory`/gpumux.db, and locks the directory first (-ERR_BUSY: another gpumux
 * has the lock; the error gives the pid of that process). The call backs up a database with an
 * older schema in the same directory, and then migrates the database. Returns -ERR_TOO_NEW for a
 * newer schema. Returns -ERR_CORRUPT for a damaged database; the error names the command to run.
 */
int store_open_sqlite(struct error *e, const char *directory, struct store **ret);
/* Opens the store read-only and without the lock, for `state check|export`. */
int store_open_sqlite_readonly(struct error *e, const char *directory, struct store **ret);
void store_close(struct store *s);

/* ---- copying ---- */

struct store_backup {
    const char *file;
    bool overwrites; /* false: -ERR_CONFLICT if the file exists */
    /* Called after every piece; NULL: none. A result other than 0 ends the copy with that result.
     * While the copy is being verified, done equals all. */
    int (*progress)(void *arg, uint64_t done_bytes, uint64_t all_bytes);
    void *arg;
};

/* Facts about the copy, read from the copied file. */
struct store_copy {
    int64_t version, workloads, revision;
    uint64_t bytes;
};

/*
 * Copies the state in `directory`, as of one moment, to a file that only its owner can read. A
 * running gpumux continues to use the state. The file is a complete, verified and durable copy, or
 * is unchanged. The call copies an older layout unchanged, and returns -ERR_TOO_NEW for a newer
 * layout.
 */
int store_back_up_sqlite(struct error *e, const char *directory, const struct store_backup *backup,
                         struct store_copy *ret);

/* ---- writing: one thread builds a batch, then the writer's thread commits it ---- */

struct store_batch *store_batch_new(void);
void store_batch_free(struct store_batch *b);
/* Add operations, which take effect in the order of the calls; all arguments are copied. Return 0
 * or -ERR_NO_MEMORY. */
int store_batch_spec(struct store_batch *b, uint64_t spec_id, const char *json,
                     const char *summary);
int store_batch_workload(struct store_batch *b, const struct store_workload *row);
/* Change or delete a workload; for an unknown workload the operation does nothing. The deletion of
 * the last workload of a spec also deletes the spec. */
int store_batch_status(struct store_batch *b, uint64_t id, enum workload_state state,
                       int64_t ended_wall_ms, const char *json);
int store_batch_delete(struct store_batch *b, uint64_t id);
int store_batch_node(struct store_batch *b, const char *name, bool drained, const char *json);
/* Adds a token. The commit fails with -ERR_CONFLICT if the token's id or hash exists. */
int store_batch_token(struct store_batch *b, const struct store_token *token);
int store_batch_delete_token(struct store_batch *b, uint64_t id);
/* Adds an event. The commit assigns the next revision; event->revision is ignored. */
int store_batch_event(struct store_batch *b, const struct store_event *event);
/* Removes all operations from the batch. */
void store_batch_clear(struct store_batch *b);
size_t store_batch_count(const struct store_batch *b);

/* Commits the whole batch durably, or nothing, on the writer's thread. Returns 0, -ERR_CONFLICT if
 * the id of a spec, workload or token exists, or -ERR_STORE if the batch could not be written (a
 * full disk); the store stays usable. */
int store_commit(struct error *e, struct store *s, const struct store_batch *b);
/* Deletes the oldest events, all but `keep_events`, on the writer's thread. */
int store_trim(struct error *e, struct store *s, uint64_t keep_events);

/* ---- reading: on the reader's thread; strings passed to a callback live until it returns ---- */

/* A callback that returns a value other than 0 ends the read call, which then returns that value. A
 * callback may not call the store. */
typedef int (*store_workload_fn)(void *arg, const struct store_workload *row);
typedef int (*store_event_fn)(void *arg, const struct store_event *event);
typedef int (*store_node_fn)(void *arg, const char *name, bool drained, const char *json);
typedef int (*store_token_fn)(void *arg, const struct store_token *token);

/* The owner of a workload: a uid, or with UID_BY_NAME the account of that name. */
struct store_owner {
    uint32_t uid;
    const char *user; /* used only with UID_BY_NAME */
};

struct store_filter {
    uint32_t states;                 /* one bit for each enum workload_state; 0: all states */
    int kind;                        /* enum workload_kind; -1: both */
    const struct store_owner *owner; /* NULL: any owner */
    const char *name;                /* name, or base name of an array; NULL: all */
    uint64_t before;                 /* upper bound of the ids, exclusive; 0: none */
    size_t limit;                    /* number of rows, ≤ STORE_PAGE_MAX */
    bool summaries; /* rows get their summary; the spec is read only for WORKLOAD_STARTING, and for
                    * rows of an older gpumux, which have no summary */
};
/* Lists workloads, newest first. */
int store_list(struct error *e, struct store *s, const struct store_filter *filter,
               store_workload_fn fn, void *arg);
/* Returns 0 or -ERR_NOT_FOUND. */
int store_get(struct error *e, struct store *s, uint64_t id, store_workload_fn fn, void *arg);
/* Finds the newest submission of this owner (NULL: any owner) with that name; the base name of an
 * array selects all its elements. Writes up to `room` ids and returns their number; 0: none. */
int store_resolve(struct error *e, struct store *s, const struct store_owner *owner,
                  const char *name, uint64_t *ret_ids, size_t room);
/* Reads the whole state, oldest workload first, to build a cluster: live workloads with spec,
 * finished workloads with NULL spec and status. *ret_last_id is the largest id ever assigned,
 * including the ids of deleted workloads. */
int store_load(struct error *e, struct store *s, store_node_fn node_fn,
               store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id);
/* Reads every node that ever joined, sorted by name. */
int store_nodes(struct error *e, struct store *s, store_node_fn fn, void *arg);
/* Reads every token, sorted by id. *ret_last_id is the largest id ever assigned, including the ids
 * of deleted tokens. */
int store_tokens(struct error *e, struct store *s, store_token_fn fn, void *arg,
                 uint64_t *ret_last_id);
/* Reads events after `since`, oldest first. Returns 0, or -ERR_GONE if some of these events were
 * deleted. */
int store_events(struct error *e, struct store *s, uint64_t since, uint64_t workload, size_t limit,
                 store_event_fn fn, void *arg);
/* Returns the newest committed revision. */
uint64_t store_revision(struct store *s);

struct store_counters {
    uint64_t commits; /* number of commits, each with one sync */
    uint64_t operations;
    uint64_t bytes; /* size of the database */
};
/* Reads the counters, which include at least the commits up to store_revision(). */
void store_count(struct store *s, struct store_counters *ret);
/* Checks the integrity of the whole state. Returns 0, or -ERR_CORRUPT with the finding. */
int store_check(struct error *e, struct store *s);
