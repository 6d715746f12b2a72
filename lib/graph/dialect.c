/* Prints the kernels of fused groups. They are written in the dialect of the built-in kernels and
 * call the functions of these, so that a value has the same bits, fused or not. Shapes, strides and
 * addresses are parameters. */
#include "dialect_private.h"
#include "hash_impl.h"
#include "op_impl.h"
#include "tensor_impl.h"

#include <string.h>

typedef struct printer {
    const mst_fused_group *group;
    mst_string *to;
    muster_status status; /* of the first failure: later prints do nothing */
    /* the results that need the value, a bit for each */
    uint32_t members[MST_GROUP_MEMBERS], operands[MST_GROUP_OPERANDS];
} printer;

#define PRINT(p, ...)                                                                       \
    do {                                                                                    \
        if ((p)->status == MUSTER_OK) (p)->status = mst_string_print((p)->to, __VA_ARGS__); \
    } while (0)

/* ---- which results need a value ---- */

static uint32_t all_results(const mst_fused_group *group) { return (1u << group->result_count) - 1; }

static void find_needs(printer *p) {
    const mst_fused_group *group = p->group;
    for (int32_t r = 0; r < group->result_count; r++) p->members[group->results[r]] |= 1u << r;
    for (int32_t m = group->member_count - 1; m >= 0; m--) {
        const muster_expr *node = group->members[m];
        for (int32_t i = 0; i < node->input_count; i++) {
            if (mst_node_is_number(node->inputs[i])) continue;
            const int32_t found = mst_group_find(group, node->inputs[i]);
            if (found < MST_GROUP_MEMBERS)
                p->members[found] |= p->members[m];
            else
                p->operands[found - MST_GROUP_MEMBERS] |= p->members[m];
        }
    }
}

/* Before an expression that not every launch needs; such a value is 0 in the others. */
static void print_condition(printer *p, uint32_t needed) {
    if (needed != all_results(p->group)) PRINT(p, "!(p.wanted & 0x%xu) ? 0 : ", (unsigned)needed);
}

/* ---- a member ---- */

static void print_number(printer *p, muster_dtype dtype, double value) {
    uint64_t bits = 0;
    mst_convert(dtype, &bits, MUSTER_F64, &value, 1);
    PRINT(p, "mst_fused_bits<mst_%s::stored>(0x%llxu)", muster_dtype_name(dtype), (unsigned long long)bits);
}

static void print_operand(printer *p, const muster_expr *operand) {
    if (mst_node_is_number(operand)) {
        print_number(p, operand->type.dtype, operand->values[1].number);
        return;
    }
    const int32_t found = mst_group_find(p->group, operand);
    PRINT(p, found < MST_GROUP_MEMBERS ? "v%d" : "x%d", (int)(found % MST_GROUP_MEMBERS));
}

static const char *kind_of(muster_dtype dtype) {
    if (mst_dtype_is_float(dtype)) return "float";
    return dtype == MUSTER_I8 || dtype == MUSTER_I16 || dtype == MUSTER_I32 || dtype == MUSTER_I64 ? "signed" : "unsigned";
}

/* A conversion goes through the widest type of the operand's kind, as in copy.cu. */
static void print_cast(printer *p, const muster_expr *node) {
    static const char *const names[MST_DTYPE_COUNT] = {
        [MUSTER_F16] = "F16", [MUSTER_BF16] = "BF16", [MUSTER_F32] = "F32", [MUSTER_F64] = "F64",
        [MUSTER_I8] = "I8",   [MUSTER_U8] = "U8",     [MUSTER_I16] = "I16", [MUSTER_I32] = "I32",
        [MUSTER_I64] = "I64", [MUSTER_U32] = "U32",   [MUSTER_U64] = "U64", [MUSTER_BOOL] = "BOOL"};
    const muster_dtype from = node->inputs[0]->type.dtype;
    const char *const wide = from == MUSTER_F64 ? "f64" : mst_dtype_is_float(from) ? "f32" : from == MUSTER_U64 ? "u64" : "i64";
    PRINT(p, "mst_%s_of_%s(mst_%s::load(", names[node->type.dtype], wide, muster_dtype_name(from));
    print_operand(p, node->inputs[0]);
    PRINT(p, "))");
}

