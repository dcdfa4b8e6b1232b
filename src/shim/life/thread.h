/* Threads of the shim: detached, with every signal blocked. They are made by the C library's
 * pthread_create, which a process may lack. */
#pragma once
#include <stdbool.h>

enum { THREAD_STACK_BYTES = 256 << 10 }; /* stack size; the driver's calls need most of it */

/* Starts a thread. Returns false if that is not possible. */
bool thread_start(void *(*run)(void *argument), void *argument);
