/* Every built-in kernel text on more than 2^31 and 2^32 elements, in its branch for GPUs. Of each
 * launch only some threads are run, one after another: those that write chosen elements. Memory is
 * address space that the operating system fills where it is touched, so an array of 16 GiB costs as
 * much as what these threads read and write of it. Each access must lie within an operand, and each
 * chosen element of the result must have its value.
 *
 * The file is long because each kernel text has a case here; their number, KERNELS, is compared
 * with what the library has. */
#include "argmax/argmax_parameters_private.h"
#include "attention/attention_parameters_private.h"
#include "base_check.h"
#include "base_seed.h"
#include "clip/clip_parameters_private.h"
#include "code/peer_parameters_private.h"
#include "convolution/convolution_parameters_private.h"
#include "dot/dot_parameters_private.h"
#include "gather/gather_parameters_private.h"
#include "gemv/gemv_parameters_private.h"
#include "indices/indices_parameters_private.h"
#include "one_hot/one_hot_parameters_private.h"
#include "op_impl.h"
#include "p2p/p2p_parameters_impl.h"
#include "pooling/pooling_parameters_private.h"
#include "random_uniform/random_parameters_private.h"
#include "recurrence/recurrence_parameters_private.h"
#include "recurrent/recurrent_parameters_private.h"
#include "reduce/reduce_parameters_private.h"
#include "reduction/reduction_parameters_private.h"
#include "scatter_add/scatter_add_parameters_private.h"
#include "shim/mst_program.h"
#include "shim/mst_texts.h"
#include "softmax/softmax_op_parameters_private.h"
#include "softmax_cross_entropy/softmax_parameters_private.h"
#include "sort/sort_parameters_private.h"
#include "take/take_parameters_private.h"
#include "tril/triangle_parameters_private.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 256, KERNELS = 61, REGIONS = 4 };
static const int64_t two_31 = (int64_t)1 << 31, two_32 = (int64_t)1 << 32, region_bytes = (int64_t)48 << 30;
/* Blocks of a launch: each thread then has up to 65 indices of 2^32. Long rows have a block
 * each. */
static int64_t grid = 1 << 18;

static const mst_program_table *program;
static const mst_program_kernel *kernel; /* that runs */

/* ---- memory ---- */
static struct region {
    char *start;
    int64_t bytes; /* from the start on, that the kernel may touch */
    bool writes;
} regions[REGIONS];

static void drop(int r) { assert_int_equal(madvise(regions[r].start, (size_t)region_bytes, MADV_DONTNEED), 0); }

/* Zeros. */
static void *operand(int r, int64_t bytes, bool writes) {
    assert_in_range(bytes, 1, region_bytes);
    drop(r);
    regions[r].bytes = bytes;
    regions[r].writes = writes;
    return regions[r].start;
}

static void close_operands(void) {
    for (int r = 0; r < REGIONS; r++) regions[r].bytes = 0;
}

static void check(const void *address, unsigned long bytes, unsigned long alignment, int kind) {
    const char *at = address;
    (void)alignment;
    for (int r = 0; r < REGIONS; r++) {
        const int64_t offset = at - regions[r].start;
        if (offset < 0 || offset >= region_bytes) continue;
        if (offset + (int64_t)bytes > regions[r].bytes || (kind != MST_PROGRAM_READ && !regions[r].writes))
            fail_msg("%s: an illegal %s of %lu bytes at byte %lld of operand %d, which has %lld", kernel->name,
                     kind == MST_PROGRAM_READ ? "read" : "write", bytes, (long long)offset, r, (long long)regions[r].bytes);
        return;
    }
    /* shared memory, and what belongs to the program; anything else is not mapped */
}

static void pass(void) {}
static void pass_warp(unsigned mask) { (void)mask; }
static void *same_address(const void *address) { return (void *)(uintptr_t)address; }

static mst_program_range stack; /* of this thread: nothing on it is looked at */

static bool find_stack(void) {
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
    bool found = pthread_attr_getstack(&attributes, &start, &bytes) == 0;
    pthread_attr_destroy(&attributes);
    if (found) stack = (mst_program_range){(unsigned long)(uintptr_t)start, bytes};
    return found;
}

static int open_texts(void **state) {
    (void)state;
    if (!find_stack()) return -1;
    void *library = dlopen(SIM_TEXTS, RTLD_NOW | RTLD_LOCAL);
    if (!library) return -1;
    program = dlsym(library, "mst_program");
    mst_texts_control *control = dlsym(library, "mst_texts");
    control->address = same_address;
    *program->machine = (mst_program_machine){.check = check, .barrier = pass, .warp_barrier = pass_warp};
    for (int r = 0; r < REGIONS; r++) {
        void *start = mmap(NULL, (size_t)region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) return -1;
        (void)madvise(start, (size_t)region_bytes, MADV_NOHUGEPAGE);
        regions[r].start = start;
    }
    return 0;
}

/* ---- launches ---- */
static bool has_run[KERNELS + 2];

static void choose(const char *name) {
    kernel = NULL;
    for (int i = 0; i < program->kernel_count; i++)
        if (strcmp(program->kernels[i].name, name) == 0) kernel = &program->kernels[i], has_run[i] = true;
    if (!kernel) fail_msg("there is no kernel %s", name);
}

static void run_thread(const void *parameters, int64_t bytes, int64_t block, int64_t thread) {
    assert_int_equal(bytes, kernel->packed_bytes);
    *program->here() = (mst_program_here){.thread = {(unsigned)thread, 0, 0},
                                          .block = {(unsigned)block, 0, 0},
                                          .threads = {THREADS, 1, 1},
                                          .blocks = {(unsigned)grid, 1, 1},
                                          .stack = stack};
    kernel->run(parameters);
}

/* All threads of a block, the last one first: in the tree of a block's reduction a thread then
 * finds what the threads above it have combined. */
static void run_block(const void *parameters, int64_t bytes, int64_t block) {
    for (int64_t thread = THREADS - 1; thread >= 0; thread--) run_thread(parameters, bytes, block, thread);
}

/* ---- chosen elements: those at the bounds; with MUSTER_TEST_FULL=1 some by chance, too ---- */
enum { BOUNDS = 8, CHOSEN_MAX = BOUNDS + 24, THREADS_MAX = CHOSEN_MAX * 12 };
typedef struct chosen {
    int64_t at[CHOSEN_MAX];
    int count;
} chosen;

static chosen choose_elements(int64_t count) {
    const int64_t wanted[] = {0, two_31 - 1, two_31, two_31 + 1, two_32 - 1, two_32, two_32 + 1, count - 1};
    chosen result = {.count = 0};
    for (int i = 0; i < BOUNDS; i++)
        if (wanted[i] < count && (i == BOUNDS - 1 || wanted[i] != count - 1)) result.at[result.count++] = wanted[i];
    assert_true(result.count >= 2);
    uint64_t chance = test_seed();
    while (test_is_full() && result.count < CHOSEN_MAX) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        result.at[result.count++] = (int64_t)((chance >> 20) % (uint64_t)count);
    }
    return result;
}

/* The threads that have a chosen element, by itself or in a pack of up to 16, or behind all
 * packs. */
