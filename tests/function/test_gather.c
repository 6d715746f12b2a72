/* Gathered outputs in calls with slices: the rows that workers give, in their order, whatever the
 * numbers of devices, rows and slices, and whether a body keeps all of its rows or chooses among
 * them. Slices without rows come first, in between and last; what a body gives in them is
 * ignored. */
#include "function_fixture.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_ROWS = 9, K = 2 };

typedef enum {
    WRITES_OUT,   /* writes to out[0], as many rows as it has */
    ASKS_FOR_ALL, /* asks for as many rows as it has */
    /* As many rows as the call has, so that the slices before the change are written in place. */
    LAST_TWICE,       /* and the first one not at all */
    FIRST_TWICE,      /* and the last one not at all */
    FIRST_FOR_SECOND, /* the first one twice in place of the second: then the rows are as many as their places again */
    DROPS_FIRST,
    DROPS_EVERY_3RD, /* rows 2, 5, 8 */
    KINDS
} kind;

typedef struct plan {
    kind kind;
    int rows;
} plan;

/* How many times the result has this row. */
static int64_t copies(const plan *p, int64_t row) {
    const bool first = row == 0, last = row == p->rows - 1;
    switch (p->kind) {
    case LAST_TWICE:
        return first == last ? 1 : last ? 2 : 0;
    case FIRST_TWICE:
        return first == last ? 1 : first ? 2 : 0;
    case FIRST_FOR_SECOND:
        return first && !last ? 2 : row != 1;
    case DROPS_FIRST:
        return !first;
    case DROPS_EVERY_3RD:
        return row % 3 != 2;
    default:
        return 1;
    }
}

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const plan *p = user;
    const int64_t first = muster_worker_first_row(w), rows = muster_worker_rows(w);
    muster_tensor y = out[0];
    int64_t kept = 0, at = 0;
    if (p->kind == WRITES_OUT) return muster_copy(w, in[0], y);
    for (int64_t i = 0; i < rows; i++) kept += copies(p, first + i);
    if (rows == 0) kept = muster_worker_slice(w) % 3; /* rows that nobody may see */
    MUSTER_TRY(muster_worker_output_rows(w, 0, kept, &y));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < copies(p, first + i); c++, at++)
            MUSTER_TRY(muster_copy(w, muster_tensor_slice(in[0], i, i + 1), muster_tensor_slice(y, at, at + 1)));
    return rows || !kept ? MUSTER_OK : muster_fill(w, -1, y);
}

static void run_case(muster_runtime *runtime, int64_t slices, int without_rows, plan p) {
    float x[MOST_ROWS][K], y[MOST_ROWS + 1][K], expected[MOST_ROWS + 1][K] = {{0}};
    int64_t kept = 0;
    muster_call_options options;
    muster_function *f;
    memset(y, 0, sizeof y);
    for (int i = 0; i < MOST_ROWS; i++) x[i][0] = (float)(i + 1), x[i][1] = (float)(-i - 1);
    for (int i = 0; i < p.rows; i++)
        for (int64_t c = 0; c < copies(&p, i); c++) memcpy(expected[kept++], x[i], sizeof x[i]);
    assert_ok(muster_function_create(runtime, "f", body, &p, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_set_runs_without_rows(f, without_rows));
    muster_call_options_init(&options);
    options.slices = slices;
    for (int again = 0; again < 2; again++) {
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, p.rows, K)}, 1, (muster_tensor[]){muster_f32(y, kept, K)}, 1,
                                       &options));
        assert_memory_equal(y, expected, sizeof y); /* the row behind the result, too */
    }
    assert_ok(muster_function_destroy(f));
}

static void rows_come_in_their_order(void **unused) {
    (void)unused;
    const int64_t slices[] = {1, 2, 4, 7, 20};
    int cases = 0;
    for_each_backend(backend) {
        for (int devices = 1; devices <= 3; devices++) {
            muster_runtime *runtime = fixture_open(backend, devices);
            for (int s = 0; s < 5; s++)
                for (int without_rows = 0; without_rows < 2; without_rows++)
                    for (kind k = 0; k < KINDS; k++)
                        for (int rows = 1; rows <= MOST_ROWS; rows += 2, cases++)
                            run_case(runtime, slices[s], without_rows, (plan){k, rows});
            fixture_close(runtime);
        }
    }
    assert_true(cases > 0 && cases % (3 * 5 * 2 * KINDS * 5) == 0);
}

static muster_status one_row_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    muster_tensor y;
    MUSTER_TRY(muster_worker_output_rows(w, 0, 1 + muster_worker_rank(w), &y));
    return muster_fill(w, (float)muster_worker_rank(w), y);
}

/* Of three ranks only the last has a row; each gives its number of rows, and one more. */
static void rows_of_bodies_without_rows_are_counted_in_the_error(void **unused) {
    (void)unused;
    float x[3] = {0}, y[6];
    muster_runtime *runtime = fixture_open("host", 3);
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", one_row_body, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_GATHER));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    for (int again = 0; again < 2; again++) {
        assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 1)}, 1, (muster_tensor[]){muster_f32(y, 6)}, 1, NULL),
                       MUSTER_SHAPE_MISMATCH,
                       "output 'y' of function 'f': the caller's tensor has 6 rows, the workers gave 3, and 3 more in bodies without rows, "
                       "which are not collected");
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 1)}, 1, (muster_tensor[]){muster_f32(y, 3)}, 1, NULL));
        assert_true(y[0] == 2 && y[1] == 2 && y[2] == 2);
        assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 3)}, 1, (muster_tensor[]){muster_f32(y, 5)}, 1, NULL),
                       MUSTER_SHAPE_MISMATCH, "the workers gave 6");
        assert_null(strstr(muster_last_error(), "more"));
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 3)}, 1, (muster_tensor[]){muster_f32(y, 6)}, 1, NULL));
        assert_true(y[0] == 0 && y[1] == 1 && y[2] == 1 && y[5] == 2);
    }
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_their_order),
        cmocka_unit_test(rows_of_bodies_without_rows_are_counted_in_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
