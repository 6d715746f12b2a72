#include "graph_invariance_private.h"
#include "graph_private.h"
#include "muster/nodes.h"
#include "runtime_impl.h"

#include <math.h>
#include <stdlib.h>

/* ---- a run ---- */

typedef struct output {
    const char *name;
    mst_type type;
    void *memory;
} output;

typedef struct running {
    muster_runtime *runtime;
    const invariance_case *its;
    const invariance_way *way;
    invariance_values *values;
    muster_graph *graph;
    muster_function *function;
    muster_variable *variables[INVARIANCE_PORTS];
    void *memory[INVARIANCE_PORTS];
    int32_t input_count, variable_count, output_count, devices;
    output outputs[2 * INVARIANCE_PORTS];
    bool scatters, mixed; /* mixed: the devices are of several kinds */
} running;

static void *memory_new(void) {
    void *memory = malloc(MOST * sizeof(double));
    assert_non_null(memory);
    return memory;
}

/* The whole sizes of a shape, of so many rows. */
static muster_tensor tensor_of(const running *r, const invariance_port *port, int64_t rows, void *memory) {
    int64_t shape[INVARIANCE_DIMS];
    for (int32_t d = 0; d < port->ndim; d++)
        shape[d] = port->shape[d] == ROWS ? rows : port->shape[d] == TIME ? INVARIANCE_TIME : port->shape[d];
    return muster_tensor_make(invariance_dtype(port->kind, r->way->dtype), memory, port->ndim, shape);
}

static bool has_rows(const invariance_port *port) { return port->ndim && port->shape[0] == ROWS; }

/* The elements from row `first` on; which[i], if not NULL, is the row that is row i here. */
static void tensor_fill(const muster_tensor *tensor, uint64_t seed, invariance_kind kind, int64_t first, const int64_t *which) {
    const int64_t count = muster_tensor_count(*tensor), row = tensor->ndim && tensor->shape[0] ? count / tensor->shape[0] : 1;
    assert_true(count <= MOST);
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = which ? which[i / row] * row + i % row : first * row + i;
        invariance_write(tensor->data, tensor->dtype, i, invariance_element(seed, kind, place));
    }
}

/* Rows of a variable that no scattered input determines: uneven parts, some of them empty. Logical
 * shards are of even rows. */
static int64_t rows_edge(const running *r, int64_t rows, int32_t rank) {
    if (r->scatters || r->runtime->logical_shards) return rows * rank / r->devices;
    return rank == r->devices ? rows : rows * rank * rank / ((int64_t)r->devices * r->devices);
}

static void variables_set(const running *r, int64_t rows, bool rows_only) {
    for (int32_t v = 0; v < r->variable_count; v++) {
        const invariance_port *port = &r->its->variables[v];
        void *memory = memory_new();
        if (rows_only && !has_rows(port)) {
            free(memory);
            continue;
        }
        const bool split = muster_variable_split_axis(r->variables[v]) >= 0; /* it has its values */
        for (int32_t rank = 0; rank < r->devices && !split; rank++) {
            const int64_t first = has_rows(port) ? rows_edge(r, rows, rank) : 0;
            const muster_tensor value = tensor_of(r, port, has_rows(port) ? rows_edge(r, rows, rank + 1) - first : 0, memory);
            tensor_fill(&value, r->its->seed + 100 + (uint64_t)v, port->kind, first, NULL);
            assert_ok(muster_variable_set(r->variables[v], rank, value));
        }
        free(memory);
    }
}

