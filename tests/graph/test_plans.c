/* Plans: what each of a list of small graphs exchanges on 2 and on 4 workers, what it computes in
 * the loop over micro-batches, before and behind it, what it computes again, and how many bytes its
 * block takes. Results stay right when a plan becomes worse, so that tests of values cannot see it.
 * plans.txt has the dumps, without the places in the block and in the program. After a change that
 * is meant to change plans, MUSTER_TEST_WRITE=1 writes the file again: read the difference. */
#include "graph_fixture.h"
#include "muster/rule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = -1, CALLED_ROWS = 8, VALUES = 9, MOST_ELEMENTS = 4096, TEXT = 1 << 20, NODES = 4096, MACHINES = 2 };

typedef struct value {
    const char *name;
    int64_t shape[4]; /* until 0; ROWS: scattered over the workers */
    int32_t split;    /* a parameter: the axis, and 1 */
} value;

typedef struct plan {
    const char *name;
    value inputs[3], parameters[VALUES], others[3]; /* others: variables that the rule does not train */
    const char *let;                                /* is called "it" in the texts below */
    const char *loss;                               /* whose gradients the rule takes, if there is one */
    const char *outputs[3][2];                      /* name and text */
    const char *updates[2][2];                      /* parameter and text, besides those of the rule */
    bool trains;
    muster_update_rule rule;
    double clip;
    muster_graph_options options;
} plan;

#define MLP                                                                                                                   \
    .inputs = {{"x", {ROWS, 6}}, {"y", {ROWS, 3}}}, .parameters = {{"w1", {6, 8}}, {"b1", {8}}, {"w2", {8, 3}}, {"b2", {3}}}, \
    .let = "tanh(x @ w1 + b1) @ w2 + b2", .loss = "mean(square(it - y))"

