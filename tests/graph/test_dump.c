/* Dumps: the text of a graph and of its function, letter by letter; the same for Graphviz, read by
 * a small checker; steps in traces. */
#include "graph_fixture.h"
#include "graph_private.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define GRAPH_TEXT                                                    \
    "graph \"the \"example\"\": 10 expressions\n"                     \
    "%1 = input \"x\"  (rows, 3) f32\n"                               \
    "%2 = parameter \"w\"  (3, 2) f32\n"                              \
    "%3 = matmul(%1, %2)  (rows, 2) f32  net.c:1\n"                   \
    "%4 = tanh(%3)  \"a \"hidden\" layer\"  (rows, 2) f32  net.c:2\n" \
    "%6 = multiply(%4, %4)  (rows, 2) f32  net.c:3\n"                 \
    "%8 = multiply(%6, 2)  (rows, 2) f32  net.c:4\n"                  \
    "%9 = mean(%8, axis=[0])  (2,) f32  net.c:5\n"                    \
    "%10 = exp(%1)  (rows, 3) f32  net.c:6\n"                         \
    "%11 = transpose(%10, axes=[1, 0])  (3, rows) f32  net.c:7\n"     \
    "%14 = multiply(%2, 1)  (3, 2) f32  net.c:8\n"                    \
    "output \"mean\" = %9\n"                                          \
    "output \"turned\" = %11\n"                                       \
    "update \"w\" = %14\n"
#define FUNCTION_TEXT                                                 \
    "function \"the \"example\"\": 9 expressions, 0 groups\n"         \
    "%1 = input \"x\"  (rows, 3) f32\n"                               \
    "%10 = exp(%1)  (rows, 3) f32  net.c:6\n"                         \
    "%11 = transpose(%10, axes=[1, 0])  (3, rows) f32  net.c:7\n"     \
    "%2 = parameter \"w\"  (3, 2) f32\n"                              \
    "%3 = matmul(%1, %2)  (rows, 2) f32  net.c:1\n"                   \
    "%4 = tanh(%3)  \"a \"hidden\" layer\"  (rows, 2) f32  net.c:2\n" \
    "%15 = square(%4)  (rows, 2) f32  net.c:3\n"                      \
    "%16 = multiply(%15, 2)  (rows, 2) f32  net.c:4\n"                \
    "%17 = mean(%16, axis=[0])  (2,) f32  net.c:5\n"                  \
    "output \"mean\" = %17\n"                                         \
    "output \"turned\" = %11\n"                                       \
    "update \"w\" = %2\n"
#define CALLED_TEXT                                                                                    \
    "function \"the \"example\"\": 9 expressions, 0 groups, 8 steps, a block of 128 bytes, rows = 4\n" \
    "%1 = input \"x\"  (4, 3) f32  input \"x\"\n"                                                      \
    "%10 = exp(%1)  (4, 3) f32  step 0  block 0 to 48  net.c:6\n"                                      \
    "%11 = transpose(%10, axes=[1, 0])  (3, 4) f32  view  block 0 to 48  net.c:7\n"                    \
    "%2 = parameter \"w\"  (3, 2) f32  variable \"w\"\n"                                               \
    "%3 = matmul(%1, %2)  (4, 2) f32  step 1  block 64 to 96  net.c:1\n"                               \
    "%4 = tanh(%3)  \"a \"hidden\" layer\"  (4, 2) f32  step 2  block 64 to 96  net.c:2\n"             \
    "%15 = square(%4)  (4, 2) f32  step 3  block 64 to 96  net.c:3\n"                                  \
    "%16 = multiply(%15, 2)  (4, 2) f32  step 4  block 64 to 96  net.c:4\n"                            \
    "%17 = mean(%16, axis=[0])  (2,) f32  step 5  output \"mean\"  net.c:5\n"                          \
    "output \"mean\" = %17\n"                                                                          \
    "output \"turned\" = %11\n"                                                                        \
    "update \"w\" = %2\n"
enum { ROWS = 4, K = 3, TEXT = 20000 };

static char *file_text(const char *path) {
    char *text = calloc(1, TEXT);
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be read", path);
    const size_t length = fread(text, 1, TEXT - 1, file);
    assert_true(length > 0 && length < TEXT - 1);
    fclose(file);
    return text;
}

