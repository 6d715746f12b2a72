/* The registry of operations: one row for each line of operations.def. The rows describe the
 * operations to tests, benches, the table in docs/operations.md and the modules built on this one.
 * A public function of muster/ops.h launches the kernel of its row. */
#ifndef MST_OPERATION_IMPL_H
#define MST_OPERATION_IMPL_H

#include "ops_impl.h"

/* The numbers of the operations; other tables use them as indices. They may change from build to
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

/* An operand is read, written or both. For an operand with MST_OPTIONAL "no tensor" is legal and
 * means that it is not wanted. A result with MST_IN_PLACE may have the same elements as an input in
 * the same layout. */
enum { MST_IN = 1, MST_OUT = 2, MST_IN_OUT = 3, MST_OPTIONAL = 4, MST_IN_PLACE = 8 };
typedef struct mst_operand {
    const char *name; /* as in muster/ops.h; NULL ends the list */
    /* One letter per axis; axes with the same letter have the same size. "*": any shape, the same
     * for all operands with "*". "~": a shape that broadcasts to the shape of "*". "?": the row's
     * infer computes it. */
    const char *dims;
    int32_t use;
    uint32_t dtypes; /* a set; 0: the dtype of the operation, which all operands with 0 share */
} mst_operand;

/* The arguments of an operation besides tensors. */
typedef enum { MST_NUMBER, MST_INTEGER, MST_CHOICE } mst_attribute_kind;
typedef struct mst_attribute {
    const char *name; /* as in muster/ops.h; NULL ends the list */
    mst_attribute_kind kind;
    const char *const *choices; /* MST_CHOICE: choice i, from 1, is called choices[i]; NULL ends the list */
} mst_attribute;
/* The value of an attribute: `integer` for a choice or an integer (an unsigned one, too), else
 * `number`. */
typedef union mst_op_value {
    double number;
    int64_t integer;
} mst_op_value;

/* The code of an operation on the host. The parameters are the structure that the operation's
 * public function has filled. Errors: set with mst_error. */
typedef muster_status (*mst_host_kernel)(const void *parameters);

/* The code of an operation for each kind of device. `host` reads host addresses. On other devices
 * `issue` launches device code; if it is NULL, `code` is launched over `work(parameters)` elements
 * with the parameters unchanged. */
typedef struct mst_kernel {
    mst_host_kernel host;
    mst_code_kernel *code;
    int64_t (*work)(const void *parameters);
    muster_status (*issue)(muster_worker *worker, const void *parameters);
} mst_kernel;

/* The inner loop of an iterator over n elements. Operand i begins at at[i] and has a stride of
 * stride[i] bytes; 0 repeats its element. */
typedef void (*mst_iterator_loop)(void *context, char *const *at, const int64_t *stride, int64_t n);
/* The loop of an elementwise operation, whose operands are those of the row. `context` lies in the
 * structure, and is the loop's first argument. */
typedef struct mst_op_loop {
    mst_iterator_loop run;
    uint64_t context[3];
} mst_op_loop;

typedef struct mst_op_row {
    const char *name;
    int32_t id;
    const char *function; /* the function in muster/ops.h */
    mst_operand operands[MST_OPERANDS + 1];
    mst_attribute attributes[MST_ATTRIBUTES + 1];
    /* The dtypes that the host code supports, and those that the device code supports (0: the
     * same). */
    uint32_t dtypes, code_dtypes;
    /* Is the operation defined on `dtype`, which is in the set, with these attributes? NULL:
     * always. */
    bool (*takes)(muster_dtype dtype, const mst_op_value *values);
    /* Can the worker run the operation on these tensors? Accesses no elements. Error messages begin
     * with "<where>: <operand>: ". */
    muster_status (*check)(const muster_worker *worker, const muster_tensor *const *tensors, const mst_op_value *values, const char *where);
    /* Computes the dtype and shape of the results if some operand has "?"; see
     * mst_operation_infer. */
    muster_status (*infer)(const mst_op_value *values, muster_tensor *tensors, const char *where);
    /* Calls the function of muster/ops.h, which checks and runs. The tensors are in the order of
     * the operands. */
    muster_status (*run)(muster_worker *worker, const muster_tensor *tensors, const mst_op_value *values);
    /* Elementwise operations: the loop for operands of these dtypes. Results have the same bits
     * wherever elements lie and however many the loop computes at once. Errors: those of `check`
     * that depend on attributes and dtypes; UNSUPPORTED. NULL: the operation has no such loop. */
    muster_status (*loop)(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop);
    const mst_kernel *kernel; /* NULL: the function launches the kernel of another operation */
    mst_code_kernel *code;    /* the kernels of the device code that `kernel` launches */
    int32_t code_count;
    /* The largest |result - exact| / (1 + |exact|) by dtype. 0: results of that dtype are exact. */
    double error[MST_DTYPE_COUNT];
} mst_op_row;

/* The error of one rounding to the dtype, plus the error of the C library's functions. */
#define MST_FLOAT_ERRORS \
    { [MUSTER_F16] = 2e-3, [MUSTER_BF16] = 1e-2, [MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12 }

/* The first entries of a row. */
#define MST_OPERATION_ROW(operation, public_function) .name = #operation, .id = MST_OPERATION_##operation, .function = #public_function
#define MST_CODE(array) .code = (array), .code_count = (int32_t)(sizeof(array) / sizeof *(array))

#define MST_OPERATION(name) extern const mst_op_row mst_operation_##name;
#include "operations.def"
#undef MST_OPERATION

/* Row i has the id i. mst_operation_find returns NULL for an unknown name. */
extern const mst_op_row *const mst_operations[MST_OPERATIONS];
const mst_op_row *mst_operation_find(const char *name);

static inline bool mst_operand_is_result(const mst_operand *operand) { return (operand->use & MST_OUT) != 0; }

/* The shape rule. `tensors` has one tensor per operand. Reads dtype, ndim and shape of the inputs,
 * and sets those of the results, contiguous. "No tensor" is legal for an optional operand. A result
 * whose shape no input determines (as in fill) keeps its own. Errors: SHAPE_MISMATCH,
 * DTYPE_MISMATCH and UNSUPPORTED, as `check` returns them. */
muster_status mst_operation_infer(const mst_op_row *operation, const mst_op_value *values, muster_tensor *tensors, const char *where);

/* Writes the names of the dtypes into text, such as "f16, bf16, f32 or f64". */
const char *mst_dtypes_text(char text[128], uint32_t dtypes);

#endif