static const plan plans[] = {
    {.name = "rows stay where they are", .inputs = {{"x", {ROWS, 6}}}, .outputs = {{"y", "tanh(x * 2 + 1)"}, {"norms", "sum(x * x, 1)"}}},
    {.name = "sums over rows", .inputs = {{"x", {ROWS, 6}}}, .outputs = {{"sum", "sum(x, 0)"}, {"mean", "mean(x)"}, {"max", "max(x, 0)"}}},
    {.name = "few rows of many columns",
     .inputs = {{"x", {ROWS, 40}}, {"v", {ROWS}}},
     .parameters = {{"w", {40}}},
     .outputs = {{"sum", "exp(sum(x, 0)) * w"}, {"number", "exp(sum(v))"}},
     .options = {.rows = 1}},
    {.name = "a network by sgd", MLP, .trains = true, .rule = MUSTER_SGD, .outputs = {{"loss", "mean(square(it - y))"}}},
    {.name = "a network by momentum, clipped", MLP, .trains = true, .rule = MUSTER_MOMENTUM, .clip = 1},
    {.name = "a network by Adam, beside an average",
     MLP,
     .trains = true,
     .rule = MUSTER_ADAM,
     .others = {{"average", {3}}},
     .updates = {{"average", "average * 0.9 + mean(it, 0) * 0.1"}}},
    {.name = "updates without a rule",
     .inputs = {{"x", {ROWS, 6}}},
     .parameters = {{"w", {6}}, {"n", {1}}},
     .updates = {{"w", "w - 0.1 * mean(x, 0)"}, {"n", "n + 1"}}},
    {.name = "wide layers, split along columns and rows",
     .inputs = {{"x", {ROWS, 16}}, {"y", {ROWS, 8}}},
     .parameters = {{"w1", {16, 32}, 2}, {"b1", {32}, 1}, {"w2", {32, 8}, 1}},
     .let = "tanh(x @ w1 + b1) @ w2",
     .loss = "mean(square(it - y))",
     .trains = true,
     .rule = MUSTER_MOMENTUM,
     .outputs = {{"loss", "mean(square(it - y))"}}},
    {.name = "an update of eight operands", /* as many as a wish passes on */
     .inputs = {{"x", {ROWS, 4}}},
     .parameters = {{"w", {8, 4}, 2}},
     .let = "x.T @ x",
     .updates = {{"w", "concatenate(sum(x @ (it + 1), 0, 1), sum(x @ (it + 2), 0, 1), sum(x @ (it + 3), 0, 1), sum(x @ (it + 4), 0, 1), "
                       "sum(x @ (it + 5), 0, 1), sum(x @ (it + 6), 0, 1), sum(x @ (it + 7), 0, 1), sum(x @ (it + 8), 0, 1), axis=0)"}}},
    {.name = "statistics of all rows",
     .inputs = {{"x", {ROWS, 5}}},
     .parameters = {{"gain", {5}}},
     .let = "(x - mean(x, 0)) / sqrt(var(x, 0) + 0.001) * gain",
     .loss = "mean(tanh(it) * x)",
     .trains = true,
     .rule = MUSTER_SGD,
     .outputs = {{"y", "it"}}},
    {.name = "attention between rows",
     .inputs = {{"x", {ROWS, 4}}},
     .parameters = {{"q", {4, 3}}, {"k", {4, 3}}},
     .outputs = {{"y", "softmax((x @ q) @ (x @ k).T, 1) @ x"}}},
    {.name = "orders along rows", .inputs = {{"x", {ROWS, 4}}}, .outputs = {{"sorted", "sort(x.T)"}, {"sums", "cumsum(x, 0)"}}},
    {.name = "an image network",
     .inputs = {{"x", {ROWS, 1, 6, 6}}, {"y", {ROWS, 3}}},
     .parameters = {{"k", {2, 1, 3, 3}}, {"w", {8, 3}}},
     .let = "reshape(max_pool(relu(convolution(x, k)), 2), [rows, -1]) @ w",
     .loss = "mean(square(it - y))",
     .trains = true,
     .rule = MUSTER_SGD,
     .options = {.plain_layout = 1}},
    {.name = "a network in micro-batches",
     MLP,
     .trains = true,
     .rule = MUSTER_SGD,
     .outputs = {{"loss", "mean(square(it - y))"}},
     .options = {.micro_batches = 2}},
    {.name = "a weight that is used twice, in micro-batches", /* its gradient is a sum of partial sums */
     .inputs = {{"x", {ROWS, 6}}},
     .parameters = {{"w", {6, 6}}},
     .let = "tanh(x @ w) @ w",
     .loss = "mean(it * it)",
     .trains = true,
     .rule = MUSTER_SGD,
     .options = {.micro_batches = 2}},
    {.name = "sums of inputs in micro-batches",
     .inputs = {{"x", {ROWS, 6}}},
     .outputs = {{"products", "x.T @ x"}, {"sum", "sum(x, 0)"}, {"scaled", "sum(tanh(x), 0) * 3"}},
     .options = {.micro_batches = 2}},
    {.name = "values behind the loop",
     .inputs = {{"x", {ROWS, 6}}},
     .parameters = {{"w", {6, 6}}},
     .let = "tanh(x @ w)",
     .outputs = {{"y", "it"}, {"sums", "cumsum(it * 2, 0)"}, {"centred", "it - mean(it, 0)"}},
     .options = {.micro_batches = 2}},
    {.name = "values before the loop",
     .inputs = {{"x", {ROWS, 6}}, {"a", {6, 6}}},
     .parameters = {{"w", {6, 6}}},
     .let = "x @ (a @ w) + exp(sum(w, 0))",
     .outputs = {{"sum", "sum(it * it, 0)"}, {"alone", "a @ w + 1"}},
     .options = {.micro_batches = 2}},
    {.name = "a value that only the end needs, made of one that stays in the loop",
     .inputs = {{"x", {ROWS, 6}}},
     .parameters = {{"w", {6, 6}}},
     .outputs = {{"sums", "cumsum(tanh(x @ w), 0)"}, {"more", "cumsum(exp(x @ w * 2) + x, 0)"}},
     .options = {.micro_batches = 2}},
    {.name = "operands of which one is in the loop",
     .inputs = {{"x", {ROWS, 6}}, {"y", {ROWS, 6}}},
     .parameters = {{"w", {6}}},
     .let = "exp(x * w)",
     .outputs = {{"first", "it * y"}, {"second", "y - it"}, {"both", "sum(it * y)"}},
     .options = {.micro_batches = 2}},
    {.name = "a deep network with a memory limit",
     .inputs = {{"x", {ROWS, 8}}},
     .parameters = {{"w1", {8, 8}}, {"w2", {8, 8}}, {"w3", {8, 8}}, {"w4", {8, 8}}},
     .let = "silu(silu(silu(silu(x @ w1) @ w2) @ w3) @ w4)",
     .loss = "mean(it * it)",
     .trains = true,
     .rule = MUSTER_SGD,
     .options = {.memory_limit = 1}},
    {.name = "joined layers in micro-batches, split",
     .inputs = {{"x", {ROWS, 8}}, {"y", {ROWS, 4}}},
     .parameters = {{"w1", {8, 16}, 2}, {"w2", {16, 4}, 1}},
     .let = "relu(x @ w1) @ w2",
     .loss = "sum(square(it - y))",
     .trains = true,
     .rule = MUSTER_MOMENTUM,
     .options = {.micro_batches = 2}},
};
enum { PLANS = sizeof plans / sizeof *plans };
static const char *const machines[MACHINES] = {"host:2", "host:4"};

/* ---- the dump ---- */

