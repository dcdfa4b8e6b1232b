/*
 * A fuzzer with an intentional bug: an input that starts with "mux!" is read past its end. The bug
 * verifies the fuzzing setup: libFuzzer must find it within a minute, and the replay of such an
 * input must fail under AddressSanitizer.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char trigger[4] = {'m', 'u', 'x', '!'};
    if (size < sizeof trigger)
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    size_t matched = 0;
    while (matched < sizeof trigger && copy[matched] == (uint8_t)trigger[matched])
        matched++;
    size_t end = matched == sizeof trigger ? size : size - 1;
    volatile uint8_t last = copy[end];
    (void)last;
    free(copy);
    return 0;
}
