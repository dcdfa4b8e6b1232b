/* The types of messages by name. */
#pragma once
#include "wire/nodemsg.h"

/* Indexed by enum nodemsg_type. */
extern const char *const nodemsg_type_names[NODEMSG_TYPE_END];
