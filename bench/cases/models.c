/* Training steps of convolutional networks: the samples of samples/models on made-up images, beside
 * their convolutions and dense layers alone. */
#include "models.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>

typedef struct model_row {
    const char *name;
    bench_model_compile *compile;
    int64_t batch, channels, side, classes;
    bool bytes;        /* images and labels are u8, else f32 and i32 */
    bool counted;      /* the step has a number */
    int64_t megabytes; /* that a step moves besides those layers, at least */
    double speedup;    /* target: of the limit */
} model_row;

/* ResNet-50: normalisation with ReLU reads and writes 11.1 million activations of an image 3 and 5
 * times (forward, backward) in f32; AlexNet: 61 million parameters, 28 bytes of each. */
static const model_row rows[] = {{"lenet", bench_lenet_compile, 128, 1, 28, 10, true, false, 0, 0.55},
                                 {"resnet50", bench_resnet50_compile, 8, 3, 224, 1000, false, false, 8 * 355, 0.85},
                                 {"alexnet", bench_alexnet_compile, 64, 3, 224, 1000, false, true, 1700, 0.85}};

typedef struct model_run {
    const model_row *row;
    muster_runtime *runtime;
    muster_function *step;
    muster_tensor in[3];
    int64_t number;
    float loss;
} model_run;

static bool model_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    model_run *run = self;
    const muster_tensor out[] = {muster_f32(&run->loss)};
    muster_status status = MUSTER_OK;
    BENCH_TIME(block, ns,
               (run->number++, status = status ? status : muster_function_call(run->step, run->in, 2 + run->row->counted, out, 1, NULL)));
    *wrong += !(run->loss > 0 && run->loss < 20);
    return bench_muster_ok(status, "muster");
}

static bool model_data(model_run *run) {
    const model_row *row = run->row;
    const int64_t count = row->batch * row->channels * row->side * row->side;
    void *images = malloc((size_t)count * 4), *labels = malloc((size_t)row->batch * 4);
    uint32_t random = 12345;
    if (images && labels) {
        for (int64_t i = 0; i < count; i++) {
            random = random * 1664525 + 1013904223;
            if (row->bytes)
                ((uint8_t *)images)[i] = (uint8_t)(random >> 24);
            else
                ((float *)images)[i] = (float)(random >> 8) / (1 << 23) - 1;
        }
        for (int64_t i = 0; i < row->batch; i++)
            if (row->bytes)
                ((uint8_t *)labels)[i] = (uint8_t)(i * 37 % row->classes);
            else
                ((int32_t *)labels)[i] = (int32_t)(i * 37 % row->classes);
    } else
        bench_log("not measured: no memory for the images");
    const int64_t shape[] = {row->batch, row->channels, row->side, row->side};
    run->in[0] = muster_tensor_make(row->bytes ? MUSTER_U8 : MUSTER_F32, images, 4, shape);
    run->in[1] = muster_tensor_make(row->bytes ? MUSTER_U8 : MUSTER_I32, labels, 1, shape);
    run->in[2] = muster_i64(&run->number);
    return images && labels;
}

static void model_peers(bench_row *row, const model_row *model) {
    char batch[24];
    snprintf(batch, sizeof batch, "%lld", (long long)model->batch);
    static const char *const ways[] = {"eager", "channels_last", "compiled"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        bench_add_python(row, "torch", 2, (const char *const[]){"model", model->name, batch, ways[i], NULL});
    bench_add_python(row, "jax", 2, (const char *const[]){"model", model->name, batch, "compiled", NULL});
}

static bool model_row_run(const model_row *model, const bench_options *options) {
    model_run run = {.row = model};
    bench_row row = {.block = {1, 3, 0}, .round_count = 5, .items = (double)model->batch, .items_name = "samples/s"};
    snprintf(row.name, sizeof row.name, "models: a training step of %s, batch %lld", model->name, (long long)model->batch);
    if (!bench_wanted(options, row.name)) return true;
    if (model->batch > 100) row.block.calls = 20;
    bench_add_network_limit(&row, model->name, model->batch, model->megabytes);
    bool ok = model_data(&run) && (run.runtime = bench_muster_open(2)) != NULL;
    if (ok) run.step = model->compile(run.runtime, model->batch);
    if (ok) bench_muster_add(&row, "muster, 2 devices", &run, model_block);
    if (!options->no_peers) model_peers(&row, model);
    bench_target_add(&row, BENCH_SPEEDUP, "the convolutions and dense layers", model->speedup);
    ok = bench_run(&row, options) && ok;
    if (run.runtime) ok = bench_muster_ok(muster_runtime_close(run.runtime), "muster") && ok;
    free(run.in[0].data);
    free(run.in[1].data);
    return ok;
}

bool bench_models(const bench_options *options) {
    bool ok = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) ok = model_row_run(&rows[i], options) && ok;
    return ok;
}
