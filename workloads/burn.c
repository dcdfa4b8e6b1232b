/* gpumux-burn: uses a GPU as a training task or a service with a known profile would. */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "workloads/burn_run.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STOPPED = 128 + SIGTERM };

static const char help[] =
    "Usage: gpumux-burn [--profile FILE --model NAME] [options]\n"
    "       gpumux-burn --service --rate R --kernel-ms T [options]\n"
    "\n"
    "gpumux-burn uses the first visible GPU, real or emulated, as a training task or a\n"
    "service would.\n"
    "\n"
    "Training task:\n"
    "  --profile FILE        CSV of measured tasks, with the columns of\n"
    "                        data/h200_train_solo.csv\n"
    "  --model NAME          rows of the --profile or --kernel-list table to use\n"
    "  --batch N             batch size (default: the smallest in the profile, else 1);\n"
    "                        a batch size that gpumux suggests takes precedence\n"
    "  --samples N           end after N samples (default: run until stopped)\n"
    "  --steps N             end after N steps (default: run until stopped)\n"
    "  --step-ms T           milliseconds of a step, alone on the device\n"
    "  --busy-percent P      percentage of a step that the device is busy (default 100)\n"
    "  --kernels-per-step K  kernels in a step, with host time between them (default 4)\n"
    "  --noise-scale PHI     gradient noise scale: at batch size B, a sample counts as\n"
    "                        (PHI + B0) / (PHI + B) samples (default 0: as one sample)\n"
    "  --reference-batch B0  batch size that --noise-scale relates to (default: --batch)\n"
    "  --kernel-list FILE    CSV of the kernels of a step, launched without pauses, with\n"
    "                        the columns of data/h200_mode_kernels.csv; excludes --profile\n"
    "An option for one value overrides that value of the --profile table.\n"
    "\n"
    "Service:\n"
    "  --service             answer requests that arrive at random (Poisson)\n"
    "  --rate R              mean number of requests a second\n"
    "  --kernel-ms T         milliseconds of device time of a request, alone on the device\n"
    "  --kernel-list FILE    CSV of the kernels of a request, launched as a graph; excludes\n"
    "                        --kernel-ms\n"
    "  --requests N          end after N requests (default: run until stopped)\n"
    "  --seed N              seed of the random arrivals (default 1)\n"
    "  --one-by-one          answer one request at a time, and report the begin and the end of\n"
    "                        each request to gpumux; latencies are times of the host\n"
    "  --kernels-per-request K  with --one-by-one: divide --kernel-ms among K kernels\n"
    "                        (default 1)\n"
    "  --gap-ms G            with --one-by-one: host time between two kernels (default 0)\n"
    "  --then-idle           with --one-by-one and --requests: stay idle after the last request,\n"
    "                        until stopped\n"
    "  --slip                delay later requests when the host is late, instead of adding\n"
    "                        the delay to their latency; for a busy machine\n"
    "\n"
    "Training task and service:\n"
    "  --sm P                percentage of the SMs in use while busy (default 100)\n"
    "  --dram P              percentage of the memory bandwidth in use while busy (default 10)\n"
    "  --memory SIZE         device memory to hold, such as 512m or 2g (default 0)\n"
    "\n"
    "For tests:\n"
    "  --crash-after N       abort after N steps of a training task\n"
    "  --exit CODE           exit with status CODE instead of 0\n"
    "  --leave-queue         end a service without waiting for work in flight on the device\n"
    "\n"
    "gpumux-burn prints one line of progress a second and, as a workload of gpumux, reports\n"
    "its progress. SIGTERM and SIGINT end gpumux-burn after the current step, with exit status\n"
    "143. Exit status 1: the device failed; 2: wrong usage. On emulated devices (GPUMUX_EMU),\n"
    "GPUMUX_EMU_SPEED sets the speed, and all times are device times.\n";

