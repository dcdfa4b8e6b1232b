#include "tls/files.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"

int tls_write_key(struct error *e, int directory_fd, const char *name, const char *pem)
{
    return durable_write(e, directory_fd, name, pem, strlen(pem));
}

int tls_write_certificate(struct error *e, int directory_fd, const char *name, const char *pem)
{
    int r = durable_write(e, directory_fd, name, pem, strlen(pem));
    if (r == 0 && fchmodat(directory_fd, name, 0644, 0) < 0)
        r = error_set_errno(e, ERR_IO, errno, "cannot set the mode of %s", name);
    return r;
}

int tls_read_key(struct error *e, int directory_fd, const char *name, struct str *out)
{
    struct stat st;
    if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & 077))
        return error_set(e, ERR_DENIED,
                         "the key %s may be read by others than its owner: chmod 600", name);
    return durable_read(e, directory_fd, name, geteuid(), out);
}

int tls_read_certificate(struct error *e, int directory_fd, const char *name, struct str *out)
{
    return durable_read(e, directory_fd, name, geteuid(), out);
}
