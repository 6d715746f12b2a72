/* torchmpi.c: TorchMPI's page on its parameter server, with what the page and its test case say.
 *
 *   parameterserver.init(t): "from rank: 0 1 ... mpi.size()": shard r begins with rank r's elements
 *   send with the rules zero, copy and add, which are applied on the server
 *   receive; syncHandle ensures that an operation is complete
 *
 * The test case: the last rank sends copy of N - 1, all ranks send add of their rank, all receive
 * (N - 1) + N (N - 1) / 2. */
#include "../sample.h"

enum { PARTS = 2, MOST = 64 }; /* elements of each shard; devices */

typedef struct job {
    muster_runtime *runtime;
} job;

/* send and syncHandle: NULL in place of a request waits until the server has applied it. */
static muster_status send(muster_client *ps, muster_rule rule, muster_tensor t) { return muster_client_send(ps, 0, rule, 1, t, 0, NULL); }

/* out[0], out[1] and out[2], (1, n), gathered: what this rank receives after init, after zero, and
 * at the end of the test case. */
static muster_status server(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    const job *j = user;
    const int32_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    muster_server_options options;
    muster_server *made;
    muster_client *ps;
    muster_server_options_init(&options);
    options.initial = MUSTER_INITIAL_OWN; /* init(t) */
    MUSTER_TRY(muster_fill(w, rank, out[0]));
    MUSTER_TRY(muster_worker_create_server(w, j->runtime, "t", &out[0], 1, &options, &made));
    MUSTER_TRY(muster_worker_client(w, made, &ps));
    MUSTER_TRY(muster_client_receive(ps, 0, out[0], NULL));
    MUSTER_TRY(muster_worker_barrier(w, NULL)); /* the next send changes what others receive */

    MUSTER_TRY(muster_fill(w, size - 1, out[1]));
    if (rank == size - 1) MUSTER_TRY(send(ps, MUSTER_RULE_ZERO, out[1]));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_client_receive(ps, 0, out[1], NULL));
    MUSTER_TRY(muster_worker_barrier(w, NULL));

    MUSTER_TRY(muster_fill(w, size - 1, out[2]));
    if (rank == size - 1) MUSTER_TRY(send(ps, MUSTER_RULE_COPY, out[2]));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_fill(w, rank, out[2]));
    MUSTER_TRY(send(ps, MUSTER_RULE_ADD, out[2]));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return muster_client_receive(ps, 0, out[2], NULL);
}

int main(void) {
    static float found[3][MOST][MOST * PARTS];
    muster_runtime *rt = sample_open("host:4");
    const int32_t size = muster_runtime_size(rt);
    const int64_t n = (int64_t)size * PARTS;
    static const char *const names[] = {"init", "zero", "copy and add"};
    muster_tensor out[3];
    muster_function *f;
    job j = {.runtime = rt};
    EXPECT(size <= MOST);
    CHECK(muster_function_create(rt, "server", server, &j, &f));
    for (int i = 0; i < 3; i++) {
        CHECK(muster_function_output(f, names[i], MUSTER_F32, 2, MUSTER_GATHER));
        out[i] = muster_tensor_make(MUSTER_F32, found[i], 2, (int64_t[]){size, n});
    }
    CHECK(muster_function_call(f, NULL, 0, out, 3, NULL));
    for (int i = 0; i < 3; i++) {
        printf("%-13s", names[i]);
        sample_print("", found[i][0], n);
    }
    for (int64_t k = 0; k < size * n; k++) {
        const float *const all[] = {found[0][0] + k, found[1][0] + k, found[2][0] + k};
        EXPECT(*all[0] == (float)(k % n / PARTS));
        EXPECT(*all[1] == 0);
        EXPECT(*all[2] == (float)(size - 1 + size * (size - 1) / 2));
    }
    CHECK(muster_runtime_close(rt));
    return 0;
}