static void expect_text(const char *path, const char *expected) {
    char *text = file_text(path);
    if (strcmp(text, expected) != 0) fail_msg("expected:\n%s\nreceived:\n%s", expected, text);
    free(text);
}

static muster_expr *at(muster_graph *graph, const char *operation, muster_expr *a, muster_expr *b, const char *where) {
    muster_expr *inputs[] = {a, b}, *result;
    assert_ok(muster_expr_apply(graph, operation, inputs, b ? 2 : 1, NULL, where, &result));
    return result;
}

/* mean(tanh(x @ w)^2 * 2) and x.T, the latter as a view; a name with quotes. */
static muster_graph *example(muster_runtime *runtime, muster_variable *variable) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "the \"example\"", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *w = muster_graph_parameter(graph, variable);
    muster_expr *h = muster_expr_name(at(graph, "tanh", at(graph, "matmul", x, w, "net.c:1"), NULL, "net.c:2"), "a \"hidden\" layer");
    muster_expr *squares = at(graph, "multiply", at(graph, "multiply", h, h, "net.c:3"), muster_graph_number(graph, 2), "net.c:4");
    muster_expr *axis_mean;
    assert_ok(muster_expr_apply(graph, "mean", &squares, 1, ATTRIBUTES({.name = "axis", LIST(0)}), "net.c:5", &axis_mean));
    assert_ok(muster_graph_output(graph, "mean", axis_mean, MUSTER_MASTER));
    assert_ok(
        muster_graph_output(graph, "turned", at(graph, "transpose", at(graph, "exp", x, NULL, "net.c:6"), NULL, "net.c:7"), MUSTER_MASTER));
    assert_ok(muster_graph_update(graph, variable, at(graph, "multiply", w, muster_graph_number(graph, 1), "net.c:8"), MUSTER_MASTER));
    return graph;
}

static muster_function *compile(muster_graph *graph, int32_t step_times) {
    muster_function *function;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.step_times = step_times;
    options.unfused = 1;
    assert_ok(muster_graph_compile(graph, &options, &function));
    return function;
}

static void call(muster_function *function) {
    float x[ROWS][K] = {{0.5f, 1, -1}, {0, 0.25f, 2}, {1, 1, 1}, {-1, 0, 0.5f}}, mean[2], turned[K][ROWS];
    const muster_tensor in = muster_f32(x, ROWS, K), out[] = {muster_f32(mean, 2), muster_f32(turned, K, ROWS)};
    assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
}

static void the_text_says_everything(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *variable;
    float w[K][2] = {{1, 2}, {0, 1}, {-1, 0}};
    assert_ok(muster_variable_create(runtime, "w", muster_f32(w, K, 2), &variable));
    muster_graph *graph = example(runtime, variable);
    assert_ok(muster_graph_dump(graph, "dump_graph.txt", MUSTER_DUMP_TEXT));
    expect_text("dump_graph.txt", GRAPH_TEXT);
    muster_function *function = compile(graph, 0);
    assert_ok(muster_graph_dump(graph, "dump_graph.txt", MUSTER_DUMP_TEXT));
    expect_text("dump_graph.txt", GRAPH_TEXT); /* as the program wrote it */
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_dump_function(function, "dump_function.txt", MUSTER_DUMP_TEXT));
    expect_text("dump_function.txt", FUNCTION_TEXT);
    call(function);
    assert_ok(muster_graph_dump_function(function, "dump_called.txt", MUSTER_DUMP_TEXT));
    expect_text("dump_called.txt", CALLED_TEXT);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(variable));
}

/* ---- times ---- */

