/* Groups as kernels on simulated GPUs. Each member is also computed by its built-in kernel, on the
 * same device and of the same operands: the bits are the same. Some expressions are compared with
 * C. */
#include "base_seed.h"
#include "dialect_private.h"
#include "graph_groups.h"
#include "op_impl.h"
#include "program_private.h"
#include "scheduler_scratch.h"
#include "sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUTS = 2 * MST_DTYPE_COUNT + 1, MOST = 1024, SAMPLE = 40, SANITIZED_SAMPLE = 8 };

/* ---- a machine ---- */

static char cache[] = "/tmp/muster-groups.XXXXXX";

static muster_runtime *open_gpus(const char *devices) {
    muster_sim_reset(&(muster_sim_options){.devices = 2});
    return graph_runtime(devices);
}

static void close_gpus(muster_runtime *runtime) {
    assert_ok(muster_runtime_close(runtime));
    if (muster_sim_hazard_count()) fail_msg("%s", muster_sim_hazards());
    assert_int_equal(muster_sim_check_leaks(), 0);
}

/* ---- values ---- */

static uint64_t random_state;
static uint64_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 32 ^ random_state << 31;
}

/* Any bits, and in float dtypes mostly numbers of ordinary size. */
static void fill(muster_dtype dtype, void *values, int64_t count) {
    const int64_t size = muster_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = random_bits();
        if (mst_dtype_is_float(dtype) && bits % 4) {
            const double value = ((double)(bits >> 20 & 0xfffff) / 0x80000 - 1) * (bits % 8 == 1 ? 30 : 2);
            mst_convert(dtype, &bits, MUSTER_F64, &value, 1);
        }
        if (!mst_dtype_is_float(dtype) && bits % 3 == 0) bits = bits >> 8 & 7;
        if (dtype == MUSTER_BOOL) bits &= 1;
        memcpy((char *)values + i * size, &bits, (size_t)size);
    }
}

static bool is_nan(muster_dtype dtype, const void *value) {
    double wide;
    mst_convert(MUSTER_F64, &wide, dtype, value, 1);
    return wide != wide;
}

/* The compiler may compute a power with a literal exponent otherwise. */
static bool is_near(const muster_expr *node, const void *a, const void *b) {
    int64_t x = 0, y = 0;
    const size_t size = (size_t)muster_dtype_size(node->type.dtype);
    memcpy(&x, a, size);
    memcpy(&y, b, size);
    return mst_node_is(node, MST_OPERATOR_power) && llabs(x - y) <= 2;
}

/* ---- layouts: how the tensors of a group lie ---- */

