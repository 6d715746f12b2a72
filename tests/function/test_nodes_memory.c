/* A lack of memory in one process of a call, at every allocation of it, or a copy of a device that
 * fails there, where inputs or outputs are too large for the rounds and travel outside of them: all
 * processes return the same error, none waits for data that never come, and the next call is
 * right. The processes are threads with runtimes of their own; numbers are small integers, so that
 * sums are exact. */
#include "base_await.h"
#include "device_discrete.h"
#include "memory_impl.h"
#include "muster/function.h"
#include "nodes/slabs_private.h"
#include "runtime_impl.h"
#include "runtime_launch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* WIDE: a row of so many f32 is larger than a round. MANY: outputs that have more weights together
 * than a round has room for. */
enum { PROCESSES = 2, ROWS = 4, WIDE = 1100, MANY = 9, MOST_OUTPUTS = MANY, MOST_ALLOCATIONS = 2000 };

typedef struct memory_case memory_case;
struct memory_case {
    const char *name;
    int32_t shards; /* logical ones; 0: none */
    muster_source source;
    bool broadcast, strided_input, listed, single;
    muster_collect_mode collected;
    muster_target target;
    bool strided_output;
    bool moves; /* rank 0 gives one row more than it has, and rank 2 one less, so that those of rank 1 move */
    int32_t outputs;
    int32_t columns; /* of the input and of the outputs */
};

static const memory_case cases[] = {
    {"a large sum", .collected = MUSTER_SUM, .outputs = 2, .columns = WIDE},
    {"a large sum into every second element", .collected = MUSTER_SUM, .strided_output = true, .outputs = 1, .columns = WIDE},
    {"a large average", .collected = MUSTER_AVG, .strided_output = true, .outputs = 1, .columns = WIDE},
    {"a large value of the master", .collected = MUSTER_MASTER, .strided_output = true, .outputs = 1, .columns = WIDE},
    {"a large sum of shards", .shards = 4, .collected = MUSTER_SUM, .outputs = 1, .columns = WIDE},
    {"many weights", .shards = 128, .collected = MUSTER_AVG, .outputs = MANY, .columns = 1},
    {"rows", .collected = MUSTER_GATHER, .outputs = 1, .columns = WIDE},
    {"rows into every second element", .collected = MUSTER_GATHER, .strided_output = true, .outputs = 1, .columns = WIDE},
    {"rows for process 0", .collected = MUSTER_GATHER, .target = MUSTER_TARGET_MASTER, .outputs = 1, .columns = WIDE},
    {"rows for every second element of process 0", .collected = MUSTER_GATHER, .target = MUSTER_TARGET_MASTER, .strided_output = true,
     .outputs = 1, .columns = WIDE},
    {"rows that move", .collected = MUSTER_GATHER, .moves = true, .outputs = 1, .columns = WIDE},
    {"strided rows of process 0", .source = MUSTER_SOURCE_MASTER, .strided_input = true, .collected = MUSTER_SUM, .outputs = 1,
     .columns = WIDE},
    {"listed rows of process 0", .source = MUSTER_SOURCE_MASTER, .listed = true, .collected = MUSTER_SUM, .outputs = 1, .columns = WIDE},
    {"a strided tensor of process 0", .source = MUSTER_SOURCE_MASTER, .broadcast = true, .strided_input = true, .collected = MUSTER_SUM,
     .outputs = 1, .columns = WIDE},
    {"a large output of a single call", .single = true, .collected = MUSTER_SUM, .strided_output = true, .outputs = 1, .columns = WIDE},
};
enum { CASES = sizeof cases / sizeof *cases };

static await_barrier barrier;
static _Atomic int checked;
static _Atomic int64_t allocations, counted; /* of the call; before it */
static muster_status statuses[MOST_ALLOCATIONS][PROCESSES];

static float value_at(int64_t row, int64_t column) { return (float)((row * 5 + column) % 7 - 2); }

