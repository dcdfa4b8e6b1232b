#include "tests/emu/driver_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/device/device_file.h"

static const char burn_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry gpumux_burn(.param .u32 sm, .param .u32 dram, .param .u64 ns,\n"
    "    .param .u64 buffer, .param .u64 bytes)\n{ ret; }\n"
    ".visible .entry gpumux_illegal_address()\n{\n"
    "    .reg .b64 %rd<2>;\n    .reg .b32 %r<2>;\n"
    "    mov.u64 %rd1, 16;\n    mov.u32 %r1, 1;\n    st.global.u32 [%rd1], %r1;\n    ret;\n}\n";

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "set-up of the test: %s: %s\n", what, detail);
    exit(1);
}

static void *open_library(const char *name)
{
    char path[PATH_MAX];
    const char *build = getenv("GPUMUX_BUILD");
    if (!build)
        fail("GPUMUX_BUILD", "not set: run the test through ctest");
    snprintf(path, sizeof(path), "%s/emu/%s", build, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail(name, dlerror());
    return library;
}

static void find(void *library, const char *name, void *ret_pointer)
{
    void *address = dlsym(library, name);
    if (!address)
        fail(name, "not exported");
    memcpy(ret_pointer, &address, sizeof(address));
}

void driver_api_load(struct driver_api *api)
{
    memset(api, 0, sizeof(*api));
    void *cuda = open_library("libcuda.so.1");
    void *nvml = open_library("libnvidia-ml.so.1");
#define LACK(...)
#define CALL(symbol, ...) find(cuda, #symbol, &api->symbol);
#include "../../api/cuda_calls.def"
#undef CALL
#define CALL(symbol, ...) find(nvml, #symbol, &api->symbol);
#define TEXT(symbol, ...) find(nvml, #symbol, &api->symbol);
#include "../../api/nvml_calls.def"
}

void driver_api_make_devices(const char *spec, double speed, int shared)
{
    char folder[] = "/tmp/gpumux-emu-test.XXXXXX";
    char path[PATH_MAX];
    struct error error = {0};
    if (!mkdtemp(folder))
        fail("mkdtemp", strerror(errno));
    snprintf(path, sizeof(path), "%s/devices", folder);
    struct emu_device_options options;
    if (emu_device_options_from_environment(&error, &options) < 0)
        fail(error.field, error.text);
    options.speed = speed;
    options.shared = shared != 0;
    if (emu_device_file_create(&error, path, spec, &options) < 0)
        fail("device file", error.text);
    setenv("GPUMUX_EMU", path, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

void driver_api_share_devices(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", getenv("GPUMUX_EMU"));
    if (chmod(path, 0666) < 0)
        fail(path, strerror(errno));
    *strrchr(path, '/') = '\0';
    if (chmod(path, 0755) < 0)
        fail(path, strerror(errno));
}

void driver_api_remove_devices(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", getenv("GPUMUX_EMU"));
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

int driver_api_try_open(struct driver_api *api)
{
    void *context, *module;
    int r = api->cuInit(0);
    if (r == CUDA_SUCCESS)
        r = api->cuDevicePrimaryCtxRetain(&context, 0);
    if (r == CUDA_SUCCESS)
        r = api->cuCtxSetCurrent(context);
    if (r == CUDA_SUCCESS)
        r = api->cuModuleLoadData(&module, burn_ptx);
    if (r == CUDA_SUCCESS)
        r = api->cuModuleGetFunction(&api->function, module, "gpumux_burn");
    if (r == CUDA_SUCCESS)
        r = api->cuModuleGetFunction(&api->illegal_function, module, "gpumux_illegal_address");
    return r;
}

void driver_api_open_device(struct driver_api *api)
{
    if (driver_api_try_open(api) != CUDA_SUCCESS)
        fail("device 0", "cannot be opened");
}

int driver_api_burn(const struct driver_api *api, void *stream, unsigned sm_permille,
                    unsigned dram_permille, uint64_t duration_ns)
{
    uint64_t buffer = 0, buffer_bytes = 0;
    void *parameters[] = {&sm_permille, &dram_permille, &duration_ns, &buffer, &buffer_bytes};
    return api->cuLaunchKernel(api->function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}
