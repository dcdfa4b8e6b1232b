/*
 * The configuration of the daemons. config.def is the one list: every key with its type, default,
 * limits and one line of help; `config default` prints it, `config check FILE` judges a file, and
 * flags override. YAML, `version: 1`, unknown keys refused with a hint.
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

/* Which daemon reads a key. A file may serve both; each passes over what the other reads. */
enum config_reader { CONFIG_BY_CONTROL = 1, CONFIG_BY_NODE = 2, CONFIG_BY_BOTH = 3 };
/* Of an unknown key: both, and config_set says what is wrong. */
enum config_reader config_reader(const char *key);

/* Every default. Strings are constants or from the arena. */
int config_default(struct arena *arena, struct config *ret);
/* Reads YAML over what is already in *config; unchanged on error, which names key and line. */
int config_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                 struct config *config);
int config_load(struct error *e, struct arena *arena, const char *path, struct config *config);
/* Sets one key from text, as a flag does. */
int config_set(struct error *e, struct arena *arena, struct config *config, const char *key,
               const char *value);
/* Whether its values go together. config_parse asks; who has set keys asks after the last. */
int config_check(struct error *e, const struct config *config);
/* The whole configuration as commented YAML that config_parse accepts. */
int config_write(const struct config *config, struct str *out);
