/* Values as text, for tables: times, sizes, states. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "cli/frame/output.h"

enum { SHOW_TEXT_MAX = 96 };

/* Parses "2026-11-15T05:46:15.123Z" into ms since 1970; -1 for null or another format. */
int64_t show_parse_time(const char *text);
/* Returns a member that is a time; -1 for null. */
int64_t show_time_member(const json_t *object, const char *key);
/* Writes "850ms", "12s", "3m05s", "2h07m", "5d03h": at most two units; "-" below 0. */
char *show_duration(int64_t ms, char text[SHOW_TEXT_MAX]);
/* Writes "512 KiB", "23.9 GiB". */
char *show_bytes(double bytes, char text[SHOW_TEXT_MAX]);
/* Writes "0.25/s", "5.4k/s", "17M/s"; "-" below 0. */
char *show_speed(double samples_per_s, char text[SHOW_TEXT_MAX]);
/* Returns the present speed; -1 unless the workload runs, because the last speed of a suspended
 * workload is stale. */
double show_samples_per_s(const json_t *workload);
/* Writes "0-100%" or "30%" from {"min", "max"}. */
char *show_share(const json_t *share, char text[SHOW_TEXT_MAX]);
/* Writes the quota on a device: "8 GiB", "whole" without a quota, "-" without devices. */
char *show_quota(const json_t *workload, char text[SHOW_TEXT_MAX]);
/* Writes "p99 below 50 ms" from {"percentile", "latency"}; "" without an SLO. */
char *show_slo(const json_t *slo, char text[SHOW_TEXT_MAX]);
/* Writes the run time of the workload; "-" before its start. */
char *show_run_time(const json_t *workload, int64_t now_wall_ms, char text[SHOW_TEXT_MAX]);
/* Writes "failed (exit 1)", "failed (signal 9)", "running". */
char *show_state(const json_t *workload, char text[SHOW_TEXT_MAX]);
enum output_colour show_state_colour(const char *state);
/* Appends the names of the devices of a workload, an attempt or a placement: "box:0 box:1". UUIDs
 * stand for the names if the server is too old to send names. Appends "-" for a workload without
 * devices, and for a queued workload, whose last attempt has ended. */
void show_devices(const json_t *of, struct str *out);
/* Appends the UUIDs of the same devices. */
void show_uuids(const json_t *of, struct str *out);