enum option_id {
    OPTION_PROFILE = 256,
    OPTION_MODEL,
    OPTION_KERNEL_LIST,
    OPTION_BATCH,
    OPTION_SAMPLES,
    OPTION_STEPS,
    OPTION_STEP_MS,
    OPTION_BUSY,
    OPTION_SM,
    OPTION_DRAM,
    OPTION_MEMORY,
    OPTION_KERNELS,
    OPTION_NOISE,
    OPTION_REFERENCE,
    OPTION_SERVICE,
    OPTION_RATE,
    OPTION_KERNEL_MS,
    OPTION_REQUESTS,
    OPTION_SEED,
    OPTION_SLIP,
    OPTION_ONE,
    OPTION_PARTS,
    OPTION_GAP,
    OPTION_IDLE,
    OPTION_LEAVE,
    OPTION_CRASH,
    OPTION_EXIT,
    OPTION_HELP,
    OPTION_END,
};

static const struct option long_options[] = {
    {"profile", required_argument, NULL, OPTION_PROFILE},
    {"model", required_argument, NULL, OPTION_MODEL},
    {"kernel-list", required_argument, NULL, OPTION_KERNEL_LIST},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"samples", required_argument, NULL, OPTION_SAMPLES},
    {"steps", required_argument, NULL, OPTION_STEPS},
    {"step-ms", required_argument, NULL, OPTION_STEP_MS},
    {"busy-percent", required_argument, NULL, OPTION_BUSY},
    {"sm", required_argument, NULL, OPTION_SM},
    {"dram", required_argument, NULL, OPTION_DRAM},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"kernels-per-step", required_argument, NULL, OPTION_KERNELS},
    {"noise-scale", required_argument, NULL, OPTION_NOISE},
    {"reference-batch", required_argument, NULL, OPTION_REFERENCE},
    {"service", no_argument, NULL, OPTION_SERVICE},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"kernel-ms", required_argument, NULL, OPTION_KERNEL_MS},
    {"requests", required_argument, NULL, OPTION_REQUESTS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"slip", no_argument, NULL, OPTION_SLIP},
    {"one-by-one", no_argument, NULL, OPTION_ONE},
    {"kernels-per-request", required_argument, NULL, OPTION_PARTS},
    {"gap-ms", required_argument, NULL, OPTION_GAP},
    {"then-idle", no_argument, NULL, OPTION_IDLE},
    {"leave-queue", no_argument, NULL, OPTION_LEAVE},
    {"crash-after", required_argument, NULL, OPTION_CRASH},
    {"exit", required_argument, NULL, OPTION_EXIT},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* The command line; values[] is NAN for options that are not given. */
struct arguments {
    const char *profile, *model, *kernel_list;
    bool is_service, is_one_by_one, then_idle, slips, leaves_queue, wants_help;
    double values[OPTION_END - OPTION_PROFILE];
};

static double *value_of(struct arguments *a, enum option_id id)
{
    return &a->values[id - OPTION_PROFILE];
}

static double value_or(const struct arguments *a, enum option_id id, double otherwise)
{
    double value = a->values[id - OPTION_PROFILE];
    return isnan(value) ? otherwise : value;
}

/* The values that an option takes. */
static void range_of(int id, double *ret_min, double *ret_max)
{
    *ret_min = 0;
    *ret_max = 1e15;
    switch (id) {
    case OPTION_BUSY:
    case OPTION_SM:
    case OPTION_DRAM:
        *ret_max = 100;
        break;
    case OPTION_STEP_MS:
    case OPTION_KERNEL_MS:
        *ret_min = 0.001;
        *ret_max = 3600e3;
        break;
    case OPTION_RATE:
        *ret_min = 0.001;
        *ret_max = 1e6;
        break;
    case OPTION_BATCH:
    case OPTION_REFERENCE:
    case OPTION_KERNELS:
    case OPTION_PARTS:
        *ret_min = 1;
        *ret_max = 1e9;
        break;
    case OPTION_EXIT:
        *ret_max = 255;
        break;
    default:
        break;
    }
}

static int parse_value(struct error *e, int id, const char *name, const char *text,
                       double *ret_value)
{
    char *end;
    double value = strtod(text, &end), min, max;
    if (id == OPTION_MEMORY && end != text &&
        (*end == 'g' || *end == 'G' || *end == 'm' || *end == 'M')) {
        value *= *end == 'g' || *end == 'G' ? 1024 : 1;
        end++;
    } else if (id == OPTION_MEMORY && end != text && value != 0) {
        return error_set(e, ERR_INVALID, "--%s: '%s' needs a unit, m or g, such as 512m", name,
                         text);
    }
    range_of(id, &min, &max);
    if (end == text || *end != '\0' || !(value >= min && value <= max))
        return error_set(e, ERR_INVALID, "--%s takes a number from %g to %g, not '%s'", name, min,
                         max, text);
    *ret_value = value;
    return 0;
}

