/* Every collective through the public interface alone, on the devices that MUSTER_DEVICES names,
 * against plain loops. Links the shared library, so that it is the same program on the simulated
 * machine and on a GPU. MUSTER_TEST_BACKEND, if set, is the backend that all of these devices must
 * have: no other may pass for it. MUSTER_TEST_SHORT=1: a few cases of each collective, for tools
 * that make a run a hundred times slower. MUSTER_TEST_ROUNDS=N: instead, N collectives of random
 * kinds, dtypes and sizes. */
#include <muster/muster.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(expression)                                                                                            \
    do {                                                                                                                 \
        muster_status status_ = (expression);                                                                            \
        if (status_ != MUSTER_OK) fail_msg("%s: %s: %s", #expression, muster_status_name(status_), muster_last_error()); \
    } while (0)

typedef enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, GATHER, SCATTER, REDUCE_SCATTER, ALL_TO_ALL, RING, KINDS } kind;
static const char *const kind_names[] = {"all_reduce", "reduce",         "broadcast",  "all_gather",   "gather",
                                         "scatter",    "reduce_scatter", "all_to_all", "send and recv"};
static const bool reduces[KINDS] = {[ALL_REDUCE] = true, [REDUCE] = true, [REDUCE_SCATTER] = true};
static const bool rooted[KINDS] = {[REDUCE] = true, [BROADCAST] = true, [GATHER] = true, [SCATTER] = true};

typedef struct job {
    kind what;
    muster_dtype dtype;
    muster_reduction op;
    int32_t root;
    int64_t count; /* of a part */
    bool in_place;
    _Atomic int wrong;
} job;

static muster_runtime *runtime;
static int32_t size;

/* ---- values: small, so that every type holds every result exactly ---- */

static double value_of(int32_t rank, int64_t i) { return (i + rank) % 3 == 0 ? 2 : 1; }

static void encode(muster_dtype dtype, double value, void *at) {
    int64_t whole = (int64_t)value;
    float real = (float)value;
    uint16_t half = dtype == MUSTER_F16 ? muster_f32_to_f16(real) : muster_f32_to_bf16(real);
    if (dtype == MUSTER_F64)
        memcpy(at, &value, sizeof value);
    else if (dtype == MUSTER_F32)
        memcpy(at, &real, sizeof real);
    else if (dtype == MUSTER_F16 || dtype == MUSTER_BF16)
        memcpy(at, &half, sizeof half);
    else
        memcpy(at, &whole, (size_t)muster_dtype_size(dtype)); /* little endian */
}

static double combine(const job *j, int64_t i) {
    double sum = 0, product = 1, most = 0, least = 9;
    for (int32_t rank = 0; rank < size; rank++) {
        double value = value_of(rank, i);
        sum += value;
        product *= value;
        most = fmax(most, value);
        least = fmin(least, value);
    }
    if (j->op == MUSTER_SUM) return sum;
    if (j->op == MUSTER_AVG) return sum / size;
    return j->op == MUSTER_PROD ? product : j->op == MUSTER_MAX ? most : least;
}

static double expected(const job *j, int32_t rank, int64_t i) {
    int64_t n = j->count, own = rank * n;
    switch (j->what) {
    case ALL_REDUCE:
    case REDUCE:
        return combine(j, i);
    case REDUCE_SCATTER:
        return combine(j, own + i);
    case BROADCAST:
        return value_of(j->root, i);
    case SCATTER:
        return value_of(j->root, own + i);
    case ALL_GATHER:
    case GATHER:
        return value_of((int32_t)(i / n), i % n);
    case ALL_TO_ALL:
        return value_of((int32_t)(i / n), own + i % n);
    default:
        return value_of((rank + size - 1) % size, i);
    }
}

/* ---- one rank ---- */

typedef struct places {
    muster_tensor input, output; /* no tensor: this rank has none */
} places;

static int64_t input_count(const job *j) {
    return j->what == SCATTER || j->what == REDUCE_SCATTER || j->what == ALL_TO_ALL ? j->count * size : j->count;
}
static int64_t output_count(const job *j) {
    return j->what == ALL_GATHER || j->what == GATHER || j->what == ALL_TO_ALL ? j->count * size : j->count;
}

/* In place they share one block, as each collective wants it; a rank that is not the root of a
 * rooted one has its part alone. */
static muster_status lay_out(muster_worker *w, const job *j, places *p) {
    int32_t rank = muster_worker_rank(w);
    int64_t in = input_count(j), out = output_count(j), most = in > out ? in : out;
    muster_tensor block, other;
    MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &most, &block));
    other = block;
    if (!j->in_place) MUSTER_TRY(muster_worker_scratch(w, j->dtype, 1, &most, &other));
    int64_t in_at = 0, out_at = 0;
    if (j->in_place && in < out && (j->what == ALL_GATHER || rank == j->root)) in_at = rank * j->count;
    if (j->in_place && out < in && (j->what == REDUCE_SCATTER || rank == j->root)) out_at = rank * j->count;
    *p = (places){muster_tensor_slice(block, in_at, in_at + in), muster_tensor_slice(other, out_at, out_at + out)};
    return MUSTER_OK;
}

