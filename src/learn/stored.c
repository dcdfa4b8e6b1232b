#include "learn/stored.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"

enum {
    MAGIC_BYTES = 8,
    VERSION_AT = MAGIC_BYTES + STORED_KIND_BYTES,
    LENGTH_AT = VERSION_AT + 4,
    HEAD_BYTES = LENGTH_AT + 8,
    CHECKSUM_BYTES = 8,
};

static const char magic[MAGIC_BYTES] = {'g', 'p', 'u', 'm', 'u', 'x', 'l', 'm'};

static void write_little(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t read_little(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

size_t stored_begin(struct str *to, const char *kind, uint32_t version)
{
    unsigned char head[HEAD_BYTES] = {0};
    size_t start = to->length;
    memcpy(head, magic, MAGIC_BYTES);
    memcpy(head + MAGIC_BYTES, kind, STORED_KIND_BYTES);
    write_little(head + VERSION_AT, version, 4);
    str_append_bytes(to, head, sizeof head);
    return start;
}

void stored_put_u64(struct str *to, uint64_t value)
{
    unsigned char bytes[8];
    write_little(bytes, value, sizeof bytes);
    str_append_bytes(to, bytes, sizeof bytes);
}

void stored_put_double(struct str *to, double value)
{
    uint64_t bits;
    assert(isfinite(value));
    memcpy(&bits, &value, sizeof bits);
    stored_put_u64(to, bits);
}

void stored_end(struct str *to, size_t start)
{
    if (str_failed(to))
        return;
    unsigned char *head = (unsigned char *)to->data + start;
    write_little(head + LENGTH_AT, to->length - start - HEAD_BYTES, 8);
    stored_put_u64(to, hash_bytes(head, to->length - start, 0));
}

int stored_open(struct error *e, const void *bytes, size_t length, const char *kind,
                uint32_t version_max, struct stored_reader *ret_reader, uint32_t *ret_version)
{
    const unsigned char *head = bytes;
    if (length < HEAD_BYTES + CHECKSUM_BYTES || memcmp(head, magic, MAGIC_BYTES) != 0)
        return error_set(e, ERR_CORRUPT, "this is no learned model");
    size_t payload = length - HEAD_BYTES - CHECKSUM_BYTES;
    if (read_little(head + LENGTH_AT, 8) != payload ||
        read_little(head + length - CHECKSUM_BYTES, 8) !=
            hash_bytes(head, length - CHECKSUM_BYTES, 0))
        return error_set(e, ERR_CORRUPT, "the learned model is damaged");
    if (memcmp(head + MAGIC_BYTES, kind, STORED_KIND_BYTES) != 0)
        return error_set(e, ERR_CORRUPT, "the learned model is of another kind than \"%.*s\"",
                         STORED_KIND_BYTES, kind);
    uint32_t version = (uint32_t)read_little(head + VERSION_AT, 4);
    if (version > version_max)
        return error_set(e, ERR_TOO_NEW, "the learned model has version %u, known are up to %u",
                         version, version_max);
    *ret_reader = (struct stored_reader){.bytes = head + HEAD_BYTES, .left = payload};
    *ret_version = version;
    return 0;
}

uint64_t stored_get_u64(struct stored_reader *r)
{
    if (r->left < 8) {
        r->failed = true;
        return 0;
    }
    uint64_t value = read_little(r->bytes, 8);
    r->bytes += 8;
    r->left -= 8;
    return value;
}

size_t stored_get_size(struct stored_reader *r, size_t max)
{
    uint64_t value = stored_get_u64(r);
    if (value <= max)
        return (size_t)value;
    r->failed = true;
    return 0;
}

double stored_get_double(struct stored_reader *r)
{
    uint64_t bits = stored_get_u64(r);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value))
        return value;
    r->failed = true;
    return 0;
}

int stored_close(struct error *e, const struct stored_reader *r)
{
    if (r->failed || r->left > 0)
        return error_set(e, ERR_CORRUPT, "the learned model's numbers are not what they must be");
    return 0;
}
