/* The controller of a service and the attainment of its SLO, as text: usage.control of the API. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"
#include "cli/frame/show.h"

/* Writes the part of requests in time over a period ("1m", "10m", "1h"; "": the attempt) as
 * "99.87%"; "-" without requests or without a target. 100% means that no request was late. */
char *attainment_show(const json_t *control, const char *period, char text[SHOW_TEXT_MAX]);
/* Writes the target: "p99 50 ms", "50 ms" for an unknown percentile, "1.10x alone" without an
 * SLO. */
char *attainment_show_target(const json_t *control, char text[SHOW_TEXT_MAX]);
/* Writes the tasks' speed relative to the fastest measured setting as "97%"; "-" if unknown. */
char *attainment_show_tasks(const json_t *control, char text[SHOW_TEXT_MAX]);
/* Returns whether more requests of the last 10 minutes were late than the SLO allows. */
bool attainment_is_missed(const json_t *control);

/* Appends lines of a label and a text: setting, reason, attainment, cost to tasks. */
void attainment_write(const json_t *control, struct str *out);
/* Appends one line with the attainment of each of the last 60 minutes, the present minute last:
 * eighths of blocks in UTF-8, else the digits 1 to 8; a space for a minute without requests.
 * Appends nothing without requests or without a target. */
void attainment_write_history(const json_t *control, bool utf8, struct str *out);
