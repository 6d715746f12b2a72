/* Random numbers, and dropout.
 *
 * An element's number depends on a key and on the element's place among all rows of the call, and
 * so not on the number of devices. The key is mixed from the seed, the number of the operation
 * among the random ones of its graph, the step, and the slice of the call. The first two are known
 * when the node is made, and are its attribute `key`; so is a step that is a plain number. Two
 * nodes are one if they have the same key and operands. */
#include "composite_private.h"

/* ---- keys ---- */

/* The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). */
static uint64_t key_mix(uint64_t key, uint64_t value) {
    uint64_t z = key ^ (value * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* The key of the draft's node. The step, as i64, is added to the operands, unless it is a plain
 * number. */
static bool make_key(mst_draft *draft, int32_t step_operand, int64_t seed, muster_expr *operands[2], int32_t *count, mst_graph_value *key) {
    muster_expr *step = draft->inputs[step_operand];
    uint64_t mixed = key_mix(key_mix(0, (uint64_t)seed), (uint64_t)++draft->graph->random_count);
    if (mst_node_is(step, MST_OPERATOR_number)) {
        const double value = step->values[0].number;
        if (!(value >= -0x1p53 && value <= 0x1p53) || value != (double)(int64_t)value) {
            (void)mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, step_operand, "expected an integer, received %g", value);
            return false;
        }
        mixed = key_mix(mixed, (uint64_t)(int64_t)value);
    } else {
        enum { INTEGERS = MST_NUMBER_DTYPES & ~MST_FLOAT_DTYPES };
        if (mst_draft_dtype(draft, step_operand, INTEGERS) != MUSTER_OK || mst_draft_ndim(draft, step_operand, 0) != MUSTER_OK)
            return false;
        operands[(*count)++] = mst_apply(draft->graph, MST_OPERATOR_cast, &step, 1, (mst_graph_value[]){{.integer = MUSTER_I64}});
    }
    *key = (mst_graph_value){.integer = (int64_t)mixed};
    return true;
}

/* Elements are numbered row by row, which needs rows in the first axis only. */
static muster_status refuse_rows(mst_draft *draft, const mst_type *type) {
    char text[MST_NODE_TEXT];
    for (int32_t d = 0; d < type->ndim; d++) {
        if (type->dims[d] == MST_DIM_NONE) continue; /* refused elsewhere */
        const int32_t power = draft->graph->dims[type->dims[d]].powers[MST_SIZE_ROWS];
        if (power > (d == 0 ? 1 : 0))
            return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1,
                                    "expected rows in the first axis only, so that elements can be numbered, received %s",
                                    mst_type_text(draft->graph, type, text));
    }
    return MUSTER_OK;
}

/* ---- running ---- */

typedef struct stream {
    uint64_t seed, first;
} stream;

/* The number of the first element of the worker's part among those of the whole value. */
static uint64_t first_of_part(const mst_step_run *run) {
    const mst_sharing *sharing = run->sharing;
    const int64_t first = sharing->row_edges[sharing->rank], rows = sharing->row_edges[sharing->rank + 1] - first;
    return run->node->distribution.kind == MST_CUT && rows ? (uint64_t)first * (uint64_t)(muster_tensor_count(*run->out[0]) / rows) : 0;
}

/* A value with rows begins at the number of this worker's first row times the elements of a row. A
 * call that scatters nothing knows no such number: each worker draws numbers of its own. */
static muster_status stream_of(muster_worker *worker, const mst_step_run *run, int32_t key, int32_t step_operand, stream *s) {
    const muster_expr *node = run->node;
    const mst_type *type = &node->type;
    *s = (stream){.seed = (uint64_t)node->values[key].integer};
    if (node->input_count > step_operand) {
        int64_t step;
        MUSTER_TRY(muster_worker_read(worker, *run->in[step_operand], muster_i64(&step)));
        s->seed = key_mix(s->seed, (uint64_t)step);
    }
    s->seed = key_mix(s->seed, (uint64_t)muster_worker_slice(worker));
    if (type->ndim == 0 || !node->graph->dims[type->dims[0]].powers[MST_SIZE_ROWS]) return MUSTER_OK;
    const int64_t rows = run->sizes[MST_SIZE_ROWS];
    if (run->sharing) {
        s->first = first_of_part(run);
    } else if (rows != muster_worker_rows(worker))
        s->seed = key_mix(s->seed, (uint64_t)muster_worker_rank(worker));
    else if (rows > 0)
        s->first = (uint64_t)muster_worker_first_row(worker) * (uint64_t)(muster_tensor_count(*run->out[0]) / rows);
    return MUSTER_OK;
}

/* ---- numbers ---- */