static muster_status enter(muster_worker *w, const job *j, const places *p) {
    int32_t rank = muster_worker_rank(w);
    muster_tensor in = p->input, out = p->output;
    switch (j->what) {
    case ALL_REDUCE:
        return muster_worker_all_reduce(w, NULL, j->op, in, out);
    case REDUCE:
        return muster_worker_reduce(w, NULL, j->op, j->root, in, out);
    case BROADCAST:
        return muster_worker_broadcast(w, NULL, j->root, in, out);
    case ALL_GATHER:
        return muster_worker_all_gather(w, NULL, in, out);
    case GATHER:
        return muster_worker_gather(w, NULL, j->root, in, out);
    case SCATTER:
        return muster_worker_scatter(w, NULL, j->root, in, out);
    case REDUCE_SCATTER:
        return muster_worker_reduce_scatter(w, NULL, j->op, in, out);
    case ALL_TO_ALL:
        return muster_worker_all_to_all(w, NULL, in, out);
    default:
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        MUSTER_TRY(muster_worker_send(w, NULL, (rank + 1) % size, 7, in));
        MUSTER_TRY(muster_worker_recv(w, NULL, (rank + size - 1) % size, 7, out));
        return muster_worker_group_end(w, NULL);
    }
}

static void compare(job *j, int32_t rank, const unsigned char *bytes) {
    int64_t width = muster_dtype_size(j->dtype), count = output_count(j);
    if (rooted[j->what] && (j->what == REDUCE || j->what == GATHER) && rank != j->root) return;
    for (int64_t i = 0; i < count; i++) {
        unsigned char wanted[8] = {0};
        encode(j->dtype, expected(j, rank, i), wanted);
        if (memcmp(bytes + i * width, wanted, (size_t)width) != 0 && j->wrong++ == 0)
            fprintf(stderr, "%s %s, op %d, root %d, %lld elements%s: rank %d: element %lld differs\n", kind_names[j->what],
                    muster_dtype_name(j->dtype), j->op, j->root, (long long)j->count, j->in_place ? ", in place" : "", rank, (long long)i);
    }
}

static muster_status run_job(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    job *j = user;
    int32_t rank = muster_worker_rank(w);
    int64_t width = muster_dtype_size(j->dtype), most = input_count(j) > output_count(j) ? input_count(j) : output_count(j);
    places p;
    MUSTER_TRY(lay_out(w, j, &p));
    unsigned char *bytes = calloc((size_t)(most * width) + 1, 1);
    if (!bytes) return MUSTER_OUT_OF_MEMORY;
    for (int64_t i = 0; i < input_count(j); i++) encode(j->dtype, value_of(rank, i), bytes + i * width);
    int64_t shape_in[] = {input_count(j)}, shape_out[] = {output_count(j)};
    muster_status status = muster_worker_write(w, muster_tensor_make(j->dtype, bytes, 1, shape_in), p.input);
    if (status == MUSTER_OK) status = enter(w, j, &p);
    if (status == MUSTER_OK) status = muster_worker_read(w, p.output, muster_tensor_make(j->dtype, bytes, 1, shape_out));
    if (status == MUSTER_OK) compare(j, rank, bytes);
    free(bytes);
    return status;
}

/* ---- cases ---- */

static int64_t cases;

static void check(muster_function *function, job *shared, job j) {
    memcpy(shared, &j, sizeof j);
    assert_ok(muster_function_call(function, NULL, 0, NULL, 0, NULL));
    assert_int_equal(shared->wrong, 0);
    cases++;
}

static bool has(muster_dtype dtype, muster_reduction op, int64_t count) {
    const char *few = getenv("MUSTER_TEST_SHORT");
    if (few && *few == '1' && (dtype != MUSTER_F32 || op != MUSTER_SUM || count > 1000)) return false;
    if (count > 1000 && (op != MUSTER_SUM || (dtype != MUSTER_F16 && dtype != MUSTER_F32 && dtype != MUSTER_I64))) return false;
    bool real = dtype == MUSTER_F16 || dtype == MUSTER_BF16 || dtype == MUSTER_F32 || dtype == MUSTER_F64;
    /* an average that the type does not hold exactly depends on its rounding */
    return op != MUSTER_AVG || (real && (size & (size - 1)) == 0);
}

