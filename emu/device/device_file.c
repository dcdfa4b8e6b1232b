#include "emu/device/device_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/str.h"
#include "emu/device/boot_id.h"
#include "emu/device/state.h"

struct model_row {
    const char *id;
    struct emu_model model;
};

static const struct model_row models[] = {
#define MODEL(id_, name_, memory_mib_, sms_, major_, minor_, dram_, host_, idle_, limit_, clock_,  \
              memory_clock_, bus_, l2_)                                                            \
    {                                                                                              \
        .id = id_,                                                                                 \
        .model =                                                                                   \
            {                                                                                      \
                .name = name_,                                                                     \
                .memory_bytes = (uint64_t)(memory_mib_) << 20,                                     \
                .sms = sms_,                                                                       \
                .cc_major = major_,                                                                \
                .cc_minor = minor_,                                                                \
                .dram_gb_s = dram_,                                                                \
                .host_gb_s = host_,                                                                \
                .power_idle_w = idle_,                                                             \
                .power_limit_w = limit_,                                                           \
                .sm_clock_mhz = clock_,                                                            \
                .memory_clock_mhz = memory_clock_,                                                 \
                .bus_bits = bus_,                                                                  \
                .l2_mib = l2_,                                                                     \
            },                                                                                     \
    },
#include "emu/device/models.def"
#undef MODEL
};

enum { MODEL_COUNT = sizeof(models) / sizeof(*models) };

struct device_list {
    struct emu_model devices[EMU_DEVICES_MAX];
    unsigned count;
};

/* Reads digits. Returns false without digits, or if the number is above `max`. */
static bool take_number(const char **text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *at = *text;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++) {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number > max)
            return false;
    }
    *text = at;
    *ret_number = number;
    return true;
}

static const struct emu_model *take_model(const char **text)
{
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        size_t length = strlen(models[i].id);
        char end = strncasecmp(*text, models[i].id, length) == 0 ? (*text)[length] : 'x';
        if (end == '\0' || end == ',' || end == ':') {
            *text += length;
            return &models[i].model;
        }
    }
    return NULL;
}

static int take_memory(struct error *e, const char **text, struct emu_model *model)
{
    uint64_t number;
    if (!take_number(text, UINT32_MAX, &number) || number == 0)
        return error_set(e, ERR_INVALID, "after ':' comes the memory of a device, such as 24g");
    char unit = (char)tolower((unsigned char)**text);
    if (unit != 'g' && unit != 'm')
        return error_set(e, ERR_INVALID, "the memory of a device needs a unit, m or g: 24g");
    (*text)++;
    uint64_t bytes = number << (unit == 'g' ? 30 : 20);
    if (bytes > model->memory_bytes)
        return error_set(e, ERR_INVALID, "%s has %llu MiB of memory, it can only be cut",
                         model->name, (unsigned long long)(model->memory_bytes >> 20));
    model->memory_bytes = bytes;
    return 0;
}

static int unknown_model(struct error *e, const char *at)
{
    char known[EMU_NAME_MAX] = "";
    size_t used = 0;
    for (size_t i = 0; i < MODEL_COUNT && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
                                 models[i].id);
    return error_set(e, ERR_INVALID,
                     "'%.32s' is no device specification: it is N, or [Nx]MODEL[:MEMORY] with one "
                     "of the models %s, such as 4xH200:24g",
                     at, known);
}

/* Reads one part, up to a comma or the end. */
static int take_part(struct error *e, const char **text, struct device_list *list)
{
    const char *start = *text;
    uint64_t count = 1;
    struct emu_model model = models[0].model;
    bool counted = take_number(text, EMU_DEVICES_MAX, &count);
    if (counted && (**text == 'x' || **text == 'X')) {
        (*text)++;
        counted = false;
    }
    if (!counted) {
        const struct emu_model *found = take_model(text);
        if (!found)
            return unknown_model(e, start);
        model = *found;
    }
    if (**text == ':') {
        (*text)++;
        int r = take_memory(e, text, &model);
        if (r < 0)
            return r;
    }
    if (**text != ',' && **text != '\0')
        return unknown_model(e, start);
    if (count == 0 || list->count + count > EMU_DEVICES_MAX)
        return error_set(e, ERR_INVALID, "between 1 and %d devices can be emulated",
                         EMU_DEVICES_MAX);
    for (uint64_t i = 0; i < count; i++)
        list->devices[list->count++] = model;
    return 0;
}

static int parse_spec(struct error *e, const char *spec, struct device_list *ret_list)
{
    struct device_list list = {.count = 0};
    if (strlen(spec) >= sizeof(((struct emu_file *)NULL)->spec))
        return error_set(e, ERR_INVALID, "the device specification is too long");
    const char *at = spec;
    for (;;) {
        int r = take_part(e, &at, &list);
        if (r < 0)
            return r;
        if (*at == '\0')
            break;
        at++;
    }
    *ret_list = list;
    return 0;
}

int emu_device_spec_check(struct error *e, const char *spec, unsigned *ret_count)
{
    struct device_list list;
    int r = parse_spec(e, spec, &list);
    if (r == 0 && ret_count)
        *ret_count = list.count;
    return r;
}