static muster_status give_moved_rows(muster_worker *worker, const memory_case *c, int64_t rows) {
    static const int64_t more[] = {1, 0, -1}, first[] = {0, 2, 3};
    const int32_t rank = muster_worker_rank(worker);
    muster_tensor own;
    MUSTER_TRY(muster_worker_output_rows(worker, 0, rows + more[rank], &own));
    for (int64_t row = 0; row < rows + more[rank]; row++)
        for (int64_t column = 0; column < c->columns; column++)
            ((float *)muster_tensor_address(own))[row * c->columns + column] = value_at(first[rank] + row, column);
    return MUSTER_OK;
}

/* Gathered: its rows, else the sum of its rows. An average of shards without weights of their own
 * weighs rows. */
static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const memory_case *c = user;
    if (c->moves) return give_moved_rows(worker, c, in[0].shape[0]);
    for (int32_t o = 0; o < c->outputs; o++) {
        float *to = muster_tensor_address(out[o]);
        for (int64_t column = 0; column < c->columns; column++) {
            if (c->collected != MUSTER_GATHER) to[column] = 0;
            for (int64_t row = 0; row < in[0].shape[0]; row++) {
                muster_tensor at = muster_tensor_slice(in[0], row, row + 1);
                const float value = ((const float *)muster_tensor_address(at))[column * at.strides[1]];
                if (c->collected == MUSTER_GATHER)
                    to[row * out[o].strides[0] + column * out[o].strides[1]] = value;
                else
                    to[column] += c->collected == MUSTER_AVG ? value / (float)in[0].shape[0] : value;
            }
            if (c->broadcast && c->collected == MUSTER_SUM && muster_worker_rank(worker) > 0) to[column] = 0;
        }
    }
    return MUSTER_OK;
}

static int64_t rows_of(const memory_case *c) { return c->shards > ROWS ? c->shards : ROWS; }

/* What the call gives, by loops. */
static float expected(const memory_case *c, int64_t row, int64_t column) {
    const int64_t rows = rows_of(c), last = c->collected == MUSTER_MASTER ? rows / PROCESSES : rows;
    double sum = 0;
    for (int64_t r = 0; r < last; r++) sum += value_at(r, column);
    return c->collected == MUSTER_GATHER ? value_at(row, column) : (float)(c->collected == MUSTER_AVG ? sum / (double)rows : sum);
}

typedef struct memory_call {
    const memory_case *c;
    float *x, *y[MOST_OUTPUTS];
    int64_t indices[ROWS];
    muster_tensor in[1], out[MOST_OUTPUTS];
    muster_call_options options;
} memory_call;

/* Every second element, or every one. */
static muster_tensor tensor_of(float *data, int32_t ndim, int64_t rows, int64_t columns, bool strided) {
    muster_tensor tensor = muster_tensor_make(MUSTER_F32, data, ndim, ndim == 1 ? (int64_t[]){columns} : (int64_t[]){rows, columns});
    for (int32_t d = 0; strided && d < ndim; d++) tensor.strides[d] *= 2;
    return tensor;
}

static void prepare(const memory_case *c, int32_t process, memory_call *m) {
    const int64_t rows = rows_of(c), step = c->strided_input ? 2 : 1;
    *m = (memory_call){.c = c, .x = calloc((size_t)(rows * c->columns * 2), sizeof(float))};
    muster_call_options_init(&m->options);
    for (int64_t r = 0; r < rows; r++) /* a list takes them in the opposite order */
        for (int64_t column = 0; column < c->columns; column++)
            m->x[((c->listed ? rows - 1 - r : r) * c->columns + column) * step] = value_at(r, column);
    m->in[0] =
        c->source == MUSTER_SOURCE_MASTER && process > 0 ? muster_tensor_none() : tensor_of(m->x, 2, rows, c->columns, c->strided_input);
    for (int64_t r = 0; r < ROWS; r++) m->indices[r] = ROWS - 1 - r;
    if (c->listed) m->options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = m->indices, .index_count = ROWS};
    for (int32_t o = 0; o < c->outputs; o++) {
        const bool gathered = c->collected == MUSTER_GATHER;
        m->y[o] = calloc((size_t)(2 * rows * c->columns), sizeof(float));
        m->out[o] = c->target == MUSTER_TARGET_MASTER && process > 0
                        ? muster_tensor_none()
                        : tensor_of(m->y[o], gathered ? 2 : 1, rows, c->columns, c->strided_output);
    }
}

