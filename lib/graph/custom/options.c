/* Reading the description of an operator. */
#include "custom_private.h"

#include <string.h>

static const char where[] = "muster_operator_create";

/* ---- names ---- */

static bool name_is_plain(const char *name) {
    const char *at = name;
    for (; *at; at++) {
        const bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
        if (!letter && (at == name || *at < '0' || *at > '9')) return false;
    }
    return at > name && at - name < 60;
}

static bool name_is_word(const char *name) {
    static const char *const words[] = {"True", "False", "None", "newaxis", "rows"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0) return true;
    for (muster_dtype d = MUSTER_DTYPE_NONE + 1; d < MST_DTYPE_COUNT; d++)
        if (strcmp(name, muster_dtype_name(d)) == 0) return true;
    return false;
}

static bool name_is_built_in(const char *name) {
    for (int32_t i = 0; i < MST_OPERATORS; i++)
        if (strcmp(mst_operators[i]->name, name) == 0) return true;
    return false;
}

static muster_status name_check(const char *what, const char *name) {
    if (name_is_plain(name) && !name_is_word(name)) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected a name of at most 59 letters, digits and \"_\", which is no word of texts, received \"%.60s\"",
                     where, what, name);
}

/* The copy of the first text that fails is NULL, and so are all after it. */
static const char *text_copy(mst_custom *custom, const char *text, bool *good) {
    const char *copy = text && *good ? mst_arena_text(&custom->memory, text) : NULL;
    *good = *good && (!text || copy);
    return copy;
}

/* ---- operands and attributes ---- */

static muster_status operands_read(mst_custom *custom, const char *const *operands, bool *good) {
    int32_t count = 0;
    for (; operands && operands[count]; count++) {
        const bool more = strcmp(operands[count], "...") == 0;
        if (count == MUSTER_OPERATOR_OPERANDS_MAX && !more)
            return mst_error(MUSTER_OUT_OF_RANGE, "%s: operands: expected at most %d, received more", where, MUSTER_OPERATOR_OPERANDS_MAX);
        if (more && (count == 0 || operands[count + 1]))
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: operands: expected \"...\" behind the last name, received it elsewhere", where);
        if (!more) MUSTER_TRY(name_check("operands", operands[count]));
        for (int32_t i = 0; i < count; i++)
            if (strcmp(operands[i], operands[count]) == 0)
                return mst_error(MUSTER_INVALID_ARGUMENT, "%s: operands: expected each name once, received \"%.60s\" twice", where,
                                 operands[count]);
        custom->row.operands[count] = text_copy(custom, operands[count], good);
        if (more) return MUSTER_OK;
    }
    return MUSTER_OK;
}

static muster_status attribute_check(const mst_custom *custom, int32_t a, const muster_operator_attribute *given) {
    if (a == MUSTER_OPERATOR_ATTRIBUTES_MAX)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: attributes: expected at most %d, received more", where, MUSTER_OPERATOR_ATTRIBUTES_MAX);
    MUSTER_TRY(name_check("attributes", given->name));
    for (int32_t i = 0; custom->row.operands[i]; i++)
        if (strcmp(custom->row.operands[i], given->name) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: attributes: expected names that no operand has, received \"%s\"", where,
                             given->name);
    for (int32_t i = 0; i < a; i++)
        if (strcmp(custom->row.attributes[i].name, given->name) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: attributes: expected each name once, received \"%s\" twice", where, given->name);
    if (given->kind < MUSTER_ATTRIBUTE_NUMBER || given->kind > MUSTER_ATTRIBUTE_TEXT)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: attributes: \"%s\": kind: expected a kind of attribute, received %d", where,
                         given->name, (int)given->kind);
    return MUSTER_OK;
}

