/* Large layers whose parameters are split: the bytes that each worker receives in a step of
 * training the layers fc6 to fc8 of AlexNet, by formulas of the sizes of the layers. Split
 * layers exchange activations in place of gradients, and compute what one device does. The
 * widths and the batch are an eighth of AlexNet's, unless the full tests are asked for. */
#include "base_seed.h"
#include "communicator_impl.h"
#include "graph_fixture.h"
#include "muster/rule.h"
#include "runtime_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 7, WHOLE = -1, EXCHANGES = 16 };
static const int32_t worker_counts[] = {2, 4, 8};
enum { COUNTS = sizeof worker_counts / sizeof *worker_counts };
static const char *const names[PARAMETERS] = {"s5", "w6", "b6", "w7", "b7", "w8", "b8"};

/* Widths: of the images that a convolution gives fc6, then of the results of fc6, fc7 and fc8. */
typedef struct sizes {
    int64_t batch, in, fc6, fc7, classes;
} sizes;

static sizes sizes_now(void) {
    const int64_t scale = test_is_full() ? 1 : 8;
    return (sizes){128 / scale, 9216 / scale, 4096 / scale, 4096 / scale, 1000 / scale};
}

/* ---- what each worker must receive ---- */

/* The line of an update that sums a gradient, and writes the parameter everywhere, in one pass:
 * "its rule for the gradient ...". */
#define UPDATE "its"
/* One exchange of a whole value of `elements`. */
typedef struct exchange {
    const char *operation;
    int64_t elements;
} exchange;

typedef enum layout { DATA_PARALLEL, COLUMNS, COLUMNS_THEN_ROWS, LAYOUTS } layout;
static const char *const layout_names[LAYOUTS] = {"data parallel", "fc6, fc7 and fc8 split along columns",
                                                  "fc6 split along columns, fc7 along rows"};
/* The axes along which parameters are split: each bias with the columns of its layer. */
static const int32_t layout_axes[LAYOUTS][PARAMETERS] = {
    [DATA_PARALLEL] = {WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE},
    [COLUMNS] = {WHOLE, 1, 0, 1, 0, 1, 0},
    [COLUMNS_THEN_ROWS] = {WHOLE, 1, 0, 0, WHOLE, WHOLE, WHOLE},
};

/* The layer below fc6 is data parallel, as convolutions are: its parameter has the width of
 * fc6's input. The exchanges of a split layer: its input is gathered, and the gradient of its
 * input comes back as a sum, of which each worker gets the part that it needs. Nothing else: no
 * gradient of a split parameter. */
static int32_t exchanges_of(layout how, const sizes *s, exchange *list) {
    const exchange columns[] = {
        {"all_gather", s->batch * s->in},
        {"reduce_scatter", s->batch * s->in},
        {"all_gather", s->batch * s->fc6},
        {"reduce_scatter", s->batch * s->fc6},
        {"all_gather", s->batch * s->fc7},
        {"reduce_scatter", s->batch * s->fc7},
        {"all_to_all", s->batch * s->classes},
        {"all_to_all", s->batch * s->classes}, /* of the loss, which needs rows */
        {UPDATE, s->in},                       /* of the parameter below */
    };
    /* fc6 gives fc7 the columns that its rows need; fc7's result is a sum, and the gradient
     * of it is gathered. fc8 is data parallel: only its gradients are exchanged. */
    const exchange then_rows[] = {
        {"all_gather", s->batch * s->in},
        {"reduce_scatter", s->batch * s->in},
        {"reduce_scatter", s->batch * s->fc7},
        {"all_gather", s->batch * s->fc7},
        {UPDATE, s->in},
        {UPDATE, s->fc7}, /* b7 */
        {UPDATE, s->fc7 * s->classes},
        {UPDATE, s->classes},
    };
    const bool rows = how == COLUMNS_THEN_ROWS;
    memcpy(list, rows ? then_rows : columns, rows ? sizeof then_rows : sizeof columns);
    return (int32_t)((rows ? sizeof then_rows : sizeof columns) / sizeof *list);
}

/* The mean over workers of the elements that one receives: all but its own part. A sum over the
 * workers is that of the parts, then a gather of them. Rows that become columns are a part of a
 * part. */
static double received(const exchange *e, int32_t workers) {
    const double others = (double)(workers - 1) / workers;
    if (!strcmp(e->operation, UPDATE) || !strcmp(e->operation, "all_reduce")) return 2 * (double)e->elements * others;
    if (!strcmp(e->operation, "all_to_all")) return (double)e->elements / workers * others;
    return (double)e->elements * others; /* all_gather, reduce_scatter */
}

