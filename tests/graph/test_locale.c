/* Texts of the library have points in a program whose locale has commas (setlocale): messages,
 * printed tensors, dumps, what workers did last, variables of the environment. The locale is made
 * for the test, by localedef. */
#include "base_check.h"
#include "base_skip.h"
#include "environment_impl.h"
#include "graph_private.h"
#include "recorder_impl.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/muster-locale-XXXXXX";

static void in_folder(char path[300], const char *name) { snprintf(path, 300, "%s/%s", folder, name); }

/* A locale that differs from "C" in numbers alone: 1.234.567,5 */
static bool make_locale(void) {
    char path[300], command[1000];
    if (!mkdtemp(folder)) return false;
    in_folder(path, "source");
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n", file);
    fclose(file);
    snprintf(command, sizeof command, "localedef -c --no-archive -i %s -f UTF-8 %s/comma >/dev/null 2>&1", path, folder);
    (void)!system(command);
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_ALL, "comma") != NULL;
}

static int remove_locale(void **state) {
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void the_locale_of_the_program_stays(void **state) {
    char text[32], path[300];
    float value = 1.5f;
    (void)state;
    in_folder(path, "unused");
    assert_ok(muster_tensor_print(muster_f32(&value), text, sizeof text, NULL));
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
    assert_string_equal(setlocale(LC_ALL, NULL), "comma");
}

static void printed_tensors_have_points(void **state) {
    char text[100];
    const float values[] = {1.5f, -0.25f, 1e10f};
    const double wide[] = {0.1, 1234567.5};
    (void)state;
    assert_ok(muster_tensor_print(muster_f32(values, 3), text, sizeof text, NULL));
    assert_string_equal(text, "f32 (3,) [1.5, -0.25, 1e+10]");
    assert_ok(muster_tensor_print(muster_f64(wide, 2), text, sizeof text, NULL));
    assert_string_equal(text, "f64 (2,) [0.10000000000000001, 1234567.5]");
}

static void messages_have_points(void **state) {
    muster_runtime *runtime = *state;
    muster_graph *graph;
    (void)mst_error(MUSTER_USER, "%g and %.17g", 0.5, 1234567.5);
    assert_string_equal(muster_last_error(), "0.5 and 1234567.5");
    assert_ok(muster_graph_create(runtime, "wrong", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_expr_parse(graph, "layer_norm(x, epsilon=-2.5)");
    assert_refused(muster_graph_status(graph), MUSTER_INVALID_ARGUMENT, "received -2.5");
    assert_ok(muster_graph_destroy(graph));
}

static void dumps_have_points(void **state) {
    static const muster_dump_format formats[] = {MUSTER_DUMP_TEXT, MUSTER_DUMP_DOT};
    char path[300], text[4000];
    muster_graph *graph;
    in_folder(path, "dump");
    assert_ok(muster_graph_create(*state, "g", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "leaky_relu(x * 2.5 + .125, 0.75)"), MUSTER_GATHER));
    for (int i = 0; i < 2; i++) {
        assert_ok(muster_graph_dump(graph, path, formats[i]));
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        assert_non_null(strstr(text, "2.5"));
        assert_non_null(strstr(text, "0.125"));
        assert_null(strstr(text, "2,5"));
        assert_null(strstr(text, "0,125"));
    }
    assert_ok(muster_graph_destroy(graph));
}

static void what_a_worker_did_last_has_points(void **state) {
    static mst_recorder recorder;
    char text[200];
    (void)state;
    mst_record_end(&recorder, mst_record_begin(&recorder, MST_EVENT_CALL, "f", 1, 0));
    mst_recorder_last(&recorder, text, sizeof text);
    assert_non_null(strstr(text, "took "));
    const char *second = strstr(strstr(text, "took "), ", finished ");
    assert_non_null(second);
    assert_null(memchr(strstr(text, "took "), ',', (size_t)(second - strstr(text, "took "))));
    assert_null(strchr(second + 1, ','));
}

static void variables_of_the_environment_have_points(void **state) {
    int64_t ns = 0;
    (void)state;
    setenv("MUSTER_EXIT_AFTER", "2.5", 1);
    assert_ok(mst_environment_seconds("MUSTER_EXIT_AFTER", &ns));
    assert_int_equal(ns, 2500000000);
    setenv("MUSTER_EXIT_AFTER", "2,5", 1);
    assert_refused(mst_environment_seconds("MUSTER_EXIT_AFTER", &ns), MUSTER_INVALID_ARGUMENT, "MUSTER_EXIT_AFTER");
    unsetenv("MUSTER_EXIT_AFTER");
}

static int open_runtime(void **state) { return muster_runtime_open(NULL, (muster_runtime **)state); }
static int close_runtime(void **state) { return muster_runtime_close(*state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_locale_of_the_program_stays),
        cmocka_unit_test(printed_tensors_have_points),
        cmocka_unit_test_setup_teardown(messages_have_points, open_runtime, close_runtime),
        cmocka_unit_test_setup_teardown(dumps_have_points, open_runtime, close_runtime),
        cmocka_unit_test(what_a_worker_did_last_has_points),
        cmocka_unit_test(variables_of_the_environment_have_points),
    };
    if (!make_locale()) {
        (void)remove_locale(NULL);
        return SKIP_SUITE("localedef makes no locale on this machine");
    }
    setenv("MUSTER_DEVICES", "host:2", 0);
    return cmocka_run_group_tests(tests, NULL, remove_locale);
}
