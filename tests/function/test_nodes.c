/* Calls that several processes make together: rows, outputs, sources and targets, refusals and
 * failures. The processes are threads with runtimes of their own; numbers are small integers, so
 * that every sum is exact and the loops here are the oracle. */
#include "muster/communicator.h"
#include "muster/function.h"
#include "runtime_launch.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 3, LARGE = 5000, ROWS_MOST = 40 };

static const char *const arrangements[] = {"host:1 host:1", "host:2 host:1", "host:1 host:3", "host:2 host:2", "host:1 host:1 host:1"};
enum { ARRANGEMENTS = sizeof arrangements / sizeof *arrangements };

static _Atomic int checked;
static void count_checked(void) { atomic_fetch_add(&checked, 1); }

/* ---- the processes ---- */

/* What one process does, with its runtime open. */
typedef void (*session_body)(launch_process *p, muster_runtime *runtime);
typedef struct session {
    const char *devices; /* of the processes, by spaces: "host:2 host:1" */
    int32_t shards;      /* logical ones; 0: none */
    void *user;
    session_body body;
} session;

static int32_t count_processes(const char *devices) {
    int32_t count = 1;
    for (const char *c = devices; *c; c++) count += *c == ' ';
    return count;
}

static void run_process(launch_process *p) {
    const session *s = p->context;
    char devices[16] = "";
    const char *at = s->devices;
    for (int32_t skipped = 0; skipped < p->process; at++) skipped += *at == ' ';
    memcpy(devices, at, strcspn(at, " "));
    muster_runtime_options options = launch_options(devices);
    options.logical_shards = s->shards;
    options.no_pinning = 1;
    muster_runtime *runtime;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    s->body(p, runtime);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

static void run(session *s, session_body body) {
    s->body = body;
    launch_run(&(wire_launch_options){.processes = count_processes(s->devices)}, run_process, s);
}

/* ---- what they compute ---- */

static float value_at(int64_t row, int64_t column) { return (float)((row * 7 + column * 3) % 11 - 4); }

static int32_t ranks_of(const char *devices) {
    int32_t ranks = 0;
    for (const char *c = strchr(devices, ':'); c; c = strchr(c + 1, ':')) ranks += c[1] - '0';
    return ranks;
}

/* out: sum, max, min [COLUMNS] of the rows; their mean; twice the rows; the master's number of
 * rows; a large sum of the first column. */
static muster_status statistics(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t rows = in[0].shape[0];
    const float *x = muster_tensor_address(in[0]), *w = muster_tensor_address(in[1]);
    float *of[4];
    (void)user;
    if (rows != muster_worker_rows(worker)) return MUSTER_INTERNAL;
    for (int m = 0; m < 4; m++) of[m] = muster_tensor_address(out[m]);
    for (int64_t c = 0; c < COLUMNS; c++) {
        of[0][c] = 0, of[1][c] = -INFINITY, of[2][c] = INFINITY, of[3][c] = 0;
        for (int64_t r = 0; r < rows; r++) {
            const float value = x[r * COLUMNS + c] * w[c];
            of[0][c] += value;
            of[1][c] = value > of[1][c] ? value : of[1][c];
            of[2][c] = value < of[2][c] ? value : of[2][c];
            of[3][c] += value / (float)rows;
        }
    }
    float *twice = muster_tensor_address(out[4]), *master = muster_tensor_address(out[5]), *large = muster_tensor_address(out[6]);
    for (int64_t i = 0; out[4].dtype && i < rows * COLUMNS; i++) twice[i] = 2 * x[i];
    if (out[5].dtype) master[0] = (float)rows;
    for (int64_t i = 0; out[6].dtype && i < LARGE; i++) {
        large[i] = (float)(i % 5);
        for (int64_t r = 0; r < rows; r++) large[i] += x[r * COLUMNS];
    }
    return MUSTER_OK;
}

static muster_status make_statistics(muster_runtime *runtime, muster_function **f) {
    const muster_port ports[] = {{MUSTER_PORT_INPUT, MUSTER_SCATTER, "x", MUSTER_F32, 2, NULL},
                                 {MUSTER_PORT_INPUT, MUSTER_BROADCAST, "w", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_SUM, "sum", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_MAX, "max", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_MIN, "min", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_AVG, "mean", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_GATHER, "twice", MUSTER_F32, 2, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_MASTER, "master", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_SUM, "large", MUSTER_F32, 1, NULL}};
    const muster_status status = muster_function_create(runtime, "statistics", statistics, NULL, f);
    return status ? status : muster_function_describe(*f, ports, sizeof ports / sizeof *ports);
}

typedef struct results {
    float sum[COLUMNS], max[COLUMNS], min[COLUMNS], mean[COLUMNS], twice[ROWS_MOST * COLUMNS], master[1], large[LARGE];
} results;

static void result_tensors(results *r, int64_t twice_rows, muster_tensor out[7]) {
    out[0] = muster_tensor_make(MUSTER_F32, r->sum, 1, (int64_t[]){COLUMNS});
    out[1] = muster_tensor_make(MUSTER_F32, r->max, 1, (int64_t[]){COLUMNS});
    out[2] = muster_tensor_make(MUSTER_F32, r->min, 1, (int64_t[]){COLUMNS});
    out[3] = muster_tensor_make(MUSTER_F32, r->mean, 1, (int64_t[]){COLUMNS});
    out[4] = muster_tensor_make(MUSTER_F32, r->twice, 2, (int64_t[]){twice_rows, COLUMNS});
    out[5] = muster_tensor_make(MUSTER_F32, r->master, 1, (int64_t[]){1});
    out[6] = muster_tensor_make(MUSTER_F32, r->large, 1, (int64_t[]){LARGE});
}

static void fill_rows(float *x, int64_t first, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < COLUMNS; c++) x[r * COLUMNS + c] = value_at(first + r, c);
}

