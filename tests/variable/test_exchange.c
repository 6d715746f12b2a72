/* Collectives between the replicas, each against what it means when written down plainly: on every
 * number and kind of device, with any number of rows. */
#include "base_check.h"
#include "base_machine.h"
#include "base_seed.h"
#include "collectives_processes.h"
#include "device_discrete.h"
#include "variable_impl.h"

#include <stdio.h>

enum { RANKS = 5, ROWS = 64, COLUMNS = 2 };

/* ---- devices ---- */

static muster_runtime *open_text(const char *devices, int32_t logical_shards) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = logical_shards;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static const char *const texts[] = {"host:1",
                                    "host:2",
                                    "host:3",
                                    "host:4",
                                    "host:5",
                                    "discrete:1",
                                    "discrete:2",
                                    "discrete:3",
                                    "discrete:4",
                                    "discrete:5",
                                    "host:1,discrete:1",
                                    "discrete:1,host:2",
                                    "host:2,discrete:2",
                                    "host:1,discrete:4"};
enum { MACHINES = sizeof texts / sizeof *texts };

typedef struct machine {
    muster_runtime *runtime;
    muster_variable *v;
    int32_t size;
} machine;
static machine machines[MACHINES];

static int open_machines(void **state) {
    (void)state;
    const float one[COLUMNS] = {1, 1};
    if (mst_discrete_register() != MUSTER_OK) return -1;
    for (int m = 0; m < MACHINES; m++) {
        machines[m].runtime = open_text(texts[m], -1);
        machines[m].size = muster_runtime_size(machines[m].runtime);
        if (muster_variable_create(machines[m].runtime, "v", muster_f32(one, 1, COLUMNS), &machines[m].v) != MUSTER_OK) return -1;
    }
    return 0;
}

static int close_machines(void **state) {
    (void)state;
    for (int m = 0; m < MACHINES; m++) {
        if (muster_runtime_close(machines[m].runtime) != MUSTER_OK) return -1;
    }
    return mst_discrete_live() == 0 ? 0 : -1;
}

#define for_each_machine(m) for (const machine *m = machines; m < machines + MACHINES; m++)

/* ---- what the replicas hold ---- */

typedef struct replicas {
    int32_t size;
    int64_t rows[RANKS];
    float values[RANKS][ROWS][COLUMNS];
} replicas;

/* Every number occurs once. */
static replicas numbered(int32_t size, const int64_t *rows) {
    replicas made = {.size = size};
    for (int32_t r = 0; r < size; r++) {
        made.rows[r] = rows[r];
        for (int64_t i = 0; i < rows[r]; i++) {
            for (int c = 0; c < COLUMNS; c++) made.values[r][i][c] = (float)(1000 * r + 10 * i + c + 1);
        }
    }
    return made;
}

/* Small numbers, equal lengths: also products are exact. */
static replicas small_numbers(int32_t size, int64_t rows) {
    replicas made = {.size = size};
    for (int32_t r = 0; r < size; r++) {
        made.rows[r] = rows;
        for (int64_t i = 0; i < rows; i++) {
            for (int c = 0; c < COLUMNS; c++) made.values[r][i][c] = (float)((2 * r + i + c) % 4 - 1);
        }
    }
    return made;
}

static void append(replicas *to, int32_t rank, const replicas *from, int32_t source, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        memcpy(to->values[rank][to->rows[rank]++], from->values[source][i], sizeof from->values[source][i]);
}

static void put(muster_variable *v, const replicas *r) {
    for (int32_t rank = 0; rank < r->size; rank++)
        assert_ok(muster_variable_set(v, rank, muster_f32(r->values[rank], r->rows[rank], COLUMNS)));
}

static void assert_replicas(muster_variable *v, const replicas *expected) {
    for (int32_t rank = 0; rank < expected->size; rank++) {
        int64_t shape[2];
        float got[ROWS][COLUMNS];
        assert_ok(muster_variable_shape(v, rank, 2, shape));
        assert_int_equal(shape[0], expected->rows[rank]);
        assert_ok(muster_variable_get(v, rank, muster_f32(got, shape[0], COLUMNS)));
        for (int64_t i = 0; i < shape[0]; i++) {
            for (int c = 0; c < COLUMNS; c++) assert_float_equal(got[i][c], expected->values[rank][i][c], 1e-6);
        }
    }
}

