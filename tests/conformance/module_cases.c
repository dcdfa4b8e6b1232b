/* Modules, functions and launches. */
#include <string.h>

#include "conformance.h"

static const char broken_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry x(";

void case_modules_load_and_find_functions(struct conformance *t)
{
    void *module = NULL, *function = NULL, *owner = NULL, *none = NULL;
    const char *name = NULL;
    int value = -1;
    conformance_open_device(t);
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_VALUE, (&module, NULL));
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_VALUE, (NULL, conformance_ptx));
    EXPECT(t, cuModuleLoadData, CUDA_ERROR_INVALID_PTX, (&module, broken_ptx));
    EXPECT(t, cuModuleLoadDataEx, CUDA_SUCCESS, (&module, conformance_ptx, 0, NULL, NULL));
    EXPECT(t, cuModuleLoadDataEx, CUDA_ERROR_INVALID_PTX, (&owner, broken_ptx, 0, NULL, NULL));
    EXPECT(t, cuModuleGetFunction, CUDA_SUCCESS, (&function, module, "gpumux_burn"));
    EXPECT(t, cuModuleGetFunction, CUDA_ERROR_NOT_FOUND, (&none, module, "nothing"));
    EXPECT(t, cuModuleGetFunction, CUDA_ERROR_INVALID_VALUE, (&none, module, NULL));
    EXPECT(t, cuModuleGetFunction, CUDA_ERROR_INVALID_VALUE, (NULL, module, "gpumux_burn"));

    EXPECT(t, cuFuncGetName, CUDA_SUCCESS, (&name, function));
    CHECK(t, cuFuncGetName, name && strcmp(name, "gpumux_burn") == 0);
    EXPECT(t, cuFuncGetName, CUDA_ERROR_INVALID_VALUE, (NULL, function));
    EXPECT(t, cuFuncGetModule, CUDA_SUCCESS, (&owner, function));
    CHECK(t, cuFuncGetModule, owner == module);
    EXPECT(t, cuFuncGetModule, CUDA_ERROR_INVALID_VALUE, (&owner, NULL));
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

