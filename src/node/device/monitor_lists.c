#include "node/device/monitor_lists.h"

#include "device/device.h"
#include "node/agent_internal.h"

static void take_list(struct agent *a, const char *name, struct device_list *ret)
{
    struct error e = {0};
    *ret = (struct device_list){0};
    if (device_list_read(&e, a->directory_fd, name, ret) < 0)
        log_write(a->log, LOG_ERROR, "device list not read", "file=%s error=\"%s\"", name, e.text);
}

void monitor_lists_read(struct agent *a, struct device_list *ret_untested,
                        struct device_list *ret_disabled)
{
    take_list(a, "untested", ret_untested);
    take_list(a, "disabled", ret_disabled);
}

/* Writes a list. An absent device stays listed, because nothing is known of it. */
static void write_list(struct agent *a, const char *name, struct device_monitor *const *devices,
                       int count, bool (*is_listed)(const struct device_monitor *d))
{
    struct device_list before, list = {0};
    struct error e = {0};
    take_list(a, name, &before);
    for (int i = 0; i < count; i++)
        if (is_listed(devices[i]))
            device_list_add(&list, a->info.devices[i].uuid, device_cause(devices[i]));
    for (size_t i = 0; i < before.count; i++)
        if (agent_find_device(a, before.items[i].uuid) < 0)
            device_list_add(&list, before.items[i].uuid, before.items[i].cause);
    if (device_list_write(&e, a->directory_fd, name, &list) < 0)
        log_write(a->log, LOG_ERROR, "device list not written", "file=%s error=\"%s\"", name,
                  e.text);
}

void monitor_lists_write(struct agent *a, struct device_monitor *const *devices, int count)
{
    write_list(a, "disabled", devices, count, device_needs_operator);
    write_list(a, "untested", devices, count, device_needs_test);
}
