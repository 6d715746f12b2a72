/* Expressions of operations along an axis: rows at every place of arrays of 1, 2 and 3 axes, and
 * the operation along each of them. */
#include "graph_axis_rows.h"

#include "graph_fixture.h"
#include "graph_private.h"

#include <string.h>

/* How the attribute says the axis: as a number, as a list, or as the entry that differs in a list
 * with one for each axis. */
typedef enum axis_form { NO_AXIS, AXIS, AXES, ENTRY } axis_form;

/* Operands are patterns: x is the array, k the same with 5 elements along the axis, a one axis of
 * the size that x has along it, s the axes of x from it on; other letters as in operator_row. */
typedef struct axis_spec {
    const char *operation, *operands[OPERATOR_OPERANDS];
    const char *attribute;
    axis_form form;
    bool fixed;          /* the axis must have a size that no call gives */
    bool sizes;          /* `size_of` is the size of x along the axis */
    int64_t entry, rest; /* of ENTRY */
    const char *size_of; /* one attribute more */
    muster_attribute more[3];
} axis_spec;

#define ALONG(...) \
    { .operation = __VA_ARGS__ }
static const axis_spec specs[] = {
    ALONG("sum", {"x"}, "axis", AXES),
    ALONG("mean", {"x"}, "axis", AXES),
    ALONG("max", {"x"}, "axis", AXES),
    ALONG("min", {"nx"}, "axis", AXES),
    ALONG("prod", {"x"}, "axis", AXES),
    ALONG("any", {"bx"}, "axis", AXES),
    ALONG("all", {"bx"}, "axis", AXES),
    ALONG("var", {"x"}, "axis", AXES),
    ALONG("std", {"x"}, "axis", AXES),
    ALONG("norm", {"x"}, "axis", AXES),
    ALONG("softmax", {"x"}, "axis", AXES),
    ALONG("log_softmax", {"x"}, "axis", AXES),
    ALONG("logsumexp", {"x"}, "axis", AXES),
    ALONG("mean_squared_error", {"x", "x"}, "axis", AXES),
    ALONG("flip", {"x"}, "axis", AXES),
    ALONG("argmax", {"x"}, "axis", AXIS),
    ALONG("argmin", {"x"}, "axis", AXIS),
    ALONG("cumsum", {"x"}, "axis", AXIS),
    ALONG("layer_norm", {"x", "s", "s"}, "axis", AXIS, .more = {NUMBER("epsilon", 0.5)}),
    ALONG("rms_norm", {"x", "s"}, "axis", AXIS),
    ALONG("expand_dims", {"x"}, "axis", AXIS),
    ALONG("stack", {"x", "x"}, "axis", AXIS),
    ALONG("swapaxes", {"x"}, "axis1", AXIS, .more = {INTEGER("axis2", -1)}),
    ALONG("moveaxis", {"x"}, "source", AXES, .more = {ENTRIES("destination", 0)}),
    ALONG("cumprod", {"x"}, "axis", AXIS),
    ALONG("sort", {"x"}, "axis", AXES),
    ALONG("sort", {"x"}, "axis", AXES, .more = {INTEGER("descending", 1)}),
    ALONG("argsort", {"x"}, "axis", AXES),
    ALONG("argsort", {"x"}, "axis", AXES, .more = {INTEGER("descending", 1)}),
    ALONG("argmax", {"x"}, "axis", AXIS, .more = {INTEGER("keepdims", 1)}),
    ALONG("top_k", {"x"}, .more = {ENTRIES("k", 1)}),
    ALONG("take", {"x", "p5"}, "axis", AXIS),
    ALONG("take", {"x", "pR"}, "axis", AXIS),
    ALONG("scatter_add", {"x", "qa"}, "axis", AXIS, .size_of = "rows"),
    ALONG("scatter_add", {"x", "pa"}, "axis", AXIS, .size_of = "rows", .sizes = true),
    ALONG("take_along_axis", {"x", "px"}, "axis", AXIS),
    ALONG("take_along_axis", {"x", "pk"}, "axis", AXIS),
    ALONG("add_along_axis", {"x", "px"}, "axis", AXIS, .size_of = "size", .sizes = true),
    ALONG("add_along_axis", {"x", "qx"}, "axis", AXIS, .size_of = "size"),
    ALONG("concatenate", {"x", "k"}, "axis", AXIS, .fixed = true),
    ALONG("split", {"x"}, "axis", AXIS, .fixed = true, .more = {INTEGER("sections", 3), INTEGER("index", 1)}),
    ALONG("repeat", {"x"}, "axis", AXIS, .more = {INTEGER("repeats", 2)}),
    ALONG("tile", {"x"}, "reps", ENTRY, .entry = 2, .rest = 1),
    ALONG("pad", {"x"}, "before", ENTRY, .fixed = true, .entry = 2),
    ALONG("slice", {"x"}, "start", ENTRY, .fixed = true, .entry = 1, .rest = MUSTER_NONE),
    ALONG("slice", {"x"}, "step", ENTRY, .entry = -1, .rest = 1),
};
enum { SPECS = sizeof specs / sizeof *specs, SHAPES = 6, AXES_OF_SHAPES = 14, SHAPE_TEXT = 8 };

