#include "conformance.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct call_row {
    const char *name, *errors;
};

static const struct call_row calls[CALLS] = {
#define CALL(symbol, name_, version, variant, shim, errors_, ...)                                  \
    [CALL_##symbol] = {.name = #symbol, .errors = (errors_)},
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
#define CALL(symbol, shim, errors_, ...) [CALL_##symbol] = {.name = #symbol, .errors = (errors_)},
#define TEXT(symbol, shim, errors_, ...) [CALL_##symbol] = {.name = #symbol, .errors = (errors_)},
#define LACK(symbol)
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
#undef LACK
};

struct case_row {
    const char *name;
    void (*run)(struct conformance *t);
};

static const struct case_row cases[] = {
    {"calls_before_init_fail", case_calls_before_init_fail},
    {"repeated_init_succeeds", case_repeated_init_succeeds},
    {"devices_report_identity_and_attributes", case_devices_report_identity_and_attributes},
    {"errors_and_calls_have_names", case_errors_and_calls_have_names},
    {"calls_without_context_fail", case_calls_without_context_fail},
    {"contexts_can_be_stacked", case_contexts_can_be_stacked},
    {"primary_context_counts_references", case_primary_context_counts_references},
    {"modules_load_and_find_functions", case_modules_load_and_find_functions},
    {"launches_check_their_arguments", case_launches_check_their_arguments},
    {"streams_report_outstanding_work", case_streams_report_outstanding_work},
    {"events_order_and_time_work", case_events_order_and_time_work},
    {"memory_is_counted_and_bounded", case_memory_is_counted_and_bounded},
    {"async_memory_is_usable", case_async_memory_is_usable},
    {"host_memory_is_writable", case_host_memory_is_writable},
    {"copies_and_fills_are_exact", case_copies_and_fills_are_exact},
    {"pitched_memory_has_aligned_rows", case_pitched_memory_has_aligned_rows},
    {"managed_memory_reaches_host", case_managed_memory_reaches_host},
    {"pools_keep_memory_until_trim", case_pools_keep_memory_until_trim},
    {"registered_memory_reaches_device", case_registered_memory_reaches_device},
    {"cooperative_launches_must_fit", case_cooperative_launches_must_fit},
    {"libraries_load_and_launch_kernels", case_libraries_load_and_launch_kernels},
    {"virtual_memory_maps_and_unmaps", case_virtual_memory_maps_and_unmaps},
    {"host_functions_run_in_order", case_host_functions_run_in_order},
    {"streams_write_and_await_values", case_streams_write_and_await_values},
    {"captured_graph_repeats_work", case_captured_graph_repeats_work},
    {"forbidden_calls_break_captures", case_forbidden_calls_break_captures},
    {"arrays_report_their_shape", case_arrays_report_their_shape},
    {"arrays_use_device_memory", case_arrays_use_device_memory},
    {"array_copies_are_exact", case_array_copies_are_exact},
    {"plane_copies_are_exact", case_plane_copies_are_exact},
    {"box_copies_are_exact", case_box_copies_are_exact},
    {"unified_copies_are_exact", case_unified_copies_are_exact},
    {"plane_fills_are_exact", case_plane_fills_are_exact},
    {"graph_nodes_run_in_order", case_graph_nodes_run_in_order},
    {"event_and_child_nodes_run", case_event_and_child_nodes_run},
    {"changed_graphs_run_new_parameters", case_changed_graphs_run_new_parameters},
    {"user_objects_live_until_released", case_user_objects_live_until_released},
    {"forked_streams_join_one_graph", case_forked_streams_join_one_graph},
    {"inconsistent_captures_are_refused", case_inconsistent_captures_are_refused},
    {"captured_events_cannot_be_queried", case_captured_events_cannot_be_queried},
    {"legacy_stream_breaks_implicit_capture", case_legacy_stream_breaks_implicit_capture},
    {"capture_dependencies_can_be_changed", case_capture_dependencies_can_be_changed},
    {"capture_modes_decide_refused_calls", case_capture_modes_decide_refused_calls},
    {"capture_ends_for_all_threads", case_capture_ends_for_all_threads},
    {"graph_memory_stays_until_trim", case_graph_memory_stays_until_trim},
    {"captured_allocation_blocks_relaunch", case_captured_allocation_blocks_relaunch},
    {"ipc_handles_share_memory", case_ipc_handles_share_memory},
    {"exported_memory_is_shared", case_exported_memory_is_shared},
    {"stream_callbacks_run_after_work", case_stream_callbacks_run_after_work},
    {"context_events_cover_all_streams", case_context_events_cover_all_streams},
    {"per_thread_streams_are_separate", case_per_thread_streams_are_separate},
    {"per_thread_names_give_variants", case_per_thread_names_give_variants},
    {"checkpointed_process_frees_device_memory", case_checkpointed_process_frees_device_memory},
    {"context_settings_can_be_queried", case_context_settings_can_be_queried},
    {"stream_attributes_can_be_queried", case_stream_attributes_can_be_queried},
    {"function_attributes_can_be_queried", case_function_attributes_can_be_queried},
    {"kernel_attributes_can_be_queried", case_kernel_attributes_can_be_queried},
    {"pointer_attributes_describe_memory", case_pointer_attributes_describe_memory},
    {"pool_access_can_be_queried", case_pool_access_can_be_queried},
    {"generic_nodes_can_be_changed", case_generic_nodes_can_be_changed},
    {"nvml_reports_system_versions", case_nvml_reports_system_versions},
    {"nvml_reports_device_identity", case_nvml_reports_device_identity},
    {"nvml_shows_process_load", case_nvml_shows_process_load},
    {"nvml_reports_device_health", case_nvml_reports_device_health},
    {"illegal_address_ends_context", case_illegal_address_ends_context},
};

struct result_row {
    int result;
    const char *name;
};

static const struct result_row cuda_results[] = {
#define RESULT(name, number, text) {number, #name},
#include "../../api/cuda_results.def"
#undef RESULT
};

static const struct result_row nvml_results[] = {
#define RESULT(name, number) {number, #name},
#include "../../api/nvml_results.def"
#undef RESULT
};

static bool is_nvml(enum conformance_call call)
{
    return strncmp(calls[call].name, "nvml", strlen("nvml")) == 0;
}

static const char *result_name(enum conformance_call call, int result)
{
    const struct result_row *rows = is_nvml(call) ? nvml_results : cuda_results;
    size_t count = is_nvml(call) ? sizeof(nvml_results) / sizeof(*nvml_results)
                                 : sizeof(cuda_results) / sizeof(*cuda_results);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].result == result)
            return rows[i].name;
    }
    return result == CONFORMANCE_NO_SYMBOL ? "no such symbol" : "?";
}