static const float weights[COLUMNS] = {1, 2, -1};

/* Of rows [0, n), by loops. */
static bool totals_are_right(const results *r, int64_t n, int32_t ranks, int64_t master_rows) {
    const int64_t contributors = n < ranks ? n : ranks;
    for (int64_t c = 0; c < COLUMNS; c++) {
        double sum = 0, max = -INFINITY, min = INFINITY;
        for (int64_t row = 0; row < n; row++) {
            const double value = (double)value_at(row, c) * weights[c];
            sum += value;
            max = value > max ? value : max;
            min = value < min ? value : min;
        }
        if (r->sum[c] != (float)sum || r->max[c] != (float)max || r->min[c] != (float)min) return false;
        if (fabs(r->mean[c] - sum / (double)n) > 1e-5) return false;
    }
    double first = 0;
    for (int64_t row = 0; row < n; row++) first += value_at(row, 0);
    for (int64_t i = 0; i < LARGE; i++)
        if (r->large[i] != (float)(first + (double)contributors * (double)(i % 5))) return false;
    return r->master[0] == (float)master_rows;
}

static bool rows_are_twice(const float *twice, int64_t first, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            if (twice[r * COLUMNS + c] != 2 * value_at(first + r, c)) return false;
    return true;
}

/* ---- every process passes everything ---- */

typedef struct whole_case {
    int64_t rows;
    int32_t ranks;
} whole_case;

static void call_with_whole_tensors(launch_process *p, muster_runtime *runtime) {
    const whole_case *c = ((const session *)p->context)->user;
    muster_function *f;
    float x[ROWS_MOST * COLUMNS];
    static _Thread_local results r;
    muster_tensor out[7];
    fill_rows(x, 0, c->rows);
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F32, x, 2, (int64_t[]){c->rows, COLUMNS}),
                                muster_tensor_make(MUSTER_F32, (void *)weights, 1, (int64_t[]){COLUMNS})};
    result_tensors(&r, c->rows, out);
    launch_check(p, muster_runtime_size(runtime) == c->ranks);
    launch_ok(p, make_statistics(runtime, &f));
    for (int repeat = 0; repeat < 3; repeat++) {
        memset(&r, 0xff, sizeof r);
        launch_ok(p, muster_function_call(f, in, 2, out, 7, NULL));
        launch_check(p, totals_are_right(&r, c->rows, c->ranks, c->rows < c->ranks ? 1 : c->rows / c->ranks));
        launch_check(p, rows_are_twice(r.twice, 0, c->rows));
        count_checked();
    }
}

static void test_every_process_gets_the_same_results(void **state) {
    static const int64_t multiples[] = {1, 2, 7, 0, 0}, more[] = {0, 1, 2, 1, -1}; /* the last two: fewer rows than ranks */
    enum { SIZES = sizeof more / sizeof *more };
    (void)state;
    checked = 0;
    int expected = 0;
    for (int a = 0; a < ARRANGEMENTS; a++) {
        for (int m = 0; m < SIZES; m++) {
            const int64_t ranks = ranks_of(arrangements[a]);
            whole_case c = {multiples[m] * ranks + (more[m] < 0 ? ranks - 1 : more[m] % ranks), (int32_t)ranks};
            session s = {.devices = arrangements[a], .user = &c};
            run(&s, call_with_whole_tensors);
            expected += 3 * count_processes(s.devices);
        }
    }
    assert_int_equal(checked, expected);
}

/* ---- rows of each process's own ---- */

typedef struct own_case {
    int64_t rows[LAUNCH_PROCESSES];
    int32_t processes, ranks;
} own_case;

static int64_t rows_before(const own_case *c, int32_t process) {
    int64_t before = 0;
    for (int32_t p = 0; p < process; p++) before += c->rows[p];
    return before;
}

