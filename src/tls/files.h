/* Keys and certificates as files. Each write is atomic, and only the owner can read a key. */
#pragma once
#include "base/error.h"
#include "base/str.h"

/* Writes a key durably, with mode 0600. */
int tls_write_key(struct error *e, int directory_fd, const char *name, const char *pem);
/* Writes a certificate durably, with mode 0644. */
int tls_write_certificate(struct error *e, int directory_fd, const char *name, const char *pem);
/* Appends the key to *out. Returns 0, -ERR_NOT_FOUND, or -ERR_DENIED if the file is not a regular
 * file, has another owner or is readable by others. */
int tls_read_key(struct error *e, int directory_fd, const char *name, struct str *out);
int tls_read_certificate(struct error *e, int directory_fd, const char *name, struct str *out);
