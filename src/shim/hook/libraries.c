#include "shim/hook/libraries.h"

#include <link.h>

#include "shim/life/process.h"
#include "shim/sys/clock.h"

struct visitor {
    void (*visit)(void *);
    void *argument;
};

static int visit_once(struct dl_phdr_info *info, size_t size, void *argument)
{
    const struct visitor *v = argument;
    (void)info;
    (void)size;
    v->visit(v->argument);
    return 1;
}

/* Makes forks wait from now on, after waiting for a fork that is under way. */
static void come_in(struct libraries *libraries)
{
    uint64_t begin_ns = clock_now_ns(), waited_ns = 0;
    atomic_fetch_add(&libraries->inside, 1);
    while (atomic_load(&libraries->forks) > 0 && waited_ns < LIBRARIES_WAIT_NS) {
        atomic_fetch_sub(&libraries->inside, 1);
        clock_relax(waited_ns);
        waited_ns = clock_now_ns() - begin_ns;
        atomic_fetch_add(&libraries->inside, 1);
    }
}

void libraries_visit(void (*visit)(void *argument), void *argument)
{
    struct visitor v = {visit, argument};
    come_in(&the_process.libraries);
    dl_iterate_phdr(visit_once, &v);
    atomic_fetch_sub(&the_process.libraries.inside, 1);
}

void libraries_before_fork(void)
{
    struct libraries *libraries = &the_process.libraries;
    uint64_t begin_ns = clock_now_ns(), waited_ns = 0;
    atomic_fetch_add(&libraries->forks, 1);
    while (atomic_load(&libraries->inside) > 0 && waited_ns < LIBRARIES_WAIT_NS) {
        clock_relax(waited_ns);
        waited_ns = clock_now_ns() - begin_ns;
    }
}

void libraries_after_fork(bool is_child)
{
    struct libraries *libraries = &the_process.libraries;
    if (is_child) { /* a child has only this thread */
        atomic_store(&libraries->inside, 0);
        atomic_store(&libraries->forks, 0);
    } else {
        atomic_fetch_sub(&libraries->forks, 1);
    }
}
