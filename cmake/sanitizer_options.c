/* Linked into every program of a build with AddressSanitizer: as a workload it has the
 * shim preloaded, and the sanitizer's runtime refuses to come second unless it is told
 * that this is meant. */
const char *__asan_default_options(void) __attribute__((visibility("default")));

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
