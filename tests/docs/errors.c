/* errors.c: the code of docs/errors-and-deadlines.md. */
#include "docs.h"

enum { N = 4 };

static muster_status sum(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                         void *user) {
    (void)user;
    return muster_sum(w, in[0], out[0]);
}

/* snippet: body */
/* Rows must not be negative. */
static muster_status checked(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                             void *user) {
    (void)user;
    float smallest;
    muster_tensor least;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &least));
    MUSTER_TRY(muster_reduce(w, MUSTER_MIN, in[0], -1, least));
    MUSTER_TRY(muster_worker_read(w, least, muster_f32(&smallest)));
    if (smallest < 0) return muster_fail(MUSTER_USER, "a row is negative");
    return muster_sum(w, in[0], out[0]);
}
/* end of snippet */

static muster_function *described(muster_runtime *rt, const char *name, muster_body body) {
    muster_function *f;
    check(muster_function_create(rt, name, body, NULL, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    check(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    return f;
}

int main(void) {
    muster_runtime *rt = docs_open();
    float x[N] = {1, 2, 3, 4}, result = -1;
    const muster_tensor output = muster_f32(&result);
    muster_function *f = described(rt, "sum", sum);
    /* snippet: refused */
    double wrong[N] = {1, 2, 3, 4};
    const muster_tensor input = muster_f64(wrong, N);
    muster_status status = muster_function_call(f, &input, 1, &output, 1, NULL);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s: %s\n", muster_status_name(status), muster_last_error());
    /* end of snippet */
    EXPECT(status == MUSTER_DTYPE_MISMATCH && strstr(muster_last_error(), "'x'") &&
           strstr(muster_last_error(), "f64"));
    EXPECT(result == -1);

    x[N - 1] = -1;
    const muster_tensor rows = muster_f32(x, N);
    status = muster_function_call(described(rt, "checked", checked), &rows, 1, &output, 1, NULL);
    EXPECT(status == MUSTER_USER && strstr(muster_last_error(), "a row is negative"));
    const muster_call_options deadlines = {.struct_size = sizeof deadlines,
                                           .fail_after_ns = INT64_C(5000000000)};
    check(muster_function_call(f, &rows, 1, &output, 1, &deadlines)); /* the runtime goes on */
    EXPECT(result == 5);
    check(muster_runtime_close(rt));
    return 0;
}
