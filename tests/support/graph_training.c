#include "graph_training.h"

#include "muster/rule.h"

enum { W, V };

const char *const training_way_names[TRAINING_WAYS] = {"plain", "clipped", "split", "eager", "micro-batches", "eager with micro-batches"};

static void parameters_make(training *t, muster_graph *g, training_way way, muster_expr **p) {
    double w[TRAINING_IN * TRAINING_HIDDEN], v[TRAINING_HIDDEN * TRAINING_OUT];
    for (int i = 0; i < TRAINING_IN * TRAINING_HIDDEN; i++) w[i] = (double)((i * 37 + 11) % 101 - 50) / 100;
    for (int i = 0; i < TRAINING_HIDDEN * TRAINING_OUT; i++) v[i] = (double)((i * 29 + 3) % 83 - 41) / 90;
    assert_ok(muster_variable_create(t->runtime, "w", muster_f64(w, TRAINING_IN, TRAINING_HIDDEN), &t->parameters[W]));
    assert_ok(muster_variable_create(t->runtime, "v", muster_f64(v, TRAINING_HIDDEN, TRAINING_OUT), &t->parameters[V]));
    for (int i = 0; i < TRAINING_PARAMETERS; i++) p[i] = muster_graph_parameter(g, t->parameters[i]);
    if (way == SPLIT) assert_ok(muster_graph_split(p[W], 1));
    if (way == SPLIT) assert_ok(muster_graph_split(p[V], 0));
}

void training_open(training *t, muster_runtime *runtime, training_way way) {
    muster_graph *g;
    muster_expr *p[TRAINING_PARAMETERS], *d[TRAINING_PARAMETERS];
    muster_rule_options how;
    muster_graph_options options;
    t->runtime = runtime;
    assert_ok(muster_graph_create(t->runtime, "training", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, TRAINING_IN), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, TRAINING_OUT), MUSTER_SCATTER);
    parameters_make(t, g, way, p);
    muster_expr *loss = muster_expr_parse(g, "mean((tanh(x @ w) @ v - t) ** 2)");
    assert_ok(muster_gradient(loss, p, TRAINING_PARAMETERS, d));
    muster_rule_options_init(&how);
    how.clip_norm = way == CLIPPED ? 0.05 : 0;
    assert_ok(muster_graph_minimise(g, p, d, TRAINING_PARAMETERS, MUSTER_ADAM, &how));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.eager_updates = way == EAGER || way == EAGER_MICRO;
    options.bucket_bytes = options.eager_updates ? 256 : 0;
    options.micro_batches = way == MICRO || way == EAGER_MICRO ? 3 : 0;
    assert_ok(muster_graph_compile(g, &options, &t->function));
    assert_ok(muster_graph_destroy(g));
    for (int i = 0; i < TRAINING_ROWS * TRAINING_IN; i++) t->x[i] = (double)((i * 31 + 7) % 97 - 48) / 40;
    for (int i = 0; i < TRAINING_ROWS * TRAINING_OUT; i++) t->t[i] = (double)((i * 13 + 5) % 23 - 11) / 20;
}

muster_status training_step(training *t) {
    double loss;
    const muster_tensor in[] = {muster_f64(t->x, TRAINING_ROWS, TRAINING_IN), muster_f64(t->t, TRAINING_ROWS, TRAINING_OUT)},
                        out = muster_f64(&loss);
    return muster_function_call(t->function, in, 2, &out, 1, NULL);
}

void training_read(const training *t, training_values *all) {
    assert_ok(muster_variable_get_whole(t->parameters[W], muster_f64(all->w, TRAINING_IN, TRAINING_HIDDEN)));
    assert_ok(muster_variable_get_whole(t->parameters[V], muster_f64(all->v, TRAINING_HIDDEN, TRAINING_OUT)));
}
