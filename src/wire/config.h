/*
 * The configuration of the daemons. config.def lists every key with its type, default, limits and
 * one line of help. `config default` prints the list, `config check FILE` checks a file, and flags
 * override a file. The format is YAML with `version: 1`; an unknown key is refused with a hint.
 */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/workload.h"

struct config {
#define CONFIG_STRING(name, key, reader, fallback, help)                const char *name;
#define CONFIG_NUMBER(name, key, reader, fallback, least, most, help)   int64_t name;
#define CONFIG_DURATION(name, key, reader, fallback, least, most, help) int64_t name##_ms;
#define CONFIG_BYTES(name, key, reader, fallback, least, most, help)    int64_t name##_bytes;
#define CONFIG_FLAG(name, key, reader, fallback, help)                  bool name;
#define CONFIG_PAIRS(name, key, reader, most, help)                     struct pairs name;
#include "wire/config.def"
#undef CONFIG_STRING
#undef CONFIG_NUMBER
#undef CONFIG_DURATION
#undef CONFIG_BYTES
#undef CONFIG_FLAG
#undef CONFIG_PAIRS
};

/* The daemons that read a key. One file may serve both daemons; each ignores the other's keys. */
enum config_reader { CONFIG_BY_CONTROL = 1, CONFIG_BY_NODE = 2, CONFIG_BY_BOTH = 3 };
/* Returns the daemons that read the key. For an unknown key returns CONFIG_BY_BOTH, so that
 * config_set() reports the error. */
enum config_reader config_reader(const char *key);

/* Sets every key to its default. Strings are constants or belong to the arena. */
int config_default(struct arena *arena, struct config *ret);
/* Reads YAML; the keys in the text replace their values in *config. An error names the key and the
 * line, and leaves *config unchanged. */
int config_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                 struct config *config);
int config_load(struct error *e, struct arena *arena, const char *path, struct config *config);
/* Sets one key from text, as a flag does. An error leaves *config unchanged. */
int config_set(struct error *e, struct arena *arena, struct config *config, const char *key,
               const char *value);
/* Checks values that depend on each other, such as backoff_min ≤ backoff_max. config_parse() calls
 * this function; a caller of config_set() calls it once after the last key. */
int config_check(struct error *e, const struct config *config);
/* Writes the whole configuration as commented YAML that config_parse() accepts. */
int config_write(const struct config *config, struct str *out);
