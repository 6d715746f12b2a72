/* Every public function is called with one wrong argument after the other (messages_*.c), and each
 * message names the function, the argument, what was expected and what was received. lib/muster.abi
 * and the headers say which rows there must be.
 * api/test_messages@pointers is this program with every call through the function's twin where it
 * has one (muster/pointers.h): the rows expect the same statuses and messages of the twins. */
#include "messages.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS = 4000, TEXT = 1 << 19 };
typedef struct row {
    const char *function, *argument; /* argument NULL: a function that cannot fail */
} row;
static row rows[MOST_ROWS];
static int row_count, faults;
messages_objects messages_of;

static void add_row(const char *function, const char *argument) {
    assert_true(row_count < MOST_ROWS);
    rows[row_count++] = (row){function, argument};
}

bool messages_has_row(const char *function, const char *argument) {
    for (int i = 0; i < row_count; i++) {
        if (strcmp(rows[i].function, function) != 0) continue;
        if (!argument || (rows[i].argument && strcmp(rows[i].argument, argument) == 0)) return true;
    }
    return false;
}

/* All faults are printed, and then the test fails. */
static void fault(const char *function, const char *argument, const char *what, const char *received) {
    faults++;
    print_error("%s, %s: expected %s, received %s\n", function, argument, what, received);
}

/* A message speaks of one of the arguments `inputs` as "input 'x'". */
static bool names_argument(const char *message, const char *argument) {
    const size_t length = strlen(argument), stem = length > 2 && argument[length - 1] == 's' ? length - 1 : length;
    for (const char *at = message; *at; at++) {
        const bool begins = at == message || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (!begins || strncmp(at, argument, stem) != 0) continue;
        const char *end = at + stem + (at[stem] == 's');
        if (!(isalnum((unsigned char)*end) || *end == '_')) return true;
    }
    return false;
}

/* A message about a graph may begin with the place in the program, "folder/file.c:12: ". */
static const char *behind_place(const char *message) {
    const char *place = strstr(message, ".c:"), *end = place ? place + strlen(".c:") : message;
    while (isdigit((unsigned char)*end)) end++;
    return place && strncmp(end, ": ", 2) == 0 ? end + 2 : message;
}

static void check_message(const char *function, const char *argument, bool is_state) {
    const char *message = behind_place(muster_last_error());
    const size_t length = strlen(function);
    if (strncmp(message, function, length) != 0 || message[length] != ':')
        return fault(function, argument, "the function's name first", message);
    if (!names_argument(message + length, argument)) return fault(function, argument, "the argument's name", message);
    if (is_state) return;
    if (!strstr(message, "expected")) return fault(function, argument, "\"expected\"", message);
    if (!strstr(message, "received")) return fault(function, argument, "\"received\"", message);
}

void messages_refused(const char *function, const char *argument, muster_status expected, muster_status received) {
    messages_refused_as(function, function, argument, expected, received);
}

void messages_refused_as(const char *function, const char *shown, const char *argument, muster_status expected, muster_status received) {
    add_row(function, argument);
    if (expected != received) {
        char text[700];
        snprintf(text, sizeof text, "%s (%s)", muster_status_name(received), muster_last_error());
        fault(function, argument, muster_status_name(expected), text);
        return;
    }
    check_message(shown, argument, expected == MUSTER_BAD_STATE || expected == MUSTER_SYSTEM);
    (void)muster_fail(MUSTER_USER, "the message of an earlier row");
}

void messages_given(const char *function, const char *expression, bool holds) {
    add_row(function, NULL);
    if (!holds) fault(function, "no argument", expression, "another value");
}

/* ---- running the rows ---- */

