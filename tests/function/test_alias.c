/* Outputs of a call that share memory with an input, with another output or with themselves are
 * refused before any worker starts, and views that do not touch are accepted. */
#include "function_fixture.h"

#include <string.h>

enum { N = 8, K = 5 };

typedef struct world {
    muster_runtime *runtime;
    muster_function *f; /* y = 2 x (gathered), s = sum of the rows of x; b is not read */
    float m[4 * N * K], s[K], b[3];
    muster_tensor in[2], out[2];
} world;

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    if (out[0].dtype) {
        MUSTER_TRY(muster_copy(w, in[0], out[0]));
        MUSTER_TRY(muster_axpy(w, 1, in[0], out[0]));
    }
    return out[1].dtype ? muster_reduce(w, MUSTER_SUM, in[0], 0, out[1]) : MUSTER_OK;
}

static void world_open(world *t, const char *backend) {
    memset(t, 0, sizeof *t);
    for (int i = 0; i < 4 * N * K; i++) t->m[i] = (float)i;
    t->runtime = fixture_open(backend, 2);
    assert_ok(muster_function_create(t->runtime, "f", body, NULL, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_input(t->f, "b", MUSTER_F32, 1, MUSTER_BROADCAST));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(t->f, "s", MUSTER_F32, 1, MUSTER_SUM));
    t->in[0] = muster_f32(t->m, N, K);
    t->in[1] = muster_f32(t->b, 3);
    t->out[0] = muster_f32(t->m + 2 * N * K, N, K);
    t->out[1] = muster_f32(t->s, K);
}

/* The call gives what the body computes from these views. */
static void expect_right(world *t) {
    float x[N][K];
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < K; j++)
            x[i][j] = ((float *)t->in[0].data)[t->in[0].byte_offset / 4 + i * t->in[0].strides[0] + j * t->in[0].strides[1]];
    assert_ok(muster_function_call(t->f, t->in, 2, t->out, 2, NULL));
    for (int64_t i = 0; i < N && t->out[0].dtype; i++)
        for (int64_t j = 0; j < K; j++) {
            const float y = ((float *)t->out[0].data)[t->out[0].byte_offset / 4 + i * t->out[0].strides[0] + j * t->out[0].strides[1]];
            assert_float_equal(y, 2 * x[i][j], 0);
        }
}

/* Refused by every way to call, nothing was written, and a right call with the same views works
 * before and after. */
static void expect_refused(world *t, int64_t output, muster_tensor wrong, const char *part) {
    float before[4 * N * K];
    const char *input_names[] = {"x", "b"}, *output_names[] = {"y", "s"};
    muster_pending *pending;
    const muster_tensor right = t->out[output];
    expect_right(t);
    memcpy(before, t->m, sizeof before);
    t->out[output] = wrong;
    for (int again = 0; again < 2; again++) { /* the second time with the addresses of the first */
        assert_refused(muster_function_call(t->f, t->in, 2, t->out, 2, NULL), MUSTER_INVALID_ARGUMENT, part);
        assert_memory_equal(before, t->m, sizeof before);
    }
    assert_refused(muster_function_call_single(t->f, t->in, 2, t->out, 2, NULL), MUSTER_INVALID_ARGUMENT, part);
    assert_refused(muster_function_call_named(t->f, input_names, t->in, 2, output_names, t->out, 2, NULL), MUSTER_INVALID_ARGUMENT, part);
    assert_refused(muster_function_call_async(t->f, t->in, 2, t->out, 2, NULL, &pending), MUSTER_INVALID_ARGUMENT, part);
    assert_memory_equal(before, t->m, sizeof before);
    t->out[output] = right;
    expect_right(t);
}

#define CASE(name, ...)               \
    static void name(void **unused) { \
        (void)unused;                 \
        for_each_backend(backend) {   \
            world t;                  \
            world_open(&t, backend);  \
            __VA_ARGS__;              \
            fixture_close(t.runtime); \
        }                             \
    }

static muster_tensor at(world *t, int64_t element) { return muster_f32(t->m + element, N, K); }

CASE(in_place, expect_refused(&t, 0, t.in[0], "output 'y' of function 'f' overlaps input 'x' in memory"))
CASE(one_element_shared, t.in[0] = at(&t, N *K); expect_refused(&t, 0, at(&t, 1), "output 'y' of function 'f' overlaps input 'x'");
     expect_refused(&t, 0, at(&t, 2 * N * K - 1), "output 'y' of function 'f' overlaps input 'x'"))
CASE(next_to_each_other, t.in[0] = at(&t, N *K); t.out[0] = at(&t, 0); expect_right(&t); t.out[0] = at(&t, 2 * N * K); expect_right(&t))
CASE(broadcast_input, t.in[1] = muster_f32(t.m + 4 * N * K - 3, 3);
     expect_refused(&t, 1, muster_f32(t.m + 4 * N * K - 2 - K, K), "output 's' of function 'f' overlaps input 'b'");
     t.out[1] = muster_f32(t.m + 4 * N * K - 3 - K, K); expect_right(&t))
