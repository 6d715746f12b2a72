/* Random groups, seeded: the tiles of a group give the bits that its operations give one element at
 * a time. The reference finds the address of each element from its index, and calls the loops for
 * one element; it knows nothing of tiles, registers and joined axes. */
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_groups.h"
#include "tile_private.h"

#include <math.h>
#include <string.h>

enum { GROUPS = 1500, FULL_GROUPS = 60000, MOST_ELEMENTS = 6000 };

/* ---- random choices ---- */

static uint64_t state_of_choices;
static uint32_t choose(uint32_t below) {
    state_of_choices = state_of_choices * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state_of_choices >> 33) % below);
}

/* ---- a case ---- */

typedef struct operand {
    muster_tensor tensor; /* its data lies in `memory` */
    char *memory;
    int64_t bytes;
} operand;

typedef struct test_case {
    muster_graph *graph;
    mst_fused_group group;
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS];
    operand in[MST_GROUP_OPERANDS], out[MST_GROUP_RESULTS];
    char *expected[MST_GROUP_RESULTS]; /* the memory of a result as it should become */
    int32_t shares[MST_GROUP_RESULTS]; /* the operand whose memory the result has, or -1 */
} test_case;

static int64_t elements(const test_case *c) {
    int64_t count = 1;
    for (int32_t d = 0; d < c->ndim; d++) count *= c->shape[d];
    return count;
}

/* Some groups are long rows near the size of a tile, others have up to five short axes. */
static void shape_make(test_case *c) {
    static const int64_t edges[] = {511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097};
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 10, 16, 33, 100, 255, 256, 257, 300};
    do {
        c->ndim = choose(4) ? 1 + (int32_t)choose(5) : (int32_t)choose(2);
        for (int32_t d = 0; d < c->ndim; d++) c->shape[d] = sizes[choose(sizeof sizes / sizeof *sizes)];
        if (c->ndim && choose(3) == 0) c->shape[choose((uint32_t)c->ndim)] = edges[choose(sizeof edges / sizeof *edges)];
    } while (elements(c) > MOST_ELEMENTS);
    if (c->ndim && choose(60) == 0) c->shape[choose((uint32_t)c->ndim)] = 0;
}

/* Memory for a tensor of this shape: contiguous, or with permuted axes, gaps, and reversed axes. */
static void layout_make(operand *o, muster_dtype dtype, int32_t ndim, const int64_t *shape, bool plain) {
    const int64_t size = muster_dtype_size(dtype);
    int32_t order[MUSTER_MAX_DIMS];
    int64_t step = plain ? 1 : 1 + (choose(4) == 0), first = 0;
    for (int32_t d = 0; d < ndim; d++) order[d] = d;
    for (int32_t d = 0; d < ndim && !plain && choose(2); d++) {
        const int32_t other = (int32_t)choose((uint32_t)ndim), held = order[d];
        order[d] = order[other];
        order[other] = held;
    }
    o->tensor = muster_tensor_make(dtype, &o->tensor, ndim, shape);
    for (int32_t k = ndim - 1; k >= 0; k--) {
        const int32_t d = order[k];
        o->tensor.strides[d] = step;
        step *= shape[d] ? shape[d] : 1;
        if (!plain && choose(6) == 0) step += 1 + choose(3);
        if (!plain && choose(6) == 0 && shape[d]) {
            first += (shape[d] - 1) * o->tensor.strides[d];
            o->tensor.strides[d] = -o->tensor.strides[d];
        }
    }
    o->bytes = (step + 1) * size;
    o->memory = malloc((size_t)o->bytes);
    assert_non_null(o->memory);
    memset(o->memory, 0x5a, (size_t)o->bytes);
    o->tensor.data = o->memory + first * size;
}

