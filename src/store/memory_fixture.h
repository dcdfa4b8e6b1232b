/* A store in memory, against which the tests hold SQLite's answers. */
#pragma once
#include "store/store.h"

int store_open_memory(struct error *e, struct store **ret);
