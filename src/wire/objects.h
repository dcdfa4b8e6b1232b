/* The tables (fields.h) that encode structs of model/ for messages, files, the store and the
 * API. */
#pragma once
#include "wire/fields.h"

/* Members of hello, report and beat. The file exit.json is an attempt_report. */
extern const struct fields node_info_fields, device_fields, device_health_fields,
    device_note_fields, device_usage_fields, attempt_usage_fields, attempt_report_fields;
/* Objects of the store and the API. */
extern const struct fields attempt_fields, workload_status_fields;
