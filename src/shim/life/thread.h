/* Threads of the shim: detached, with every signal blocked. The C library's pthread_create starts
 * these threads; some processes lack pthread_create. */
#pragma once
#include <stdbool.h>

enum { THREAD_STACK_BYTES = 256 << 10 }; /* stack size; the driver's calls need most of it */

/* Starts a thread. Returns false on failure. */
bool thread_start(void *(*run)(void *argument), void *argument);
