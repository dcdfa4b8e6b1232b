/*
 * Declarations inside store/: the operations of an implementation, and the layout of a batch. A new
 * implementation fills a struct store_ops, embeds struct store as its first member, declares its
 * open function in a header, and passes the scenarios of store_test.c.
 */
#pragma once
#include "base/arena.h"
#include "store/store.h"

enum { STORE_BATCH_BYTES_MAX = 256 << 20 };

/* Each member implements the function of the same name in store.h. */
struct store_ops {
    void (*close)(struct store *s);
    int (*commit)(struct error *e, struct store *s, const struct store_batch *b);
    int (*trim)(struct error *e, struct store *s, uint64_t keep_events);
    int (*list)(struct error *e, struct store *s, const struct store_filter *filter,
                store_workload_fn fn, void *arg);
    int (*get)(struct error *e, struct store *s, uint64_t id, store_workload_fn fn, void *arg);
    int (*resolve)(struct error *e, struct store *s, const struct store_owner *owner,
                   const char *name, uint64_t *ret_ids, size_t room);
    int (*load)(struct error *e, struct store *s, store_node_fn node_fn,
                store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id);
    int (*nodes)(struct error *e, struct store *s, store_node_fn fn, void *arg);
    int (*tokens)(struct error *e, struct store *s, store_token_fn fn, void *arg,
                  uint64_t *ret_last_id);
    int (*events)(struct error *e, struct store *s, uint64_t since, uint64_t workload, size_t limit,
                  store_event_fn fn, void *arg);
    uint64_t (*revision)(struct store *s);
    void (*count)(struct store *s, struct store_counters *ret);
    int (*check)(struct error *e, struct store *s);
};

struct store {
    const struct store_ops *ops;
};

enum store_op_kind {
    STORE_OP_SPEC,
    STORE_OP_WORKLOAD,
    STORE_OP_STATUS,
    STORE_OP_DELETE,
    STORE_OP_NODE,
    STORE_OP_TOKEN,
    STORE_OP_DELETE_TOKEN,
    STORE_OP_EVENT,
};

/* One operation of a batch; strings belong to the batch's arena. */
struct store_op {
    struct store_op *next;
    enum store_op_kind kind;
    union {
        struct {
            uint64_t id;
            const char *json, *summary;
        } spec;
        struct store_workload workload;
        struct {
            uint64_t id;
            enum workload_state state;
            int64_t ended_wall_ms;
            const char *json;
        } status;
        struct {
            uint64_t id;
        } delete;
        struct {
            const char *name;
            bool drained;
            const char *json;
        } node;
        struct store_token token;
        struct {
            uint64_t id;
        } delete_token;
        struct store_event event;
    };
};

struct store_batch {
    struct arena arena;
    struct store_op *first, **last;
    size_t count;
};

/* Errors of a batch that contradicts the stored state, with the same texts in every
 * implementation. */
int store_error_spec_exists(struct error *e, uint64_t spec_id);
int store_error_workload_exists(struct error *e, uint64_t id);
int store_error_token_exists(struct error *e, uint64_t id);
int store_error_no_workload(struct error *e, uint64_t id);
int store_error_events_gone(struct error *e, uint64_t since, uint64_t oldest);