static void run_owners(const void *parameters, int64_t bytes, const chosen *elements) {
    int64_t done[THREADS_MAX];
    int count = 0;
    for (int i = 0; i < elements->count; i++)
        for (int width = 1; width <= 16; width *= 2)
            for (int behind = 0; behind < 2; behind++) {
                int64_t index = behind ? elements->at[i] % width : elements->at[i] / width, thread = index % (grid * THREADS);
                bool known = false;
                for (int j = 0; j < count; j++) known |= done[j] == thread;
                if (known) continue;
                assert_in_range(count, 0, THREADS_MAX - 1);
                done[count++] = thread;
                run_thread(parameters, bytes, thread / THREADS, thread % THREADS);
            }
}

static float value_a(int64_t i) { return (float)(i % 97 + 1); }
static float value_b(int64_t i) { return (float)(i % 89 + 2); }

static void assert_value(int64_t element, double expected, double received) {
    if (!(fabs(expected - received) <= 1e-6 * fabs(expected)))
        fail_msg("%s: element %lld: expected %.17g, received %.17g", kernel->name, (long long)element, expected, received);
}

/* ---- elementwise kernels ---- */
typedef struct row {
    const char *name;
    int32_t dtype, op, inputs, result_bytes;
    double alpha, beta;
    float element;
    uint64_t bytes; /* of an element, instead of `element` */
    float (*f)(float a, float b);
} row;

static float seven(float a, float b) { return (void)a, (void)b, 7; }
static float first(float a, float b) { return (void)b, a; }
static float second(float a, float b) { return (void)a, b; }
static float negative(float a, float b) { return (void)b, -a; }
static float sum(float a, float b) { return a + b; }
static float triple(float a, float b) { return (void)b, 3 * a; }
static float scaled(float a, float b) { return 2 * a + 3 * b; }
static float less(float a, float b) { return a < b; }
static float is_zero(float a, float b) { return (void)b, a == 0; }

static const row rows[] = {
    {.name = "mst_fill", .op = 4, .element = 7, .f = seven, .result_bytes = 4},
    {.name = "mst_copy", .bytes = 4, .inputs = 1, .f = first, .result_bytes = 4},
    {.name = "mst_copy", .dtype = MUSTER_F64, .op = MUSTER_F32, .inputs = 1, .f = first, .result_bytes = 8},
    {.name = "mst_unary", .dtype = MUSTER_F32, .op = MUSTER_NEG, .inputs = 1, .f = negative, .result_bytes = 4},
    {.name = "mst_binary", .dtype = MUSTER_F32, .op = MUSTER_ADD, .inputs = 2, .f = sum, .result_bytes = 4},
    {.name = "mst_binary_scalar", .dtype = MUSTER_F32, .op = MUSTER_MUL, .inputs = 1, .element = 3, .f = triple, .result_bytes = 4},
    {.name = "mst_scale_add", .dtype = MUSTER_F32, .alpha = 2, .beta = 3, .inputs = 2, .f = scaled, .result_bytes = 4},
    {.name = "mst_compare", .dtype = MUSTER_F32, .op = MUSTER_LESS, .inputs = 2, .f = less, .result_bytes = 1},
    {.name = "mst_predicate", .dtype = MUSTER_F32, .op = MUSTER_LOGICAL_NOT, .inputs = 1, .f = is_zero, .result_bytes = 1},
    {.name = "mst_bias_relu", .dtype = MUSTER_F32, .inputs = 2, .f = sum, .result_bytes = 4},
    {.name = "mst_relu_gradient", .dtype = MUSTER_F32, .inputs = 2, .f = second, .result_bytes = 4},
};
enum { ROWS = sizeof rows / sizeof *rows, LAYOUTS = 3 };

/* 0: contiguous. 1: two long rows with a gap between. 2: rows of three elements with gaps. */
static mst_iterator lay_out(int layout, int64_t count, int operands, const int32_t *bytes) {
    mst_iterator it = {.ndim = layout == 0 ? 1 : 2, .operands = operands};
    it.shape[0] = layout == 0 ? count : layout == 1 ? 2 : count / 3;
    it.shape[1] = layout == 0 ? 0 : layout == 1 ? count / 2 : 3;
    for (int k = 0; k < operands; k++) {
        it.strides[k][0] = layout == 0 ? bytes[k] : (it.shape[1] + 1) * bytes[k];
        it.strides[k][1] = bytes[k];
    }
    return it;
}

static int64_t elements_in(int layout, int64_t count) { return layout == 0 ? count : layout == 1 ? count / 2 * 2 : count / 3 * 3; }

static int64_t offset_of(const mst_iterator *it, int k, int64_t i) {
    return it->ndim == 1 ? i * it->strides[k][0] : i / it->shape[1] * it->strides[k][0] + i % it->shape[1] * it->strides[k][1];
}

static double read_result(const char *at, int32_t bytes) {
    float single;
    double wide;
    if (bytes == 1) return *(const unsigned char *)at;
    memcpy(&single, at, sizeof single);
    if (bytes == 4) return single;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void put_inputs(const mst_iterator *it, int inputs, const chosen *c) {
    for (int k = 0; k < inputs; k++)
        for (int i = 0; i < c->count; i++) {
            float value = k == 0 ? value_a(c->at[i]) : value_b(c->at[i]);
            memcpy(it->base[k] + offset_of(it, k, c->at[i]), &value, sizeof value);
        }
}

static void run_row(const row *r, int64_t wanted, int layout) {
    const int64_t count = elements_in(layout, wanted);
    const chosen c = choose_elements(count);
    const int32_t bytes[3] = {r->inputs > 0 ? 4 : r->result_bytes, r->inputs > 1 ? 4 : r->result_bytes, r->result_bytes};
    mst_element_parameters p = {.count = count, .dtype = r->dtype, .op = r->op, .alpha = r->alpha, .beta = r->beta};
    choose(r->name);
    p.iterator = lay_out(layout, wanted, r->inputs + 1, bytes);
    for (int k = 0; k <= r->inputs; k++) p.iterator.base[k] = operand(k, offset_of(&p.iterator, k, count - 1) + bytes[k], k == r->inputs);
    p.element = r->bytes;
    if (!r->bytes) memcpy(&p.element, &r->element, sizeof r->element);
    put_inputs(&p.iterator, r->inputs, &c);
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++)
        assert_value(c.at[i], r->f(value_a(c.at[i]), value_b(c.at[i])),
                     read_result(p.iterator.base[r->inputs] + offset_of(&p.iterator, r->inputs, c.at[i]), r->result_bytes));
    close_operands();
}

/* The first two; all of them with MUSTER_TEST_FULL=1. */
static const int64_t counts[] = {((int64_t)1 << 31) - 1, (int64_t)1 << 31,       ((int64_t)1 << 31) + 3, ((int64_t)1 << 32) + 5,
                                 ((int64_t)1 << 31) + 1, ((int64_t)1 << 32) - 1, (int64_t)1 << 32,       ((int64_t)1 << 32) + 1};
enum { COUNTS = 2, FULL_COUNTS = sizeof counts / sizeof *counts };

