/* Any bytes as two metrics pages: whatever they say, counts stay bounded and packets fit. The first
 * byte chooses the server and where the first page ends. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/adapter.h"
#include "proxy/proxy_fuzz.h"

static void check_line(const char *line, size_t length)
{
    struct prometheus_sample s;
    if (!prometheus_parse(line, length, &s))
        return;
    fuzz_check(s.name >= line && s.name_length > 0 && s.name + s.name_length <= line + length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct adapter *a = malloc(sizeof *a);
    struct measure *m = calloc(1, sizeof *m);
    char packet[MEASURE_PACKET_MAX];
    if (size > 0 && a && m) {
        const char *text = (const char *)data + 1;
        size_t first = (size - 1) * (data[0] >> 3) / 32;
        check_line(text, size - 1);
        adapter_init(a, (enum adapter_kind)(data[0] % ADAPTER_KINDS), "request_ms");
        adapter_begin(a);
        adapter_feed(a, text, first);
        (void)adapter_end(a, m);
        adapter_begin(a);
        adapter_feed(a, text + first, size - 1 - first);
        const char *note = adapter_end(a, m);
        fuzz_check(!note || strlen(note) < CONTROL_NOTE_MAX);
        for (int time = 0; time < CONTROL_TIMES; time++)
            fuzz_check(measure_write(m, (enum control_time)time, packet) < sizeof packet);
    }
    free(a);
    free(m);
    return 0;
}
