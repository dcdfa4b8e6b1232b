/*
 * The texts of gpumux load on any bytes. The first byte selects the text: a process, a trace of
 * rates or times that is then played, a rate, targets of latency, a target, a header or a tensor.
 */
#include <stdlib.h>
#include <string.h>

#include "load/arrivals.h"
#include "load/request.h"
#include "load/tally.h"
#include "wire/fuzz_fixture.h"

enum { PLAYED_MAX = 256 };

static void play(struct arrivals *a)
{
    int64_t due_ns, last_ns = 0;
    for (size_t i = 0; i < PLAYED_MAX && arrivals_next(a, &due_ns); i++) {
        fuzz_check(due_ns >= last_ns && (double)due_ns <= ARRIVALS_SECONDS_MAX * 1e9);
        last_ns = due_ns;
    }
    arrivals_done(a);
}

static void play_words(const char *text)
{
    struct arrivals_words words;
    struct arrivals a;
    struct arrivals_limits limits = {.rate_per_s = 100, .seconds = 60, .speed = 1, .seed = 1};
    if (arrivals_parse(NULL, text, &words) < 0 || words.kind == ARRIVALS_TRACE)
        return;
    fuzz_check(words.step_count <= ARRIVALS_WORDS_STEPS_MAX);
    if (arrivals_init(NULL, &words, &limits, NULL, 0, &a) == 0)
        play(&a);
}

static void play_trace(const char *text, size_t length, double rate_per_s)
{
    static const struct arrivals_words words = {.kind = ARRIVALS_TRACE};
    struct arrivals a;
    struct arrivals_limits limits = {
        .rate_per_s = rate_per_s, .requests = PLAYED_MAX, .speed = 1000, .seed = 1};
    if (arrivals_init(NULL, &words, &limits, text, length, &a) == 0)
        play(&a);
}

static void parse_tensor(const char *text)
{
    struct request_tensor tensor;
    if (request_parse_tensor(NULL, text, &tensor) < 0)
        return;
    fuzz_check(tensor.elements > 0 && tensor.elements <= REQUEST_BODY_MAX);
    fuzz_check(tensor.rank > 0 && tensor.rank <= REQUEST_RANK_MAX);
}

static void parse_target(const char *text)
{
    struct request_target target;
    if (request_parse_target(NULL, text, &target) < 0)
        return;
    fuzz_check(target.path[0] == '/' && !strpbrk(target.path, " \r\n"));
    fuzz_check(!target.is_unix || *target.socket);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tally_slo slos[TALLY_SLOS_MAX];
    size_t count;
    double rate;
    char *text = size > 0 ? malloc(size) : NULL;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 8) {
    case 0:
        play_words(text);
        break;
    case 1:
        play_trace(text, size - 1, 0);
        break;
    case 2:
        play_trace(text, size - 1, 50);
        break;
    case 3:
        if (arrivals_parse_rate(NULL, text, &rate) == 0)
            fuzz_check(rate >= 0 && rate <= ARRIVALS_RATE_MAX);
        break;
    case 4:
        if (tally_parse_slos(NULL, text, slos, &count) == 0)
            fuzz_check(count > 0 && count <= TALLY_SLOS_MAX && slos[0].limit_ns > 0);
        break;
    case 5:
        parse_target(text);
        break;
    case 6:
        if (request_check_header(NULL, text) == 0)
            fuzz_check(strchr(text, ':') && !strpbrk(text, "\r\n"));
        break;
    default:
        parse_tensor(text);
    }
    free(text);
    return 0;
}
