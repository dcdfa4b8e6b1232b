/*
 * main() of a fuzzer outside the fuzz preset: replays the named files, and all files in the named
 * directories, through LLVMFuzzerTestOneInput. An empty corpus is a failure, because it tests
 * nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES_MAX = 16 << 20, PATH_BYTES_MAX = 4096 };

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    int result = -1;
    if (!file || !data) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        goto out;
    }
    size_t size = fread(data, 1, INPUT_BYTES_MAX, file);
    if (ferror(file) || fgetc(file) != EOF) {
        fprintf(stderr, "%s: unreadable, or more than %d bytes\n", path, INPUT_BYTES_MAX);
        goto out;
    }
    /* An exact copy, so that AddressSanitizer detects a read past its end. */
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        goto out;
    memcpy(exact, data, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    result = 0;
out:
    free(data);
    if (file)
        (void)fclose(file);
    return result;
}

/* Returns the number of replayed inputs, or -1. */
static int replay_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    int count = 0;
    for (const struct dirent *entry; count >= 0 && (entry = readdir(directory));) {
        char file[PATH_BYTES_MAX];
        if (entry->d_name[0] == '.')
            continue;
        int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof file || replay_file(file) < 0)
            count = -1;
        else
            count++;
    }
    (void)closedir(directory);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        int count = -1;
        if (stat(argv[i], &info) < 0)
            fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
        else if (S_ISDIR(info.st_mode))
            count = replay_directory(argv[i]);
        else
            count = replay_file(argv[i]) < 0 ? -1 : 1;
        if (count < 0)
            return EXIT_FAILURE;
        total += count;
    }
    if (total == 0) {
        fprintf(stderr, "the corpus is empty\n");
        return EXIT_FAILURE;
    }
    printf("%d inputs replayed\n", total);
    return EXIT_SUCCESS;
}
