#include "tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "tls/tls_internal.h"

enum { KEY_BITS = 256, SERIAL_BITS = 127 };

static const char *const units[] = {
    [CERTIFICATE_CA] = "ca",
    [CERTIFICATE_SERVER] = "server",
    [CERTIFICATE_NODE] = "node",
};

/* ---- making ---- */

/* Appends the content of a BIO, and frees the BIO. */
static int append_bio(struct error *e, BIO *bio, int written, struct str *out)
{
    char *text = NULL;
    long length = bio ? BIO_get_mem_data(bio, &text) : 0;
    if (written == 1 && length > 0)
        str_append_bytes(out, text, (size_t)length);
    BIO_free(bio);
    if (written != 1 || length <= 0)
        return tls_error(e, ERR_NO_MEMORY, "writing PEM");
    return str_failed(out) ? error_set(e, ERR_TOO_LARGE, "no room for PEM") : 0;
}

static int append_key(struct error *e, const EVP_PKEY *key, struct str *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    int written = bio ? PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) : 0;
    return append_bio(e, bio, written, out);
}

static int append_certificate(struct error *e, X509 *certificate, struct str *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    int written = bio ? PEM_write_bio_X509(bio, certificate) : 0;
    return append_bio(e, bio, written, out);
}

static bool set_subject(X509_NAME *subject, const char *name, enum certificate_role role)
{
    const unsigned char *unit = (const unsigned char *)units[role];
    return X509_NAME_add_entry_by_NID(subject, NID_organizationalUnitName, MBSTRING_UTF8, unit, -1,
                                      -1, 0) == 1 &&
           X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                      (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    bool done = number && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return done;
}

static bool set_times(X509 *certificate, int64_t from_wall_ms, int64_t until_wall_ms)
{
    return ASN1_TIME_set(X509_getm_notBefore(certificate), from_wall_ms / 1000) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), until_wall_ms / 1000);
}

static bool add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, &context, kind, value);
    bool done = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return done;
}

/* Makes the name of an address, or else of a DNS name. */
static GENERAL_NAME *host_name(const char *host)
{
    unsigned char address[16];
    bool four = inet_pton(AF_INET, host, address) == 1;
    bool six = !four && inet_pton(AF_INET6, host, address) == 1;
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *text = ASN1_STRING_type_new(four || six ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
    const void *bytes = four || six ? (const void *)address : host;
    if (!name || !text || ASN1_STRING_set(text, bytes, four ? 4 : six ? 16 : -1) != 1) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(text);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, four || six ? GEN_IPADD : GEN_DNS, text);
    return name;
}

static bool add_hosts(X509 *certificate, const struct certificate_order *order)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    bool done = names != NULL;
    for (size_t i = 0; done && i < order->host_count; i++) {
        GENERAL_NAME *name = host_name(order->hosts[i]);
        done = name && sk_GENERAL_NAME_push(names, name) > 0;
        if (!done)
            GENERAL_NAME_free(name);
    }
    done = done &&
           X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return done;
}

int certificate_make_ca(struct error *e, int64_t now_wall_ms, struct str *ret_key,
                        struct str *ret_certificate)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *ca = X509_new();
    bool made =
        key && ca && X509_set_version(ca, X509_VERSION_3) == 1 && set_serial(ca) &&
        set_times(ca, now_wall_ms - CERTIFICATE_EARLY_MS, now_wall_ms + CERTIFICATE_CA_LIFE_MS) &&
        set_subject(X509_get_subject_name(ca), "gpumux", CERTIFICATE_CA) &&
        X509_set_issuer_name(ca, X509_get_subject_name(ca)) == 1 && X509_set_pubkey(ca, key) == 1 &&
        add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        add_extension(ca, ca, NID_subject_key_identifier, "hash") &&
        X509_sign(ca, key, EVP_sha256()) > 0;
    r = made ? append_key(e, key, ret_key) : tls_error(e, ERR_NO_MEMORY, "making an authority");
    if (r == 0)
        r = append_certificate(e, ca, ret_certificate);
    X509_free(ca);
    EVP_PKEY_free(key);
    return r;
}