CASE(two_outputs, expect_refused(&t, 1, muster_f32(t.m + 3 * N * K - 1, K), "output 's' of function 'f' overlaps output 'y'");
     t.out[1] = muster_f32(t.m + 3 * N * K, K); expect_right(&t))
CASE(inputs_may_share, t.in[1] = muster_f32(t.m, 3); expect_right(&t))
CASE(unwanted_output, t.out[0] = muster_tensor_none(); expect_right(&t))

static muster_tensor columns(world *t, int64_t width, int64_t first, int64_t step) {
    muster_tensor view = muster_f32(t->m, N, K);
    view.strides[0] = width;
    view.strides[1] = step;
    view.byte_offset = first * (int64_t)sizeof(float);
    return view;
}

/* Even and odd columns, with rows of an even and of an odd width, and left and right halves. */
CASE(interleaved, t.in[0] = columns(&t, 2 * K, 0, 2); t.out[0] = columns(&t, 2 * K, 1, 2); expect_right(&t); expect_right(&t);
     t.in[0] = columns(&t, 2 * K + 1, 0, 2); t.out[0] = columns(&t, 2 * K + 1, 1, 2); expect_right(&t); t.in[0] = columns(&t, 2 * K, 0, 1);
     t.out[0] = columns(&t, 2 * K, K, 1); expect_right(&t);
     expect_refused(&t, 0, columns(&t, 2 * K, K - 1, 1), "output 'y' of function 'f' overlaps input 'x'"))

/* The rows of a view lie from its address downwards. */
static muster_tensor backwards(world *t, int64_t first) {
    muster_tensor view = at(t, first + (N - 1) * K);
    view.strides[0] = -K;
    return view;
}

/* The lowest element of such an output or input is the last one of another operand, or the one
 * behind it; its address lies far from the other operand. */
CASE(output_backwards, t.in[0] = at(&t, 0); expect_refused(&t, 0, backwards(&t, N *K - 1), "output 'y' of function 'f' overlaps input 'x'");
     t.out[0] = backwards(&t, N *K); expect_right(&t))
CASE(input_backwards, t.in[0] = backwards(&t, N *K); expect_refused(&t, 0, at(&t, 1), "output 'y' of function 'f' overlaps input 'x'");
     t.out[0] = at(&t, 0); expect_right(&t))
CASE(other_output_backwards, t.out[0] = backwards(&t, 2 * N * K);
     expect_refused(&t, 1, muster_f32(t.m + 2 * N * K - K + 1, K), "output 's' of function 'f' overlaps output 'y'");
     t.out[1] = muster_f32(t.m + 2 * N * K - K, K); expect_right(&t))

/* A repeated call checks again if an address is another, and only the address is. */
CASE(moved_into_the_input, expect_right(&t); expect_right(&t); expect_refused(&t, 0, at(&t, N *K - 1), "overlaps input 'x'");
     t.out[0] = at(&t, N *K); expect_right(&t))
CASE(input_moved_into_the_output, expect_right(&t); t.in[0] = at(&t, N *K + 1);
     assert_refused(muster_function_call(t.f, t.in, 2, t.out, 2, NULL), MUSTER_INVALID_ARGUMENT, "overlaps input 'x'");
     t.in[0] = at(&t, N *K); expect_right(&t))

CASE(stride_0, muster_tensor wide = t.out[0]; wide.strides[1] = 0;
     expect_refused(&t, 0, wide, "output 'y' of function 'f': expected an address of its own for every element"); wide.strides[1] = 1;
     wide.strides[0] = 0; expect_refused(&t, 0, wide, "output 'y'"); muster_tensor sum = t.out[1]; sum.strides[0] = 0;
     expect_refused(&t, 1, sum, "output 's' of function 'f': expected an address of its own"))
CASE(windows, muster_tensor wide = t.out[0]; wide.strides[0] = K - 1; expect_refused(&t, 0, wide, "output 'y'"); wide.strides[0] = K + 1;
     t.out[0] = wide; expect_right(&t))

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place),
        cmocka_unit_test(one_element_shared),
        cmocka_unit_test(next_to_each_other),
        cmocka_unit_test(broadcast_input),
        cmocka_unit_test(two_outputs),
        cmocka_unit_test(inputs_may_share),
        cmocka_unit_test(unwanted_output),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(output_backwards),
        cmocka_unit_test(input_backwards),
        cmocka_unit_test(other_output_backwards),
        cmocka_unit_test(moved_into_the_input),
        cmocka_unit_test(input_moved_into_the_output),
        cmocka_unit_test(stride_0),
        cmocka_unit_test(windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
