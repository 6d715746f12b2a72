#include "onednn_lstm.h"

#include <dlfcn.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

enum { SRC, W, R, BIAS, DST, DSRC, DW, DR, DBIAS, DDST, WORKSPACE, SCRATCH, BACK_SCRATCH, OPERANDS, MOST = 24 };

/* What one thread has. */
typedef struct half {
    dnnl_stream_t stream;
    dnnl_primitive_t forward, backward;
    dnnl_memory_t memory[OPERANDS], w_back, r_back;
    dnnl_exec_arg_t forward_arguments[MOST], backward_arguments[MOST];
    int forward_count, backward_count;
} half;

struct bench_onednn_lstm {
    bench_pair *pair;
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr; /* scratch memory of ours: the library's would belong to the thread that makes a primitive */
    void (*set_threads)(int);
    half halves[2];
    int64_t rows, steps, inputs, states;
    bool gradient;
};

static bool memory_make(bench_onednn_lstm *self, const dnnl_memory_desc_t *md, dnnl_memory_t *memory) {
    void *data;
    if (dnnl_memory_create(memory, md, self->engine, DNNL_MEMORY_ALLOCATE) != dnnl_success) return false;
    if (dnnl_memory_get_data_handle(*memory, &data) != dnnl_success || !data) return false;
    float *values = data;
    for (size_t i = 0; i < dnnl_memory_desc_get_size(md) / sizeof *values; i++)
        values[i] = (float)((double)(i * 7919 % 17) / 512 - 1. / 64);
    return true;
}

static void argument_add(dnnl_exec_arg_t *list, int *count, int argument, dnnl_memory_t memory) {
    list[(*count)++] = (dnnl_exec_arg_t){argument, memory};
}

typedef struct shapes {
    dnnl_memory_desc_t memory[OPERANDS], none;
} shapes;

static bool shapes_make(const bench_onednn_lstm *self, shapes *s) {
    const dnnl_dims_t x = {self->steps, self->rows, self->inputs}, y = {self->steps, self->rows, self->states};
    const dnnl_dims_t w = {1, 1, self->inputs, 4, self->states}, r = {1, 1, self->states, 4, self->states}, b = {1, 1, 4, self->states};
    bool ok = true;
    memset(s, 0, sizeof *s);
#define SHAPE(operand, axes, dims, tag) \
    ok = ok && dnnl_memory_desc_init_by_tag(&s->memory[operand], axes, dims, dnnl_f32, tag) == dnnl_success
    for (int32_t back = 0; back < 2; back++) {
        SHAPE(back ? DSRC : SRC, 3, x, dnnl_tnc);
        SHAPE(back ? DW : W, 5, w, dnnl_format_tag_any);
        SHAPE(back ? DR : R, 5, r, dnnl_format_tag_any);
        SHAPE(back ? DBIAS : BIAS, 4, b, dnnl_ldgo);
        SHAPE(back ? DDST : DST, 3, y, dnnl_tnc);
    }
    return ok;
}

static bool queried(bench_onednn_lstm *self, const_dnnl_primitive_desc_t desc, dnnl_query_t what, int index, dnnl_memory_t *memory) {
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(desc, what, index);
    return md && memory_make(self, md, memory);
}