static void call_with_own_rows(launch_process *p, muster_runtime *runtime) {
    const own_case *c = ((const session *)p->context)->user;
    const int64_t first = rows_before(c, p->process), own = c->rows[p->process], all = rows_before(c, c->processes);
    muster_function *f;
    float x[ROWS_MOST * COLUMNS];
    static _Thread_local results r;
    muster_tensor out[7];
    fill_rows(x, first, own);
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F32, x, 2, (int64_t[]){own, COLUMNS}),
                                muster_tensor_make(MUSTER_F32, (void *)weights, 1, (int64_t[]){COLUMNS})};
    launch_ok(p, make_statistics(runtime, &f));
    launch_ok(p, muster_function_set_source(f, "x", MUSTER_SOURCE_OWN));
    launch_ok(p, muster_function_set_target(f, "twice", MUSTER_TARGET_OWN));
    result_tensors(&r, own, out);
    out[5] = muster_tensor_none(); /* process 0 may have no rows */
    out[6] = muster_tensor_none();
    memset(&r, 0xff, sizeof r);
    launch_ok(p, muster_function_call(f, in, 2, out, 7, NULL));
    launch_check(p, rows_are_twice(r.twice, first, own));
    double sum = 0;
    for (int64_t row = 0; row < all; row++) sum += value_at(row, 0);
    launch_check(p, r.sum[0] == (float)sum);
    launch_check(p, fabs(r.mean[0] - sum / (double)all) < 1e-5);
    count_checked();
}

static void test_rows_of_their_own(void **state) {
    static const int64_t rows[][3] = {{3, 4, 2}, {0, 5, 1}, {6, 0, 0}, {1, 1, 1}};
    (void)state;
    checked = 0;
    int expected = 0;
    for (int a = 0; a < ARRANGEMENTS; a++) {
        for (int k = 0; k < 4; k++) {
            own_case c = {.ranks = ranks_of(arrangements[a])};
            session s = {.devices = arrangements[a], .user = &c};
            c.processes = count_processes(s.devices);
            memcpy(c.rows, rows[k], sizeof rows[k]);
            if (rows_before(&c, c.processes) == 0) c.rows[0] = 1;
            run(&s, call_with_own_rows);
            expected += c.processes;
        }
    }
    assert_int_equal(checked, expected);
}

/* ---- what process 0 has ---- */

static void call_with_masters_rows(launch_process *p, muster_runtime *runtime) {
    const whole_case *c = ((const session *)p->context)->user;
    muster_function *f;
    float x[ROWS_MOST * COLUMNS];
    static _Thread_local results r;
    muster_tensor out[7];
    fill_rows(x, 0, c->rows);
    muster_tensor in[] = {muster_tensor_none(), muster_tensor_none()};
    launch_ok(p, make_statistics(runtime, &f));
    launch_ok(p, muster_function_set_source(f, "x", MUSTER_SOURCE_MASTER));
    launch_ok(p, muster_function_set_source(f, "w", MUSTER_SOURCE_MASTER));
    launch_ok(p, muster_function_set_target(f, "twice", MUSTER_TARGET_MASTER));
    launch_ok(p, muster_function_set_target(f, "large", MUSTER_TARGET_MASTER));
    result_tensors(&r, c->rows, out);
    if (p->process == 0) {
        in[0] = muster_tensor_make(MUSTER_F32, x, 2, (int64_t[]){c->rows, COLUMNS});
        in[1] = muster_tensor_make(MUSTER_F32, (void *)weights, 1, (int64_t[]){COLUMNS});
    } else {
        out[4] = out[6] = muster_tensor_none();
    }
    for (int repeat = 0; repeat < 2; repeat++) {
        memset(&r, 0xff, sizeof r);
        launch_ok(p, muster_function_call(f, in, 2, out, 7, NULL));
        if (p->process != 0) { /* what it does not get */
            for (int64_t i = 0; i < LARGE; i++) launch_check(p, isnan(r.large[i]));
            for (int64_t i = 0; i < LARGE; i++) {
                r.large[i] = 0;
                for (int64_t row = 0; row < c->rows; row++) r.large[i] += value_at(row, 0);
                r.large[i] += (float)(c->rows < c->ranks ? c->rows : c->ranks) * (float)(i % 5);
            }
        } else {
            launch_check(p, rows_are_twice(r.twice, 0, c->rows));
        }
        launch_check(p, totals_are_right(&r, c->rows, c->ranks, c->rows / c->ranks));
        count_checked();
    }
}

static void test_process_0_passes_and_gets(void **state) {
    (void)state;
    checked = 0;
    int expected = 0;
    for (int a = 0; a < ARRANGEMENTS; a++) {
        whole_case c = {5 * ranks_of(arrangements[a]), ranks_of(arrangements[a])};
        session s = {.devices = arrangements[a], .user = &c};
        run(&s, call_with_masters_rows);
        expected += 2 * count_processes(s.devices);
    }
    assert_int_equal(checked, expected);
}

/* ---- selections, numbers of rows, weights, single and asynchronous calls ---- */

/* out: the selected rows; each worker repeats its rank once more than its number. */
static muster_status copies(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const int32_t rank = muster_worker_rank(worker);
    muster_tensor own;
    (void)user;
    if (out[0].dtype && in[0].shape[0] > 0) {
        float *to = muster_tensor_address(out[0]), *from = muster_tensor_address(in[0]);
        for (int64_t i = 0; i < in[0].shape[0]; i++) to[i] = from[i];
    }
    if (!out[1].dtype) return MUSTER_OK;
    const muster_status status = muster_worker_output_rows(worker, 1, rank + 1, &own);
    if (status) return status;
    for (int32_t i = 0; i <= rank; i++) ((float *)muster_tensor_address(own))[i] = (float)rank;
    return muster_worker_set_weight(worker, rank + 0.5);
}

