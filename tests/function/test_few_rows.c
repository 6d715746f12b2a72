/* Calls with fewer rows than devices, such as the last short batch of an epoch: each mode of an
 * output, and collectives in the body, on 1, 2, 3 and 8 devices. Whether a call is refused, and
 * with which words, does not depend on their number. docs/functions.md has the table. */
#include "function_fixture.h"

#include <string.h>

enum { ROWS_MOST = 7, MODES = 7 };
static const int device_counts[] = {1, 2, 3, 8};
static const int64_t row_counts[] = {0, 1, 2, ROWS_MOST};
enum { DEVICE_COUNTS = sizeof device_counts / sizeof *device_counts, ROW_COUNTS = sizeof row_counts / sizeof *row_counts };
static const muster_collect_mode modes[MODES] = {MUSTER_SUM, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN, MUSTER_AVG, MUSTER_GATHER, MUSTER_MASTER};

typedef struct setting {
    muster_collect_mode mode;
    int64_t rows, slices;
    int devices;
    bool runs_without_rows, has_collective;
} setting;

/* The sum of the rows, or for the master which rows they are: 100 times the first, and their
 * number. With a collective the number of ranks is added, which all of them then know. */
static muster_status few_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const setting *s = user;
    float value = 0, ranks = 0;
    const int64_t rows = in[0].shape[0];
    if (s->has_collective) {
        const int64_t one = 1;
        muster_tensor total;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &one, &total));
        MUSTER_TRY(muster_fill(w, 1, total));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, total, total));
        MUSTER_TRY(muster_worker_read(w, total, muster_tensor_make(MUSTER_F32, &ranks, 1, &one)));
    }
    if (s->mode == MUSTER_GATHER) return muster_copy(w, in[0], out[0]);
    if (s->mode != MUSTER_MASTER) return muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]);
    value = (float)(100 * muster_worker_first_row(w) + rows) + 1000 * ranks;
    return muster_fill(w, (double)value, out[0]);
}

/* The rows of a rank, and of its last slice that has any. */
static float master_value(const setting *s) {
    int rank = 0;
    while (!s->runs_without_rows && s->rows * (rank + 1) / s->devices == 0) rank++;
    const int64_t first = s->rows * rank / s->devices, rows = s->rows * (rank + 1) / s->devices - first;
    int64_t begin = 0, end = 0;
    for (int64_t k = 0; k < s->slices; k++)
        if (rows * k / s->slices < rows * (k + 1) / s->slices) begin = rows * k / s->slices, end = rows * (k + 1) / s->slices;
    return (float)(100 * (first + begin) + end - begin) + (s->has_collective ? 1000 * (float)s->devices : 0);
}

/* The workers that bring a value bring the sum of their rows. */
static float reduced_value(const setting *s) {
    double value = s->mode == MUSTER_PROD ? 1 : 0;
    bool first = true;
    for (int rank = 0; rank < s->devices; rank++) {
        const int64_t begin = s->rows * rank / s->devices, end = s->rows * (rank + 1) / s->devices;
        for (int64_t k = 0; k < s->slices; k++) {
            const int64_t from = begin + (end - begin) * k / s->slices, to = begin + (end - begin) * (k + 1) / s->slices;
            double sum = 0;
            if (from == to) continue;
            for (int64_t r = from; r < to; r++) sum += (double)(r + 1);
            if (s->mode == MUSTER_SUM) value += sum;
            if (s->mode == MUSTER_PROD) value *= sum;
            if (s->mode == MUSTER_AVG) value += sum * (double)(to - from) / (double)s->rows;
            if (s->mode == MUSTER_MAX) value = first || sum > value ? sum : value;
            if (s->mode == MUSTER_MIN) value = first || sum < value ? sum : value;
            first = false;
        }
    }
    return (float)value;
}

static void check_values(const setting *s, const float *y) {
    const float expected = s->mode == MUSTER_MASTER ? master_value(s) : reduced_value(s);
    for (int64_t r = 0; s->mode == MUSTER_GATHER && r < s->rows; r++) assert_true(y[r] == (float)(r + 1));
    const float difference = y[0] > expected ? y[0] - expected : expected - y[0];
    if (s->mode != MUSTER_GATHER && !(difference <= 1e-5f * (expected > 1 ? expected : 1)))
        fail_msg("mode %d, %lld rows, %lld slices, %d devices, %d: expected %g, received %g", (int)s->mode, (long long)s->rows,
                 (long long)s->slices, s->devices, s->runs_without_rows, (double)expected, (double)y[0]);
}

static muster_runtime *runtimes[DEVICE_COUNTS];

static void open_runtimes(const char *backend) {
    for (int d = 0; d < DEVICE_COUNTS; d++) runtimes[d] = fixture_open(backend, device_counts[d]);
}

static void close_runtimes(void) {
    for (int d = 0; d < DEVICE_COUNTS; d++) fixture_close(runtimes[d]);
}

