/* The host algorithms without threads: views are made by hand, the ranks are served one after
 * another in a random order, and every element is compared with what this file computes from whole
 * numbers. Up to 9 elements the whole matrix, beyond that a sample by MUSTER_SEED (test_conformance
 * has all of it); under the sanitizers a smaller sample of smaller sizes. MUSTER_TEST_FULL=1:
 * larger samples. */
#include "base_check.h"

#include "base_seed.h"
#include "collectives_oracle.h"
#include "host/algorithm_private.h"
#include "host/stores_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef MUSTER_TEST_SANITIZED
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { RANKS = 9, GUARD = 64, FILL = 0xA5, AT_ONCE = 512 };
enum { APART, IN_PLACE, MIXED, PLACES }; /* MIXED: even ranks in place, the others not */

typedef struct trial {
    mst_collective collective;
    muster_reduction op;
    muster_dtype dtype;
    int32_t size, root, places;
    bool uneven;           /* parts, or numbers of shards */
    const int64_t *shards; /* [size] of an uneven all_reduce; NULL: as shards_of computes them */
    int64_t count;
    bool fractions; /* any floats, to compare algorithms by; else whole numbers, to compare with expectations */
} trial;

typedef struct rank_memory {
    char *block, *copy; /* input and guarded output; the input's copy */
    int64_t capacity, used;
    char *output;
    int64_t output_bytes;
} rank_memory;

static rank_memory memories[RANKS];
static mst_request originals[RANKS], copied[RANKS];
static int64_t send_counts[RANKS][RANKS], recv_counts[RANKS][RANKS];
static uint64_t numbers = 1;

static int64_t random_below(int64_t below) {
    numbers = numbers * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((numbers >> 33) % (uint64_t)below);
}

/* ---- what the ranks enter with ---- */

static bool is_float(muster_dtype dtype) { return dtype <= MUSTER_F64; }
static bool is_signed(muster_dtype dtype) { return is_float(dtype) || dtype == MUSTER_I8 || (dtype >= MUSTER_I16 && dtype <= MUSTER_I64); }
static bool reduces(mst_collective collective) {
    return collective == MST_ALL_REDUCE || collective == MST_REDUCE || collective == MST_REDUCE_SCATTER;
}

/* Element i of rank r's input. Sums, products and copies of these are exact in every dtype. */
static int64_t value_of(const trial *t, int32_t r, int64_t i) {
    int64_t value = (i * 7 + r * 5 + i / 97) % 5;
    if (t->dtype == MUSTER_BOOL) return value > 1;
    if (is_float(t->dtype) && t->op == MUSTER_PROD && t->uneven) return value > 2 ? -1 : 1; /* of up to 45 shards */
    return is_signed(t->dtype) ? value - 2 : value;
}
static int64_t parameter_of(int64_t i) { return i % 4 - 1; }

static int64_t shards_of(const trial *t, int32_t r) {
    if (t->shards) return t->shards[r];
    return t->uneven && t->collective == MST_ALL_REDUCE ? r % 3 * 5 + (r == 0) : 1;
}
static int64_t part_of(const trial *t, int32_t r) { return t->uneven ? t->count * (r % 3) / 2 + (r == 1) : t->count; }
static int64_t offset_of(const trial *t, int32_t r) {
    int64_t offset = 0;
    for (int32_t q = 0; q < r; q++) offset += part_of(t, q);
    return offset;
}
static int64_t block_count(const trial *t, int32_t from, int32_t to) { return t->uneven ? t->count * ((from + 2 * to) % 3) / 2 : t->count; }
static int64_t sum_of(const int64_t *counts, int32_t size) {
    int64_t sum = 0;
    for (int32_t r = 0; r < size; r++) sum += counts[r];
    return sum;
}

