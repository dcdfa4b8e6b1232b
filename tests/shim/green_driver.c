/* The part of a libcuda.so.1 that green_program.c needs, with green contexts, which the emulated
 * driver lacks. Reports the work that is waited for, and uses of contexts that have ended. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STACK_MAX = 8, INVALID_CONTEXT = 201 };

struct context {
    const char *name;
    _Atomic int references; /* 0: it has ended */
};

static struct context primary = {.name = "primary"}, green = {.name = "green"};
static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;

static void say(const char *name, const char *what)
{
    char line[64];
    size_t length = 0;
    for (; *name; name++)
        line[length++] = *name;
    for (; *what; what++)
        line[length++] = *what;
    if (write(1, line, length) != (ssize_t)length)
        abort();
}

static int check(const struct context *context)
{
    if (context && context->references > 0)
        return 0;
    say(context ? context->name : "no", " context is used, and is not there\n");
    return INVALID_CONTEXT;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return flags != 0;
}

/* ---- contexts ---- */

static _Atomic int lookers;

/* Waits until as many threads as GREEN_LOOKERS says have looked for the context. */
static void make_primary(void)
{
    const char *wanted = getenv("GREEN_LOOKERS");
    while (primary.references == 0 && wanted && lookers < strtol(wanted, NULL, 10))
        usleep(1000);
    primary.references++;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active);
int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active)
{
    static _Thread_local int has_looked;
    *ret_flags = (unsigned)device;
    *ret_active = primary.references > 0;
    lookers += !has_looked;
    has_looked = 1;
    return 0;
}

int cuDevicePrimaryCtxRetain(struct context **ret_context, int device);
int cuDevicePrimaryCtxRetain(struct context **ret_context, int device)
{
    make_primary();
    *ret_context = &primary;
    return device;
}

int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device)
{
    primary.references--;
    return device;
}

int cuGreenCtxCreate(void **ret_green, void *resources, int device, unsigned flags);
int cuGreenCtxCreate(void **ret_green, void *resources, int device, unsigned flags)
{
    make_primary();
    green.references = 1;
    *ret_green = resources;
    return device + (int)flags;
}

int cuGreenCtxDestroy(void *handle);
int cuGreenCtxDestroy(void *handle)
{
    primary.references--;
    green.references = 0;
    return handle == NULL;
}

int cuCtxFromGreenCtx(struct context **ret_context, void *handle);
int cuCtxFromGreenCtx(struct context **ret_context, void *handle)
{
    *ret_context = &green;
    return handle == NULL;
}

int cuGreenCtxStreamCreate(void **ret_stream, void *handle, unsigned flags, int priority);
int cuGreenCtxStreamCreate(void **ret_stream, void *handle, unsigned flags, int priority)
{
    *ret_stream = &green;
    return handle == NULL || flags != 0 || priority != 0;
}

/* For other streams the context is unknown. */
int cuStreamGetCtx(const void *stream, struct context **ret_context);
int cuStreamGetCtx(const void *stream, struct context **ret_context)
{
    *ret_context = &green;
    return stream == &green ? 0 : INVALID_CONTEXT;
}

int cuCtxGetCurrent(struct context **ret_context);
int cuCtxGetCurrent(struct context **ret_context)
{
    *ret_context = stack[depth];
    return 0;
}

int cuCtxSetCurrent(struct context *context);
int cuCtxSetCurrent(struct context *context)
{
    stack[depth] = context;
    return check(context);
}

int cuCtxPushCurrent_v2(struct context *context);
int cuCtxPushCurrent_v2(struct context *context)
{
    stack[++depth] = context;
    return check(context);
}

int cuCtxPopCurrent_v2(struct context **ret_context);
int cuCtxPopCurrent_v2(struct context **ret_context)
{
    *ret_context = stack[depth--];
    return 0;
}

int cuCtxGetDevice(int *ret_device);
int cuCtxGetDevice(int *ret_device)
{
    *ret_device = 0;
    return check(stack[depth]);
}

int cuCtxSynchronize(void);
int cuCtxSynchronize(void)
{
    int r = check(stack[depth]);
    if (r == 0)
        say(stack[depth]->name, " is waited for\n");
    return r;
}

/* ---- work in contexts ---- */

int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes);
int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes)
{
    static uint64_t next = 1 << 20;
    *ret_address = next;
    next += bytes;
    return check(stack[depth]);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **parameters, void **extra)
{
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)shared_bytes, (void)stream, (void)parameters, (void)extra;
    return check(stack[depth]);
}