/* The bounds are those of the loop of the operation: in the first bytes of two words. */
static void print_clip(printer *p, const muster_expr *node) {
    const muster_dtype dtype = node->type.dtype;
    const mst_op_value values[] = {{.number = node->values[0].number}, {.number = node->values[1].number}};
    mst_op_loop loop;
    if (p->status == MUSTER_OK) p->status = mst_operation_clip.loop((const muster_dtype[]){dtype, dtype}, values, &loop);
    if (p->status != MUSTER_OK) return;
    PRINT(p, "mst_fused_clip<mst_%s>(", muster_dtype_name(dtype));
    print_operand(p, node->inputs[0]);
    for (int i = 0; i < 2; i++)
        PRINT(p, ", mst_fused_bits<mst_%s::computed>(0x%llxu)", muster_dtype_name(dtype), (unsigned long long)loop.context[i]);
    PRINT(p, ")");
}

/* The functions of fused.cuh that take the operands and nothing else. */
static const struct function {
    const mst_op_row *operation;
    const char *name;
    bool of_kind, has_operation; /* has_operation: the second argument of the template */
    int32_t like;                /* the operand that has the dtype, the first argument */
} functions[] = {
    {&mst_operation_unary, "unary", true, true, 0},      {&mst_operation_binary, "binary", true, true, 0},
    {&mst_operation_compare, "compare", false, true, 0}, {&mst_operation_predicate, "predicate", false, true, 0},
    {&mst_operation_where, "where", false, false, 1},    {&mst_operation_relu_gradient, "relu_gradient", false, false, 0},
};

static void print_call(printer *p, const muster_expr *node, const struct function *function) {
    const muster_dtype dtype = node->inputs[function->like]->type.dtype;
    PRINT(p, "mst_fused_%s", function->name);
    if (function->of_kind) PRINT(p, "_%s", kind_of(dtype));
    PRINT(p, "<mst_%s", muster_dtype_name(dtype));
    if (function->has_operation) PRINT(p, ", %d", (int)node->op->operation);
    for (int32_t i = 0; i < node->input_count; i++) {
        PRINT(p, i ? ", " : ">(");
        print_operand(p, node->inputs[i]);
    }
    PRINT(p, ")");
}

static void print_value(printer *p, const muster_expr *node) {
    const mst_op_row *operation = node->op->elementwise;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].operation != operation) continue;
        print_call(p, node, &functions[i]);
        return;
    }
    if (operation == &mst_operation_clip)
        print_clip(p, node);
    else if (operation == &mst_operation_copy)
        print_cast(p, node);
    else if (p->status == MUSTER_OK)
        p->status =
            mst_error(MUSTER_UNSUPPORTED, "muster_graph_compile: %s: expected an operation that kernels of groups know, received another",
                      node->op->name);
}

/* ---- a kernel, from its parameters on ---- */

static void print_parameters(printer *p) {
    PRINT(p, "(");
    for (int32_t i = 0; i < p->group->operand_count; i++) PRINT(p, "const char *a%d, ", (int)i);
    for (int32_t r = 0; r < p->group->result_count; r++) PRINT(p, "char *r%d, ", (int)r);
    PRINT(p, "const __grid_constant__ mst_fused_parameters p) {\n");
}

