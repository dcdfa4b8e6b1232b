/* What protects a workload's neighbours from it, for people: the part of `gpumux describe` about it. */
#pragma once
#include <jansson.h>

/* Prints lines of a label and a text, from usage.protection of the API; nothing for what never happened. */
void protection_print(const json_t *protection);
