/* Initial values: every worker draws its part of the whole value on its CPU. */
#include "change_private.h"
#include "initialise_private.h"
#include "options_impl.h"

#include <math.h>

void muster_initialiser_options_init_sized(muster_initialiser_options *options, size_t size) { mst_options_init(options, size); }

typedef struct initialisation {
    mst_change change; /* must be the first member */
    muster_initialiser_options options;
    mst_draw draw;
    int64_t shape[MUSTER_MAX_DIMS]; /* of the whole value */
} initialisation;

/* ---- options ---- */

static bool needs_fans(muster_initialiser kind) { return kind >= MUSTER_INITIALISER_GLOROT_UNIFORM; }

static muster_status check_number(const char *where, const char *what, double number, bool good, const char *expected) {
    if (isfinite(number) && good) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected %s, received %g", where, what, expected, number);
}

/* Sets the defaults of numbers. */
static muster_status read_options(const char *where, const muster_initialiser_options *given, muster_initialiser_options *o) {
    MUSTER_TRY(mst_options_read(where, "muster_initialiser_options", given, o, sizeof *o));
    if (o->kind < 0 || o->kind > MUSTER_INITIALISER_ORTHOGONAL)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: kind: expected a muster_initialiser, received %d", where, (int)o->kind);
    if (o->reserved != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: reserved: expected 0, received %d", where, (int)o->reserved);
    const bool normal = o->kind == MUSTER_INITIALISER_NORMAL || o->kind == MUSTER_INITIALISER_TRUNCATED_NORMAL;
    if (o->kind == MUSTER_INITIALISER_UNIFORM) {
        if (o->low == 0 && o->high == 0) o->high = 1;
        MUSTER_TRY(check_number(where, "low", o->low, true, "a finite number"));
        MUSTER_TRY(check_number(where, "high", o->high, o->high >= o->low && isfinite(o->high - o->low),
                                "a finite number that is not below low, at a finite distance"));
    }
    if (normal) MUSTER_TRY(check_number(where, "mean", o->mean, true, "a finite number"));
    if (normal) MUSTER_TRY(check_number(where, "deviation", o->deviation, true, "a finite number"));
    if (needs_fans(o->kind)) MUSTER_TRY(check_number(where, "gain", o->gain, o->gain >= 0, "a finite number that is not negative"));
    o->deviation = o->deviation == 0 ? 1 : o->deviation < 0 ? 0 : o->deviation;
    if (o->gain == 0) o->gain = 1;
    return MUSTER_OK;
}

static muster_status check_variable(const initialisation *made) {
    const muster_variable *variable = made->change.variables[0];
    const char *where = made->change.where;
    const bool is_float = mst_dtype_is_float(variable->dtype);
    if (made->options.kind != MUSTER_INITIALISER_CONSTANT && !is_float)
        return mst_error(MUSTER_UNSUPPORTED, "%s: variable '%.100s': expected a float dtype for random numbers, received %s", where,
                         variable->object.name, muster_dtype_name(variable->dtype));
    if (needs_fans(made->options.kind) && variable->ndim < 2)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: variable '%.100s': expected at least 2 dimensions for this kind, received %d", where,
                         variable->object.name, variable->ndim);
    return mst_variable_split_axis(variable) < 0 ? mst_change_check_equal_shapes(&made->change, 0) : MUSTER_OK;
}

/* ---- the numbers of layers ---- */

static muster_status check_axis(const initialisation *made, const char *what, int32_t axis) {
    const muster_variable *variable = made->change.variables[0];
    if (axis >= 0 && axis < variable->ndim) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: options: %s: variable '%.100s': expected 0 to %d, received %d", made->change.where, what,
                     variable->object.name, variable->ndim - 1, axis);
}

static muster_status find_fans(const initialisation *made, double *in, double *out) {
    const int32_t ndim = made->change.variables[0]->ndim;
    const bool given = made->options.in_axis != 0 || made->options.out_axis != 0;
    const int32_t in_axis = given ? made->options.in_axis : ndim > 2, out_axis = given ? made->options.out_axis : ndim == 2;
    double others = 1;
    MUSTER_TRY(check_axis(made, "in_axis", in_axis));
    MUSTER_TRY(check_axis(made, "out_axis", out_axis));
    if (in_axis == out_axis)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: out_axis: expected another axis than in_axis, received %d for both",
                         made->change.where, out_axis);
    for (int32_t d = 0; d < ndim; d++)
        if (d != in_axis && d != out_axis) others *= (double)made->shape[d];
    *in = others * (double)made->shape[in_axis];
    *out = others * (double)made->shape[out_axis];
    return MUSTER_OK;
}