static char *element_of(const muster_tensor *t, const int64_t *index, int32_t ndim) {
    int64_t offset = 0;
    for (int32_t d = 0; d < t->ndim; d++) offset += t->shape[d] == 1 ? 0 : index[ndim - t->ndim + d] * t->strides[d];
    return (char *)t->data + offset * muster_dtype_size(t->dtype);
}

static bool index_next(int64_t *index, int32_t ndim, const int64_t *shape) {
    int32_t d = ndim - 1;
    while (d >= 0 && ++index[d] == shape[d]) index[d--] = 0;
    return d >= 0;
}

/* Numbers between -4 and 4, and some that are special. */
static void fill(operand *o) {
    static const double special[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e30, 1e-30, 100};
    const muster_tensor *t = &o->tensor;
    int64_t index[MUSTER_MAX_DIMS] = {0};
    if (muster_tensor_count(*t) == 0) return;
    do {
        const double value = choose(50) == 0 ? special[choose(10)] : (double)choose(8001) / 1000 - 4;
        mst_convert(t->dtype, element_of(t, index, t->ndim), MUSTER_F64, &value, 1);
    } while (index_next(index, t->ndim, t->shape));
}

/* An operand: of the whole shape, or with axes of size 1, or with fewer axes. */
static muster_expr *operand_add(test_case *c, muster_dtype dtype) {
    mst_fused_group *group = &c->group;
    char name[8];
    int64_t shape[MUSTER_MAX_DIMS];
    int32_t ndim = choose(3) == 0 ? (int32_t)choose((uint32_t)c->ndim + 1) : c->ndim;
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = c->shape[c->ndim - ndim + d];
        if (choose(5) == 0) shape[d] = 1;
    }
    if (choose(2)) { /* as most operands are */
        ndim = c->ndim;
        memcpy(shape, c->shape, sizeof shape);
    }
    snprintf(name, sizeof name, "x%d", (int)group->operand_count);
    operand *o = &c->in[group->operand_count];
    layout_make(o, dtype, ndim, shape, choose(2));
    fill(o);
    muster_expr *node = muster_graph_input(c->graph, name, dtype, ndim, shape, MUSTER_BROADCAST);
    assert_ok(muster_graph_status(c->graph));
    return group->operands[group->operand_count++] = node;
}

/* A value of the dtype: a member, an operand, a new operand, or a member that is converted. */
static muster_expr *value_of(test_case *c, muster_dtype dtype);

static muster_expr *member_add(test_case *c, muster_expr *node) {
    assert_ok(muster_graph_status(c->graph));
    if (mst_group_find(&c->group, node) < 0) {
        assert_non_null(node->op->elementwise);
        c->group.members[c->group.member_count++] = node;
    }
    return node;
}

static muster_expr *value_of(test_case *c, muster_dtype dtype) {
    const mst_fused_group *group = &c->group;
    muster_expr *all[MST_GROUP_MEMBERS + MST_GROUP_OPERANDS];
    int32_t count = 0;
    for (int32_t i = 0; i < group->member_count; i++)
        if (group->members[i]->type.dtype == dtype) all[count++] = group->members[i];
    for (int32_t i = 0; i < group->operand_count; i++)
        if (group->operands[i]->type.dtype == dtype) all[count++] = group->operands[i];
    if (group->operand_count < MST_GROUP_OPERANDS && (count == 0 || choose(4) == 0)) return operand_add(c, dtype);
    if (count) return all[choose((uint32_t)count)];
    muster_expr *other = group->members[choose((uint32_t)group->member_count)];
    return member_add(c, apply(c->graph, "cast", &other, 1, ATTRIBUTES({.name = "dtype", .integer = dtype})));
}

static bool takes(const mst_operator *op, muster_dtype dtype) { return (group_dtypes(op) >> dtype & 1) != 0; }

/* The elementwise operators of the table. */
static const mst_operator *operators[MST_OPERATORS];
static int32_t operator_count, uses[MST_OPERATORS][MST_DTYPE_COUNT];

