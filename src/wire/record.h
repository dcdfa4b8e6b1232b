/* Statuses, nodes and dependencies as JSON, for the store and the API. */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/node.h"
#include "model/workload.h"

/* Append one line of JSON. Return 0 or -ERR_NO_MEMORY. */
int record_write_status(const struct workload_status *status, struct str *out);
int record_write_node(const struct node_info *info, struct str *out);
/* Appends [[ID, SUCCEEDED], …]. */
int record_write_after(const struct after_id *after, size_t count, struct str *out);

/* Parse a text that record_write_* wrote. Attempts and labels belong to the arena. Unknown keys are
 * ignored, because a newer minor version may add them; any other deviation is -ERR_CORRUPT. */
int record_parse_status(struct error *e, struct arena *arena, const char *text,
                        struct workload_status *ret);
int record_parse_node(struct error *e, struct arena *arena, const char *text,
                      struct node_info *ret);
int record_parse_after(struct error *e, struct arena *arena, const char *text,
                       struct after_id **ret, size_t *ret_count);