void case_launches_check_their_arguments(struct conformance *t)
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

    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0};
    EXPECT(t, cuLaunchKernelEx, CUDA_SUCCESS, (&config, f, parameters, NULL));
    EXPECT(t, cuLaunchKernelEx, CUDA_ERROR_INVALID_VALUE, (NULL, f, parameters, NULL));
    config.gridDimX = 0;
    EXPECT(t, cuLaunchKernelEx, CUDA_ERROR_INVALID_VALUE, (&config, f, parameters, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
}

void case_cooperative_launches_must_fit(struct conformance *t)
{
    uint32_t sm_permille = 10, dram_permille = 0;
    uint64_t duration_ns = 1000;
    void *parameters[] = {&sm_permille, &dram_permille, &duration_ns};
    int blocks = 0, threads = 0;
    conformance_open_device(t);
    void *f = t->function;
    EXPECT(t, cuOccupancyMaxActiveBlocksPerMultiprocessor, CUDA_SUCCESS, (&blocks, f, 1024, 0));
    CHECK(t, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks == 2);
    EXPECT(t, cuOccupancyMaxActiveBlocksPerMultiprocessor, CUDA_SUCCESS, (&blocks, f, 32, 0));
    CHECK(t, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks == 32);
    EXPECT(t, cuOccupancyMaxActiveBlocksPerMultiprocessor, CUDA_ERROR_INVALID_VALUE,
           (&blocks, f, 0, 0));
    EXPECT(t, cuOccupancyMaxActiveBlocksPerMultiprocessor, CUDA_ERROR_INVALID_HANDLE,
           (&blocks, NULL, 32, 0));
    EXPECT(t, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, CUDA_SUCCESS,
           (&blocks, f, 1024, 0, 0));
    CHECK(t, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks == 2);
    EXPECT(t, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, CUDA_ERROR_INVALID_VALUE,
           (&blocks, f, 0, 0, 0));
    EXPECT(t, cuOccupancyMaxPotentialBlockSize, CUDA_SUCCESS, (&blocks, &threads, f, NULL, 0, 0));
    CHECK(t, cuOccupancyMaxPotentialBlockSize, blocks * threads == 132 * 2048);
    EXPECT(t, cuLaunchCooperativeKernel, CUDA_SUCCESS,
           (f, 132 * 2, 1, 1, 1024, 1, 1, 0, NULL, parameters));
    EXPECT(t, cuLaunchCooperativeKernel, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           (f, 132 * 2 + 1, 1, 1, 1024, 1, 1, 0, NULL, parameters));
    EXPECT(t, cuLaunchCooperativeKernel, CUDA_ERROR_INVALID_VALUE,
           (f, 0, 1, 1, 32, 1, 1, 0, NULL, parameters));
    EXPECT(t, cuLaunchCooperativeKernel, CUDA_ERROR_INVALID_HANDLE,
           (NULL, 1, 1, 1, 32, 1, 1, 0, NULL, parameters));
    CUlaunchAttribute attribute = {.id = CUDA_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {{1}}};
    CUlaunchConfig config = {132 * 2 + 1, 1, 1, 1024, 1, 1, 0, NULL, &attribute, 1};
    EXPECT(t, cuLaunchKernelEx, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           (&config, f, parameters, NULL));
    config.gridDimX = 132;
    EXPECT(t, cuLaunchKernelEx, CUDA_SUCCESS, (&config, f, parameters, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
}

void case_libraries_load_and_launch_kernels(struct conformance *t)
{
    void *library = NULL, *kernel = NULL, *function = NULL;
    const char *name = NULL;
    unsigned count = 0;
    uint32_t sm_permille = 10, dram_permille = 0;
    uint64_t duration_ns = 1000;
    void *parameters[] = {&sm_permille, &dram_permille, &duration_ns};
    conformance_open_device(t);
    EXPECT(t, cuLibraryLoadData, CUDA_SUCCESS,
           (&library, conformance_ptx, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT(t, cuLibraryLoadData, CUDA_ERROR_INVALID_VALUE,
           (&function, NULL, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT(t, cuLibraryGetKernelCount, CUDA_SUCCESS, (&count, library));
    CHECK(t, cuLibraryGetKernelCount, count == 1);
    EXPECT(t, cuLibraryGetKernelCount, CUDA_ERROR_INVALID_HANDLE, (&count, NULL));
    EXPECT(t, cuLibraryGetKernel, CUDA_SUCCESS, (&kernel, library, "gpumux_burn"));
    EXPECT(t, cuLibraryGetKernel, CUDA_ERROR_NOT_FOUND, (&function, library, "nothing"));
    EXPECT(t, cuLibraryGetKernel, CUDA_ERROR_INVALID_HANDLE, (&function, NULL, "gpumux_burn"));
    EXPECT(t, cuKernelGetName, CUDA_SUCCESS, (&name, kernel));
    CHECK(t, cuKernelGetName, name && strcmp(name, "gpumux_burn") == 0);
    EXPECT(t, cuKernelGetName, CUDA_ERROR_INVALID_VALUE, (NULL, kernel));
    EXPECT(t, cuKernelGetFunction, CUDA_SUCCESS, (&function, kernel));
    EXPECT(t, cuKernelGetFunction, CUDA_ERROR_INVALID_HANDLE, (&function, NULL));
    EXPECT(t, cuLaunchKernel, CUDA_SUCCESS,
           (function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(t, cuLaunchKernel, CUDA_SUCCESS, (kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
    EXPECT(t, cuLibraryUnload, CUDA_SUCCESS, (library));
    EXPECT(t, cuLibraryUnload, CUDA_ERROR_INVALID_HANDLE, (NULL));
}