enum { SHAPE, KEY, DTYPE };

static muster_status infer_numbers(mst_draft *draft) {
    draft->types[0].dtype = (muster_dtype)draft->values[DTYPE].integer;
    mst_type_of_shape(&draft->types[0], &draft->types[0], &draft->values[SHAPE]);
    return MUSTER_OK;
}

static muster_status run_uniform(muster_worker *worker, const mst_step_run *run) {
    stream s;
    MUSTER_TRY(stream_of(worker, run, KEY, 0, &s));
    return muster_random_uniform(worker, s.seed, s.first, *run->out[0]);
}

static muster_status run_normal(muster_worker *worker, const mst_step_run *run) {
    stream s;
    MUSTER_TRY(stream_of(worker, run, KEY, 0, &s));
    return muster_random_normal(worker, s.seed, s.first, 0, 1, *run->out[0]);
}

/* Elements are numbered by rows. */
static bool distribute_numbers(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind != MST_CUT || result.axis || !mst_axis_has_rows(node->graph, &node->type, 0)) return false;
    return mst_distribute_leaf(node, result, way, operands);
}

static const char is_constant[] = "it depends on nothing";
#define NUMBERS(op_name, text)                                                                             \
    const mst_operator mst_operator_##op_name##_of_key = {                                                 \
        MST_ANY_OPERATOR(op_name##_of_key, text),                                                          \
        .operands = {"step"},                                                                              \
        .attributes = {{"shape", MST_VALUE_DIMS}, {"key", MST_VALUE_INTEGER}, {"dtype", MST_VALUE_DTYPE}}, \
        .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_CHEAP,                                                 \
        .infer = infer_numbers,                                                                            \
        .distribute = distribute_numbers,                                                                  \
        .run = run_##op_name,                                                                              \
        .no_gradient = is_constant}
NUMBERS(uniform, "numbers in [0, 1) for a key");
NUMBERS(normal, "normally distributed numbers for a key");

/* random_uniform and random_normal, whose attributes are shape, seed, dtype. */
static muster_expr *numbers_of(mst_draft *draft, int32_t operation, int64_t seed, muster_dtype dtype) {
    mst_graph_value values[] = {draft->values[SHAPE], MST_NO_VALUE, {.integer = dtype}};
    muster_expr *operands[2];
    int32_t count = 0;
    mst_type type;
    if (!(MST_DTYPE_BIT(dtype) & MST_BLAS_DTYPES)) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "dtype: expected f32 or f64, received %s", muster_dtype_name(dtype));
        return draft->graph->error;
    }
    mst_type_of_shape(&type, &(mst_type){.dtype = dtype}, &values[SHAPE]);
    for (int32_t d = 0; d < type.ndim; d++)
        if (type.dims[d] == MST_DIM_NONE) {
            (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: entry %d: expected a size, received MUSTER_INFER", (int)d);
            return draft->graph->error;
        }
    if (refuse_rows(draft, &type) != MUSTER_OK || !make_key(draft, 0, seed, operands, &count, &values[KEY])) return draft->graph->error;
    return mst_apply(draft->graph, operation, operands, count, values);
}

static muster_expr *expand_random_uniform(mst_draft *draft) {
    return numbers_of(draft, MST_OPERATOR_uniform_of_key, draft->values[1].integer, (muster_dtype)draft->values[2].integer);
}
static muster_expr *expand_random_normal(mst_draft *draft) {
    return numbers_of(draft, MST_OPERATOR_normal_of_key, draft->values[1].integer, (muster_dtype)draft->values[2].integer);
}

#define RANDOM(op_name, text)                                                                                  \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),                              \
                                                 .operands = {"step"},                                         \
                                                 .attributes = {{"shape", MST_VALUE_DIMS, .required = true},   \
                                                                {"seed", MST_VALUE_INTEGER, .required = true}, \
                                                                {"dtype", MST_VALUE_DTYPE, .required = true}}, \
                                                 .expand = expand_##op_name,                                   \
                                                 .infer = mst_draft_composite,                                 \
                                                 .no_gradient = is_constant}
RANDOM(random_uniform, "numbers of equal probability in [0, 1), f32 or f64, other ones for each seed and step");
RANDOM(random_normal, "normally distributed numbers with average 0 and variance 1, f32 or f64");

/* ---- probabilities ---- */

static bool is_probability(mst_draft *draft, double p) {
    if (p >= 0 && p <= 1) return true;
    (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "p: expected a number from 0 to 1, received %g", p);
    return false;
}

