/* Functions see the parts of split variables, whose shapes differ from device to device: read,
 * written in place, updated, with several slices, in single calls and in the reproducible mode. */
#include "base_check.h"
#include "device_discrete.h"
#include "muster/function.h"
#include "runtime_processes.h"

static const char *const machines[] = {"host:1", "host:2", "host:3", "host:8", "discrete:1", "discrete:3", "host:1,discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines, ROWS = 3, COLUMNS = 7, COUNT = ROWS * COLUMNS };

static muster_runtime *open_text(const char *devices, int32_t shards) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = shards;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

typedef struct parts_case {
    muster_variable *read, *written, *updated;
    int64_t columns[8]; /* [rank] of the part that the body saw */
} parts_case;

static muster_variable *create(muster_runtime *runtime, const char *name, int start, float values[COUNT]) {
    muster_variable *made;
    for (int i = 0; i < COUNT; i++) values[i] = (float)(5 * i + start);
    assert_ok(muster_variable_create(runtime, name, muster_f32(values, ROWS, COLUMNS), &made));
    return made;
}

static void assert_value(muster_variable *v, const float *expected) {
    float got[COUNT];
    assert_ok(muster_variable_get_whole(v, muster_f32(got, ROWS, COLUMNS)));
    assert_memory_equal(got, expected, sizeof got);
}

static void split_all(const parts_case *c, int32_t axis) {
    muster_variable *const all[] = {c->read, c->written, c->updated};
    for (int i = 0; i < 3; i++) assert_ok(axis < 0 ? muster_variable_join(all[i]) : muster_variable_split(all[i], axis));
}

/* written += read; updated = written + read. */
static muster_status add_parts(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    (void)out;
    parts_case *c = user;
    muster_tensor read, written;
    MUSTER_TRY(muster_worker_variable(w, c->read, &read));
    MUSTER_TRY(muster_worker_variable(w, c->written, &written));
    c->columns[muster_worker_rank(w)] = read.shape[1];
    MUSTER_TRY(muster_binary_op(w, MUSTER_ADD, written, read, written));
    muster_tensor new_updated;
    MUSTER_TRY(muster_worker_update(w, c->updated, &new_updated));
    return muster_binary_op(w, MUSTER_ADD, written, read, new_updated);
}

static void bodies_see_the_part(void **state) {
    (void)state;
    int cases = 0;
    for (int m = 0; m < MACHINES; m++, cases++) {
        muster_runtime *runtime = open_text(machines[m], 0);
        const int32_t n = muster_runtime_size(runtime);
        float read[COUNT], written[COUNT], updated[COUNT];
        parts_case c = {
            create(runtime, "read", 1, read), create(runtime, "written", 2, written), create(runtime, "updated", 3, updated), {0}};
        muster_function *f;
        assert_ok(muster_function_create(runtime, "add_parts", add_parts, &c, &f));
        assert_ok(muster_function_variable(f, c.read, MUSTER_USE_READ));
        assert_ok(muster_function_variable(f, c.written, MUSTER_USE_READ_WRITE));
        assert_ok(muster_function_update(f, c.updated, MUSTER_SUM));
        for (int call = 0; call < 6; call++) { /* calls 0 to 2 split, then along the other axis, then whole */
            if (call == 0) split_all(&c, 1);
            if (call == 3) split_all(&c, 0);
            if (call == 5) split_all(&c, -1);
            memset(c.columns, 0, sizeof c.columns);
            assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
            for (int i = 0; i < COUNT; i++) {
                written[i] += read[i];
                updated[i] = written[i] + read[i];
            }
            processes_merge(c.columns, sizeof c.columns);
            for (int32_t r = 0; r < n; r++) assert_int_equal(c.columns[r], call < 3 ? COLUMNS * (r + 1) / n - COLUMNS * r / n : COLUMNS);
            assert_value(c.written, written);
            assert_value(c.updated, updated);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES);
    assert_int_equal(mst_discrete_live(), 0);
}

/* The master runs a single call, on its part. */
static void a_single_call_sees_the_masters_part(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:3", 0);
    float read[COUNT], written[COUNT], updated[COUNT];
    parts_case c = {create(runtime, "read", 1, read), create(runtime, "written", 2, written), create(runtime, "updated", 3, updated), {0}};
    muster_function *f;
    assert_ok(muster_function_create(runtime, "add_parts", add_parts, &c, &f));
    assert_ok(muster_function_variable(f, c.read, MUSTER_USE_READ));
    assert_ok(muster_function_variable(f, c.written, MUSTER_USE_READ_WRITE));
    assert_ok(muster_function_update(f, c.updated, MUSTER_SUM));
    split_all(&c, 1);
    assert_ok(muster_function_call_single(f, NULL, 0, NULL, 0, NULL));
    for (int i = 0; i < COUNT; i++) {
        if (i % COLUMNS >= 2) continue; /* the master has 2 of 7 columns */
        written[i] += read[i];
        updated[i] = written[i] + read[i];
    }
    assert_value(c.written, written);
    assert_value(c.updated, updated);
    assert_ok(muster_runtime_close(runtime));
}

/* updated = the number of rows of the slice, everywhere in the part. */
static muster_status count_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    parts_case *c = user;
    muster_tensor new_updated;
    MUSTER_TRY(muster_worker_update(w, c->updated, &new_updated));
    return muster_fill(w, (double)in[0].shape[0], new_updated);
}

static int edge(int count, int size, int at) { return count * at / size; }

/* Over the shards of a rank and the slices of each: the sum of their rows, or the most. */
static int expected_rows(int n, int rank, int shards, int slices, int rows) {
    int sum = 0, most = 0;
    for (int s = edge(shards, n, rank); s < edge(shards, n, rank + 1); s++) {
        const int mine = edge(rows, shards, s + 1) - edge(rows, shards, s);
        sum += mine;
        for (int k = 0; k < slices; k++) {
            const int slice = edge(mine, slices, k + 1) - edge(mine, slices, k);
            if (slice > most) most = slice;
        }
    }
    return shards == n ? sum : most;
}

static void run_slices(const char *machine, int slices, int shards, muster_collect_mode mode) {
    enum { N = 50 };
    muster_runtime *runtime = open_text(machine, shards);
    const int32_t n = muster_runtime_size(runtime);
    float updated[COUNT], rows[N] = {0};
    parts_case c = {.updated = create(runtime, "updated", 3, updated)};
    const muster_tensor input = muster_f32(rows, N);
    muster_call_options options;
    muster_function *f;
    muster_call_options_init(&options);
    options.slices = slices;
    assert_ok(muster_variable_split(c.updated, 1));
    assert_ok(muster_function_create(runtime, "count_rows", count_rows, &c, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_update(f, c.updated, mode));
    for (int call = 0; call < 2; call++) assert_ok(muster_function_call(f, &input, 1, NULL, 0, &options));
    assert_ok(muster_variable_get_whole(c.updated, muster_f32(updated, ROWS, COLUMNS)));
    for (int32_t r = 0; r < n; r++) {
        const int wanted = expected_rows(n, r, shards ? shards : n, slices, N);
        for (int i = 0; i < COUNT; i++)
            if (i % COLUMNS >= edge(COLUMNS, n, r) && i % COLUMNS < edge(COLUMNS, n, r + 1)) assert_true(updated[i] == (float)wanted);
    }
    assert_ok(muster_runtime_close(runtime));
}

/* The slices of a worker, and its logical shards, are combined in the shape of its part. */
static void updates_of_slices_and_shards_have_the_parts_shape(void **state) {
    (void)state;
    const int slices[] = {1, 2, 5};
    int cases = 0;
    for (int m = 0; m < MACHINES; m++) {
        for (int s = 0; s < 3; s++, cases += 2) {
            run_slices(machines[m], slices[s], 0, MUSTER_SUM);
            run_slices(machines[m], slices[s], 48, MUSTER_MAX);
        }
    }
    assert_int_equal(cases, MACHINES * 6);
}

static int setup(void **state) {
    (void)state;
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_see_the_part),
        cmocka_unit_test(a_single_call_sees_the_masters_part),
        cmocka_unit_test(updates_of_slices_and_shards_have_the_parts_shape),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
