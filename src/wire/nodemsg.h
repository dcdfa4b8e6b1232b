/*
 * Messages between control and a node: one JSON object per line, over one stream connection:
 * {"type": "hello", …}. A line has at most NODEMSG_LINE_MAX bytes. The parser ignores unknown keys,
 * and returns NODEMSG_TYPE_END for an unknown type, which the caller skips, because a newer minor
 * version may add keys and types. A known key that is missing or has the wrong type breaks the
 * connection. Binary data is base64.
 *
 * node → control:
 *   hello    protocol, version, node, attempts, health of devices
 *   report   session, one attempt_report
 *   beat     session, number, usage of devices and attempts, health of devices and notes
 *   log      the answer to read: request, result, text, offset, data, end
 *   done     the answer to signal, input and device: request, result, text
 *   renew    csr: asks for a new certificate, before the current one expires
 *   refuse   text; the node then closes the connection
 *
 * control → node:
 *   welcome  protocol, version, session, lease, fence, drain, and when to renew the certificate
 *   grant    session, sequence, workload, attempt, spec, …
 *   stop     session, sequence, workload, attempt, grace
 *   suspend  session, sequence, workload, attempt, turn
 *   resume   session, sequence, workload, attempt, turn
 *   advise   session, sequence, workload, attempt, advice, batch, checkpoints
 *   settle   session, sequence, workload, attempt
 *   beat     session, number
 *   read     request, workload, attempt, offset, wait, max
 *   signal   request, workload, attempt, signal
 *   input    request, workload, attempt, offset, data, end
 *   device   request, uuid, enable: an operator's order
 *   certificate  the answer to renew: the new certificate, and when to renew that certificate
 *   refuse   text; control then closes the connection
 */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/node.h"
#include "model/workload.h"

enum {
    NODEMSG_PROTOCOL = 1,
    NODEMSG_LINE_MAX = 8 << 20,
    NODEMSG_DATA_MAX = 256 << 10, /* bytes of log or input in one message */
    NODEMSG_ATTEMPTS_MAX = 4096,
    NODEMSG_PEM_MAX = 16 << 10,
    NODEMSG_NOTES_MAX = 256,
};

enum nodemsg_type {
    NODEMSG_HELLO,
    NODEMSG_REPORT,
    NODEMSG_BEAT,
    NODEMSG_LOG,
    NODEMSG_DONE,
    NODEMSG_WELCOME,
    NODEMSG_GRANT,
    NODEMSG_STOP,
    NODEMSG_SUSPEND,
    NODEMSG_RESUME,
    NODEMSG_ADVISE,
    NODEMSG_SETTLE,
    NODEMSG_READ,
    NODEMSG_SIGNAL,
    NODEMSG_INPUT,
    NODEMSG_DEVICE,
    NODEMSG_RENEW,
    NODEMSG_CERTIFICATE,
    NODEMSG_REFUSE,
    NODEMSG_TYPE_END
};

/* A grant: everything that a node needs to run one attempt. */
struct grant {
    uint64_t workload;
    int attempt;
    uint64_t group;
    int array_index; /* index in the array; -1: not in an array */
    const char *name;
    /* Uid of the submitter; spec->user, if set, is the account that runs the command. */
    uint32_t uid;
    const char *user;
    int device_count;
    char devices[WORKLOAD_DEVICES_MAX][DEVICE_UUID_MAX];
    bool suspect;                     /* may have caused a fault; runs without MPS */
    bool ran_before;                  /* an earlier attempt ran; this attempt may resume its work */
    const struct workload_spec *spec; /* set by the parser; belongs to the message's arena */
    const char *spec_json;            /* set by the writer's caller; inserted unchanged */
};

/* One struct for all messages; the type determines the members in use. In a parsed message, the
 * parser's arena owns the strings and arrays; in a message to write, the caller owns the strings
 * and arrays. */
struct nodemsg {
    enum nodemsg_type type; /* must be the first member */
    int protocol;
    const char *version;
    uint64_t session, sequence;
    int64_t lease_ms, fence_ms, drain_ms;
    int64_t renew_ms; /* welcome, certificate: time from now to the renewal; 0: nothing to renew */
    const char *pem;  /* renew: the certificate request; certificate: the issued certificate */
    uint64_t workload;
    int attempt;
    int64_t grace_ms;
    int turn;                              /* suspend, resume */
    struct advice advice;                  /* advise */
    const struct node_info *node;          /* hello */
    size_t attempt_count;                  /* hello */
    const struct attempt_report *attempts; /* hello: all attempts of the node; report: one */
    uint64_t beat;                         /* beat, in both directions */
    size_t device_usage_count;
    const struct device_usage *device_usage; /* beat from a node */
    size_t health_count;
    const struct device_health *health; /* hello, beat */
    size_t note_count;
    const struct device_note *notes; /* beat */
    const char *uuid;                /* device */
    bool enable;
    size_t attempt_usage_count;
    const struct attempt_usage *attempt_usage;
    struct grant grant;
    uint64_t request; /* read, signal, input and their answers */
    int result;       /* log, done: 0 or -ERR_x */
    const char *text; /* refuse: the reason; log, done: the reason for a result other than 0 */
    uint64_t offset;  /* read, log, input: byte in the attempt's output or input */
    int64_t wait_ms;  /* read: longest wait for new output before the node answers */
    size_t max;       /* read: largest number of bytes in the answer */
    const void *data; /* log, input */
    size_t length;
    bool end; /* log: nothing will follow; input: end of file */
    int signal;
};

/* Appends one line with its newline. Returns 0, or -ERR_TOO_LARGE past a limit and appends
 * nothing. */
int nodemsg_write(const struct nodemsg *msg, struct str *out);
/* Parses a line without its newline. Returns 0, -ERR_PROTOCOL, -ERR_SYNTAX or -ERR_NO_MEMORY. */
int nodemsg_parse(struct error *e, struct arena *arena, const char *line, size_t length,
                  struct nodemsg *ret);