static muster_status attributes_read(mst_custom *custom, const muster_operator_attribute *given, bool *good) {
    static const mst_value_kind kinds[] = {[MUSTER_ATTRIBUTE_NUMBER] = MST_VALUE_NUMBER, [MUSTER_ATTRIBUTE_INTEGER] = MST_VALUE_INTEGER,
                                           [MUSTER_ATTRIBUTE_DTYPE] = MST_VALUE_DTYPE,   [MUSTER_ATTRIBUTE_LIST] = MST_VALUE_LIST,
                                           [MUSTER_ATTRIBUTE_SIZES] = MST_VALUE_DIMS,    [MUSTER_ATTRIBUTE_TEXT] = MST_VALUE_TEXT};
    for (int32_t a = 0; given && given[a].name; a++) {
        MUSTER_TRY(attribute_check(custom, a, &given[a]));
        custom->row.attributes[a] = (mst_attribute_row){.name = text_copy(custom, given[a].name, good),
                                                        .kind = kinds[given[a].kind],
                                                        .required = given[a].required != 0,
                                                        .number = given[a].number};
        if (!*good) return MUSTER_OK;
    }
    return MUSTER_OK;
}

/* ---- parts ---- */

static muster_status parts_refuse(const char *part, const char *expected) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %s", where, part, expected);
}

static muster_status text_parts_check(const mst_custom *custom, const muster_operator_options *o) {
    bool more;
    const int32_t operands = mst_operator_operand_count(&custom->row, &more);
    if (o->rule || o->body_count || o->bodies || o->prepare || o->release || o->gradient || o->no_gradient || o->view || o->in_place ||
        o->kernels || o->launch || o->host_operands || o->strided_operands || o->distribution || o->results > 1)
        return parts_refuse("text", "no other parts beside a text, received some");
    if (operands == 0 || more) return parts_refuse("operands", "1 or more names without \"...\" beside a text, received others");
    for (int32_t a = 0; custom->row.attributes[a].name; a++)
        if (custom->row.attributes[a].kind != MST_VALUE_NUMBER && custom->row.attributes[a].kind != MST_VALUE_INTEGER)
            return parts_refuse("attributes", "numbers and integers beside a text, received another kind");
    return MUSTER_OK;
}

static muster_status bodies_check(const muster_operator_options *o) {
    if (o->body_count < 0 || (o->body_count > 0 && !o->bodies))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bodies: expected %d bodies, received %s", where, (int)o->body_count,
                         o->bodies ? "a negative number" : "NULL");
    for (int32_t i = 0; i < o->body_count; i++)
        if (!o->bodies[i].body)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bodies[%d]: expected a function, received NULL", where, (int)i);
    if (o->launch && !o->kernels) return parts_refuse("launch", "kernels beside it, received none");
    if (!o->body_count && !o->launch) return parts_refuse("bodies", "a text, a body or a launch, received none of them");
    return MUSTER_OK;
}

/* Dtypes are for operators whose result follows operand 0; a rule and a text say their own. */
static muster_status dtypes_check(const muster_operator_options *o) {
    if (o->dtypes && (o->rule || o->text))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtypes: expected 0 beside a rule or a text, received 0x%x", where,
                         (unsigned)o->dtypes);
    if (o->dtypes & ~(uint32_t)MST_ALL_DTYPES)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtypes: expected MUSTER_DTYPE_BIT(dtype) of dtypes, received 0x%x", where,
                         (unsigned)o->dtypes);
    return MUSTER_OK;
}

static uint32_t dtypes_of(const muster_operator_options *o) {
    enum { USUAL = MST_DTYPE_BIT(MUSTER_F32) | MST_DTYPE_BIT(MUSTER_F64) };
    const uint32_t halves = o->halves ? MST_DTYPE_BIT(MUSTER_F16) | MST_DTYPE_BIT(MUSTER_BF16) : 0;
    if (o->rule || o->text) return 0;
    return (o->dtypes ? o->dtypes : USUAL) | halves;
}