typedef struct axis_memory {
    operator_row row;
    char texts[OPERATOR_OPERANDS][SHAPE_TEXT];
    int64_t lists[2][MUSTER_MAX_DIMS];
} axis_memory;

static void operand_of(const char *pattern, const char *shape, int32_t axis, char *text) {
    for (; *pattern; pattern++) {
        if (!strchr("xkas", *pattern)) {
            *text++ = *pattern;
            continue;
        }
        const char *from = *pattern == 'a' || *pattern == 's' ? shape + axis : shape;
        const size_t count = *pattern == 'a' ? 1 : strlen(from);
        memcpy(text, from, count);
        if (*pattern == 'k') text[axis] = '5';
        text += count;
    }
    *text = 0;
}

static muster_attribute axis_attribute(const axis_spec *spec, int32_t ndim, int32_t axis, bool negative, int64_t *list) {
    muster_attribute made = {.name = spec->attribute, .integer = negative ? axis - ndim : axis};
    if (spec->form == AXIS) return made;
    made.integer = 0;
    made.integers = list;
    made.count = spec->form == AXES ? 1 : ndim;
    for (int32_t d = 0; d < made.count; d++)
        list[d] = spec->form == AXES ? (negative ? axis - ndim : axis) : d == axis ? spec->entry : spec->rest;
    return made;
}

/* false: the operation has no such axis. */
static bool row_make(const axis_spec *spec, const char *shape, int32_t axis, bool negative, axis_memory *made) {
    const int32_t ndim = (int32_t)strlen(shape);
    int32_t count = 0;
    if (spec->fixed && shape[axis] == 'R') return false;
    if (spec->form == NO_AXIS && axis != ndim - 1) return false;
    *made = (axis_memory){.row = {.operation = spec->operation, .axis = axis}};
    for (int32_t i = 0; i < OPERATOR_OPERANDS && spec->operands[i]; i++) {
        operand_of(spec->operands[i], shape, axis, made->texts[i]);
        made->row.shapes[i] = made->texts[i];
    }
    if (spec->form != NO_AXIS) made->row.attributes[count++] = axis_attribute(spec, ndim, axis, negative, made->lists[0]);
    if (spec->size_of) {
        made->lists[1][0] = !spec->sizes ? OPERATOR_PLACES : shape[axis] == 'R' ? MUSTER_ROWS : shape[axis] - '0';
        made->row.attributes[count++] = (muster_attribute){.name = spec->size_of, .integers = made->lists[1], .count = 1};
    }
    for (int32_t m = 0; m < 3 && spec->more[m].name; m++) made->row.attributes[count++] = spec->more[m];
    return true;
}

const operator_row *operator_axis_row(int32_t i) {
    static const char *const shapes[SHAPES] = {"R", "R6", "6R", "R63", "6R3", "63R"};
    static axis_memory rows[SPECS * AXES_OF_SHAPES];
    static int32_t count;
    if (count == 0)
        for (int32_t s = 0; s < SPECS; s++)
            for (int32_t f = 0; f < SHAPES; f++)
                for (int32_t axis = 0; shapes[f][axis]; axis++)
                    count += row_make(&specs[s], shapes[f], axis, (s + f + axis) % 2, &rows[count]);
    return i < count ? &rows[i].row : NULL;
}

muster_expr *operator_places(muster_expr *uniform, muster_expr *x, int32_t axis) {
    muster_expr *n = x ? mst_extent(x, 1u << axis, MUSTER_F64) : mst_number(uniform->graph, MUSTER_F64, OPERATOR_PLACES);
    return muster_expr_parse(uniform->graph->handle, "cast(floor(absolute(u) * n), i64)", "u", uniform, "n", n);
}
