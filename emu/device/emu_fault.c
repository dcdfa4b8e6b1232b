/*
 * gpumux-emu-fault DEVICE FAULT [ARGUMENT] makes an emulated device, or its MPS server, fail on
 * demand. The list of faults below is the help text; docs/emulator.md explains them in full.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "emu/abi/cuda_abi.h"
#include "abi/nvml.h"
#include "emu/device/client.h"
#include "emu/device/fault.h"
#include "emu/device/mps.h"
#include "emu/mps/mps_protocol.h"

enum { DEFAULT_LOWERED_PERCENT = 50, PERCENT_MAX = 99 };

struct request {
    struct device *device;
    const char *argument; /* "" if there is none */
    struct error *error;
};

/* Finds the slot of the client that the argument names. Call under the lock. */
static int find_client(const struct request *request, unsigned *ret_slot)
{
    char *end;
    long pid = strtol(request->argument, &end, 10);
    const struct emu_device *state = request->device->state;
    for (unsigned i = 0; i < state->clients_high && *end == '\0'; i++) {
        if (state->clients[i].live && state->clients[i].pid == pid) {
            *ret_slot = i;
            return 0;
        }
    }
    return error_set(request->error, ERR_NOT_FOUND, "no client of the device has the pid '%s'",
                     request->argument);
}

static int illegal_address(const struct request *request)
{
    unsigned slot;
    int r = find_client(request, &slot);
    if (r == 0)
        fault_strike(request->device, slot, CUDA_ERROR_ILLEGAL_ADDRESS, XID_MMU_FAULT);
    return r;
}

static int ecc(const struct request *request)
{
    unsigned slot = 0;
    int r = request->argument[0] == '\0' ? 0 : find_client(request, &slot);
    if (r == 0)
        fault_ecc(request->device, request->argument[0] == '\0' ? DEVICE_NO_SLOT : (int)slot);
    return r;
}

static int lost(const struct request *request)
{
    bool quietly = str_equal(request->argument, "quietly");
    if (request->argument[0] != '\0' && !quietly)
        return error_set(request->error, ERR_INVALID, "a device is lost, or lost quietly");
    fault_lose(request->device, !quietly);
    return 0;
}

static int xid(const struct request *request)
{
    char *end;
    unsigned long number = strtoul(request->argument, &end, 10);
    if (end == request->argument || *end != '\0' || number == 0 || number > UINT16_MAX)
        return error_set(request->error, ERR_INVALID, "an Xid is a number from 1 to 65535");
    fault_report_xid(request->device, (uint32_t)number, 0);
    return 0;
}

static int slow_for(const struct request *request, uint64_t reasons)
{
    char *end;
    unsigned long percent = strtoul(request->argument, &end, 10);
    if (request->argument[0] == '\0')
        percent = DEFAULT_LOWERED_PERCENT;
    if (*end != '\0' || percent > PERCENT_MAX)
        return error_set(request->error, ERR_INVALID,
                         "clocks are lowered by 0 to %d percent, not by '%s'", PERCENT_MAX,
                         request->argument);
    fault_slow(request->device, (uint32_t)percent * 10, percent == 0 ? 0 : reasons);
    return 0;
}

static int thermal(const struct request *request)
{
    return slow_for(request, NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL);
}

static int power_brake(const struct request *request)
{
    return slow_for(request, NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_POWER_BRAKE);
}

static int software_thermal(const struct request *request)
{
    return slow_for(request, NVML_REASON_SW_THERMAL);
}

static int power_cap(const struct request *request)
{
    return slow_for(request, NVML_REASON_SW_POWER_CAP);
}

static int reset(const struct request *request)
{
    fault_reset(request->device);
    return 0;
}

static int signal_server(const struct request *request, int number)
{
    int32_t pid = request->device->state->mps.server_pid;
    if (pid > 0 && kill(pid, number) == 0)
        return 0;
    return error_set(request->error, ERR_NOT_FOUND, "the device has no MPS server");
}

static int signal_control(const struct request *request, int number)
{
    char path[4096], text[32] = "";
    FILE *file =
        mps_pipe_path("nvidia-cuda-mps-control.pid", path, sizeof(path)) ? fopen(path, "re") : NULL;
    if (file) {
        size_t length = fread(text, 1, sizeof(text) - 1, file);
        text[length] = '\0';
        fclose(file);
    }
    long pid = strtol(text, NULL, 10);
    if (pid > 1 && kill((pid_t)pid, number) == 0)
        return 0;
    return error_set(request->error, ERR_NOT_FOUND, "no MPS control daemon runs in %s",
                     mps_pipe_directory());
}

