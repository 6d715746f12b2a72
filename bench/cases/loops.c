/* Operations and expressions on one CPU core, beside the plain C loop that does the same. */
#include "muster_case.h"
#include "plain_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 1024, PLACES = 1 << 20 };

/* The expression of x, y (n, k), or the call of the body. */
typedef struct loop_kind {
    const char *name, *text; /* NULL: a body */
    muster_status (*call)(muster_worker *w, muster_tensor x, muster_tensor i, muster_tensor z);
    bench_plain_loop loop;
    int64_t n, k;    /* of x; of bodies: indices, and elements of a row */
    int64_t rows;    /* bodies: of what the indices name */
    int64_t z_count; /* of the result */
} loop_kind;

#define EXPRESSION(text, loop, count) \
    { (text), (text), NULL, bench_plain_##loop, SIDE, SIDE, 0, (count) }
#define INDEXED(operation, width, height)                                                                                           \
    {                                                                                                                               \
#operation ", " #width " wide, " #height " rows", NULL, muster_##operation, bench_plain_##operation, PLACES / width, width, \
            (height), 0                                                                                                             \
    }
static const loop_kind kinds[] = {INDEXED(take, 1, 1000),
                                  INDEXED(take, 1, 1000000),
                                  INDEXED(take, 8, 1000),
                                  INDEXED(take, 64, 1000),
                                  INDEXED(scatter_add, 1, 1000),
                                  INDEXED(scatter_add, 1, 1000000),
                                  INDEXED(scatter_add, 8, 1000),
                                  INDEXED(scatter_add, 64, 1000),
                                  EXPRESSION("softmax(x, axis=0)", softmax_0, SIDE *SIDE),
                                  EXPRESSION("logsumexp(x, axis=0)", logsumexp_0, SIDE),
                                  EXPRESSION("softmax(x, axis=1)", softmax_1, SIDE *SIDE),
                                  EXPRESSION("logsumexp(x, axis=1)", logsumexp_1, SIDE),
                                  EXPRESSION("x % 3", remainder, SIDE *SIDE),
                                  EXPRESSION("cumsum(x, axis=0)", cumsum_0, SIDE *SIDE),
                                  EXPRESSION("einsum(\"ij,ij->i\", x, y)", row_dots, SIDE),
                                  EXPRESSION("repeat(x, 2, axis=1)", repeat, 2 * SIDE * SIDE),
                                  EXPRESSION("x.T + y", transposed, SIDE *SIDE),
                                  EXPRESSION("argmax(x, axis=1)", argmax, 2 * SIDE),
                                  EXPRESSION("tanh(x)", tanh, SIDE *SIDE)};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct loop_call {
    const loop_kind *kind;
    muster_runtime *runtime;
    muster_function *function;
    bench_plain p, plain; /* Muster's, and the loop's */
    const bench_block *block;
    double *ns;
} loop_call;

/* ---- Muster's side ---- */

static muster_status loop_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const loop_call *call = user;
    const loop_kind *kind = call->kind;
    const bool reads = kind->call == muster_take; /* else what the indices name is written */
    const muster_tensor x = muster_f32((float *)(uintptr_t)call->p.x, reads ? kind->rows : kind->n, kind->k),
                        i = muster_i32((int32_t *)(uintptr_t)call->p.i, kind->n),
                        z = muster_f32(call->p.z, reads ? kind->n : kind->rows, kind->k);
    (void)in, (void)out;
    muster_status status = MUSTER_OK;
    BENCH_TIME(call->block, call->ns, status = status ? status : kind->call(w, x, i, z));
    return status;
}

static muster_status call_once(loop_call *call, const bench_block *block, double *ns) {
    const int64_t n = call->kind->n, k = call->kind->k;
    call->block = block;
    call->ns = ns;
    if (!call->kind->text) return muster_function_call(call->function, NULL, 0, NULL, 0, NULL);
    const muster_tensor in[] = {muster_f32((float *)(uintptr_t)call->p.x, n, k), muster_f32((float *)(uintptr_t)call->p.y, n, k)};
    const bool indices = strncmp(call->kind->text, "argmax", 6) == 0;
    const int64_t count = call->kind->z_count / (indices ? 2 : 1);
    int64_t shape[] = {count > n ? n : count, count / n};
    const muster_tensor out = muster_tensor_make(indices ? MUSTER_I64 : MUSTER_F32, call->p.z, count > n ? 2 : 1, shape);
    muster_status status = MUSTER_OK;
    BENCH_TIME(block, ns, status = status ? status : muster_function_call(call->function, in, 2, &out, 1, NULL));
    return status;
}

static int64_t count_wrong(const loop_call *call, int64_t count) {
    int64_t wrong = 0;
    for (int64_t e = 0; e < count; e++) wrong += !(fabsf(call->p.z[e] - call->plain.z[e]) <= 1e-4F * (1 + fabsf(call->plain.z[e])));
    return wrong;
}