int certificate_make_request(struct error *e, const char *name, struct str *ret_key,
                             struct str *ret_request)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *request = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    bool made = key && request && bio && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
                set_subject(X509_REQ_get_subject_name(request), name, CERTIFICATE_NODE) &&
                X509_REQ_set_pubkey(request, key) == 1 &&
                X509_REQ_sign(request, key, EVP_sha256()) > 0;
    if (made)
        r = append_bio(e, bio, PEM_write_bio_X509_REQ(bio, request), ret_request);
    else
        r = tls_error(e, ERR_INVALID, "making a request for a certificate");
    if (!made)
        BIO_free(bio);
    if (r == 0)
        r = append_key(e, key, ret_key);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    return r;
}

/* ---- issuing ---- */

static int parse_request(struct error *e, const char *pem, X509_REQ **ret)
{
    size_t length = strlen(pem);
    BIO *bio = length <= CERTIFICATE_PEM_MAX ? BIO_new_mem_buf(pem, (int)length) : NULL;
    X509_REQ *request = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    if (!request)
        return tls_error(e, ERR_SYNTAX, "not a request for a certificate (CSR)");
    EVP_PKEY *key = X509_REQ_get0_pubkey(request);
    int r = 0;
    if (!key || !EVP_PKEY_is_a(key, "EC") || EVP_PKEY_get_bits(key) != KEY_BITS)
        r = error_set(e, ERR_DENIED, "the request's key is not one on the curve P-256");
    else if (X509_REQ_verify(request, key) != 1)
        r = error_set(e, ERR_DENIED, "the request is not signed by its own key");
    ERR_clear_error();
    if (r < 0)
        X509_REQ_free(request);
    else
        *ret = request;
    return r;
}

static bool fill(X509 *certificate, X509 *ca, X509_REQ *request,
                 const struct certificate_order *order)
{
    const char *usage = order->role == CERTIFICATE_SERVER ? "serverAuth" : "clientAuth";
    int64_t from = order->now_wall_ms - CERTIFICATE_EARLY_MS;
    int64_t until = order->now_wall_ms + order->life_ms;
    return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
           set_times(certificate, from, until) &&
           set_subject(X509_get_subject_name(certificate), order->name, order->role) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(ca)) == 1 &&
           X509_set_pubkey(certificate, X509_REQ_get0_pubkey(request)) == 1 &&
           add_extension(certificate, ca, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, ca, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, ca, NID_ext_key_usage, usage) &&
           add_extension(certificate, ca, NID_subject_key_identifier, "hash") &&
           add_extension(certificate, ca, NID_authority_key_identifier, "keyid") &&
           (order->host_count == 0 || add_hosts(certificate, order));
}

static int check_order(struct error *e, const struct certificate_order *order)
{
    size_t length = strlen(order->name);
    if (length == 0 || length >= CERTIFICATE_NAME_MAX)
        return error_set(e, ERR_INVALID, "a name in a certificate has 1 to %d bytes",
                         CERTIFICATE_NAME_MAX - 1);
    if (order->role == CERTIFICATE_CA || order->host_count > CERTIFICATE_HOSTS_MAX)
        return error_set(e, ERR_INVALID, "at most %d hosts in a certificate",
                         CERTIFICATE_HOSTS_MAX);
    return 0;
}

int certificate_issue(struct error *e, const char *ca_key, const char *ca_certificate,
                      const char *request, const struct certificate_order *order,
                      struct str *ret_certificate)
{
    int r = check_order(e, order);
    if (r == 0)
        r = tls_library_init(e);
    if (r < 0)
        return r;
    X509_REQ *asked = NULL;
    X509 *ca = tls_parse_certificate(ca_certificate), *certificate = NULL;
    EVP_PKEY *key = tls_parse_key(ca_key);
    if (!ca || !key || X509_check_private_key(ca, key) != 1)
        r = tls_error(e, ERR_CORRUPT, "the authority's key and certificate do not go together");
    else
        r = parse_request(e, request, &asked);
    if (r == 0) {
        certificate = X509_new();
        if (!certificate || !fill(certificate, ca, asked, order) ||
            X509_sign(certificate, key, EVP_sha256()) <= 0)
            r = tls_error(e, ERR_INVALID, "issuing a certificate");
        else
            r = append_certificate(e, certificate, ret_certificate);
    }
    X509_free(certificate);
    X509_REQ_free(asked);
    X509_free(ca);
    EVP_PKEY_free(key);
    return r;
}