static int parse_arguments(struct error *e, int argc, char **argv, struct arguments *a)
{
    *a = (struct arguments){.profile = NULL};
    for (size_t i = 0; i < sizeof(a->values) / sizeof(*a->values); i++)
        a->values[i] = NAN;
    int id, place = 0, r = 0;
    while (r == 0 && (id = getopt_long(argc, argv, "", long_options, &place)) != -1) {
        switch (id) {
        case '?':
            return error_set(e, ERR_INVALID, "see gpumux-burn --help");
        case OPTION_PROFILE:
            a->profile = optarg;
            break;
        case OPTION_MODEL:
            a->model = optarg;
            break;
        case OPTION_KERNEL_LIST:
            a->kernel_list = optarg;
            break;
        case OPTION_SERVICE:
            a->is_service = true;
            break;
        case OPTION_SLIP:
            a->slips = true;
            break;
        case OPTION_IDLE:
            a->then_idle = true;
            break;
        case OPTION_ONE:
            a->is_one_by_one = true;
            break;
        case OPTION_LEAVE:
            a->leaves_queue = true;
            break;
        case OPTION_HELP:
            a->wants_help = true;
            break;
        default:
            r = parse_value(e, id, long_options[place].name, optarg,
                            value_of(a, (enum option_id)id));
        }
    }
    if (r == 0 && optind < argc)
        r = error_set(e, ERR_INVALID, "unexpected argument '%s'; see gpumux-burn --help",
                      argv[optind]);
    return r;
}

static int plan_training(struct error *e, const struct arguments *a, struct gpumux *gpumux,
                         struct burn_kernels *kernels, struct burn_training *t)
{
    *t = (struct burn_training){.gpumux = gpumux, .batch = (double)gpumux_batch_size(gpumux, 0)};
    if (t->batch == 0)
        t->batch = value_or(a, OPTION_BATCH, 0);
    t->profile = (struct burn_profile){.busy_percent = 100, .sm_percent = 100, .dram_percent = 10};
    if (a->profile && a->kernel_list)
        return error_set(e, ERR_INVALID, "give --profile or --kernel-list, not both");
    if ((a->profile || a->kernel_list) != (a->model != NULL))
        return error_set(e, ERR_INVALID, "--profile and --model go together");
    if (a->kernel_list) {
        int r = burn_kernels_read(e, a->kernel_list, a->model, kernels);
        if (r < 0)
            return r;
        t->kernels = kernels;
        t->profile.step_ms = burn_kernels_ms(kernels);
    } else if (!a->profile && isnan(value_or(a, OPTION_STEP_MS, NAN)))
        return error_set(e, ERR_INVALID, "no step time: give --profile with --model, or --step-ms");
    if (a->profile) {
        int r = burn_profile_read(e, a->profile, a->model, &t->batch, &t->profile);
        if (r < 0)
            return r;
    }
    if (t->batch == 0)
        t->batch = 1;
    struct burn_profile *profile = &t->profile;
    profile->step_ms = value_or(a, OPTION_STEP_MS, profile->step_ms);
    profile->busy_percent = value_or(a, OPTION_BUSY, profile->busy_percent);
    profile->sm_percent = value_or(a, OPTION_SM, profile->sm_percent);
    profile->dram_percent = value_or(a, OPTION_DRAM, profile->dram_percent);
    profile->memory_mib = value_or(a, OPTION_MEMORY, profile->memory_mib);
    if (profile->step_ms <= 0)
        return error_set(e, ERR_INVALID, "the profile's step time is not above 0");
    t->reference_batch = value_or(a, OPTION_REFERENCE, t->batch);
    t->noise_scale = value_or(a, OPTION_NOISE, 0);
    t->kernels_per_step = (unsigned)value_or(a, OPTION_KERNELS, 4);
    t->crash_after_steps = (uint64_t)value_or(a, OPTION_CRASH, 0);
    t->samples = value_or(a, OPTION_SAMPLES, 0);
    double steps = value_or(a, OPTION_STEPS, 0);
    if (steps > 0) {
        if (t->samples > 0)
            return error_set(e, ERR_INVALID, "give --samples or --steps, not both");
        t->noise_scale = 0;
        t->samples = steps * t->batch;
    }
    return 0;
}

