/* A store in memory; the tests compare the SQLite store with it. */
#pragma once
#include "store/store.h"

int store_open_memory(struct error *e, struct store **ret);