/* Every step has a time, and only if it is asked for. */
static void times_are_there_if_asked_for(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *variable;
    float w[K][2] = {{1, 2}, {0, 1}, {-1, 0}};
    assert_ok(muster_variable_create(runtime, "w", muster_f32(w, K, 2), &variable));
    for (int32_t timed = 0; timed < 2; timed++) {
        muster_graph *graph = example(runtime, variable);
        muster_function *function = compile(graph, timed);
        assert_ok(muster_graph_destroy(graph));
        call(function);
        assert_ok(muster_graph_dump_function(function, "dump_times.txt", MUSTER_DUMP_TEXT));
        char *text = file_text("dump_times.txt");
        int32_t steps = 0, times = 0;
        double sum = 0;
        for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            const char *end = strchr(line, '\n'), *step = strstr(line, "  step "), *time = strstr(line, " us");
            steps += end && step && step < end;
            if (!end || !time || time > end) continue;
            while (!isspace((unsigned char)time[-1])) time--;
            sum += atof(time);
            times++;
        }
        free(text);
        assert_int_equal(steps, 6);
        assert_int_equal(times, timed ? 6 : 0);
        assert_true(!timed || sum > 0);
        assert_ok(muster_function_destroy(function));
    }
    assert_ok(muster_variable_destroy(variable));
}

/* ---- DOT ---- */

typedef struct dot_counts {
    int32_t nodes, edges, clusters, depth, most_depth;
} dot_counts;

/* Quotes and braces are closed, statements end with ";" (or a brace), both ends of each edge are
 * nodes with a label. */
static void check_dot(const char *path, dot_counts *c) {
    char *text = file_text(path), names[200][24], words[3][24] = {{0}};
    int32_t named = 0, word = 0;
    *c = (dot_counts){0};
    for (int32_t pass = 0; pass < 2; pass++)
        for (const char *p = text; *p; p++) {
            if (p[0] == '/' && p[1] == '/') {
                p += strcspn(p, "\n") - 1;
            } else if (*p == '"') {
                for (p++; *p != '"'; p++) {
                    if (*p == '\\') p++;
                    assert_true(*p && *p != '\n');
                }
            } else if (*p == '{' || *p == '}') {
                c->depth += *p == '{' ? 1 : -1;
                if (c->depth > c->most_depth) c->most_depth = c->depth;
                assert_true(c->depth >= 0);
                word = 0;
            } else if (*p == '[') {
                if (pass == 0 && strcmp(words[0], "node") != 0) {
                    assert_true(named < 200);
                    memcpy(names[named++], words[0], sizeof words[0]);
                }
                while (*p != ']') {
                    if (*p == '"')
                        for (p++; *p != '"'; p++)
                            if (*p == '\\') p++;
                    assert_true(*p++ != 0);
                }
            } else if (*p == ';') {
                if (pass && word == 3 && strcmp(words[1], "->") == 0) {
                    int32_t found = 0;
                    for (int32_t n = 0; n < named; n++) found += !strcmp(names[n], words[0]) + !strcmp(names[n], words[2]);
                    assert_int_equal(found, 2);
                    c->edges++;
                }
                word = 0;
            } else if (!isspace((unsigned char)*p)) {
                const size_t length = strcspn(p, " \n;[{}\"");
                assert_true(length > 0 && length < 24);
                c->clusters += pass && strncmp(p, "cluster", 7) == 0;
                if (word < 3) snprintf(words[word++], 24, "%.*s", (int)length, p);
                p += length - 1;
            }
        }
    assert_int_equal(c->depth, 0);
    c->nodes = named;
    free(text);
}

static void the_drawing_is_complete(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *variable;
    float w[K][2] = {{1, 2}, {0, 1}, {-1, 0}};
    dot_counts c;
    assert_ok(muster_variable_create(runtime, "w", muster_f32(w, K, 2), &variable));
    muster_graph *graph = example(runtime, variable);
    assert_ok(muster_graph_dump(graph, "dump_graph.dot", MUSTER_DUMP_DOT));
    check_dot("dump_graph.dot", &c);
    assert_int_equal(c.nodes, 10 + 3); /* and the outputs and the update */
    assert_int_equal(c.edges, 10 + 3);
    muster_function *function;
    assert_ok(muster_graph_compile(graph, NULL, &function)); /* with a group */
    assert_ok(muster_graph_destroy(graph));
    call(function);
    assert_ok(muster_graph_dump_function(function, "dump_function.dot", MUSTER_DUMP_DOT));
    check_dot("dump_function.dot", &c);
    assert_int_equal(c.nodes, 9 + 3);
    assert_int_equal(c.edges, 8 + 3);
    assert_int_equal(c.clusters, 1);
    assert_int_equal(c.most_depth, 2);
    /* Graphviz itself, where it is installed */
    if (system("command -v dot > dump_dot.log") == 0) assert_int_equal(system("dot -Tsvg dump_function.dot > dump_function.svg"), 0);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(variable));
}

