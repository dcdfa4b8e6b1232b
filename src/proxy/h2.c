#include "proxy/h2.h"

#include <string.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

void h2_init(struct h2_reader *r, size_t preface_used)
{
    *r = (struct h2_reader){.preface_used = (uint8_t)preface_used};
}

bool h2_is_between_frames(const struct h2_reader *r)
{
    return r->preface_used == H2_PREFACE_BYTES && r->header_used == 0 && !r->in_payload;
}

static void parse_header(struct h2_reader *r)
{
    const unsigned char *h = r->header;
    r->frame = (struct h2_frame){
        .length = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2],
        .type = h[3],
        .flags = h[4],
        .stream = ((uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8]) &
                  UINT32_C(0x7fffffff)};
    r->skip = r->frame.length;
    r->header_used = 0;
    r->in_payload = true;
}

enum h2_event h2_next(struct h2_reader *r, const char *bytes, size_t length, size_t *ret_used)
{
    size_t used = 0;
    while (!r->failed && used < length && r->preface_used < H2_PREFACE_BYTES)
        if (bytes[used++] != preface[r->preface_used++])
            r->failed = true;
    while (!r->failed && used < length && !r->in_payload) {
        size_t wanted = H2_HEADER_BYTES - r->header_used, left = length - used;
        size_t taken = wanted < left ? wanted : left;
        memcpy(r->header + r->header_used, bytes + used, taken);
        r->header_used = (uint8_t)(r->header_used + taken);
        used += taken;
        if (r->header_used == H2_HEADER_BYTES)
            parse_header(r);
    }
    size_t skipped = r->skip < length - used ? r->skip : length - used;
    r->skip -= (uint32_t)skipped;
    *ret_used = used + skipped;
    if (r->failed)
        return H2_BAD;
    if (!r->in_payload || r->skip > 0)
        return H2_MORE;
    r->in_payload = false;
    return H2_FRAME;
}

void h2_write_goaway(unsigned char frame[H2_GOAWAY_BYTES])
{
    static const unsigned char goaway[H2_GOAWAY_BYTES] = {
        0,    0,    8,    H2_GOAWAY, 0, 0, 0, 0, 0, /* header: length 8, stream 0 */
        0x7f, 0xff, 0xff, 0xff,                     /* last stream */
        0,    0,    0,    0,                        /* no error */
    };
    memcpy(frame, goaway, sizeof goaway);
}