static void set_counts(const trial *t, mst_request *q, int32_t r) {
    bool root = r == t->root;
    int64_t total = offset_of(t, t->size);
    switch (t->collective) {
    case MST_ALL_REDUCE:
        q->shards = shards_of(t, r), q->input_count = q->shards * t->count, q->output_count = t->count;
        break;
    case MST_ALL_REDUCE_AXPY:
        q->alpha = 3, q->input_count = q->output_count = t->count;
        break;
    case MST_REDUCE:
        q->input_count = t->count, q->output_count = root ? t->count : 0;
        break;
    case MST_BROADCAST:
        q->input_count = root ? t->count : 0, q->output_count = t->count;
        break;
    case MST_ALL_GATHER:
        q->input_count = part_of(t, r), q->output_count = total;
        break;
    case MST_GATHER:
        q->input_count = part_of(t, r), q->output_count = root ? total : 0;
        break;
    case MST_SCATTER:
        q->input_count = root ? total : 0, q->output_count = part_of(t, r);
        break;
    case MST_REDUCE_SCATTER:
        q->input_count = total, q->output_count = part_of(t, r);
        break;
    default:
        for (int32_t p = 0; p < t->size; p++) send_counts[r][p] = block_count(t, r, p), recv_counts[r][p] = block_count(t, p, r);
        q->input_count = sum_of(send_counts[r], t->size), q->output_count = sum_of(recv_counts[r], t->size);
        q->send_counts = t->uneven ? send_counts[r] : NULL;
        q->recv_counts = t->uneven ? recv_counts[r] : NULL;
    }
}

/* Is this rank in place? */
static bool placed(const trial *t, int32_t r) {
    bool sharded = t->collective == MST_ALL_REDUCE && t->uneven, uneven_blocks = t->collective == MST_ALL_TO_ALL && t->uneven;
    bool rooted =
        t->collective == MST_REDUCE || t->collective == MST_BROADCAST || t->collective == MST_GATHER || t->collective == MST_SCATTER;
    if (t->places == APART || (t->places == MIXED && r % 2) || sharded || uneven_blocks || t->collective == MST_ALL_REDUCE_AXPY)
        return false;
    return !rooted || r == t->root;
}

static void reserve(rank_memory *m, int64_t bytes) {
    m->used = bytes;
    if (bytes <= m->capacity) return;
    mst_free(m->block);
    mst_free(m->copy);
    m->block = mst_alloc_uninitialised((size_t)bytes);
    m->copy = mst_alloc_uninitialised((size_t)bytes);
    assert_non_null(m->block);
    assert_non_null(m->copy);
    m->capacity = bytes;
}

/* The block: guard, input, guard, output, guard; in place the smaller one lies in the larger
 * one. */
static void place(const trial *t, mst_request *q, int32_t r, int64_t misaligned) {
    int64_t element = muster_dtype_size(t->dtype), input = q->input_count * element, output = q->output_count * element;
    rank_memory *m = &memories[r];
    reserve(m, input + output + 4 * GUARD + 2 * misaligned * element);
    char *first = m->block + GUARD + misaligned * element, *second = first + input + GUARD;
    q->input = first;
    q->output = second;
    if (placed(t, r)) {
        int64_t offset = offset_of(t, r) * element;
        bool in_output = t->collective == MST_ALL_GATHER || t->collective == MST_GATHER;
        bool in_input = t->collective == MST_SCATTER || t->collective == MST_REDUCE_SCATTER;
        q->output = in_input ? first + offset : first;
        q->input = in_output ? first + offset : first;
    }
    m->output = q->output;
    m->output_bytes = output;
    memset(m->block, FILL, (size_t)m->used);
}

static double fraction(int64_t i) { return (double)(random_below(1 << 24) - (1 << 23)) * 0x1p-22 * ((double)(i % 3) + 0.1); }

static void fill_input(const trial *t, mst_request *q, int32_t r) {
    double values[AT_ONCE];
    for (int64_t i = 0; i < q->input_count; i++) {
        values[i % AT_ONCE] = t->fractions ? fraction(i) : (double)value_of(t, r, i);
        if (i % AT_ONCE != AT_ONCE - 1 && i + 1 < q->input_count) continue;
        int64_t first = i / AT_ONCE * AT_ONCE;
        mst_convert(t->dtype, (char *)q->input + first * muster_dtype_size(t->dtype), MUSTER_F64, values, i + 1 - first);
    }
}