bool conformance_begin(struct conformance *t, enum conformance_call call, bool is_there)
{
    t->notes->current = (int)call;
    return is_there;
}

/* Records an expected result that the call gave. */
static void remember(struct conformance_notes *notes, enum conformance_call call, int result)
{
    unsigned count = notes->result_count[call];
    for (unsigned i = 0; i < count; i++) {
        if (notes->results[call][i] == result)
            return;
    }
    if (count < CONFORMANCE_RESULTS_MAX) {
        notes->results[call][count] = result;
        notes->result_count[call]++;
    }
}

bool conformance_note(struct conformance *t, enum conformance_call call, const char *file, int line,
                      int expected, int result)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a case's output survives its crash */
    struct conformance_notes *notes = t->notes;
    notes->current = CALLS;
    notes->checks++;
    if (result == expected) {
        remember(notes, call, result);
        if (t->is_per_thread && result == CUDA_SUCCESS)
            notes->per_thread_succeeded[call] = true;
        return true;
    }
    notes->failures++;
    if (notes->is_json)
        printf("{\"file\": \"%s\", \"line\": %d, \"per_thread\": %s, \"call\": \"%s\", "
               "\"result\": \"%s\", \"expected\": \"%s\"}\n",
               file, line, t->is_per_thread ? "true" : "false", calls[call].name,
               result_name(call, result), result_name(call, expected));
    else
        printf("%s:%d:%s %s gives %d (%s), not %d (%s)\n", file, line,
               t->is_per_thread ? " per thread:" : "", calls[call].name, result,
               result_name(call, result), expected, result_name(call, expected));
    return false;
}

bool conformance_check(struct conformance *t, enum conformance_call call, const char *file,
                       int line, const char *text, bool is_right)
{
    t->notes->checks++;
    if (!is_right) {
        t->notes->failures++;
        if (t->notes->is_json)
            printf("{\"file\": \"%s\", \"line\": %d, \"per_thread\": %s, \"call\": \"%s\", "
                   "\"not_so\": \"%s\"}\n",
                   file, line, t->is_per_thread ? "true" : "false", calls[call].name, text);
        else
            printf("%s:%d:%s after %s: not so: %s\n", file, line,
                   t->is_per_thread ? " per thread:" : "", calls[call].name, text);
    }
    return is_right;
}