static int count_of_counts(void) { return test_is_full() ? FULL_COUNTS : COUNTS; }

static void test_elementwise_kernels(void **state) {
    (void)state;
    int runs = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < count_of_counts(); c++)
            for (int layout = 0; layout < LAYOUTS; layout++, runs++) run_row(&rows[r], counts[c], layout);
    assert_int_equal(runs, 11 * count_of_counts() * 3);
}

static void where_and_clip(int64_t count) {
    const chosen c = choose_elements(count);
    mst_element_parameters p = {.count = count, .op = 4};
    choose("mst_where");
    p.iterator = lay_out(0, count, 4, (const int32_t[]){1, 4, 4, 4});
    for (int k = 0; k < 4; k++) p.iterator.base[k] = operand(k, count * (k ? 4 : 1), k == 3);
    for (int i = 0; i < c.count; i++) {
        p.iterator.base[0][c.at[i]] = (char)(c.at[i] & 1);
        ((float *)(void *)p.iterator.base[1])[c.at[i]] = value_a(c.at[i]);
        ((float *)(void *)p.iterator.base[2])[c.at[i]] = value_b(c.at[i]);
    }
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++)
        assert_value(c.at[i], c.at[i] & 1 ? value_a(c.at[i]) : value_b(c.at[i]), ((float *)(void *)p.iterator.base[3])[c.at[i]]);
    const float low = 20, high = 30;
    mst_clip_parameters q = {.count = count, .dtype = MUSTER_F32, .iterator = lay_out(0, count, 2, (const int32_t[]){4, 4})};
    memcpy(&q.low, &low, sizeof low);
    memcpy(&q.high, &high, sizeof high);
    choose("mst_clip");
    for (int k = 0; k < 2; k++) q.iterator.base[k] = operand(k, count * 4, k == 1);
    put_inputs(&q.iterator, 1, &c);
    run_owners(&q, sizeof q, &c);
    for (int i = 0; i < c.count; i++)
        assert_value(c.at[i], fminf(high, fmaxf(low, value_a(c.at[i]))), ((float *)(void *)q.iterator.base[1])[c.at[i]]);
    close_operands();
}

static void random_numbers(int64_t count, bool contiguous) {
    const chosen c = choose_elements(count);
    const uint64_t begin = (uint64_t)two_32 - 3;
    choose("mst_random");
    mst_random_parameters p = {.count = count, .seed = 11, .first = begin, .dtype = MUSTER_F32};
    p.iterator = lay_out(0, count, 1, (const int32_t[]){contiguous ? 4 : 8});
    p.iterator.base[0] = operand(0, (count - 1) * p.iterator.strides[0][0] + 4, true);
    /* the elements of a thread are those of one block of the generator, which begin is not the
     * first of */
    chosen shifted = c;
    for (int i = 0; i < c.count && contiguous; i++) shifted.at[i] += (int64_t)(begin % 4);
    run_owners(&p, sizeof p, &shifted);
    for (int i = 0; i < c.count; i++) {
        const uint64_t number = begin + (uint64_t)c.at[i], block = number / 4;
        uint32_t words[4];
        muster_philox4x32((const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), 0, 0}, (const uint32_t[]){11, 0}, words);
        assert_value(c.at[i], (words[number % 4] >> 8) * 0x1p-24, read_result(p.iterator.base[0] + offset_of(&p.iterator, 0, c.at[i]), 4));
    }
    close_operands();
}

static void test_where_clip_and_random_numbers(void **state) {
    (void)state;
    for (int i = 0; i < count_of_counts(); i++) {
        where_and_clip(counts[i]);
        random_numbers(counts[i], true);
        random_numbers(counts[i], false);
    }
}

/* ---- by index: tables of more than 2^32 bytes ---- */
enum { WIDE = 65540, TALL = 65541 };

static void test_rows_by_index(void **state) {
    const int64_t count = (int64_t)WIDE * TALL;
    const chosen c = choose_elements(count);
    (void)state;
    for (int which = 0; which < 2; which++) {
        unsigned char *x = operand(0, 3 * WIDE, false), *y = operand(1, count, true);
        int64_t *indices = operand(2, TALL * 8, false);
        for (int i = 0; i < c.count; i++) {
            indices[c.at[i] / WIDE] = i % 3;
            x[i % 3 * WIDE + c.at[i] % WIDE] = (unsigned char)(i + 1);
        }
        if (which == 0) {
            mst_take_parameters p = {.indices = indices,
                                     .count = TALL,
                                     .elements = WIDE,
                                     .rows = 3,
                                     .x_stride = WIDE,
                                     .y_stride = WIDE,
                                     .index_stride = 1,
                                     .element_size = 1,
                                     .index_dtype = MUSTER_I64};
            p.row = lay_out(0, WIDE, 2, (const int32_t[]){1, 1});
            p.row.base[0] = (char *)x, p.row.base[1] = (char *)y;
            choose("mst_take");
            run_owners(&p, sizeof p, &c);
        } else {
            mst_gather_parameters p = {.to = y, .from = x, .indices = indices, .row_bytes = WIDE, .count = TALL, .width = 1};
            choose("mst_gather");
            run_owners(&p, sizeof p, &c);
        }
        for (int i = 0; i < c.count; i++) assert_value(c.at[i], x[indices[c.at[i] / WIDE] * WIDE + c.at[i] % WIDE], y[c.at[i]]);
    }
    unsigned char *y = operand(1, count, true);
    int32_t *labels = operand(2, TALL * 4, false);
    for (int i = 0; i < c.count; i++) labels[c.at[i] / WIDE] = (int32_t)(c.at[i] % WIDE);
    mst_one_hot_parameters p = {.labels = labels,
                                .y = y,
                                .one = 9,
                                .n = TALL,
                                .k = WIDE,
                                .label_stride = 1,
                                .row_stride = WIDE,
                                .column_stride = 1,
                                .element_size = 1,
                                .label_dtype = MUSTER_I32};
    choose("mst_one_hot");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], labels[c.at[i] / WIDE] == c.at[i] % WIDE ? 9 : 0, y[c.at[i]]);
    close_operands();
}

/* Three rows are added to two, each of more than 2^31 elements. */
static void test_scatter_add(void **state) {
    const int64_t elements = two_31 + 3, count = 2 * elements;
    const chosen c = choose_elements(count);
    (void)state;
    float *x = operand(0, 3 * elements * 4, false), *y = operand(1, count * 4, true);
    unsigned char *indices = operand(2, 3, false);
    int64_t *order = operand(3, 3 * 8, false);
    indices[0] = indices[2] = 1;
    order[0] = 1, order[1] = 0, order[2] = 2;
    for (int i = 0; i < c.count; i++)
        for (int from = 0; from < 3; from++) x[from * elements + c.at[i] % elements] = (float)(from + 1);
    for (int i = 0; i < c.count; i++) y[c.at[i]] = value_a(c.at[i]);
    mst_scatter_add_parameters p = {.indices = indices,
                                    .order = order,
                                    .count = 3,
                                    .elements = elements,
                                    .rows = 2,
                                    .x_stride = elements * 4,
                                    .y_stride = elements * 4,
                                    .index_stride = 1,
                                    .dtype = MUSTER_F32,
                                    .index_dtype = MUSTER_U8};
    p.row = lay_out(0, elements, 2, (const int32_t[]){4, 4});
    p.row.base[0] = (char *)x, p.row.base[1] = (char *)y;
    choose("mst_scatter_add");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]) + (c.at[i] < elements ? 2 : 1 + 3), y[c.at[i]]);
    close_operands();
}