static void fill_parameter(const trial *t, mst_request *q) {
    for (int64_t i = 0; i < q->output_count; i++) {
        double value = t->fractions ? (double)i * 0.37 : (double)parameter_of(i);
        mst_convert(t->dtype, (char *)q->output + i * muster_dtype_size(t->dtype), MUSTER_F64, &value, 1);
    }
}

static void fill(const trial *t, mst_request *q, int32_t r, uint64_t seed) {
    numbers = seed + (uint64_t)r * 977;
    fill_input(t, q, r);
    if (t->collective == MST_ALL_REDUCE_AXPY) fill_parameter(t, q);
}

static void prepare(const trial *t, uint64_t seed) {
    int64_t misaligned = (int64_t)(seed % 3);
    for (int32_t r = 0; r < t->size; r++) {
        mst_request *q = &originals[r];
        *q = (mst_request){.collective = (uint8_t)t->collective, .reduction = (uint8_t)t->op, .dtype = (uint8_t)t->dtype, .root = t->root};
        set_counts(t, q, r);
        place(t, q, r, misaligned);
        fill(t, q, r, seed);
        copied[r] = *q;
        copied[r].input = memories[r].copy;
        if (q->input_count > 0) memcpy(memories[r].copy, q->input, (size_t)(q->input_count * muster_dtype_size(t->dtype)));
    }
}

/* Every rank once, beginning anywhere, in either direction. With stores that bypass the cache, or
 * with plain ones. */
static int64_t streamed; /* ranks that wrote so */
static void serve(const trial *t, int32_t kind, bool streaming, uint64_t seed) {
    static _Alignas(64) char chunk[MST_CHUNK_BYTES];
    mst_stores_use use = {.past_cache = true, .streaming = streaming};
    prepare(t, seed);
    const mst_request *requests[RANKS];
    for (int32_t r = 0; r < t->size; r++) requests[r] = mst_algorithm_at(kind)->offer == MST_OFFER_TENSORS ? &originals[r] : &copied[r];
    int32_t first = (int32_t)random_below(t->size), direction = random_below(2) ? 1 : t->size - 1;
    for (int32_t i = 0; i < t->size; i++) {
        memset(chunk, FILL, sizeof chunk);
        mst_view view = {requests, t->size, (first + i * direction) % t->size, chunk, &use, NULL};
        use.asked = false;
        mst_algorithm_at(kind)->run[t->collective](&view);
        streamed += use.asked && use.streaming;
    }
}

/* ---- what must come out ---- */

/* Integers wrap. */
static double wrapped(muster_dtype dtype, uint64_t bits) {
    switch (dtype) {
    case MUSTER_I8:
        return (double)(int8_t)bits;
    case MUSTER_U8:
        return (double)(uint8_t)bits;
    case MUSTER_I16:
        return (double)(int16_t)bits;
    case MUSTER_I32:
        return (double)(int32_t)bits;
    case MUSTER_U32:
        return (double)(uint32_t)bits;
    case MUSTER_U64:
        return (double)bits;
    default:
        return (double)(int64_t)bits;
    }
}

static double combined(const trial *t, int64_t index) {
    int64_t sum = 0, largest = INT64_MIN, smallest = INT64_MAX, total = 0;
    uint64_t product = 1;
    for (int32_t r = 0; r < t->size; r++) {
        for (int64_t s = 0; s < shards_of(t, r); s++, total++) {
            int64_t value = value_of(t, r, s * t->count + index);
            sum += value;
            product *= (uint64_t)value;
            largest = value > largest ? value : largest;
            smallest = value < smallest ? value : smallest;
        }
    }
    switch (t->op) {
    case MUSTER_PROD:
        return wrapped(t->dtype, product);
    case MUSTER_MAX:
        return (double)largest;
    case MUSTER_MIN:
        return (double)smallest;
    case MUSTER_AVG:
        return (double)sum / (double)total;
    default:
        return wrapped(t->dtype, (uint64_t)sum);
    }
}

