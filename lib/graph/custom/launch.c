/* Launching the kernel of an operator, with the arguments that its description names. */
#include "custom_private.h"

#include <string.h>

static const char where[] = "muster_operator_create";
enum { ARGUMENTS = 32 };

/* ---- reading ---- */

static muster_status launch_refuse(const char *begin, int32_t length, const char *expected) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: launch: expected %s, received \"%.*s\"", where, expected,
                     (int)(length < 60 ? length : 60), begin);
}

static bool same_text(const char *begin, int32_t length, const char *name) {
    return strlen(name) == (size_t)length && memcmp(begin, name, (size_t)length) == 0;
}

/* The operand or result: results are -1, -2, -3. */
static bool find_tensor(const mst_custom *custom, const char *begin, int32_t length, int32_t *index) {
    static const char *const results[] = {"result", "result1", "result2"};
    bool more;
    const int32_t operands = mst_operator_operand_count(&custom->row, &more);
    for (*index = 0; *index < operands; ++*index)
        if (same_text(begin, length, custom->row.operands[*index])) return true;
    for (int32_t r = 0; r < (custom->options.results > 1 ? custom->options.results : 1); r++) {
        *index = -1 - r;
        if (same_text(begin, length, results[r])) return true;
    }
    return false;
}

static bool find_attribute(const mst_custom *custom, const char *begin, int32_t length, int32_t *index) {
    for (*index = 0; custom->row.attributes[*index].name; ++*index)
        if (same_text(begin, length, custom->row.attributes[*index].name)) return true;
    return false;
}

/* What follows the point: elements, shape[d], strides[d]. */
static bool read_member(const char *begin, int32_t length, mst_custom_argument *argument) {
    static const struct {
        const char *begins;
        mst_custom_value value;
    } members[] = {{"shape[", MST_CUSTOM_SHAPE}, {"strides[", MST_CUSTOM_STRIDE}};
    argument->value = MST_CUSTOM_ELEMENTS;
    if (same_text(begin, length, "elements")) return true;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        const int32_t prefix = (int32_t)strlen(members[m].begins);
        if (length != prefix + 2 || memcmp(begin, members[m].begins, (size_t)prefix) != 0 || begin[length - 1] != ']') continue;
        argument->value = members[m].value;
        argument->axis = begin[prefix] - '0';
        return argument->axis >= 0 && argument->axis < MUSTER_MAX_DIMS;
    }
    return false;
}

static muster_status read_argument(const mst_custom *custom, const char *begin, int32_t length, mst_custom_argument *argument) {
    const char *point = memchr(begin, '.', (size_t)length);
    const int32_t name = point ? (int32_t)(point - begin) : length;
    if (!point && find_attribute(custom, begin, length, &argument->index)) {
        const mst_value_kind kind = custom->row.attributes[argument->index].kind;
        argument->value = MST_CUSTOM_ATTRIBUTE;
        if (kind == MST_VALUE_NUMBER || kind == MST_VALUE_INTEGER) return MUSTER_OK;
        return launch_refuse(begin, length, "attributes that are numbers or integers");
    }
    if (!find_tensor(custom, begin, name, &argument->index)) return launch_refuse(begin, length, "an operand, \"result\" or an attribute");
    argument->value = MST_CUSTOM_BUFFER;
    if (!point || read_member(point + 1, length - name - 1, argument)) return MUSTER_OK;
    return launch_refuse(begin, length, "elements, shape[d] or strides[d] behind the point");
}

muster_status mst_custom_launch_read(mst_custom *custom) {
    const char *at = custom->options.launch;
    int32_t most = 1;
    for (const char *c = at; *c; c++) most += *c == ',';
    custom->arguments = mst_arena_take(&custom->memory, (size_t)most * sizeof *custom->arguments);
    if (!custom->arguments) return mst_out_of_memory(where, most);
    if (most > ARGUMENTS) return launch_refuse(at, (int32_t)strnlen(at, 60), "at most 32 arguments");
    while (true) {
        while (*at == ' ') at++;
        int32_t length = (int32_t)strcspn(at, ",");
        const char *next = at + length;
        while (length > 0 && at[length - 1] == ' ') length--;
        if (length || *next || custom->argument_count)
            MUSTER_TRY(read_argument(custom, at, length, &custom->arguments[custom->argument_count++]));
        if (!*next) return MUSTER_OK;
        at = next + 1;
    }
}

/* ---- launching ---- */

static int64_t elements_of(const muster_tensor *t) {
    int64_t count = 1;
    for (int32_t d = 0; d < t->ndim; d++) count *= t->shape[d];
    return count;
}

/* The number becomes one of the parameter's type. */
static muster_argument number_of(int32_t type, int64_t integer, double number, bool is_integer) {
    if (type == MUSTER_PARAMETER_SIZE && is_integer && integer >= 0) return muster_argument_size((uint64_t)integer);
    if (type == MUSTER_PARAMETER_SSIZE && is_integer) return muster_argument_ssize(integer);
    if (mst_dtype_is_float(type)) return muster_argument_float(type, is_integer ? (double)integer : number);
    return is_integer ? muster_argument_int(type, integer) : muster_argument_float(type, number);
}

static muster_status argument_of(const muster_operator_node *node, const mst_custom_argument *from, const muster_tensor *in,
                                 const muster_tensor *out, int32_t type, muster_argument *argument) {
    const mst_custom *custom = node->custom;
    if (from->value == MST_CUSTOM_ATTRIBUTE) {
        const mst_graph_value *value = &node->values[from->index];
        *argument = number_of(type, value->integer, value->number, custom->row.attributes[from->index].kind == MST_VALUE_INTEGER);
        return MUSTER_OK;
    }
    const muster_tensor *tensor = from->index >= 0 ? &in[from->index] : &out[-1 - from->index];
    if ((from->value == MST_CUSTOM_SHAPE || from->value == MST_CUSTOM_STRIDE) && from->axis >= tensor->ndim)
        return mst_error(MUSTER_OUT_OF_RANGE, "expected an axis below %d, the dimensions of %s, received %d", (int)tensor->ndim,
                         from->index >= 0 ? custom->row.operands[from->index] : "the result", (int)from->axis);
    switch (from->value) {
    case MST_CUSTOM_ELEMENTS:
        *argument = number_of(type, elements_of(tensor), 0, true);
        break;
    case MST_CUSTOM_SHAPE:
        *argument = number_of(type, tensor->shape[from->axis], 0, true);
        break;
    case MST_CUSTOM_STRIDE:
        *argument = number_of(type, tensor->strides[from->axis], 0, true);
        break;
    default:
        *argument = muster_argument_strided(*tensor); /* contiguous, unless the operator takes strides */
    }
    return MUSTER_OK;
}

muster_status mst_custom_launch(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out) {
    const mst_custom *custom = node->custom;
    muster_argument arguments[ARGUMENTS];
    if (!node->kernels || node->kernels->count == 0) return mst_error(MUSTER_INVALID_ARGUMENT, "expected a kernel, received none");
    muster_kernel *kernel = node->kernels->items[0];
    for (int32_t i = 0; i < custom->argument_count; i++)
        MUSTER_TRY(argument_of(node, &custom->arguments[i], in, out, muster_kernel_parameter(kernel, i), &arguments[i]));
    return muster_kernel_launch_elements(worker, kernel, elements_of(&out[0]), 0, arguments, custom->argument_count);
}
