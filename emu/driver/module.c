/* Modules and their functions. Only PTX text can be loaded, since machine code cannot run here. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "emu/driver/driver.h"
#include "emu/driver/launch.h"

enum { DYNAMIC_SHARED_BYTES = 48 << 10 }; /* shared memory that a kernel may use without asking */

/* A module belongs to a context, a library to the process; both are made from an image. */
struct module {
    uint32_t magic;          /* MODULE_MAGIC or LIBRARY_MAGIC */
    struct context *context; /* NULL: a library */
    struct list link;        /* link in context.modules; unused in a library */
    struct list functions;
};

static int add_function(void *argument, const struct ptx_entry *entry)
{
    struct module *module = argument;
    struct function *function = malloc(sizeof(*function));
    if (!function)
        return -ERR_NO_MEMORY;
    function->magic = FUNCTION_MAGIC;
    function->module = module;
    function->entry = *entry;
    function->dynamic_shared_bytes = DYNAMIC_SHARED_BYTES;
    function->shared_carveout = -1;
    function->is_burn = launch_is_burn(entry);
    function->is_illegal = launch_is_illegal(entry);
    list_append(&module->functions, &function->link);
    return 0;
}

static void free_module(struct module *module)
{
    list_remove(&module->link);
    list_for_each_safe (it, &module->functions) {
        struct function *function = list_entry(it, struct function, link);
        list_remove(&function->link);
        function->magic = DEAD_MAGIC;
        free(function);
    }
    module->magic = DEAD_MAGIC;
    free(module);
}

void module_discard_all(struct context *context)
{
    list_for_each_safe (it, &context->modules)
        free_module(list_entry(it, struct module, link));
}

static int result_of_parse(int r)
{
    switch (-r) {
    case 0:
        return CUDA_SUCCESS;
    case ERR_NO_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_INVALID_PTX;
    }
}

/* Cubins are ELF files; fat binaries begin with one of two numbers. */
static bool is_machine_code(const char *text)
{
    static const char elf[] = "\x7f"
                              "ELF";
    static const char wrapper[] = "\xb1\x43\x62\x46";
    static const char fat[] = "\x50\xed\x55\xba";
    /* strncmp: a text may be shorter than four bytes. */
    return strncmp(text, elf, 4) == 0 || strncmp(text, wrapper, 4) == 0 ||
           strncmp(text, fat, 4) == 0;
}

static int make_module(const void *image, enum driver_magic magic, struct context *context,
                       struct module **ret_module)
{
    if (is_machine_code(image))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct module *module = calloc(1, sizeof(*module));
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->magic = magic;
    module->context = context;
    list_init(&module->link);
    list_init(&module->functions);
    const char *text = image;
    int r = result_of_parse(
        ptx_parse(text, strnlen(text, PTX_TEXT_BYTES_MAX + 1), add_function, module));
    if (r != CUDA_SUCCESS) {
        free_module(module);
        return r;
    }
    *ret_module = module;
    return CUDA_SUCCESS;
}

CUDA_API int cuModuleLoadData(struct module **ret_module, const void *image)
{
    struct context *context;
    struct module *module;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    r = make_module(image, MODULE_MAGIC, context, &module);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&context->process->lock);
    list_append(&context->modules, &module->link);
    pthread_mutex_unlock(&context->process->lock);
    *ret_module = module;
    return CUDA_SUCCESS;
}

/* Options of the compiler do not change the emulation. Options that ask for output would need an
 * answer, and are refused. */
CUDA_API int cuModuleLoadDataEx(struct module **ret_module, const void *image, unsigned count,
                                int *options, void **values)
{
    enum { OPTION_WALL_TIME = 2, OPTION_INFO_LOG = 3, OPTION_ERROR_LOG_BYTES = 6 };
    if (count > 0 && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] >= OPTION_WALL_TIME && options[i] <= OPTION_ERROR_LOG_BYTES)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return cuModuleLoadData(ret_module, image);
}

