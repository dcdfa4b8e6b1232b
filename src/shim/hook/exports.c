/*
 * The names of the driver's functions, for programs that are linked with libcuda: each is a jump to
 * its hook. They carry the first version of this library, as one that is not the default: the
 * dynamic linker gives such a name to a reference without a version, as those to libcuda are, and
 * dlsym never finds it. So a program that asks whether there is a CUDA driver still hears the
 * truth.
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
/* And those of NVML. */
#define INTERCEPTED(symbol, ...) EXPORT(symbol)
#define USED(...)
#include "shim/hook/nvml_calls.def"