static muster_status parts_check(const mst_custom *custom, const muster_operator_options *o) {
    bool more;
    const int32_t operands = mst_operator_operand_count(&custom->row, &more);
    const uint32_t mask = more ? UINT32_MAX : (1u << operands) - 1;
    MUSTER_TRY(bodies_check(o));
    if (o->distribution < MUSTER_OPERATOR_NEEDS_ALL || o->distribution > MUSTER_OPERATOR_ROWWISE)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: distribution: expected a muster_operator_distribution, received %d", where,
                         (int)o->distribution);
    if (o->results < 0 || o->results > MUSTER_OPERATOR_RESULTS_MAX)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: results: expected 0 to %d, received %d", where, MUSTER_OPERATOR_RESULTS_MAX,
                         (int)o->results);
    if (!o->rule && (operands == 0 || o->results > 1))
        return parts_refuse("rule", "a function, since result 0 alone can be like operand 0, received NULL");
    if (o->host_operands & ~mask)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: host_operands: expected a mask of %d operands, received 0x%x", where, (int)operands,
                         (unsigned)o->host_operands);
    if (o->strided_operands & ~mask)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: strided_operands: expected a mask of %d operands, received 0x%x", where,
                         (int)operands, (unsigned)o->strided_operands);
    if (o->in_place & ~mask || o->in_place & o->host_operands)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: in_place: expected a mask of operands on the device, received 0x%x", where,
                         (unsigned)o->in_place);
    if (o->release && !o->prepare) return parts_refuse("prepare", "a function, since there is a release, received NULL");
    if (o->view && operands == 0) return parts_refuse("view", "NULL, since there is no operand 0, received a function");
    if (o->gradient && o->no_gradient) return parts_refuse("no_gradient", "NULL beside a gradient, received a text");
    return MUSTER_OK;
}

static bool bodies_copy(mst_custom *custom, const muster_operator_options *o) {
    muster_operator_backend *bodies = mst_arena_take(&custom->memory, (size_t)(o->body_count + 1) * sizeof *bodies);
    bool good = bodies != NULL;
    for (int32_t i = 0; good && i < o->body_count; i++)
        bodies[i] = (muster_operator_backend){text_copy(custom, o->bodies[i].backend, &good), o->bodies[i].body};
    custom->options.bodies = bodies;
    return good;
}

static bool options_copy(mst_custom *custom, const char *name, const muster_operator_options *o) {
    bool good = true;
    custom->options = *o;
    if (o->dtypes & (MST_DTYPE_BIT(MUSTER_F16) | MST_DTYPE_BIT(MUSTER_BF16))) custom->options.halves = 1;
    custom->options.text = text_copy(custom, o->text, &good);
    custom->options.kernels = text_copy(custom, o->kernels, &good);
    custom->options.launch = text_copy(custom, o->launch, &good);
    custom->row.name = text_copy(custom, name, &good);
    custom->row.brief = "an operator of the program";
    custom->row.no_gradient = o->no_gradient ? text_copy(custom, o->no_gradient, &good) : "the operator has none";
    return good && bodies_copy(custom, o);
}

muster_status mst_custom_describe(mst_custom *custom, const char *name, const muster_operator_options *o) {
    bool good = true;
    MUSTER_TRY(name_check("name", name));
    if (name_is_built_in(name))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected one that no operation of the library has, received \"%s\"", where,
                         name);
    MUSTER_TRY(operands_read(custom, o->operands, &good));
    MUSTER_TRY(attributes_read(custom, o->attributes, &good));
    MUSTER_TRY(o->text ? text_parts_check(custom, o) : parts_check(custom, o));
    MUSTER_TRY(dtypes_check(o));
    if (!good || !options_copy(custom, name, o)) return mst_out_of_memory(where, (int64_t)sizeof *custom);
    custom->row.id = MST_OPERATORS;
    custom->row.results = o->results > 1 ? o->results : 1;
    custom->row.in_place = o->in_place;
    custom->row.dtypes = dtypes_of(o);
    custom->row.flags = MST_OPERATOR_ALL_GRADIENTS;
    custom->row.infer = mst_custom_infer;
    custom->row.expand = o->text ? mst_custom_expand : NULL;
    custom->row.run = mst_custom_run;
    custom->row.release = mst_custom_release;
    custom->row.compile = mst_custom_compile;
    custom->row.distribute = o->distribution == MUSTER_OPERATOR_ROWWISE ? mst_custom_distribute : NULL;
    custom->row.view = o->view ? mst_custom_view : NULL;
    custom->row.gradient = o->gradient ? mst_custom_gradient : NULL;
    return o->launch ? mst_custom_launch_read(custom) : MUSTER_OK;
}
