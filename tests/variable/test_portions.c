/* Variables in portions: of one value each device keeps some elements, which may lie anywhere. What
 * goes in by one layout comes out by all others. */
#include "base_check.h"
#include "device_discrete.h"
#include "variable_impl.h"

#include <string.h>

static const char *const machines[] = {"host:1", "host:3", "host:8", "discrete:2", "host:1,discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines, MOST = 64, PORTIONS = 64 };
static const struct {
    int32_t ndim;
    int64_t sizes[3];
} shapes[] = {{0, {0}}, {1, {1}}, {1, {0}}, {1, {40}}, {2, {5, 7}}, {3, {2, 0, 3}}, {3, {2, 4, 5}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct layout {
    mst_portion portions[PORTIONS];
    int32_t count;
    int64_t kept[8]; /* elements by rank */
    bool nobody[MOST];
} layout;

static int64_t count_of(int32_t s) {
    int64_t count = 1;
    for (int32_t d = 0; d < shapes[s].ndim; d++) count *= shapes[s].sizes[d];
    return count;
}

/* Three elements to each rank in turn, from the last rank on; the ninth element to nobody. */
static layout deal(int64_t count, int32_t size) {
    layout l = {.count = 0};
    for (int32_t r = 0; r < size; r++)
        for (int64_t at = 0, turn = 0; at < count; at += 3, turn++) {
            if (size - 1 - turn % size != r) continue;
            const int64_t end = at + 3 < count ? at + 3 : count;
            const mst_portion portion = {r, at, end == 9 ? 8 : end};
            l.portions[l.count++] = portion;
            l.kept[r] += portion.end - portion.begin;
        }
    l.nobody[8] = count >= 9;
    return l;
}

static int64_t value_at(int64_t i, int32_t round) { return i * 3 + 100 * round + 1; }

static void set(muster_variable *v, int32_t s, int32_t round) {
    int64_t values[MOST];
    for (int64_t i = 0; i < MOST; i++) values[i] = value_at(i, round);
    assert_ok(muster_variable_set_whole(v, muster_tensor_make(MUSTER_I64, values, shapes[s].ndim, shapes[s].sizes)));
}

/* round 0: zeros. In portions what nobody keeps is 0. */
static void check(muster_variable *v, int32_t s, int32_t round, const layout *lost) {
    int64_t values[MOST];
    memset(values, 0xA5, sizeof values);
    assert_ok(muster_variable_get_whole(v, muster_tensor_make(MUSTER_I64, values, shapes[s].ndim, shapes[s].sizes)));
    for (int64_t i = 0; i < count_of(s); i++)
        if (values[i] != (round == 0 || (lost && lost->nobody[i]) ? 0 : value_at(i, round)))
            fail_msg("shape %d, round %d: element %lld is %lld", (int)s, (int)round, (long long)i, (long long)values[i]);
}

static void lay(muster_variable *v, int32_t s, const layout *l) {
    static const char owner;
    int64_t shape[3];
    assert_ok(mst_variable_lay_in_portions("test", v, l->portions, l->count, &owner));
    assert_ok(muster_variable_whole_shape(v, shapes[s].ndim, shape));
    assert_memory_equal(shape, shapes[s].sizes, (size_t)shapes[s].ndim * sizeof *shape);
    const muster_runtime *runtime = v->object.runtime;
    for (int32_t r = 0; r < runtime->size && shapes[s].ndim > 0; r++)
        assert_int_equal(v->replicas[r].capacity, l->kept[runtime->first + r] * 8);
}

static void try_shape(muster_runtime *runtime, int32_t s) {
    const int32_t size = muster_runtime_size(runtime);
    const layout l = deal(count_of(s), size);
    muster_variable *v;
    assert_ok(mst_variable_create_in_portions("test", runtime, "v", MUSTER_I64, shapes[s].ndim, shapes[s].sizes, &v));
    for (int32_t r = 0; r < runtime->size; r++) assert_int_equal(v->replicas[r].capacity, 0);
    check(v, s, 0, NULL);
    lay(v, s, &l);
    check(v, s, 0, NULL);
    set(v, s, 1);
    check(v, s, 1, &l);
    for (int32_t axis = -1; axis < shapes[s].ndim; axis++) {
        set(v, s, 2 + axis);
        assert_ok(mst_variable_lay_whole("test", v, axis));
        assert_int_equal(muster_variable_split_axis(v), axis);
        check(v, s, 2 + axis, &l);
        set(v, s, 3 + axis);
        check(v, s, 3 + axis, NULL);
        lay(v, s, &l);
        check(v, s, 3 + axis, &l);
    }
    assert_ok(muster_variable_destroy(v));
    assert_ok(mst_variable_create_in_portions("test", runtime, "v", MUSTER_I64, shapes[s].ndim, shapes[s].sizes, &v));
    set(v, s, 5); /* which gives every device all of it */
    check(v, s, 5, NULL);
    assert_ok(muster_variable_destroy(v));
}

static void test_values_pass_through_all_layouts(void **state) {
    int32_t cases = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime_options options;
        muster_runtime *runtime;
        muster_runtime_options_init(&options);
        options.devices = machines[m];
        assert_ok(muster_runtime_open(&options, &runtime));
        for (int32_t s = 0; s < SHAPES; s++, cases++) try_shape(runtime, s);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(cases, MACHINES * SHAPES);
}

static void test_a_name_that_is_taken_is_refused(void **state) {
    muster_runtime *runtime;
    muster_variable *v, *other = NULL;
    const int64_t shape[] = {3};
    (void)state;
    assert_ok(muster_runtime_open(NULL, &runtime));
    assert_ok(mst_variable_create_in_portions("test", runtime, "v", MUSTER_F32, 1, shape, &v));
    assert_refused(mst_variable_create_in_portions("test", runtime, "v", MUSTER_F32, 1, shape, &other), MUSTER_INVALID_ARGUMENT, "test");
    assert_null(other);
    assert_ok(muster_runtime_close(runtime));
}

static int setup(void **state) {
    (void)state;
    assert_ok(mst_discrete_register());
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values_pass_through_all_layouts),
                                       cmocka_unit_test(test_a_name_that_is_taken_is_refused)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