static void release(memory_call *m) {
    free(m->x);
    for (int32_t o = 0; o < m->c->outputs; o++) free(m->y[o]);
}

static muster_status make(muster_runtime *runtime, const memory_case *c, muster_function **f) {
    char name[16];
    MUSTER_TRY(muster_function_create(runtime, "lacks memory", body, (void *)(uintptr_t)c, f));
    MUSTER_TRY(muster_function_input(*f, "x", MUSTER_F32, 2, c->broadcast ? MUSTER_BROADCAST : MUSTER_SCATTER));
    for (int32_t o = 0; o < c->outputs; o++) {
        snprintf(name, sizeof name, "y%d", (int)o);
        MUSTER_TRY(muster_function_output(*f, name, MUSTER_F32, c->collected == MUSTER_GATHER ? 2 : 1, c->collected));
        if (c->target) MUSTER_TRY(muster_function_set_target(*f, name, c->target));
    }
    return c->source ? muster_function_set_source(*f, "x", c->source) : MUSTER_OK;
}

static muster_status call(muster_function *f, memory_call *m) {
    if (m->c->single) return muster_function_call_single(f, m->in, 1, m->out, m->c->outputs, NULL);
    return muster_function_call(f, m->in, 1, m->out, m->c->outputs, &m->options);
}

static bool is_right(const memory_call *m, int32_t process) {
    const memory_case *c = m->c;
    if (c->target == MUSTER_TARGET_MASTER && process > 0) return true;
    for (int32_t o = 0; o < c->outputs; o++) {
        for (int64_t row = 0; row < (c->collected == MUSTER_GATHER ? rows_of(c) : 1); row++) {
            for (int64_t column = 0; column < c->columns; column++) {
                const int64_t at = (row * c->columns + column) * (c->strided_output ? 2 : 1);
                const float difference = m->y[o][at] - expected(c, row, column);
                if (difference > 1e-4f || difference < -1e-4f) return false;
            }
        }
    }
    return true;
}

/* Every allocation; of very many the first and the last ones, and some between them. */
static int64_t after(int64_t k) {
    enum { FIRST = 30, LAST = 60, STEP = 37 };
    return k < FIRST || k + STEP > allocations - LAST ? k + 1 : k + STEP;
}

static void lack_memory(launch_process *p, muster_runtime *runtime, memory_call *m) {
    for (int64_t k = 0; k == 0 || k <= allocations; k = after(k)) { /* 0: none fails, and they are counted */
        muster_function *f;
        launch_ok(p, make(runtime, m->c, &f));
        await_barrier_wait(&barrier);
        if (p->process == 0) mst_memory_fail_at(k);
        if (p->process == 0) counted = mst_memory_count();
        await_barrier_wait(&barrier);
        const muster_status status = call(f, m);
        await_barrier_wait(&barrier);
        if (p->process == 0 && k == 0) allocations = mst_memory_count() - counted;
        if (p->process == 0) mst_memory_fail_at(0);
        await_barrier_wait(&barrier);
        launch_check(p, allocations < MOST_ALLOCATIONS);
        statuses[k][p->process] = status;
        launch_ok(p, call(f, m));
        if (!is_right(m, p->process)) launch_fail(p, "%s: wrong after allocation %d", m->c->name, (int)k);
        launch_ok(p, muster_function_destroy(f));
        atomic_fetch_add(&checked, 1);
    }
}

