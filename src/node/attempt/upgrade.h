/*
 * Reads the files of an attempt that an agent of version 0.1 left, before records existed:
 * terms/W.A and terms/W.A.verdict, suspended/W.A, and grant.json in the attempt's directory. The
 * files are read once, written as a record, and removed.
 */
#pragma once
#include "attempt/attempt.h"
#include "base/error.h"

struct run;

/* Converts the files of one attempt. Returns 0, an error, or -ERR_NOT_FOUND for an attempt without
 * devices, whose files need no conversion. */
int upgrade_record(struct error *e, struct run *r, struct attempt_kept *kept);

struct own_record;
/* Parse the files. Return false for any text that an agent of version 0.1 did not write. */
bool upgrade_parse_verdict(const char *text, size_t length, struct attempt_kept *kept);
bool upgrade_parse_suspension(const char *text, size_t length, struct own_record *own,
                              struct attempt_kept *kept);
