/* Packets to a supervisor, and the same bytes as a reply: refused, or equal when written again. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/workload.h"
#include "node/supervisor/control_socket.h"
#include "node/supervisor/latency.h"
#include "wire/fuzz_fixture.h"

static void fuzz_latency(const struct control_command *command)
{
    struct latency *latency = calloc(1, sizeof *latency);
    struct control_latency found;
    if (latency && latency_report(latency, command->data, command->length, 1000)) {
        latency_measure(latency, 99, 1000, &found);
        fuzz_check(found.us_5s == found.us_10s);
        fuzz_check(found.us_10s <= control_latency_us(CONTROL_LATENCY_PLACES));
        fuzz_check((found.requests_10s == 0) == (found.us_10s == 0));
    }
    free(latency);
}

static void fuzz_command(const char *bytes, size_t length)
{
    struct control_command command;
    int r = control_command_parse(bytes, length, &command);
    fuzz_check(r == 0 || r == -ERR_PROTOCOL);
    if (r < 0)
        return;
    fuzz_check(command.grace_ms >= 0 && command.grace_ms <= WORKLOAD_TIME_MS_MAX);
    fuzz_check(command.samples <= CONTROL_SAMPLES_MAX);
    fuzz_check(command.length <= length);
    fuzz_check(!command.length || command.data + command.length == bytes + length);
    char *packet = malloc(CONTROL_PACKET_MAX);
    if (packet && command.length <= CONTROL_DATA_MAX) {
        size_t written = control_command_write(&command, packet);
        fuzz_check(written <= length && memcmp(packet, bytes, written) == 0);
        fuzz_check((command.kind != CONTROL_INPUT && command.kind != CONTROL_LATENCY) ||
                   written == length);
    }
    free(packet);
    if (command.kind == CONTROL_LATENCY)
        fuzz_latency(&command);
}

static void fuzz_reply(const char *bytes, size_t length)
{
    char reply[CONTROL_REPLY_MAX], again[CONTROL_REPLY_MAX];
    if (length >= sizeof reply)
        return;
    memcpy(reply, bytes, length);
    reply[length] = '\0';
    uint64_t offset;
    double samples_per_s;
    if (control_reply_parse_taken(reply, &offset)) {
        control_reply_write_taken(offset, again);
        fuzz_check(str_equal(reply, again));
    }
    struct control_latency latency;
    enum control_time time;
    if (control_notice_parse_latency(reply, &time, &latency)) {
        /* An older supervisor's notice is shorter. */
        control_notice_write_latency(time, &latency, again);
        fuzz_check(str_equal(reply, again) || strncmp(reply, again, strlen(reply)) == 0);
    }
    struct control_followed followed;
    if (control_notice_parse_followed(reply, &followed)) {
        control_notice_write_followed(&followed, again);
        fuzz_check(str_equal(reply, again));
    }
    if (control_notice_parse_speed(reply, &samples_per_s)) {
        control_notice_write_speed(samples_per_s, again);
        fuzz_check(str_equal(reply, again));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > CONTROL_PACKET_MAX)
        return 0; /* longer packets end the connection */
    fuzz_command((const char *)data, size);
    fuzz_reply((const char *)data, size);
    return 0;
}
