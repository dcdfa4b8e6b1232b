/* cuGetProcAddress, and the names of results: two tables generated from lists. */
#include <string.h>

#include "emu/driver/calls.h"

/* Only addresses are needed here; the functions' types are where they are defined. */
#define ADDRESS(symbol) extern const char symbol##_address[] __asm__(#symbol);
#define ADDRESS_legacy(symbol)
#define ADDRESS_ptds(symbol)                      ADDRESS(symbol##_ptds)
#define ADDRESS_ptsz(symbol)                      ADDRESS(symbol##_ptsz)
#define CALL(symbol, name, version, variant, ...) ADDRESS(symbol) ADDRESS_##variant(symbol)
#define LACK(symbol, name, version, variant, ...) ADDRESS(symbol) ADDRESS_##variant(symbol)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK

struct symbol_row {
    const char *name;
    int version;
    const char *address;
};

static const struct symbol_row symbols[] = {
#define CALL(symbol, name, version, ...) {#name, version, symbol##_address},
#define LACK(symbol, name, version, ...) {#name, version, symbol##_address},
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
};

#define ROW(symbol, name, version) {name, (version) < 7000 ? 7000 : (version), symbol##_address},
#define ROW_legacy(symbol, name, version)
#define ROW_ptds(symbol, name, version) ROW(symbol##_ptds, name, version)
#define ROW_ptsz(symbol, name, version) ROW(symbol##_ptsz, name, version)
static const struct symbol_row per_thread_symbols[] = {
#define CALL(symbol, name, version, variant, ...) ROW_##variant(symbol, #name, version)
#define LACK(symbol, name, version, variant, ...) ROW_##variant(symbol, #name, version)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
};

/* Returns the newest of a name's symbols that a program built for `version` knows. */
static enum cuda_proc_address_status find_symbol(const struct symbol_row *rows, size_t count,
                                                 const char *name, int version,
                                                 const char **ret_address)
{
    const struct symbol_row *best = NULL;
    enum cuda_proc_address_status status = CUDA_PROC_NOT_FOUND;
    for (size_t i = 0; i < count; i++) {
        const struct symbol_row *row = &rows[i];
        if (strcmp(row->name, name) != 0)
            continue;
        if (row->version <= version && (!best || row->version > best->version))
            best = row;
        status = best ? CUDA_PROC_FOUND : CUDA_PROC_VERSION_NOT_SUFFICIENT;
    }
    if (best)
        *ret_address = best->address;
    return status;
}

CUDA_API int cuGetProcAddress_v2(const char *name, void **ret_address, int version, uint64_t flags,
                                 int *ret_status)
{
    if (!name || !ret_address || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    const char *address = NULL;
    enum cuda_proc_address_status status = CUDA_PROC_NOT_FOUND;
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        status = find_symbol(per_thread_symbols,
                             sizeof(per_thread_symbols) / sizeof(*per_thread_symbols), name,
                             version, &address);
    if (status == CUDA_PROC_NOT_FOUND)
        status = find_symbol(symbols, sizeof(symbols) / sizeof(*symbols), name, version, &address);
    if (ret_status)
        *ret_status = (int)status;
    *ret_address = (void *)(uintptr_t)address;
    return CUDA_SUCCESS; /* also if nothing was found: the status says so */
}

CUDA_API int cuGetProcAddress(const char *name, void **ret_address, int version, uint64_t flags)
{
    void *address = NULL;
    int status;
    int r = cuGetProcAddress_v2(name, &address, version, flags, &status);
    if (r != CUDA_SUCCESS || !ret_address)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    if (!address)
        return CUDA_ERROR_NOT_FOUND;
    *ret_address = address;
    return CUDA_SUCCESS;
}

struct result_row {
    int result;
    const char *name, *text;
};

static const struct result_row results[] = {
#define RESULT(name_, number, text_) {number, #name_, text_},
#include "../../api/cuda_results.def"
#undef RESULT
};

static const struct result_row *find_result(int result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
        if (results[i].result == result)
            return &results[i];
    }
    return NULL;
}

CUDA_API int cuGetErrorName(int result, const char **ret_name)
{
    const struct result_row *row = find_result(result);
    if (!ret_name)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_name = row ? row->name : NULL;
    return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuGetErrorString(int result, const char **ret_text)
{
    const struct result_row *row = find_result(result);
    if (!ret_text)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_text = row ? row->text : NULL;
    return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