static void member_make(test_case *c) {
    const mst_operator *op;
    muster_dtype dtype;
    muster_expr *inputs[3];
    do {
        op = operators[choose((uint32_t)operator_count)];
        dtype = (muster_dtype)(1 + choose(MST_DTYPE_COUNT - 1));
    } while (!takes(op, dtype));
    const int32_t count = mst_operator_operand_count(op, &(bool){false});
    for (int32_t k = 0; k < count; k++) inputs[k] = value_of(c, op->id == MST_OPERATOR_where && k == 0 ? MUSTER_BOOL : dtype);
    const bool has_dtype = op->id != MST_OPERATOR_relu_gradient && dtype != MUSTER_BOOL && count > 1; /* of another operand */
    if (has_dtype && choose(3) == 0) inputs[count - 1 - (int32_t)choose(2)] = muster_graph_number(c->graph, 1 + choose(3));
    if (op->id == MST_OPERATOR_relu_gradient && !mst_same_dims(&inputs[0]->type, &inputs[1]->type)) inputs[1] = inputs[0];
    const muster_attribute clip[] = {{.name = "low", .number = -1}, {.name = "high", .number = 2}, {.name = NULL}};
    const muster_attribute clip_unsigned[] = {{.name = "low", .number = 1}, {.name = "high", .number = 2}, {.name = NULL}};
    const bool is_unsigned = dtype == MUSTER_U8 || dtype == MUSTER_U32 || dtype == MUSTER_U64;
    const muster_attribute cast[] = {{.name = "dtype", .integer = 1 + choose(MST_DTYPE_COUNT - 1)}, {.name = NULL}};
    const muster_attribute *attributes = op->id == MST_OPERATOR_clip   ? (is_unsigned ? clip_unsigned : clip)
                                         : op->id == MST_OPERATOR_cast ? cast
                                                                       : NULL;
    if (op->id == MST_OPERATOR_cast && cast[0].integer == dtype) return;
    const muster_expr *made = member_add(c, apply(c->graph, op->name, inputs, count, attributes));
    uses[op->id][made->inputs[made->input_count - 1]->type.dtype]++;
}

/* Results: any layout, not wanted, or the memory of an operand. */
static void results_make(test_case *c) {
    mst_fused_group *group = &c->group;
    bool taken[MST_GROUP_OPERANDS] = {false};
    for (int32_t i = 0; i < group->member_count && group->result_count < MST_GROUP_RESULTS; i++) {
        if (i != group->member_count - 1 && choose(4)) continue;
        const int32_t r = group->result_count++;
        group->results[r] = i;
        c->shares[r] = -1;
        const muster_dtype dtype = group->members[i]->type.dtype;
        for (int32_t o = 0; o < group->operand_count && choose(4); o++) {
            const muster_tensor *t = &c->in[o].tensor;
            bool whole = t->ndim == c->ndim && t->dtype == dtype && !taken[o];
            for (int32_t d = 0; d < c->ndim && whole; d++) whole = t->shape[d] == c->shape[d];
            if (!whole) continue;
            taken[o] = true;
            c->shares[r] = o;
            break;
        }
        if (c->shares[r] >= 0)
            c->out[r] = c->in[c->shares[r]];
        else
            layout_make(&c->out[r], dtype, c->ndim, c->shape, choose(3));
        c->expected[r] = malloc((size_t)c->out[r].bytes);
        assert_non_null(c->expected[r]);
        memcpy(c->expected[r], c->out[r].memory, (size_t)c->out[r].bytes);
        if (choose(8) == 0) c->out[r].tensor = muster_tensor_none();
    }
}

/* ---- the reference ---- */