static int32_t ndim_of(const value *v) {
    int32_t ndim = 0;
    while (ndim < 4 && v->shape[ndim]) ndim++;
    return ndim;
}

static void minimise(muster_graph *g, const plan *p, muster_expr *loss, muster_expr *const *parameters, int32_t count) {
    muster_expr *d[VALUES];
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.learning_rate = 0.125;
    options.clip_norm = p->clip;
    if (p->rule == MUSTER_MOMENTUM) options.momentum = 0.5;
    assert_ok(muster_gradient(loss, parameters, count, d));
    assert_ok(muster_graph_minimise(g, parameters, d, count, p->rule, &options));
}

static int32_t parameters_make(const value *v, muster_runtime *runtime, muster_graph *g, muster_expr **made) {
    static const float zeros[MOST_ELEMENTS];
    int32_t count = 0;
    for (; v->name; v++) {
        muster_variable *variable;
        assert_ok(muster_variable_create(runtime, v->name, muster_tensor_make(MUSTER_F32, (void *)zeros, ndim_of(v), v->shape), &variable));
        made[count] = muster_graph_parameter(g, variable);
        if (v->split) assert_ok(muster_graph_split(made[count], v->split - 1));
        count++;
    }
    return count;
}

static int64_t output_shapes[3][4];
static int32_t output_ndims[3];

/* From a text such as "(rows, 3)". */
static void shape_read(const char *text, int32_t output) {
    output_ndims[output] = 0;
    for (const char *at = text + 1; *at && *at != ')';) {
        const bool rows = strncmp(at, "rows", 4) == 0;
        output_shapes[output][output_ndims[output]++] = rows ? CALLED_ROWS : strtoll(at, NULL, 10);
        at += strcspn(at, ",)");
        at += strspn(at, ", ");
    }
}

static void texts_make(const plan *p, muster_runtime *runtime, muster_graph *g, muster_expr *it) {
    for (int32_t i = 0; i < 3 && p->outputs[i][0]; i++) {
        muster_expr *made = muster_expr_parse(g, p->outputs[i][1], "it", it);
        if (muster_graph_output(g, p->outputs[i][0], made, MUSTER_AUTO) != MUSTER_OK) fail_msg("%s: %s", p->name, muster_last_error());
        shape_read(muster_expr_shape(made), i);
    }
    for (int32_t i = 0; i < 2 && p->updates[i][0]; i++) {
        muster_variable *variable;
        muster_expr *made = muster_expr_parse(g, p->updates[i][1], "it", it);
        assert_ok(muster_variable_find(runtime, p->updates[i][0], &variable));
        assert_ok(muster_graph_update(g, variable, made, MUSTER_AUTO));
    }
}

static muster_function *plan_compile(const plan *p, muster_runtime *runtime) {
    muster_graph *g;
    muster_function *function;
    muster_expr *parameters[VALUES + 2], *it = NULL;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, "plan", &g));
    for (const value *v = p->inputs; v < p->inputs + 3 && v->name; v++) {
        int64_t shape[4];
        for (int32_t d = 0; d < 4; d++) shape[d] = v->shape[d] == ROWS ? MUSTER_ROWS : v->shape[d];
        (void)muster_graph_input(g, v->name, MUSTER_F32, ndim_of(v), shape, v->shape[0] == ROWS ? MUSTER_SCATTER : MUSTER_BROADCAST);
    }
    const int32_t count = parameters_make(p->parameters, runtime, g, parameters);
    (void)parameters_make(p->others, runtime, g, parameters + count);
    it = muster_expr_parse(g, p->let ? p->let : "1");
    if (p->trains) minimise(g, p, muster_expr_parse(g, p->loss, "it", it), parameters, count);
    texts_make(p, runtime, g, it);
    muster_graph_options_init(&options);
    options.rows = p->options.rows;
    options.micro_batches = p->options.micro_batches;
    options.memory_limit = p->options.memory_limit;
    options.plain_layout = p->options.plain_layout;
    if (muster_graph_compile(g, &options, &function) != MUSTER_OK) fail_msg("%s: %s", p->name, muster_last_error());
    assert_ok(muster_graph_destroy(g));
    return function;
}

/* What is known of a plan only by a call: the dump shows the sizes of the latest. */
static void plan_call(const plan *p, muster_function *function) {
    static float zeros[3][MOST_ELEMENTS], results[3][MOST_ELEMENTS];
    muster_tensor in[3], out[3];
    int32_t in_count = 0, out_count = 0;
    for (const value *v = p->inputs; v < p->inputs + 3 && v->name; v++, in_count++) {
        int64_t shape[4];
        for (int32_t d = 0; d < 4; d++) shape[d] = v->shape[d] == ROWS ? CALLED_ROWS : v->shape[d];
        in[in_count] = muster_tensor_make(MUSTER_F32, zeros[in_count], ndim_of(v), shape);
    }
    for (; out_count < 3 && p->outputs[out_count][0]; out_count++)
        out[out_count] = muster_tensor_make(MUSTER_F32, results[out_count], output_ndims[out_count], output_shapes[out_count]);
    if (muster_function_call(function, in, in_count, out, out_count, NULL) != MUSTER_OK) fail_msg("%s: %s", p->name, muster_last_error());
}