static void test_indices(void **state) {
    const int64_t count = two_32 + 5, chunk = 1 << 20;
    const int64_t places[] = {two_31 - 1, two_31, two_32 - 1, two_32 + 4};
    (void)state;
    for (int i = 0; i < 4; i++) {
        unsigned char *x = operand(0, count, false);
        mst_indices_parameters p = {
            .indices = x, .count = count, .stride = 1, .bound = 5, .chunk = chunk, .chunks = count / chunk + 1, .dtype = MUSTER_U8};
        p.bad = operand(1, p.chunks * 16, true);
        x[places[i]] = 9;
        choose("mst_indices");
        run_block(&p, sizeof p, places[i] / chunk);
        assert_true(p.bad[2 * (places[i] / chunk)] == places[i]);
        assert_int_equal(p.bad[2 * (places[i] / chunk) + 1], 9);
    }
    close_operands();
}

/* ---- convolutions ---- */

static mst_convolution_layout long_layout(int64_t first, int64_t second, int64_t last) {
    return (mst_convolution_layout){.shape = {first, second, 1, 1, last}, .strides = {second * last, last, 0, 0, 1}};
}

/* Along one long axis; the element of the window is 3. */
static void long_convolution(int32_t kind, int64_t count) {
    const chosen c = choose_elements(count);
    mst_convolution_parameters p = {.geometry = {.kind = kind, .dtype = MUSTER_F32, .groups = 1, .axes = 1}};
    p.geometry.x = p.geometry.y = long_layout(1, 1, count);
    p.geometry.w = long_layout(1, 1, 1);
    for (int d = 0; d < MST_CONVOLUTION_AXES; d++) p.geometry.stride[d] = p.geometry.dilation[d] = 1;
    const bool forward = kind == MST_CONVOLUTION_FORWARD;
    float *from = operand(0, count * 4, false), *to = operand(1, count * 4, true), *w = operand(2, 4, false);
    p.x = (char *)(forward ? from : to), p.y = (char *)(forward ? to : from), p.w = (char *)w;
    *w = 3;
    for (int i = 0; i < c.count; i++) from[c.at[i]] = value_a(c.at[i]);
    choose(forward ? "mst_convolve_forward" : "mst_convolve_data");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], 3 * value_a(c.at[i]), to[c.at[i]]);
}

/* Of two long axes of channels. */
static void many_weights(void) {
    enum { OUTPUTS = 65540, INPUTS = 65541 };
    const int64_t count = (int64_t)OUTPUTS * INPUTS;
    const chosen c = choose_elements(count);
    mst_convolution_parameters p = {.geometry = {.kind = MST_CONVOLUTION_WEIGHTS, .dtype = MUSTER_F32, .groups = 1, .axes = 1}};
    p.geometry.x = long_layout(1, INPUTS, 1);
    p.geometry.y = long_layout(1, OUTPUTS, 1);
    p.geometry.w = long_layout(OUTPUTS, INPUTS, 1);
    for (int d = 0; d < MST_CONVOLUTION_AXES; d++) p.geometry.stride[d] = p.geometry.dilation[d] = 1;
    float *x = operand(0, INPUTS * 4, false), *w = operand(1, count * 4, true), *y = operand(2, OUTPUTS * 4, false);
    for (int i = 0; i < c.count; i++) x[c.at[i] % INPUTS] = value_a(c.at[i] % INPUTS), y[c.at[i] / INPUTS] = value_b(c.at[i] / INPUTS);
    p.x = (char *)x, p.y = (char *)y, p.w = (char *)w;
    choose("mst_convolve_weights");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i] % INPUTS) * value_b(c.at[i] / INPUTS), w[c.at[i]]);
}

static void test_convolutions(void **state) {
    (void)state;
    for (int i = 0; i < count_of_counts(); i++) {
        long_convolution(MST_CONVOLUTION_FORWARD, counts[i]);
        long_convolution(MST_CONVOLUTION_DATA, counts[i]);
    }
    many_weights();
    close_operands();
}

/* ---- pooling ---- */

static mst_pooling_layout long_places(int64_t count) {
    return (mst_pooling_layout){.shape = {1, 1, 1, 1, count}, .strides = {count, count, 0, 0, 1}};
}

/* Windows of two elements, of which the second is chosen, beside each other along one long axis:
 * `count` is the number of elements of the result. */
static void long_pooling(int32_t kind, const char *name, int64_t count) {
    const bool of_x = kind == MST_POOLING_MAX_GRADIENT || kind == MST_POOLING_SUM_GRADIENT;
    const chosen c = choose_elements(count);
    const int64_t places = of_x ? count / 2 : count, extent = of_x ? count : 2 * count;
    mst_pooling_parameters p = {.kind = kind, .dtype = MUSTER_F32, .x = long_places(extent), .y = long_places(places)};
    for (int d = 0; d < MST_POOLING_AXES; d++) p.size[d] = p.stride[d] = p.dilation[d] = 1;
    p.size[2] = p.stride[2] = 2;
    p.z = p.x;
    float *x = operand(0, extent * 4, kind == MST_POOLING_SUM_GRADIENT), *y = operand(1, places * 4, !of_x),
          *z = operand(2, extent * 4, kind == MST_POOLING_MAX_GRADIENT);
    p.at_x = (char *)x, p.at_y = (char *)y, p.at_z = (char *)z;
    for (int i = 0; i < c.count; i++) {
        const int64_t place = of_x ? c.at[i] / 2 : c.at[i];
        if (of_x && place < places) y[place] = value_b(place);
        if (kind == MST_POOLING_SUM_GRADIENT || 2 * place + 1 >= extent) continue;
        x[2 * place] = -1, x[2 * place + 1] = value_a(place);
        if (kind == MST_POOLING_TAKE) z[2 * place + 1] = value_b(place);
    }
    choose(name);
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) {
        const int64_t at = c.at[i], place = of_x ? at / 2 : at;
        const bool odd = at % 2, none = of_x && place >= places; /* behind the last window */
        if (kind == MST_POOLING_MAX) assert_value(at, value_a(place), y[at]);
        if (kind == MST_POOLING_TAKE) assert_value(at, value_b(place), y[at]);
        if (kind == MST_POOLING_SUM) assert_value(at, value_a(place) - 1, y[at]);
        if (kind == MST_POOLING_MAX_GRADIENT) assert_value(at, odd && !none ? value_b(place) : 0, z[at]);
        if (kind == MST_POOLING_SUM_GRADIENT) assert_value(at, none ? 0 : value_b(place), x[at]);
    }
    close_operands();
}