/* ---- training ---- */

typedef struct trained {
    muster_runtime *runtime;
    muster_variable *variables[PARAMETERS];
    muster_function *function;
    sizes s;
} trained;

static void shape_of(const sizes *s, int32_t p, int64_t shape[2]) {
    const int64_t shapes[PARAMETERS][2] = {{1, s->in},  {s->in, s->fc6},      {1, s->fc6},    {s->fc6, s->fc7},
                                           {1, s->fc7}, {s->fc7, s->classes}, {1, s->classes}};
    memcpy(shape, shapes[p], sizeof shapes[p]);
}

/* Numbers from -1 to 1. */
static float number_at(int64_t i) {
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)((double)(x >> 40) / (double)(1 << 23) - 1);
}

static muster_tensor tensor_of(const sizes *s, int32_t p, float *data) {
    int64_t shape[2];
    shape_of(s, p, shape);
    return p % 2 ? muster_f32(data, shape[0], shape[1]) : muster_f32(data, shape[1]); /* biases have one axis */
}

static void variables_make(trained *t) {
    for (int32_t p = 0; p < PARAMETERS; p++) {
        int64_t shape[2];
        shape_of(&t->s, p, shape);
        const int64_t count = shape[0] * shape[1];
        float *values = malloc((size_t)count * sizeof *values);
        const float scale = p % 2 ? sqrtf(3.0f / (float)shape[0]) : 0.5f;
        for (int64_t i = 0; i < count; i++) values[i] = scale * number_at(i + p * 1000003) + (p == 0);
        assert_ok(muster_variable_create(t->runtime, names[p], tensor_of(&t->s, p, values), &t->variables[p]));
        free(values);
    }
}