typedef struct layout {
    const char *name;
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS];
    /* for the first, the second and any other operand: a bit for each axis that it does not have,
     * or has with the size 1 */
    uint32_t missing[3];
    bool reversed; /* the axes lie in memory in reverse order, each of them from the end */
    bool apart;    /* results have gaps */
} layout;
static const layout layouts[] = {
    {"several blocks", 1, {1000}, {0}, false, false}, {"one element", 1, {1}, {0}, false, false},
    {"no dimension", 0, {0}, {0}, false, false},      {"no element", 2, {0, 3}, {0}, false, false},
    {"three axes", 3, {3, 5, 17}, {0}, false, true},  {"broadcasting", 2, {33, 4}, {2, 1, 3}, false, false},
    {"reversed", 3, {4, 3, 9}, {0, 4}, true, false},  {"eight axes", 8, {2, 1, 3, 2, 1, 2, 2, 2}, {0x0f, 0x21, 0xaa}, true, true},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static muster_tensor scratch(muster_worker *w, muster_dtype dtype, int64_t count) {
    const int64_t bytes = (count ? count : 1) * muster_dtype_size(dtype);
    muster_tensor memory = scratch_tensor(w, MUSTER_U8, 1, &bytes);
    assert_int_not_equal(memory.dtype, MUSTER_DTYPE_NONE);
    memory.dtype = dtype;
    memory.shape[0] = count ? count : 1;
    return memory;
}

/* A tensor of these extents, with `gap` elements between neighbours. */
static muster_tensor lay_out(muster_worker *w, muster_dtype dtype, const layout *l, uint32_t missing, int64_t gap) {
    static _Alignas(16) char values[8 * 4 * MOST];
    muster_tensor t = {.dtype = dtype, .ndim = l->ndim};
    int64_t stride = gap + 1, last = 0;
    for (int32_t k = 0; k < l->ndim; k++) {
        const int32_t d = l->reversed ? k : l->ndim - 1 - k;
        t.shape[d] = missing >> d & 1 ? 1 : l->shape[d];
        t.strides[d] = l->reversed ? -stride : stride;
        if (t.shape[d] > 0) last += (t.shape[d] - 1) * stride;
        stride *= t.shape[d] ? t.shape[d] : 1;
    }
    const muster_tensor memory = scratch(w, dtype, last + 1);
    assert_in_range(last, 0, 4 * MOST - 1);
    fill(dtype, values, last + 1);
    assert_ok(muster_worker_write(w, muster_tensor_make(dtype, values, 1, (const int64_t[]){last + 1}), memory));
    t.data = memory.data;
    t.device = memory.device;
    t.byte_offset = memory.byte_offset + (l->reversed ? last * muster_dtype_size(dtype) : 0);
    return t;
}

/* ---- a run: the groups as kernels, and member by member ---- */

typedef struct run {
    const mst_fused_group *groups;
    int32_t count;
    mst_fused_program *program;
    const layout *layout;
    uint32_t wanted; /* a mask of the results */
    bool in_place;   /* result 0 has the memory of an operand of its dtype */
    int64_t compared, in_place_count, left_out;
} run;

static bool value_needed(const mst_fused_group *group, uint32_t wanted, const muster_expr *value) {
    for (int32_t r = 0; r < group->result_count; r++)
        if (wanted >> r & 1 && group->members[group->results[r]] == value) return true;
    for (int32_t m = 0; m < group->member_count; m++)
        for (int32_t i = 0; i < group->members[m]->input_count; i++)
            if (group->members[m]->inputs[i] == value && value_needed(group, wanted, group->members[m])) return true;
    return false;
}

/* The tensor of a member's operand; a number becomes one. */
static const muster_tensor *reference_operand(muster_worker *w, const mst_fused_group *group, const muster_expr *operand,
                                              const muster_tensor *in, const muster_tensor *values, muster_tensor *made) {
    if (mst_node_is_number(operand)) {
        *made = scratch(w, operand->type.dtype, 1);
        made->ndim = 0;
        assert_ok(muster_fill(w, operand->values[1].number, *made));
        return made;
    }
    const int32_t found = mst_group_find(group, operand);
    return found < MST_GROUP_MEMBERS ? &values[found] : &in[found - MST_GROUP_MEMBERS];
}

/* The view of the whole shape. */
static muster_tensor whole_view(muster_tensor t, const layout *l) {
    muster_tensor view = t;
    view.ndim = l->ndim;
    for (int32_t d = 0; d < l->ndim; d++) {
        const int32_t from = d - (l->ndim - t.ndim);
        view.shape[d] = l->shape[d];
        view.strides[d] = from >= 0 && t.shape[from] == l->shape[d] ? t.strides[from] : 0;
    }
    return view;
}

/* values[m]: member m by its built-in kernel. */
static void reference_run(muster_worker *w, const run *r, const mst_fused_group *group, const muster_tensor *in, muster_tensor *values) {
    for (int32_t m = 0; m < group->member_count; m++) {
        const muster_expr *node = group->members[m];
        muster_tensor numbers[3], *out = &values[m];
        const muster_tensor *operands[3] = {NULL};
        const layout plain = {.ndim = r->layout->ndim};
        layout whole = plain;
        memcpy(whole.shape, r->layout->shape, sizeof whole.shape);
        values[m] = lay_out(w, node->type.dtype, &whole, 0, 0);
        if (!value_needed(group, r->wanted, node)) continue;
        for (int32_t i = 0; i < node->input_count; i++)
            if (!mst_operand_is_number(node, i)) operands[i] = reference_operand(w, group, node->inputs[i], in, values, &numbers[i]);
        for (int32_t i = 0; i < 2 && mst_node_is(node, MST_OPERATOR_relu_gradient); i++) { /* which takes no others */
            numbers[i] = whole_view(*operands[i], r->layout);
            operands[i] = &numbers[i];
        }
        const mst_step_run step = {.node = node, .in = operands, .out = &out};
        assert_ok(node->op->run(w, &step));
    }
}

static void compare(muster_worker *w, run *r, const muster_expr *node, muster_tensor got, muster_tensor expected) {
    static _Alignas(16) char a[8 * MOST], b[8 * MOST];
    const muster_dtype dtype = node->type.dtype;
    const int64_t size = muster_dtype_size(dtype), count = muster_tensor_count(expected);
    assert_in_range(count, 0, MOST);
    muster_tensor flat = scratch(w, dtype, count), plain = expected;
    plain.data = flat.data;
    plain.byte_offset = flat.byte_offset;
    assert_ok(muster_copy(w, got, plain));
    assert_ok(muster_worker_read(w, plain, muster_tensor_make(dtype, a, plain.ndim, plain.shape)));
    assert_ok(muster_worker_read(w, expected, muster_tensor_make(dtype, b, plain.ndim, plain.shape)));
    for (int64_t i = 0; i < count; i++, r->compared++) {
        const void *x = a + i * size, *y = b + i * size;
        if (memcmp(x, y, (size_t)size) == 0 || (is_nan(dtype, x) && is_nan(dtype, y)) || is_near(node, x, y)) continue;
        uint64_t received = 0, wanted = 0;
        memcpy(&received, x, (size_t)size);
        memcpy(&wanted, y, (size_t)size);
        fail_msg("%s of %s, %s, element %lld: expected the bits %llx, received %llx", node->op->name,
                 muster_dtype_name(node->inputs[0]->type.dtype), r->layout->name, (long long)i, (unsigned long long)wanted,
                 (unsigned long long)received);
    }
}

/* An operand of the first result's dtype, layout and strides; -1: there is none. */
static int32_t find_in_place(const mst_fused_group *group, const muster_tensor *in, muster_dtype dtype, const layout *l) {
    for (int32_t i = 0; i < group->operand_count; i++) {
        bool whole = in[i].dtype == dtype && in[i].ndim == l->ndim;
        for (int32_t d = 0; whole && d < l->ndim; d++) whole = in[i].shape[d] == l->shape[d];
        if (whole) return i;
    }
    return -1;
}

static void run_group(muster_worker *w, run *r, int32_t number) {
    const mst_fused_group *group = &r->groups[number];
    const int64_t mark = muster_worker_scratch_mark(w);
    muster_tensor in[MST_GROUP_OPERANDS], out[MST_GROUP_RESULTS], values[MST_GROUP_MEMBERS];
    const muster_tensor *given[MST_GROUP_OPERANDS];
    muster_tensor *results[MST_GROUP_RESULTS], none = {0};
    mst_arena memory = {0};
    mst_fused_launch *launch;
    for (int32_t i = 0; i < group->operand_count; i++) {
        in[i] = lay_out(w, group->operands[i]->type.dtype, r->layout, r->layout->missing[i < 2 ? i : 2], 0);
        const bool needed = value_needed(group, r->wanted, group->operands[i]);
        given[i] = needed ? &in[i] : &none;
        r->left_out += !needed;
    }
    reference_run(w, r, group, in, values);
    for (int32_t k = 0; k < group->result_count; k++) {
        const muster_dtype dtype = group->members[group->results[k]]->type.dtype;
        const int32_t place = r->in_place && k == 0 ? find_in_place(group, in, dtype, r->layout) : -1;
        out[k] = place >= 0 ? in[place] : lay_out(w, dtype, r->layout, 0, r->layout->apart);
        r->in_place_count += place >= 0;
        results[k] = r->wanted >> k & 1 ? &out[k] : &none;
    }
    assert_ok(mst_fused_launch_make(&memory, r->program, w->rank, number, group, given, results, &launch));
    assert_non_null(launch);
    assert_ok(mst_fused_launch_run(w, launch));
    for (int32_t k = 0; k < group->result_count; k++)
        if (r->wanted >> k & 1) compare(w, r, group->members[group->results[k]], out[k], values[group->results[k]]);
    mst_arena_free(&memory);
    assert_ok(muster_worker_scratch_release(w, mark));
}

static muster_status run_groups(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    run *r = user;
    (void)in, (void)out;
    for (int32_t g = 0; g < r->count; g++)
        if (w->rank == 0) run_group(w, r, g);
    return MUSTER_OK;
}

static void run_all(muster_runtime *runtime, run *r) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, "groups", run_groups, r, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(function));
}