static muster_status choose_layer(initialisation *made) {
    const muster_initialiser kind = made->options.kind;
    const bool glorot = kind == MUSTER_INITIALISER_GLOROT_UNIFORM || kind == MUSTER_INITIALISER_GLOROT_NORMAL;
    double in, out;
    MUSTER_TRY(find_fans(made, &in, &out));
    const double fans = glorot ? (in + out) / 2 : in;
    if (fans == 0) return MUSTER_OK; /* no elements */
    if (kind == MUSTER_INITIALISER_GLOROT_UNIFORM || kind == MUSTER_INITIALISER_HE_UNIFORM) {
        made->draw.kind = MST_DRAW_UNIFORM;
        made->draw.b = made->options.gain * sqrt((glorot ? 3 : 6) / fans);
        made->draw.a = -made->draw.b;
    } else {
        made->draw.kind = MST_DRAW_NORMAL;
        made->draw.b = made->options.gain * sqrt((glorot ? 1 : 2) / fans);
    }
    return MUSTER_OK;
}

static muster_status choose_numbers(initialisation *made) {
    const muster_initialiser_options *o = &made->options;
    const muster_tensor all = muster_tensor_make(MUSTER_F64, NULL, made->change.variables[0]->ndim, made->shape);
    made->draw = (mst_draw){.dtype = made->change.variables[0]->dtype, .seed = o->seed};
    switch (o->kind) {
    case MUSTER_INITIALISER_CONSTANT:
        made->draw.a = o->value;
        return MUSTER_OK;
    case MUSTER_INITIALISER_UNIFORM:
        made->draw.kind = MST_DRAW_UNIFORM;
        made->draw.a = o->low;
        made->draw.b = o->high;
        return MUSTER_OK;
    case MUSTER_INITIALISER_NORMAL:
    case MUSTER_INITIALISER_TRUNCATED_NORMAL:
        made->draw.kind = o->kind == MUSTER_INITIALISER_NORMAL ? MST_DRAW_NORMAL : MST_DRAW_TRUNCATED;
        made->draw.a = o->mean;
        made->draw.b = o->deviation;
        return MUSTER_OK;
    case MUSTER_INITIALISER_ORTHOGONAL:
        made->draw.kind = MST_DRAW_TABLE;
        return mst_draw_orthogonal(&made->draw, made->change.where, made->shape[0],
                                   made->shape[0] ? muster_tensor_count(all) / made->shape[0] : 0, o->gain);
    default:
        return choose_layer(made);
    }
}

/* ---- drawing ---- */

/* A part is a piece of the whole value in each position of the axes before the split one. */
static void draw_part(const initialisation *made, int32_t rank, char *to) {
    const muster_variable *variable = made->change.variables[0];
    const int32_t axis = mst_variable_split_axis(variable) < 0 ? 0 : mst_variable_split_axis(variable);
    const bool split = mst_variable_split_axis(variable) >= 0;
    int64_t outer = 1, inner = 1;
    for (int32_t d = 0; d < axis; d++) outer *= made->shape[d];
    for (int32_t d = axis + 1; d < variable->ndim; d++) inner *= made->shape[d];
    const int64_t size = variable->ndim ? made->shape[axis] : 1, begin = split ? mst_edge(size, made->change.size, rank) : 0;
    const int64_t count = (split ? mst_edge_rows(size, made->change.size, rank) : size) * inner;
    for (int64_t o = 0; o < outer && count > 0; o++)
        mst_draw_fill(&made->draw, (o * size + begin) * inner, count, to + o * count * muster_dtype_size(variable->dtype));
}

static muster_status initialise_one(mst_change *change, muster_worker *worker, int32_t index) {
    const initialisation *made = (const initialisation *)change;
    const mst_replica *replica = &change->variables[index]->everywhere[mst_worker_public_rank(worker)];
    mst_device *device = worker->device;
    const int64_t bytes = mst_replica_bytes(change->variables[index], replica);
    if (bytes == 0) return MUSTER_OK;
    MUSTER_TRY(mst_worker_drain(worker));
    void *to =
        mst_device_is_host(device) ? replica->address : change->temporary[mst_change_at(change, index, mst_worker_public_rank(worker))];
    draw_part(made, mst_worker_public_rank(worker), to);
    return to == replica->address ? MUSTER_OK : device->memory->copy_in(device, replica->address, to, bytes);
}

static muster_status initialise_run(initialisation *made) {
    mst_change *change = &made->change;
    const muster_variable *variable = change->variables[0];
    MUSTER_TRY(check_variable(made));
    mst_variable_whole_shape(variable, made->shape);
    MUSTER_TRY(choose_numbers(made));
    for (int32_t r = 0; r < change->size; r++)
        if (mst_change_packs(change, r)) mst_change_temporary(change, 0, r, mst_replica_bytes(variable, &variable->everywhere[r]));
    change->work = initialise_one;
    MUSTER_TRY(mst_change_run(change, false));
    mst_change_note_defined(change);
    return MUSTER_OK;
}

muster_status muster_variable_initialise(muster_variable *variable, const muster_initialiser_options *options) {
    static const char where[] = "muster_variable_initialise";
    initialisation made = {0};
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_change_begin_split(&made.change, where, &variable, 1));
    const muster_status read = read_options(where, options, &made.options);
    if (read) return mst_change_end(&made.change, read);
    mst_change_salt(&made.change, &made.options, sizeof made.options);
    const muster_status status = initialise_run(&made);
    mst_free(made.draw.table);
    return mst_change_end(&made.change, status);
}
