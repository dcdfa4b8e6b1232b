/* Allowances in the configuration: "alice: 2", "bob: 0.5+1", "@students: 0+4". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "control/control_internal.h"

enum { DEVICES_MAX = 1000000 };

/* Parses a number of devices at *text, which is advanced. */
static bool parse_devices(const char **text, double *ret)
{
    char *end;
    double value = strtod(*text, &end);
    if (end == *text || !isfinite(value) || value < 0 || value > DEVICES_MAX)
        return false;
    *text = end;
    *ret = value;
    return true;
}

static int parse_allowance(struct error *e, const struct pair *pair, struct cluster_allowance *ret)
{
    const char *text = pair->value;
    double guaranteed, borrowed = DEVICES_MAX;
    bool good = parse_devices(&text, &guaranteed);
    if (good && *text == '+') {
        text++;
        good = parse_devices(&text, &borrowed);
    }
    if (!good || *text)
        return error_set_field(e, ERR_INVALID, "allowances",
                               "'%s' of %s is not a number of devices, such as 2 or 2+1",
                               pair->value, pair->key);
    *ret = (struct cluster_allowance){.guaranteed_ppm = llround(guaranteed * CLUSTER_DEVICE_PPM),
                                      .most_ppm =
                                          llround((guaranteed + borrowed) * CLUSTER_DEVICE_PPM)};
    if (!str_copy(ret->name, sizeof ret->name, pair->key))
        return error_set_field(e, ERR_INVALID, "allowances", "the name '%s' is too long",
                               pair->key);
    return 0;
}

int allowances_read(struct error *e, const struct pairs *pairs, struct cluster_allowance **ret)
{
    struct cluster_allowance *allowances = calloc(pairs->count + 1, sizeof *allowances);
    int r = allowances ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; r == 0 && i < pairs->count; i++)
        r = parse_allowance(e, &pairs->items[i], &allowances[i]);
    if (r < 0) {
        free(allowances);
        return r;
    }
    *ret = allowances;
    return 0;
}

uint32_t allowances_find(const struct control *c, const char *user)
{
    size_t count = c->cluster_config.allowance_count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(c->allowances[i].name, user) == 0)
            return (uint32_t)i + 1;
    for (size_t i = 0; i < count; i++)
        if (c->allowances[i].name[0] == '@' &&
            auth_user_is_in_group(user, c->allowances[i].name + 1))
            return (uint32_t)i + 1;
    return 0;
}