const char conformance_ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry gpumux_burn(.param .u32 sm_permille, .param .u32 dram_permille,\n"
    "    .param .u64 duration_ns)\n"
    "{\n"
    "    .reg .pred %p<2>;\n"
    "    .reg .b64 %rd<6>;\n"
    "    mov.u64 %rd1, %globaltimer;\n"
    "    ld.param.u64 %rd2, [duration_ns];\n"
    "    add.u64 %rd3, %rd1, %rd2;\n"
    "LOOP:\n"
    "    mov.u64 %rd4, %globaltimer;\n"
    "    setp.lt.u64 %p1, %rd4, %rd3;\n"
    "    @%p1 bra LOOP;\n"
    "    ret;\n"
    "}\n";

void conformance_open_device(struct conformance *t)
{
    EXPECT(t, cuInit, CUDA_SUCCESS, (0));
    EXPECT(t, cuDevicePrimaryCtxRetain, CUDA_SUCCESS, (&t->context, 0));
    EXPECT(t, cuCtxSetCurrent, CUDA_SUCCESS, (t->context));
    EXPECT(t, cuModuleLoadData, CUDA_SUCCESS, (&t->module, conformance_ptx));
    if (!EXPECT(t, cuModuleGetFunction, CUDA_SUCCESS, (&t->function, t->module, "gpumux_burn")))
        exit(1); /* the rest of the case would be meaningless */
}

int conformance_burn(struct conformance *t, void *stream, uint64_t duration_ns)
{
    uint32_t sm_permille = 10, dram_permille = 0;
    void *parameters[] = {&sm_permille, &dram_permille, &duration_ns};
    return t->cuLaunchKernel(t->function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

_Atomic uint32_t *conformance_hold(struct conformance *t, void *stream)
{
    enum { BYTES = 4096, MAPPED = 2, UNTIL_AT_LEAST = 0 };
    void *memory = NULL;
    uint64_t at = 0;
    /* A driver may load the kernel at its first launch, and wait for all streams then. */
    CHECK(t, cuLaunchKernel, conformance_burn(t, stream, 1) == CUDA_SUCCESS);
    EXPECT(t, cuStreamSynchronize, CUDA_SUCCESS, (stream));
    if (!EXPECT(t, cuMemHostAlloc, CUDA_SUCCESS, (&memory, BYTES, MAPPED)) ||
        !EXPECT(t, cuMemHostGetDevicePointer_v2, CUDA_SUCCESS, (&at, memory, 0)))
        exit(1);
    _Atomic uint32_t *hold = memory;
    *hold = 0;
    if (!EXPECT(t, cuStreamWaitValue32_v2, CUDA_SUCCESS, (stream, at, 1, UNTIL_AT_LEAST)))
        exit(1);
    return hold;
}

void conformance_let_go(_Atomic uint32_t *hold)
{
    *hold = 1;
}

bool conformance_becomes(_Atomic int *number, int value)
{
    enum { LOOKS_MAX = 20000, LOOK_NS = 1000 * 1000 };
    for (unsigned i = 0; i < LOOKS_MAX && *number != value; i++)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    return *number == value;
}

static void load_calls(struct conformance *t)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!cuda || !nvml) {
        printf("%s\n", dlerror());
        exit(1);
    }
#define LOAD(member, symbol) *(void **)&t->member = dlsym(cuda, #symbol);
#define CALL(symbol, ...)    LOAD(symbol, symbol)
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#define CALL(symbol, ...) *(void **)&t->symbol = dlsym(nvml, #symbol);
#define TEXT(symbol, ...) *(void **)&t->symbol = dlsym(nvml, #symbol);
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
    if (!t->is_per_thread)
        return;
#define LOAD_legacy(symbol)
#define LOAD_ptds(symbol)                          LOAD(symbol, symbol##_ptds)
#define LOAD_ptsz(symbol)                          LOAD(symbol, symbol##_ptsz)
#define CALL(symbol, name_, version, variant, ...) LOAD_##variant(symbol)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
}

static void run_case(const struct case_row *row, bool is_per_thread,
                     struct conformance_notes *notes)
{
    notes->current = CALLS;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct conformance t = {.notes = notes, .is_per_thread = is_per_thread};
        alarm(CONFORMANCE_CASE_SECONDS_MAX);
        load_calls(&t);
        row->run(&t);
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (status == 0)
        return;
    const char *in = notes->current < CALLS ? calls[notes->current].name : "itself";
    notes->failures++;
    if (notes->is_json)
        printf("{\"case\": \"%s\", \"per_thread\": %s, \"call\": \"%s\", \"status\": %d}\n",
               row->name, is_per_thread ? "true" : "false", in, status);
    else
        printf("case %s%s ended with status 0x%x in %s\n", row->name,
               is_per_thread ? " per thread" : "", (unsigned)status, in);
}

static bool was_seen(const struct conformance_notes *notes, enum conformance_call call,
                     const char *name, size_t length)
{
    static const size_t prefix_lengths[] = {sizeof("CUDA_ERROR_") - 1, sizeof("NVML_ERROR_") - 1};
    size_t prefix = prefix_lengths[is_nvml(call)];
    for (unsigned i = 0; i < notes->result_count[call]; i++) {
        const char *seen = result_name(call, notes->results[call][i]);
        if (strlen(seen) == prefix + length && strncmp(seen + prefix, name, length) == 0)
            return true;
    }
    return false;
}

/* Counts unseen results: success, and every error in the call's list. */
static unsigned count_unseen(const struct conformance_notes *notes, enum conformance_call call)
{
    unsigned unseen = 0;
    bool succeeded = false;
    for (unsigned i = 0; i < notes->result_count[call]; i++)
        succeeded = succeeded || notes->results[call][i] == 0;
    if (!succeeded) {
        printf("%s: no assertion has seen it succeed\n", calls[call].name);
        unseen++;
    }
    for (const char *at = calls[call].errors; *at;) {
        size_t length = strcspn(at, " ");
        if (!was_seen(notes, call, at, length)) {
            printf("%s: no assertion has seen %.*s\n", calls[call].name, (int)length, at);
            unseen++;
        }
        at += length;
        at += strspn(at, " ");
    }
    return unseen;
}

/* Counts per-thread variants of calls that no assertion has seen succeed. */
static unsigned count_unseen_per_thread(const struct conformance_notes *notes)
{
    unsigned unseen = 0;
#define SEEN_legacy(symbol) true
#define SEEN_ptds(symbol)   notes->per_thread_succeeded[CALL_##symbol]
#define SEEN_ptsz(symbol)   notes->per_thread_succeeded[CALL_##symbol]
#define CALL(symbol, name_, version, variant, ...)                                                 \
    if (!SEEN_##variant(symbol)) {                                                                 \
        printf("%s: no assertion has seen it succeed\n", #symbol "_" #variant);                    \
        unseen++;                                                                                  \
    }
#define LACK(...)
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
    return unseen;
}

/* Prints the device and its driver for the report, in a process of its own. */
static void print_device(struct conformance *t)
{
    char name[96] = "", driver[96] = "";
    int version = 0;
    if (t->cuInit(0) == CUDA_SUCCESS)
        t->cuDeviceGetName(name, sizeof(name), 0);
    t->cuDriverGetVersion(&version);
    if (t->nvmlInit_v2() == NVML_SUCCESS)
        t->nvmlSystemGetDriverVersion(driver, sizeof(driver));
    printf("\"device\": \"%s\", \"driver\": \"%s\", \"cuda\": %d, ", name, driver, version);
}

static void print_summary(const struct conformance_notes *notes, unsigned unseen)
{
    unsigned results = 0;
    for (unsigned call = 0; call < CALLS; call++)
        results += notes->result_count[call];
    printf("{");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct conformance t = {0};
        load_calls(&t);
        print_device(&t);
        fflush(stdout);
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
    printf(
        "\"calls\": %d, \"results\": %u, \"assertions\": %u, \"failures\": %u, \"unseen\": %u}\n",
        CALLS, results, notes->checks, notes->failures, unseen);
}

/* conformance [--json] [CASE...]: runs all cases and checks that no result is missing, or runs the
 * named cases only. With --json every failed assertion, and every crash, is an object on a line.
 * The last line of the output is a summary in JSON. */
int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a case's output survives its crash */
    struct conformance_notes *notes =
        mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED)
        return 1;
    notes->is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    if (notes->is_json) {
        argv++;
        argc--;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
        if (!wanted)
            continue;
        run_case(&cases[i], false, notes);
        if (strncmp(cases[i].name, "nvml", strlen("nvml")) != 0)
            run_case(&cases[i], true, notes);
    }
    unsigned unseen = 0;
    if (argc == 1) {
        unseen = count_unseen_per_thread(notes);
        for (unsigned call = 0; call < CALLS; call++)
            unseen += count_unseen(notes, call);
    }
    print_summary(notes, unseen);
    return notes->failures + unseen > 0;
}
