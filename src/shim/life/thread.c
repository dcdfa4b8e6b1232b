#include "shim/life/thread.h"

#include <pthread.h>
#include <stddef.h>

#include "shim/hook/libraries.h"
#include "shim/hook/resolve.h"
#include "shim/sys/sys.h"

/* Found at run time: the library that has these functions differs between C libraries, and a
 * library that replaces them, such as a sanitizer, must see the calls. */
struct thread_calls {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*init_attributes)(pthread_attr_t *);
    int (*get_stack_size)(const pthread_attr_t *, size_t *);
    int (*set_stack_size)(pthread_attr_t *, size_t);
    int (*set_detached)(pthread_attr_t *, int);
};

static void find_calls(void *argument)
{
    struct thread_calls *calls = argument;
    *(void **)&calls->create = resolve_first("pthread_create");
    *(void **)&calls->init_attributes = resolve_first("pthread_attr_init");
    *(void **)&calls->get_stack_size = resolve_first("pthread_attr_getstacksize");
    *(void **)&calls->set_stack_size = resolve_first("pthread_attr_setstacksize");
    *(void **)&calls->set_detached = resolve_first("pthread_attr_setdetachstate");
}

bool thread_start(void *(*run)(void *argument), void *argument)
{
    struct thread_calls calls = {0};
    pthread_attr_t attributes;
    pthread_t thread;
    size_t usual_bytes = 0;
    libraries_visit(find_calls, &calls);
    if (!calls.create || !calls.init_attributes || !calls.get_stack_size || !calls.set_stack_size ||
        !calls.set_detached || calls.init_attributes(&attributes) != 0 ||
        calls.set_detached(&attributes, PTHREAD_CREATE_DETACHED) != 0)
        return false;
    uint64_t mask = sys_block_signals();
    int r = calls.get_stack_size(&attributes, &usual_bytes);
    r = r ? r : calls.set_stack_size(&attributes, THREAD_STACK_BYTES);
    r = r ? r : calls.create(&thread, &attributes, run, argument);
    /* The program's thread-local variables use part of the stack, and may use all of it. */
    if (r != 0 && calls.set_stack_size(&attributes, usual_bytes) == 0)
        r = calls.create(&thread, &attributes, run, argument);
    sys_restore_signals(mask);
    return r == 0;
}