static void ports_make(running *r, muster_expr **x) {
    int64_t shape[INVARIANCE_DIMS];
    for (; r->its->inputs[r->input_count].name; r->input_count++) {
        const invariance_port *port = &r->its->inputs[r->input_count];
        for (int32_t d = 0; d < port->ndim; d++) shape[d] = port->shape[d] == TIME ? muster_graph_size(r->graph, "time") : port->shape[d];
        const muster_input_mode mode = port->broadcast ? MUSTER_BROADCAST : r->way->minibatch ? MUSTER_MINIBATCH : MUSTER_SCATTER;
        x[r->input_count] = muster_graph_input(r->graph, port->name, invariance_dtype(port->kind, r->way->dtype), port->ndim, shape, mode);
        r->memory[r->input_count] = memory_new();
        r->scatters |= !port->broadcast;
    }
    for (; r->its->variables[r->variable_count].name; r->variable_count++) {
        const int32_t v = r->variable_count;
        const invariance_port *port = &r->its->variables[v];
        void *memory = memory_new();
        const muster_tensor value = tensor_of(r, port, 1, memory);
        tensor_fill(&value, r->its->seed + 100 + (uint64_t)v, port->kind, 0, NULL);
        assert_ok(muster_variable_create(r->runtime, port->name, value, &r->variables[v]));
        free(memory);
        x[r->input_count + v] =
            has_rows(port) ? muster_graph_parameter_rows(r->graph, r->variables[v]) : muster_graph_parameter(r->graph, r->variables[v]);
    }
}

static muster_expr *parsed(const running *r, const char *text, muster_expr *it) {
    muster_expr *made = it ? muster_expr_parse(r->graph, text, "it", it) : muster_expr_parse(r->graph, text);
    if (muster_graph_status(r->graph) != MUSTER_OK) fail_msg("%s: \"%s\": %s", r->its->name, text, muster_last_error());
    return made;
}

static void texts_make(const running *r, muster_expr *const *x) {
    const invariance_case *its = r->its;
    muster_expr *it = its->let ? parsed(r, its->let, NULL) : NULL, *gradients[INVARIANCE_PORTS];
    for (int32_t o = 0; its->outputs[o].name; o++)
        assert_ok(muster_graph_output(r->graph, its->outputs[o].name, parsed(r, its->outputs[o].text, it), its->outputs[o].mode));
    for (int32_t u = 0; its->updates[u].name; u++)
        for (int32_t v = 0; v < r->variable_count; v++)
            if (strcmp(its->updates[u].name, its->variables[v].name) == 0)
                assert_ok(muster_graph_update(r->graph, r->variables[v], parsed(r, its->updates[u].text, it), its->updates[u].mode));
    if (!its->loss) return;
    muster_expr *loss = parsed(r, its->loss, it);
    assert_ok(muster_gradient(loss, x + r->input_count, r->variable_count, gradients));
    for (int32_t v = 0; v < r->variable_count; v++) {
        muster_expr *next = muster_expr_parse(r->graph, "v - 0.25 * g", "v", x[r->input_count + v], "g", gradients[v]);
        assert_ok(muster_graph_update(r->graph, r->variables[v], next, MUSTER_AUTO));
    }
}

static void function_make(running *r) {
    muster_expr *x[2 * INVARIANCE_PORTS] = {NULL};
    muster_graph_options options;
    assert_ok(muster_graph_create(r->runtime, r->its->name, &r->graph));
    ports_make(r, x);
    texts_make(r, x);
    if (r->its->build) r->its->build(r->graph, x, r->input_count + r->variable_count, r->its);
    muster_graph_options_init(&options);
    options.unshared_memory = r->way->unshared;
    options.unfused = r->way->unfused;
    options.unsimplified = r->way->unsimplified;
    options.check_memory = r->way->checked;
    options.rows = r->way->expected_rows;
    options.step_times = r->way->timed;
    options.micro_batches = r->way->micro_batches;
    options.memory_limit = r->way->memory_limit;
    options.plain_layout = r->way->plain_layout;
    const mst_ports *outputs = &r->graph->graph->outputs;
    r->output_count = outputs->count;
    for (int32_t o = 0; o < outputs->count; o++)
        r->outputs[o] = (output){outputs->items[o].name, outputs->items[o].node->type, memory_new()};
    if (muster_graph_compile(r->graph, &options, &r->function) != MUSTER_OK) fail_msg("%s: %s", r->its->name, muster_last_error());
}

