/*
 * Members of JSON objects in responses, with a fallback for a member that is null or missing. Text
 * is borrowed from the object.
 */
#pragma once
#include <jansson.h>
#include <stdint.h>

const char *json_text(const json_t *object, const char *key, const char *fallback);
int64_t json_number(const json_t *object, const char *key, int64_t fallback);
double json_fraction(const json_t *object, const char *key, double fallback);
