/* Oracles: for each row of the registry of operations, calls with random operands whose results are
 * compared with plain loops. The oracle of an operation is tests/ops/oracle/<name>.c. */
#ifndef OPS_ORACLE_H
#define OPS_ORACLE_H

#include "op_impl.h"
#include "ops_fixture.h"

typedef struct ops_oracle {
    /* One call of the operation on random operands, and its check. */
    void (*draw)(muster_worker *w, const mst_op_row *o);
    /* The cases of test_conformance: fixed calls over dtypes and layouts. Each case whose result
     * was compared ends with ops_count_case. */
    void (*cases)(muster_worker *w, const mst_op_row *o);
    int64_t case_count; /* on each device */
    /* Attributes for a call whose operands all hold zeros, for the tests of memory. */
    mst_op_value values[MST_ATTRIBUTES];
} ops_oracle;

/* NULL: the operation has none, which fails the suite. */
const ops_oracle *ops_oracle_find(int32_t id);

/* ---- random operands ---- */

enum { ORACLE_MOST = 2000 }; /* elements of a tensor, of which a shape with broadcasting has a few more */
typedef struct ops_shape {
    int32_t ndim;
    int64_t size[MUSTER_MAX_DIMS];
} ops_shape;

int64_t ops_random_size(int64_t below);
/* Up to 4 axes of up to 5 elements; some shapes have a single long axis. */
ops_shape ops_random_shape(void);
/* A shape that broadcasts to `s`. */
ops_shape ops_random_repeated(const ops_shape *s);
/* One of the dtypes of the operation. */
muster_dtype ops_random_dtype(const mst_op_row *o);

/* An input, which is only read and so may repeat elements; an output, which is written. */
ops_pair ops_input(muster_worker *w, muster_dtype dtype, ops_shape s);
ops_pair ops_output(muster_worker *w, muster_dtype dtype, ops_shape s);
ops_pair ops_vector(muster_worker *w, muster_dtype dtype, int64_t n, bool repeats);
ops_pair ops_matrix(muster_worker *w, muster_dtype dtype, int64_t n, int64_t k, bool repeats);
ops_pair ops_scalar(muster_worker *w, muster_dtype dtype);
double ops_at(const ops_pair *p, int64_t i, int64_t j);
/* The address of an element of a host tensor. */
void *ops_place_of(muster_tensor tensor, const int64_t *index);
/* For a result that the operation must not read. */
void ops_fill_with_nan(muster_worker *w, ops_pair *p);

/* ---- calls and results ---- */

/* Runs the row on the pairs, one per operand (NULL: no tensor), and returns the status of `run`.
 * Before, it asserts that the shape rule and the check accept the operands, and that both refuse a
 * wrong shape and a wrong dtype. */
muster_status ops_apply(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const ops_pair *const *pairs);
/* The set of dtypes that ops_apply has run since the last call. */
uint32_t ops_applied(int32_t id);

/* The cases counted since the last call, and the set of their dtypes. Dtypes that only device
 * code supports are in the set, but their cases are not counted. */
void ops_count_case(const mst_op_row *o, muster_dtype dtype);
int64_t ops_counted_cases(int32_t id, uint32_t *dtypes);

/* Asserts that the result on the device is `expected`, in row-major order, within the error of the
 * row, and that nothing else in its storage has changed. */
void ops_check(muster_worker *w, const mst_op_row *o, const ops_pair *y, const double *expected);

extern double ops_results[ORACLE_MOST * 64];
/* ops_results[i] = EXPRESSION for every element of y, whose index is `index`. */
#define FOR_EVERY(y, EXPRESSION)                                    \
    do {                                                            \
        int64_t index[MUSTER_MAX_DIMS] = {0}, result_ = 0;          \
        if (muster_tensor_count((y).host) > 0) do                   \
                ops_results[result_++] = (EXPRESSION);              \
            while (ops_next((y).host.ndim, (y).host.shape, index)); \
    } while (0)
/* In the EXPRESSION: the element of p that belongs to the element of y. */
#define ELEMENT(p) ops_element((p).host, y.host.ndim, index)
/* The arguments of ops_apply. */
#define VALUES(...) ((const mst_op_value[MST_ATTRIBUTES]){__VA_ARGS__})
#define PAIRS(...) ((const ops_pair *const[MST_OPERANDS]){__VA_ARGS__})

/* alpha x + beta y; with beta 0, y is not used. */
double ops_scaled(double alpha, double x, double beta, double y);
/* Number `number` of the stream of random numbers, by the definition in muster/ops.h. */
double ops_uniform(uint64_t seed, muster_dtype dtype, uint64_t number);
/* The dot product of row i of a and column j of b. */
double ops_dot_of(const ops_pair *a, int64_t i, const ops_pair *b, int64_t j);

#endif
