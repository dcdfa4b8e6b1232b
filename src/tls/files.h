/* Keys and certificates as files: whole or absent, keys readable by their owner alone. */
#pragma once
#include "base/error.h"
#include "base/str.h"

/* Mode 0600, durable. */
int tls_write_key(struct error *e, int directory_fd, const char *name, const char *pem);
/* Mode 0644, durable. */
int tls_write_certificate(struct error *e, int directory_fd, const char *name, const char *pem);
/* Appends to *out. -ERR_NOT_FOUND; -ERR_DENIED: not a plain file of ours, or others may read it. */
int tls_read_key(struct error *e, int directory_fd, const char *name, struct str *out);
int tls_read_certificate(struct error *e, int directory_fd, const char *name, struct str *out);