static muster_status make_copies(muster_runtime *runtime, muster_function **f) {
    const muster_port ports[] = {{MUSTER_PORT_INPUT, MUSTER_SCATTER, "x", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_GATHER, "y", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_GATHER, "ranks", MUSTER_F32, 1, NULL}};
    const muster_status status = muster_function_create(runtime, "copies", copies, NULL, f);
    return status ? status : muster_function_describe(*f, ports, 3);
}

enum { CHOSEN = 9 };

/* Rows CHOSEN of 20 by a list; what rank r repeats r + 1 times; the weights of all ranks. */
static void check_copies(launch_process *p, muster_runtime *runtime, muster_source source, muster_target target) {
    static const int64_t indices[CHOSEN] = {3, 19, 0, 0, 7, 11, 2, 18, 5};
    const int32_t ranks = muster_runtime_size(runtime);
    const int64_t repeated = ranks * (ranks + 1) / 2;
    const bool gets = target == MUSTER_TARGET_ALL || p->process == 0, passes = source == MUSTER_SOURCE_ALL || p->process == 0;
    float x[20], y[CHOSEN], of[64];
    double given[8];
    muster_function *f;
    muster_call_options options;
    muster_pending *pending;
    for (int i = 0; i < 20; i++) x[i] = (float)i;
    muster_call_options_init(&options);
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = indices, .index_count = CHOSEN};
    launch_ok(p, make_copies(runtime, &f));
    launch_ok(p, muster_function_set_source(f, "x", source));
    launch_ok(p, muster_function_set_target(f, "y", target));
    launch_ok(p, muster_function_set_target(f, "ranks", target));
    const muster_tensor in[] = {passes ? muster_tensor_make(MUSTER_F32, x, 1, (int64_t[]){20}) : muster_tensor_none()};
    const muster_tensor out[] = {gets ? muster_tensor_make(MUSTER_F32, y, 1, (int64_t[]){CHOSEN}) : muster_tensor_none(),
                                 gets ? muster_tensor_make(MUSTER_F32, of, 1, (int64_t[]){repeated}) : muster_tensor_none()};
    for (int repeat = 0; repeat < 2; repeat++) {
        memset(y, 0xff, sizeof y);
        memset(of, 0xff, sizeof of);
        if (repeat) {
            launch_ok(p, muster_function_call_async(f, in, 1, out, 2, &options, &pending));
            launch_ok(p, muster_pending_wait(&pending));
        } else {
            launch_ok(p, muster_function_call(f, in, 1, out, 2, &options));
        }
        for (int i = 0; gets && i < CHOSEN; i++) launch_check(p, y[i] == (float)indices[i]);
        int64_t at = 0;
        for (int32_t r = 0; gets && r < ranks; r++)
            for (int32_t i = 0; i <= r; i++) launch_check(p, of[at++] == (float)r);
        count_checked();
    }
    launch_ok(p, muster_function_weights(f, ranks, given));
    for (int32_t r = 0; r < ranks; r++) launch_check(p, given[r] == r + 0.5);
    count_checked();
    if (source != MUSTER_SOURCE_ALL || target != MUSTER_TARGET_ALL) return;
    /* too few rows in the caller's tensor: refused by all, and the next call is right */
    muster_tensor few[] = {out[0], muster_tensor_slice(out[1], 0, repeated - 1)};
    launch_refused(p, muster_function_call(f, in, 1, few, 2, &options), MUSTER_SHAPE_MISMATCH, "the workers gave");
    launch_ok(p, muster_function_call(f, in, 1, out, 2, &options));
    count_checked();
}

static void copy_from_all_to_all(launch_process *p, muster_runtime *runtime) {
    check_copies(p, runtime, MUSTER_SOURCE_ALL, MUSTER_TARGET_ALL);
}
static void copy_from_master_to_all(launch_process *p, muster_runtime *runtime) {
    check_copies(p, runtime, MUSTER_SOURCE_MASTER, MUSTER_TARGET_ALL);
}
static void copy_from_all_to_master(launch_process *p, muster_runtime *runtime) {
    check_copies(p, runtime, MUSTER_SOURCE_ALL, MUSTER_TARGET_MASTER);
}
static void copy_from_master_to_master(launch_process *p, muster_runtime *runtime) {
    check_copies(p, runtime, MUSTER_SOURCE_MASTER, MUSTER_TARGET_MASTER);
}

static void test_selected_rows_and_numbers_of_rows(void **state) {
    static const session_body bodies[] = {copy_from_all_to_all, copy_from_master_to_all, copy_from_all_to_master,
                                          copy_from_master_to_master};
    (void)state;
    checked = 0;
    int expected = 0;
    for (int a = 0; a < ARRANGEMENTS; a++) {
        for (int b = 0; b < 4; b++) {
            session s = {.devices = arrangements[a]};
            run(&s, bodies[b]);
            expected += (b == 0 ? 4 : 3) * count_processes(s.devices);
        }
    }
    assert_int_equal(checked, expected);
}

static muster_status says_where(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    int32_t *to = muster_tensor_address(out[0]);
    (void)in, (void)user;
    to[0] = muster_worker_rank(worker), to[1] = muster_worker_size(worker), to[2] = (int32_t)muster_worker_first_row(worker);
    to[3] = (int32_t)muster_worker_total_rows(worker);
    return MUSTER_OK;
}