/* ---- every operation ---- */

static int32_t sample_size(const row_groups *rows) {
#ifdef MUSTER_TEST_SANITIZED
    const int32_t sample = SANITIZED_SAMPLE;
#else
    const int32_t sample = SAMPLE;
#endif
    return test_is_full() ? rows->count : sample;
}

/* A sample of the groups, by the seed; with --full, all. */
static void choose_groups(row_groups *rows) {
    const int32_t wanted = sample_size(rows);
    for (int32_t g = 0; g < wanted; g++) {
        const int32_t other = g + (int32_t)(random_bits() % (uint64_t)(rows->count - g));
        const mst_fused_group group = rows->groups[g];
        rows->groups[g] = rows->groups[other];
        rows->groups[other] = group;
    }
    rows->count = wanted;
}

static int32_t row_count(void) {
    int32_t rows = 0;
    for (int32_t id = 0; id < MST_OPERATORS; id++) {
        const mst_operator *op = mst_operators[id];
        if (!op->elementwise) continue;
        rows += id == MST_OPERATOR_cast ? (MST_DTYPE_COUNT - 1) * (MST_DTYPE_COUNT - 2) : __builtin_popcount(group_dtypes(op));
    }
    return rows;
}

static void every_operation_has_the_bits_of_its_kernel(void **state) {
    (void)state;
    static row_groups rows;
    muster_runtime *runtime = open_gpus("cuda:1");
    int64_t elements = 0;
    row_groups_make(runtime, &rows);
    assert_int_equal(rows.rows, row_count());
    assert_in_range(rows.rows, 600, 8 * rows.count);
    choose_groups(&rows);
    run r = {.groups = rows.groups, .count = rows.count, .wanted = (1u << MST_GROUP_RESULTS) - 1};
    assert_ok(mst_fused_open(runtime, "rows", rows.groups, rows.count, &r.program));
    assert_int_equal(muster_sim_calls("nvrtcCompileProgram") > 0, true);
    for (int32_t l = 0; l < LAYOUTS; l++) {
        r.layout = &layouts[l];
        run_all(runtime, &r);
    }
    for (int32_t g = 0; g < rows.count; g++)
        for (int32_t l = 0; l < LAYOUTS; l++) {
            int64_t count = rows.groups[g].result_count;
            for (int32_t d = 0; d < layouts[l].ndim; d++) count *= layouts[l].shape[d];
            elements += count;
        }
    assert_int_equal(r.compared, elements);
    mst_fused_close(r.program);
    assert_ok(muster_graph_destroy(rows.graph));
    close_gpus(runtime);
}

