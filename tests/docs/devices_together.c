/* devices_together.c: the code of docs/devices-together.md. */
#define _POSIX_C_SOURCE 200809L
#include "docs.h"

#include <unistd.h>

enum { ROWS = 3, COLUMNS = 5, N = 7, INPUTS = 64, HIDDEN = 256, TEXT = 64 * 1024 };

static void split(muster_runtime *rt) {
    float start[ROWS][COLUMNS] = {{0}}, other[ROWS][COLUMNS], whole[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) other[i][j] = (float)(10 * i + j);
    /* snippet: split */
    muster_variable *w;
    check(muster_variable_create(rt, "w", muster_f32(start, ROWS, COLUMNS), &w));
    check(muster_variable_split(w, 1)); /* each device has some of the columns */
    check(muster_variable_set_whole(w, muster_f32(other, ROWS, COLUMNS)));
    check(muster_variable_get_whole(w, muster_f32(whole, ROWS, COLUMNS)));
    check(muster_variable_join(w)); /* each device has all columns again */
    /* end of snippet */
    EXPECT(memcmp(whole, other, sizeof whole) == 0);
    memset(whole, 0, sizeof whole);
    check(muster_variable_get(w, muster_runtime_size(rt) - 1, muster_f32(whole, ROWS, COLUMNS)));
    EXPECT(memcmp(whole, other, sizeof whole) == 0);
}

static void initialise(muster_runtime *rt) {
    float values[ROWS][COLUMNS] = {{0}};
    muster_variable *w;
    check(muster_variable_create(rt, "layer", muster_f32(values, ROWS, COLUMNS), &w));
    check(muster_variable_split(w, 0));
    /* snippet: initialise */
    muster_initialiser_options options;
    muster_initialiser_options_init(&options);
    options.kind = MUSTER_INITIALISER_HE_NORMAL;
    options.seed = 1; /* another seed for each variable */
    check(muster_variable_initialise(w, &options));
    /* end of snippet */
    check(muster_variable_get_whole(w, muster_f32(values, ROWS, COLUMNS)));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) EXPECT(values[i][j] != 0);
}

static void read_text(const char *path, char text[TEXT]) {
    FILE *file = fopen(path, "r");
    EXPECT(file);
    text[fread(text, 1, TEXT - 1, file)] = 0;
    EXPECT(fclose(file) == 0);
}

/* On two CPU devices: each line of the page's block is the beginning of a line of the dump, in this
 * order. */
static void compare_with_page(muster_runtime *rt, const char *title, const char *path) {
    static char page[TEXT], dump[TEXT];
    const char *devices = getenv("MUSTER_DEVICES");
    if (muster_runtime_size(rt) != 2 || (devices && strncmp(devices, "host", 4) != 0)) return;
    read_text(DOCS_FOLDER "/devices-together.md", page);
    read_text(path, dump);
    char *line = strstr(page, title), *at = dump;
    EXPECT(line && (line = strstr(line, "```\n")));
    char *end = strstr(line + 4, "```");
    EXPECT(end);
    *end = 0;
    for (line = strtok(line + 4, "\n"); line; line = strtok(NULL, "\n")) {
        while (at && strncmp(at, line, strlen(line)) != 0)
            at = (at = strchr(at, '\n')) ? at + 1 : NULL;
        if (!at) fprintf(stderr, "%s has no line that begins with: %s\n%s", title, line, dump);
        EXPECT(at);
    }
}

