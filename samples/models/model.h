/* model.h: what the samples of networks share: variables by name, options of the command line, a
 * clock. What they compute, and how they train, stands in the samples themselves. */
#ifndef MODEL_H
#define MODEL_H

#include <string.h>
#include <time.h>

#include "../sample.h"

enum { MODEL_MOST = 256 };

/* A graph that is being written, and its parameters in the order of the network. */
typedef struct model {
    muster_runtime *runtime;
    muster_graph *graph;
    muster_variable *variables[MODEL_MOST];
    muster_expr *parameters[MODEL_MOST], *gradients[MODEL_MOST]; /* parameters: what is trained */
    int32_t count;
    int64_t elements; /* of all parameters */
} model;

static inline model model_open(muster_runtime *runtime, const char *name) {
    model m = {.runtime = runtime};
    CHECK(muster_graph_create(runtime, name, &m.graph));
    return m;
}

/* A function of the graph, which ends. Here the first error of any expression shows up. */
static inline muster_function *model_compile(model *m, const muster_graph_options *options) {
    muster_function *function;
    CHECK(muster_graph_compile(m->graph, options, &function));
    CHECK(muster_graph_destroy(m->graph));
    return function;
}

/* The variable "LAYER.PART" (f32). The first graph that asks for it creates it and gives it its
 * first values; the others, such as that of the evaluation, find it. The shape may hold the size of
 * an expression, which is -1 where the expression failed: the graph's first error comes first. */
static inline muster_variable *model_variable(const model *m, const char *layer, const char *part, muster_initialiser_options initial,
                                              int32_t ndim, const int64_t *shape) {
    char name[64];
    muster_variable *variable;
    const float zero = 0;
    CHECK(muster_graph_status(m->graph));
    snprintf(name, sizeof name, "%s.%s", layer, part);
    if (muster_variable_find(m->runtime, name, &variable) == MUSTER_OK) return variable;
    /* one zero, repeated: the values follow */
    CHECK(muster_variable_create(m->runtime, name, muster_tensor_broadcast(muster_f32(&zero), ndim, shape), &variable));
    initial.seed = 1 + (uint64_t)m->count; /* variables of one seed have the same numbers */
    CHECK(muster_variable_initialise(variable, &initial));
    return variable;
}

/* The same, as a parameter that is trained. */
static inline muster_expr *model_parameter(model *m, const char *layer, const char *part, muster_initialiser_options initial, int32_t ndim,
                                           const int64_t *shape) {
    int64_t elements = 1;
    EXPECT(m->count < MODEL_MOST);
    for (int32_t axis = 0; axis < ndim; axis++) elements *= shape[axis];
    m->elements += elements;
    m->variables[m->count] = model_variable(m, layer, part, initial, ndim, shape);
    m->parameters[m->count] = muster_graph_parameter(m->graph, m->variables[m->count]);
    return m->parameters[m->count++];
}

/* Writes all parameters into a file of f32, to be compared. */
static inline void model_write(const model *m, const char *path) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL);
    for (int32_t i = 0; i < m->count; i++) {
        int64_t shape[MUSTER_MAX_DIMS] = {0}, elements = 1;
        const int32_t ndim = muster_expr_ndim(m->parameters[i]);
        for (int32_t axis = 0; axis < ndim; axis++) elements *= shape[axis] = muster_expr_size(m->parameters[i], axis);
        float *values = malloc((size_t)elements * sizeof *values);
        EXPECT(values != NULL);
        CHECK(muster_variable_get_whole(m->variables[i], muster_tensor_make(MUSTER_F32, values, ndim, shape)));
        EXPECT(fwrite(values, sizeof *values, (size_t)elements, file) == (size_t)elements);
        free(values);
    }
    EXPECT(fclose(file) == 0);
}

/* An option of the command line, "--NAME VALUE": a whole number of at least 1, or a text. */
typedef struct model_option {
    const char *name;
    int64_t *number;
    const char **text;
} model_option;

/* Reads the options. For another one it prints all of them and ends the program with 2. */
static inline void model_options(int argc, char **argv, const model_option *options) {
    for (int i = 1; i < argc; i += 2) {
        const model_option *o = options;
        while (o->name && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, o->name) != 0)) o++;
        char *end = NULL;
        if (o->name && o->number && i + 1 < argc) *o->number = strtoll(argv[i + 1], &end, 10);
        if (o->name && o->text && i + 1 < argc) *o->text = argv[i + 1];
        if (o->name && i + 1 < argc && (!o->number || (*end == '\0' && *o->number >= 1))) continue;
        fprintf(stderr, "%s: unexpected \"%s%s%s\"; the options:\n", argv[0], argv[i], o->name ? " " : "",
                o->name && i + 1 < argc ? argv[i + 1] : "");
        for (o = options; o->name; o++) o->number ? fprintf(stderr, "  --%s NUMBER\n", o->name) : fprintf(stderr, "  --%s TEXT\n", o->name);
        exit(2);
    }
}

/* Numbers from -1 to 1, as synthetic images. */
static inline void model_draw(float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t random[4];
        muster_philox4x32((const uint32_t[]){(uint32_t)i, (uint32_t)(i >> 32), 0, 0}, (const uint32_t[]){2, 0}, random);
        values[i] = (float)random[0] * 0x1p-31f - 1;
    }
}

static inline double model_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