/* Lengths by rank: none; all fewer than devices; as many; some devices without rows; one device
 * with all; uneven. */
enum { LENGTHS = 7 };
static void lengths_of(int kind, int32_t size, int64_t rows[RANKS]) {
    for (int32_t r = 0; r < size; r++) {
        const int64_t kinds[LENGTHS] = {0, size - 1, size, r % 2 ? 6 : 0, r == size - 1 ? 11 : 0, (3 * r + 7) % 11, 1};
        rows[r] = kinds[kind];
    }
}

static replicas of_kind(int kind, int32_t size) {
    int64_t rows[RANKS];
    lengths_of(kind, size, rows);
    return numbered(size, rows);
}

/* ---- what they mean ---- */

static replicas after_all_to_all(const replicas *before) {
    replicas after = {.size = before->size};
    for (int32_t to = 0; to < after.size; to++) {
        for (int32_t from = 0; from < after.size; from++) {
            append(&after, to, before, from, before->rows[from] * to / after.size, before->rows[from] * (to + 1) / after.size);
        }
    }
    return after;
}

static replicas after_broadcast_from(const replicas *before, int32_t root) {
    replicas after = {.size = before->size};
    for (int32_t r = 0; r < after.size; r++) append(&after, r, before, root, 0, before->rows[root]);
    return after;
}

static replicas after_scatter_from(const replicas *before, int32_t root) {
    replicas after = {.size = before->size};
    for (int32_t r = 0; r < after.size; r++)
        append(&after, r, before, root, before->rows[root] * r / after.size, before->rows[root] * (r + 1) / after.size);
    return after;
}

static replicas after_gather_at(const replicas *before, int32_t root) {
    replicas after = *before;
    after.rows[root] = 0;
    for (int32_t r = 0; r < after.size; r++) append(&after, root, before, r, 0, before->rows[r]);
    return after;
}

static float combined(muster_reduction op, const replicas *before, int64_t row, int column) {
    float result = before->values[0][row][column];
    for (int32_t r = 1; r < before->size; r++) {
        float value = before->values[r][row][column];
        switch (op) {
        case MUSTER_PROD:
            result *= value;
            break;
        case MUSTER_MAX:
            result = value > result ? value : result;
            break;
        case MUSTER_MIN:
            result = value < result ? value : result;
            break;
        default:
            result += value;
            break;
        }
    }
    return op == MUSTER_AVG ? result / (float)before->size : result;
}

static replicas after_reduce_at(const replicas *before, muster_reduction op, int32_t root) {
    replicas after = *before;
    for (int64_t i = 0; i < before->rows[root]; i++) {
        for (int c = 0; c < COLUMNS; c++) after.values[root][i][c] = combined(op, before, i, c);
    }
    return after;
}

static replicas after_reduce_scatter(const replicas *before, muster_reduction op) {
    const replicas reduced = after_reduce_at(before, op, 0);
    return after_scatter_from(&reduced, 0);
}

/* ---- each on its own ---- */

static void all_to_all_exchanges_the_parts(void **state) {
    (void)state;
    for_each_machine(m) {
        for (int kind = 0; kind < LENGTHS; kind++) {
            const replicas before = of_kind(kind, m->size), after = after_all_to_all(&before);
            put(m->v, &before);
            assert_ok(muster_variables_all_to_all(&m->v, 1));
            assert_replicas(m->v, &after);
        }
    }
}

static void all_to_all_twice_brings_equal_parts_back(void **state) {
    (void)state;
    for_each_machine(m) {
        int64_t rows[RANKS];
        for (int32_t r = 0; r < m->size; r++) rows[r] = 2 * m->size;
        const replicas before = numbered(m->size, rows);
        put(m->v, &before);
        assert_ok(muster_variables_all_to_all(&m->v, 1));
        assert_ok(muster_variables_all_to_all(&m->v, 1));
        assert_replicas(m->v, &before);
    }
}