static void run_process(launch_process *p) {
    const memory_case *c = p->context;
    muster_runtime_options options = launch_options(c->moves && p->process == 1 ? "host:2" : "host:1");
    options.logical_shards = c->shards;
    options.fail_after_ns = test_patience(2000000000);
    options.on_lost = MUSTER_LOST_ERROR;
    options.no_pinning = 1;
    muster_runtime *runtime;
    memory_call m;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    prepare(c, p->process, &m);
    lack_memory(p, runtime, &m);
    release(&m);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

static void test_a_lack_of_memory_beside_the_rounds(void **state) {
    (void)state;
    int failures = 0;
    barrier = (await_barrier){.threads = PROCESSES};
    for (int i = 0; i < CASES; i++) {
        const int64_t live = mst_memory_live() - mst_slabs_kept();
        checked = 0;
        allocations = 0;
        launch_run(&(wire_launch_options){.processes = PROCESSES}, run_process, (void *)(uintptr_t)&cases[i]);
        mst_memory_fail_at(0);
        assert_true(allocations > 3);
        int64_t expected_calls = 0;
        for (int64_t k = 0; k <= allocations; k = after(k), expected_calls += PROCESSES) {
            for (int32_t p = 0; p < PROCESSES; p++) {
                if (statuses[k][p] == statuses[k][0] && (statuses[k][p] == MUSTER_OK || (k && statuses[k][p] == MUSTER_OUT_OF_MEMORY)))
                    continue;
                fail_msg("%s: allocation %d: %s in process %d", cases[i].name, (int)k, muster_status_name(statuses[k][p]), (int)p);
            }
            failures += statuses[k][0] == MUSTER_OUT_OF_MEMORY;
        }
        assert_int_equal(checked, expected_calls);
        assert_int_equal(mst_memory_live() - mst_slabs_kept(), live);
    }
    assert_true(failures > 5 * CASES);
}

/* ---- copies to devices ---- */

enum { DEVICE_ROWS = 6, MOST_COPIES = 60, SLOW_COPY_NS = 800000000 };

/* The memory of process 1's device, where one copy fails. */
static mst_device_memory_table planted;
static const mst_device_memory_table *real;
static _Atomic int64_t copies_left; /* until the one that fails; negative: none does */

static _Atomic int64_t copy_ns; /* that each takes */

static muster_status fails_now(void) {
    const struct timespec time = {.tv_nsec = copy_ns};
    if (copy_ns) nanosleep(&time, NULL);
    if (atomic_load(&copies_left) < 0 || atomic_fetch_sub(&copies_left, 1) != 0) return MUSTER_OK;
    return mst_error(MUSTER_SYSTEM, "a planted failure of a copy");
}

static muster_status copy_in(mst_device *device, void *to, const void *from, int64_t bytes) {
    MUSTER_TRY(fails_now());
    return real->copy_in(device, to, from, bytes);
}

static muster_status copy_out(mst_device *device, void *to, const void *from, int64_t bytes) {
    MUSTER_TRY(fails_now());
    return real->copy_out(device, to, from, bytes);
}

static muster_status copy(mst_device *device, void *to, const void *from, int64_t bytes) {
    MUSTER_TRY(fails_now());
    return real->copy(device, to, from, bytes);
}

/* out: the rows, and one large value of each rank. */
static muster_status device_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    MUSTER_TRY(muster_copy(worker, in[0], out[0]));
    return muster_fill(worker, muster_worker_rank(worker) + 1, out[1]);
}

static muster_status make_device_function(muster_runtime *runtime, muster_function **f) {
    MUSTER_TRY(muster_function_create(runtime, "on devices", device_body, NULL, f));
    MUSTER_TRY(muster_function_input(*f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_output(*f, "rows", MUSTER_F32, 2, MUSTER_GATHER));
    return muster_function_output(*f, "sum", MUSTER_F32, 1, MUSTER_SUM);
}

typedef struct device_call {
    muster_tensor in, out[2], rows, sum; /* rows, sum: in host memory */
    float x[DEVICE_ROWS * WIDE], y[DEVICE_ROWS * WIDE], total[WIDE];
} device_call;

static muster_status prepare_device_call(muster_runtime *runtime, device_call *d) {
    static const int64_t shape[] = {DEVICE_ROWS, WIDE}, columns = WIDE;
    for (int64_t i = 0; i < DEVICE_ROWS * WIDE; i++) d->x[i] = value_at(i / WIDE, i % WIDE);
    d->in = muster_tensor_make(MUSTER_F32, d->x, 2, shape);
    d->rows = muster_tensor_make(MUSTER_F32, d->y, 2, shape);
    d->sum = muster_tensor_make(MUSTER_F32, d->total, 1, &columns);
    MUSTER_TRY(muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 2, shape, &d->out[0]));
    return muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 1, &columns, &d->out[1]);
}