static int check_speed(struct error *e, double speed)
{
    if (!isfinite(speed) || speed < 0.001 || speed > 10000)
        return error_set_field(e, ERR_INVALID, "GPUMUX_EMU_SPEED",
                               "the speed of emulated devices is between 0.001 and 10000");
    return 0;
}

static int read_context_bytes(struct error *e, uint64_t *ret_bytes)
{
    enum { CONTEXT_MIB_MAX = 1 << 20 };
    const char *text = getenv("GPUMUX_EMU_CONTEXT_MIB");
    uint64_t mib = 0;
    if (text && text[0] != '\0' && (!take_number(&text, CONTEXT_MIB_MAX, &mib) || *text != '\0'))
        return error_set_field(e, ERR_INVALID, "GPUMUX_EMU_CONTEXT_MIB",
                               "GPUMUX_EMU_CONTEXT_MIB is a number of MiB, up to %d",
                               CONTEXT_MIB_MAX);
    *ret_bytes = mib << 20;
    return 0;
}

int emu_device_options_from_environment(struct error *e, struct emu_device_options *ret_options)
{
    struct emu_device_options options = {.speed = 1, .shared = false};
    const char *speed = getenv("GPUMUX_EMU_SPEED");
    int r;
    if (speed && speed[0] != '\0') {
        char *end;
        options.speed = strtod(speed, &end);
        if (*end != '\0')
            options.speed = NAN;
        r = check_speed(e, options.speed);
        if (r < 0)
            return r;
    }
    const char *mode = getenv("GPUMUX_EMU_MODE");
    if (mode && str_equal(mode, "shared"))
        options.shared = true;
    else if (mode && mode[0] != '\0' && !str_equal(mode, "sliced"))
        return error_set_field(e, ERR_INVALID, "GPUMUX_EMU_MODE",
                               "GPUMUX_EMU_MODE is sliced or shared, not '%.32s'", mode);
    r = read_context_bytes(e, &options.context_bytes);
    if (r == 0)
        *ret_options = options;
    return r;
}

static int init_device(struct emu_device *device, const struct emu_model *model,
                       const struct emu_device_options *options, struct rng *rng)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0)
        return -ERR_NO_MEMORY;
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    int r = pthread_mutex_init(&device->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (r != 0)
        return -ERR_IO;
    device->model = *model;
    device->context_bytes = options->context_bytes;
    if (options->shared)
        device->mps = (struct emu_mps){.state = EMU_MPS_READY, .generation = 1, .is_implied = 1};
    contention_init(&device->contention);
    for (size_t i = 0; i < EMU_UUID_BYTES; i++)
        device->uuid[i] = (uint8_t)rng_below(rng, 256);
    device->uuid[6] = (uint8_t)((device->uuid[6] & 0x0f) | 0x40); /* RFC 9562: version 4 */
    device->uuid[8] = (uint8_t)((device->uuid[8] & 0x3f) | 0x80);
    return 0;
}

static int fill_file(struct error *e, int fd, const char *spec, const struct device_list *list,
                     const struct emu_device_options *options)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t device_bytes = (sizeof(struct emu_device) + page - 1) / page * page;
    size_t bytes = EMU_HEADER_BYTES + list->count * device_bytes;
    if (ftruncate(fd, (off_t)bytes) < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot size the file of emulated devices");
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return error_set_errno(e, ERR_IO, errno, "cannot map the file of emulated devices");

    struct emu_file *file = (struct emu_file *)(void *)at;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    file->version = EMU_STATE_VERSION;
    file->device_count = list->count;
    file->device_bytes = device_bytes;
    file->started_mono_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    file->speed_q20 = (uint64_t)llround(options->speed * (1 << 20));
    boot_id_read(file->boot_id);
    str_copy(file->spec, sizeof(file->spec), spec);
    struct rng rng;
    rng_seed(&rng, rng_os_seed());
    int r = 0;
    for (unsigned i = 0; i < list->count && r == 0; i++) {
        void *device = at + EMU_HEADER_BYTES + i * device_bytes;
        r = init_device(device, &list->devices[i], options, &rng);
    }
    file->magic = EMU_STATE_MAGIC;
    munmap(at, bytes);
    return r < 0 ? error_set(e, (enum error_code) - r, "cannot make the lock of a device") : 0;
}

int emu_device_file_create(struct error *e, const char *path, const char *spec,
                           const struct emu_device_options *options)
{
    const struct emu_device_options defaults = {.speed = 1, .shared = false};
    if (!options)
        options = &defaults;
    struct device_list list;
    int r = parse_spec(e, spec, &list);
    if (r == 0)
        r = check_speed(e, options->speed);
    if (r < 0)
        return r;

    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof(temporary))
        return error_set(e, ERR_INVALID, "the path of the emulated devices is too long");
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", temporary);
    r = fill_file(e, fd, spec, &list, options);
    close(fd);
    if (r == 0 && rename(temporary, path) < 0)
        r = error_set_errno(e, ERR_IO, errno, "cannot put the emulated devices at %s", path);
    if (r < 0)
        unlink(temporary);
    return r;
}
