/* A line from an untrusted peer is refused, or has the same meaning when written again. */

#include "base/str.h"
#include "wire/fuzz_fixture.h"
#include "wire/nodemsg.h"
#include "wire/spec.h"

/* The parser sets a grant's spec; the writer needs the spec's text. */
static void write_message(struct nodemsg *msg, struct str *out)
{
    struct str spec;
    str_init(&spec, NODEMSG_LINE_MAX);
    if (msg->type == NODEMSG_GRANT) {
        fuzz_check(spec_write(msg->grant.spec, &spec) == 0);
        msg->grant.spec_json = str_text(&spec);
    }
    fuzz_check(nodemsg_write(msg, out) == 0);
    str_done(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct str first, second;
    arena_init(&arena, 64 << 20);
    str_init(&first, NODEMSG_LINE_MAX);
    str_init(&second, NODEMSG_LINE_MAX);
    struct error e = {0};
    struct nodemsg msg;
    int r = nodemsg_parse(&e, &arena, (const char *)data, size, &msg);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    /* Large messages may become too large once escaped; unknown types cannot be written. */
    if (r == 0 && msg.type < NODEMSG_TYPE_END && size < NODEMSG_LINE_MAX / 8) {
        write_message(&msg, &first);
        fuzz_check(nodemsg_parse(&e, &arena, str_text(&first), first.length - 1, &msg) == 0);
        write_message(&msg, &second);
        fuzz_check(str_equal(str_text(&first), str_text(&second)));
    }
    str_done(&first);
    str_done(&second);
    arena_done(&arena);
    return 0;
}
