/* How long a runtime takes to open, and the first use of some operations after it: with a cold
 * cache of device code this is what the compiler takes. */
#include "gpu_runtime.h"

enum { COUNT = 64 };

static void tell(const char *what, double began) { printf("found: %s: %.1f ms\n", what, 1e-3 * (gpu_now_us() - began)); }

typedef struct tensors {
    muster_tensor a, b, c, total, index;
} tensors;

static muster_status sum(muster_worker *w, const tensors *t) { return muster_sum(w, t->a, t->total); }
static muster_status copy(muster_worker *w, const tensors *t) { return muster_copy(w, t->a, t->b); }
static muster_status add(muster_worker *w, const tensors *t) { return muster_binary_op(w, MUSTER_ADD, t->a, t->b, t->c); }
static muster_status product(muster_worker *w, const tensors *t) { return muster_gemm(w, 1, t->a, t->b, 0, t->c); }
static muster_status argmax(muster_worker *w, const tensors *t) { return muster_argmax(w, t->a, t->index); }

static muster_status first_uses(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    static const struct {
        const char *name;
        muster_status (*run)(muster_worker *w, const tensors *t);
    } uses[] = {{"copy", copy}, {"sum", sum}, {"addition", add}, {"product", product}, {"argmax", argmax}};
    const int64_t shape[] = {COUNT, COUNT}, rows = COUNT;
    (void)in, (void)out;
    tensors t;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, shape, &t.a));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, shape, &t.b));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, shape, &t.c));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &t.total));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, &rows, &t.index));
    MUSTER_TRY(muster_fill(w, 2, t.a));
    MUSTER_TRY(muster_worker_sync(w));
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char text[64];
        const double began = gpu_now_us();
        MUSTER_TRY(uses[i].run(w, &t));
        MUSTER_TRY(muster_worker_sync(w));
        snprintf(text, sizeof text, "first %s", uses[i].name);
        tell(text, began);
    }
    float *sum_at = user;
    return muster_worker_read(w, t.total, muster_f32(sum_at));
}

static void opens_and_computes(void **state) {
    (void)state;
    float sum_of_twos = 0;
    const double began = gpu_now_us();
    muster_runtime *runtime = gpu_open(NULL);
    assert_non_null(runtime);
    tell("open", began);
    assert_int_equal(muster_runtime_size(runtime), 1);
    assert_ok(gpu_call(runtime, first_uses, &sum_of_twos));
    assert_true(sum_of_twos == 2 * COUNT * COUNT);
    const double closing = gpu_now_us();
    assert_ok(muster_runtime_close(runtime));
    tell("close", closing);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(opens_and_computes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