static void test_pooling(void **state) {
    (void)state;
    for (int i = 0; i < count_of_counts(); i++) {
        long_pooling(MST_POOLING_MAX, "mst_pool_max", counts[i]);
        long_pooling(MST_POOLING_TAKE, "mst_pool_take", counts[i]);
        long_pooling(MST_POOLING_MAX_GRADIENT, "mst_pool_max_gradient", counts[i]);
        long_pooling(MST_POOLING_SUM, "mst_pool_sum", counts[i]);
        long_pooling(MST_POOLING_SUM_GRADIENT, "mst_pool_sum_gradient", counts[i]);
    }
}

/* ---- sums of collectives ---- */
static void test_sums_of_collectives(void **state) {
    (void)state;
    for (int n = 0; n < count_of_counts(); n++) {
        const int64_t count = counts[n];
        const chosen c = choose_elements(count);
        for (int odd = 0; odd < 2; odd++) { /* in packs, and one by one */
            float *x = operand(0, (count + odd) * 4, false), *y = operand(1, (count + odd) * 4, true);
            mst_p2p_reduce_parameters p = {.count = count, .dtype = MUSTER_F32, .op = MUSTER_SUM, .inputs = 5, .outputs = 1};
            for (int k = 0; k < 5; k++) p.input[k] = x + odd;
            p.output[0] = y + odd;
            for (int i = 0; i < c.count; i++) x[odd + c.at[i]] = value_a(c.at[i]);
            choose("mst_p2p_reduce");
            run_owners(&p, sizeof p, &c);
            for (int i = 0; i < c.count; i++) assert_value(c.at[i], 5 * value_a(c.at[i]), y[odd + c.at[i]]);
        }
        for (int odd = 0; odd < 2; odd++) {
            uint8_t *from = operand(0, count + odd, false), *to = operand(1, count + odd, true);
            mst_p2p_reduce_parameters p = {.count = count, .dtype = MUSTER_U8, .op = MUSTER_SUM, .inputs = 5, .outputs = 1};
            for (int k = 0; k < 5; k++) p.input[k] = from + odd;
            p.output[0] = to + odd;
            for (int i = 0; i < c.count; i++) from[odd + c.at[i]] = (uint8_t)(c.at[i] % 251);
            choose("mst_p2p_reduce_integers");
            run_owners(&p, sizeof p, &c);
            for (int i = 0; i < c.count; i++) assert_int_equal(to[odd + c.at[i]], (uint8_t)(5 * (c.at[i] % 251)));
        }
        float *x = operand(0, count * 4, false), *y = operand(1, count * 4, true), *v = operand(2, count * 4, true);
        for (int i = 0; i < c.count; i++) x[c.at[i]] = value_a(c.at[i]), y[c.at[i]] = value_b(c.at[i]);
        mst_accumulate_parameters a = {.accumulator = y, .values = x, .count = count, .op = MUSTER_SUM, .dtype = MUSTER_F32};
        choose("mst_accumulate");
        run_owners(&a, sizeof a, &c);
        for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]) + value_b(c.at[i]), y[c.at[i]]);
        mst_update_parameters u = {
            .x = y, .parameter = y, .velocity = v, .sum = x, .count = count, .alpha = 2, .beta = 1, .dtype = MUSTER_F32};
        choose("mst_update");
        run_owners(&u, sizeof u, &c);
        for (int i = 0; i < c.count; i++) assert_value(c.at[i], 3 * value_a(c.at[i]) + value_b(c.at[i]), y[c.at[i]]);
    }
    close_operands();
}

/* ---- reductions ---- */
static void test_reduction_by_threads(void **state) {
    const int64_t results = two_31 + 3;
    (void)state;
    for (int chunks = 1; chunks <= 2; chunks++) { /* of one element each, or one of two */
        const chosen c = choose_elements(results * chunks);
        float *x = operand(0, 2 * results * 4, false), *y = operand(1, results * 4, true);
        mst_reduce_parameters p = {.results = results,
                                   .length = 2,
                                   .chunks = chunks,
                                   .chunk = 2 / chunks,
                                   .divisor = 1,
                                   .dtype = MUSTER_F32,
                                   .result = MUSTER_F32,
                                   .op = MUSTER_SUM};
        p.outer = lay_out(0, results, 2, (const int32_t[]){4, 4});
        p.outer.base[0] = (char *)x, p.outer.base[1] = (char *)y;
        p.inner = (mst_iterator){.ndim = 1, .operands = 1, .shape = {2}, .strides = {{results * 4}}};
        if (chunks == 2) p.partials = operand(2, 2 * results * 8, true);
        for (int i = 0; i < c.count; i++) {
            x[c.at[i] % results] = value_a(c.at[i] % results);
            x[results + c.at[i] % results] = value_b(c.at[i] % results);
        }
        choose("mst_reduce_threads");
        run_owners(&p, sizeof p, &c);
        for (int i = 0; i < c.count; i++) {
            const int64_t at = c.at[i] % results;
            if (chunks == 1)
                assert_value(at, value_a(at) + value_b(at), y[at]);
            else
                assert_value(c.at[i], c.at[i] < results ? value_a(at) : value_b(at), ((double *)p.partials)[c.at[i]]);
        }
    }
    close_operands();
}

/* One long sum, in chunks: in the first, in that which 2^31 begins, in that which 2^32 begins. */
static void test_reduction_by_blocks(void **state) {
    const int64_t length = two_32 + 5, chunk = 1 << 20;
    const int64_t places[] = {3, two_31 - 1, two_31, two_31 + 300, two_32 - 1, two_32 + 4};
    (void)state;
    unsigned char *x = operand(0, length, false);
    mst_reduce_parameters p = {.results = 1,
                               .length = length,
                               .chunks = length / chunk + 1,
                               .chunk = chunk,
                               .divisor = 1,
                               .dtype = MUSTER_U8,
                               .result = MUSTER_U8,
                               .op = MUSTER_SUM};
    p.outer = (mst_iterator){.ndim = 1, .operands = 2, .shape = {1}, .base = {(char *)x, operand(1, 1, true)}};
    p.inner = (mst_iterator){.ndim = 1, .operands = 1, .shape = {length}, .strides = {{1}}};
    uint64_t *partials = p.partials = operand(2, p.chunks * 8, true);
    for (int i = 0; i < 6; i++) x[places[i]] = (unsigned char)(1 << i);
    choose("mst_reduce_blocks");
    const int64_t blocks[] = {0, two_31 / chunk - 1, two_31 / chunk, two_32 / chunk - 1, two_32 / chunk};
    const uint64_t expected[] = {1, 2, 4 + 8, 16, 32};
    for (int i = 0; i < 5; i++) {
        run_block(&p, sizeof p, blocks[i]);
        assert_int_equal(partials[blocks[i]], expected[i]);
    }
    close_operands();
}