/* The elements of the members at one index, each computed from those before it. */
static void reference_at(const test_case *c, mst_op_loop loops[], const int64_t *index) {
    uint64_t members[MST_GROUP_MEMBERS] = {0}, numbers[3];
    const int64_t none[MST_OPERANDS] = {0};
    for (int32_t i = 0; i < c->group.member_count; i++) {
        const muster_expr *node = c->group.members[i];
        char *at[MST_OPERANDS];
        for (int32_t k = 0; k < node->input_count; k++) {
            const int32_t found = mst_group_find(&c->group, node->inputs[k]);
            if (mst_node_is_number(node->inputs[k])) {
                mst_convert(node->inputs[k]->type.dtype, &numbers[k], MUSTER_F64, &node->inputs[k]->values[1].number, 1);
                at[k] = (char *)&numbers[k];
            } else
                at[k] = found < MST_GROUP_MEMBERS ? (char *)&members[found]
                                                  : element_of(&c->in[found - MST_GROUP_MEMBERS].tensor, index, c->ndim);
        }
        at[node->input_count] = (char *)&members[i];
        loops[i].run(loops[i].context, at, none, 1);
    }
    for (int32_t r = 0; r < c->group.result_count; r++) {
        const muster_tensor *t = &c->out[r].tensor;
        if (t->dtype == MUSTER_DTYPE_NONE) continue;
        memcpy(c->expected[r] + (element_of(t, index, c->ndim) - c->out[r].memory), &members[c->group.results[r]],
               (size_t)muster_dtype_size(t->dtype));
    }
}

static void reference(const test_case *c) {
    mst_op_loop loops[MST_GROUP_MEMBERS];
    int64_t index[MUSTER_MAX_DIMS] = {0};
    for (int32_t i = 0; i < c->group.member_count; i++) {
        const muster_expr *node = c->group.members[i];
        muster_dtype dtypes[MST_OPERANDS];
        mst_op_value attributes[MST_ATTRIBUTES] = {{.integer = node->op->operation}};
        for (int32_t k = 0; k < node->input_count; k++) dtypes[k] = node->inputs[k]->type.dtype;
        dtypes[node->input_count] = node->type.dtype;
        if (mst_node_is(node, MST_OPERATOR_clip))
            for (int32_t a = 0; a < 2; a++) attributes[a].number = node->values[a].number;
        assert_ok(node->op->elementwise->loop(dtypes, attributes, &loops[i]));
    }
    if (elements(c) == 0) return;
    do {
        reference_at(c, loops, index);
    } while (index_next(index, c->ndim, c->shape));
}

/* ---- comparing ---- */

static bool is_nan(muster_dtype dtype, const char *element) {
    double value;
    mst_convert(MUSTER_F64, &value, dtype, element, 1);
    return isnan(value);
}

/* All bytes, also those between the elements; a NaN may have any bits. */
static void compare(const test_case *c, int32_t r, uint64_t seed) {
    const operand *o = &c->out[r];
    const muster_tensor *t = &o->tensor;
    int64_t index[MUSTER_MAX_DIMS] = {0};
    const int64_t size = muster_dtype_size(t->dtype);
    if (memcmp(o->memory, c->expected[r], (size_t)o->bytes) == 0) return;
    if (elements(c)) do {
            char *received = element_of(t, index, c->ndim), *expected = c->expected[r] + (received - o->memory);
            if (is_nan(t->dtype, received) && is_nan(t->dtype, expected)) memcpy(received, expected, (size_t)size);
            double a, b;
            mst_convert(MUSTER_F64, &a, t->dtype, expected, 1);
            mst_convert(MUSTER_F64, &b, t->dtype, received, 1);
            if (memcmp(received, expected, (size_t)size) != 0)
                fail_msg("seed %llu: result %d (member %d, %s of %s, %d members): expected %.17g, received %.17g, at (%lld, %lld, ...) of "
                         "%d axes",
                         (unsigned long long)seed, (int)r, (int)c->group.results[r], c->group.members[c->group.results[r]]->op->name,
                         muster_dtype_name(t->dtype), (int)c->group.member_count, a, b, (long long)index[0], (long long)index[1],
                         (int)c->ndim);
        } while (index_next(index, c->ndim, c->shape));
    if (memcmp(o->memory, c->expected[r], (size_t)o->bytes) != 0)
        fail_msg("seed %llu: result %d: bytes beside its elements have changed", (unsigned long long)seed, (int)r);
}

