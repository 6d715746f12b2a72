/* Every row of the registry on random shapes and layouts, with strides of 0 and broadcasting,
 * against its oracle. The bytes between the elements of a result must not change. */
#include "base_check.h"
#include "device_discrete.h"
#include "ops_oracle.h"

#include <stdlib.h>

typedef struct repetition {
    const mst_op_row *operation;
    const ops_oracle *oracle;
    int rounds;
    bool by_code; /* set by `repeat` */
} repetition;

static muster_status repeat(muster_worker *w, void *argument) {
    repetition *r = argument;
    r->by_code = !mst_device_is_host(w->device);
    for (int i = 0; i < r->rounds; i++) r->oracle->draw(w, r->operation);
    return MUSTER_OK;
}

/* Has the oracle run the operation on each of its dtypes? */
static void assert_all_dtypes(const mst_op_row *o) {
    char text[128];
    const uint32_t missing = o->dtypes & ~ops_applied(o->id);
    if (missing) fail_msg("tests/ops/oracle/%s.c has not run %s", o->name, mst_dtypes_text(text, missing));
}

/* Has a device launched each kernel of the row? Only a launch looks up the place of a kernel. */
static void assert_all_kernels(const mst_op_row *o) {
    for (int32_t i = 0; i < o->code_count; i++)
        if (atomic_load(&o->code[i].index) <= 0) fail_msg("tests/ops/oracle/%s.c has not launched %s", o->name, o->code[i].name);
}

/* The scratch memory of the tensors is given back after each chunk of rounds. */
static void test_operation(void **state) {
    enum { CHUNK = 100 };
    const mst_op_row *o = *state;
    repetition r = {.operation = o, .oracle = ops_oracle_find(o->id), .rounds = CHUNK};
    if (!r.oracle)
        fail_msg("the operation %s has no oracle: tests/ops/oracle/%s.c does not define ops_oracle_%s", o->name, o->name, o->name);
    static const char *const backends[] = {"host", "discrete"};
    for (int b = ops_first_backend(); b < 2; b++) {
        (void)ops_applied(o->id);
        for (int rounds = ops_rounds(2 * CHUNK, 20 * CHUNK); rounds > 0; rounds -= CHUNK) assert_ok(ops_run_on(backends[b], repeat, &r));
        assert_all_dtypes(o);
        if (r.by_code) assert_all_kernels(o);
    }
}

int main(void) {
    struct CMUnitTest tests[MST_OPERATIONS];
    if (mst_discrete_register() != MUSTER_OK || mst_blas_open(false) != MUSTER_OK) return 1;
    ops_seed();
    for (int32_t i = 0; i < MST_OPERATIONS; i++)
        tests[i] = (struct CMUnitTest){
            .name = mst_operations[i]->name, .test_func = test_operation, .initial_state = (void *)(uintptr_t)mst_operations[i]};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}