static int plan_service(struct error *e, const struct arguments *a, struct gpumux *gpumux,
                        struct burn_kernels *kernels, struct burn_service *s)
{
    *s = (struct burn_service){
        .gpumux = gpumux,
        .rate = value_or(a, OPTION_RATE, 0),
        .kernel =
            {
                .duration_ms = value_or(a, OPTION_KERNEL_MS, 0),
                .sm_percent = value_or(a, OPTION_SM, 100),
                .dram_percent = value_or(a, OPTION_DRAM, 10),
            },
        .requests = (uint64_t)value_or(a, OPTION_REQUESTS, 0),
        .slips = a->slips,
        .leaves_queue = a->leaves_queue,
        .seed = (uint64_t)value_or(a, OPTION_SEED, 1),
        .kernels_per_request = (unsigned)value_or(a, OPTION_PARTS, 1),
        .gap_ms = value_or(a, OPTION_GAP, 0),
        .then_idles = a->then_idle,
    };
    if (s->rate == 0 || (s->kernel.duration_ms == 0) == !a->kernel_list)
        return error_set(e, ERR_INVALID,
                         "--service needs --rate, and --kernel-ms or --kernel-list");
    if (a->is_one_by_one && a->kernel_list)
        return error_set(e, ERR_INVALID, "give --one-by-one or --kernel-list, not both");
    if (!a->kernel_list)
        return 0;
    if (!a->model)
        return error_set(e, ERR_INVALID, "--kernel-list and --model go together");
    s->kernels = kernels;
    return burn_kernels_read(e, a->kernel_list, a->model, kernels);
}

/* A signal handler has no argument to reach other state by. */
static volatile sig_atomic_t stop_requested;

static void request_stop(int signal_number)
{
    (void)signal_number;
    stop_requested = 1;
}

/* Without SA_RESTART: a sleep ends at once. */
static void install_handlers(void)
{
    struct sigaction action = {.sa_handler = request_stop};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static int run(struct error *e, const struct arguments *a, struct gpumux *gpumux)
{
    struct burn_training training;
    struct burn_service service;
    struct burn_kernels kernels;
    int r = a->is_service ? plan_service(e, a, gpumux, &kernels, &service)
                          : plan_training(e, a, gpumux, &kernels, &training);
    if (r < 0)
        return r;
    double memory_mib = a->is_service ? value_or(a, OPTION_MEMORY, 0) : training.profile.memory_mib;
    struct burn_device *device;
    install_handlers();
    r = burn_device_open(e, (size_t)(memory_mib * (1 << 20)), &device);
    if (r < 0)
        return r;
    if (a->is_service && a->is_one_by_one)
        r = burn_answer(e, device, &service, &stop_requested);
    else if (a->is_service)
        r = burn_serve(e, device, &service, &stop_requested);
    else if (training.kernels)
        r = burn_train_list(e, device, &training, &stop_requested);
    else
        r = burn_train(e, device, &training, &stop_requested);
    if (a->leaves_queue && r == 0)
        burn_device_abandon(device);
    else
        burn_device_close(device);
    return r;
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct arguments arguments;
    int r = parse_arguments(&error, argc, argv, &arguments);
    if (r == 0 && arguments.wants_help) {
        fputs(help, stdout);
        return 0;
    }
    if (r == 0) {
        struct gpumux *gpumux = gpumux_open();
        r = run(&error, &arguments, gpumux);
        gpumux_close(gpumux);
    }
    if (r < 0) {
        fprintf(stderr, "gpumux-burn: %s\n", error.text);
        bool is_usage = r == -ERR_INVALID || r == -ERR_NOT_FOUND || r == -ERR_SYNTAX;
        return is_usage ? EXIT_USAGE : EXIT_FAILED;
    }
    return stop_requested ? EXIT_STOPPED : (int)value_or(&arguments, OPTION_EXIT, 0);
}
