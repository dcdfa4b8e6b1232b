/* Modules, functions and launches. */
#include <string.h>

#include "conformance.h"

static const char broken_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry x(";

void case_modules(struct conformance *t)
{
    void *module = NULL, *function = NULL, *owner = NULL;
    const char *name = NULL;
    int value = -1;
    conformance_open_device(t);
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_VALUE, (&module, NULL));
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_VALUE, (NULL, conformance_ptx));
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_PTX, (&module, broken_ptx));
    EXPECT(t, cuModuleLoadDataEx, CUDA_SUCCESS, (&module, conformance_ptx, 0, NULL, NULL));
    EXPECT(t, cuModuleLoadDataEx, CUDA_ERROR_INVALID_PTX, (&owner, broken_ptx, 0, NULL, NULL));
    EXPECT(t, cuModuleGetFunction, CUDA_SUCCESS, (&function, module, "gpumux_burn"));
    EXPECT(t, cuModuleGetFunction, CUDA_ERROR_NOT_FOUND, (&function, module, "nothing"));
    EXPECT(t, cuModuleGetFunction, CUDA_ERROR_INVALID_VALUE, (&function, module, NULL));
    EXPECT(t, cuModuleGetFunction, CUDA_ERROR_INVALID_VALUE, (NULL, module, "gpumux_burn"));

    EXPECT(t, cuFuncGetName, CUDA_SUCCESS, (&name, function));
    CHECK(t, cuFuncGetName, name && strcmp(name, "gpumux_burn") == 0);
    EXPECT(t, cuFuncGetName, CUDA_ERROR_INVALID_VALUE, (NULL, function));
    EXPECT(t, cuFuncGetModule, CUDA_SUCCESS, (&owner, function));
    CHECK(t, cuFuncGetModule, owner == module);
    EXPECT(t, cuFuncGetModule, CUDA_ERROR_INVALID_HANDLE, (&owner, NULL));
    EXPECT(t, cuFuncGetAttribute, CUDA_SUCCESS,
           (&value, CUDA_FUNCTION_MAX_THREADS_PER_BLOCK, function));
    CHECK(t, cuFuncGetAttribute, value == 1024);
    EXPECT(t, cuFuncGetAttribute, CUDA_SUCCESS,
           (&value, CUDA_FUNCTION_SHARED_SIZE_BYTES, function));
    CHECK(t, cuFuncGetAttribute, value == 0);
    EXPECT(t, cuFuncGetAttribute, CUDA_ERROR_INVALID_VALUE, (&value, -1, function));
    EXPECT(t, cuFuncGetAttribute, CUDA_ERROR_INVALID_VALUE,
           (NULL, CUDA_FUNCTION_SHARED_SIZE_BYTES, function));
    EXPECT(t, cuFuncGetAttribute, CUDA_ERROR_INVALID_HANDLE,
           (&value, CUDA_FUNCTION_SHARED_SIZE_BYTES, NULL));
    EXPECT(t, cuModuleUnload, CUDA_SUCCESS, (module));
    EXPECT(t, cuModuleUnload, CUDA_ERROR_INVALID_HANDLE, (NULL));
}

void case_launches(struct conformance *t)
{
    uint32_t sm_permille = 10, dram_permille = 0;
    uint64_t duration_ns = 1000;
    void *parameters[] = {&sm_permille, &dram_permille, &duration_ns};
    struct {
        uint32_t sm_permille, dram_permille;
        uint64_t duration_ns;
    } packed = {10, 0, 1000};
    size_t packed_bytes = sizeof(packed);
    void *extra[] = {CUDA_LAUNCH_BUFFER_POINTER, &packed, CUDA_LAUNCH_BUFFER_SIZE, &packed_bytes,
                     CUDA_LAUNCH_END};
    conformance_open_device(t);
    void *f = t->function;
    EXPECT(t, cuLaunchKernel, CUDA_SUCCESS, (f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(t, cuLaunchKernel, CUDA_SUCCESS, (f, 2, 2, 2, 4, 4, 4, 0, NULL, NULL, extra));
    EXPECT(t, cuLaunchKernel, CUDA_ERROR_INVALID_HANDLE,
           (NULL, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(t, cuLaunchKernel, CUDA_ERROR_INVALID_VALUE,
           (f, 0, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(t, cuLaunchKernel, CUDA_ERROR_INVALID_VALUE,
           (f, 1, 1, 1, 2048, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(t, cuLaunchKernel, CUDA_ERROR_INVALID_VALUE,
           (f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, extra));

    struct cuda_launch_config config = {1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0};
    EXPECT(t, cuLaunchKernelEx, CUDA_SUCCESS, (&config, f, parameters, NULL));
    EXPECT(t, cuLaunchKernelEx, CUDA_ERROR_INVALID_VALUE, (NULL, f, parameters, NULL));
    config.grid_x = 0;
    EXPECT(t, cuLaunchKernelEx, CUDA_ERROR_INVALID_VALUE, (&config, f, parameters, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
}