static void test_partial_results(void **state) {
    const int64_t results = two_31 + 3;
    const chosen c = choose_elements(results);
    (void)state;
    unsigned char *y = operand(1, results, true);
    mst_reduce_parameters p = {
        .results = results, .length = 2, .chunks = 2, .chunk = 1, .divisor = 1, .dtype = MUSTER_I8, .result = MUSTER_I8, .op = MUSTER_SUM};
    p.outer = lay_out(0, results, 2, (const int32_t[]){1, 1});
    p.outer.base[1] = (char *)y;
    int64_t *partials = p.partials = operand(2, 2 * results * 8, false);
    choose("mst_reduce_partials");
    for (int i = 0; i < c.count; i++) partials[c.at[i]] = i + 1; /* of chunk 0, which thread 0 reads */
    for (int i = 0; i < c.count; i++) run_thread(&p, sizeof p, c.at[i] % grid, 0);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], i + 1, y[c.at[i]]);
    close_operands();
}

static void test_dot(void **state) {
    const int64_t length = two_32 + 5, chunk = 1 << 18;
    const int64_t places[] = {two_31 - 1, two_31, two_32 - 1, two_32 + 4};
    (void)state;
    float *x = operand(0, length * 4, false), *y = operand(1, length * 4, false);
    mst_dot_parameters p = {
        .x = x, .y = y, .x_stride = 1, .y_stride = 1, .length = length, .chunk = chunk, .chunks = length / chunk + 1, .dtype = MUSTER_F32};
    p.partials = operand(2, p.chunks * 8, true);
    choose("mst_dot");
    for (int i = 0; i < 4; i++) {
        x[places[i]] = (float)(i + 2);
        y[places[i]] = 3;
        run_block(&p, sizeof p, places[i] / chunk % grid);
        assert_value(places[i], 3 * (i + 2), p.partials[places[i] / chunk]);
    }
    close_operands();
}

/* ---- rows: many short ones, and long ones whose table has more than 2^32 elements ---- */
enum { LONG = 1024, LONG_ROWS = (1 << 22) + 1 };
static const int64_t long_rows[] = {0, (1 << 21) - 1, 1 << 21, (1 << 22) - 1, 1 << 22};

static void test_gemv(void **state) {
    const int64_t n = two_31 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    float *a = operand(0, n * 4, false), *x = operand(1, LONG * 4, false), *y = operand(2, n * 4, true);
    mst_gemv_parameters p = {.a = a,
                             .x = x,
                             .y = y,
                             .n = n,
                             .k = 1,
                             .row_stride = 1,
                             .column_stride = 1,
                             .x_stride = 1,
                             .y_stride = 1,
                             .alpha = 1,
                             .dtype = MUSTER_F32};
    for (int j = 0; j < LONG; j++) x[j] = 2;
    for (int i = 0; i < c.count; i++) a[c.at[i]] = value_a(c.at[i]);
    choose("mst_gemv_threads");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], 2 * value_a(c.at[i]), y[c.at[i]]);
    a = operand(0, (int64_t)LONG_ROWS * LONG * 4, false);
    p.n = LONG_ROWS, p.k = p.row_stride = LONG;
    grid = LONG_ROWS;
    choose("mst_gemv_blocks");
    for (int i = 0; i < 5; i++) {
        a[long_rows[i] * LONG] = a[long_rows[i] * LONG + LONG - 1] = value_a(i);
        run_block(&p, sizeof p, long_rows[i]);
        assert_value(long_rows[i], 4 * value_a(i), y[long_rows[i]]);
    }
    grid = 1 << 18;
    close_operands();
}

static void test_argmax(void **state) {
    const int64_t n = two_31 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    float *x = operand(0, n * 2 * 4, false);
    mst_argmax_parameters p = {.x = x,
                               .index = operand(1, n * 8, true),
                               .n = n,
                               .k = 2,
                               .row_stride = 2,
                               .column_stride = 1,
                               .index_stride = 1,
                               .dtype = MUSTER_F32};
    for (int i = 0; i < c.count; i++) x[2 * c.at[i] + 1] = 1;
    choose("mst_argmax_threads");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], 1, (double)p.index[c.at[i]]);
    x = operand(0, (int64_t)LONG_ROWS * LONG * 4, false);
    p.n = LONG_ROWS, p.k = p.row_stride = LONG;
    grid = LONG_ROWS;
    choose("mst_argmax_blocks");
    for (int i = 0; i < 5; i++) {
        x[long_rows[i] * LONG + 200 * i] = 1;
        run_block(&p, sizeof p, long_rows[i]);
        assert_value(long_rows[i], 200 * i, (double)p.index[long_rows[i]]);
    }
    grid = 1 << 18;
    close_operands();
}

static void test_softmax(void **state) {
    const int64_t n = two_31 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    float *z = operand(0, n * 2 * 4, false);
    unsigned char *labels = operand(1, n, false);
    mst_softmax_parameters p = {.logits = z,
                                .labels = labels,
                                .losses = operand(2, n * 8, true),
                                .hits = operand(3, n * 8, true),
                                .n = n,
                                .k = 2,
                                .row_stride = 2,
                                .column_stride = 1,
                                .label_stride = 1,
                                .dtype = MUSTER_F32,
                                .label_dtype = MUSTER_U8};
    for (int i = 0; i < c.count; i++) z[2 * c.at[i] + 1] = 3, labels[c.at[i]] = 1;
    choose("mst_softmax_threads");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) {
        assert_value(c.at[i], log(1 + exp(-3)), p.losses[c.at[i]]);
        assert_int_equal(p.hits[c.at[i]], 1);
    }
    z = p.logits = operand(0, (int64_t)LONG_ROWS * LONG * 4, false);
    p.n = LONG_ROWS, p.k = p.row_stride = LONG;
    drop(1);
    grid = LONG_ROWS;
    choose("mst_softmax_blocks");
    for (int i = 0; i < 5; i++) {
        z[long_rows[i] * LONG + 100 * i] = 5;
        labels[long_rows[i]] = (unsigned char)(100 * i % 256);
        run_thread(&p, sizeof p, long_rows[i], 0); /* its own elements: 0, 256, 512, 768 */
    }
    grid = 1 << 18;
    assert_value(0, log(1 + 3 * exp(-5)), p.losses[0]);
    /* the sum of all rows: thread 0 reads 2^31 */
    double *losses = p.losses = operand(2, n * 8, false);
    p.hits = operand(3, n * 8, false);
    p.loss = operand(0, 4, true), p.bad = operand(1, n + 16, true), p.labels = (char *)(void *)p.bad + 16;
    p.n = n;
    losses[two_31] = 2.5;
    choose("mst_softmax_sum");
    run_thread(&p, sizeof p, 0, 0);
    assert_value(0, 2.5, *(float *)p.loss);
    close_operands();
}

/* Operands of rows that lie behind each other. */
static mst_rows_parameters rows_of(int64_t count, int64_t length, int operands, const int32_t *bytes, const int64_t *lengths) {
    mst_rows_parameters p = {.count = count, .length = length, .dtype = MUSTER_F32, .result = MUSTER_F32};
    p.rows = (mst_iterator){.ndim = 1, .operands = operands, .shape = {count}};
    for (int k = 0; k < operands; k++) {
        p.rows.strides[k][0] = lengths[k] * bytes[k];
        p.stride[k] = bytes[k];
    }
    return p;
}

