/* The words by which a user names workloads: an id, a name, or the name of an array, which stands
 * for all elements of the array. */
#pragma once
#include "cli/connect/client.h"

struct references {
    size_t count;
    const char **items; /* ids or names of one workload each, in the client's arena */
    size_t ended_count;
    const char **ended; /* names of arrays without live elements, for ARRAY_LIVE */
};

enum array_part { ARRAY_ALL, ARRAY_LIVE };

/* Replaces the name of an array among the words by the ids of its elements (ARRAY_LIVE: only of
 * live elements). Other words are kept, with the same pointers. */
int references_expand(struct error *e, struct client *c, size_t count, char *const *words,
                      enum array_part part, struct references *ret);
/* Prints the names of the arrays whose elements have all ended. Returns an exit code. */
int references_tell_ended(const struct invocation *in, const struct references *list);

/* Shows each workload that the operands name: requests the workload's API path plus `suffix`, then
 * calls `show`, or prints the response in the format of -o. Returns the exit code of the first
 * failure. */
int references_show(const struct invocation *in, enum array_part part, const char *suffix,
                    int (*show)(const json_t *answer));