static void train_make(trained *t, const char *devices, layout how) {
    muster_graph_options options;
    muster_rule_options rule;
    muster_graph *graph;
    muster_expr *p[PARAMETERS], *d[PARAMETERS];
    t->s = sizes_now();
    t->runtime = graph_runtime(devices);
    variables_make(t);
    assert_ok(muster_graph_create(t->runtime, "layers", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, t->s.in), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "t", MUSTER_I64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    for (int32_t i = 0; i < PARAMETERS; i++) {
        p[i] = muster_graph_parameter(graph, t->variables[i]);
        if (layout_axes[how][i] != WHOLE) assert_ok(muster_graph_split(p[i], layout_axes[how][i]));
    }
    muster_expr *loss = muster_expr_parse(graph, "h6 = relu(relu(x * s5) @ w6 + b6);"
                                                 "h7 = relu(h6 @ w7 + b7);"
                                                 "softmax_cross_entropy(h7 @ w8 + b8, t)");
    assert_ok(muster_gradient(loss, p, PARAMETERS, d));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.125;
    assert_ok(muster_graph_minimise(graph, p, d, PARAMETERS, MUSTER_SGD, &rule));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.rows = t->s.batch;
    assert_ok(muster_graph_compile(graph, &options, &t->function));
    assert_ok(muster_graph_destroy(graph));
}

static void train_call(const trained *t, float *loss) {
    float *x = malloc((size_t)(t->s.batch * t->s.in) * sizeof *x);
    int64_t labels[128];
    for (int64_t i = 0; i < t->s.batch * t->s.in; i++) x[i] = number_at(3 * i + 7);
    for (int64_t i = 0; i < t->s.batch; i++) labels[i] = (i * i + 1) % t->s.classes;
    const muster_tensor in[] = {muster_f32(x, t->s.batch, t->s.in), muster_i64(labels, t->s.batch)};
    const muster_tensor out = muster_f32(loss);
    assert_ok(muster_function_call(t->function, in, 2, &out, 1, NULL));
    free(x);
}

static void train_end(trained *t) {
    assert_ok(muster_function_destroy(t->function));
    for (int32_t p = 0; p < PARAMETERS; p++) assert_ok(muster_variable_destroy(t->variables[p]));
    assert_ok(muster_runtime_close(t->runtime));
}

/* ---- the exchanges of a dump ---- */

/* The bytes and the operations of the exchanges of the dump. */
static int32_t dump_read(const char *text, char operations[][16], double *bytes) {
    static const char word[] = ", receives ";
    int32_t count = 0;
    text = strchr(text, '\n'); /* after the head, which has the sum */
    for (const char *at = text; (at = strstr(at, word)); at += sizeof word) {
        const char *line = at;
        while (line[-1] != '\n') line--;
        assert_int_equal(sscanf(strstr(line, "= "), "= %15[a-z_](", operations[count]), 1);
        bytes[count++] = atof(at + sizeof word - 1);
        assert_true(count < EXCHANGES + PARAMETERS * 3);
    }
    return count;
}

static void expect_sum(const char *text, const double *bytes, int32_t count, const char *what) {
    double sum = 0;
    const char *at = strstr(text, "each receives ");
    assert_non_null(at);
    for (int32_t i = 0; i < count; i++) sum += bytes[i];
    if (!(fabs(atof(at + strlen("each receives ")) - sum) <= count))
        fail_msg("%s: expected the sum of the exchanges, %.0f, received %.60s", what, sum, at);
}

static const char *list_text(char operations[][16], const double *bytes, int32_t count, char *list, size_t size) {
    size_t used = 0;
    *list = 0;
    for (int32_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s %.0f, ", operations[i], bytes[i]);
    return list;
}

/* Each exchange of the list once, with its bytes, and no other. */
static void expect_list(const exchange *list, int32_t expected, int32_t workers, const char *text, const char *what) {
    char operations[EXCHANGES + PARAMETERS * 3][16];
    double bytes[EXCHANGES + PARAMETERS * 3];
    bool found[EXCHANGES + PARAMETERS * 3] = {false};
    char all[40 * (EXCHANGES + PARAMETERS * 3)];
    const int32_t count = dump_read(text, operations, bytes);
    (void)list_text(operations, bytes, count, all, sizeof all);
    expect_sum(text, bytes, count, what);
    for (int32_t e = 0; e < expected; e++) {
        const double wanted = received(&list[e], workers) * sizeof(float);
        int32_t i = 0;
        while (i < count && (found[i] || strcmp(operations[i], list[e].operation) != 0 || fabs(bytes[i] - wanted) > 0.51)) i++;
        if (i == count) fail_msg("%s, %d workers: expected %s of %.0f bytes, received %s", what, workers, list[e].operation, wanted, all);
        found[i] = true;
    }
    if (count != expected) fail_msg("%s, %d workers: expected %d exchanges, received %d: %s", what, workers, expected, count, all);
}

/* ---- what the workers enter ---- */

/* Elements of the gradients that a worker has entered a pass with, without those of split
 * parameters, which are its own. */
static int64_t applied[8];
static const muster_communicator *observed;

static bool apply_noted(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    const int32_t rank = muster_worker_rank(worker);
    const mst_member *member = &observed->members[rank];
    (void)status;
    if (collective == MST_ALL_REDUCE_APPLY && moment == MST_MOMENT_WRITES)
        applied[rank] = member->apply[member->apply_tag & 1].layout.count;
    return false;
}

static const mst_recorder *recorder_of(const trained *t, int32_t rank) { return &mst_pool_worker(t->runtime->pool, rank)->recorder; }

/* The bytes of a worker's input to each exchange, as its recorder kept them when it entered, from
 * event `before` on. */
static int32_t inputs_read(const trained *t, int32_t rank, uint64_t before, char operations[][16], double *bytes) {
    static mst_recorded events[MST_RECORDER_EVENTS];
    uint64_t begun;
    int32_t count = 0;
    const int64_t read = mst_recorder_read(recorder_of(t, rank), events, MST_RECORDER_EVENTS, &begun);
    for (int64_t i = 0; i < read; i++) {
        if (begun - (uint64_t)(read - i) < before || events[i].kind != MST_EVENT_COLLECTIVE) continue;
        assert_true(count < EXCHANGES);
        snprintf(operations[count], sizeof operations[count], "%.15s", events[i].name);
        const bool applies = strcmp(events[i].name, "all_reduce_apply") == 0;
        bytes[count++] = applies ? (double)applied[rank] * (double)sizeof(float) : (double)events[i].bytes;
    }
    return count;
}

/* What a worker receives in exchange `e`, where inputs[r] are those of each worker: the parts of
 * the others, or their shares of what it keeps. A sum that all keep is both. */
static double moved(const char *operation, int32_t workers, int32_t rank, double inputs[][EXCHANGES], int32_t e) {
    double all = 0;
    const double whole = inputs[rank][e], others = (double)(workers - 1) / workers;
    for (int32_t r = 0; r < workers; r++) all += inputs[r][e];
    if (!strcmp(operation, "all_gather")) return all - whole;
    if (!strcmp(operation, "reduce_scatter")) return whole * others;
    if (!strcmp(operation, "all_to_all")) return all / workers * others; /* as much as the others send */
    return 2 * whole * others;
}

/* What a worker moves in the exchanges of a call: the mean over workers. *count: of the exchanges.
 * */
static double moved_in_a_call(const trained *t, int32_t workers, int32_t *count) {
    static double inputs[8][EXCHANGES];
    static char operations[EXCHANGES][16];
    uint64_t before[8];
    float loss;
    double sum = 0;
    for (int32_t r = 0; r < workers; r++) (void)mst_recorder_read(recorder_of(t, r), NULL, 0, &before[r]);
    observed = t->runtime->communicator;
    mst_rendezvous_test_hook = apply_noted;
    train_call(t, &loss);
    mst_rendezvous_test_hook = NULL;
    for (int32_t r = 0; r < workers; r++) {
        const int32_t found = inputs_read(t, r, before[r], operations, inputs[r]);
        if (r) assert_int_equal(found, *count);
        *count = found;
    }
    for (int32_t r = 0; r < workers; r++)
        for (int32_t e = 0; e < *count; e++) sum += moved(operations[e], workers, r, inputs, e);
    return sum / workers;
}

/* ---- the tests ---- */

static char *dump_of_step(const char *devices, layout how) {
    trained t;
    float loss;
    train_make(&t, devices, how);
    train_call(&t, &loss);
    char *text = graph_dump_text(t.function);
    train_end(&t);
    return text;
}

static void split_layers_exchange_activations(void **state) {
    const sizes s = sizes_now();
    int32_t compared = 0;
    (void)state;
    for (layout how = COLUMNS; how < LAYOUTS; how++)
        for (int32_t n = 0; n < COUNTS; n++, compared++) {
            exchange list[EXCHANGES];
            char devices[16];
            snprintf(devices, sizeof devices, "host:%d", worker_counts[n]);
            char *text = dump_of_step(devices, how);
            const int32_t count = exchanges_of(how, &s, list);
            expect_list(list, count, worker_counts[n], text, layout_names[how]);
            free(text);
        }
    assert_int_equal(compared, (LAYOUTS - 1) * COUNTS);
}

/* The updates of a split layer are exchanged in one collective. What the formulas say is what the
 * sizes that workers enter say. */
static void workers_enter_the_exchanges_with_these_bytes(void **state) {
    const sizes s = sizes_now();
    int32_t compared = 0;
    (void)state;
    for (layout how = COLUMNS; how < LAYOUTS; how++)
        for (int32_t n = 0; n < COUNTS; n++, compared++) {
            const int32_t workers = worker_counts[n];
            exchange list[EXCHANGES];
            char devices[16];
            trained t;
            double expected = 0;
            int32_t updates = 0, count = 0;
            snprintf(devices, sizeof devices, "host:%d", (int)workers);
            train_make(&t, devices, how);
            const double bytes = moved_in_a_call(&t, workers, &count);
            train_end(&t);
            const int32_t all = exchanges_of(how, &s, list);
            for (int32_t e = 0; e < all; e++) {
                expected += received(&list[e], workers) * sizeof(float);
                updates += strcmp(list[e].operation, UPDATE) == 0;
            }
            assert_int_equal(count, all - updates + 1);
            if (fabs(bytes - expected) > 0.5)
                fail_msg("%s, %d workers: expected %.1f bytes, received %.1f", layout_names[how], (int)workers, expected, bytes);
        }
    assert_int_equal(compared, (LAYOUTS - 1) * COUNTS);
}

/* fc6 of neon's hybrid, in millions of elements: 1.18 + 0.52 + 1.18 for all but one of the workers,
 * against twice 37.75 for the sum of its gradients. */
static void fc6_receives_what_neon_does(void **state) {
    const sizes alexnet = {128, 9216, 4096, 4096, 1000};
    exchange list[EXCHANGES];
    (void)state;
    assert_true(exchanges_of(COLUMNS, &alexnet, list) >= 3);
    for (int32_t n = 0; n < COUNTS; n++) {
        const double others = (double)(worker_counts[n] - 1) / worker_counts[n];
        double fc6 = 0;
        for (int32_t e = 0; e < 3; e++) fc6 += received(&list[e], worker_counts[n]);
        assert_true(fabs(fc6 / others / 1e6 - 2.88) < 0.005);
        const exchange gradient = {"all_reduce", alexnet.in * alexnet.fc6};
        assert_true(fabs(received(&gradient, worker_counts[n]) / others / 1e6 - 2 * 37.75) < 0.005);
    }
}

/* Data parallel layers receive the sums of their gradients, and nothing else. */
static void data_parallel_layers_receive_their_gradients(void **state) {
    const sizes s = sizes_now();
    char operations[EXCHANGES + PARAMETERS * 3][16];
    double bytes[EXCHANGES + PARAMETERS * 3];
    (void)state;
    for (int32_t n = 0; n < COUNTS; n++) {
        double sum = 0, parameters = 0;
        char devices[16];
        snprintf(devices, sizeof devices, "host:%d", worker_counts[n]);
        char *text = dump_of_step(devices, DATA_PARALLEL);
        const int32_t count = dump_read(text, operations, bytes);
        for (int32_t i = 0; i < count; i++) sum += bytes[i];
        for (int32_t p = 0; p < PARAMETERS; p++) {
            int64_t shape[2];
            shape_of(&s, p, shape);
            parameters += (double)(shape[0] * shape[1]);
        }
        const exchange gradients = {"all_reduce", (int64_t)parameters};
        const double most = received(&gradients, worker_counts[n]) * sizeof(float);
        assert_int_equal(count, PARAMETERS);
        if (!(fabs(sum - most) <= count)) /* each line is rounded */
            fail_msg("%d workers: expected %.0f bytes, received %.0f", worker_counts[n], most, sum);
        free(text);
    }
}

static float *whole_of(const trained *t, int32_t p, int64_t *count) {
    int64_t shape[2];
    shape_of(&t->s, p, shape);
    *count = shape[0] * shape[1];
    float *values = malloc((size_t)*count * sizeof *values);
    assert_ok(muster_variable_get_whole(t->variables[p], tensor_of(&t->s, p, values)));
    return values;
}

static double largest(const float *values, const float *others, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs((double)values[i] - (others ? (double)others[i] : 0)));
    return most;
}

/* Two steps move each parameter by far more than the tolerance. */
static int32_t same_parameters(const trained *one, const trained *many, float *const *before, const char *what) {
    int32_t compared = 0;
    for (int32_t p = 0; p < PARAMETERS; p++, compared++) {
        int64_t count;
        float *a = whole_of(one, p, &count), *b = whole_of(many, p, &count);
        const double size = largest(a, NULL, count), moved = largest(a, before[p], count), apart = largest(a, b, count);
        if (!(moved > 1e-3 * size)) fail_msg("%s: %s moved by %g of %g only", what, names[p], moved, size);
        if (!(apart <= 1e-5 * size)) fail_msg("%s: %s is %g from one device's, of %g", what, names[p], apart, size);
        free(a);
        free(b);
    }
    return compared;
}

static int32_t trains_as_one_device(const char *devices, layout how) {
    trained one, many;
    float *before[PARAMETERS], losses[2];
    int64_t count;
    train_make(&one, "host:1", how);
    train_make(&many, devices, how);
    for (int32_t p = 0; p < PARAMETERS; p++) before[p] = whole_of(&one, p, &count);
    for (int32_t step = 0; step < 2; step++) {
        train_call(&one, &losses[0]);
        train_call(&many, &losses[1]);
        assert_true(fabsf(losses[0] - losses[1]) <= 1e-5f * fabsf(losses[0]));
    }
    const int32_t compared = same_parameters(&one, &many, before, layout_names[how]);
    for (int32_t p = 0; p < PARAMETERS; p++) free(before[p]);
    train_end(&one);
    train_end(&many);
    return compared;
}

static void split_layers_compute_what_one_device_does(void **state) {
    int32_t compared = 0;
    (void)state;
    for (layout how = DATA_PARALLEL; how < LAYOUTS; how++) {
        compared += trains_as_one_device("host:2", how);
        compared += trains_as_one_device("host:3", how); /* parts of different sizes */
        compared += trains_as_one_device("host:8", how);
    }
    assert_int_equal(compared, LAYOUTS * 3 * PARAMETERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fc6_receives_what_neon_does),
        cmocka_unit_test(split_layers_exchange_activations),
        cmocka_unit_test(workers_enter_the_exchanges_with_these_bytes),
        cmocka_unit_test(data_parallel_layers_receive_their_gradients),
        cmocka_unit_test(split_layers_compute_what_one_device_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
