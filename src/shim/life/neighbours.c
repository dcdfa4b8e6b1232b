#include <sys/mman.h>

#include "shim/life/neighbours.h"
#include "shim/life/pages.h"
#include "shim/sys/sys.h"

void neighbours_add(struct neighbours *n, uint32_t number, uint32_t device, int fd)
{
    const size_t bytes = sizeof(struct status_page);
    if (number >= REGISTER_NEIGHBOURS_MAX)
        return;
    void *page = pages_map(fd, PAGE_STATUS, bytes, PROT_READ);
    if (!page)
        return;
    n->devices[number] = device;
    if (!n->pages[number])
        n->pages[number] = page;
    else if (!pages_replace((void *)(uintptr_t)n->pages[number], page, bytes))
        return;
    atomic_fetch_or(&n->present, UINT64_C(1) << number);
}

void neighbours_remove(struct neighbours *n, uint32_t number)
{
    if (number >= REGISTER_NEIGHBOURS_MAX || !n->pages[number])
        return;
    atomic_fetch_and(&n->present, ~(UINT64_C(1) << number));
    pages_clear((void *)(uintptr_t)n->pages[number], sizeof(struct status_page));
}

void neighbours_forget(struct neighbours *n)
{
    for (int i = 0; i < REGISTER_NEIGHBOURS_MAX; i++) {
        if (n->pages[i])
            (void)sys_munmap(n->pages[i], sizeof(struct status_page));
    }
    *n = (struct neighbours){0};
}