static void check_kind(kind what) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64, MUSTER_I8, MUSTER_U8,
                                          MUSTER_I16, MUSTER_I32,  MUSTER_I64, MUSTER_U32, MUSTER_U64};
    static const int64_t counts[] = {0, 1, 7, 1000, 65537};
    muster_function *function;
    job shared;
    assert_ok(muster_function_create(runtime, kind_names[what], run_job, &shared, &function));
    assert_ok(muster_function_set_runs_without_rows(function, 1));
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (muster_reduction op = MUSTER_SUM; op <= (reduces[what] ? MUSTER_AVG : MUSTER_SUM); op++)
            for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
                for (int in_place = 0; in_place <= (what != RING); in_place++)
                    if (has(dtypes[d], op, counts[n]))
                        check(function, &shared,
                              (job){.what = what,
                                    .dtype = dtypes[d],
                                    .op = op,
                                    .count = counts[n],
                                    .in_place = in_place,
                                    .root = rooted[what] ? (int32_t)((d + n) % (size_t)size) : 0});
}

/* ---- random rounds: many sizes in one runtime, one right after the other ---- */

static uint64_t random_state = 88172645463325252u;
static uint64_t random_below(uint64_t bound) { /* xorshift64 (Marsaglia, 2003) */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

static job random_job(void) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_F32, MUSTER_F64, MUSTER_I32, MUSTER_U8};
    const kind what = (kind)random_below(KINDS);
    return (job){.what = what,
                 .dtype = dtypes[random_below(sizeof dtypes / sizeof *dtypes)],
                 .op = reduces[what] ? MUSTER_SUM + (muster_reduction)random_below(MUSTER_AVG - MUSTER_SUM) : MUSTER_SUM, /* no averages */
                 .count = (int64_t)random_below((uint64_t)1 << random_below(16)),
                 .in_place = what != RING && random_below(2),
                 .root = rooted[what] ? (int32_t)random_below((uint64_t)size) : 0};
}

static void random_rounds(void **state) {
    (void)state;
    const long rounds = strtol(getenv("MUSTER_TEST_ROUNDS"), NULL, 10);
    muster_function *function;
    job shared;
    assert_true(rounds > 0);
    assert_ok(muster_function_create(runtime, "random", run_job, &shared, &function));
    assert_ok(muster_function_set_runs_without_rows(function, 1));
    for (long i = 0; i < rounds; i++) check(function, &shared, random_job());
    assert_int_equal(cases, rounds);
}

#define TEST(name, what)             \
    static void name(void **state) { \
        (void)state;                 \
        check_kind(what);            \
    }
TEST(all_reduce, ALL_REDUCE)
TEST(reduce, REDUCE)
TEST(broadcast, BROADCAST)
TEST(all_gather, ALL_GATHER)
TEST(gather, GATHER)
TEST(scatter, SCATTER)
TEST(reduce_scatter, REDUCE_SCATTER)
TEST(all_to_all, ALL_TO_ALL)
TEST(send_and_recv, RING)

/* 0, or the exit code. A way that is asked for by name and that these devices do not have is no
 * failure of theirs. */
static int open_runtime(void) {
    const char *backend = getenv("MUSTER_TEST_BACKEND");
    const muster_status status = muster_runtime_open(NULL, &runtime);
    if (status == MUSTER_UNAVAILABLE && strstr(muster_last_error(), "MUSTER_COLLECTIVE_ALGORITHM"))
        return printf("SKIP suite: %s\n", muster_last_error()), 77;
    if (status != MUSTER_OK) return fprintf(stderr, "%s\n", muster_last_error()), 1;
    size = muster_runtime_size(runtime);
    for (int32_t rank = 0; rank < size; rank++) {
        printf("rank %d: %s\n", rank, muster_runtime_device(runtime, rank));
        if (backend && strncmp(muster_runtime_device(runtime, rank), backend, strlen(backend)) != 0) {
            fprintf(stderr, "rank %d is not on a device of the backend %s\n%s\n", rank, backend, muster_runtime_description(runtime));
            return 1;
        }
    }
    return 0;
}

static int close_runtime(void **state) {
    (void)state;
    printf("%lld cases\n", (long long)cases);
    return muster_runtime_close(runtime) == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_reduce),     cmocka_unit_test(reduce),     cmocka_unit_test(broadcast),
                                       cmocka_unit_test(all_gather),     cmocka_unit_test(gather),     cmocka_unit_test(scatter),
                                       cmocka_unit_test(reduce_scatter), cmocka_unit_test(all_to_all), cmocka_unit_test(send_and_recv)};
    const struct CMUnitTest rounds[] = {cmocka_unit_test(random_rounds)};
    const int opened = open_runtime();
    if (opened != 0) return opened;
    if (getenv("MUSTER_TEST_ROUNDS")) return cmocka_run_group_tests(rounds, NULL, close_runtime);
    return cmocka_run_group_tests(tests, NULL, close_runtime);
}
