/*
 * Conformance of a driver: the same assertions on an emulated device and on a real one. A case is a
 * function that runs in a process of its own, so that its remains, or a crash, affect no other
 * case. No case knows which driver it tests: the driver is the one that the loader finds.
 *
 * Every case runs twice, the second time with the variants of the calls for which stream 0 is the
 * per-thread default stream. A case that means the legacy stream uses CUDA_STREAM_LEGACY.
 *
 * A case makes calls only through EXPECT and CHECK, which record the call and its result; main()
 * then compares the records with the lists of calls (api/cuda_calls.def, api/nvml_calls.def).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To a program a handle is any pointer. */
#define CUDA_HANDLE(word, ours) typedef void *word;
#define NVML_HANDLE(word, tag)  typedef void *word;
#include "abi/nvml.h"
#include "abi/parameters.h"
#include "emu/abi/cuda_abi.h"

enum conformance_call {
#define CALL(symbol, ...) CALL_##symbol,
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
#define CALL(symbol, ...) CALL_##symbol,
#define TEXT(symbol, ...) CALL_##symbol,
#define LACK(symbol)
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
#undef LACK
    CALLS,
};

enum {
    CONFORMANCE_RESULTS_MAX = 16, /* different results of one call */
    /* Time limit of a case; a process that the case forks sets its own. */
    CONFORMANCE_CASE_SECONDS_MAX = 60,
    CONFORMANCE_NO_SYMBOL = -1, /* stands for the result of a call that the driver lacks */
};

/* Records of all cases, shared between their processes. */
struct conformance_notes {
    bool is_json; /* the report is JSON, for a program */
    unsigned checks, failures;
    int current; /* call under way, for the report of a crash; or CALLS */
    unsigned result_count[CALLS];
    int results[CALLS][CONFORMANCE_RESULTS_MAX];
    bool per_thread_succeeded[CALLS]; /* the per-thread default stream's variant succeeded */
};

struct conformance {
    struct conformance_notes *notes;
    bool is_per_thread; /* calls with a per-thread variant are that variant */
    void *function;     /* kernel of conformance_open_device() */
    void *module, *context;
#define CALL(symbol, name, version, variant, shim, errors, ...)                                    \
    CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
#define CALL(symbol, ...) call_##symbol *symbol;
#define TEXT(symbol, ...) call_##symbol *symbol;
#define LACK(symbol)
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
#undef LACK
};

/* EXPECT(t, cuMemAlloc_v2, CUDA_ERROR_INVALID_VALUE, (&address, 0)) asserts the result of the call.
 * Returns whether the call gave it. */
#define EXPECT(t, name, expected, arguments)                                                       \
    conformance_note((t), CALL_##name, __FILE__, __LINE__, (expected),                             \
                     conformance_begin((t), CALL_##name, (t)->name != NULL)                        \
                         ? (t)->name arguments                                                     \
                         : CONFORMANCE_NO_SYMBOL)
/* CHECK(t, cuMemAlloc_v2, address != 0) asserts that an output of the call is right. */
#define CHECK(t, name, condition)                                                                  \
    conformance_check((t), CALL_##name, __FILE__, __LINE__, #condition, (condition))

bool conformance_begin(struct conformance *t, enum conformance_call call, bool is_there);
bool conformance_note(struct conformance *t, enum conformance_call call, const char *file, int line,
                      int expected, int result);
bool conformance_check(struct conformance *t, enum conformance_call call, const char *file,
                       int line, const char *text, bool is_right);

/* Calls cuInit, makes the primary context of device 0 current, and loads a kernel that runs for a
 * given time. */
void conformance_open_device(struct conformance *t);
/* Launches that kernel. */
int conformance_burn(struct conformance *t, void *stream, uint64_t duration_ns);

/* Stops a stream: work put into the stream does not finish before conformance_let_go(), however
 * slow the machine is. Ends the case if that is not possible. */
_Atomic uint32_t *conformance_hold(struct conformance *t, void *stream);
void conformance_let_go(_Atomic uint32_t *hold);

/* Waits, for seconds if necessary, until the number has that value. */
bool conformance_becomes(_Atomic int *number, int value);

/* PTX of the kernel gpumux_burn, for cases that load it themselves. */
extern const char conformance_ptx[];

void case_before_init(struct conformance *t);
void case_init(struct conformance *t);
void case_devices(struct conformance *t);
void case_names(struct conformance *t);
void case_without_context(struct conformance *t);
void case_contexts(struct conformance *t);
void case_primary_context(struct conformance *t);
void case_modules(struct conformance *t);
void case_launches(struct conformance *t);
void case_streams(struct conformance *t);
void case_events(struct conformance *t);
void case_memory(struct conformance *t);
void case_memory_async(struct conformance *t);
void case_host_memory(struct conformance *t);
void case_copies(struct conformance *t);
void case_pitched_memory(struct conformance *t);
void case_managed_memory(struct conformance *t);
void case_pools(struct conformance *t);
void case_registered_memory(struct conformance *t);
void case_cooperative(struct conformance *t);
void case_libraries(struct conformance *t);
void case_virtual_memory(struct conformance *t);
void case_host_functions(struct conformance *t);
void case_stream_values(struct conformance *t);
void case_graphs(struct conformance *t);
void case_broken_captures(struct conformance *t);
void case_arrays(struct conformance *t);
void case_array_memory(struct conformance *t);
void case_array_copies(struct conformance *t);
void case_plane_copies(struct conformance *t);
void case_box_copies(struct conformance *t);
void case_unified_copies(struct conformance *t);
void case_plane_fills(struct conformance *t);
void case_graph_nodes(struct conformance *t);
void case_more_nodes(struct conformance *t);
void case_graph_changes(struct conformance *t);
void case_user_objects(struct conformance *t);
void case_captured_streams(struct conformance *t);
void case_capture_errors(struct conformance *t);
void case_captured_events(struct conformance *t);
void case_implicit_captures(struct conformance *t);
void case_capture_dependencies(struct conformance *t);
void case_capture_modes(struct conformance *t);
void case_capture_threads(struct conformance *t);
void case_graph_memory(struct conformance *t);
void case_captured_memory(struct conformance *t);
void case_shared_handles(struct conformance *t);
void case_exported_memory(struct conformance *t);
void case_stream_callbacks(struct conformance *t);
void case_context_events(struct conformance *t);
void case_per_thread_stream(struct conformance *t);
void case_per_thread_names(struct conformance *t);
void case_checkpoints(struct conformance *t);
void case_context_facts(struct conformance *t);
void case_stream_facts(struct conformance *t);
void case_function_facts(struct conformance *t);
void case_kernel_facts(struct conformance *t);
void case_pointer_facts(struct conformance *t);
void case_pool_facts(struct conformance *t);
void case_any_nodes(struct conformance *t);
void case_nvml_system(struct conformance *t);
void case_nvml_devices(struct conformance *t);
void case_nvml_load(struct conformance *t);
void case_nvml_health(struct conformance *t);
void case_illegal_address(struct conformance *t);
