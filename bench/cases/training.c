/* The demo's training step. */
#include "training.h"

#include <stdlib.h>
#include <string.h>

static muster_status step(bench_training *run) {
    muster_selection batch = {.kind = MUSTER_SELECT_LIST, .indices = run->order + run->position, .index_count = BENCH_BATCH};
    run->position = (run->position + BENCH_BATCH) % (BENCH_BATCH * BENCH_BATCHES);
    return mlp_step(&run->model, run->images, run->labels, &batch, &run->loss);
}

bool bench_training_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_training *run = self;
    muster_status status = MUSTER_OK;
    BENCH_TIME(block, ns, status = status ? status : step(run));
    *wrong += !(run->loss > 0 && run->loss < 10);
    return bench_muster_ok(status, "muster");
}

static void make_data(bench_training *run, uint8_t *images, uint8_t *labels) {
    uint32_t random = 12345;
    int64_t count = BENCH_BATCH * BENCH_BATCHES;
    for (int64_t i = 0; i < count * MLP_INPUTS; i++) images[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    for (int64_t i = 0; i < count; i++) {
        labels[i] = (uint8_t)(((random = random * 1664525 + 1013904223) >> 16) % MLP_CLASSES);
        run->order[i] = i;
    }
    for (int64_t i = count - 1; i > 0; i--) { /* a shuffled order, as in the demo */
        int64_t j = ((random = random * 1664525 + 1013904223) >> 8) % (i + 1), other = run->order[j];
        run->order[j] = run->order[i];
        run->order[i] = other;
    }
    run->images = muster_u8(images, count, MLP_INPUTS);
    run->labels = muster_u8(labels, count);
}

bool bench_training_open(bench_training *run, int32_t devices, bool expressions) {
    const mlp_options options = {.learning_rate = 0.01, .momentum = 0.9, .seed = 1, .expressions = expressions};
    memset(run, 0, sizeof *run);
    uint8_t *images = malloc((size_t)BENCH_BATCH * BENCH_BATCHES * MLP_INPUTS), *labels = malloc((size_t)BENCH_BATCH * BENCH_BATCHES);
    if (!images || !labels) {
        bench_log("not measured: no memory for the images");
        free(images);
        free(labels);
        return false;
    }
    make_data(run, images, labels);
    run->runtime = bench_muster_open(devices);
    return run->runtime && bench_muster_ok(mlp_open(&run->model, run->runtime, &options), "muster");
}

bool bench_training_close(bench_training *run) {
    const bool ok = !run->runtime || bench_muster_ok(muster_runtime_close(run->runtime), "muster");
    free(run->images.data);
    free(run->labels.data);
    return ok;
}