/* ---- reading ---- */

/* Reads one entry of a subject as text without NUL. Returns false if the entry is absent or no such
 * text. */
static bool subject_text(const X509 *certificate, int kind, char text[CERTIFICATE_NAME_MAX])
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, kind, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, kind, at) >= 0)
        return false;
    unsigned char *utf8 = NULL;
    const ASN1_STRING *entry = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    int length = ASN1_STRING_to_UTF8(&utf8, entry);
    bool fits = length > 0 && length < CERTIFICATE_NAME_MAX &&
                str_is_utf8((const char *)utf8, (size_t)length);
    if (fits) {
        memcpy(text, utf8, (size_t)length);
        text[length] = '\0';
    }
    OPENSSL_free(utf8);
    return fits;
}

static bool role_of(const char *unit, enum certificate_role *ret)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i], unit) == 0) {
            *ret = (enum certificate_role)i;
            return true;
        }
    return false;
}

static bool wall_ms(const ASN1_TIME *time, int64_t *ret)
{
    struct tm tm;
    if (ASN1_TIME_to_tm(time, &tm) != 1)
        return false;
    *ret = (int64_t)timegm(&tm) * 1000;
    return true;
}

int certificate_facts_of_x509(struct error *e, const X509 *certificate,
                              struct certificate_facts *ret)
{
    struct certificate_facts facts;
    char unit[CERTIFICATE_NAME_MAX];
    if (!subject_text(certificate, NID_commonName, facts.name) ||
        !subject_text(certificate, NID_organizationalUnitName, unit) ||
        !role_of(unit, &facts.role) ||
        !wall_ms(X509_get0_notBefore(certificate), &facts.from_wall_ms) ||
        !wall_ms(X509_get0_notAfter(certificate), &facts.until_wall_ms))
        return error_set(e, ERR_SYNTAX, "this certificate is not one of gpumux");
    *ret = facts;
    return 0;
}

int certificate_read(struct error *e, const char *pem, struct certificate_facts *ret)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    X509 *certificate = tls_parse_certificate(pem);
    if (!certificate)
        return tls_error(e, ERR_SYNTAX, "not a certificate");
    r = certificate_facts_of_x509(e, certificate, ret);
    X509_free(certificate);
    return r;
}

static int verify(struct error *e, X509 *certificate, X509 *ca, enum certificate_role role,
                  int64_t now_wall_ms)
{
    X509_STORE *trusted = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    int r = 0;
    if (!trusted || !check || X509_STORE_add_cert(trusted, ca) != 1 ||
        X509_STORE_CTX_init(check, trusted, certificate, NULL) != 1 ||
        X509_STORE_CTX_set_purpose(check, role == CERTIFICATE_SERVER
                                              ? X509_PURPOSE_SSL_SERVER
                                              : X509_PURPOSE_SSL_CLIENT) != 1) {
        r = tls_error(e, ERR_NO_MEMORY, "checking a certificate");
    } else {
        X509_STORE_CTX_set_time(check, 0, now_wall_ms / 1000);
        if (X509_verify_cert(check) != 1)
            r = error_set(e, ERR_DENIED, "the certificate is not accepted: %s",
                          X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    }
    X509_STORE_CTX_free(check);
    X509_STORE_free(trusted);
    ERR_clear_error();
    return r;
}

int certificate_verify(struct error *e, const char *pem, const char *ca, enum certificate_role role,
                       int64_t now_wall_ms)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    struct certificate_facts facts;
    X509 *certificate = tls_parse_certificate(pem), *authority = tls_parse_certificate(ca);
    if (!certificate || !authority)
        r = tls_error(e, ERR_SYNTAX, "not a certificate");
    else
        r = certificate_facts_of_x509(e, certificate, &facts);
    if (r == 0 && facts.role != role)
        r = error_set(e, ERR_DENIED, "the certificate is for a %s, not for a %s", units[facts.role],
                      units[role]);
    if (r == 0)
        r = verify(e, certificate, authority, role, now_wall_ms);
    X509_free(certificate);
    X509_free(authority);
    return r;
}
