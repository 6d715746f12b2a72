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

/* The rate grows to `rate` in so many steps of warming up, and then falls to a tenth. */
typedef struct text_training {
    int64_t batch, time, steps, warm_up;
    float rate;
} text_training;

/* Calls step([rows of time + 1 bytes, rate], [loss]) with rows from anywhere in the text. */
static inline void text_train(muster_function *step, const uint8_t *text, int64_t size, const text_training *t) {
    uint8_t *rows = malloc((size_t)(t->batch * (t->time + 1)));
    EXPECT(rows != NULL);
    double sum = 0, begin = model_seconds();
    for (int64_t i = 0; i < t->steps; i++) {
        float loss, rate = t->rate * (i < t->warm_up ? (float)(i + 1) / (float)t->warm_up : 1 - 0.9f * (float)i / (float)t->steps);
        for (int64_t row = 0; row < t->batch; row++)
            memcpy(rows + row * (t->time + 1), text + text_draw((uint32_t)row, (uint32_t)i) % (size - t->time), (size_t)t->time + 1);
        CHECK(muster_function_call(step, (const muster_tensor[]){muster_u8(rows, t->batch, t->time + 1), muster_f32(&rate)}, 2,
                                   (const muster_tensor[]){muster_f32(&loss)}, 1, NULL));
        sum += (double)loss / log(2);
        if (i % 50 == 49 || i == t->steps - 1) {
            printf("step %" PRId64 ": %.3f bits per byte, %.0f bytes/s\n", i + 1, sum / (double)(i % 50 + 1),
                   (double)((i + 1) * t->batch * t->time) / (model_seconds() - begin));
            fflush(stdout);
            sum = 0;
        }
    }
    free(rows);
}

/* One of the bytes, with these probabilities. */
static inline int text_byte(const float p[BYTES], uint32_t place) {
    double left = text_draw(place, UINT32_MAX) * 0x1p-32;
    int byte = 0;
    while (byte < BYTES - 1 && (left -= (double)p[byte]) > 0) byte++;
    return byte;
}

#endif
