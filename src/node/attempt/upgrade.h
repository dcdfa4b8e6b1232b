/*
 * What an agent of version 0.1 left of an attempt, before there were records: terms/W.A and
 * terms/W.A.verdict, suspended/W.A, and grant.json in the attempt's directory. Read once, written
 * as a record, and removed.
 */
#pragma once
#include "attempt/attempt.h"
#include "base/error.h"

struct run;

/* -ERR_NOT_FOUND: it had no devices, and little is lost. */
int upgrade_record(struct error *e, struct run *r, struct attempt_kept *kept);

struct own_record;
/* Its parsers. False on anything that such an agent did not write. */
bool upgrade_parse_verdict(const char *text, size_t length, struct attempt_kept *kept);
bool upgrade_parse_suspension(const char *text, size_t length, struct own_record *own,
                              struct attempt_kept *kept);