/* ---- variables ---- */

/* A replica has the bits of the master's; on devices of several kinds, which round differently,
 * nearly its value. */
static void replica_check(const running *r, const invariance_port *port, const muster_tensor *value, const void *master) {
    const double tolerance = r->way->dtype == MUSTER_F64 ? 1e-11 : 1e-5;
    if (memcmp(value->data, master, (size_t)muster_tensor_bytes(*value)) == 0) return;
    for (int64_t i = 0; i < muster_tensor_count(*value); i++) {
        const double x = invariance_read(value->data, value->dtype, i), y = invariance_read(master, value->dtype, i);
        if (!r->mixed || !(fabs(x - y) <= tolerance * (1 + fabs(y))))
            fail_msg("%s: variable %s: element %lld of a replica is %.17g, of the master's %.17g", r->its->name, port->name, (long long)i,
                     x, y);
    }
}

/* Every replica of a variable is the same value; rows are those of all replicas. */
static void variables_read(const running *r) {
    for (int32_t v = 0; v < r->variable_count; v++) {
        const invariance_port *port = &r->its->variables[v];
        char *memory = memory_new(), *first = memory_new();
        const muster_dtype dtype = invariance_dtype(port->kind, r->way->dtype);
        int64_t count = 0;
        const bool split = muster_variable_split_axis(r->variables[v]) >= 0;
        if (split) {
            const muster_tensor whole = tensor_of(r, port, 0, first);
            assert_ok(muster_variable_get_whole(r->variables[v], whole));
            count = muster_tensor_count(whole);
        }
        for (int32_t rank = 0; rank < r->devices && !split; rank++) {
            int64_t shape[INVARIANCE_DIMS];
            assert_ok(muster_variable_shape(r->variables[v], rank, port->ndim, shape));
            char *to = has_rows(port) ? memory + count * muster_dtype_size(dtype) : rank ? memory : first;
            const muster_tensor value = muster_tensor_make(dtype, to, port->ndim, shape);
            assert_ok(muster_variable_get(r->variables[v], rank, value));
            if (!has_rows(port) && rank) replica_check(r, port, &value, first);
            count = has_rows(port) ? count + muster_tensor_count(value) : muster_tensor_count(value);
        }
        invariance_add(r->values, has_rows(port) ? memory : first, dtype, count);
        free(memory);
        free(first);
    }
}

/* ---- calls ---- */

typedef struct call {
    muster_tensor in[INVARIANCE_PORTS], out[2 * INVARIANCE_PORTS];
    int64_t which[2 * 1024];
    muster_call_options options;
} call;

/* A batch selects `rows` of twice as many rows. */
static void call_inputs(const running *r, int64_t rows, int32_t number, call *c) {
    const int32_t selection = r->scatters && rows ? r->way->selection : 0;
    muster_call_options_init(&c->options);
    for (int64_t i = 0; i < rows; i++) c->which[i] = selection == MUSTER_SELECT_LIST ? (i * 5 + 1) % (2 * rows) : i + rows / 2;
    if (selection == MUSTER_SELECT_RANGE)
        c->options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = rows / 2, .stop = rows / 2 + rows};
    if (selection == MUSTER_SELECT_LIST)
        c->options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = c->which, .index_count = rows};
    for (int32_t i = 0; i < r->input_count; i++) {
        const invariance_port *port = &r->its->inputs[i];
        const bool all = selection && !port->broadcast && !r->way->minibatch;
        c->in[i] = tensor_of(r, port, all ? 2 * rows : rows, r->memory[i]);
        tensor_fill(&c->in[i], r->its->seed + (uint64_t)(20 * number + i), port->kind, 0,
                    selection && !all && !port->broadcast ? c->which : NULL);
    }
}