static double expected(const trial *t, int32_t rank, int64_t index) {
    int32_t from = 0;
    switch (t->collective) {
    case MST_ALL_REDUCE:
    case MST_REDUCE:
        return combined(t, index);
    case MST_ALL_REDUCE_AXPY:
        return (double)parameter_of(index) + 3 * combined(t, index);
    case MST_BROADCAST:
        return (double)value_of(t, t->root, index);
    case MST_SCATTER:
        return (double)value_of(t, t->root, offset_of(t, rank) + index);
    case MST_REDUCE_SCATTER:
        return combined(t, offset_of(t, rank) + index);
    case MST_ALL_GATHER:
    case MST_GATHER:
        for (; index >= part_of(t, from); from++) index -= part_of(t, from);
        return (double)value_of(t, from, index);
    default:
        for (; index >= recv_counts[rank][from]; from++) index -= recv_counts[rank][from];
        return (double)value_of(t, from, sum_of(send_counts[from], rank) + index);
    }
}

static void describe(char text[200], const trial *t, int32_t kind) {
    snprintf(text, 200, "collective %d %s %s %s, %d ranks, root %d, count %lld, places %d, uneven %d", t->collective,
             mst_algorithm_at(kind)->name, mst_reduction_name(t->op), muster_dtype_name(t->dtype), t->size, t->root, (long long)t->count,
             t->places, t->uneven);
}

static void check_output(const trial *t, int32_t kind, int32_t rank) {
    const mst_request *q = &originals[rank];
    double exact = t->op == MUSTER_AVG ? (t->dtype == MUSTER_BF16 ? 0x1p-8 : t->dtype == MUSTER_F16 ? 0x1p-11 : 0x1p-20) : 0;
    char text[200];
    double received[AT_ONCE];
    for (int64_t i = 0; i < q->output_count; i++) {
        int64_t left = q->output_count - i;
        if (i % AT_ONCE == 0)
            mst_convert(MUSTER_F64, received, t->dtype, memories[rank].output + i * muster_dtype_size(t->dtype),
                        left < AT_ONCE ? left : AT_ONCE);
        double wanted = expected(t, rank, i);
        if (fabs(received[i % AT_ONCE] - wanted) <= exact * (1 + fabs(wanted))) continue;
        describe(text, t, kind);
        fail_msg("%s: rank %d, element %lld: expected %g, received %g", text, rank, (long long)i, wanted, received[i % AT_ONCE]);
    }
}

/* The first byte in [begin, end), which has no output in it, that is neither the input's nor the
 * filling; `end`: none. */
static const char *first_changed(const rank_memory *m, const char *begin, const char *end, const char *given, int64_t input) {
    const char *at = begin;
    for (; at < end && !(at >= given && at < given + input); at++) {
        if (*at != (char)FILL) return at;
    }
    if (at == end) return end;
    int64_t left = given + input - at, bytes = left < end - at ? left : end - at;
    if (memcmp(at, m->copy + (at - given), (size_t)bytes) == 0) return first_changed(m, at + bytes, end, given, 0);
    while (*at == m->copy[at - given]) at++;
    return at;
}

/* Nothing before or behind the outputs was written; and no input that has no output in it. */
static void check_rest(const trial *t, int32_t kind, int32_t rank) {
    const rank_memory *m = &memories[rank];
    int64_t input = originals[rank].input_count * muster_dtype_size(t->dtype);
    const char *given = originals[rank].input, *output_end = m->output + m->output_bytes, *end = m->block + m->used;
    const char *at = first_changed(m, m->block, m->output, given, input);
    char text[200];
    if (at == m->output) at = first_changed(m, output_end, end, given, input);
    if (at == end) return;
    describe(text, t, kind);
    fail_msg("%s: rank %d: a byte outside the output was changed, %lld from its beginning", text, rank, (long long)(at - m->output));
}

/* An algorithm says what it serves by the entries of its table. */
static bool serves(int32_t kind, mst_collective collective) { return mst_algorithm_at(kind)->run[collective] != NULL; }

static int64_t served[MST_ALGORITHM_COUNT][MST_COLLECTIVE_COUNT]; /* trials whose outputs were checked */

static void check_kind(const trial *t, int32_t kind, uint64_t seed) {
    if (!serves(kind, t->collective)) return;
    served[kind][t->collective]++;
    const bool streaming = seed / 3 % 2; /* the seed's rest by 3 is the alignment */
    serve(t, kind, streaming, seed);
    for (int32_t r = 0; r < t->size; r++) {
        check_output(t, kind, r);
        check_rest(t, kind, r);
    }
}

