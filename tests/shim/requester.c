/*
 * A program with libgpumux that follows commands, one per line, and answers each with a number: for
 * channel_test.c.
 *
 *   open               the first call of CUDA; the driver's result
 *   pages              whether the process has pages
 *   begin AGE_US       begins a request; its place in the status page from 1, 0: none
 *   end N, drop N      ends or drops the request of the Nth `begin`, from 0; the call's result
 *   batch, checkpoint  the batch size now; whether a checkpoint is wanted
 *   use N              says that N was the size of the last batch
 *   child              the exit status of a child of fork(), which begins and ends requests of its
 *                      own before and after it uses CUDA
 *   end                ends the program
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "abi/pages.h"
#include "client/gpumux.h"

enum { TOKENS_MAX = 256, PLACE_MASK = 63 };

struct requester {
    struct gpumux *g;
    uint64_t tokens[TOKENS_MAX];
    unsigned token_count;
};

static int use_cuda(void)
{
    void *driver = dlopen(CUDA_SONAME, RTLD_NOW);
    CUresult (*init)(unsigned) =
        driver ? (CUresult(*)(unsigned))(uintptr_t)dlsym(driver, "cuInit") : NULL;
    return init ? (int)init(0) : -1;
}

/* As libgpumux finds the pages, and as any other library could. */
static int has_pages(void)
{
    const struct gpumux_pages *(*pages)(void) =
        (const struct gpumux_pages *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "gpumux_pages");
    const struct gpumux_pages *found = pages ? pages() : NULL;
    return found && found->size_bytes == sizeof *found && found->limits && found->status;
}

static int begin(struct requester *r, unsigned age_us)
{
    if (r->token_count == TOKENS_MAX)
        return -1;
    uint64_t token = gpumux_request_begin(r->g, age_us);
    r->tokens[r->token_count++] = token;
    return token == 0 ? -1 : (int)(token & PLACE_MASK);
}

static int answer_one(struct requester *r)
{
    int place = begin(r, 0);
    return gpumux_request_end(r->g, r->tokens[r->token_count - 1]) == 0 ? place : -1;
}

/* Returns 0 if the parent's pages are out of the child's reach, and the child gets its own. */
static int be_child(struct requester *r)
{
    if (has_pages() || answer_one(r) != 0)
        return 1;
    for (unsigned i = 0; i < r->token_count; i++)
        gpumux_request_drop(r->g, r->tokens[i]);
    /* A driver may refuse a child of a process that used it; the shim starts anyway. */
    (void)use_cuda();
    if (!has_pages())
        return 2;
    return answer_one(r) > 0 ? 0 : 3;
}

static int run_child(struct requester *r)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(be_child(r));
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static int obey(struct requester *r, const char *word, unsigned number)
{
    if (strcmp(word, "open") == 0)
        return use_cuda();
    if (strcmp(word, "pages") == 0)
        return has_pages();
    if (strcmp(word, "begin") == 0)
        return begin(r, number);
    if (strcmp(word, "end") == 0 && number < r->token_count)
        return gpumux_request_end(r->g, r->tokens[number]);
    if (strcmp(word, "drop") == 0 && number < r->token_count) {
        gpumux_request_drop(r->g, r->tokens[number]);
        return 0;
    }
    if (strcmp(word, "batch") == 0)
        return (int)gpumux_batch_size(r->g, 64);
    if (strcmp(word, "checkpoint") == 0)
        return gpumux_checkpoint_wanted(r->g);
    if (strcmp(word, "use") == 0) {
        gpumux_use_batch(r->g, number);
        return 0;
    }
    return strcmp(word, "child") == 0 ? run_child(r) : -1;
}

int main(void)
{
    static struct requester requester;
    char line[128], word[64] = "";
    requester.g = gpumux_open();
    while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
        unsigned number = 0;
        if (sscanf(line, "%63s %u", word, &number) >= 1)
            printf("%d\n", obey(&requester, word, number));
        fflush(stdout);
    }
    gpumux_close(requester.g);
    return 0;
}