/* A graph without outputs is written whole; what cannot be written is said. */
static void odd_graphs_and_files(void **state) {
    muster_graph *graph;
    assert_ok(muster_graph_create(*state, "odd", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_U8, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    (void)muster_expr_parse(graph, "einsum(\"i,i->\", cast(x, f64), cast(x, f64)) + x[::-1][0] * 0", NULL);
    (void)x;
    assert_refused(muster_graph_dump(graph, "dump_odd.txt", MUSTER_DUMP_TEXT), MUSTER_DTYPE_MISMATCH, "");
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_create(*state, "odd", &graph));
    x = muster_graph_input(graph, "x", MUSTER_U8, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    (void)muster_expr_parse(graph, "x[::-1]");
    assert_ok(muster_graph_dump(graph, "dump_odd.txt", MUSTER_DUMP_TEXT));
    expect_text("dump_odd.txt", "graph \"odd\": 2 expressions\n"
                                "%1 = input \"x\"  (2,) u8\n"
                                "%4 = slice(%1, start=[1], step=[-1])  (2,) u8  \"x[::-1]\", column 2\n");
    assert_refused(muster_graph_dump(graph, "/nowhere/dump", MUSTER_DUMP_TEXT), MUSTER_SYSTEM, "path: expected a file that can be written");
    assert_refused(muster_graph_dump(graph, "/dev/full", MUSTER_DUMP_TEXT), MUSTER_SYSTEM, "path: expected room for the file");
    assert_ok(muster_graph_destroy(graph));
}

/* A program's log is kept, also in a file to which its standard output is redirected. */
static void what_the_program_has_written_to_its_output_stays(void **state) {
    static const char *const paths[] = {"/dev/stdout", "/dev/stderr"};
    muster_graph *graph;
    assert_ok(muster_graph_create(*state, "odd", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_U8, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    for (int i = 0; i < 2; i++) {
        FILE *stream = i == 0 ? stdout : stderr;
        fflush(stream);
        const int before = dup(fileno(stream)), file = open("dump_output.txt", O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(before >= 0 && file >= 0 && dup2(file, fileno(stream)) >= 0);
        fputs("first\n", stream);
        const muster_status status = muster_graph_dump(graph, paths[i], MUSTER_DUMP_TEXT);
        fputs("last\n", stream);
        fflush(stream);
        assert_true(dup2(before, fileno(stream)) >= 0);
        close(before);
        close(file);
        assert_ok(status);
        expect_text("dump_output.txt", "first\ngraph \"odd\": 1 expressions\n%1 = input \"x\"  (2,) u8\nlast\n");
    }
    assert_ok(muster_graph_destroy(graph));
}

/* ---- traces ---- */

static void steps_are_in_traces(void **state) {
    (void)state;
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_variable *variable;
    float w[K][2] = {{1, 2}, {0, 1}, {-1, 0}};
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.trace = "dump_trace.json";
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_variable_create(runtime, "w", muster_f32(w, K, 2), &variable));
    muster_graph *graph = example(runtime, variable);
    muster_function *function = compile(graph, 0);
    assert_ok(muster_graph_destroy(graph));
    call(function);
    assert_ok(muster_function_destroy(function)); /* the names outlive it */
    assert_ok(muster_runtime_close(runtime));
    char *text = file_text("dump_trace.json");
    int32_t steps = 0;
    for (const char *p = text; (p = strstr(p, "\"cat\":\"step\"")); p++) steps++;
    assert_int_equal(steps, 8); /* and copies into the outputs and into the variable */
    assert_non_null(strstr(text, "\"name\":\"a \\\"hidden\\\" layer\""));
    assert_non_null(strstr(text, "\"name\":\"matmul\""));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_says_everything),
        cmocka_unit_test(times_are_there_if_asked_for),
        cmocka_unit_test(the_drawing_is_complete),
        cmocka_unit_test(odd_graphs_and_files),
        cmocka_unit_test(what_the_program_has_written_to_its_output_stays),
        cmocka_unit_test(steps_are_in_traces),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
