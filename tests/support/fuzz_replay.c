/* The main of a fuzzer's harness without the fuzzer: all files of a folder, the kept corpus.
 * usage: PROGRAM FOLDER */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int main(int count, char **arguments) {
    enum { MOST = 1 << 20 };
    static uint8_t data[MOST];
    int32_t files = 0;
    DIR *folder = count == 2 ? opendir(arguments[1]) : NULL;
    if (!folder) return fprintf(stderr, "usage: %s FOLDER\n", arguments[0]), 2;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
        FILE *file = *entry->d_name == '.' ? NULL : fopen(path, "rb");
        if (!file) continue;
        const size_t bytes = fread(data, 1, MOST, file);
        fclose(file);
        fprintf(stderr, "%s\n", entry->d_name); /* the last one is what an abort is about */
        (void)LLVMFuzzerTestOneInput(data, bytes);
        files++;
    }
    closedir(folder);
    printf("%d files\n", (int)files);
    return files > 20 ? 0 : 1;
}
