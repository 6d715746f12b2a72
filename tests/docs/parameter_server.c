/* parameter_server.c: the code of docs/parameter-server.md. The workers look for the vector that is
 * nearest to all rows, which is their mean. */
#include "docs.h"

#include <math.h>

enum { N = 64, K = 4 };

/* snippet: job */
typedef struct job {
    muster_variable *parameters;
    muster_server *server;
} job;
/* end of snippet */

/* gradient = the mean over the rows of (x - row); 0 for a worker without rows. */
static muster_status my_gradient(muster_worker *w, muster_tensor rows, muster_tensor x,
                                 muster_tensor gradient) {
    if (muster_tensor_rows(rows) == 0) return muster_fill(w, 0, gradient);
    MUSTER_TRY(muster_reduce(w, MUSTER_AVG, rows, 0, gradient));
    return muster_scale_add(w, 1, x, -1, gradient);
}

/* snippet: body */
static muster_status train(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                           void *user) {
    const job *j = user;
    (void)out;
    muster_tensor x, gradient;
    MUSTER_TRY(muster_worker_variable(w, j->parameters, &x));
    /* once, before the loop */
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, x.shape, &gradient));
    muster_driver_options options;
    muster_driver *driver;
    muster_driver_options_init(&options);
    options.init_delay = 50; /* steps alone; then the server takes worker 0's x */
    options.update_frequency = 10;
    MUSTER_TRY(muster_easgd_create(w, j->server, &options, &driver));
    muster_status status = MUSTER_OK;
    for (int64_t step = 0; step < 1000 && status == MUSTER_OK; step++) {
        status = my_gradient(w, in[0], x, gradient);
        if (status == MUSTER_OK) status = muster_driver_step(driver, w, step, &x, NULL, 1, NULL);
        if (status == MUSTER_OK) status = muster_axpy(w, -0.1, gradient, x);
    }
    muster_status ended = muster_driver_destroy(driver); /* waits for the last sends */
    return status != MUSTER_OK ? status : ended;
}
/* end of snippet */

static void run(int64_t count) {
    float x[N][K], start[K] = {0}, result[K];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < K; k++)
            x[i][k] = (float)(k + 1); /* so that every part has the same mean */
    muster_runtime *rt = docs_open();
    const muster_tensor rows = muster_f32(x, count, K);
    /* snippet: program */
    job j;
    muster_function *f;
    muster_client *client;
    check(muster_variable_create(rt, "parameters", muster_f32(start, K), &j.parameters));
    check(muster_server_create_from(rt, "parameters", &j.parameters, 1, NULL, &j.server));
    check(muster_function_create(rt, "train", train, &j, &f));
    check(muster_function_input(f, "rows", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_variable(f, j.parameters, MUSTER_USE_READ_WRITE));
    check(muster_function_set_runs_without_rows(f, 1));      /* the drivers wait for all workers */
    check(muster_function_call(f, &rows, 1, NULL, 0, NULL)); /* one long call */

    check(muster_client_open(j.server, &client));
    check(muster_client_receive(client, 0, muster_f32(result, K),
                                NULL)); /* what the server holds now */
    check(muster_client_close(client));
    /* end of snippet */
    /* Workers without rows only follow the server, and hold it back as long as they run: how near
     * it comes to the mean depends on who ends last. */
    const int all_have_rows = count >= muster_runtime_size(rt);
    for (int k = 0; k < K; k++)
        EXPECT(fabsf(result[k] - (float)(k + 1)) < (all_have_rows ? 0.1f : (float)(k + 1)));
    check(muster_runtime_close(rt));
}

int main(void) {
    run(N);
    run(1); /* fewer rows than devices */
    return 0;
}