static void case_free(test_case *c) {
    for (int32_t r = 0; r < c->group.result_count; r++) {
        if (c->shares[r] < 0) free(c->out[r].memory);
        free(c->expected[r]);
    }
    for (int32_t i = 0; i < c->group.operand_count; i++) free(c->in[i].memory);
    assert_ok(muster_graph_destroy(c->graph));
}

/* What the cases were, so that the test notices when it stops testing something. */
typedef struct counts {
    int32_t members, in_place, hazards, unwanted, shared, short_rows;
} counts;

static void run(muster_runtime *runtime, uint64_t seed, counts *seen) {
    test_case c = {.ndim = 0};
    const muster_tensor *in[MST_GROUP_OPERANDS];
    muster_tensor *out[MST_GROUP_RESULTS];
    mst_arena memory = {0};
    mst_tile_program *program;
    state_of_choices = seed * 0x9e3779b97f4a7c15ull + 1;
    assert_ok(muster_graph_create(runtime, "group", &c.graph));
    shape_make(&c);
    operand_add(&c, MUSTER_F32);
    for (int32_t wanted = 1 + (int32_t)choose(20); c.group.member_count < wanted;) member_make(&c);
    results_make(&c);
    reference(&c);
    for (int32_t i = 0; i < c.group.operand_count; i++) in[i] = &c.in[i].tensor;
    for (int32_t r = 0; r < c.group.result_count; r++) out[r] = &c.out[r].tensor;
    assert_ok(mst_tile_make(&memory, &c.group, in, out, &program));
    mst_tile_run(program);
    seen->members += c.group.member_count;
    seen->hazards += program->hazard_count;
    seen->shared += program->shared_count > 0;
    seen->short_rows += program->axis < program->axis_count - 1;
    for (int32_t r = 0; r < c.group.result_count; r++) {
        seen->in_place += c.shares[r] >= 0;
        seen->unwanted += out[r]->dtype == MUSTER_DTYPE_NONE;
        if (out[r]->dtype != MUSTER_DTYPE_NONE) compare(&c, r, seed);
    }
    mst_arena_free(&memory);
    case_free(&c);
}

static void test_groups(void **state) {
    muster_runtime *runtime = graph_runtime("host:1");
    counts seen = {0};
    int32_t pairs = 0, pairs_used = 0;
    (void)state;
    for (int32_t id = 0; id < MST_OPERATORS; id++)
        if (mst_operators[id]->elementwise) operators[operator_count++] = mst_operators[id];
    const int32_t groups = test_is_full() ? FULL_GROUPS : GROUPS;
    for (int32_t i = 0; i < groups; i++) run(runtime, test_seed() * 1000000 + (uint64_t)i, &seen);
    for (int32_t i = 0; i < operator_count; i++)
        for (int32_t dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
            pairs += takes(operators[i], (muster_dtype)dtype);
            pairs_used += uses[operators[i]->id][dtype] > 0;
        }
    print_message(
        "%d groups, %d members, %d of %d operators and dtypes; %d results in place, %d hazards, %d unwanted, %d groups with shared "
        "values, %d with short rows\n",
        (int)groups, (int)seen.members, (int)pairs_used, (int)pairs, (int)seen.in_place, (int)seen.hazards, (int)seen.unwanted,
        (int)seen.shared, (int)seen.short_rows);
    assert_int_equal(pairs_used, pairs);
    assert_true(seen.in_place > groups / 20 && seen.hazards > groups / 20 && seen.unwanted > groups / 20);
    assert_true(seen.shared > groups / 5 && seen.short_rows > groups / 20);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