static void broadcast_from_any_rank(void **state) {
    (void)state;
    for_each_machine(m) {
        for (int kind = 0; kind < LENGTHS; kind++) {
            const replicas before = of_kind(kind, m->size);
            for (int32_t root = 0; root < m->size; root++) {
                const replicas after = after_broadcast_from(&before, root);
                put(m->v, &before);
                assert_ok(muster_variables_broadcast_from(&m->v, 1, root));
                assert_replicas(m->v, &after);
            }
        }
    }
}

static void scatter_from_any_rank(void **state) {
    (void)state;
    for_each_machine(m) {
        for (int kind = 0; kind < LENGTHS; kind++) {
            const replicas before = of_kind(kind, m->size);
            for (int32_t root = 0; root < m->size; root++) {
                const replicas after = after_scatter_from(&before, root);
                put(m->v, &before);
                assert_ok(muster_variables_scatter_from(&m->v, 1, root));
                assert_replicas(m->v, &after);
            }
        }
    }
}

static void gather_at_any_rank(void **state) {
    (void)state;
    for_each_machine(m) {
        for (int kind = 0; kind < LENGTHS; kind++) {
            const replicas before = of_kind(kind, m->size);
            for (int32_t root = 0; root < m->size; root++) {
                const replicas after = after_gather_at(&before, root);
                put(m->v, &before);
                assert_ok(muster_variables_gather_at(&m->v, 1, root));
                assert_replicas(m->v, &after);
            }
        }
    }
}

static void reduce_at_any_rank(void **state) {
    (void)state;
    for_each_machine(m) {
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            for (int32_t root = 0; root < m->size; root++) {
                const replicas before = small_numbers(m->size, 3), after = after_reduce_at(&before, op, root);
                put(m->v, &before);
                assert_ok(muster_variables_reduce_at(&m->v, 1, op, root));
                assert_replicas(m->v, &after);
            }
        }
    }
}

static void reduce_scatter_leaves_each_its_part(void **state) {
    (void)state;
    for_each_machine(m) {
        const int64_t rows[] = {0, 1, m->size - 1, m->size, m->size + 1, 13};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
                const replicas before = small_numbers(m->size, rows[i]), after = after_reduce_scatter(&before, op);
                put(m->v, &before);
                assert_ok(muster_variables_reduce_scatter(&m->v, 1, op));
                assert_replicas(m->v, &after);
            }
        }
    }
}

/* All gathered again, it is what all_reduce makes. */
static void reduce_scatter_and_all_gather_make_an_all_reduce(void **state) {
    (void)state;
    for_each_machine(m) {
        const replicas before = small_numbers(m->size, 7);
        float parts[7][COLUMNS], whole[7][COLUMNS];
        put(m->v, &before);
        assert_ok(muster_variables_reduce_scatter(&m->v, 1, MUSTER_AVG));
        assert_ok(muster_variables_all_gather(&m->v, 1));
        assert_ok(muster_variable_get(m->v, m->size - 1, muster_f32(parts, 7, COLUMNS)));
        put(m->v, &before);
        assert_ok(muster_variables_all_reduce(&m->v, 1, MUSTER_AVG));
        assert_ok(muster_variable_get(m->v, 0, muster_f32(whole, 7, COLUMNS)));
        assert_memory_equal(parts, whole, sizeof whole);
    }
}

/* ---- large rows, other dtypes and ranks of tensors, lists ---- */

enum { LARGE = 20000 };
static float large[3][3 * LARGE], received[3 * LARGE];