static void test_softmax_of_rows(void **state) {
    const int64_t n = two_31 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    float *x = operand(0, n * 2 * 4, false), *y = operand(1, n * 2 * 4, true);
    mst_rows_parameters p = rows_of(n, 2, 2, (const int32_t[]){4, 4}, (const int64_t[]){2, 2});
    p.op = MST_SOFTMAX, p.rows.base[0] = (char *)x, p.rows.base[1] = (char *)y;
    for (int i = 0; i < c.count; i++) x[2 * c.at[i] + 1] = (float)i;
    choose("mst_softmax_rows_threads");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], 1 / (1 + exp(-i)), y[2 * c.at[i] + 1]);
    x = operand(0, (int64_t)LONG_ROWS * LONG * 4, false), y = operand(1, LONG_ROWS * 4, true);
    p = rows_of(LONG_ROWS, LONG, 2, (const int32_t[]){4, 4}, (const int64_t[]){LONG, 1});
    p.op = MST_LOGSUMEXP, p.rows.base[0] = (char *)x, p.rows.base[1] = (char *)y, p.stride[1] = 0;
    grid = LONG_ROWS;
    choose("mst_softmax_rows_blocks");
    for (int i = 0; i < 5; i++) {
        x[long_rows[i] * LONG + 256 * (i % 4)] = 5;
        run_thread(&p, sizeof p, long_rows[i], 0); /* its own elements: 0, 256, 512, 768 */
        assert_value(long_rows[i], 5 + log(1 + 3 * exp(-5)), y[long_rows[i]]);
    }
    grid = 1 << 18;
    close_operands();
}

/* ---- a step of a recurrent layer with one state ---- */

static void test_recurrent(void **state) {
    const int64_t n = two_32 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    static const int64_t length = 1;
    mst_cell_parameters p = {.rows = n, .width = 1, .kind = MST_CELL_RELU, .dtype = MUSTER_F32};
    float *a = operand(0, n * 4, false), *y = operand(1, n * 4, true), *h = operand(2, n * 4, true);
    for (int i = 0; i < c.count; i++) a[c.at[i]] = value_a(c.at[i]);
    for (int i = 0; i < c.count; i++) h[c.at[i]] = 0;
    p.operands[MST_CELL_GATES] = p.operands[MST_CELL_PRODUCTS] = (mst_cell_operand){.data = (char *)a, .row = 1};
    p.operands[MST_CELL_LENGTHS] = (mst_cell_operand){.data = (char *)(uintptr_t)&length};
    p.operands[MST_CELL_Y] = (mst_cell_operand){.data = (char *)y, .row = 1};
    p.operands[MST_CELL_H] = (mst_cell_operand){.data = (char *)h, .row = 1};
    choose("mst_cell_forward");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) {
        const float sum = 2 * value_a(c.at[i]);
        assert_value(c.at[i], sum > 0 ? sum : 0, y[c.at[i]]);
        assert_value(c.at[i], y[c.at[i]], h[c.at[i]]);
    }
    /* y 1, so that the gradient goes on */
    static const float one = 1;
    float *dgates = operand(1, n * 4, true);
    for (int i = 0; i < c.count; i++) h[c.at[i]] = 0;
    p.operands[MST_CELL_KEPT] = (mst_cell_operand){.data = (char *)(uintptr_t)&one};
    p.operands[MST_CELL_DY] = (mst_cell_operand){.data = (char *)a, .row = 1};
    p.operands[MST_CELL_DH] = p.operands[MST_CELL_H];
    p.operands[MST_CELL_DGATES] = (mst_cell_operand){.data = (char *)dgates, .row = 1};
    choose("mst_cell_gradient");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]), dgates[c.at[i]]);
    close_operands();
}

/* ---- attention: matrices of one query and one key ---- */

static void attend_operand(mst_attention_parameters *p, int32_t operand, const void *data, bool one_for_all) {
    p->operands[operand] = (mst_attention_operand){.data = (char *)(uintptr_t)data, .row = 1, .column = 1};
    p->operands[operand].stack[MST_ATTENTION_STACK - 1] = !one_for_all;
}

/* The first thread of a block has all keys. */
static void attend(const char *name, const mst_attention_parameters *p, const chosen *c) {
    grid = 1 << 30;
    choose(name);
    for (int i = 0; i < c->count; i++) run_thread(p, sizeof *p, c->at[i] % grid, 0);
    grid = 1 << 18;
}

static void test_attention(void **state) {
    const int64_t n = two_32 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    mst_attention_parameters p = {
        .stack = {1, 1, 1, 1, 1, n}, .count = n, .group = 1, .queries = 1, .keys = 1, .width = 1, .values = 1, .scale = 1};
    p.dtype = MUSTER_F32;
    float *a = operand(0, n * 4, false), *y = operand(1, n * 4, true), *lse = operand(2, n * 4, true);
    for (int i = 0; i < c.count; i++) a[c.at[i]] = value_a(c.at[i]);
    for (int k = MST_ATTENTION_Q; k <= MST_ATTENTION_V; k++) attend_operand(&p, k, a, false);
    attend_operand(&p, MST_ATTENTION_Y, y, false);
    attend_operand(&p, MST_ATTENTION_LSE, lse, false);
    attend("mst_attention_results", &p, &c);
    for (int i = 0; i < c.count; i++) {
        assert_value(c.at[i], value_a(c.at[i]), y[c.at[i]]);
        assert_value(c.at[i], value_a(c.at[i]) * value_a(c.at[i]), lse[c.at[i]]);
    }
    /* y, lse and what it lost 0: then p is 1 */
    const float *zero = operand(2, 4, false);
    float *dk = operand(1, n * 4, true), *dv = operand(3, n * 4, true);
    attend_operand(&p, MST_ATTENTION_Y, zero, true);
    attend_operand(&p, MST_ATTENTION_LSE, zero, true);
    attend_operand(&p, MST_ATTENTION_REST, zero, true);
    attend_operand(&p, MST_ATTENTION_DY, a, false);
    attend_operand(&p, MST_ATTENTION_DK, dk, false);
    attend_operand(&p, MST_ATTENTION_DV, dv, false);
    attend("mst_attention_of_keys", &p, &c);
    for (int i = 0; i < c.count; i++) {
        const double value = value_a(c.at[i]);
        assert_value(c.at[i], value * value * value, dk[c.at[i]]);
        assert_value(c.at[i], value, dv[c.at[i]]);
    }
    attend_operand(&p, MST_ATTENTION_DQ, operand(1, n * 4, true), false);
    attend("mst_attention_of_queries", &p, &c);
    for (int i = 0; i < c.count; i++)
        assert_value(c.at[i], value_a(c.at[i]) * value_a(c.at[i]) * value_a(c.at[i]),
                     ((float *)(void *)p.operands[MST_ATTENTION_DQ].data)[c.at[i]]);
    float *dmask = operand(1, n * 4, true);
    for (int d = 0; d < MST_ATTENTION_STACK + 2; d++) p.mask[d] = d == MST_ATTENTION_STACK - 1 ? n : 1;
    attend_operand(&p, MST_ATTENTION_DMASK, dmask, false);
    attend("mst_attention_of_mask", &p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]) * value_a(c.at[i]), dmask[c.at[i]]);
    close_operands();
}

