#include "node/attempt/environment.h"

#include <inttypes.h>

#include "base/str.h"

enum {
#define ENVIRONMENT(name, when, what) VARIABLE_##name,
#include "node/attempt/environment.def"
#undef ENVIRONMENT
    VARIABLE_END
};

static const char *const variable_names[VARIABLE_END] = {
#define ENVIRONMENT(name, when, what) [VARIABLE_##name] = #name,
#include "node/attempt/environment.def"
#undef ENVIRONMENT
};

static char *join_devices(struct arena *arena, const struct grant *grant)
{
    char *text = arena_strdup(arena, "");
    for (int i = 0; text && i < grant->device_count; i++)
        text = arena_printf(arena, "%s%s%s", text, i ? "," : "", grant->devices[i]);
    return text;
}

/* Sets values[i]; NULL: the variable is not set. Returns false when out of memory. */
static bool fill_emulated(struct arena *arena, const struct grant *grant,
                          const struct environment_node *node, const char *values[VARIABLE_END])
{
    if (!node->emulate)
        return true;
    const char *path = pairs_get(&grant->spec->environment, "LD_LIBRARY_PATH");
    values[VARIABLE_GPUMUX_EMU] = node->emulate;
    values[VARIABLE_GPUMUX_EMU_SPEED] = node->emulate_speed;
    values[VARIABLE_LD_LIBRARY_PATH] =
        path && *path ? arena_printf(arena, "%s:%s", node->emulate_libraries, path)
                      : node->emulate_libraries;
    return values[VARIABLE_LD_LIBRARY_PATH] != NULL;
}

/* The user's own libraries precede the shim, so that their wrappers of the driver wrap the shim
 * too. */
static bool fill_protection(struct arena *arena, const struct grant *grant,
                            const struct environment_node *node, const char *values[VARIABLE_END])
{
    if (!node->shim)
        return true;
    const char *preload = pairs_get(&grant->spec->environment, "LD_PRELOAD");
    values[VARIABLE_GPUMUX_REGISTER] = node->register_path;
    values[VARIABLE_LD_PRELOAD] =
        preload && *preload ? arena_printf(arena, "%s:%s", preload, node->shim) : node->shim;
    return values[VARIABLE_LD_PRELOAD] != NULL;
}

/* Sets the variables of an MPS client, which a running client does not read again. */
static bool fill_mps(struct arena *arena, const struct grant *grant,
                     const struct environment_node *node, const char *values[VARIABLE_END])
{
    const struct workload_needs *needs = &grant->spec->needs;
    if (!node->mps_directory)
        return true;
    values[VARIABLE_CUDA_MPS_PIPE_DIRECTORY] = node->mps_directory;
    values[VARIABLE_CUDA_MPS_LOG_DIRECTORY] = node->mps_directory;
    values[VARIABLE_CUDA_MPS_CLIENT_PRIORITY] = needs->kind == WORKLOAD_SERVICE ? "0" : "1";
    if (node->share_percent < 100 && !(values[VARIABLE_CUDA_MPS_ACTIVE_THREAD_PERCENTAGE] =
                                           arena_printf(arena, "%d", node->share_percent)))
        return false;
    uint64_t mib = (needs->quota_bytes + (1 << 20) - 1) >> 20;
    return needs->quota_bytes == 0 || (values[VARIABLE_CUDA_MPS_PINNED_DEVICE_MEM_LIMIT] =
                                           arena_printf(arena, "0=%" PRIu64 "M", mib));
}

static bool fill_batch(struct arena *arena, const struct workload_spec *spec,
                       const char *values[VARIABLE_END])
{
    if (!spec->batch_reference)
        return true;
    const int64_t sizes[] = {spec->batch_reference, spec->batch_min, spec->batch_max,
                             spec->batch_step};
    const int variables[] = {VARIABLE_GPUMUX_BATCH_SIZE, VARIABLE_GPUMUX_BATCH_SIZE_MIN,
                             VARIABLE_GPUMUX_BATCH_SIZE_MAX, VARIABLE_GPUMUX_BATCH_SIZE_STEP};
    for (size_t i = 0; i < 4; i++)
        if (sizes[i] && !(values[variables[i]] = arena_printf(arena, "%" PRId64, sizes[i])))
            return false;
    return true;
}

static bool fill(struct arena *arena, const struct grant *grant,
                 const struct environment_node *node, const char *values[VARIABLE_END])
{
    const struct workload_needs *needs = &grant->spec->needs;
    values[VARIABLE_CUDA_VISIBLE_DEVICES] = join_devices(arena, grant);
    values[VARIABLE_GPUMUX_WORKLOAD_ID] = arena_printf(arena, "%" PRIu64, grant->workload);
    values[VARIABLE_GPUMUX_WORKLOAD_NAME] = grant->name;
    values[VARIABLE_GPUMUX_ATTEMPT] = arena_printf(arena, "%d", grant->attempt);
    values[VARIABLE_GPUMUX_MARK] =
        arena_printf(arena, "%s/%" PRIu64 ".%d", node->instance, grant->workload, grant->attempt);
    values[VARIABLE_GPUMUX_NODE] = node->name;
    values[VARIABLE_GPUMUX_CONTROL] = node->control_path;
    values[VARIABLE_GPUMUX_KIND] = workload_kind_name(needs->kind);
    values[VARIABLE_GPUMUX_SHARE_MIN] = arena_printf(arena, "%d", needs->share_min_percent);
    values[VARIABLE_GPUMUX_SHARE_MAX] = arena_printf(arena, "%d", needs->share_max_percent);
    for (int i = VARIABLE_CUDA_VISIBLE_DEVICES; i <= VARIABLE_GPUMUX_SHARE_MAX; i++)
        if (!values[i])
            return false;
    if (needs->quota_bytes && !(values[VARIABLE_GPUMUX_QUOTA_BYTES] =
                                    arena_printf(arena, "%" PRIu64, needs->quota_bytes)))
        return false;
    if (grant->array_index >= 0 &&
        !(values[VARIABLE_GPUMUX_ARRAY_INDEX] = arena_printf(arena, "%d", grant->array_index)))
        return false;
    return fill_batch(arena, grant->spec, values) && fill_protection(arena, grant, node, values) &&
           fill_mps(arena, grant, node, values) && fill_emulated(arena, grant, node, values);
}

static bool is_ours(const char *key, const char *const values[VARIABLE_END])
{
    for (int i = 0; i < VARIABLE_END; i++)
        if (values[i] && str_equal(key, variable_names[i]))
            return true;
    return false;
}

int environment_make(struct arena *arena, const struct grant *grant,
                     const struct environment_node *node, struct words *ret)
{
    const char *values[VARIABLE_END] = {0};
    const struct pairs *given = &grant->spec->environment;
    const char **items = arena_array(arena, given->count + VARIABLE_END + 1, sizeof(const char *));
    if (!items || !fill(arena, grant, node, values))
        return -ERR_NO_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < given->count; i++)
        if (!is_ours(given->items[i].key, values) &&
            !(items[count++] =
                  arena_printf(arena, "%s=%s", given->items[i].key, given->items[i].value)))
            return -ERR_NO_MEMORY;
    for (int i = 0; i < VARIABLE_END; i++)
        if (values[i] &&
            !(items[count++] = arena_printf(arena, "%s=%s", variable_names[i], values[i])))
            return -ERR_NO_MEMORY;
    *ret = (struct words){.count = count, .items = items};
    return 0;
}
