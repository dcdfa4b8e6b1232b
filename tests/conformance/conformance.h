/*
 * Conformance of a driver: the same assertions on an emulated device and on a real one. A case is a
 * function that runs in a process of its own, so that its remains, or a crash, affect no other
 * case. No case knows which driver it tests: the driver is the one that the loader finds.
 *
 * Every case runs twice, the second time with the variants of the calls for which stream 0 is the
 * per-thread default stream. A case that means the legacy stream uses STREAM_LEGACY.
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

void case_calls_before_init_fail(struct conformance *t);
void case_repeated_init_succeeds(struct conformance *t);
void case_devices_report_identity_and_attributes(struct conformance *t);
void case_errors_and_calls_have_names(struct conformance *t);
void case_calls_without_context_fail(struct conformance *t);
void case_contexts_can_be_stacked(struct conformance *t);
void case_primary_context_counts_references(struct conformance *t);
void case_modules_load_and_find_functions(struct conformance *t);
void case_launches_check_their_arguments(struct conformance *t);
void case_streams_report_outstanding_work(struct conformance *t);
void case_events_order_and_time_work(struct conformance *t);
void case_memory_is_counted_and_bounded(struct conformance *t);
void case_async_memory_is_usable(struct conformance *t);
void case_host_memory_is_writable(struct conformance *t);
void case_copies_and_fills_are_exact(struct conformance *t);
void case_pitched_memory_has_aligned_rows(struct conformance *t);
void case_managed_memory_reaches_host(struct conformance *t);
void case_pools_keep_memory_until_trim(struct conformance *t);
void case_registered_memory_reaches_device(struct conformance *t);
void case_cooperative_launches_must_fit(struct conformance *t);
void case_libraries_load_and_launch_kernels(struct conformance *t);
void case_virtual_memory_maps_and_unmaps(struct conformance *t);
void case_host_functions_run_in_order(struct conformance *t);
void case_streams_write_and_await_values(struct conformance *t);
void case_captured_graph_repeats_work(struct conformance *t);
void case_forbidden_calls_break_captures(struct conformance *t);
void case_arrays_report_their_shape(struct conformance *t);
void case_arrays_use_device_memory(struct conformance *t);
void case_array_copies_are_exact(struct conformance *t);
void case_plane_copies_are_exact(struct conformance *t);
void case_box_copies_are_exact(struct conformance *t);
void case_unified_copies_are_exact(struct conformance *t);
void case_plane_fills_are_exact(struct conformance *t);
void case_graph_nodes_run_in_order(struct conformance *t);
void case_event_and_child_nodes_run(struct conformance *t);
void case_changed_graphs_run_new_parameters(struct conformance *t);
void case_user_objects_live_until_released(struct conformance *t);
void case_forked_streams_join_one_graph(struct conformance *t);
void case_inconsistent_captures_are_refused(struct conformance *t);
void case_captured_events_cannot_be_queried(struct conformance *t);
void case_legacy_stream_breaks_implicit_capture(struct conformance *t);
void case_capture_dependencies_can_be_changed(struct conformance *t);
void case_capture_modes_decide_refused_calls(struct conformance *t);
void case_capture_ends_for_all_threads(struct conformance *t);
void case_graph_memory_stays_until_trim(struct conformance *t);
void case_captured_allocation_blocks_relaunch(struct conformance *t);
void case_ipc_handles_share_memory(struct conformance *t);
void case_exported_memory_is_shared(struct conformance *t);
void case_stream_callbacks_run_after_work(struct conformance *t);
void case_context_events_cover_all_streams(struct conformance *t);
void case_per_thread_streams_are_separate(struct conformance *t);
void case_per_thread_names_give_variants(struct conformance *t);
void case_checkpointed_process_frees_device_memory(struct conformance *t);
void case_context_settings_can_be_queried(struct conformance *t);
void case_stream_attributes_can_be_queried(struct conformance *t);
void case_function_attributes_can_be_queried(struct conformance *t);
void case_kernel_attributes_can_be_queried(struct conformance *t);
void case_pointer_attributes_describe_memory(struct conformance *t);
void case_pool_access_can_be_queried(struct conformance *t);
void case_generic_nodes_can_be_changed(struct conformance *t);
void case_nvml_reports_system_versions(struct conformance *t);
void case_nvml_reports_device_identity(struct conformance *t);
void case_nvml_shows_process_load(struct conformance *t);
void case_nvml_reports_device_health(struct conformance *t);
void case_illegal_address_ends_context(struct conformance *t);