static muster_status adds_one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_variable *variable = user;
    muster_tensor from, to;
    MUSTER_TRY(muster_worker_variable(worker, variable, &from));
    MUSTER_TRY(muster_worker_update(worker, variable, &to));
    (void)in;
    ((float *)muster_tensor_address(to))[0] = ((float *)muster_tensor_address(from))[0] + 1;
    for (int64_t i = 0; i < LARGE; i++) ((float *)muster_tensor_address(out[0]))[i] = ((float *)muster_tensor_address(from))[0] + (float)i;
    return MUSTER_OK;
}

/* Process 0 runs a single call, as rank 0 of 1, and all get its outputs. */
static void make_a_single_call(launch_process *p, muster_runtime *runtime) {
    muster_function *f, *add;
    muster_variable *v;
    int32_t where[4];
    static _Thread_local float large[LARGE];
    float start = 5, value;
    const muster_tensor out[] = {muster_tensor_make(MUSTER_I32, where, 1, (int64_t[]){4})},
                        many[] = {muster_tensor_make(MUSTER_F32, large, 1, (int64_t[]){LARGE})};
    launch_ok(p, muster_function_create(runtime, "where", says_where, NULL, &f));
    launch_ok(p, muster_function_output(f, "where", MUSTER_I32, 1, MUSTER_MAX));
    launch_ok(p, muster_function_call_single(f, NULL, 0, out, 1, NULL));
    launch_check(p, where[0] == 0 && where[1] == 1 && where[2] == 0 && where[3] == 1);
    launch_ok(p, muster_function_call(f, NULL, 0, out, 1, NULL));
    const int32_t size = muster_runtime_size(runtime);
    launch_check(p, where[0] == size - 1 && where[1] == size && where[2] == size - 1 && where[3] == size);
    launch_ok(p, muster_variable_create(runtime, "v", muster_tensor_make(MUSTER_F32, &start, 1, (int64_t[]){1}), &v));
    launch_ok(p, muster_function_create(runtime, "add", adds_one, v, &add));
    launch_ok(p, muster_function_variable(add, v, MUSTER_USE_READ));
    launch_ok(p, muster_function_update(add, v, MUSTER_SUM));
    launch_ok(p, muster_function_output(add, "many", MUSTER_F32, 1, MUSTER_SUM));
    for (int call = 0; call < 2; call++) {
        memset(large, 0xff, sizeof large);
        launch_ok(p, muster_function_call_single(add, NULL, 0, many, 1, NULL));
        for (int64_t i = 0; i < LARGE; i++) launch_check(p, large[i] == start + (float)call + (float)i);
    }
    for (int32_t r = 0; r < size; r++) { /* only rank 0 has a new value */
        launch_ok(p, muster_variable_get(v, r, muster_tensor_make(MUSTER_F32, &value, 1, (int64_t[]){1})));
        launch_check(p, value == (r == 0 ? start + 2 : start));
    }
    count_checked();
}

static void test_single_calls(void **state) {
    (void)state;
    checked = 0;
    run(&(session){.devices = "host:2 host:1"}, make_a_single_call);
    assert_int_equal(checked, 2);
}

/* Twice x, its negative, and the number of its elements. */
static muster_status three_results(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const float *x = muster_tensor_address(in[0]);
    float *twice = muster_tensor_address(out[0]), *negative = muster_tensor_address(out[1]);
    (void)worker, (void)user;
    for (int64_t i = 0; i < in[0].shape[0]; i++) twice[i] = 2 * x[i], negative[i] = -x[i];
    *(int64_t *)muster_tensor_address(out[2]) = in[0].shape[0];
    return MUSTER_OK;
}

/* Each output of a single call arrives at its own address in every process, and nothing else is
 * written. */
static void make_a_single_call_with_three_outputs(launch_process *p, muster_runtime *runtime) {
    enum { COUNT = 6 };
    const muster_port ports[] = {{MUSTER_PORT_INPUT, MUSTER_BROADCAST, "x", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_SUM, "twice", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_SUM, "negative", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_MAX, "count", MUSTER_I64, 0, NULL}};
    muster_function *f;
    float x[COUNT] = {1, -2, 3, 0.5f, -8, 100}, twice[COUNT] = {0}, negative[COUNT] = {0};
    int64_t count = -1;
    const int64_t shape[] = {COUNT};
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F32, x, 1, shape)};
    const muster_tensor out[] = {muster_tensor_make(MUSTER_F32, twice, 1, shape), muster_tensor_make(MUSTER_F32, negative, 1, shape),
                                 muster_tensor_make(MUSTER_I64, &count, 0, NULL)};
    launch_ok(p, muster_function_create(runtime, "three", three_results, NULL, &f));
    launch_ok(p, muster_function_describe(f, ports, sizeof ports / sizeof *ports));
    for (int32_t call = 1; call <= 3; call++) {
        for (int32_t i = 0; i < COUNT; i++) x[i] *= (float)call;
        const float first = x[0];
        launch_ok(p, muster_function_call_single(f, in, 1, out, 3, NULL));
        launch_check(p, x[0] == first && count == COUNT);
        for (int32_t i = 0; i < COUNT; i++) launch_check(p, twice[i] == 2 * x[i] && negative[i] == -x[i]);
    }
    count_checked();
}

