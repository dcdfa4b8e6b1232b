/* The table of `gpumux explain` and `gpumux sim --explain`: how the policy judges the devices. */
#pragma once
#include <jansson.h>

/* Prints an explanation with the keys of the API, and below the table the meaning of its columns.
 * Returns an exit code. */
int explanation_print(const json_t *answer);
