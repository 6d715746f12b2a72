/* The table of differences from NumPy in docs/expressions.md: each text is refused, or has the
 * value that the table says. */
#include "docs.h"

#include <math.h>
#include <muster/expr.h>

enum { PAGE = 1 << 18, LINE = 400, ELEMENTS = 64, INPUTS = 8, ROWS = 26 };

static float x[] = {1, 2, 3, 4}, t[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static double d[] = {1, 2};
static int32_t i[] = {1, -2}, j[] = {300, -1};
static uint8_t u[] = {200, 3}, c[] = {1, 0};
static int64_t k[] = {-1};
static const struct {
    const char *name;
    muster_dtype dtype;
    void *data;
    int32_t ndim;
    int64_t shape[3];
} inputs[INPUTS] = {{"x", MUSTER_F32, x, 2, {2, 2}}, {"d", MUSTER_F64, d, 1, {2}},
                    {"i", MUSTER_I32, i, 1, {2}},    {"j", MUSTER_I32, j, 1, {2}},
                    {"u", MUSTER_U8, u, 1, {2}},     {"c", MUSTER_BOOL, c, 1, {2}},
                    {"k", MUSTER_I64, k, 1, {1}},    {"t", MUSTER_F32, t, 3, {2, 2, 2}}};

/* [[1, 2], [3, 4]]; the text behind it is returned. */
static char *print_list(char *to, const double **at, int32_t ndim, const int64_t *shape) {
    if (ndim == 0) return to + sprintf(to, "%.15g", *(*at)++);
    *to++ = '[';
    for (int64_t e = 0; e < shape[0]; e++) {
        if (e) to += sprintf(to, ", ");
        to = print_list(to, at, ndim - 1, shape + 1);
    }
    return to + sprintf(to, "]");
}

/* The value of the text, or "refused". */
static void evaluate(muster_runtime *rt, const char *text, char *value) {
    muster_graph *g;
    muster_function *f;
    muster_tensor in[INPUTS];
    double elements[ELEMENTS];
    const double *at = elements;
    int64_t shape[MUSTER_MAX_DIMS], count = 1;
    strcpy(value, "refused");
    check(muster_graph_create(rt, "differences", &g));
    for (int n = 0; n < INPUTS; n++) {
        in[n] =
            muster_tensor_make(inputs[n].dtype, inputs[n].data, inputs[n].ndim, inputs[n].shape);
        (void)muster_graph_input(g, inputs[n].name, inputs[n].dtype, inputs[n].ndim,
                                 inputs[n].shape, MUSTER_BROADCAST);
    }
    const muster_expr *result = muster_expr_cast(muster_expr_parse(g, text), MUSTER_F64);
    const int32_t ndim = muster_expr_ndim(result);
    for (int32_t a = 0; a < ndim; a++) count *= shape[a] = muster_expr_size(result, a);
    if (ndim >= 0) {
        EXPECT(count <= ELEMENTS);
        (void)muster_graph_output(
            g, "result", muster_expr_cast(muster_expr_parse(g, text), MUSTER_F64), MUSTER_AUTO);
        check(muster_graph_compile(g, NULL, &f));
        const muster_tensor out = muster_tensor_make(MUSTER_F64, elements, ndim, shape);
        if (muster_function_call(f, in, INPUTS, &out, 1, NULL) == MUSTER_OK)
            (void)print_list(value, &at, ndim, shape);
        check(muster_function_destroy(f));
    }
    check(muster_graph_destroy(g));
}

/* | `text` | here | NumPy | */
static int check_row(muster_runtime *rt, const char *line) {
    char text[LINE], here[LINE], value[LINE];
    if (sscanf(line, "| `%399[^`]` | %399[^|]|", text, here) != 2) return 0;
    evaluate(rt, text, value);
    const size_t length = strlen(value);
    const int matches = *here == '`'
                            ? strncmp(here + 1, value, length) == 0 && here[length + 1] == '`'
                            : strcmp(value, "refused") == 0 && strncmp(here, value, length) == 0;
    if (!matches)
        fprintf(stderr, "%s: the page says: %s; received %s (%s)\n", text, here, value,
                muster_last_error());
    EXPECT(matches);
    return 1;
}

int main(void) {
    static char page[PAGE];
    muster_runtime *rt = docs_open();
    FILE *file = fopen(DOCS_FOLDER "/expressions.md", "r");
    EXPECT(file);
    const size_t bytes = fread(page, 1, sizeof page - 1, file);
    EXPECT(bytes > 0 && bytes < sizeof page - 1 && fclose(file) == 0);
    char *line = strstr(page, "\n## Differences from NumPy\n");
    EXPECT(line);
    int rows = 0;
    for (line = strchr(line + 4, '\n') + 1; line && *line && strncmp(line, "## ", 3) != 0;
         line = strchr(line, '\n'), line += line != NULL)
        rows += check_row(rt, line);
    EXPECT(rows == ROWS);
    return muster_runtime_close(rt) != MUSTER_OK;
}