static void call_outputs(const running *r, int64_t rows, call *c) {
    int64_t sizes[MST_SIZES] = {[MST_SIZE_ROWS] = rows};
    for (int32_t s = 1; s < MST_SIZES; s++) sizes[s] = INVARIANCE_TIME;
    for (int32_t o = 0; o < r->output_count; o++) {
        int64_t shape[MUSTER_MAX_DIMS];
        const mst_type *type = &r->outputs[o].type;
        for (int32_t d = 0; d < type->ndim; d++) shape[d] = mst_dim_value(r->graph->graph, type->dims[d], sizes);
        c->out[o] = muster_tensor_make(type->dtype, r->outputs[o].memory, type->ndim, shape);
        assert_true(muster_tensor_count(c->out[o]) <= MOST);
        memset(c->out[o].data, 0, (size_t)muster_tensor_bytes(c->out[o]));
        if (r->way->unwanted >> o & 1) c->out[o] = muster_tensor_none();
    }
}

static muster_status call_make(const running *r, const call *c) {
    if (!r->way->asynchronous) return muster_function_call(r->function, c->in, r->input_count, c->out, r->output_count, &c->options);
    muster_pending *pending;
    const muster_status status =
        muster_function_call_async(r->function, c->in, r->input_count, c->out, r->output_count, &c->options, &pending);
    return status == MUSTER_OK ? muster_pending_wait(&pending) : status;
}

/* With a limit no block is larger than without. */
static void memory_note(const running *r) {
    const int32_t process = muster_runtime_process(r->runtime), last = muster_runtime_first_rank(r->runtime, process + 1);
    muster_graph_memory memory;
    muster_graph_memory_init(&memory);
    for (int32_t rank = muster_runtime_first_rank(r->runtime, process); rank < last; rank++) {
        assert_ok(muster_graph_function_memory(r->function, rank, &memory));
        if (memory.block_bytes > memory.unlimited_bytes || memory.largest_bytes < memory.block_bytes)
            fail_msg("%s: a block of %lld bytes, the largest %lld, without a limit %lld", r->its->name, (long long)memory.block_bytes,
                     (long long)memory.largest_bytes, (long long)memory.unlimited_bytes);
        r->values->repeated += memory.repeated_steps;
    }
}

static void run_once(const running *r, int32_t number) {
    call *c = calloc(1, sizeof *c);
    assert_non_null(c);
    const int64_t rows = r->its->most_rows && r->way->rows[number] > r->its->most_rows ? r->its->most_rows : r->way->rows[number];
    variables_set(r, rows, true);
    call_inputs(r, rows, number, c);
    call_outputs(r, rows, c);
    const muster_status status = call_make(r, c);
    const double code = status;
    memory_note(r);
    if (status != MUSTER_OK && !*r->values->message) strcpy(r->values->message, muster_last_error());
    invariance_add(r->values, &code, MUSTER_F64, 1);
    for (int32_t o = 0; status == MUSTER_OK && o < r->output_count; o++)
        if (c->out[o].dtype != MUSTER_DTYPE_NONE)
            invariance_add(r->values, c->out[o].data, c->out[o].dtype, muster_tensor_count(c->out[o]));
    variables_read(r);
    free(c);
}

void invariance_run(muster_runtime *runtime, const invariance_case *its, const invariance_way *way, invariance_values *values) {
    running r = {.runtime = runtime, .its = its, .way = way, .values = values};
    r.devices = muster_runtime_size(runtime);
    for (int32_t i = 1; i < runtime->size; i++)
        r.mixed |= mst_device_is_host(runtime->devices[i]) != mst_device_is_host(runtime->devices[0]);
    *values = (invariance_values){.items = NULL};
    function_make(&r);
    variables_set(&r, 1, false);
    for (int32_t i = 0; i < way->calls; i++) run_once(&r, i);
    assert_ok(muster_function_destroy(r.function));
    for (int32_t v = 0; v < r.variable_count; v++) assert_ok(muster_variable_destroy(r.variables[v]));
    assert_ok(muster_graph_destroy(r.graph));
    for (int32_t i = 0; i < r.input_count; i++) free(r.memory[i]);
    for (int32_t o = 0; o < r.output_count; o++) free(r.outputs[o].memory);
}
