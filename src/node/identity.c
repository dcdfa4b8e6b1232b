#include "node/identity.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/str.h"
#include "base/durable.h"

enum { INSTANCE_BYTES = 8, FILE_BYTES_MAX = 4096, HOST_NAME_BYTES = 256 };

static int make_instance(struct error *e, int directory_fd, char ret_instance[NODE_INSTANCE_MAX])
{
    unsigned char random[INSTANCE_BYTES];
    char instance[2 * INSTANCE_BYTES + 1], text[64];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_set_errno(e, ERR_IO, errno, "no random numbers");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(instance + 2 * i, 3, "%02x", random[i]);
    int n = snprintf(text, sizeof text, "{\"instance\":\"%s\"}\n", instance);
    int r = durable_write(e, directory_fd, "node.json", text, (size_t)n);
    if (r == 0)
        str_copy(ret_instance, NODE_INSTANCE_MAX, instance);
    return r;
}

int identity_load(struct error *e, int directory_fd, char ret_instance[NODE_INSTANCE_MAX])
{
    struct str text;
    str_init(&text, FILE_BYTES_MAX);
    int r = durable_read(e, directory_fd, "node.json", geteuid(), &text);
    if (r == -ERR_NOT_FOUND) {
        str_done(&text);
        return make_instance(e, directory_fd, ret_instance);
    }
    const char *instance = NULL;
    json_t *root = r < 0 ? NULL : json_loadb(str_text(&text), text.length, 0, NULL);
    if (r == 0 && (json_unpack(root, "{ss}", "instance", &instance) < 0 || !*instance ||
                   strspn(instance, "0123456789abcdef") != strlen(instance) ||
                   !str_copy(ret_instance, NODE_INSTANCE_MAX, instance)))
        r = error_set(e, ERR_CORRUPT,
                      "node.json is damaged: put it back from a copy, or, if "
                      "nothing of this node runs any more, remove it");
    json_decref(root);
    str_done(&text);
    return r;
}

int identity_name(struct error *e, const char *configured, char ret_name[NODE_NAME_MAX])
{
    char host[HOST_NAME_BYTES] = "";
    if (configured[0] == '\0' && gethostname(host, sizeof host - 1) < 0)
        return error_set_errno(e, ERR_IO, errno, "this host has no name: set node_name");
    char name[NODE_NAME_MAX];
    if (!str_copy(name, sizeof name, configured[0] ? configured : host) || !name[0])
        return error_set(e, ERR_INVALID, "a node's name has 1 to %d bytes: set node_name",
                         NODE_NAME_MAX - 1);
    str_copy(ret_name, NODE_NAME_MAX, name);
    return 0;
}