/* More than 2^31 rows of one element. */
static void test_running_sums(void **state) {
    const int64_t n = two_31 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    float *x = operand(0, n * 4, false), *y = operand(1, n * 4, true);
    double *sums = operand(2, n * 8, true);
    mst_rows_parameters p = rows_of(n, 1, 2, (const int32_t[]){4, 4}, (const int64_t[]){1, 1});
    p.chunk = 1, p.chunks = 1, p.work = sums, p.rows.base[0] = (char *)x, p.rows.base[1] = (char *)y;
    for (int i = 0; i < c.count; i++) x[c.at[i]] = value_a(c.at[i]);
    choose("mst_cumsum_chunks");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]), sums[c.at[i]]);
    choose("mst_cumsum_offsets");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_true(sums[c.at[i]] == 0);
    choose("mst_cumsum");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]), y[c.at[i]]);
    close_operands();
}

/* More than 2^31 rows of one element. */
static void test_recurrences(void **state) {
    const int64_t n = two_31 + 3;
    const chosen c = choose_elements(n);
    (void)state;
    float *a = operand(0, n * 4, false), *y = operand(1, n * 4, true);
    double *products = operand(2, 2 * n * 8, true);
    mst_recurrence_parameters p = {.a = {(char *)a, 4, 4}, .y = {(char *)y, 4, 4}, .rows = n, .length = 1, .chunk = 1, .chunks = 1};
    p.work = products, p.first = 2, p.dtype = MUSTER_F32, p.inclusive = 1;
    for (int i = 0; i < c.count; i++) a[c.at[i]] = value_a(c.at[i]);
    choose("mst_recurrence_chunks");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], value_a(c.at[i]), products[c.at[i]]);
    choose("mst_recurrence_starts");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_true(products[n + c.at[i]] == 2);
    choose("mst_recurrence_write");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_value(c.at[i], 2 * value_a(c.at[i]), y[c.at[i]]);
    close_operands();
}

/* Rows of two elements, the second of which is smaller, in runs of one. */
static void test_sorting(void **state) {
    const int64_t rows = two_31 / 2 + 3, n = 2 * rows;
    const chosen c = choose_elements(n);
    (void)state;
    unsigned char *x = operand(0, n, false), *y = operand(1, n, true);
    mst_sort_parameters p = {.rows = rows_of(rows, 2, 3, (const int32_t[]){1, 1, 1}, (const int64_t[]){2, 2, 2}), .wanted = 2, .width = 1};
    p.rows.dtype = MUSTER_U8, p.rows.rows.base[0] = (char *)x, p.rows.rows.base[1] = (char *)y;
    p.from = operand(2, n * 8, true), p.to = operand(3, n * 8, true);
    for (int i = 0; i < c.count; i++) {
        const int64_t first = c.at[i] / 2 * 2;
        x[first] = 9, x[first + 1] = 3;
        p.from[first + 1] = 1; /* the places of two runs of one */
    }
    choose("mst_sort_merge");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) /* the chosen element has gone to the place of the other */
        assert_int_equal(p.to[c.at[i] ^ 1], c.at[i] & 1);
    for (int i = 0; i < c.count; i++) p.to[c.at[i] / 2 * 2] = 1, p.to[c.at[i] / 2 * 2 + 1] = 0;
    choose("mst_sort_write");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_int_equal(y[c.at[i]], c.at[i] & 1 ? 9 : 3);
    p.to = operand(3, n * 8, true);
    p.rows.chunk = 1, p.rows.chunks = 2;
    choose("mst_sort_runs");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) assert_int_equal(p.to[c.at[i]], c.at[i] & 1);
    close_operands();
}

static void test_triangles_and_ranges(void **state) {
    (void)state;
    for (int i = 0; i < count_of_counts(); i++) {
        const int64_t count = counts[i];
        const chosen c = choose_elements(count);
        uint8_t *x = operand(0, count, false), *y = operand(1, count, true);
        mst_triangle_parameters p = {.rows = rows_of(1, count, 2, (const int32_t[]){1, 1}, (const int64_t[]){count, count}), .height = 1};
        p.rows.rows.base[0] = (char *)x, p.rows.rows.base[1] = (char *)y;
        p.element_size = 1, p.diagonal = two_31;
        for (int e = 0; e < c.count; e++) x[c.at[e]] = (uint8_t)(e + 1);
        choose("mst_triangle");
        run_owners(&p, sizeof p, &c);
        for (int e = 0; e < c.count; e++) assert_int_equal(y[c.at[e]], c.at[e] <= two_31 ? e + 1 : 0);
        mst_element_parameters q = {.count = count, .dtype = MUSTER_F32, .alpha = 3, .beta = 2};
        q.iterator = lay_out(0, count, 1, (const int32_t[]){4});
        q.iterator.base[0] = operand(2, count * 4, true);
        choose("mst_arange");
        run_owners(&q, sizeof q, &c);
        for (int e = 0; e < c.count; e++) assert_value(c.at[e], 3 + 2 * (double)c.at[e], ((float *)(void *)q.iterator.base[0])[c.at[e]]);
    }
    close_operands();
}

static void test_the_probe_of_peers(void **state) {
    const int64_t n = two_32 + 5;
    const chosen c = choose_elements(n);
    uint32_t *remote = operand(0, n * 4, false), *local = operand(1, n * 4, false);
    mst_peer_parameters p = {.remote_source = remote,
                             .local_source = local,
                             .local_target = operand(2, n * 4, true),
                             .remote_target = operand(3, n * 4, true),
                             .count = n};
    (void)state;
    for (int i = 0; i < c.count; i++) remote[c.at[i]] = (uint32_t)(100 + i), local[c.at[i]] = (uint32_t)(200 + i);
    choose("mst_peer_probe");
    run_owners(&p, sizeof p, &c);
    for (int i = 0; i < c.count; i++) {
        assert_int_equal(p.local_target[c.at[i]], 100 + i);
        assert_int_equal(p.remote_target[c.at[i]], 200 + i);
    }
    close_operands();
}

static void test_every_kernel_has_run(void **state) {
    (void)state;
    int count = 0;
    for (int i = 0; i < program->kernel_count; i++) {
        if (strncmp(program->kernels[i].name, "contract_", 9) == 0) continue; /* the machine's own */
        if (!has_run[i]) fail_msg("%s has not run", program->kernels[i].name);
        count++;
    }
    assert_int_equal(count, KERNELS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise_kernels),
        cmocka_unit_test(test_where_clip_and_random_numbers),
        cmocka_unit_test(test_rows_by_index),
        cmocka_unit_test(test_scatter_add),
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_sums_of_collectives),
        cmocka_unit_test(test_reduction_by_threads),
        cmocka_unit_test(test_reduction_by_blocks),
        cmocka_unit_test(test_partial_results),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_gemv),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_of_rows),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_running_sums),
        cmocka_unit_test(test_recurrences),
        cmocka_unit_test(test_sorting),
        cmocka_unit_test(test_triangles_and_ranges),
        cmocka_unit_test(test_the_probe_of_peers),
        cmocka_unit_test(test_every_kernel_has_run),
    };
    return cmocka_run_group_tests(tests, open_texts, NULL);
}
