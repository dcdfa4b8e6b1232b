/* The identity of this node: an instance id, created once in the state directory, and a name. */
#pragma once
#include "base/error.h"
#include "model/node.h"

/* Reads node.json in the directory, or creates it durably. */
int identity_load(struct error *e, int directory_fd, char ret_instance[NODE_INSTANCE_MAX]);
/* Writes the configured name, or else the host's name. */
int identity_name(struct error *e, const char *configured, char ret_name[NODE_NAME_MAX]);