/* The status and the message of a call; the values are checked. */
static muster_status call_once(muster_runtime *runtime, const setting *s, char message[600]) {
    muster_function *f;
    muster_call_options options;
    float x[ROWS_MOST], y[ROWS_MOST] = {0};
    for (int r = 0; r < ROWS_MOST; r++) x[r] = (float)(r + 1);
    muster_call_options_init(&options);
    options.slices = s->slices;
    assert_ok(muster_function_create(runtime, "few", few_body, (void *)(uintptr_t)s, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, s->mode == MUSTER_GATHER ? 1 : 0, s->mode));
    if (s->runs_without_rows) assert_ok(muster_function_set_runs_without_rows(f, 1));
    const muster_tensor in = muster_f32(x, s->rows), out = s->mode == MUSTER_GATHER ? muster_f32(y, s->rows) : muster_f32(y);
    muster_status status = MUSTER_OK;
    for (int repeat = 0; repeat < 3 && status == MUSTER_OK; repeat++) { /* the first two plan, the third repeats */
        memset(y, 0xff, sizeof y);
        status = muster_function_call(f, &in, 1, &out, 1, &options);
        if (status == MUSTER_OK) check_values(s, y);
    }
    snprintf(message, 600, "%s", status ? muster_last_error() : "");
    assert_ok(muster_function_destroy(f));
    return status;
}

/* Calls on each number of devices; all have the outcome of one device. Returns it. */
static muster_status compare_devices(setting s) {
    char first[600] = "", message[600];
    muster_status expected = MUSTER_OK;
    for (int d = 0; d < DEVICE_COUNTS; d++) {
        s.devices = device_counts[d];
        const muster_status status = call_once(runtimes[d], &s, d == 0 ? first : message);
        if (d == 0) expected = status;
        if (d > 0 && (status != expected || strcmp(first, message) != 0))
            fail_msg("mode %d, %lld rows, %lld slices, %d: %s \"%s\" on 1 device, %s \"%s\" on %d", (int)s.mode, (long long)s.rows,
                     (long long)s.slices, s.runs_without_rows, muster_status_name(expected), first, muster_status_name(status), message,
                     s.devices);
    }
    return expected;
}

/* Which results over no rows have a value. */
static bool is_refused(const setting *s) {
    if (s->rows > 0) return false;
    return s->mode == MUSTER_MAX || s->mode == MUSTER_MIN || s->mode == MUSTER_AVG || (s->mode == MUSTER_MASTER && !s->runs_without_rows);
}

static void every_mode_has_one_outcome(void **state) {
    (void)state;
    int cases = 0, refused = 0;
    for_each_backend(backend) {
        open_runtimes(backend);
        for (int m = 0; m < MODES; m++)
            for (int r = 0; r < ROW_COUNTS; r++)
                for (int runs = 0; runs < 2; runs++)
                    for (int64_t slices = 1; slices <= 3; slices += 2) {
                        const setting s = {.mode = modes[m], .rows = row_counts[r], .slices = slices, .runs_without_rows = runs};
                        const muster_status status = compare_devices(s);
                        assert_int_equal(status, is_refused(&s) ? MUSTER_UNSUPPORTED : MUSTER_OK);
                        refused += status != MUSTER_OK;
                        cases++;
                    }
        close_runtimes();
    }
    assert_int_equal(cases, 2 * MODES * ROW_COUNTS * 2 * 2);
    assert_int_equal(refused, 2 * (3 * 2 + 1) * 2);
}

/* A function that runs without rows runs on every device, so that all of them meet. */
static void collectives_meet_on_every_device(void **state) {
    (void)state;
    int cases = 0;
    for_each_backend(backend) {
        open_runtimes(backend);
        for (int m = 0; m < MODES; m++)
            for (int r = 0; r < ROW_COUNTS; r++) {
                const setting s = {.mode = modes[m], .rows = row_counts[r], .slices = 1, .runs_without_rows = true, .has_collective = true};
                assert_int_equal(compare_devices(s), is_refused(&s) ? MUSTER_UNSUPPORTED : MUSTER_OK);
                cases++;
            }
        close_runtimes();
    }
    assert_int_equal(cases, 2 * MODES * ROW_COUNTS);
}

/* Without it a device that waits for one without rows refuses the call, and says why. */
static void a_missing_device_is_named(void **state) {
    (void)state;
    char message[600];
    int cases = 0;
    for_each_backend(backend) {
        open_runtimes(backend);
        for (int m = 0; m < MODES; m++)
            for (int d = 1; d < DEVICE_COUNTS; d++)
                for (int64_t rows = 1; rows < device_counts[d]; rows++) {
                    const setting s = {.mode = modes[m], .rows = rows, .slices = 1, .devices = device_counts[d], .has_collective = true};
                    assert_int_equal(call_once(runtimes[d], &s, message), MUSTER_INVALID_ARGUMENT);
                    assert_non_null(strstr(message, "which has no rows, and function 'few' does not run without rows: a body in which "
                                                    "workers wait for each other needs muster_function_set_runs_without_rows"));
                    cases++;
                }
        close_runtimes();
    }
    assert_int_equal(cases, 2 * MODES * (1 + 2 + 7));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_has_one_outcome),
        cmocka_unit_test(collectives_meet_on_every_device),
        cmocka_unit_test(a_missing_device_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