/* Everything is read before anything is written: a result may have the memory of an operand. */
static void print_kernel(printer *p) {
    const mst_fused_group *group = p->group;
    const int32_t tensors = group->operand_count + group->result_count;
    print_parameters(p);
    PRINT(p, "    MST_EACH(i, p.count) {\n        int64_t at[%d];\n        mst_fused_offsets<%d>(p, i, at);\n", (int)tensors, (int)tensors);
    for (int32_t i = 0; i < group->operand_count; i++) {
        const char *const type = muster_dtype_name(group->operands[i]->type.dtype);
        PRINT(p, "        const mst_%s::stored x%d = ", type, (int)i);
        print_condition(p, p->operands[i]);
        PRINT(p, "*(const mst_%s::stored *)(a%d + at[%d]);\n", type, (int)i, (int)i);
    }
    for (int32_t m = 0; m < group->member_count; m++) {
        const muster_expr *node = group->members[m];
        PRINT(p, "        const mst_%s::stored v%d = ", muster_dtype_name(node->type.dtype), (int)m);
        print_condition(p, p->members[m]);
        print_value(p, node);
        PRINT(p, "; /* %s */\n", node->op->name);
    }
    for (int32_t r = 0; r < group->result_count; r++) {
        PRINT(p, "        ");
        if (group->result_count > 1) PRINT(p, "if (p.wanted & 0x%xu) ", 1u << r);
        PRINT(p, "*(mst_%s::stored *)(r%d + at[%d]) = v%d;\n", muster_dtype_name(group->members[group->results[r]]->type.dtype), (int)r,
              (int)(group->operand_count + r), (int)group->results[r]);
    }
    PRINT(p, "    }\n}\n");
}

/* ---- all kernels ---- */

/* The kernels so far, by their text. */
typedef struct known {
    int64_t begin, length; /* within the whole text */
    uint32_t hash;
    int32_t next; /* of the same slot, or -1 */
} known;

static int32_t kernel_find(const mst_fused_text *printed, const known *kernels, int32_t first, const mst_string *one, uint32_t hash) {
    for (int32_t k = first; k >= 0; k = kernels[k].next)
        if (kernels[k].hash == hash && kernels[k].length == one->length &&
            memcmp(printed->text.data + kernels[k].begin, one->data, (size_t)one->length) == 0)
            return k;
    return -1;
}

static muster_status group_print(mst_fused_text *printed, const mst_fused_group *group, int32_t number, mst_string *one, known *kernels,
                                 int32_t *slot) {
    printer p = {.group = group, .to = one};
    one->length = 0;
    find_needs(&p);
    print_kernel(&p);
    MUSTER_TRY(p.status);
    const uint32_t hash = mst_text_hash(one->data, one->length);
    slot += hash & 1023;
    const int32_t found = kernel_find(printed, kernels, *slot, one, hash);
    printed->kernel_of[number] = found >= 0 ? found : printed->kernel_count;
    if (found >= 0) return MUSTER_OK;
    const int32_t made = printed->kernel_count++;
    MUSTER_TRY(mst_string_print(&printed->text, "\nextern \"C\" __global__ void __launch_bounds__(256) mst_fused_%d", (int)made));
    kernels[made] = (known){printed->text.length, one->length, hash, *slot};
    *slot = made;
    printed->tensors_of[made] = group->operand_count + group->result_count;
    return mst_string_add(&printed->text, one->data, one->length);
}

static muster_status groups_print(mst_fused_text *printed, const mst_fused_group *groups, int32_t count, known *kernels) {
    mst_string one = {0};
    int32_t slots[1024];
    memset(slots, -1, sizeof slots);
    muster_status status = mst_string_print(&printed->text, "#include \"fused.cuh\"\n");
    for (int32_t g = 0; g < count && status == MUSTER_OK; g++) status = group_print(printed, &groups[g], g, &one, kernels, slots);
    mst_string_free(&one);
    return status;
}

muster_status mst_fused_print(const mst_fused_group *groups, int32_t count, mst_fused_text *printed) {
    const size_t bytes = (size_t)(count + 1) * sizeof(int32_t);
    known *kernels = mst_alloc((size_t)(count + 1) * sizeof *kernels);
    *printed = (mst_fused_text){.kernel_of = mst_alloc(bytes), .tensors_of = mst_alloc(bytes)};
    const bool all = kernels && printed->kernel_of && printed->tensors_of;
    const muster_status status = all ? groups_print(printed, groups, count, kernels)
                                     : mst_out_of_memory("muster_graph_compile", (int64_t)(count + 1) * (int64_t)sizeof *kernels);
    mst_free(kernels);
    if (status != MUSTER_OK) mst_fused_text_free(printed);
    return status;
}

void mst_fused_text_free(mst_fused_text *printed) {
    mst_string_free(&printed->text);
    mst_free(printed->kernel_of);
    mst_free(printed->tensors_of);
    *printed = (mst_fused_text){0};
}