static void check(const trial *t, uint64_t seed) {
    for (int32_t kind = MST_ALGORITHM_reference; kind < MST_ALGORITHM_COUNT; kind++) check_kind(t, kind, seed);
}

/* ---- the matrix ---- */

static bool defined_on(const trial *t) {
    if (t->collective == MST_ALL_REDUCE_AXPY) return is_float(t->dtype) && t->op == MUSTER_SUM;
    if (!reduces(t->collective)) return t->op == MUSTER_SUM;
    return oracle_defines(t->op, t->dtype);
}

/* Large counts cost more and are drawn less often. */
enum { LARGE = SANITIZED ? 9001 : 65537 };
static bool drawn(int64_t count) {
    static const int64_t out_of[2][3] = {{1, 5, 150}, {8, 40, 300}}; /* up to 9 elements, 1000, LARGE; by SANITIZED */
    int64_t size = count > 1000 ? 2 : count > 9 ? 1 : 0, all = out_of[SANITIZED][size];
    return random_below(test_is_full() ? (all + 9) / 10 : all) == 0;
}

static int64_t small_trials; /* of one collective, up to 9 elements */

static void each_count(trial *t) {
    const int64_t counts[] = {0, 1, t->size - 1, t->size, t->size + 1, 9, 1000, LARGE};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (t->places = APART; t->places < PLACES; t->places++) {
            for (int uneven = 0; uneven < 2; uneven++) {
                t->count = counts[i];
                t->uneven = uneven;
                t->root = (int32_t)random_below(t->size);
                if (!drawn(t->count)) continue;
                small_trials += t->count <= 9;
                uint64_t seed = numbers;
                check(t, seed);
                numbers = seed;
            }
        }
    }
}

/* Trials up to 9 elements: 6 counts on 1 to 8 ranks, 5 on 9; the places; even and uneven parts. */
static int64_t expected_small_trials(mst_collective collective) {
    const int64_t pairs = collective == MST_ALL_REDUCE_AXPY ? 4 : reduces(collective) ? ORACLE_REDUCTIONS : 12;
    return (8 * 6 + 5) * PLACES * 2 * pairs;
}

static void matrix_of(mst_collective collective) {
    numbers = test_seed() * 1000 + collective;
    small_trials = 0;
    trial t = {.collective = collective};
    for (t.size = 1; t.size <= RANKS; t.size++) {
        for (t.dtype = MUSTER_F16; t.dtype < MST_DTYPE_COUNT; t.dtype++) {
            for (t.op = MUSTER_SUM; t.op <= MUSTER_AVG; t.op++) {
                if (defined_on(&t)) each_count(&t);
            }
        }
    }
    if (!SANITIZED) assert_int_equal(small_trials, expected_small_trials(collective));
    for (int32_t kind = MST_ALGORITHM_reference; kind < MST_ALGORITHM_COUNT; kind++)
        assert_int_equal(served[kind][collective] > 0, serves(kind, collective));
}

#define MATRIX(name, COLLECTIVE) \
    static void name(void **state) { (void)state, matrix_of(COLLECTIVE); }
MATRIX(all_reduce_is_right, MST_ALL_REDUCE)
MATRIX(all_reduce_axpy_is_right, MST_ALL_REDUCE_AXPY)
MATRIX(reduce_is_right, MST_REDUCE)
MATRIX(broadcast_is_right, MST_BROADCAST)
MATRIX(all_gather_is_right, MST_ALL_GATHER)
MATRIX(gather_is_right, MST_GATHER)
MATRIX(scatter_is_right, MST_SCATTER)
MATRIX(reduce_scatter_is_right, MST_REDUCE_SCATTER)
MATRIX(all_to_all_is_right, MST_ALL_TO_ALL)

/* Up to two shards on each of 1 to 4 ranks, in every way. So there are reductions of two inputs
 * into one to four outputs, and outputs of ranks without an input. */
