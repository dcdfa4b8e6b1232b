/*
 * A program for swap_test.c, with the shim preloaded: follows commands from standard input, one per
 * line, and prints one number for each.
 *
 *   open               a context; the result of the driver
 *   alloc BYTES        an allocation; its number, or the negative result
 *   free N             frees allocation N; the result
 *   fill N SEED        writes a pattern over allocation N; the result
 *   check N SEED       reads allocation N; 0 if it contains the pattern
 *   range N OFFSET     size of the allocation around an address, or the negative result
 *   attribute N WHICH  an attribute of the address, as a number; or the negative result
 *   ipc N              the result of asking for a handle for other processes
 *   burn US            launches a kernel; the result
 *   fork               forks a child that ends at once; its exit status
 *   end                ends the program
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emu/driver_api.h"

enum { PIECES_MAX = 64, LINE_BYTES = 128 };

static struct driver_api api;

static struct {
    uint64_t address;
    size_t bytes;
} pieces[PIECES_MAX];

static long allocate(size_t bytes)
{
    for (int i = 0; i < PIECES_MAX; i++) {
        if (pieces[i].address)
            continue;
        int r = api.cuMemAlloc_v2(&pieces[i].address, bytes);
        pieces[i].bytes = bytes;
        return r == 0 ? i : -(long)r;
    }
    return -1;
}

static long release(unsigned piece)
{
    int r = api.cuMemFree_v2(pieces[piece].address);
    if (r == 0)
        pieces[piece].address = 0;
    return r;
}

static unsigned char *pattern(size_t bytes, uint64_t seed)
{
    unsigned char *text = malloc(bytes);
    for (size_t i = 0; text && i < bytes; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        text[i] = (unsigned char)(seed >> 56);
    }
    if (!text)
        exit(3);
    return text;
}

static long fill(unsigned piece, uint64_t seed)
{
    unsigned char *text = pattern(pieces[piece].bytes, seed);
    int r = api.cuMemcpyHtoD_v2(pieces[piece].address, text, pieces[piece].bytes);
    free(text);
    return r;
}

static long check(unsigned piece, uint64_t seed)
{
    unsigned char *text = pattern(pieces[piece].bytes, seed);
    unsigned char *found = malloc(pieces[piece].bytes);
    int r = found ? api.cuMemcpyDtoH_v2(found, pieces[piece].address, pieces[piece].bytes) : 3;
    if (r == 0)
        r = memcmp(text, found, pieces[piece].bytes) != 0;
    free(text);
    free(found);
    return r;
}

static long range(unsigned piece, uint64_t offset)
{
    uint64_t begin = 0;
    size_t bytes = 0;
    int r = api.cuMemGetAddressRange_v2(&begin, &bytes, pieces[piece].address + offset);
    if (r == 0 && begin != pieces[piece].address)
        return -1;
    return r == 0 ? (long)bytes : -(long)r;
}

static long attribute(unsigned piece, int which)
{
    uint64_t alone = 0, listed = 0;
    void *values[] = {&listed};
    int r = api.cuPointerGetAttribute(&alone, which, pieces[piece].address);
    if (r == 0)
        r = api.cuPointerGetAttributes(1, &which, values, pieces[piece].address);
    return r == 0 && alone == listed ? (long)alone : -(long)r - 1000;
}

static long ipc(unsigned piece)
{
    CUipcMemHandle handle;
    return api.cuIpcGetMemHandle(&handle, pieces[piece].address);
}

static long fork_child(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static long follow(const char *word, unsigned long a, unsigned long b)
{
    if (strcmp(word, "open") == 0)
        return driver_api_try_open(&api);
    if (strcmp(word, "alloc") == 0)
        return allocate(a);
    if (strcmp(word, "fork") == 0)
        return fork_child();
    if (strcmp(word, "burn") == 0)
        return driver_api_burn(&api, NULL, 500, 0, a * 1000);
    if (a >= PIECES_MAX || !pieces[a].address)
        return -1;
    if (strcmp(word, "free") == 0)
        return release((unsigned)a);
    if (strcmp(word, "fill") == 0)
        return fill((unsigned)a, b);
    if (strcmp(word, "check") == 0)
        return check((unsigned)a, b);
    if (strcmp(word, "range") == 0)
        return range((unsigned)a, b);
    if (strcmp(word, "attribute") == 0)
        return attribute((unsigned)a, (int)b);
    return strcmp(word, "ipc") == 0 ? ipc((unsigned)a) : -1;
}

int main(void)
{
    char line[LINE_BYTES], word[LINE_BYTES];
    driver_api_load(&api);
    while (fgets(line, sizeof(line), stdin)) {
        unsigned long a = 0, b = 0;
        if (sscanf(line, "%127s %lu %lu", word, &a, &b) < 1 || strcmp(word, "end") == 0)
            break;
        printf("%ld\n", follow(word, a, b));
        fflush(stdout);
    }
    return 0;
}
