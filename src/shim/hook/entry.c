/*
 * dlsym and dlvsym. All such calls of every dynamic program come here, most of them before main.
 * This file is therefore never instrumented, calls no function of the C library, takes no lock, and
 * passes calls that do not concern CUDA on with a jump. The real function then sees the caller's
 * own return address, which identifies the caller for RTLD_NEXT and RTLD_DEFAULT. A C compiler need
 * not turn a call into a jump, so the two functions themselves are assembly.
 */
#include <stdatomic.h>

#include "shim/hook/calls.h"
#include "shim/hook/resolve.h"
#include "shim/life/process.h"
#include "shim/life/signals.h"
#include "shim/sys/text.h"

/* Each function also has a hidden name, since this library's references to the exported name may
 * resolve to an earlier library. The arguments, the caller's address and the function's number go
 * to entry_route; a jump or a return follows. Three pushes keep the stack aligned for the call. */
#define ENTRY(function, number)                                                                    \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " #function "\n"                                                               \
            ".globl entry_" #function "\n"                                                         \
            ".hidden entry_" #function "\n"                                                        \
            ".type " #function ", @function\n" #function ":\n"                                     \
            "entry_" #function ":\n"                                                               \
            "    .cfi_startproc\n"                                                                 \
            "    endbr64\n"                                                                        \
            "    push %rdi\n"                                                                      \
            "    .cfi_adjust_cfa_offset 8\n"                                                       \
            "    push %rsi\n"                                                                      \
            "    .cfi_adjust_cfa_offset 8\n"                                                       \
            "    push %rdx\n"                                                                      \
            "    .cfi_adjust_cfa_offset 8\n"                                                       \
            "    mov 24(%rsp), %rcx\n"                                                             \
            "    mov $" #number ", %r8d\n"                                                         \
            "    call entry_route\n"                                                               \
            "    mov %rdx, %r11\n"                                                                 \
            "    pop %rdx\n"                                                                       \
            "    .cfi_adjust_cfa_offset -8\n"                                                      \
            "    pop %rsi\n"                                                                       \
            "    .cfi_adjust_cfa_offset -8\n"                                                      \
            "    pop %rdi\n"                                                                       \
            "    .cfi_adjust_cfa_offset -8\n"                                                      \
            "    test %rax, %rax\n"                                                                \
            "    je 1f\n"                                                                          \
            "    jmp *%rax\n"                                                                      \
            "1:  mov %r11, %rax\n"                                                                 \
            "    ret\n"                                                                            \
            "    .cfi_endproc\n"                                                                   \
            ".size " #function ", . - " #function "\n"                                             \
            ".popsection\n")

ENTRY(dlsym, 0);
ENTRY(dlvsym, 1);

struct calls_route entry_route(void *handle, const char *name, const char *version,
                               const void *caller, int number);
struct calls_route entry_route(void *handle, const char *name, const char *version,
                               const void *caller, int number)
{
    static const char *const functions[PROCESS_ENTRIES] = {"dlsym", "dlvsym"};
    /* Any thread may be the first to find the function; all find the same. */
    void *real = atomic_load_explicit(&the_process.behind_entry[number], memory_order_relaxed);
    if (!real) {
        real = resolve_next(functions[number]);
        atomic_store_explicit(&the_process.behind_entry[number], real, memory_order_relaxed);
    }
    if (real && name &&
        (text_starts(name, "cu") || text_starts(name, "dl") || text_starts(name, "nvml")))
        return calls_route(handle, name, number == 1 ? version : NULL, caller, real);
    if (real && name && signals_has(name))
        return signals_route(handle, name, number == 1 ? version : NULL, real);
    return (struct calls_route){.jump = real};
}
