/*
 * Messages between control and a node: one JSON object a line, over one stream connection:
 * {"type": "hello", …}. Lines are at most NODEMSG_LINE_MAX. Keys that are not known are ignored,
 * and a message whose type is not known is handed out as NODEMSG_TYPE_END, to be skipped (a
 * newer minor version may add some); missing or mistyped known keys break the connection. Binary
 * data is base64.
 *
 * node → control:
 *   hello    protocol, version, node, attempts, health of devices
 *   report   session, one attempt_report
 *   beat     session, number, usage of devices and attempts, health of devices and notes
 *   log      answers read: request, result, text, offset, data, end
 *   done     answers signal and input: request, result, text
 *   renew    csr: asks for a new certificate, before the old one expires
 *   refuse   text; then it closes
 *
 * control → node:
 *   welcome  protocol, version, session, lease, fence, drain, and when to renew its certificate
 *   grant    session, sequence, workload, attempt, spec, …
 *   stop     session, sequence, workload, attempt, grace
 *   suspend  session, sequence, workload, attempt, turn
 *   resume   the same
 *   settle   session, sequence, workload, attempt
 *   beat     session, number
 *   read     request, workload, attempt, offset, wait, max
 *   signal   request, workload, attempt, signal
 *   input    request, workload, attempt, offset, data, end
 *   device   request, uuid, enable: an operator's word; answered with done
 *   certificate  answers renew: the certificate, and when to renew that
 *   refuse   text; then it closes
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

/* What a node needs to run one attempt. */
struct grant {
    uint64_t workload;
    int attempt;
    uint64_t group;
    int array_index; /* -1: not of an array */
    const char *name;
    uint32_t uid; /* the submitter's; spec->user says whether it runs as another */
    const char *user;
    int device_count;
    char devices[WORKLOAD_DEVICES_MAX][DEVICE_UUID_MAX];
    bool suspect;                     /* it is started where its faults are its own */
    bool ran_before;                  /* in another attempt, which it may resume */
    const struct workload_spec *spec; /* when parsed; in the message's arena */
    const char *spec_json;            /* when written: put in as it is */
};

/* One struct for all: which members count is said by type. Strings and arrays: in the arena given
 * to parse, or the writer's own. */
struct nodemsg {
    enum nodemsg_type type; /* first */
    int protocol;
    const char *version;
    uint64_t session, sequence;
    int64_t lease_ms, fence_ms, drain_ms;
    int64_t renew_ms; /* welcome, certificate: from now; 0: there is nothing to renew */
    const char *pem;  /* renew: the request; certificate: what was issued */
    uint64_t workload;
    int attempt;
    int64_t grace_ms;
    int turn;                              /* suspend, resume */
    const struct node_info *node;          /* hello */
    size_t attempt_count;                  /* hello */
    const struct attempt_report *attempts; /* hello: all; report: one */
    uint64_t beat;                         /* beat, both ways */
    size_t device_usage_count;
    const struct device_usage *device_usage; /* beat of a node */
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
    const char *text; /* refuse, and why a result is not 0 */
    uint64_t offset;  /* read, log, input: in bytes of the attempt's output or input */
    int64_t wait_ms;  /* read: answer at the latest then, even with nothing new */
    size_t max;       /* read: bytes wanted at most */
    const void *data; /* log, input */
    size_t length;
    bool end; /* log: nothing will follow; input: end of file */
    int signal;
};

/* Appends one line with its newline. -ERR_TOO_LARGE past a limit; nothing is appended then. */
int nodemsg_write(const struct nodemsg *msg, struct str *out);
/* line: without newline. -ERR_PROTOCOL, -ERR_SYNTAX, -ERR_NO_MEMORY. */
int nodemsg_parse(struct error *e, struct arena *arena, const char *line, size_t length,
                  struct nodemsg *ret);
