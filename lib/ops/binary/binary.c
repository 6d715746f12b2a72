#include "../op_impl.h"

typedef struct binary_parameters {
    muster_tensor a, b, y;
    muster_binary op;
} binary_parameters;

#define MST_LOOPS "binary/binary_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

/* The table of operation x dtype. An empty entry (as for bool) means that the pair is not
 * supported. */
#define ROWS(NAME, name, ...)                                                                                   \
    [MUSTER_##NAME] = {[MUSTER_ADD] = add_##name, [MUSTER_SUB] = sub_##name,         [MUSTER_MUL] = mul_##name, \
                       [MUSTER_DIV] = div_##name, [MUSTER_MAXIMUM] = maximum_##name, [MUSTER_MINIMUM] = minimum_##name},
enum { OPERATIONS = MUSTER_MINIMUM + 1 };
static const mst_iterator_loop loops[MST_DTYPE_COUNT][OPERATIONS] = {MST_EACH_FLOAT(ROWS) MST_EACH_SIGNED(ROWS) MST_EACH_UNSIGNED(ROWS)};

static const char *const names[] = {"", "add", "sub", "mul", "div", "maximum", "minimum", NULL};

static muster_status binary_host(const void *parameters) {
    const binary_parameters *p = parameters;
    mst_iterator iterator;
    mst_iterator_make(&iterator, p->y.ndim, p->y.shape, 3, (const muster_tensor *[]){&p->a, &p->b, &p->y});
    mst_iterator_run(&iterator, loops[p->y.dtype][p->op], NULL);
    return MUSTER_OK;
}

static mst_code_kernel binary_code[] = {{.name = "mst_binary"}};

static muster_status binary_issue(muster_worker *worker, const void *parameters) {
    const binary_parameters *p = parameters;
    return mst_op_elements(worker, binary_code, &(mst_element_parameters){.dtype = p->y.dtype, .op = p->op}, 3,
                           (const muster_tensor *[]){&p->a, &p->b, &p->y});
}

static MST_ALWAYS_INLINE muster_status binary_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                    const char *where) {
    const muster_tensor *a = t[0], *b = t[1], *y = t[2];
    const int32_t op = (int32_t)values[0].integer;
    if (op <= 0 || op >= OPERATIONS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_ADD to MUSTER_MINIMUM, received %d", where, op);
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "b", b->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "a", a->dtype));
    if (!loops[a->dtype][op]) return mst_op_refuse_dtype(where, "a", "a number dtype", a->dtype);
    MUSTER_TRY(mst_op_broadcasts(where, "a", a, "y", y));
    MUSTER_TRY(mst_op_broadcasts(where, "b", b, "y", y));
    return mst_op_check_results(&mst_operation_binary, t, where);
}

static muster_status binary_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_binary_op(worker, (muster_binary)v[0].integer, t[0], t[1], t[2]);
}

static const mst_kernel binary_kernel = {.host = binary_host, .issue = binary_issue};

const mst_op_row mst_operation_binary = {
    MST_OPERATION_ROW(binary, muster_binary_op),
    .operands = {{"a", "~", MST_IN}, {"b", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, names}},
    .dtypes = MST_NUMBER_DTYPES,
    .check = binary_check,
    .run = binary_run,
    .kernel = &binary_kernel,
    MST_CODE(binary_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_binary_op(muster_worker *worker, muster_binary op, muster_tensor a, muster_tensor b, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(binary_check(worker, MST_TENSORS(&a, &b, &y), (const mst_op_value[]){{.integer = op}}, __func__));
    binary_parameters p = {a, b, y, op};
    return mst_op_launch(worker, &binary_kernel, &p, sizeof p);
}
