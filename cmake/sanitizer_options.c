/* Linked into every program of a build with AddressSanitizer. A workload has the shim preloaded,
 * and the sanitizer's runtime accepts a library before itself only with this option. */
const char *__asan_default_options(void) __attribute__((visibility("default")));

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
