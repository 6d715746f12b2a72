/* text.h: what the samples of language models share: a text to learn from, and random numbers. */
#ifndef TEXT_H
#define TEXT_H

#include <dirent.h>

#include "model.h"

enum { BYTES = 256 };

/* All files of the folder, in the order of their names, one behind the other. */
static inline uint8_t *text_read(const char *folder, int64_t *size) {
    struct dirent **entries;
    uint8_t *text = NULL;
    const int count = scandir(folder, &entries, NULL, alphasort);
    *size = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        FILE *file = entries[i]->d_type == DT_REG ? fopen(path, "rb") : NULL; /* links are second names */
        for (size_t got = 1; file && got; *size += (int64_t)got) {
            EXPECT((text = realloc(text, (size_t)*size + 65536)) != NULL);
            got = fread(text + *size, 1, 65536, file);
        }
        if (file) fclose(file);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return text;
}

static inline uint32_t text_draw(uint32_t place, uint32_t stream) {
    uint32_t random[4];
    muster_philox4x32((const uint32_t[]){place, stream, 0, 0}, (const uint32_t[]){1, 0}, random);
    return random[0];
}

/* One of the bytes, with these probabilities. */
static inline int text_byte(const float p[BYTES], uint32_t place) {
    double left = text_draw(place, UINT32_MAX) * 0x1p-32;
    int byte = 0;
    while (byte < BYTES - 1 && (left -= (double)p[byte]) > 0) byte++;
    return byte;
}

#endif
