/* The registry of operations: one row for each line of operations.def. Tests, benches, the table in
 * docs/operations.md and the rooms to the right ask the rows; the public functions of muster/ops.h
 * launch the kernels of theirs. */
#ifndef MST_OPERATION_IMPL_H
#define MST_OPERATION_IMPL_H

#include "ops_impl.h"

/* Numbers of the operations, by which other tables are joined. They may change from build to
 * build. */
enum {
#define MST_OPERATION(name) MST_OPERATION_##name,
#include "operations.def"
#undef MST_OPERATION
    MST_OPERATIONS
};

enum { MST_OPERANDS = 5, MST_ATTRIBUTES = 4 };

/* Sets of dtypes. */
#define MST_DTYPE_BIT(dtype) ((uint32_t)1 << (dtype))
#define MST_BLAS_DTYPES (MST_DTYPE_BIT(MUSTER_F32) | MST_DTYPE_BIT(MUSTER_F64))
#define MST_FLOAT_DTYPES (MST_BLAS_DTYPES | MST_DTYPE_BIT(MUSTER_F16) | MST_DTYPE_BIT(MUSTER_BF16))
#define MST_NUMBER_DTYPES (MST_ALL_DTYPES & ~MST_DTYPE_BIT(MUSTER_BOOL))
#define MST_ALL_DTYPES (MST_DTYPE_BIT(MST_DTYPE_COUNT) - 2)

/* An operand is read, written or both. MST_OPTIONAL: "no tensor" means not wanted. */
enum { MST_IN = 1, MST_OUT = 2, MST_IN_OUT = 3, MST_OPTIONAL = 4 };
typedef struct mst_operand {
    const char *name; /* as in muster/ops.h; NULL ends the list */
    /* One letter per axis; equal letters are equal sizes. "*": any shape, the same for all operands
     * that say so. "~": a shape that broadcasts to that of "*". "?": the row's infer knows. */
    const char *dims;
    int32_t use;
    uint32_t dtypes; /* a set; 0: the dtype of the operation, which all such operands share */
} mst_operand;

/* What an operation gets besides tensors. */
typedef enum { MST_NUMBER, MST_INTEGER, MST_CHOICE } mst_attribute_kind;
typedef struct mst_attribute {
    const char *name; /* as in muster/ops.h; NULL ends the list */
    mst_attribute_kind kind;
    const char *const *choices; /* MST_CHOICE: choice i, from 1, is called choices[i]; NULL ends the list */
} mst_attribute;
/* Its value: of a choice or an integer (also an unsigned one) `integer`, else `number`. */
typedef union mst_op_value {
    double number;
    int64_t integer;
} mst_op_value;

/* An operation's work on each kind of device. host: code that reads host addresses. Else the device
 * code: `issue`, or, where that is NULL, `code` over `work(parameters)` elements with the
 * parameters as they are. */
typedef struct mst_kernel {
    mst_host_kernel host;
    mst_code_kernel *code;
    int64_t (*work)(const void *parameters);
    muster_status (*issue)(muster_worker *worker, const void *parameters);
} mst_kernel;

typedef struct mst_op_row {
    const char *name;
    int32_t id;
    const char *function; /* of muster/ops.h */
    mst_operand operands[MST_OPERANDS + 1];
    mst_attribute attributes[MST_ATTRIBUTES + 1];
    /* The dtypes of the operation: where host code runs, and where device code does (0: the
     * same). */
    uint32_t dtypes, code_dtypes;
    /* Is the operation defined on `dtype`, one of those, with these attributes? NULL: always. */
    bool (*takes)(muster_dtype dtype, const mst_op_value *values);
    /* May the worker run the operation on these tensors? Touches nothing. Refusals begin with
     * "<where>: <operand>: ". */
    muster_status (*check)(const muster_worker *worker, const muster_tensor *const *tensors, const mst_op_value *values, const char *where);
    /* The dtype and shape of the results where some operand says "?"; see mst_operation_infer. */
    muster_status (*infer)(const mst_op_value *values, muster_tensor *tensors, const char *where);
    /* Checks and runs: the function of muster/ops.h. Tensors in the order of the operands. */
    muster_status (*run)(muster_worker *worker, const muster_tensor *tensors, const mst_op_value *values);
    const mst_kernel *kernel; /* NULL: the function launches that of another operation */
    mst_code_kernel *code;    /* the kernels of the device code that `kernel` launches */
    int32_t code_count;
    /* The largest |result - exact| / (1 + |exact|) by dtype. 0: results of it are exact. */
    double error[MST_DTYPE_COUNT];
} mst_op_row;

/* One rounding to the dtype, and what functions of the C library add. */
#define MST_FLOAT_ERRORS \
    { [MUSTER_F16] = 2e-3, [MUSTER_BF16] = 1e-2, [MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12 }

/* The first entries of a row. */
#define MST_OPERATION_ROW(operation, public_function) .name = #operation, .id = MST_OPERATION_##operation, .function = #public_function
#define MST_CODE(array) .code = (array), .code_count = (int32_t)(sizeof(array) / sizeof *(array))

#define MST_OPERATION(name) extern const mst_op_row mst_operation_##name;
#include "operations.def"
#undef MST_OPERATION

/* Row i has the id i. find: NULL where there is none. */
extern const mst_op_row *const mst_operations[MST_OPERATIONS];
const mst_op_row *mst_operation_find(const char *name);

static inline bool mst_operand_is_result(const mst_operand *operand) { return (operand->use & MST_OUT) != 0; }
int32_t mst_operation_operands(const mst_op_row *operation);

/* The shape rule. tensors: one per operand, of which dtype, ndim and shape are read; "no tensor" is
 * legal for what is optional. Fills in those of the results, contiguous; a result that no input
 * fixes (fill) keeps its own. Errors: SHAPE_MISMATCH, DTYPE_MISMATCH, UNSUPPORTED, as `check`
 * has them. */
muster_status mst_operation_infer(const mst_op_row *operation, const mst_op_value *values, muster_tensor *tensors, const char *where);

/* "f16, bf16, f32 or f64" into text. */
const char *mst_dtypes_text(char text[128], uint32_t dtypes);

#endif