static muster_expr *expand_bernoulli(mst_draft *draft) {
    const double p = draft->values[1].number;
    if (!is_probability(draft, p)) return draft->graph->error;
    muster_expr *numbers = numbers_of(draft, MST_OPERATOR_uniform_of_key, draft->values[2].integer, MUSTER_F32);
    muster_expr *below = MST_APPLY(draft->graph, less, numbers, mst_number(draft->graph, MUSTER_F32, p));
    return mst_apply(draft->graph, MST_OPERATOR_cast, &below, 1, (mst_graph_value[]){draft->values[3]});
}

const mst_operator mst_operator_bernoulli = {MST_ANY_OPERATOR(bernoulli, "1 with the probability p, else 0"),
                                             .operands = {"step"},
                                             .attributes = {{"shape", MST_VALUE_DIMS, .required = true},
                                                            {"p", MST_VALUE_NUMBER, .required = true},
                                                            {"seed", MST_VALUE_INTEGER, .required = true},
                                                            {"dtype", MST_VALUE_DTYPE, .required = true}},
                                             .expand = expand_bernoulli,
                                             .infer = mst_draft_composite,
                                             .no_gradient = is_constant};

/* ---- dropout ---- */

enum { P, DROPOUT_KEY };

/* The numbers that decide are drawn by each run anew, into scratch memory that it gives back. */
static muster_status run_dropout(muster_worker *worker, const mst_step_run *run) {
    const double p = run->node->values[P].number;
    const muster_tensor x = *run->in[0], y = *run->out[0];
    const int64_t mark = muster_worker_scratch_mark(worker);
    stream s;
    MUSTER_TRY(stream_of(worker, run, DROPOUT_KEY, 1, &s));
    muster_tensor numbers;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, y.ndim, y.shape, &numbers));
    muster_tensor dropped;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_BOOL, y.ndim, y.shape, &dropped));
    muster_tensor limit, zero;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 0, NULL, &limit));
    MUSTER_TRY(muster_worker_scratch(worker, y.dtype, 0, NULL, &zero));
    MUSTER_TRY(muster_random_uniform(worker, s.seed, s.first, numbers));
    MUSTER_TRY(muster_fill(worker, p, limit));
    MUSTER_TRY(muster_fill(worker, 0, zero));
    MUSTER_TRY(muster_compare(worker, MUSTER_LESS, numbers, limit, dropped));
    MUSTER_TRY(muster_binary_scalar(worker, MUSTER_MUL, x, p < 1 ? 1 / (1 - p) : 0, y));
    MUSTER_TRY(muster_where(worker, dropped, zero, y, y));
    return muster_worker_scratch_release(worker, mark);
}

/* The same numbers decide for the gradient. */
static void gradient_dropout(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *const operands[2] = {dy, node->input_count > 1 ? node->inputs[1] : NULL};
    mst_gradient_add(gradients, node, 0, mst_apply(node->graph, node->op->id, operands, node->input_count, node->values));
}

static bool distribute_dropout(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) return way == 0 && mst_distribute_scaled(node, result, 0, operands);
    if (!distribute_numbers(node, result, way, operands)) return false;
    operands[0] = result;
    return true;
}

const mst_operator mst_operator_dropout_of_key = {MST_ANY_OPERATOR(dropout_of_key, "dropout for a key"),
                                                  .operands = {"x", "step"},
                                                  .attributes = {{"p", MST_VALUE_NUMBER}, {"key", MST_VALUE_INTEGER}},
                                                  .dtypes = MST_FLOAT_DTYPES,
                                                  .flags = MST_OPERATOR_HIDDEN | MST_OPERATOR_CHEAP,
                                                  .in_place = 1,
                                                  .infer = mst_draft_same,
                                                  .distribute = distribute_dropout,
                                                  .run = run_dropout,
                                                  .gradient = gradient_dropout};

static muster_expr *expand_dropout(mst_draft *draft) {
    mst_graph_value values[] = {draft->values[0], MST_NO_VALUE};
    muster_expr *operands[2] = {X, NULL};
    int32_t count = 1;
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK || !is_probability(draft, draft->values[0].number) ||
        refuse_rows(draft, &X->type) != MUSTER_OK || !make_key(draft, 1, draft->values[1].integer, operands, &count, &values[DROPOUT_KEY]))
        return draft->graph->error;
    return mst_apply(draft->graph, MST_OPERATOR_dropout_of_key, operands, count, values);
}

const mst_operator mst_operator_dropout = {
    MST_ANY_OPERATOR(dropout, "0 with the probability p, else x / (1 - p); other elements for each seed and step"),
    .operands = {"x", "step"},
    .attributes = {{"p", MST_VALUE_NUMBER, .required = true}, {"seed", MST_VALUE_INTEGER, .required = true}},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_dropout,
    .infer = mst_draft_composite};