/* More than travels beside a line, in rows that are not multiples of one. */
static void large_replicas_take_the_direct_way(void **state) {
    (void)state;
    const char *const three[] = {"host:3", "discrete:3", "host:1,discrete:2"};
    for (int m = 0; m < 3; m++) {
        muster_runtime *runtime = open_text(three[m], -1);
        muster_variable *v;
        const int64_t shape[] = {3, LARGE};
        for (int r = 0; r < 3; r++) {
            for (int i = 0; i < 3 * LARGE; i++) large[r][i] = (float)(i % 1000 + 1000 * r);
        }
        assert_ok(muster_variable_create(runtime, "v", muster_f32(large[0], 3, LARGE), &v));
        for (int32_t r = 0; r < 3; r++) assert_ok(muster_variable_set(v, r, muster_tensor_make(MUSTER_F32, large[r], 2, shape)));
        assert_ok(muster_variables_all_to_all(&v, 1));
        for (int32_t r = 0; r < 3; r++) {
            assert_ok(muster_variable_get(v, r, muster_f32(received, 3, LARGE)));
            for (int32_t from = 0; from < 3; from++)
                assert_memory_equal(received + from * LARGE, large[from] + r * LARGE, LARGE * sizeof(float));
        }
        for (int32_t r = 0; r < 3; r++) assert_ok(muster_variable_set(v, r, muster_tensor_make(MUSTER_F32, large[r], 2, shape)));
        assert_ok(muster_variables_reduce_scatter(&v, 1, MUSTER_SUM));
        for (int32_t r = 0; r < 3; r++) {
            assert_ok(muster_variable_get(v, r, muster_f32(received, 1, LARGE)));
            for (int i = 0; i < LARGE; i++) assert_float_equal(received[i], (float)(3 * ((r * LARGE + i) % 1000) + 3000), 0);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

typedef struct several {
    muster_variable *list[3];
    int64_t counts[6];   /* (6) */
    double blocks[4][6]; /* (4, 3, 2) */
    float scalar;        /* () */
} several;

static several create_several(muster_runtime *runtime) {
    several s = {.scalar = 4};
    for (int i = 0; i < 6; i++) s.counts[i] = ((int64_t)1 << 40) + i;
    for (int i = 0; i < 24; i++) s.blocks[i / 6][i % 6] = 0.5 * i;
    assert_ok(muster_variable_create(runtime, "counts", muster_i64(s.counts, 6), &s.list[0]));
    assert_ok(muster_variable_create(runtime, "blocks", muster_f64(s.blocks, 4, 3, 2), &s.list[1]));
    assert_ok(muster_variable_create(runtime, "scalar", muster_f32(&s.scalar), &s.list[2]));
    return s;
}

static void a_list_is_served_in_one_call(void **state) {
    (void)state;
    for_each_machine(m) {
        const several s = create_several(m->runtime);
        const int32_t last = m->size - 1;
        int64_t counts[6 * RANKS], rows;
        double blocks[4 * RANKS][6];
        float scalar = 9;
        assert_ok(muster_variables_reduce_scatter(s.list, 2, MUSTER_SUM));
        rows = 6 - 6 * last / m->size;
        assert_ok(muster_variable_get(s.list[0], last, muster_i64(counts, rows)));
        for (int64_t i = 0; i < rows; i++) assert_true(counts[i] == m->size * s.counts[6 - rows + i]);
        rows = 4 - 4 * last / m->size;
        assert_ok(muster_variable_get(s.list[1], last, muster_f64(blocks, rows, 3, 2)));
        for (int64_t i = 0; i < 6 * rows; i++) assert_float_equal(blocks[i / 6][i % 6], m->size * s.blocks[4 - rows + i / 6][i % 6], 0);
        assert_ok(muster_variables_gather_at(s.list, 2, last));
        assert_ok(muster_variables_scatter_from(s.list, 2, last)); /* the parts of the last one's */
        assert_ok(muster_variables_all_to_all(s.list, 2));
        assert_ok(muster_variables_all_gather(s.list, 2));
        int64_t lengths[RANKS];
        assert_ok(muster_variable_lengths(s.list[1], m->size, lengths));
        assert_int_equal(lengths[0], 4); /* what was cut has been put together again, and nothing was lost */
        assert_ok(muster_variable_set(s.list[2], last, muster_f32(&scalar)));
        assert_ok(muster_variables_broadcast_from(s.list, 3, last)); /* a scalar too */
        assert_ok(muster_variable_get(s.list[2], 0, muster_f32(&scalar)));
        assert_float_equal(scalar, 9, 0);
        assert_ok(muster_variables_reduce_at(&s.list[2], 1, MUSTER_SUM, last));
        assert_ok(muster_variable_get(s.list[2], last, muster_f32(&scalar)));
        assert_float_equal(scalar, 9 * m->size, 0);
        for (int i = 0; i < 3; i++) assert_ok(muster_variable_destroy(s.list[i]));
    }
}

static void an_empty_list_is_nothing_to_do(void **state) {
    (void)state;
    assert_ok(muster_variables_reduce_scatter(NULL, 0, MUSTER_SUM));
    assert_ok(muster_variables_all_to_all(NULL, 0));
    assert_ok(muster_variables_broadcast_from(NULL, 0, 7));
    assert_ok(muster_variables_scatter_from(NULL, 0, 7));
    assert_ok(muster_variables_reduce_at(NULL, 0, MUSTER_SUM, 7));
    assert_ok(muster_variables_gather_at(NULL, 0, 7));
}

/* ---- refusals ---- */

typedef struct refusal_case {
    muster_runtime *runtime;
    muster_variable *list[2]; /* the first could be served */
    replicas first;
} refusal_case;

static refusal_case begin_refusals(void) {
    refusal_case c = {.runtime = open_text("host:2", -1), .first = small_numbers(2, 3)};
    assert_ok(muster_variable_create(c.runtime, "first", muster_f32(c.first.values[0], 3, COLUMNS), &c.list[0]));
    put(c.list[0], &c.first);
    return c;
}

static void end_refusals(refusal_case *c) {
    assert_replicas(c->list[0], &c->first);
    assert_ok(muster_runtime_close(c->runtime));
}

static void unequal_shapes_are_refused(void **state) {
    (void)state;
    refusal_case c = begin_refusals();
    float zero[8] = {0};
    assert_ok(muster_variable_create(c.runtime, "w", muster_f32(zero, 3, 2), &c.list[1]));
    assert_ok(muster_variable_set(c.list[1], 1, muster_f32(zero, 2, 2)));
    assert_refused(muster_variables_reduce_scatter(c.list, 2, MUSTER_SUM), MUSTER_SHAPE_MISMATCH,
                   "muster_variables_reduce_scatter: variable 'w': rank 1 has shape (2, 2), rank 0 has (3, 2)");
    assert_refused(muster_variables_reduce_at(c.list, 2, MUSTER_SUM, 1), MUSTER_SHAPE_MISMATCH,
                   "muster_variables_reduce_at: variable 'w': rank 1 has shape (2, 2), rank 0 has (3, 2)");
    /* only the last size differs */
    assert_ok(muster_variable_set(c.list[1], 1, muster_f32(zero, 3, 1)));
    assert_refused(muster_variables_reduce_at(c.list, 2, MUSTER_SUM, 1), MUSTER_SHAPE_MISMATCH,
                   "muster_variables_reduce_at: variable 'w': rank 1 has shape (3, 1), rank 0 has (3, 2)");
    end_refusals(&c);
}

static void unequal_trailing_dimensions_are_refused(void **state) {
    (void)state;
    refusal_case c = begin_refusals();
    float zero[8] = {0};
    assert_ok(muster_variable_create(c.runtime, "w", muster_f32(zero, 4, 2), &c.list[1]));
    assert_ok(muster_variable_set(c.list[1], 1, muster_f32(zero, 4, 1)));
    assert_refused(
        muster_variables_all_to_all(c.list, 2), MUSTER_SHAPE_MISMATCH,
        "muster_variables_all_to_all: variable 'w': rank 1 has shape (4, 1), rank 0 has (4, 2): all but the first size must be equal");
    assert_refused(
        muster_variables_gather_at(c.list, 2, 0), MUSTER_SHAPE_MISMATCH,
        "muster_variables_gather_at: variable 'w': rank 1 has shape (4, 1), rank 0 has (4, 2): all but the first size must be equal");
    end_refusals(&c);
}

static void scalars_have_no_rows_to_move(void **state) {
    (void)state;
    refusal_case c = begin_refusals();
    float zero = 0;
    assert_ok(muster_variable_create(c.runtime, "s", muster_f32(&zero), &c.list[1]));
    assert_refused(muster_variables_reduce_scatter(c.list, 2, MUSTER_SUM), MUSTER_SHAPE_MISMATCH,
                   "variable 's': expected at least 1 dimension to scatter along");
    assert_refused(muster_variables_all_to_all(c.list, 2), MUSTER_SHAPE_MISMATCH,
                   "variable 's': expected at least 1 dimension to exchange along");
    assert_refused(muster_variables_scatter_from(c.list, 2, 0), MUSTER_SHAPE_MISMATCH,
                   "variable 's': expected at least 1 dimension to scatter along");
    assert_refused(muster_variables_gather_at(c.list, 2, 0), MUSTER_SHAPE_MISMATCH,
                   "variable 's': expected at least 1 dimension to concatenate along");
    end_refusals(&c);
}

static void ranks_that_do_not_exist_are_refused(void **state) {
    (void)state;
    refusal_case c = begin_refusals();
    assert_refused(muster_variables_broadcast_from(c.list, 1, 2), MUSTER_OUT_OF_RANGE,
                   "muster_variables_broadcast_from: rank: expected 0 to 1, received 2");
    assert_refused(muster_variables_scatter_from(c.list, 1, -1), MUSTER_OUT_OF_RANGE,
                   "muster_variables_scatter_from: rank: expected 0 to 1, received -1");
    assert_refused(muster_variables_reduce_at(c.list, 1, MUSTER_SUM, 2), MUSTER_OUT_OF_RANGE,
                   "muster_variables_reduce_at: rank: expected 0 to 1, received 2");
    assert_refused(muster_variables_gather_at(c.list, 1, -1), MUSTER_OUT_OF_RANGE,
                   "muster_variables_gather_at: rank: expected 0 to 1, received -1");
    end_refusals(&c);
}

static void reductions_that_do_not_exist_are_refused(void **state) {
    (void)state;
    refusal_case c = begin_refusals();
    const int64_t four[4] = {0};
    assert_ok(muster_variable_create(c.runtime, "counts", muster_i64(four, 4), &c.list[1]));
    assert_refused(muster_variables_reduce_scatter(c.list, 2, MUSTER_AVG), MUSTER_UNSUPPORTED, "muster_variables_reduce_scatter");
    assert_refused(muster_variables_reduce_at(c.list, 2, MUSTER_AVG, 1), MUSTER_UNSUPPORTED, "muster_variables_reduce_at");
    assert_refused(muster_variables_reduce_scatter(c.list, 2, 99), MUSTER_INVALID_ARGUMENT, "muster_variables_reduce_scatter");
    end_refusals(&c);
}

/* Rows without elements take no memory, and so may be more than any memory holds. */
static void numbers_of_rows_that_overflow_are_refused(void **state) {
    (void)state;
    refusal_case c = begin_refusals();
    float none;
    int64_t lengths[2];
    const int64_t shape[] = {INT64_MAX / 2 + 2, 0};
    assert_ok(muster_variable_create(c.runtime, "w", muster_tensor_make(MUSTER_F32, &none, 2, shape), &c.list[1]));
    assert_refused(muster_variables_all_to_all(c.list, 2), MUSTER_OVERFLOW, "variable 'w': the rows of all ranks overflow 64 bits");
    assert_refused(muster_variables_gather_at(c.list, 2, 1), MUSTER_OVERFLOW, "variable 'w': the rows of all ranks overflow 64 bits");
    assert_ok(muster_variables_reduce_scatter(&c.list[1], 1, MUSTER_SUM));
    assert_ok(muster_variable_lengths(c.list[1], 2, lengths));
    assert_true(lengths[0] + (uint64_t)lengths[1] == (uint64_t)shape[0]);
    assert_ok(muster_variables_all_to_all(&c.list[1], 1));
    end_refusals(&c);
}

/* ---- every failing allocation ---- */

typedef struct operation_case {
    const char *name;
    muster_status (*run)(muster_variable *const *list);
    replicas (*expected)(const replicas *before);
} operation_case;

static muster_status run_reduce_scatter(muster_variable *const *list) { return muster_variables_reduce_scatter(list, 2, MUSTER_MAX); }
static replicas expect_reduce_scatter(const replicas *before) { return after_reduce_scatter(before, MUSTER_MAX); }
static muster_status run_all_to_all(muster_variable *const *list) { return muster_variables_all_to_all(list, 2); }
static muster_status run_broadcast_from(muster_variable *const *list) { return muster_variables_broadcast_from(list, 2, 2); }
static replicas expect_broadcast_from(const replicas *before) { return after_broadcast_from(before, 2); }
static muster_status run_scatter_from(muster_variable *const *list) { return muster_variables_scatter_from(list, 2, 1); }
static replicas expect_scatter_from(const replicas *before) { return after_scatter_from(before, 1); }
static muster_status run_reduce_at(muster_variable *const *list) { return muster_variables_reduce_at(list, 2, MUSTER_SUM, 1); }
static replicas expect_reduce_at(const replicas *before) { return after_reduce_at(before, MUSTER_SUM, 1); }
static muster_status run_gather_at(muster_variable *const *list) { return muster_variables_gather_at(list, 2, 1); }
static replicas expect_gather_at(const replicas *before) { return after_gather_at(before, 1); }

/* Two variables of three replicas; with the k-th allocation failing nothing changes, and the next
 * call does what it should. true: there was no k-th. */
static bool fail_allocation(const char *devices, const operation_case *operation, const int64_t rows[3], int64_t k) {
    const replicas before = numbered(3, rows), after = operation->expected(&before);
    muster_runtime *runtime = open_text(devices, -1);
    muster_variable *list[2];
    const float one[COLUMNS] = {1, 1};
    for (int i = 0; i < 2; i++) {
        assert_ok(muster_variable_create(runtime, i ? "w" : "v", muster_f32(one, 1, COLUMNS), &list[i]));
        put(list[i], &before);
    }
    mst_memory_fail_at(k);
    int64_t count = mst_memory_count();
    muster_status status = operation->run(list);
    bool done = mst_memory_count() - count < k;
    mst_memory_fail_at(0);
    if (status != (done ? MUSTER_OK : MUSTER_OUT_OF_MEMORY)) {
        fail_msg("%s on %s, allocation %d: %s", operation->name, devices, (int)k, muster_last_error());
    }
    if (!done) {
        for (int i = 0; i < 2; i++) assert_replicas(list[i], &before);
        assert_ok(operation->run(list));
    }
    for (int i = 0; i < 2; i++) assert_replicas(list[i], &after);
    assert_ok(muster_runtime_close(runtime));
    return done;
}

static void failing_allocations_change_nothing(void **state) {
    (void)state;
    static const operation_case operations[] = {
        {"reduce_scatter", run_reduce_scatter, expect_reduce_scatter},
        {"all_to_all", run_all_to_all, after_all_to_all},
        {"broadcast_from", run_broadcast_from, expect_broadcast_from},
        {"scatter_from", run_scatter_from, expect_scatter_from},
        {"reduce_at", run_reduce_at, expect_reduce_at},
        {"gather_at", run_gather_at, expect_gather_at},
    };
    static const char *const devices[] = {"host:3", "discrete:3", "host:1,discrete:2"};
    const int64_t equal[] = {4, 4, 4}, uneven[] = {2, 5, 7};
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        const bool reduces = operations[o].run == run_reduce_scatter || operations[o].run == run_reduce_at;
        for (int d = 0; d < 3; d++) {
            const int64_t live = mst_memory_live(), discrete = mst_discrete_live();
            const int64_t step = on_gpus() && !test_is_full() ? 5 : 1;
            for (int64_t k = 1; !fail_allocation(devices[d], &operations[o], reduces ? equal : uneven, k); k += step) continue;
            assert_int_equal(mst_memory_live(), live);
            assert_int_equal(mst_discrete_live(), discrete);
        }
    }
}

/* ---- logical shards ---- */

static void edges_are_edges_of_the_logical_shards(void **state) {
    (void)state;
    enum { SHARDS = 8, N_ROWS = 61 };
    for (int32_t n = 1; n <= SHARDS; n *= 2) {
        char text[24];
        snprintf(text, sizeof text, "host:%d", n);
        muster_runtime *runtime = open_text(text, SHARDS);
        muster_variable *list[2];
        float x[N_ROWS] = {0};
        int64_t lengths[2][SHARDS];
        assert_ok(muster_variable_create(runtime, "v", muster_f32(x, N_ROWS), &list[0]));
        assert_ok(muster_variable_create(runtime, "w", muster_f32(x, N_ROWS), &list[1]));
        assert_ok(muster_variables_reduce_scatter(&list[0], 1, MUSTER_SUM));
        assert_ok(muster_variables_scatter_from(&list[1], 1, n - 1));
        for (int i = 0; i < 2; i++) assert_ok(muster_variable_lengths(list[i], n, lengths[i]));
        for (int32_t r = 0; r < n; r++) {
            int64_t expected = 0;
            for (int32_t s = r * SHARDS / n; s < (r + 1) * SHARDS / n; s++) expected += N_ROWS * (s + 1) / SHARDS - N_ROWS * s / SHARDS;
            assert_int_equal(lengths[0][r], expected);
            assert_int_equal(lengths[1][r], expected);
        }
        assert_ok(muster_runtime_close(runtime));
    }
}

/* Floats whose sum depends on the order: ((1e8 + 1) - 1e8) + 1 is 1, in pairs it is 0, and exactly
 * it is 2. */
/* Without logical shards each process combines the values of its ranks first. */
static float sum_in_order(const float values[4], bool of_processes) {
    const int32_t processes = of_processes && processes_count() <= 4 ? processes_count() : 1;
    float sum = 0;
    for (int32_t p = 0, r = 0; p < processes; p++) {
        float part = values[r++];
        for (const int32_t end = r - 1 + 4 / processes + (p < 4 % processes); r < end;) part += values[r++];
        sum = p == 0 ? part : sum + part;
    }
    return sum;
}

static void reductions_go_in_rank_order_with_and_without_logical_shards(void **state) {
    (void)state;
    const float values[4] = {1e8f, 1, -1e8f, 1};
    assert_float_equal(sum_in_order(values, false), 1, 0);
    for (int32_t shards = -1; shards <= 8; shards += 9) {
        for (int d = 0; d < 2; d++) {
            muster_runtime *runtime = open_text(d ? "discrete:4" : "host:4", shards);
            muster_variable *v;
            float each[4], part;
            assert_ok(muster_variable_create(runtime, "v", muster_f32(each, 4), &v));
            for (int way = 0; way < 3; way++) { /* all_reduce, reduce_at, reduce_scatter */
                for (int32_t r = 0; r < 4; r++) {
                    for (int i = 0; i < 4; i++) each[i] = values[r];
                    assert_ok(muster_variable_set(v, r, muster_f32(each, 4)));
                }
                if (way == 0) assert_ok(muster_variables_all_reduce(&v, 1, MUSTER_SUM));
                if (way == 1) assert_ok(muster_variables_reduce_at(&v, 1, MUSTER_SUM, 3));
                if (way == 2) assert_ok(muster_variables_reduce_scatter(&v, 1, MUSTER_SUM));
                assert_ok(muster_variable_get(v, 3, way == 2 ? muster_f32(&part, 1) : muster_f32(each, 4)));
                assert_float_equal(way == 2 ? part : each[3], sum_in_order(values, shards < 0), 0);
            }
            assert_ok(muster_runtime_close(runtime));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_to_all_exchanges_the_parts),
        cmocka_unit_test(all_to_all_twice_brings_equal_parts_back),
        cmocka_unit_test(broadcast_from_any_rank),
        cmocka_unit_test(scatter_from_any_rank),
        cmocka_unit_test(gather_at_any_rank),
        cmocka_unit_test(reduce_at_any_rank),
        cmocka_unit_test(reduce_scatter_leaves_each_its_part),
        cmocka_unit_test(reduce_scatter_and_all_gather_make_an_all_reduce),
        cmocka_unit_test(large_replicas_take_the_direct_way),
        cmocka_unit_test(a_list_is_served_in_one_call),
        cmocka_unit_test(an_empty_list_is_nothing_to_do),
        cmocka_unit_test(unequal_shapes_are_refused),
        cmocka_unit_test(unequal_trailing_dimensions_are_refused),
        cmocka_unit_test(scalars_have_no_rows_to_move),
        cmocka_unit_test(ranks_that_do_not_exist_are_refused),
        cmocka_unit_test(reductions_that_do_not_exist_are_refused),
        cmocka_unit_test(numbers_of_rows_that_overflow_are_refused),
        cmocka_unit_test(failing_allocations_change_nothing),
        cmocka_unit_test(edges_are_edges_of_the_logical_shards),
        cmocka_unit_test(reductions_go_in_rank_order_with_and_without_logical_shards),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
