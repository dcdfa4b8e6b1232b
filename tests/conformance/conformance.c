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
    {"before_init", case_before_init},
    {"init", case_init},
    {"devices", case_devices},
    {"names", case_names},
    {"without_context", case_without_context},
    {"contexts", case_contexts},
    {"primary_context", case_primary_context},
    {"modules", case_modules},
    {"launches", case_launches},
    {"streams", case_streams},
    {"events", case_events},
    {"memory", case_memory},
    {"memory_async", case_memory_async},
    {"host_memory", case_host_memory},
    {"copies", case_copies},
    {"pitched_memory", case_pitched_memory},
    {"managed_memory", case_managed_memory},
    {"pools", case_pools},
    {"registered_memory", case_registered_memory},
    {"cooperative", case_cooperative},
    {"libraries", case_libraries},
    {"virtual_memory", case_virtual_memory},
    {"host_functions", case_host_functions},
    {"stream_values", case_stream_values},
    {"graphs", case_graphs},
    {"broken_captures", case_broken_captures},
    {"arrays", case_arrays},
    {"array_memory", case_array_memory},
    {"array_copies", case_array_copies},
    {"plane_copies", case_plane_copies},
    {"box_copies", case_box_copies},
    {"unified_copies", case_unified_copies},
    {"plane_fills", case_plane_fills},
    {"graph_nodes", case_graph_nodes},
    {"more_nodes", case_more_nodes},
    {"graph_changes", case_graph_changes},
    {"user_objects", case_user_objects},
    {"captured_streams", case_captured_streams},
    {"capture_errors", case_capture_errors},
    {"captured_events", case_captured_events},
    {"implicit_captures", case_implicit_captures},
    {"capture_dependencies", case_capture_dependencies},
    {"capture_modes", case_capture_modes},
    {"capture_threads", case_capture_threads},
    {"graph_memory", case_graph_memory},
    {"captured_memory", case_captured_memory},
    {"shared_handles", case_shared_handles},
    {"exported_memory", case_exported_memory},
    {"stream_callbacks", case_stream_callbacks},
    {"context_events", case_context_events},
    {"per_thread_stream", case_per_thread_stream},
    {"per_thread_names", case_per_thread_names},
    {"checkpoints", case_checkpoints},
    {"context_facts", case_context_facts},
    {"stream_facts", case_stream_facts},
    {"function_facts", case_function_facts},
    {"kernel_facts", case_kernel_facts},
    {"pointer_facts", case_pointer_facts},
    {"pool_facts", case_pool_facts},
    {"any_nodes", case_any_nodes},
    {"nvml_system", case_nvml_system},
    {"nvml_devices", case_nvml_devices},
    {"nvml_load", case_nvml_load},
    {"nvml_health", case_nvml_health},
    {"illegal_address", case_illegal_address},
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
