/* Nodes and reports as members of other JSON: shared by record and nodemsg. */
#pragma once
#include "wire/json_reader.h"
#include "wire/json_writer.h"
#include "wire/record.h"

void record_put_node(struct json_writer *w, const struct node_info *info);
/* Reads what record_put_node wrote; errors have this code. */
int record_take_node(struct error *e, enum error_code code, struct arena *arena, json_t *json,
                     struct node_info *ret);
