/*
 * Exports of the driver's function names, for programs that are linked with libcuda: each is a jump
 * to its hook. The names carry the first version of this library, as a non-default version: the
 * dynamic linker binds references without a version to such a name, as those to libcuda are, but
 * dlsym never finds it. A program that asks whether there is a CUDA driver thus still gets a true
 * answer.
 */
#define EXPORT(symbol)                                                                             \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl export_" #symbol "\n"                                                          \
            ".type export_" #symbol ", @function\n"                                                \
            "export_" #symbol ":\n"                                                                \
            "    endbr64\n"                                                                        \
            "    jmp hook_" #symbol "\n"                                                           \
            ".size export_" #symbol ", . - export_" #symbol "\n"                                   \
            ".symver export_" #symbol ", " #symbol "@GPUMUX_CUDA\n"                                \
            ".popsection\n");
#define INTERCEPTED(how, symbol, ...) EXPORT(symbol)
#define USED(...)
#include "shim/hook/calls.def"
/* Exports of NVML's function names. */
#define INTERCEPTED(symbol, ...) EXPORT(symbol)
#define USED(...)
#include "shim/hook/nvml_calls.def"