static bool forward_make(bench_onednn_lstm *self, half *h, shapes *s, dnnl_primitive_desc_t *desc) {
    dnnl_rnn_desc_t rnn;
    const dnnl_prop_kind_t kind = self->gradient ? dnnl_forward_training : dnnl_forward_inference;
    if (dnnl_lstm_forward_desc_init(&rnn, kind, dnnl_unidirectional_left2right, &s->memory[SRC], &s->none, &s->none, &s->memory[W],
                                    &s->memory[R], &s->memory[BIAS], &s->memory[DST], &s->none, &s->none, 0) != dnnl_success ||
        dnnl_primitive_desc_create(desc, &rnn, self->attr, self->engine, NULL) != dnnl_success ||
        dnnl_primitive_create(&h->forward, *desc) != dnnl_success)
        return false;
    bool ok = memory_make(self, &s->memory[SRC], &h->memory[SRC]) && memory_make(self, &s->memory[BIAS], &h->memory[BIAS]) &&
              memory_make(self, &s->memory[DST], &h->memory[DST]);
    ok = ok && queried(self, *desc, dnnl_query_weights_md, 0, &h->memory[W]) &&
         queried(self, *desc, dnnl_query_weights_md, 1, &h->memory[R]);
    ok = ok && queried(self, *desc, dnnl_query_scratchpad_md, 0, &h->memory[SCRATCH]);
    if (ok && self->gradient) ok = queried(self, *desc, dnnl_query_workspace_md, 0, &h->memory[WORKSPACE]);
    const struct {
        int argument, operand;
    } arguments[] = {{DNNL_ARG_SRC_LAYER, SRC}, {DNNL_ARG_WEIGHTS_LAYER, W},     {DNNL_ARG_WEIGHTS_ITER, R},    {DNNL_ARG_BIAS, BIAS},
                     {DNNL_ARG_DST_LAYER, DST}, {DNNL_ARG_WORKSPACE, WORKSPACE}, {DNNL_ARG_SCRATCHPAD, SCRATCH}};
    for (int32_t i = 0; i < 7; i++)
        if (h->memory[arguments[i].operand])
            argument_add(h->forward_arguments, &h->forward_count, arguments[i].argument, h->memory[arguments[i].operand]);
    return ok;
}

static bool backward_make(bench_onednn_lstm *self, half *h, shapes *s, const_dnnl_primitive_desc_t forward) {
    dnnl_rnn_desc_t rnn;
    dnnl_primitive_desc_t desc = NULL;
    if (dnnl_lstm_backward_desc_init(&rnn, dnnl_backward, dnnl_unidirectional_left2right, &s->memory[SRC], &s->none, &s->none,
                                     &s->memory[W], &s->memory[R], &s->memory[BIAS], &s->memory[DST], &s->none, &s->none, &s->memory[DSRC],
                                     &s->none, &s->none, &s->memory[DW], &s->memory[DR], &s->memory[DBIAS], &s->memory[DDST], &s->none,
                                     &s->none, 0) != dnnl_success ||
        dnnl_primitive_desc_create(&desc, &rnn, self->attr, self->engine, forward) != dnnl_success)
        return false;
    bool ok = dnnl_primitive_create(&h->backward, desc) == dnnl_success;
    ok = ok && memory_make(self, &s->memory[DSRC], &h->memory[DSRC]) && memory_make(self, &s->memory[DBIAS], &h->memory[DBIAS]) &&
         memory_make(self, &s->memory[DDST], &h->memory[DDST]);
    ok = ok && queried(self, desc, dnnl_query_weights_md, 0, &h->w_back) && queried(self, desc, dnnl_query_weights_md, 1, &h->r_back) &&
         queried(self, desc, dnnl_query_scratchpad_md, 0, &h->memory[BACK_SCRATCH]) &&
         queried(self, desc, dnnl_query_diff_weights_md, 0, &h->memory[DW]) &&
         queried(self, desc, dnnl_query_diff_weights_md, 1, &h->memory[DR]);
    (void)dnnl_primitive_desc_destroy(desc);
    if (!ok) return false;
    const struct {
        int argument;
        dnnl_memory_t memory;
    } arguments[] = {{DNNL_ARG_SRC_LAYER, h->memory[SRC]},        {DNNL_ARG_WEIGHTS_LAYER, h->w_back},
                     {DNNL_ARG_WEIGHTS_ITER, h->r_back},          {DNNL_ARG_BIAS, h->memory[BIAS]},
                     {DNNL_ARG_DST_LAYER, h->memory[DST]},        {DNNL_ARG_WORKSPACE, h->memory[WORKSPACE]},
                     {DNNL_ARG_DIFF_SRC_LAYER, h->memory[DSRC]},  {DNNL_ARG_DIFF_WEIGHTS_LAYER, h->memory[DW]},
                     {DNNL_ARG_DIFF_WEIGHTS_ITER, h->memory[DR]}, {DNNL_ARG_DIFF_BIAS, h->memory[DBIAS]},
                     {DNNL_ARG_DIFF_DST_LAYER, h->memory[DDST]},  {DNNL_ARG_SCRATCHPAD, h->memory[BACK_SCRATCH]}};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        argument_add(h->backward_arguments, &h->backward_count, arguments[i].argument, arguments[i].memory);
    return true;
}

