/*
 * Reader of HTTP/2 frame headers (RFC 9113 section 4.1). The proxy forwards the bytes unchanged and
 * needs to know only which streams open and end, so that payloads are skipped.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    H2_HEADER_BYTES = 9,
    H2_PREFACE_BYTES = 24, /* "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", before a client's first frame */
    H2_PREFACE_LINE_BYTES = 16, /* its first line, which http1_next() uses */
    H2_GOAWAY_BYTES = H2_HEADER_BYTES + 8,
};

enum h2_type {
    H2_DATA = 0,
    H2_HEADERS = 1,
    H2_RST_STREAM = 3,
    H2_GOAWAY = 7,
};

enum { H2_FLAG_END_STREAM = 1 };

enum h2_event {
    H2_MORE,  /* all bytes are used */
    H2_FRAME, /* reader->frame is complete, payload included */
    H2_BAD,   /* not the preface of HTTP/2; the reader must not be used again */
};

struct h2_frame {
    uint32_t length, stream;
    uint8_t type, flags;
};

/* All members but `frame` are private. */
struct h2_reader {
    struct h2_frame frame;
    uint32_t skip;
    uint8_t preface_used, header_used;
    bool in_payload, failed;
    unsigned char header[H2_HEADER_BYTES];
};

/* `preface_used`: bytes of the preface that were read already; H2_PREFACE_BYTES for a server's
 * direction, which has no preface. */
void h2_init(struct h2_reader *r, size_t preface_used);
/* Reads up to the next event. *ret_used: number of bytes used. */
enum h2_event h2_next(struct h2_reader *r, const char *bytes, size_t length, size_t *ret_used);
/* Returns whether the reader is between two frames, so that the sender may insert a frame. */
bool h2_is_between_frames(const struct h2_reader *r);
/* Writes a GOAWAY frame without error: the client opens no more streams on the connection, and the
 * streams that are open end as usual. */
void h2_write_goaway(unsigned char frame[H2_GOAWAY_BYTES]);