/* ---- results that are not wanted, and results in place ---- */

static void results_that_are_not_wanted_need_no_operands(void **state) {
    (void)state;
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph;
    mst_fused_group group = {.operand_count = 0};
    muster_expr *x[3];
    assert_ok(muster_graph_create(runtime, "some", &graph));
    for (int32_t i = 0; i < 3; i++) {
        const char name[] = {(char)('x' + i), 0};
        x[i] = muster_graph_input(graph, name, MUSTER_F32, MUSTER_SHAPE(8), MUSTER_BROADCAST);
    }
    muster_expr *first = APPLY(graph, "exp", x[0]), *second = APPLY(graph, "add", first, x[1]),
                *third = APPLY(graph, "multiply", x[2], x[2]);
    group_add_member(&group, first, true);
    group_add_member(&group, second, true);
    group_add_member(&group, third, true);
    run r = {.groups = &group, .count = 1, .layout = &layouts[0]};
    assert_ok(mst_fused_open(runtime, "some", &group, 1, &r.program));
    for (r.wanted = 1; r.wanted < 8; r.wanted++) run_all(runtime, &r);
    assert_int_equal(r.compared, 12 * 1000);
    /* by masks from 1 to 7, of x, y and z: yz, z, z (x and y are read), xy, y, -, - */
    assert_int_equal(r.left_out, 2 + 1 + 1 + 2 + 1 + 0 + 0);
    mst_fused_close(r.program);
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* Both results read x, and the first of them is written over it. */
static void a_result_may_have_the_memory_of_an_operand(void **state) {
    (void)state;
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph;
    mst_fused_group group = {.operand_count = 0};
    assert_ok(muster_graph_create(runtime, "in place", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(8), MUSTER_BROADCAST);
    muster_expr *first = APPLY(graph, "negative", x), *second = APPLY(graph, "subtract", first, x), *third = APPLY(graph, "square", x);
    group_add_member(&group, first, true);
    group_add_member(&group, second, true);
    group_add_member(&group, third, true);
    run r = {.groups = &group, .count = 1, .wanted = 7, .in_place = true};
    assert_ok(mst_fused_open(runtime, "in place", &group, 1, &r.program));
    for (int32_t l = 0; l < LAYOUTS; l++) {
        if (layouts[l].missing[0]) continue;
        r.layout = &layouts[l];
        run_all(runtime, &r);
    }
    assert_int_equal(r.in_place_count, 6);
    assert_int_equal(r.compared, 3 * (1000 + 1 + 1 + 0 + 255 + 108));
    mst_fused_close(r.program);
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* ---- expressions in C ---- */

enum { N = 300 };
typedef struct formula {
    mst_fused_program *program;
    const mst_fused_group *group;
    const void *in[MST_GROUP_OPERANDS];
    void *out;
} formula;

static muster_status run_formula(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const formula *f = user;
    muster_tensor tensors[MST_GROUP_OPERANDS], result, *results[] = {&result};
    const muster_tensor *operands[MST_GROUP_OPERANDS];
    const int64_t count = N;
    mst_arena memory = {0};
    mst_fused_launch *launch;
    (void)in, (void)out;
    for (int32_t i = 0; i < f->group->operand_count; i++) {
        const muster_dtype dtype = f->group->operands[i]->type.dtype;
        MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &count, &tensors[i]));
        MUSTER_TRY(muster_worker_write(w, muster_tensor_make(dtype, (void *)(uintptr_t)f->in[i], 1, &count), tensors[i]));
        operands[i] = &tensors[i];
    }
    const muster_dtype dtype = f->group->members[f->group->member_count - 1]->type.dtype;
    MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &count, &result));
    MUSTER_TRY(mst_fused_launch_make(&memory, f->program, 0, 0, f->group, operands, results, &launch));
    muster_status status = mst_fused_launch_run(w, launch);
    if (status == MUSTER_OK) status = muster_worker_read(w, result, muster_tensor_make(dtype, f->out, 1, &count));
    mst_arena_free(&memory);
    return status;
}