static void few_shards_on_few_ranks_are_right(void **state) {
    (void)state;
    enum { FEW = 3, MOST = 4, WAYS = 3 * 3 * 3 * 3 };
    int32_t checked = 0;
    for (int32_t size = 1; size <= MOST; size++) {
        for (int32_t way = 0; way < WAYS; way++) {
            int64_t shards[MOST], total = 0;
            for (int32_t r = 0, rest = way; r < MOST; r++, rest /= FEW) total += shards[r] = r < size ? rest % FEW : 0;
            bool repeats = false; /* the same shards on the first `size` ranks as another way */
            for (int32_t r = 0, rest = way; r < MOST; r++, rest /= FEW) repeats |= r >= size && rest % FEW != 0;
            if (repeats || total == 0) continue;
            trial t = {.collective = MST_ALL_REDUCE, .op = MUSTER_SUM, .dtype = MUSTER_F32, .size = size, .count = 1000, .uneven = true};
            t.shards = shards;
            check(&t, (uint64_t)way);
            t.op = MUSTER_AVG;
            check(&t, (uint64_t)way);
            checked++;
        }
    }
    assert_int_equal(checked, 2 + 8 + 26 + 80);
}

/* So much memory that it leaves the cache, by both kinds of stores. */
static void large_collectives_are_right(void **state) {
    (void)state;
    enum { PLAIN_SEED = 0, STREAMING_SEED = 3 }; /* see check_kind; both are aligned */
    static const mst_collective collectives[] = {MST_ALL_REDUCE, MST_ALL_REDUCE_AXPY, MST_REDUCE_SCATTER,
                                                 MST_BROADCAST,  MST_ALL_GATHER,      MST_ALL_TO_ALL};
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        trial t = {.collective = collectives[i], .op = MUSTER_SUM, .dtype = MUSTER_F64, .size = 2, .count = 1100002, .places = APART};
        for (int32_t kind = SANITIZED ? MST_ALGORITHM_direct : MST_ALGORITHM_reference; kind < MST_ALGORITHM_COUNT; kind++) {
            t.places = APART;
            streamed = 0;
            check_kind(&t, kind, PLAIN_SEED);
            assert_int_equal(streamed, 0);
            check_kind(&t, kind, STREAMING_SEED);
            if (kind == MST_ALGORITHM_direct) assert_int_equal(streamed, t.size);
            t.places = MIXED;
            check_kind(&t, kind, STREAMING_SEED);
        }
    }
}

/* ---- bits ---- */

static void keep_outputs(const trial *t, char *kept) {
    for (int32_t r = 0; r < t->size; kept += memories[r++].output_bytes) memcpy(kept, memories[r].output, (size_t)memories[r].output_bytes);
}

static int64_t compared[MST_ALGORITHM_COUNT][MST_COLLECTIVE_COUNT]; /* trials */

static void compare_bits(const trial *t) {
    enum { KEPT = 1 << 20 };
    static char first[KEPT], other[KEPT];
    uint64_t seed = numbers;
    memset(first, 0, sizeof first), memset(other, 0, sizeof other);
    serve(t, MST_ALGORITHM_reference, false, seed);
    keep_outputs(t, first);
    for (int32_t kind = MST_ALGORITHM_inline; kind < MST_ALGORITHM_COUNT; kind++) {
        if (!serves(kind, t->collective)) continue;
        compared[kind][t->collective]++;
        serve(t, kind, seed % 2, seed);
        keep_outputs(t, other);
        char text[200];
        describe(text, t, kind);
        if (memcmp(first, other, sizeof first) != 0) fail_msg("%s: other bits than the reference", text);
    }
    numbers = seed + 1;
}

static void algorithms_give_the_same_bits(void **state) {
    (void)state;
    static const mst_collective collectives[] = {MST_ALL_REDUCE, MST_ALL_REDUCE_AXPY, MST_REDUCE, MST_REDUCE_SCATTER};
    for (int round = 0; round < (test_is_full() ? 4000 : 400); round++) {
        trial t = {.collective = collectives[random_below(4)], .fractions = true, .size = 1 + (int32_t)random_below(RANKS)};
        t.dtype = MUSTER_F16 + (muster_dtype)random_below(4);
        t.op = MUSTER_SUM + (muster_reduction)random_below(5);
        t.count = random_below(1400);
        t.uneven = random_below(2);
        t.places = (int32_t)random_below(PLACES);
        t.root = (int32_t)random_below(t.size);
        if (defined_on(&t)) compare_bits(&t);
    }
    for (int32_t kind = MST_ALGORITHM_inline; kind < MST_ALGORITHM_COUNT; kind++)
        for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
            assert_int_equal(compared[kind][collectives[i]] > 0, serves(kind, collectives[i]));
}