static int server_crash(const struct request *request)
{
    return signal_server(request, SIGKILL);
}

static int server_hang(const struct request *request)
{
    return signal_server(request, SIGSTOP);
}

static int server_resume(const struct request *request)
{
    return signal_server(request, SIGCONT);
}

static int control_crash(const struct request *request)
{
    return signal_control(request, SIGKILL);
}

static int control_hang(const struct request *request)
{
    return signal_control(request, SIGSTOP);
}

static int control_resume(const struct request *request)
{
    return signal_control(request, SIGCONT);
}

static const struct {
    const char *name, *argument, *help;
    int (*cause)(const struct request *request); /* called under the device's lock */
} faults[] = {
    {"illegal-address", "PID", "in the work of that client", illegal_address},
    {"ecc", "[PID]", "uncorrectable, in that client's memory, else uncontained", ecc},
    {"lost", "[quietly]", "the device falls off the bus; quietly: without an Xid", lost},
    {"xid", "NUMBER", "the driver reports that Xid, and nothing else happens", xid},
    {"thermal", "[PERCENT]", "clocks are lowered by that much (50): hardware, heat", thermal},
    {"power-brake", "[PERCENT]", "the same: hardware, power", power_brake},
    {"software-thermal", "[PERCENT]", "the same: the driver, heat", software_thermal},
    {"power-cap", "[PERCENT]", "the same: the driver, power", power_cap},
    {"reset", "", "the device is well again", reset},
    {"mps-server-crash", "", "the device's MPS server is killed", server_crash},
    {"mps-server-hang", "", "it takes no more steps", server_hang},
    {"mps-server-resume", "", "it goes on", server_resume},
    {"mps-control-crash", "", "the daemon of CUDA_MPS_PIPE_DIRECTORY is killed", control_crash},
    {"mps-control-hang", "", "it accepts connections and never answers", control_hang},
    {"mps-control-resume", "", "it goes on", control_resume},
};

static int find_device(struct error *e, const char *text, const struct mapping *mapping,
                       struct device *device)
{
    char *end;
    unsigned long index = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || index >= mapping->file->device_count)
        return error_set(e, ERR_NO_DEVICE, "'%s' is no device: they are numbered 0 to %u", text,
                         mapping->file->device_count - 1);
    device_init(device, mapping, (unsigned)index);
    return 0;
}

static int cause(struct error *e, char **words, int count)
{
    struct mapping mapping;
    struct device device;
    struct request request = {.device = &device, .argument = count > 2 ? words[2] : "", .error = e};
    if (!getenv("GPUMUX_EMU") && !getenv("GPUMUX_EMU_DEVICES"))
        return error_set(e, ERR_NO_DEVICE,
                         "whose devices? Set GPUMUX_EMU to the file emu/devices in the state "
                         "directory of the gpumux that emulates them");
    int r = mapping_open_from_environment(e, &mapping);
    if (r < 0)
        return r;
    r = find_device(e, words[0], &mapping, &device);
    size_t i = 0;
    while (i < sizeof(faults) / sizeof(*faults) && !str_equal(words[1], faults[i].name))
        i++;
    if (r == 0 && i == sizeof(faults) / sizeof(*faults))
        r = error_set(e, ERR_INVALID, "there is no fault '%s'; --help lists them", words[1]);
    if (r == 0) {
        device_lock_now(&device);
        client_reap(&device);
        r = faults[i].cause(&request);
        device_unlock(&device);
    }
    mapping_close(&mapping);
    return r;
}

static void print_help(void)
{
    puts("gpumux-emu-fault DEVICE FAULT [ARGUMENT]   makes an emulated device fail, on demand\n\n"
         "DEVICE is its number in the file that GPUMUX_EMU names: emu/devices in the state "
         "directory\n"
         "of the gpumux that emulates it. FAULT is one of:");
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        printf("  %-18s %-10s %s\n", faults[i].name, faults[i].argument, faults[i].help);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    if (argc == 2 && (str_equal(argv[1], "-h") || str_equal(argv[1], "--help"))) {
        print_help();
        return 0;
    }
    if (argc < 3 || argc > 4) {
        print_help();
        return 2;
    }
    if (cause(&error, argv + 1, argc - 1) == 0)
        return 0;
    fprintf(stderr, "gpumux-emu-fault: %s\n", error.text);
    return 1;
}