static bool half_make(bench_onednn_lstm *self, half *h) {
    shapes s;
    dnnl_primitive_desc_t forward = NULL;
    bool ok = shapes_make(self, &s) && dnnl_stream_create(&h->stream, self->engine, dnnl_stream_default_flags) == dnnl_success;
    ok = ok && forward_make(self, h, &s, &forward);
    ok = ok && (!self->gradient || backward_make(self, h, &s, forward));
    if (forward) (void)dnnl_primitive_desc_destroy(forward);
    return ok;
}

bench_onednn_lstm *bench_onednn_lstm_open(bench_pair *pair, int64_t rows, int64_t steps, int64_t inputs, int64_t states, bool gradient) {
    bench_onednn_lstm *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    *self = (bench_onednn_lstm){.pair = pair, .rows = rows / 2, .steps = steps, .inputs = inputs, .states = states, .gradient = gradient};
    *(void **)&self->set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    bool ok = self->set_threads && dnnl_engine_create(&self->engine, dnnl_cpu, 0) == dnnl_success;
    ok = ok && dnnl_primitive_attr_create(&self->attr) == dnnl_success &&
         dnnl_primitive_attr_set_scratchpad_mode(self->attr, dnnl_scratchpad_mode_user) == dnnl_success;
    if (ok) self->set_threads(1);
    for (int32_t i = 0; ok && i < 2; i++) ok = half_make(self, &self->halves[i]);
    if (ok) return self;
    bench_log("not measured: the LSTM of oneDNN: %s", self->set_threads ? "it was refused" : "a build without OpenMP");
    bench_onednn_lstm_close(self);
    return NULL;
}

void bench_onednn_lstm_close(void *argument) {
    bench_onednn_lstm *self = argument;
    for (int32_t i = 0; i < 2; i++) {
        half *h = &self->halves[i];
        for (int32_t o = 0; o < OPERANDS; o++)
            if (h->memory[o]) (void)dnnl_memory_destroy(h->memory[o]);
        if (h->w_back) (void)dnnl_memory_destroy(h->w_back);
        if (h->r_back) (void)dnnl_memory_destroy(h->r_back);
        if (h->forward) (void)dnnl_primitive_destroy(h->forward);
        if (h->backward) (void)dnnl_primitive_destroy(h->backward);
        if (h->stream) (void)dnnl_stream_destroy(h->stream);
    }
    if (self->attr) (void)dnnl_primitive_attr_destroy(self->attr);
    if (self->engine) (void)dnnl_engine_destroy(self->engine);
    free(self);
}

/* The setting of OpenMP is that of the thread. */
static void run_half(void *argument, int32_t rank) {
    bench_onednn_lstm *self = argument;
    const half *h = &self->halves[rank];
    self->set_threads(1);
    (void)dnnl_primitive_execute(h->forward, h->stream, h->forward_count, h->forward_arguments);
    if (h->backward) (void)dnnl_primitive_execute(h->backward, h->stream, h->backward_count, h->backward_arguments);
}

/* All weights have one pattern, in whatever order they lie, so only the bounds of y are known: it
 * is not 0 everywhere, and |y| < 1. */
static int64_t is_wrong(const bench_onednn_lstm *self) {
    int64_t wrong = 0;
    for (int32_t i = 0; i < 2; i++) {
        void *data;
        if (dnnl_memory_get_data_handle(self->halves[i].memory[DST], &data) != dnnl_success) return 1;
        const float *y = data;
        double sum = 0;
        for (int64_t e = 0; e < self->steps * self->rows * self->states; e++) sum += fabs((double)y[e]);
        wrong += !(sum > 0 && sum < (double)(self->steps * self->rows * self->states));
    }
    return wrong;
}

bool bench_onednn_lstm_block(void *argument, const bench_block *block, double *ns, int64_t *wrong) {
    bench_onednn_lstm *self = argument;
    bench_pair_begin(self->pair, run_half, self);
    BENCH_TIME(block, ns, bench_pair_call(self->pair));
    bench_pair_end(self->pair);
    *wrong += is_wrong(self);
    return true;
}