static void maximum_lets_nan_through(void **state) {
    (void)state;
    for (int32_t kind = MST_ALGORITHM_reference; kind < MST_ALGORITHM_COUNT; kind++) {
        if (!serves(kind, MST_ALL_REDUCE)) continue;
        float inputs[3][3] = {{1, NAN, 3}, {NAN, 5, 6}, {7, 8, 2}}, outputs[3][3];
        mst_request requests[3];
        _Alignas(64) static char chunk[MST_CHUNK_BYTES];
        for (int32_t r = 0; r < 3; r++) {
            requests[r] = (mst_request){.collective = MST_ALL_REDUCE,
                                        .reduction = MUSTER_MAX,
                                        .dtype = MUSTER_F32,
                                        .input_count = 3,
                                        .output_count = 3,
                                        .input = inputs[r],
                                        .output = outputs[r],
                                        .shards = 1};
        }
        const mst_request *all[3] = {&requests[0], &requests[1], &requests[2]};
        for (int32_t r = 0; r < 3; r++) mst_algorithm_at(kind)->run[MST_ALL_REDUCE](&(mst_view){all, 3, r, chunk, NULL, NULL});
        assert_true(isnan(outputs[1][0]) && isnan(outputs[2][1]));
        assert_true(outputs[0][2] == 6);
    }
}

/* ---- segments and selection ---- */

static void segments_are_whole_lines_and_cover_everything(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 15, 16, 17, 1000, 65537, 1 << 20, INT64_C(3) << 31, INT64_MAX / 8};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int32_t size = 1; size <= 9; size++) {
            for (int64_t element = 1, last = 0; element <= 8; element *= 2, last = 0) {
                for (int32_t r = 0; r < size; r++) {
                    int64_t begin, end;
                    mst_segment(counts[i], element, size, r, &begin, &end);
                    assert_true(begin == last && begin <= end);
                    assert_true(end == counts[i] || end * element % 64 == 0);
                    last = end;
                }
                assert_true(last == counts[i]);
            }
        }
    }
}

static void large_segments_are_whole_pages(void **state) {
    (void)state;
    int64_t begin, end;
    mst_segment(1 << 20, 4, 3, 1, &begin, &end);
    assert_int_equal(begin * 4 % 4096, 0);
    assert_int_equal(end * 4 % 4096, 0);
}

static void segments_of_many_ranks_do_not_overflow(void **state) {
    (void)state;
    int64_t begin, end, count = INT64_MAX / 2;
    mst_segment(count, 1, 100000, 99999, &begin, &end);
    assert_true(end == count && begin > count / 100000 * 99998 && begin < end);
}

static void segments_differ_by_one_unit_at_most(void **state) {
    (void)state;
    for (int64_t count = 1; count < 100000; count = count * 3 + 1) {
        int64_t smallest = INT64_MAX, largest = 0;
        for (int32_t r = 0; r < 4; r++) {
            int64_t begin, end;
            mst_segment(count, 4, 4, r, &begin, &end);
            if (end - begin < smallest) smallest = end - begin;
            if (end - begin > largest) largest = end - begin;
        }
        assert_true(largest - smallest <= 2 * 1024);
        assert_true(count > 16 * 1024 || largest - smallest <= 2 * 16);
    }
}

static void a_forced_algorithm_is_selected_wherever_it_serves(void **state) {
    (void)state;
    for (mst_collective c = MST_ALL_REDUCE; c <= MST_ALL_TO_ALL; c++) {
        assert_int_equal(mst_algorithm_select(c, true, INT64_C(1) << 40, false, MST_ALGORITHM_reference), MST_ALGORITHM_reference);
        assert_int_equal(mst_algorithm_select(c, true, 0, false, MST_ALGORITHM_direct), MST_ALGORITHM_direct);
        assert_int_equal(mst_algorithm_select(c, true, MST_SLOT_BYTES, false, MST_ALGORITHM_inline), MST_ALGORITHM_inline);
        assert_int_equal(mst_algorithm_select(c, true, MST_SLOT_BYTES + 1, false, MST_ALGORITHM_inline), MST_ALGORITHM_direct);
    }
}

