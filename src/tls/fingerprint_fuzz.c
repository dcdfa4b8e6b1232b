/* A text is refused, or is a fingerprint that is written and parsed again as the same
 * fingerprint. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tls/fingerprint.h"
#include "tls/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct error e;
    struct fingerprint f, again;
    char written[FINGERPRINT_TEXT_MAX];
    if (fingerprint_parse(&e, text, &f) == 0 &&
        (fingerprint_parse(NULL, fingerprint_format(&f, written), &again) < 0 ||
         !fingerprint_equal(&f, &again)))
        abort();
    if (token_is_formed(TOKEN_API, text) && token_is_formed(TOKEN_JOIN, text))
        abort();
    free(text);
    return 0;
}
