/* What a user calls a workload by: an id, a name, or the name of an array, which means all
 * of it. */
#pragma once
#include "cli/connect/client.h"

struct references {
    size_t count;
    const char **items; /* ids or names of one workload each; in the client's arena */
    size_t ended_count;
    const char **ended; /* arrays of which all has ended, where only what has not was wanted */
};

enum array_part { ARRAY_ALL, ARRAY_LIVE };

/* Replaces every array's name among the words by the ids of its elements, or of those that have not
 * ended; other words are taken as they are, the pointers too. */
int references_expand(struct error *e, struct client *c, size_t count, char *const *words,
                      enum array_part part, struct references *ret);
/* Says of which arrays all has ended. Returns an exit code. */
int references_tell_ended(const struct invocation *in, const struct references *list);

/* A command about the workloads that its operands name: gets each, `suffix` after its path, and has
 * it shown, a line apart, or prints it as the user wants. Returns the command's status: of the
 * first that failed. */
int references_show(const struct invocation *in, enum array_part part, const char *suffix,
                    int (*show)(const json_t *answer));
