#include "node/attempt/terms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "wire/json_writer.h"

bool terms_are_suspendable(const struct terms *terms)
{
    return terms->kind == WORKLOAD_TASK && !terms->has_mps && !terms->resumable;
}

int terms_share_percent(const struct terms *terms)
{
    return terms->share_percent > 0 ? terms->share_percent : terms->share_max_percent;
}

void terms_lose_mps(struct terms *terms, const char *why)
{
    terms->has_mps = false;
    str_copy(terms->without_mps, sizeof terms->without_mps, why);
    terms->share_percent = 0; /* only MPS would have kept it */
    terms->share_why[0] = '\0';
    terms->suspendable = terms_are_suspendable(terms);
}

void terms_put(struct json_writer *w, const struct terms *terms)
{
    json_begin_object(w);
    json_put_string(json_key(w, "kind"), workload_kind_name(terms->kind));
    json_begin_array(json_key(w, "devices"));
    for (int i = 0; i < terms->device_count; i++)
        json_put_string(w, terms->devices[i]);
    json_end_array(w);
    json_put_uint(json_key(w, "quota_bytes"), terms->quota_bytes);
    json_put_int(json_key(w, "share_min"), terms->share_min_percent);
    json_put_int(json_key(w, "share_max"), terms->share_max_percent);
    json_put_bool(json_key(w, "protected"), terms->is_protected);
    json_put_string(json_key(w, "unprotected"), terms->unprotected);
    json_put_bool(json_key(w, "suspect"), terms->is_suspect);
    json_put_bool(json_key(w, "mps"), terms->has_mps);
    json_put_string(json_key(w, "without_mps"), terms->without_mps);
    json_put_bool(json_key(w, "suspendable"), terms->suspendable);
    json_put_bool(json_key(w, "resumable"), terms->resumable);
    json_put_int(json_key(w, "share"), terms->share_percent);
    json_put_string(json_key(w, "share_why"), terms->share_why);
    json_put_real(json_key(w, "slo_percentile"), terms->slo_percentile);
    json_put_real(json_key(w, "slo_latency_ms"), terms->slo_latency_ms);
    json_end_object(w);
}

static bool take_devices(const json_t *list, struct terms *terms)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > WORKLOAD_DEVICES_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *uuid = json_string_value(json_array_get(list, i));
        if (!uuid || !str_copy(terms->devices[i], DEVICE_UUID_MAX, uuid))
            return false;
    }
    terms->device_count = (int)count;
    return true;
}

/* What an agent of version 0.1 did not write. */
static bool take_newer(const json_t *root, struct terms *terms)
{
    json_int_t share = 0;
    const char *why = "";
    int resumable = 0;
    if (json_unpack((json_t *)(uintptr_t)root, "{s?I s?s s?F s?F s?b}", "share", &share,
                    "share_why", &why, "slo_percentile", &terms->slo_percentile, "slo_latency_ms",
                    &terms->slo_latency_ms, "resumable", &resumable) < 0)
        return false;
    terms->resumable = resumable;
    if (share < 0 || share > 100)
        return false;
    terms->share_percent = (int)share;
    return str_copy(terms->share_why, sizeof terms->share_why, why) &&
           !signbit(terms->slo_latency_ms) && !signbit(terms->slo_percentile) &&
           terms->slo_percentile <= 100;
}

bool terms_take(const json_t *root, struct terms *ret)
{
    struct terms terms = {0};
    json_t *devices;
    json_int_t quota, share_min, share_max;
    const char *kind, *unprotected, *without_mps;
    int is_protected, has_mps;
    int is_suspect = 0, suspendable = 0; /* older records say nothing of these */
    if (json_unpack((json_t *)(uintptr_t)root, "{ss so sI sI sI sb ss s?b sb ss s?b}", "kind",
                    &kind, "devices", &devices, "quota_bytes", &quota, "share_min", &share_min,
                    "share_max", &share_max, "protected", &is_protected, "unprotected",
                    &unprotected, "suspect", &is_suspect, "mps", &has_mps, "without_mps",
                    &without_mps, "suspendable", &suspendable) < 0)
        return false;
    if (workload_kind_parse(kind, &terms.kind) < 0 || !take_devices(devices, &terms) || quota < 0 ||
        share_min < 0 || share_min > share_max || share_max > 100 ||
        !str_copy(terms.unprotected, sizeof terms.unprotected, unprotected) ||
        !str_copy(terms.without_mps, sizeof terms.without_mps, without_mps) ||
        !take_newer(root, &terms))
        return false;
    terms.quota_bytes = (uint64_t)quota;
    terms.share_min_percent = (int)share_min;
    terms.share_max_percent = (int)share_max;
    terms.is_protected = is_protected;
    terms.is_suspect = is_suspect;
    terms.has_mps = has_mps;
    terms.suspendable = suspendable;
    *ret = terms;
    return true;
}

static void describe_hold(const struct terms *terms, enum terms_loaded loaded,
                          char text[WORKLOAD_TEXT_MAX])
{
    const char *share = terms->share_max_percent < 100 && terms->kind == WORKLOAD_TASK
                            ? "by the rate of its launches"
                            : "is not limited";
    if (terms->is_protected && loaded != LOADED_BY_ALL)
        snprintf(text, WORKLOAD_TEXT_MAX,
                 "NOT enforced: %s loaded libgpumux-cuda.so (it is static, LD_PRELOAD was taken "
                 "away, or GPUMUX_DISABLE is set)%s",
                 loaded == LOADED_BY_NONE ? "no process of it has" : "one of its processes has not",
                 terms->has_mps ? "; MPS still limits its clients" : "");
    else if (!terms->is_protected && !terms->has_mps)
        snprintf(text, WORKLOAD_TEXT_MAX, "quota and share are not enforced: %.100s",
                 terms->unprotected);
    else if (!terms->is_protected)
        snprintf(text, WORKLOAD_TEXT_MAX, "quota and share are enforced by MPS alone: %.100s",
                 terms->unprotected);
    else if (terms->has_mps && terms->share_why[0])
        snprintf(text, WORKLOAD_TEXT_MAX,
                 "quota and share are enforced, through MPS: %d %% of the SMs, for %.100s",
                 terms_share_percent(terms), terms->share_why);
    else if (terms->has_mps)
        snprintf(text, WORKLOAD_TEXT_MAX, "quota and share are enforced, through MPS");
    else if (terms->quota_bytes == 0)
        snprintf(text, WORKLOAD_TEXT_MAX, "it has no quota, but its devices to itself; share %s",
                 share);
    else
        snprintf(text, WORKLOAD_TEXT_MAX, "quota is enforced, share %s: time-sliced, %.100s", share,
                 terms->without_mps);
}

char *terms_describe(const struct terms *terms, const struct terms_facts *facts,
                     char text[WORKLOAD_TEXT_MAX])
{
    describe_hold(terms, facts->loaded, text);
    size_t length = strlen(text);
    if (facts->is_unlisted && terms->is_protected && terms->quota_bytes > 0)
        snprintf(text + length, WORKLOAD_TEXT_MAX - length,
                 "; the driver does not say what processes hold, so contexts count by estimate");
    return text;
}
