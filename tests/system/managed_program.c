/* A workload with managed memory, which no driver can suspend, for suspend.sh: prints one line per
 * step, forever. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES = 1 << 20, ATTACH_GLOBAL = 1, STEP_US = 20000 };

struct driver {
    int (*init)(unsigned int);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*allocate)(unsigned long long *, size_t, unsigned int);
    int (*synchronize)(void);
};

static int load(struct driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct {
        void *to;
        const char *name;
    } calls[] = {
        {&d->init, "cuInit"},
        {&d->device, "cuDeviceGet"},
        {&d->retain, "cuDevicePrimaryCtxRetain"},
        {&d->set_current, "cuCtxSetCurrent"},
        {&d->allocate, "cuMemAllocManaged"},
        {&d->synchronize, "cuCtxSynchronize"},
    };
    for (size_t i = 0; library && i < sizeof calls / sizeof calls[0]; i++)
        if (!(*(void **)calls[i].to = dlsym(library, calls[i].name)))
            return -1;
    return library ? 0 : -1;
}

int main(void)
{
    struct driver d;
    int device;
    void *context;
    unsigned long long memory;
    if (load(&d) < 0 || d.init(0) != 0 || d.device(&device, 0) != 0 ||
        d.retain(&context, device) != 0 || d.set_current(context) != 0 ||
        d.allocate(&memory, BYTES, ATTACH_GLOBAL) != 0)
        return 1;
    for (unsigned long long samples = 1; d.synchronize() == 0; samples++) {
        printf("samples=%llu\n", samples);
        fflush(stdout);
        usleep(STEP_US);
    }
    return 1;
}