static void network(muster_runtime *rt, int split) {
    static float x[N][INPUTS], t[N], whole[INPUTS][HIDDEN], ones[HIDDEN], trained[INPUTS][HIDDEN];
    muster_variable *w1, *w2;
    float mean = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < INPUTS; k++) x[i][k] = (float)(i + k % 3) / INPUTS;
    for (int i = 0; i < INPUTS * HIDDEN; i++)
        whole[i / HIDDEN][i % HIDDEN] = (float)(i % 7 - 2) / HIDDEN;
    for (int j = 0; j < HIDDEN; j++) ones[j] = 1;
    check(muster_variable_create(rt, "w1", muster_f32(whole, INPUTS, HIDDEN), &w1));
    check(muster_variable_create(rt, "w2", muster_f32(ones, HIDDEN), &w2));
    if (split) {
        /* snippet: cut */
        check(muster_variable_split(w1, 1)); /* columns: each device has some of the units */
        check(muster_variable_split(w2, 0)); /* the rows that these units are multiplied with */
        /* end of snippet */
    }
    const int64_t usual = split ? N : 1000;
    /* snippet: network */
    muster_graph *g;
    muster_function *step;
    muster_graph_options options;
    muster_graph_options_init(&options); /* MUSTER_ONE_DEVICE */
    options.rows = usual;                /* of a call: what is cheapest depends on it */
    check(muster_graph_create(rt, "step", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *p[] = {muster_graph_parameter(g, w1), muster_graph_parameter(g, w2)}, *d[2];
    muster_expr *loss = muster_expr_parse(g, "mean((relu(x @ w1) @ w2 - t) ** 2)");
    (void)muster_gradient(loss, p, 2, d);
    (void)muster_graph_minimise(g, p, d, 2, MUSTER_SGD, NULL);
    (void)muster_graph_output(g, "loss", loss, MUSTER_AUTO);
    check(muster_graph_compile(g, &options, &step));
    check(muster_graph_destroy(g));
    /* end of snippet */
    const muster_tensor in[] = {muster_f32(x, N, INPUTS), muster_f32(t, N)};
    char path[] = "/tmp/muster-dump-XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0 && close(file) == 0);
    /* snippet: dump */
    check(muster_function_call(step, in, 2, (muster_tensor[]){muster_f32(&mean)}, 1, NULL));
    check(muster_graph_dump_function(step, path, MUSTER_DUMP_TEXT));
    /* end of snippet */
    compare_with_page(rt, split ? "two layers cut -->" : "data-parallel -->", path);
    EXPECT(remove(path) == 0);
    check(muster_variable_get_whole(w1, muster_f32(trained, INPUTS, HIDDEN)));
    double loss_here = 0, change[INPUTS] = {0}; /* of the first column, by plain loops */
    for (int i = 0; i < N; i++) {
        double y = 0, first = 0;
        for (int j = 0; j < HIDDEN; j++) {
            double h = 0;
            for (int k = 0; k < INPUTS; k++) h += (double)x[i][k] * (double)whole[k][j];
            if (j == 0) first = h;
            y += h > 0 ? h : 0;
        }
        loss_here += y * y / N;
        for (int k = 0; k < INPUTS && first > 0; k++)
            change[k] += 0.01 * 2 * y * (double)x[i][k] / N;
    }
    EXPECT(mean > 0.999 * loss_here && mean < 1.001 * loss_here);
    for (int k = 0; k < INPUTS; k++) {
        const double expected = (double)whole[k][0] - change[k];
        EXPECT((double)trained[k][0] > expected - 1e-5 && (double)trained[k][0] < expected + 1e-5);
    }
}

static void micro_batches(muster_runtime *rt) {
    float x[N][INPUTS], sum = 0, expected = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < INPUTS; k++) expected += x[i][k] = (float)(i + k);
    muster_graph *g;
    muster_function *step;
    check(muster_graph_create(rt, "sum", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    (void)muster_graph_output(g, "sum", muster_expr_parse(g, "sum(x)"), MUSTER_AUTO);
    /* snippet: parts */
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.micro_batches = 4; /* of the rows of each device */
    check(muster_graph_compile(g, &options, &step));
    /* end of snippet */
    check(muster_graph_destroy(g));
    check(muster_function_call(step, (muster_tensor[]){muster_f32(x, N, INPUTS)}, 1,
                               (muster_tensor[]){muster_f32(&sum)}, 1, NULL));
    EXPECT(sum > expected - 0.5f && sum < expected + 0.5f); /* whole numbers */
}

int main(void) {
    muster_runtime *rt = docs_open();
    micro_batches(rt);
    network(rt, 0);
    check(muster_runtime_close(rt));
    rt = docs_open();
    network(rt, 1);
    split(rt);
    initialise(rt);
    check(muster_runtime_close(rt));
    return 0;
}