static int module_resolve(const struct module *module)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!module || module->magic != MODULE_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    return module->context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUDA_API int cuModuleUnload(struct module *module)
{
    int r = module_resolve(module);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = module->context->process;
    pthread_mutex_lock(&process->lock);
    free_module(module);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

static int find_function(struct module *module, const char *name, struct function **ret_function)
{
    list_for_each (it, &module->functions) {
        struct function *function = list_entry(it, struct function, link);
        if (str_equal(function->entry.name, name)) {
            *ret_function = function;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUDA_API int cuModuleGetFunction(struct function **ret_function, struct module *module,
                                 const char *name)
{
    int r = module_resolve(module);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    return find_function(module, name, ret_function);
}

static int function_resolve(const struct function *function)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return function && function->magic == FUNCTION_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUDA_API int cuFuncGetName(const char **ret_name, struct function *function)
{
    int r = function_resolve(function);
    if (r == CUDA_SUCCESS && !ret_name)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_name = function->entry.name;
    return r;
}

CUDA_API int cuFuncGetModule(struct module **ret_module, struct function *function)
{
    int r = function_resolve(function);
    if (!ret_module || !function)
        r = r == CUDA_ERROR_NOT_INITIALIZED ? r : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && function->module->magic != MODULE_MAGIC)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        *ret_module = function->module;
    return r;
}

CUDA_API int cuFuncGetAttribute(int *ret_value, int attribute, struct function *function)
{
    int r = function_resolve(function);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_value || attribute < 0)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CUDA_FUNCTION_MAX_THREADS_PER_BLOCK:
        *ret_value = 1024;
        return CUDA_SUCCESS;
    case CUDA_FUNCTION_SHARED_SIZE_BYTES:
    case CUDA_FUNCTION_CONST_SIZE_BYTES:
    case CUDA_FUNCTION_LOCAL_SIZE_BYTES:
        *ret_value = 0;
        return CUDA_SUCCESS;
    case CUDA_FUNCTION_DYNAMIC_SHARED_BYTES:
        *ret_value = function->dynamic_shared_bytes;
        return CUDA_SUCCESS;
    case CUDA_FUNCTION_SHARED_CARVEOUT:
        *ret_value = function->shared_carveout;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static int library_resolve(const struct module *library)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return library && library->magic == LIBRARY_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Options, of the compiler or of the library, would change nothing; none is supported. */
CUDA_API int cuLibraryLoadData(struct module **ret_library, const void *image, int *options,
                               void **values, unsigned count, int *library_options,
                               void **library_values, unsigned library_count)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    (void)options;
    (void)values;
    (void)library_options;
    (void)library_values;
    if (!ret_library || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if (count > 0 || library_count > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    return make_module(image, LIBRARY_MAGIC, NULL, ret_library);
}

CUDA_API int cuLibraryUnload(struct module *library)
{
    int r = library_resolve(library);
    if (r == CUDA_SUCCESS)
        free_module(library);
    return r;
}

/* A kernel of a library is a function without a context: any call that takes one kind takes the
 * other. */
CUDA_API int cuLibraryGetKernel(struct function **ret_kernel, struct module *library,
                                const char *name)
{
    int r = library_resolve(library);
    if (r == CUDA_SUCCESS && (!ret_kernel || !name))
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? find_function(library, name, ret_kernel) : r;
}

CUDA_API int cuLibraryGetKernelCount(unsigned *ret_count, struct module *library)
{
    int r = library_resolve(library);
    if (r == CUDA_SUCCESS && !ret_count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    *ret_count = 0;
    list_for_each (it, &library->functions)
        ++*ret_count;
    return CUDA_SUCCESS;
}

CUDA_API int cuKernelGetFunction(struct function **ret_function, struct function *kernel)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS)
        r = function_resolve(kernel);
    if (r == CUDA_SUCCESS && !ret_function)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_function = kernel;
    return r;
}

CUDA_API int cuKernelGetName(const char **ret_name, struct function *kernel)
{
    return cuFuncGetName(ret_name, kernel);
}

CUDA_API int cuFuncGetParamInfo(struct function *function, size_t index, size_t *ret_offset,
                                size_t *ret_bytes)
{
    int r = function_resolve(function);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_offset || index >= function->entry.parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_offset = function->entry.parameters[index].offset;
    if (ret_bytes)
        *ret_bytes = function->entry.parameters[index].bytes;
    return CUDA_SUCCESS;
}

CUDA_API int cuKernelGetParamInfo(struct function *kernel, size_t index, size_t *ret_offset,
                                  size_t *ret_bytes)
{
    return cuFuncGetParamInfo(kernel, index, ret_offset, ret_bytes);
}

/* Every function is loaded. */
CUDA_API int cuFuncIsLoaded(int *ret_state, struct function *function)
{
    enum { LOADED = 1 };
    int r = function_resolve(function);
    if (r == CUDA_SUCCESS && !ret_state)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_state = LOADED;
    return r;
}

CUDA_API int cuFuncLoad(struct function *function)
{
    return function_resolve(function);
}

/* Accepts a cache preference; there are no caches. */
CUDA_API int cuFuncSetCacheConfig(struct function *function, int config)
{
    enum { CACHE_CONFIG_LAST = 3 };
    int r = function_resolve(function);
    return r == CUDA_SUCCESS && (config < 0 || config > CACHE_CONFIG_LAST)
               ? CUDA_ERROR_INVALID_VALUE
               : r;
}

/* Shared memory is not modelled: the attribute is only stored. */
CUDA_API int cuFuncSetAttribute(struct function *function, int attribute, int value)
{
    int r = function_resolve(function);
    if (r != CUDA_SUCCESS)
        return r;
    if (attribute == CUDA_FUNCTION_DYNAMIC_SHARED_BYTES) {
        if (value < 0 || value > CUDA_SHARED_BYTES_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        function->dynamic_shared_bytes = value;
        return CUDA_SUCCESS;
    }
    if (attribute == CUDA_FUNCTION_SHARED_CARVEOUT) {
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        function->shared_carveout = value;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static int check_device(int ordinal)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    return ordinal >= 0 && (unsigned)ordinal < process->device_count ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_DEVICE;
}

CUDA_API int cuKernelGetAttribute(int *ret_value, int attribute, struct function *kernel,
                                  int ordinal)
{
    int r = check_device(ordinal);
    return r == CUDA_SUCCESS ? cuFuncGetAttribute(ret_value, attribute, kernel) : r;
}

CUDA_API int cuKernelSetAttribute(int attribute, int value, struct function *kernel, int ordinal)
{
    int r = check_device(ordinal);
    return r == CUDA_SUCCESS ? cuFuncSetAttribute(kernel, attribute, value) : r;
}

CUDA_API int cuKernelSetCacheConfig(struct function *kernel, int config, int ordinal)
{
    int r = check_device(ordinal);
    return r == CUDA_SUCCESS ? cuFuncSetCacheConfig(kernel, config) : r;
}

CUDA_API int cuKernelGetLibrary(struct module **ret_library, struct function *kernel)
{
    int r = function_resolve(kernel);
    if (r == CUDA_SUCCESS && (!ret_library || kernel->module->magic != LIBRARY_MAGIC))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_library = kernel->module;
    return r;
}

/* Lists at most `count` functions. */
static int list_functions(const struct module *module, struct function **ret_functions,
                          unsigned count)
{
    unsigned i = 0;
    if (!ret_functions || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    list_for_each (it, &module->functions) {
        if (i < count)
            ret_functions[i++] = list_entry(it, struct function, link);
    }
    return CUDA_SUCCESS;
}

CUDA_API int cuLibraryEnumerateKernels(struct function **ret_kernels, unsigned count,
                                       struct module *library)
{
    int r = library_resolve(library);
    return r == CUDA_SUCCESS ? list_functions(library, ret_kernels, count) : r;
}

CUDA_API int cuModuleEnumerateFunctions(struct function **ret_functions, unsigned count,
                                        struct module *module)
{
    int r = module_resolve(module);
    return r == CUDA_SUCCESS ? list_functions(module, ret_functions, count) : r;
}

CUDA_API int cuModuleGetFunctionCount(unsigned *ret_count, struct module *module)
{
    int r = module_resolve(module);
    if (r == CUDA_SUCCESS && !ret_count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    *ret_count = 0;
    list_for_each (it, &module->functions)
        ++*ret_count;
    return CUDA_SUCCESS;
}

/* Modules are read when they are loaded. */
CUDA_API int cuModuleGetLoadingMode(int *ret_mode)
{
    enum { LOADING_EAGER = 1 };
    if (!ret_mode)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_mode = LOADING_EAGER;
    return CUDA_SUCCESS;
}