/* The last member is the result. */
static void compute(muster_runtime *runtime, mst_fused_group *group, formula *f) {
    muster_function *function;
    group->results[0] = group->member_count - 1;
    group->result_count = 1;
    f->group = group;
    assert_ok(mst_fused_open(runtime, "formula", group, 1, &f->program));
    assert_ok(muster_function_create(runtime, "formula", run_formula, f, &function));
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(function));
    mst_fused_close(f->program);
}

static muster_expr *member(mst_fused_group *group, muster_expr *node) {
    group_add_member(group, node, false);
    return node;
}

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static muster_expr *vector(muster_graph *graph, const char *name, muster_dtype dtype) {
    return muster_graph_input(graph, name, dtype, MUSTER_SHAPE(N), MUSTER_BROADCAST);
}

static muster_expr *cast(mst_fused_group *group, muster_graph *graph, muster_expr *x, muster_dtype dtype) {
    return member(group, apply(graph, "cast", &x, 1, ATTRIBUTES({.name = "dtype", .integer = dtype})));
}

/* where(x y + 0.1 < x, x y + 0.1, -0) */
static void an_expression_of_floats_is_that_of_c(void **state) {
    (void)state;
    static float x[N], y[N], got[N];
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph = graph_named(runtime, "floats");
    mst_fused_group group = {.operand_count = 0};
    fill(MUSTER_F32, x, N);
    fill(MUSTER_F32, y, N);
    muster_expr *a = vector(graph, "x", MUSTER_F32), *b = vector(graph, "y", MUSTER_F32);
    muster_expr *sum = member(&group, APPLY(graph, "multiply", a, b));
    sum = member(&group, APPLY(graph, "add", sum, muster_graph_number(graph, 0.1)));
    muster_expr *less = member(&group, APPLY(graph, "less", sum, a));
    member(&group, APPLY(graph, "where", less, sum, muster_graph_number(graph, -0.0)));
    formula f = {.in = {x, y}, .out = got};
    compute(runtime, &group, &f);
    int32_t chosen = 0;
    for (int32_t i = 0; i < N; i++) {
        const float product = x[i] * y[i], s = product + 0.1f, expected = s < x[i] ? s : -0.0f;
        assert_memory_equal(&got[i], &expected, 4);
        chosen += s < x[i];
    }
    assert_in_range(chosen, 30, N - 30);
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* (x + y) * y, each rounded to f16, and only then widened. */
static void halves_are_rounded_after_each_operation(void **state) {
    (void)state;
    static uint16_t x[N], y[N];
    static float got[N];
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph = graph_named(runtime, "halves");
    mst_fused_group group = {.operand_count = 0};
    for (int32_t i = 0; i < N; i++) {
        x[i] = muster_f32_to_f16((float)(i - 150) * 0.37f);
        y[i] = muster_f32_to_f16((float)(i % 7 - 3) * 1.7e-3f);
    }
    muster_expr *a = vector(graph, "x", MUSTER_F16), *b = vector(graph, "y", MUSTER_F16);
    muster_expr *sum = member(&group, APPLY(graph, "add", a, b));
    cast(&group, graph, member(&group, APPLY(graph, "multiply", sum, b)), MUSTER_F32);
    formula f = {.in = {x, y}, .out = got};
    compute(runtime, &group, &f);
    int32_t rounded = 0;
    for (int32_t i = 0; i < N; i++) {
        const float p = muster_f16_to_f32(x[i]), q = muster_f16_to_f32(y[i]), s = muster_f16_to_f32(muster_f32_to_f16(p + q));
        assert_true(got[i] == muster_f16_to_f32(muster_f32_to_f16(s * q)));
        rounded += got[i] != (p + q) * q;
    }
    assert_in_range(rounded, 100, N);
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* floor((x * y) / y) in 64 bits, where the product wraps, and a divisor may be 0 or -1. */
static void integers_wrap_and_divide_as_they_do_in_c(void **state) {
    (void)state;
    static int64_t x[N], y[N], got[N];
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph = graph_named(runtime, "integers");
    mst_fused_group group = {.operand_count = 0};
    fill(MUSTER_I64, x, N);
    for (int32_t i = 0; i < N; i++) y[i] = i % 9 - 4;
    x[0] = INT64_MIN, y[0] = -1;
    muster_expr *a = vector(graph, "x", MUSTER_I64), *b = vector(graph, "y", MUSTER_I64);
    muster_expr *product = member(&group, APPLY(graph, "multiply", a, b));
    muster_expr *quotient = member(&group, APPLY(graph, "floor_divide", product, b));
    member(&group, APPLY(graph, "bitwise_xor", quotient, muster_graph_number(graph, -0x1p63)));
    formula f = {.in = {x, y}, .out = got};
    compute(runtime, &group, &f);
    for (int32_t i = 0; i < N; i++) {
        const int64_t p = (int64_t)((uint64_t)x[i] * (uint64_t)y[i]);
        int64_t expected = y[i] == 0 ? 0 : y[i] == -1 ? (int64_t)(0 - (uint64_t)p) : p / y[i];
        if (y[i] != 0 && y[i] != -1 && p % y[i] != 0 && (p % y[i] < 0) != (y[i] < 0)) expected--;
        assert_true(got[i] == (int64_t)((uint64_t)expected ^ UINT64_C(1) << 63));
    }
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* ---- the largest group ---- */

/* m0 = x0 + x1, mk = m(k - 1) + x(k mod 12): exact in f64. */
static void the_largest_group_is_right(void **state) {
    (void)state;
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph = graph_named(runtime, "largest");
    mst_fused_group group = {.operand_count = 0};
    muster_expr *x[MST_GROUP_OPERANDS];
    static double values[MST_GROUP_OPERANDS][N], got[N];
    for (int32_t k = 0; k < MST_GROUP_OPERANDS; k++) {
        const char name[] = {(char)('a' + k), 0};
        x[k] = vector(graph, name, MUSTER_F64);
        for (int32_t i = 0; i < N; i++) values[k][i] = (double)(random_bits() % 1000) - 500;
    }
    muster_expr *sum = APPLY(graph, "add", x[0], x[1]);
    group_add_member(&group, sum, false);
    for (int32_t k = 1; k < MST_GROUP_MEMBERS; k++) {
        sum = APPLY(graph, "add", sum, x[k % MST_GROUP_OPERANDS]);
        group_add_member(&group, sum, k >= MST_GROUP_MEMBERS - MST_GROUP_RESULTS);
    }
    assert_int_equal(group.operand_count, MST_GROUP_OPERANDS);
    assert_int_equal(group.result_count, MST_GROUP_RESULTS);
    run r = {.groups = &group, .count = 1, .wanted = 0xff};
    assert_ok(mst_fused_open(runtime, "largest", &group, 1, &r.program));
    for (int32_t l = 0; l < LAYOUTS; l++) {
        r.layout = &layouts[l];
        run_all(runtime, &r);
    }
    assert_int_equal(r.compared, 8 * (1000 + 1 + 1 + 0 + 255 + 132 + 108 + 96));
    mst_fused_close(r.program);
    formula f = {.out = got};
    for (int32_t k = 0; k < MST_GROUP_OPERANDS; k++) f.in[k] = values[k];
    compute(runtime, &group, &f);
    for (int32_t i = 0; i < N; i++) {
        double expected = values[0][i] + values[1][i];
        for (int32_t k = 1; k < MST_GROUP_MEMBERS; k++) expected += values[k % MST_GROUP_OPERANDS][i];
        assert_true(got[i] == expected);
    }
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* ---- compiling ---- */

/* relu(a + 2) three times, of other names and shapes, once of f64, and once with another number. */
enum { EQUAL = 5 };
static void make_equal_groups(muster_graph *graph, mst_fused_group groups[EQUAL]) {
    for (int32_t g = 0; g < EQUAL; g++) {
        const char name[] = {(char)('a' + g), 0};
        groups[g] = (mst_fused_group){.operand_count = 0};
        muster_expr *x = muster_graph_input(graph, name, g == 3 ? MUSTER_F64 : MUSTER_F32, MUSTER_SHAPE(3 + g), MUSTER_BROADCAST);
        muster_expr *sum = member(&groups[g], APPLY(graph, "add", x, muster_graph_number(graph, g == 4 ? 3 : 2)));
        group_add_member(&groups[g], APPLY(graph, "relu", sum), true);
    }
}

static void groups_that_differ_in_shapes_share_a_kernel(void **state) {
    (void)state;
    muster_runtime *runtime = open_gpus("cuda:1");
    muster_graph *graph = graph_named(runtime, "equal");
    mst_fused_group groups[EQUAL];
    mst_fused_text printed;
    static const int32_t expected[EQUAL] = {0, 0, 0, 1, 2};
    make_equal_groups(graph, groups);
    assert_ok(mst_fused_print(groups, EQUAL, &printed));
    assert_int_equal(printed.kernel_count, 3);
    assert_memory_equal(printed.kernel_of, expected, sizeof expected);
    assert_non_null(strstr(printed.text.data, "mst_fused_2("));
    assert_null(strstr(printed.text.data, "mst_fused_3"));
    mst_fused_text_free(&printed);
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* Two devices of a kind: one compilation. The next one, in another runtime too, finds the cache. */
static void a_text_is_compiled_once(void **state) {
    (void)state;
    mst_fused_group groups[EQUAL];
    for (int32_t round = 0; round < 2; round++) {
        muster_runtime *runtime = open_gpus("cuda:2");
        muster_graph *graph = graph_named(runtime, "once");
        make_equal_groups(graph, groups);
        mst_fused_program *program, *again;
        const uint64_t before = muster_sim_calls("nvrtcCompileProgram"), loaded = muster_sim_calls("cuModuleLoadData");
        assert_ok(mst_fused_open(runtime, "once", groups, EQUAL, &program));
        assert_int_equal(muster_sim_calls("nvrtcCompileProgram") - before, round == 0);
        assert_ok(mst_fused_open(runtime, "twice", groups, EQUAL, &again));
        assert_int_equal(muster_sim_calls("nvrtcCompileProgram") - before, round == 0);
        assert_int_equal(muster_sim_calls("cuModuleLoadData") - loaded, 4);
        mst_fused_close(program);
        if (round == 0) mst_fused_close(again);
        assert_ok(muster_graph_destroy(graph));
        close_gpus(runtime);
        if (round == 1) mst_fused_close(again); /* its kernels went with the runtime */
    }
}

static void a_machine_of_cpu_cores_compiles_nothing(void **state) {
    (void)state;
    muster_runtime *runtime = open_gpus("host:2");
    muster_graph *graph = graph_named(runtime, "host");
    mst_fused_group groups[EQUAL];
    mst_fused_program *program;
    mst_fused_launch *launch;
    make_equal_groups(graph, groups);
    assert_ok(mst_fused_open(runtime, "host", groups, EQUAL, &program));
    assert_null(program);
    assert_ok(mst_fused_launch_make(NULL, program, 0, 0, &groups[0], NULL, NULL, &launch));
    assert_null(launch);
    mst_fused_close(program);
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

static void a_failure_says_the_device_and_leaves_nothing(void **state) {
    (void)state;
    static const char *const symbols[] = {"nvrtcCompileProgram", "cuModuleLoadData", "cuModuleGetFunction"};
    muster_runtime *runtime = open_gpus("cuda:2");
    muster_graph *graph = graph_named(runtime, "wrong");
    mst_fused_group groups[EQUAL];
    mst_fused_program *program;
    make_equal_groups(graph, groups);
    groups[0].members[1] = APPLY(graph, "tanh", groups[0].members[0]); /* not in the cache */
    const int64_t live = mst_memory_live();
    for (int32_t i = 0; i < 3; i++) {
        muster_sim_inject_for_ever(symbols[i], 1, i == 0 ? 6 : 1);
        const muster_status status = mst_fused_open(runtime, "wrong", groups, EQUAL, &program);
        assert_int_not_equal(status, MUSTER_OK);
        assert_null(program);
        assert_non_null(strstr(muster_last_error(), "muster_graph_compile: graph \"wrong\" on cuda:0"));
        muster_sim_inject_clear();
        assert_int_equal(mst_memory_live(), live);
    }
    assert_ok(mst_fused_open(runtime, "wrong", groups, EQUAL, &program));
    mst_fused_close(program);
    int64_t k = 1;
    for (bool ended = false; !ended; k++) {
        mst_memory_fail_at(k);
        const muster_status status = mst_fused_open(runtime, "wrong", groups, EQUAL, &program);
        mst_memory_fail_at(0);
        ended = status == MUSTER_OK && k > 20;
        if (status == MUSTER_OK)
            mst_fused_close(program);
        else
            assert_refused(status, MUSTER_OUT_OF_MEMORY, "out of memory");
        assert_int_equal(mst_memory_live(), live);
        assert_in_range(k, 1, 300);
    }
    assert_ok(muster_graph_destroy(graph));
    close_gpus(runtime);
}

/* ---- graphs ---- */

enum { COLUMNS = 5, ROWS_MAX = 300 };
typedef struct outputs {
    float y[ROWS_MAX][COLUMNS], z[ROWS_MAX][COLUMNS], mean;
} outputs;

/* y = tanh(x w + 1), z = y y, mean(y z); per worker. */
static muster_function *compile_graph(muster_runtime *runtime, const char *name, int32_t unfused) {
    muster_graph *graph = graph_named(runtime, name);
    muster_graph_options options;
    muster_function *function;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    options.unfused = unfused;
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    muster_expr *w = muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(COLUMNS), MUSTER_BROADCAST);
    muster_expr *y = APPLY(graph, "tanh", APPLY(graph, "add", APPLY(graph, "multiply", x, w), muster_graph_number(graph, 1)));
    muster_expr *z = APPLY(graph, "multiply", y, y);
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "z", z, MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "mean", APPLY(graph, "mean", APPLY(graph, "multiply", y, z)), MUSTER_SUM));
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void call_graph(muster_function *function, int64_t rows, bool only_z, outputs *got) {
    static float x[ROWS_MAX][COLUMNS], w[COLUMNS] = {0.5f, -1, 2, 0.25f, -0.125f};
    for (int64_t i = 0; i < rows * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = (float)(i % 23 - 11) * 0.17f;
    const muster_tensor in[] = {muster_f32(x, rows, COLUMNS), muster_f32(w, COLUMNS)};
    muster_tensor out[] = {muster_f32(got->y, rows, COLUMNS), muster_f32(got->z, rows, COLUMNS), muster_f32(&got->mean)};
    if (only_z) out[0] = out[2] = muster_tensor_none();
    *got = (outputs){.mean = 0};
    assert_ok(muster_function_call(function, in, 2, out, 3, NULL));
}

static void a_graph_runs_its_groups_whatever_the_number_of_rows(void **state) {
    (void)state;
    static const char *const devices[] = {"cuda:1", "cuda:2", "host:1,cuda:1"};
    static const int64_t rows[] = {2, 3, 7, 300, 2};
    static outputs fused, unfused;
    int32_t compared = 0;
    for (int32_t d = 0; d < 3; d++) {
        muster_runtime *runtime = open_gpus(devices[d]);
        muster_function *with = compile_graph(runtime, "with", 0), *without = compile_graph(runtime, "without", 1);
        uint64_t compiled = 0;
        for (int32_t i = 0; i < 10; i++, compared++) {
            const int64_t n = rows[i % 5];
            const uint64_t before = muster_sim_launches("mst_fused_0"), others = muster_sim_launches("mst_unary");
            call_graph(with, n, i >= 5, &fused);
            assert_int_equal(muster_sim_launches("mst_fused_0") - before, d == 1 ? 2 : 1);
            assert_int_equal(muster_sim_launches("mst_unary") - others, 0);
            call_graph(without, n, i >= 5, &unfused);
            assert_int_equal(muster_sim_launches("mst_fused_0") - before, d == 1 ? 2 : 1);
            assert_memory_equal(&fused, &unfused, sizeof fused);
            assert_true(fused.z[n - 1][COLUMNS - 1] > 0);
            assert_true(i >= 5 || fused.z[n - 1][0] == fused.y[n - 1][0] * fused.y[n - 1][0]);
            if (i == 0) compiled = muster_sim_calls("nvrtcCompileProgram") + muster_sim_calls("cuModuleLoadData");
            assert_int_equal(muster_sim_calls("nvrtcCompileProgram") + muster_sim_calls("cuModuleLoadData"), compiled);
        }
        if (d == 0) assert_ok(muster_function_destroy(with)); /* else when the runtime closes */
        close_gpus(runtime);
    }
    assert_int_equal(compared, 30);
}

static char logged[4096];
static void keep_log(void *user, muster_log_level level, const char *line) {
    (void)user;
    if (level >= MUSTER_LOG_WARNING) strncat(logged, line, sizeof logged - strlen(logged) - 1);
}

static void operations_run_by_themselves_where_groups_do_not_compile(void **state) {
    (void)state;
    static outputs fused, unfused;
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_sim_reset(&(muster_sim_options){.devices = 2});
    muster_runtime_options_init(&options);
    options.devices = "cuda:2";
    options.log = keep_log;
    assert_ok(muster_runtime_open(&options, &runtime));
    setenv("MUSTER_CACHE_DIR", "off", 1);
    muster_sim_inject_for_ever("nvrtcCompileProgram", 1, 6);
    muster_function *with = compile_graph(runtime, "with", 0), *without = compile_graph(runtime, "without", 1);
    muster_sim_inject_clear();
    setenv("MUSTER_CACHE_DIR", cache, 1);
    if (!strstr(logged, "muster_graph_compile: graph \"with\" on cuda:0") || !strstr(logged, "; each operation is computed by itself"))
        fail_msg("expected a warning, received: %s", logged);
    assert_null(strstr(logged, "without"));
    call_graph(with, 7, false, &fused);
    assert_int_equal(muster_sim_launches("mst_fused_0"), 0);
    call_graph(without, 7, false, &unfused);
    assert_memory_equal(&fused, &unfused, sizeof fused);
    assert_true(fused.mean != 0);
    close_gpus(runtime);
}

int main(void) {
    random_state = test_seed();
    if (!mkdtemp(cache)) return 1;
    setenv("MUSTER_CACHE_DIR", cache, 1);
    setenv("MUSTER_DEVICE_MEMORY", "16777216", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_the_bits_of_its_kernel),
        cmocka_unit_test(results_that_are_not_wanted_need_no_operands),
        cmocka_unit_test(a_result_may_have_the_memory_of_an_operand),
        cmocka_unit_test(an_expression_of_floats_is_that_of_c),
        cmocka_unit_test(halves_are_rounded_after_each_operation),
        cmocka_unit_test(integers_wrap_and_divide_as_they_do_in_c),
        cmocka_unit_test(the_largest_group_is_right),
        cmocka_unit_test(groups_that_differ_in_shapes_share_a_kernel),
        cmocka_unit_test(a_text_is_compiled_once),
        cmocka_unit_test(a_machine_of_cpu_cores_compiles_nothing),
        cmocka_unit_test(a_failure_says_the_device_and_leaves_nothing),
        cmocka_unit_test(a_graph_runs_its_groups_whatever_the_number_of_rows),
        cmocka_unit_test(operations_run_by_themselves_where_groups_do_not_compile),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command) == 0 ? failed : 1;
}