static muster_status run_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    messages_operations(w);
    messages_workers(w);
    messages_drivers(w);
    return MUSTER_OK;
}

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static muster_function *compiled_function(muster_runtime *runtime) {
    const muster_graph_options options = {.struct_size = sizeof options, .meaning = MUSTER_PER_WORKER};
    static const int64_t two[] = {2};
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "compiled", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, 1, two, MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x * 2", "x", x), MUSTER_SUM));
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void open_objects(void) {
    static float values[4];
    static const char source[] = "KERNEL void kernel_of_rows(GLOBAL_MEM ga_float *a, ga_size n) { MUSTER_EACH(i, n) a[i] *= 2; }";
    const muster_runtime_options options = {.struct_size = sizeof options, .devices = "host:1", .keep_blas_threads = 1};
    const muster_tensor vector = muster_f32(values, 4);
    messages_objects *o = &messages_of;
    assert_ok(muster_runtime_open(&options, &o->runtime));
    assert_ok(muster_runtime_open(&options, &o->other));
    assert_ok(muster_variable_create(o->runtime, "variable", muster_f32(values, 2, 2), &o->variable));
    assert_ok(muster_function_create(o->runtime, "function", nothing, NULL, &o->function));
    assert_ok(muster_function_input(o->function, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(o->function, "y", MUSTER_F32, 1, MUSTER_SUM));
    assert_ok(muster_function_create(o->runtime, "body", run_rows, NULL, &o->body));
    o->compiled = compiled_function(o->runtime);
    assert_ok(muster_kernel_create(o->runtime, "kernel_of_rows", source, (int32_t[]){MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE}, 2,
                                   NULL, &o->kernel));
    assert_ok(muster_server_create(o->runtime, "server", &vector, 1, NULL, &o->server));
    assert_ok(muster_client_open(o->server, &o->client));
}

static void test_messages_name_function_and_argument(void **state) {
    (void)state;
    open_objects();
    messages_base();
    messages_tensors();
    messages_runtimes();
    messages_variables();
    messages_functions();
    messages_kernels();
    messages_graphs();
    messages_rules();
    messages_operators();
    messages_servers();
    assert_ok(muster_function_call(messages_of.body, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_client_close(messages_of.client));
    assert_ok(muster_runtime_close(messages_of.other));
    assert_ok(muster_runtime_close(messages_of.runtime));
    print_message("%d rows\n", row_count);
    assert_int_equal(faults, 0);
    assert_int_equal(row_count, 2113);
}

/* ---- are there all rows? ---- */

/* Arguments that may be NULL: "function.argument", or "argument" for every function. */
static const char *const may_be_null[] = {
    "options",
    "destroy",
    "user",
    "owner",
    "release",
    "communicator",
    /* the end of an object */
    "muster_client_close.client",
    "muster_driver_destroy.driver",
    "muster_function_destroy.function",
    "muster_graph_destroy.graph",
    "muster_kernel_destroy.kernel",
    "muster_operator_destroy.made",
    "muster_pending_destroy.pending",
    "muster_runtime_close.runtime",
    "muster_server_destroy.server",
    "muster_variable_destroy.variable",
    "muster_worker_release.part",
    /* nothing is wanted, or the default */
    "muster_client_receive.request",
    "muster_client_send_all.requests",
    "muster_client_receive_all.requests",
    "muster_client_send.request",
    "muster_driver_step.integrated",
    "muster_expr_apply.attributes",
    "muster_expr_apply.result",
    "muster_expr_apply.where",
    "muster_expr_place.device",
    "muster_fail.message",
    "muster_kernels_load.types",
    "muster_pending_notify.pending",
    "muster_pending_notify_fd.pending",
    "muster_request_notify.request",
    "muster_request_notify_fd.request",
    "muster_runtime_find_device.name",
    "muster_runtime_tensor_create.device",
    "muster_runtime_tensor_on.device",
    "muster_tensor_print.length",
    "muster_graph_input_at.where",
    "muster_gradient_at.where",
    "muster_variables_broadcast.values",
    "muster_variables_scatter.selection",
    "muster_variable_create_empty.row_shape",
    "muster_variable_set_selected.selection",
    /* given by the part that the driver calls, which the rows are not in */
    "muster_driver_default_integrate.parameters",
    /* the worker of a GPU is needed first */
    "muster_worker_cuda_tensor.address",
    "muster_worker_cuda_tensor.shape",
    /* host memory needs no runtime, and the NULL stream is CUDA's default */
    "muster_dlpack_export.runtime",
    "muster_dlpack_export_unversioned.runtime",
    "muster_dlpack_import.runtime",
    "muster_dlpack_import_unversioned.runtime",
    "muster_worker_cuda_after.stream",
    "muster_worker_cuda_before.stream",
    /* not wanted */
    "muster_gradient_check.worst",
};

static bool is_optional(const char *function, const char *argument) {
    char both[200];
    snprintf(both, sizeof both, "%s.%s", function, argument);
    for (size_t i = 0; i < sizeof may_be_null / sizeof *may_be_null; i++)
        if (strcmp(may_be_null[i], argument) == 0 || strcmp(may_be_null[i], both) == 0) return true;
    return false;
}

static char *read_text(const char *path) {
    char *text = calloc(1, TEXT);
    FILE *file = fopen(path, "r");
    assert_non_null(text);
    if (!file) fail_msg("%s cannot be read", path);
    const size_t length = fread(text, 1, TEXT - 1, file);
    assert_true(length > 0 && length < TEXT - 1);
    fclose(file);
    return text;
}

/* All public headers, without their comments. */
static char *read_headers(void) {
    static const char *const names[] = {"status",   "allocator", "tensor",       "dtype", "buffer", "runtime", "variable", "initialiser",
                                        "function", "worker",    "communicator", "ops",   "kernel", "server",  "driver",   "dlpack",
                                        "cuda",     "graph",     "operator",     "rule",  "nodes",  "machine"};
    char *all = calloc(1, TEXT), path[500];
    assert_non_null(all);
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, MUSTER_SOURCE_DIR "/include/muster/%s.h", names[i]);
        char *text = read_text(path);
        for (const char *at = text; *at; at++) {
            if (at[0] == '/' && at[1] == '*')
                at = strstr(at, "*/") + 1;
            else
                all[used++] = *at;
        }
        assert_true(used < TEXT / 2);
        free(text);
    }
    return all;
}

/* A twin says what its function says, so that it has the rows of its function; they all run. */
static void check_twin(const char *twin) {
    char function[200];
    snprintf(function, sizeof function, "%.*s", (int)strlen(twin) - 2, twin);
    if (!messages_has_row(function, NULL)) fault(twin, "any argument", "a row of its function", "none");
}

/* The prototype of an exported function, from MUSTER_API to its semicolon. */
static void find_prototype(const char *headers, const char *function, char prototype[1000]) {
    char head[200];
    snprintf(head, sizeof head, "%s(", function);
    for (const char *at = headers; (at = strstr(at, head)); at++) {
        if (at > headers && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) continue;
        const char *begin = at;
        while (begin > headers && *begin != ';' && *begin != '}' && *begin != '{' && *begin != '#') begin--;
        const char *api = strstr(begin, "MUSTER_API"), *end = strchr(at, ';');
        if (!api || api > at || !end || end - api >= 1000) continue;
        memcpy(prototype, api, (size_t)(end - api));
        prototype[end - api] = 0;
        return;
    }
    fail_msg("%s: expected a prototype in the headers, received none", function);
}

/* Checks that the NULL of every pointer has a row, of a function that returns a status. */
static int check_pointers(const char *function, const char *prototype) {
    const char *at = strstr(prototype, function) + strlen(function) + 1;
    int pointers = 0;
    char name[100];
    for (int depth = 0; *at && depth >= 0; at++) {
        const char *begin = at;
        bool pointer = false;
        for (; *at && depth >= 0 && !(depth == 0 && *at == ','); at++) {
            depth += (*at == '(') - (*at == ')');
            pointer |= *at == '*' || strncmp(at, "muster_body body", 16) == 0 || strncmp(at, "_function function", 18) == 0;
        }
        if (pointer && !memchr(begin, '(', (size_t)(at - begin))) {
            const char *end = at;
            while (!(isalnum((unsigned char)end[-1]) || end[-1] == '_')) end--;
            const char *first = end;
            while (isalnum((unsigned char)first[-1]) || first[-1] == '_') first--;
            snprintf(name, sizeof name, "%.*s", (int)(end - first), first);
            pointers++;
            if (!is_optional(function, name) && !messages_has_row(function, name)) fault(function, name, "a row with NULL", "none");
        }
        if (!*at) break;
    }
    return pointers;
}

static void test_every_function_has_rows(void **state) {
    (void)state;
    char *abi = read_text(MUSTER_SOURCE_DIR "/lib/muster.abi"), *headers = read_headers(), prototype[1000];
    int functions = 0, twins = 0, pointers = 0;
    faults = 0;
    for (char *line = strtok(abi, "\n"); line; line = strtok(NULL, "\n")) {
        char *function = strchr(line, ' ');
        if (*line == '#' || !function++) continue;
        if (strcmp(function + strlen(function) - 2, "_p") == 0) {
            check_twin(function);
            twins++;
            continue;
        }
        functions++;
        find_prototype(headers, function, prototype);
        if (!messages_has_row(function, NULL)) fault(function, "any argument", "a row", "none");
        if (strstr(prototype, "muster_status muster_")) pointers += check_pointers(function, prototype);
    }
    print_message("%d functions, %d pointers, %d twins\n", functions, pointers, twins);
    assert_int_equal(faults, 0);
    assert_true(functions >= 240 && pointers >= 300 && twins >= 80);
    free(abi);
    free(headers);
}

/* In api/test_messages@pointers: the rows of each function went through its twin. */
static void test_every_twin_was_called(void **state) {
    (void)state;
#ifdef MUSTER_TEST_POINTERS
    const int twins = sizeof twin_calls / sizeof *twin_calls;
    for (int i = 0; i < twins; i++)
        if (twin_calls[i] == 0) fail_msg("the twin of %s: expected a call, received none", twin_names[i]);
    print_message("%d twins called\n", twins);
    assert_true(twins >= 80);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_name_function_and_argument),
        cmocka_unit_test(test_every_function_has_rows),
        cmocka_unit_test(test_every_twin_was_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