static void small_is_inline_and_large_is_direct(void **state) {
    (void)state;
    assert_int_equal(mst_algorithm_select(MST_ALL_REDUCE, false, 64, false, 0), MST_ALGORITHM_inline);
    assert_int_equal(mst_algorithm_select(MST_ALL_REDUCE, false, 1 << 20, false, 0), MST_ALGORITHM_direct);
}

static void what_is_selected_serves(void **state) {
    (void)state;
    for (mst_collective c = MST_ALL_REDUCE; c <= MST_ALL_TO_ALL; c++) {
        for (int64_t bytes = 0; bytes < INT64_C(1) << 40; bytes = bytes * 2 + 1) {
            for (int32_t forced = 0; forced < MST_ALGORITHM_COUNT; forced++) {
                assert_non_null(mst_algorithm_at(mst_algorithm_select(c, false, bytes, false, forced))->run[c]);
            }
        }
    }
}

/* These three serve everything; one that is added serves something. */
static void algorithms_serve_what_they_say(void **state) {
    (void)state;
    for (int32_t kind = MST_ALGORITHM_reference; kind < MST_ALGORITHM_COUNT; kind++) {
        int served_collectives = 0;
        for (mst_collective c = MST_ALL_REDUCE; c <= MST_ALL_TO_ALL; c++) served_collectives += serves(kind, c);
        if (kind <= MST_ALGORITHM_direct)
            assert_int_equal(served_collectives, 9);
        else
            assert_in_range(served_collectives, 1, 9);
    }
}

static void algorithms_have_names(void **state) {
    (void)state;
    assert_string_equal(mst_algorithm_at(MST_ALGORITHM_reference)->name, "reference");
    assert_string_equal(mst_algorithm_at(MST_ALGORITHM_inline)->name, "inline");
    assert_string_equal(mst_algorithm_at(MST_ALGORITHM_direct)->name, "direct");
    assert_null(mst_algorithm_at(0));
    assert_null(mst_algorithm_at(MST_ALGORITHM_COUNT));
}

static int free_memories(void **state) {
    (void)state;
    for (int32_t r = 0; r < RANKS; r++) mst_free(memories[r].block), mst_free(memories[r].copy);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_reduce_is_right),
                                       cmocka_unit_test(all_reduce_axpy_is_right),
                                       cmocka_unit_test(reduce_is_right),
                                       cmocka_unit_test(broadcast_is_right),
                                       cmocka_unit_test(all_gather_is_right),
                                       cmocka_unit_test(gather_is_right),
                                       cmocka_unit_test(scatter_is_right),
                                       cmocka_unit_test(reduce_scatter_is_right),
                                       cmocka_unit_test(all_to_all_is_right),
                                       cmocka_unit_test(few_shards_on_few_ranks_are_right),
                                       cmocka_unit_test(large_collectives_are_right),
                                       cmocka_unit_test(algorithms_give_the_same_bits),
                                       cmocka_unit_test(maximum_lets_nan_through),
                                       cmocka_unit_test(segments_are_whole_lines_and_cover_everything),
                                       cmocka_unit_test(large_segments_are_whole_pages),
                                       cmocka_unit_test(segments_of_many_ranks_do_not_overflow),
                                       cmocka_unit_test(segments_differ_by_one_unit_at_most),
                                       cmocka_unit_test(a_forced_algorithm_is_selected_wherever_it_serves),
                                       cmocka_unit_test(small_is_inline_and_large_is_direct),
                                       cmocka_unit_test(what_is_selected_serves),
                                       cmocka_unit_test(algorithms_serve_what_they_say),
                                       cmocka_unit_test(algorithms_have_names)};
    return cmocka_run_group_tests(tests, NULL, free_memories);
}