/* Where a value comes from, and where it lies in the block: these change with every line of a
 * program, and with every other value. */
static bool field_is_left_out(const char *field) {
    return *field == '"' || strncmp(field, "gradient of ", 12) == 0 || strncmp(field, "block ", 6) == 0 || strstr(field, ".c:");
}

/* The nodes are numbered in their order, without gaps. */
static void field_write(FILE *file, const char *field, bool first, int32_t *numbers, int32_t *count) {
    if (!first) fputs("  ", file);
    for (const char *at = field; *at;) {
        if (*at != '%' || !isdigit((unsigned char)at[1])) {
            fputc(*at++, file);
            continue;
        }
        char *after;
        const long id = strtol(at + 1, &after, 10);
        assert_in_range(id, 0, NODES - 1);
        if (first && at == field) numbers[id] = ++*count;
        fprintf(file, "%%%d", (int)numbers[id]);
        at = after;
    }
}

static void line_write(FILE *file, char *line, int32_t *numbers, int32_t *count) {
    char *end;
    for (char *field = line; field; field = end) {
        end = strstr(field, "  ");
        if (end) *end = 0, end += 2;
        if (!field_is_left_out(field)) field_write(file, field, field == line, numbers, count);
    }
    fputc('\n', file);
}

static void plan_write(FILE *file, const plan *p, const char *machine) {
    static int32_t numbers[NODES];
    int32_t count = 0;
    muster_runtime *runtime = graph_runtime(machine);
    muster_function *function = plan_compile(p, runtime);
    plan_call(p, function);
    char *text = graph_dump_text(function), *rest = text;
    memset(numbers, 0, sizeof numbers);
    fprintf(file, "# %s, %s\n", p->name, machine);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line) line_write(file, line, numbers, &count);
    fputc('\n', file);
    free(text);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_runtime_close(runtime));
}

/* ---- the file ---- */

static char *file_read(const char *path) {
    char *text = calloc(1, TEXT);
    FILE *file = fopen(path, "r");
    if (!text || !file) fail_msg("%s cannot be read", path);
    assert_in_range(fread(text, 1, TEXT - 1, file), 0, TEXT - 2);
    fclose(file);
    return text;
}

/* Prints the lines in which the plan of a title differs; both texts hold it. */
static void difference_print(const char *title, const char *expected, const char *received) {
    print_error("%s\n", title);
    while (*expected || *received) {
        const size_t e = strcspn(expected, "\n"), r = strcspn(received, "\n");
        if (e != r || strncmp(expected, received, e) != 0) print_error("  - %.*s\n  + %.*s\n", (int)e, expected, (int)r, received);
        expected += e + (expected[e] == '\n');
        received += r + (received[r] == '\n');
    }
}

static void each_plan_is_the_written_one(void **state) {
    char *written = file_read(MUSTER_TEST_PLANS), *text, title[200];
    size_t length;
    int32_t different = 0, compared = 0;
    (void)state;
    char *at = written;
    FILE *all = getenv("MUSTER_TEST_WRITE") ? fopen(MUSTER_TEST_PLANS, "w") : NULL;
    for (int32_t p = 0; p < PLANS; p++)
        for (int32_t m = 0; m < MACHINES; m++, compared++) {
            FILE *file = open_memstream(&text, &length);
            plan_write(file, &plans[p], machines[m]);
            fclose(file);
            if (all) fputs(text, all);
            snprintf(title, sizeof title, "# %s, %s\n", plans[p].name, machines[m]);
            char *end = strstr(at, "\n\n");
            if (!end || strncmp(at, title, strlen(title)) != 0) {
                if (!all) fail_msg("%s: expected %s here, received %.80s", MUSTER_TEST_PLANS, title, at);
            } else {
                end[1] = 0;
                text[length - 1] = 0;
                if (strcmp(at, text) != 0) difference_print(title, at, text), different++;
                at = end + 2;
            }
            free(text);
        }
    if (all) fclose(all);
    const bool ends = !*at;
    free(written);
    assert_int_equal(compared, PLANS * MACHINES);
    if (!all && different) fail_msg("%d plans differ; MUSTER_TEST_WRITE=1 writes %s again", (int)different, MUSTER_TEST_PLANS);
    assert_true(all || ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_plan_is_the_written_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