static muster_status device_results_are_right(muster_runtime *runtime, device_call *d) {
    MUSTER_TRY(muster_runtime_tensor_copy(runtime, d->out[0], d->rows));
    MUSTER_TRY(muster_runtime_tensor_copy(runtime, d->out[1], d->sum));
    bool right = memcmp(d->x, d->y, sizeof d->x) == 0;
    for (int64_t i = 0; i < WIDE; i++) right = right && d->total[i] == 1 + 2;
    return right ? MUSTER_OK : muster_fail(MUSTER_USER, "wrong results");
}

static void fail_copies(launch_process *p, muster_runtime *runtime, device_call *d) {
    for (int k = 0; k == 0 || statuses[k - 1][p->process] != MUSTER_OK; k++) { /* until none fails */
        muster_function *f;
        launch_check(p, k < MOST_COPIES);
        launch_ok(p, make_device_function(runtime, &f));
        launch_ok(p, muster_function_call(f, &d->in, 1, d->out, 2, NULL));
        if (p->process == 1) copies_left = k;
        statuses[k][p->process] = muster_function_call(f, &d->in, 1, d->out, 2, NULL);
        if (statuses[k][p->process] != MUSTER_OK) launch_check(p, strstr(muster_last_error(), "a planted failure of a copy"));
        if (p->process == 1) copies_left = -1;
        launch_ok(p, muster_function_call(f, &d->in, 1, d->out, 2, NULL));
        launch_ok(p, device_results_are_right(runtime, d));
        launch_ok(p, muster_function_destroy(f));
        atomic_fetch_add(&checked, 1);
    }
}

/* Its copies take longer than the call may wait for a process. */
static void copy_slowly(launch_process *p, muster_runtime *runtime, device_call *d) {
    muster_call_options options;
    muster_function *f;
    muster_call_options_init(&options);
    options.fail_after_ns = SLOW_COPY_NS / 8;
    launch_ok(p, make_device_function(runtime, &f));
    if (p->process == 1) copy_ns = SLOW_COPY_NS;
    launch_ok(p, muster_function_call(f, &d->in, 1, d->out, 2, &options));
    if (p->process == 1) copy_ns = 0;
    launch_ok(p, device_results_are_right(runtime, d));
    atomic_fetch_add(&checked, 1);
}

static void run_device_process(launch_process *p) {
    const bool slow = p->context;
    muster_runtime_options options = launch_options("discrete:1");
    options.fail_after_ns = slow ? 60000000000 : 2000000000;
    options.on_lost = MUSTER_LOST_ERROR;
    options.no_pinning = 1;
    muster_runtime *runtime;
    device_call *d = calloc(1, sizeof *d);
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, prepare_device_call(runtime, d));
    if (p->process == 1) {
        real = runtime->devices[0]->memory;
        planted = *real;
        planted.copy_in = copy_in;
        planted.copy_out = copy_out;
        planted.copy = copy;
        runtime->devices[0]->memory = &planted;
    }
    if (slow)
        copy_slowly(p, runtime, d);
    else
        fail_copies(p, runtime, d);
    for (int o = 0; o < 2; o++) muster_runtime_tensor_destroy(runtime, d->out[o]);
    free(d);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

static void test_a_copy_to_a_device_fails_in_one_process(void **state) {
    (void)state;
    int failures = 0;
    checked = 0;
    copies_left = -1;
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    launch_run(&(wire_launch_options){.processes = PROCESSES}, run_device_process, NULL);
    for (; statuses[failures][0] != MUSTER_OK; failures++) assert_int_equal(statuses[failures][0], statuses[failures][1]);
    print_message("%d copies\n", failures);
    assert_true(failures >= 5); /* two of the run, and three of the outputs: rows out, all rows in, the sum */
    assert_int_equal(checked, PROCESSES * (failures + 1));
}

static void test_slow_copies_lose_nobody(void **state) {
    (void)state;
    checked = 0;
    copies_left = -1;
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    launch_run(&(wire_launch_options){.processes = PROCESSES}, run_device_process, &checked);
    assert_int_equal(checked, PROCESSES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lack_of_memory_beside_the_rounds),
        cmocka_unit_test(test_a_copy_to_a_device_fails_in_one_process),
        cmocka_unit_test(test_slow_copies_lose_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
