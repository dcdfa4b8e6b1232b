/* An address is refused, or is written and parsed again as the same address. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct address *a)
{
    struct str text;
    struct address again;
    str_init(&text, ADDRESS_TEXT_MAX);
    address_write(a, &text);
    if (address_parse(NULL, str_text(&text), NULL, &again) < 0 || strcmp(a->host, again.host) ||
        strcmp(a->port, again.port))
        abort();
    str_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct address a;
    struct error e;
    if (address_parse(&e, text, "127.0.0.1", &a) == 0)
        check(&a);
    if (address_parse_url(&e, text, &a) == 0)
        check(&a);
    free(text);
    return 0;
}