static void test_single_calls_with_several_outputs(void **state) {
    (void)state;
    for (int32_t a = 0; a < ARRANGEMENTS; a++) {
        checked = 0;
        run(&(session){.devices = arrangements[a]}, make_a_single_call_with_three_outputs);
        assert_int_equal(checked, count_processes(arrangements[a]));
    }
}

/* ---- the reproducible mode ---- */

enum { SHARDS = 4, UNEVEN_ROWS = 29 };

/* Sums whose bits depend on their order. */
static muster_status uneven_sums(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const float *x = muster_tensor_address(in[0]);
    float *sum = muster_tensor_address(out[0]), *mean = muster_tensor_address(out[1]), *large = muster_tensor_address(out[2]);
    (void)user, (void)worker;
    sum[0] = mean[0] = 0;
    for (int64_t r = 0; r < in[0].shape[0]; r++) sum[0] += x[r];
    mean[0] = sum[0] / (float)in[0].shape[0];
    for (int64_t i = 0; i < LARGE; i++) large[i] = sum[0] * (1 + (float)i / 7);
    return MUSTER_OK;
}

typedef struct uneven {
    float sum[1], mean[1], large[LARGE];
} uneven;

static muster_status call_uneven(muster_runtime *runtime, uneven *u) {
    const muster_port ports[] = {{MUSTER_PORT_INPUT, MUSTER_SCATTER, "x", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_SUM, "sum", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_AVG, "mean", MUSTER_F32, 1, NULL},
                                 {MUSTER_PORT_OUTPUT, MUSTER_SUM, "large", MUSTER_F32, 1, NULL}};
    float x[UNEVEN_ROWS];
    muster_function *f;
    for (int i = 0; i < UNEVEN_ROWS; i++) x[i] = sinf((float)i) * expf((float)(i % 9));
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F32, x, 1, (int64_t[]){UNEVEN_ROWS})};
    const muster_tensor out[] = {muster_tensor_make(MUSTER_F32, u->sum, 1, (int64_t[]){1}),
                                 muster_tensor_make(MUSTER_F32, u->mean, 1, (int64_t[]){1}),
                                 muster_tensor_make(MUSTER_F32, u->large, 1, (int64_t[]){LARGE})};
    muster_status status = muster_function_create(runtime, "uneven", uneven_sums, NULL, &f);
    if (!status) status = muster_function_describe(f, ports, 4);
    return status ? status : muster_function_call(f, in, 1, out, 3, NULL);
}

static uneven alone;

static void compare_uneven(launch_process *p, muster_runtime *runtime) {
    static _Thread_local uneven u;
    launch_ok(p, call_uneven(runtime, &u));
    launch_check(p, memcmp(&u, &alone, sizeof u) == 0);
    count_checked();
}

static void test_reproducible_bits(void **state) {
    static const char *const of_shards[] = {"host:2 host:2", "host:1 host:1", "host:1 host:1 host:1 host:1", "host:1 host:3", "host:1"};
    (void)state;
    checked = 0;
    muster_runtime *runtime;
    muster_runtime_options options = launch_options("host:1");
    options.logical_shards = SHARDS;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(call_uneven(runtime, &alone));
    assert_ok(muster_runtime_close(runtime));
    for (int a = 0; a < 4; a++) run(&(session){.devices = of_shards[a], .shards = SHARDS}, compare_uneven);
    assert_int_equal(checked, 2 + 2 + 4 + 2);
}

/* ---- halves ---- */

static muster_status large_halves(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(worker, 40000, out[0]);
}

/* 80000 is infinite as an f16: no process may add two of them in it. */
static void average_large_halves(launch_process *p, muster_runtime *runtime) {
    static const int64_t counts[] = {3, LARGE};
    muster_function *f;
    static _Thread_local uint16_t halves[LARGE];
    launch_ok(p, muster_function_create(runtime, "halves", large_halves, NULL, &f));
    launch_ok(p, muster_function_output(f, "mean", MUSTER_F16, 1, MUSTER_AVG));
    for (int k = 0; k < 2; k++) {
        const muster_tensor out[] = {muster_tensor_make(MUSTER_F16, halves, 1, &counts[k])};
        memset(halves, 0xff, sizeof halves);
        launch_ok(p, muster_function_call(f, NULL, 0, out, 1, NULL));
        for (int64_t i = 0; i < counts[k]; i++) launch_check(p, halves[i] == 0x78e2); /* 40000 */
        count_checked();
    }
}

static void test_averages_of_halves_do_not_overflow(void **state) {
    (void)state;
    checked = 0;
    run(&(session){.devices = "host:2 host:1 host:1"}, average_large_halves);
    assert_int_equal(checked, 3 * 2);
}

/* ---- the sign of zero ---- */

static muster_status fills_with_negative_zero(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(worker, -0.0, out[0]);
}

