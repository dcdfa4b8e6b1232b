#include "emu/mps/mps_join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "emu/abi/cuda_abi.h"

enum {
    SMS_MIN = 2,        /* SMs come in pairs */
    SMS_MIN_HOPPER = 8, /* SMs of 0.1 percent on an H200 */
    CC_MAJOR_HOPPER = 9,
};

/* Returns a socket to the daemon, or -1 if there is none. */
static int connect_to_daemon(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char marker[sizeof(address.sun_path)];
    if (!mps_pipe_path(MPS_SOCKET_NAME, address.sun_path, sizeof(address.sun_path)) ||
        !mps_pipe_path(MPS_MARKER_NAME, marker, sizeof(marker)) || access(marker, F_OK) < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int r;
    do
        r = connect(fd, (struct sockaddr *)&address, sizeof(address));
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return fd;
    close(fd);
    return -1;
}

static bool read_whole(int fd, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, (char *)to + done, bytes - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n > 0)
            done += (size_t)n;
    }
    return true;
}

int mps_join(const struct mapping *mapping, struct mps_welcome *ret_welcome)
{
    struct mps_welcome welcome = {.percentage = MPS_PERCENTAGE_FULL,
                                  .priority = EMU_PRIORITY_NORMAL};
    /* Clients that overlap without a server (GPUMUX_EMU_MODE=shared) need no daemon. */
    int fd = mapping_device(mapping, 0)->mps.is_implied ? -1 : connect_to_daemon();
    if (fd < 0) {
        visible_among_all(mapping, &welcome.served);
        *ret_welcome = welcome;
        return CUDA_SUCCESS;
    }
    size_t length = strlen(MPS_HELLO_CLIENT);
    bool answered = send(fd, MPS_HELLO_CLIENT, length, MSG_NOSIGNAL) == (ssize_t)length &&
                    read_whole(fd, &welcome, sizeof(welcome)) &&
                    welcome.version == MPS_WELCOME_VERSION &&
                    welcome.served.count <= mapping->file->device_count;
    close(fd);
    if (!answered)
        return CUDA_ERROR_MPS_CONNECTION_FAILED;
    if (welcome.result == CUDA_SUCCESS)
        *ret_welcome = welcome;
    return welcome.result;
}

static uint32_t sms_of(const struct emu_model *model, uint32_t percentage)
{
    uint32_t least = model->cc_major >= CC_MAJOR_HOPPER ? SMS_MIN_HOPPER : SMS_MIN;
    if (percentage >= MPS_PERCENTAGE_FULL)
        return model->sms;
    uint32_t sms = contention_share_sms(model->sms, percentage * CONTENTION_FULL_PERMILLE /
                                                        MPS_PERCENTAGE_FULL);
    return sms < least ? least : sms;
}

/* Reads CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, a list such as 0=2G,1=512M. Returns 0 if the device has
 * no limit. */
static uint64_t limit_of_environment(unsigned ordinal)
{
    const char *at = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    while (at && *at != '\0') {
        char value[32];
        char *equals;
        unsigned long device = strtoul(at, &equals, 10);
        size_t length = strcspn(at, ",");
        uint64_t bytes;
        if (equals != at && *equals == '=' && device == ordinal && equals < at + length &&
            (size_t)(at + length - equals) <= sizeof(value)) {
            memcpy(value, equals + 1, (size_t)(at + length - equals) - 1);
            value[at + length - equals - 1] = '\0';
            if (mps_parse_bytes(value, &bytes))
                return bytes;
        }
        at += length;
        at += *at == ',';
    }
    return 0;
}

static uint64_t limit_of(const struct mps_welcome *welcome, const struct device *device,
                         unsigned ordinal)
{
    uint64_t limit = limit_of_environment(ordinal);
    for (unsigned i = 0; i < welcome->served.count; i++) {
        uint64_t served = welcome->limits_bytes[i];
        if (welcome->served.devices[i] == device->index && served != 0 &&
            (limit == 0 || served < limit))
            limit = served;
    }
    return limit;
}

struct client_terms mps_terms(const struct mps_welcome *welcome, const struct device *device,
                              unsigned ordinal)
{
    const struct emu_model *model = &device->state->model;
    struct client_terms terms = {
        .server_pid = welcome->server_pid,
        .sms = model->sms,
        .share_permille = CONTENTION_FULL_PERMILLE,
        .priority = welcome->priority,
    };
    if (welcome->server_pid == 0)
        return terms;
    uint32_t percentage = welcome->percentage, own;
    const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    if (text && mps_parse_percentage(text, &own) && own < percentage)
        percentage = own;
    terms.sms = sms_of(model, percentage);
    terms.share_permille = (terms.sms * CONTENTION_FULL_PERMILLE + model->sms / 2) / model->sms;
    text = getenv("CUDA_MPS_CLIENT_PRIORITY");
    if (text && (str_equal(text, "0") || str_equal(text, "1")))
        terms.priority = (uint32_t)(text[0] - '0');
    terms.memory_limit_bytes = limit_of(welcome, device, ordinal);
    return terms;
}