static int64_t result_count(const loop_kind *kind) {
    return kind->z_count ? kind->z_count : (kind->call == muster_take ? kind->n : kind->rows) * kind->k;
}

/* The last call is compared: on zeros, since scatter_add adds to them. */
static bool muster_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    loop_call *call = self;
    const int64_t count = result_count(call->kind);
    double one;
    if (!bench_muster_ok(call_once(call, block, ns), "muster")) return false;
    memset(call->p.z, 0, (size_t)count * sizeof(float));
    memset(call->plain.z, 0, (size_t)count * sizeof(float));
    call->kind->loop(&call->plain);
    if (!bench_muster_ok(call_once(call, &(bench_block){0, 1, 0}, &one), "muster")) return false;
    *wrong += count_wrong(call, count);
    return true;
}

/* scatter_add as Muster has it: f64, rounded once. The loop of the limit adds up in f32. */
static bool plain_f64_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const loop_call *call = self;
    (void)wrong;
    BENCH_TIME(block, ns, bench_plain_scatter_add_f64(&call->plain));
    return true;
}

static bool plain_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const loop_call *call = self;
    (void)wrong;
    BENCH_TIME(block, ns, call->kind->loop(&call->plain));
    return true;
}

/* ---- rows ---- */

static float *numbers(int64_t count, uint32_t seed) {
    float *array = malloc((size_t)count * sizeof(float));
    for (int64_t e = 0; e < count && array; e++) array[e] = (float)((uint32_t)(e + 1) * (2654435761U + 2 * seed) >> 8) * 0x1p-22F - 2;
    return array;
}

static bool call_open(loop_call *call) {
    const loop_kind *kind = call->kind;
    const int64_t most = (kind->n > kind->rows ? kind->n : kind->rows) * kind->k, results = result_count(kind);
    int32_t *indices = malloc((size_t)kind->n * sizeof *indices);
    for (int64_t r = 0; r < kind->n && indices; r++)
        indices[r] = kind->rows ? (int32_t)((uint64_t)r * 2654435761U % (uint64_t)kind->rows) : 0;
    call->p = (bench_plain){numbers(most, 1), numbers(most, 2), indices, numbers(results, 3), kind->n, kind->k, kind->rows, NULL};
    call->plain = call->p;
    call->plain.z = numbers(results, 4);
    call->plain.sums = calloc((size_t)(kind->rows * kind->k + 1), sizeof(double));
    if (!call->plain.sums || !call->p.x || !call->p.y || !call->p.i || !call->p.z || !call->plain.z)
        return bench_log("not measured: no memory"), false;
    call->runtime = bench_muster_open(1);
    if (!call->runtime) return false;
    if (!kind->text)
        return bench_muster_ok(muster_function_create(call->runtime, "loop", loop_body, call, &call->function), "muster") &&
               bench_muster_ok(muster_function_set_runs_without_rows(call->function, 1), "muster");
    muster_graph *graph;
    if (!bench_muster_ok(muster_graph_create(call->runtime, "loop", &graph), "muster")) return false;
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(kind->n, kind->k), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(kind->n, kind->k), MUSTER_BROADCAST);
    (void)muster_graph_output(graph, "z", muster_expr_parse(graph, kind->text), MUSTER_AUTO);
    const bool ok = bench_muster_ok(muster_graph_compile(graph, NULL, &call->function), "muster");
    return bench_muster_ok(muster_graph_destroy(graph), "muster") && ok;
}

static bool call_close(loop_call *call) {
    const bool ok = !call->runtime || bench_muster_ok(muster_runtime_close(call->runtime), "muster");
    free((void *)(uintptr_t)call->p.x);
    free((void *)(uintptr_t)call->p.y);
    free((void *)(uintptr_t)call->p.i);
    free(call->p.z);
    free(call->plain.z);
    free(call->plain.sums);
    return ok;
}

static bool loop_row(const bench_options *options, const loop_kind *kind) {
    loop_call call = {.kind = kind};
    bench_row row = {.block = {1, 5, 0}, .round_count = 20, .items = (double)(kind->n * kind->k), .items_name = "elements/s"};
    snprintf(row.name, sizeof row.name, "loops: %s, 1 CPU core", kind->name);
    if (!bench_wanted(options, row.name)) return true;
    bool ok = call_open(&call);
    if (ok) {
        bench_add(&row, BENCH_LIMIT, "plain loop", &call, plain_block, NULL);
        const char *fair = kind->call == muster_scatter_add ? "plain loop, sums in f64" : "plain loop";
        if (kind->call == muster_scatter_add) bench_add(&row, BENCH_PEER, fair, &call, plain_f64_block, NULL);
        bench_muster_add(&row, "muster", &call, muster_block);
        bench_target_add(&row, BENCH_RATIO, fair, 1.5);
        ok = bench_run(&row, options);
    }
    return call_close(&call) && ok;
}

bool bench_loops(const bench_options *options) {
    bool ok = true;
    for (int32_t i = 0; i < KINDS; i++) ok = loop_row(options, &kinds[i]) && ok;
    return ok;
}
