#include "node/device/device_list.h"

#include <string.h>
#include <unistd.h>

#include "base/durable.h"

enum { DEVICE_LIST_FILE_MAX = DEVICE_LIST_MAX * (DEVICE_UUID_MAX + WORKLOAD_TEXT_MAX) };

void device_list_add(struct device_list *list, const char *uuid, const char *cause)
{
    if (list->count == DEVICE_LIST_MAX)
        return;
    struct device_listed *item = &list->items[list->count++];
    str_copy(item->uuid, sizeof item->uuid, uuid);
    str_copy(item->cause, sizeof item->cause, cause);
}

int device_list_read(struct error *e, int directory_fd, const char *name, struct device_list *ret)
{
    struct str text;
    str_init(&text, DEVICE_LIST_FILE_MAX);
    int r = durable_read(e, directory_fd, name, geteuid(), &text);
    char *rest = r == 0 ? text.data : NULL;
    if (r == 0 || r == -ERR_NOT_FOUND)
        ret->count = 0;
    while (rest && *rest) {
        char *cause = strsep(&rest, "\n");
        char *uuid = strsep(&cause, " ");
        if (uuid[0])
            device_list_add(ret, uuid, cause ? cause : "");
    }
    str_done(&text);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

int device_list_write(struct error *e, int directory_fd, const char *name,
                      const struct device_list *list)
{
    struct str text;
    str_init(&text, DEVICE_LIST_FILE_MAX);
    for (size_t i = 0; i < list->count; i++)
        str_printf(&text, "%s %s\n", list->items[i].uuid, list->items[i].cause);
    int r = str_failed(&text)
                ? error_set(e, ERR_NO_MEMORY, "out of memory")
                : durable_replace(e, directory_fd, name, str_text(&text), text.length);
    str_done(&text);
    return r;
}