/* Processes without a row bring nothing to the sum, and not 0 either. */
static void sum_negative_zeros(launch_process *p, muster_runtime *runtime) {
    static const int64_t counts[] = {3, LARGE}, one = 1;
    static _Thread_local float sums[LARGE];
    float x = 1;
    muster_function *f;
    launch_ok(p, muster_function_create(runtime, "zeros", fills_with_negative_zero, NULL, &f));
    launch_ok(p, muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    launch_ok(p, muster_function_output(f, "sum", MUSTER_F32, 1, MUSTER_SUM));
    for (int k = 0; k < 2; k++) {
        const muster_tensor in[] = {muster_tensor_make(MUSTER_F32, &x, 1, &one)},
                            out[] = {muster_tensor_make(MUSTER_F32, sums, 1, &counts[k])};
        memset(sums, 0xff, sizeof sums);
        launch_ok(p, muster_function_call(f, in, 1, out, 1, NULL));
        for (int64_t i = 0; i < counts[k]; i++) launch_check(p, sums[i] == 0 && signbit(sums[i]));
        count_checked();
    }
}

static void test_sums_of_negative_zeros(void **state) {
    (void)state;
    checked = 0;
    run(&(session){.devices = "host:1 host:2 host:1"}, sum_negative_zeros);
    assert_int_equal(checked, 3 * 2);
}

/* ---- refusals and failures ---- */

static muster_status fails_on_the_last_rank(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const int *fails = user;
    (void)in, (void)out;
    if (*fails && muster_worker_rank(worker) == muster_worker_size(worker) - 1) return muster_fail(MUSTER_USER, "row 7 is wrong");
    return MUSTER_OK;
}

static void see_the_failure_everywhere(launch_process *p, muster_runtime *runtime) {
    muster_function *f;
    int fails = 1;
    char expected[64];
    launch_ok(p, muster_function_create(runtime, "fragile", fails_on_the_last_rank, &fails, &f));
    snprintf(expected, sizeof expected, "row 7 is wrong (rank %d)", (int)muster_runtime_size(runtime) - 1);
    launch_refused(p, muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_USER, expected);
    fails = 0;
    launch_ok(p, muster_function_call(f, NULL, 0, NULL, 0, NULL));
    count_checked();
}

static void test_a_failure_is_everybodys(void **state) {
    (void)state;
    checked = 0;
    int expected = 0;
    for (int a = 0; a < ARRANGEMENTS; a++) {
        session s = {.devices = arrangements[a]};
        run(&s, see_the_failure_everywhere);
        expected += count_processes(s.devices);
    }
    assert_int_equal(checked, expected);
}

enum { FAILING_ALLOCATIONS = 60 };
static muster_status of_allocation[FAILING_ALLOCATIONS][2];

/* The k-th allocation of a call fails, in whichever process makes it. */
static void lack_memory(launch_process *p, muster_runtime *runtime) {
    float x[6 * COLUMNS], twice[6 * COLUMNS];
    fill_rows(x, 0, 6);
    muster_tensor in[] = {muster_tensor_none(), muster_tensor_none()}, out[7];
    for (int i = 0; i < 7; i++) out[i] = muster_tensor_none();
    static _Thread_local results r;
    result_tensors(&r, 6, out);
    if (p->process == 0) {
        in[0] = muster_tensor_make(MUSTER_F32, x, 2, (int64_t[]){6, COLUMNS});
        in[1] = muster_tensor_make(MUSTER_F32, (void *)weights, 1, (int64_t[]){COLUMNS});
        out[4] = muster_tensor_make(MUSTER_F32, twice, 2, (int64_t[]){6, COLUMNS});
    } else {
        out[4] = muster_tensor_none();
    }
    for (int k = 0; k < FAILING_ALLOCATIONS; k++) {
        muster_function *f;
        launch_ok(p, make_statistics(runtime, &f));
        launch_ok(p, muster_function_set_source(f, "x", MUSTER_SOURCE_MASTER));
        launch_ok(p, muster_function_set_source(f, "w", MUSTER_SOURCE_MASTER));
        launch_ok(p, muster_function_set_target(f, "twice", MUSTER_TARGET_MASTER));
        double ready[8];
        launch_ok(p, muster_function_weights(f, muster_runtime_size(runtime), ready)); /* all are here */
        if (p->process == 0) mst_memory_fail_at(k + 1);
        of_allocation[k][p->process] = muster_function_call(f, in, 2, out, 7, NULL);
        launch_ok(p, muster_function_weights(f, muster_runtime_size(runtime), ready));
        if (p->process == 0) mst_memory_fail_at(0);
        launch_ok(p, muster_function_weights(f, muster_runtime_size(runtime), ready));
        launch_ok(p, muster_function_call(f, in, 2, out, 7, NULL));
        launch_ok(p, muster_function_destroy(f));
        count_checked();
    }
}

static void test_a_lack_of_memory_in_one_process_is_everybodys(void **state) {
    (void)state;
    checked = 0;
    run(&(session){.devices = "host:1 host:2"}, lack_memory);
    mst_memory_fail_at(0);
    int failed = 0;
    for (int k = 0; k < FAILING_ALLOCATIONS; k++) {
        assert_int_equal(of_allocation[k][0], of_allocation[k][1]);
        failed += of_allocation[k][0] == MUSTER_OUT_OF_MEMORY;
    }
    assert_true(failed > FAILING_ALLOCATIONS / 2);
    assert_int_equal(checked, 2 * FAILING_ALLOCATIONS);
}

static void make_different_calls(launch_process *p, muster_runtime *runtime) {
    muster_function *train, *test;
    int fails = 0;
    float x[4] = {1, 2, 3, 4};
    launch_ok(p, muster_function_create(runtime, "train", fails_on_the_last_rank, &fails, &train));
    launch_ok(p, muster_function_create(runtime, "test", fails_on_the_last_rank, &fails, &test));
    launch_ok(p, muster_function_input(test, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    const muster_tensor in = muster_tensor_make(MUSTER_F32, x, 1, (int64_t[]){p->process == 1 ? 3 : 4});
    /* another function */
    launch_refused(
        p, p->process == 1 ? muster_function_call(test, &in, 1, NULL, 0, NULL) : muster_function_call(train, NULL, 0, NULL, 0, NULL),
        MUSTER_INVALID_ARGUMENT, "is function 'test' (x 3) here and function 'train' in process 0");
    /* another shape */
    launch_refused(p, muster_function_call(test, &in, 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT, "function 'test' (x 3)");
    /* one process refuses */
    launch_refused(p, muster_function_call(train, NULL, p->process == 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT, "input_count");
    launch_ok(p, muster_function_call(train, NULL, 0, NULL, 0, NULL));
    count_checked();
}

static void test_different_calls_are_refused_by_all(void **state) {
    (void)state;
    checked = 0;
    run(&(session){.devices = "host:2 host:1"}, make_different_calls);
    assert_int_equal(checked, 2);
}

static void pass_other_values(launch_process *p, muster_runtime *runtime) {
    muster_function *f;
    int fails = 0;
    float x[4] = {1, 2, 3, p->process == 1 ? 5.0f : 4.0f};
    const muster_tensor in = muster_tensor_make(MUSTER_F32, x, 1, (int64_t[]){4});
    launch_ok(p, muster_function_create(runtime, "values", fails_on_the_last_rank, &fails, &f));
    launch_ok(p, muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    launch_refused(p, muster_function_call(f, &in, 1, NULL, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "the values of input 'x': expected the same as in process 0 (host host0), received others in process 1 (host host");
    x[3] = 4;
    launch_ok(p, muster_function_call(f, &in, 1, NULL, 0, NULL));
    count_checked();
}

static void test_other_values_are_refused_where_they_are_checked(void **state) {
    (void)state;
    checked = 0;
    assert_int_equal(setenv("MUSTER_CHECK", "1", 1), 0);
    run(&(session){.devices = "host:2 host:1"}, pass_other_values);
    unsetenv("MUSTER_CHECK");
    assert_int_equal(checked, 2);
}

static void refuse_sources(launch_process *p, muster_runtime *runtime) {
    muster_function *f;
    launch_ok(p, make_statistics(runtime, &f));
    launch_refused(p, muster_function_set_source(f, "y", MUSTER_SOURCE_OWN), MUSTER_INVALID_ARGUMENT, "expected an input of function");
    launch_refused(p, muster_function_set_source(f, "x", 3), MUSTER_INVALID_ARGUMENT, "received 3");
    launch_refused(p, muster_function_set_source(f, "x", -1), MUSTER_INVALID_ARGUMENT, "received -1");
    launch_refused(p, muster_function_set_source(f, "w", MUSTER_SOURCE_OWN), MUSTER_INVALID_ARGUMENT, "MUSTER_BROADCAST has no rows");
    launch_refused(p, muster_function_set_target(f, "x", MUSTER_TARGET_OWN), MUSTER_INVALID_ARGUMENT, "expected an output of function");
    launch_refused(p, muster_function_set_target(f, "sum", MUSTER_TARGET_OWN), MUSTER_INVALID_ARGUMENT,
                   "only an output of mode MUSTER_GATHER");
    launch_refused(p, muster_function_set_target(f, "sum", 3), MUSTER_INVALID_ARGUMENT, "received 3");
    count_checked();
}

static void test_sources_and_targets_are_checked(void **state) {
    (void)state;
    checked = 0;
    run(&(session){.devices = "host:1 host:1"}, refuse_sources);
    assert_int_equal(checked, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_process_gets_the_same_results),
        cmocka_unit_test(test_rows_of_their_own),
        cmocka_unit_test(test_process_0_passes_and_gets),
        cmocka_unit_test(test_selected_rows_and_numbers_of_rows),
        cmocka_unit_test(test_single_calls),
        cmocka_unit_test(test_single_calls_with_several_outputs),
        cmocka_unit_test(test_reproducible_bits),
        cmocka_unit_test(test_averages_of_halves_do_not_overflow),
        cmocka_unit_test(test_sums_of_negative_zeros),
        cmocka_unit_test(test_a_failure_is_everybodys),
        cmocka_unit_test(test_a_lack_of_memory_in_one_process_is_everybodys),
        cmocka_unit_test(test_other_values_are_refused_where_they_are_checked),
        cmocka_unit_test(test_different_calls_are_refused_by_all),
        cmocka_unit_test(test_sources_and_targets_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
