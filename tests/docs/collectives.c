/* collectives.c: the code of docs/collectives.md. */
#include "docs.h"

enum { N = 8 };

/* snippet: body */
/* One step of training: every worker gets the sum of all workers' gradients. */
static muster_status step(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                          void *user) {
    muster_variable *weights = user;
    muster_tensor value, gradient;
    MUSTER_TRY(muster_worker_variable(w, weights, &value));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, value.shape, &gradient));
    (void)out;
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, gradient)); /* stands for a real gradient */
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, gradient, gradient));
    return muster_axpy(w, -0.5, gradient, value);
}
/* end of snippet */

/* snippet: group */
/* Sends `value` to the next rank and receives that of the rank before. */
static muster_status rotate(muster_worker *w, muster_tensor value, muster_tensor received) {
    const int32_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, (rank + 1) % size, 0, value));
    MUSTER_TRY(muster_worker_recv(w, NULL, (rank + size - 1) % size, 0, received));
    return muster_worker_group_end(w, NULL);
}
/* end of snippet */

/* snippet: split */
/* The sum over the workers whose rank has the same parity. */
static muster_status sum_by_parity(muster_worker *w, muster_tensor value, muster_tensor sum) {
    const int32_t rank = muster_worker_rank(w);
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, rank % 2, rank, &part));
    muster_status status = muster_worker_all_reduce(w, part, MUSTER_SUM, value, sum);
    MUSTER_TRY(muster_worker_release(w, part));
    return status;
}
/* end of snippet */

/* out[0] (1, 2) gathered: the value of the rank before, the sum by parity. */
static muster_status messages(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    (void)in, (void)user;
    muster_tensor flat = muster_tensor_reshape(out[0], 1, (int64_t[]){2});
    muster_tensor value;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, (int64_t[]){1}, &value));
    MUSTER_TRY(muster_fill(w, muster_worker_rank(w) + 1, value));
    MUSTER_TRY(rotate(w, value, muster_tensor_slice(flat, 0, 1)));
    return sum_by_parity(w, value, muster_tensor_slice(flat, 1, 2));
}

static void train(muster_runtime *rt) {
    float x[N][2], start[2] = {100, 200}, result[2];
    for (int i = 0; i < N; i++) x[i][0] = (float)i, x[i][1] = 1;
    muster_variable *weights;
    muster_function *f;
    check(muster_variable_create(rt, "weights", muster_f32(start, 2), &weights));
    /* snippet: describe */
    check(muster_function_create(rt, "step", step, weights, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_variable(f, weights, MUSTER_USE_READ_WRITE));
    check(muster_function_set_runs_without_rows(f, 1)); /* every worker must enter */
    /* end of snippet */
    const muster_tensor rows = muster_f32(x, N, 2);
    check(muster_function_call(f, &rows, 1, NULL, 0, NULL));
    for (int32_t rank = 0; rank < muster_runtime_size(rt); rank++) {
        check(muster_variable_get(weights, rank, muster_f32(result, 2)));
        EXPECT(result[0] == 100 - 14 && result[1] == 200 - 4);
    }
}

static void exchange(muster_runtime *rt) {
    enum { MOST = 64 };
    const int32_t size = muster_runtime_size(rt);
    float found[MOST][2];
    muster_function *f;
    EXPECT(size <= MOST);
    check(muster_function_create(rt, "messages", messages, NULL, &f));
    check(muster_function_output(f, "values", MUSTER_F32, 2, MUSTER_GATHER));
    const muster_tensor values = muster_f32(found, size, 2);
    check(muster_function_call(f, NULL, 0, &values, 1, NULL));
    for (int32_t rank = 0; rank < size; rank++) {
        float sum = 0;
        for (int32_t other = rank % 2; other < size; other += 2) sum += (float)(other + 1);
        EXPECT(found[rank][0] == (float)((rank + size - 1) % size + 1) && found[rank][1] == sum);
    }
}

int main(void) {
    muster_runtime *rt = docs_open();
    train(rt);
    exchange(rt);
    check(muster_runtime_close(rt));
    return 0;
}
