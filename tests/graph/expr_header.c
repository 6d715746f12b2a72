/* Prints include/muster/expr.h from the table of operations, or with --table the table of
 * docs/expressions.md, or with --layers the part of it in docs/models.md. */
#include "graph_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool public_operation(const mst_operator *op) { return !(op->flags & MST_OPERATOR_HIDDEN); }

/* An attribute without which the operation means nothing, or whose default is not 0, is an
 * argument; the others are fields of a struct. */
static bool is_argument(const mst_attribute_row *attribute) {
    return attribute->required || attribute->number != 0 || attribute->kind == MST_VALUE_NUMBER;
}

static bool has_options(const mst_operator *op) {
    bool found = false;
    for (int32_t a = 0; op->attributes[a].name; a++) found |= !is_argument(&op->attributes[a]);
    return found;
}

static bool is_list(const mst_attribute_row *attribute) { return attribute->kind == MST_VALUE_LIST || attribute->kind == MST_VALUE_DIMS; }

/* ---- the header ---- */

static void print_options(const mst_operator *op) {
    if (!has_options(op)) return;
    printf("typedef struct muster_%s_attributes {\n    int32_t reserved; /* 0; set by the macro in C */\n", op->name);
    for (int32_t a = 0; op->attributes[a].name; a++) {
        const mst_attribute_row *attribute = &op->attributes[a];
        if (is_argument(attribute)) continue;
        if (is_list(attribute))
            printf("    int32_t %s_count;\n    const int64_t *%s;\n", attribute->name, attribute->name);
        else
            printf("    int64_t %s;\n", attribute->name);
    }
    printf("} muster_%s_attributes;\n", op->name);
}

static void print_parameters(const mst_operator *op, int32_t operands, bool more) {
    if (operands == 0) printf(", muster_graph *graph");
    for (int32_t i = 0; i < operands; i++)
        printf(more && i == operands - 1 ? ", muster_expr *const *%s, int32_t count" : ", muster_expr *%s", op->operands[i]);
    for (int32_t a = 0; op->attributes[a].name; a++) {
        const mst_attribute_row *attribute = &op->attributes[a];
        if (!is_argument(attribute)) continue;
        switch (attribute->kind) {
        case MST_VALUE_NUMBER:
            printf(", double %s", attribute->name);
            break;
        case MST_VALUE_DTYPE:
            printf(", muster_dtype %s", attribute->name);
            break;
        case MST_VALUE_INTEGER:
            printf(", int64_t %s", attribute->name);
            break;
        case MST_VALUE_TEXT:
            printf(", const char *%s", attribute->name);
            break;
        default:
            printf(", int32_t %s_count, const int64_t *%s", attribute->name, attribute->name);
            break;
        }
    }
    if (has_options(op)) printf(", muster_%s_attributes attributes", op->name);
}

/* The lists among the fields, in their order: bit l + 1 of `reserved` is that of list l. */
static int32_t list_bit(const mst_operator *op, int32_t attribute) {
    int32_t bit = 1;
    for (int32_t a = 0; a <= attribute; a++) bit += !is_argument(&op->attributes[a]) && is_list(&op->attributes[a]);
    return bit - 1;
}

static bool is_first_field(const mst_operator *op, int32_t attribute) {
    for (int32_t a = 0; a < attribute; a++)
        if (!is_argument(&op->attributes[a])) return false;
    return true;
}

/* `.padding = 1`, `.axis = 0` or an array without its count would else be taken as no list. An
 * argument has its count beside it, so that 0 is meant there: the shape of a scalar. */
static void print_list(const mst_operator *op, int32_t a, const char *from) {
    const mst_attribute_row *attribute = &op->attributes[a];
    const char *name = attribute->name;
    printf("    list[%d].integers = %s%s;\n    list[%d].count = ", (int)a, from, name, (int)a);
    if (!is_argument(attribute))
        printf("muster_list_count_(attributes.reserved, %d, attributes.%s, attributes.%s_count);\n",
               1 << list_bit(op, a) | is_first_field(op, a), name, name);
    else
        printf("%s_count;\n", name);
}

static void print_values(const mst_operator *op) {
    if (!op->attributes[0].name) return;
    printf("    muster_attribute list[%d];\n    memset(list, 0, sizeof list);\n", (int)mst_operator_attribute_count(op) + 1);
    for (int32_t a = 0; op->attributes[a].name; a++) {
        const mst_attribute_row *attribute = &op->attributes[a];
        const char *from = is_argument(attribute) ? "" : "attributes.";
        static const char *const kinds[] = {"", "NUMBER", "INTEGER", "DTYPE", "LIST", "SIZES", "TEXT"};
        printf("    list[%d].name = \"%s\";\n    list[%d].kind = MUSTER_ATTRIBUTE_%s;\n", (int)a, attribute->name, (int)a,
               kinds[attribute->kind]);
        if (is_list(attribute))
            print_list(op, a, from);
        else
            printf("    list[%d].%s = %s%s;\n", (int)a,
                   attribute->kind == MST_VALUE_NUMBER ? "number"
                   : attribute->kind == MST_VALUE_TEXT ? "text"
                                                       : "integer",
                   from, attribute->name);
    }
}

/* A comment of lines of at most 100 columns. */
static void print_comment(const char *text) {
    enum { COLUMNS = 100 };
    int32_t column = printf("/*");
    for (const char *word = text; *word;) {
        const size_t length = strcspn(word, " ");
        const bool last = !word[length];
        if (column + 1 + (int32_t)length + (last ? 3 : 0) > COLUMNS) {
            printf("\n *");
            column = 2;
        }
        column += printf(" %.*s", (int)length, word);
        word += length + !last;
    }
    printf(" */\n");
}

static void print_function(const mst_operator *op) {
    bool more;
    char comment[600];
    const int32_t operands = mst_operator_operand_count(op, &more);
    const bool none = !op->gradient && op->no_gradient;
    snprintf(comment, sizeof comment, "%s: %s.%s%s%s", op->name, op->brief, none ? " No gradient: " : "", none ? op->no_gradient : "",
             none ? "." : "");
    print_comment(comment);
    print_options(op);
    printf("static inline muster_expr *muster_expr_%s_at(const char *where", op->name);
    print_parameters(op, operands, more);
    printf(") {\n    muster_expr *result;\n");
    print_values(op);
    if (operands > 1 || (operands == 1 && !more)) {
        printf("    muster_expr *inputs[%d];\n", (int)operands);
        for (int32_t i = 0; i < operands; i++) printf("    inputs[%d] = %s;\n", (int)i, op->operands[i]);
    }
    const char *first = operands ? op->operands[0] : "graph";
    char given[120];
    snprintf(given, sizeof given, "%d", (int)operands);
    if (op->optional) { /* up to the last one that is given: a NULL before it is refused by name */
        int32_t length = 0;
        for (int32_t i = operands - 1; i >= operands - op->optional; i--)
            length += snprintf(given + length, sizeof given - (size_t)length, "%s ? %d : ", op->operands[i], (int)i + 1);
        snprintf(given + length, sizeof given - (size_t)length, "%d", (int)(operands - op->optional));
    }
    if (operands == 0)
        printf("    (void)muster_expr_apply(graph, \"%s\", MUSTER_NOTHING_, 0, ", op->name);
    else if (more)
        printf("    (void)muster_expr_apply(count > 0 ? muster_expr_graph(%s[0]) : MUSTER_NOTHING_, \"%s\", %s, count, ", first, op->name,
               first);
    else
        printf("    (void)muster_expr_apply(muster_expr_graph(%s), \"%s\", inputs, %s, ", first, op->name, given);
    printf("%s, where, &result);\n    return result;\n}\n", op->attributes[0].name ? "list" : "MUSTER_NOTHING_");
    if (!has_options(op)) {
        printf("#define muster_expr_%s(...) muster_expr_%s_at(MUSTER_HERE, __VA_ARGS__)\n\n", op->name, op->name);
        return;
    }
    /* the arguments before the attributes, then a comma that ends the attributes */
    printf("#ifndef __cplusplus\n#define muster_expr_%s(...) muster_expr_%s_(__VA_ARGS__, )\n#define muster_expr_%s_(", op->name, op->name,
           op->name);
    int32_t fixed = operands + (more || operands == 0 ? 1 : 0); /* with the number of operands, or the graph */
    for (int32_t a = 0; op->attributes[a].name; a++)
        if (is_argument(&op->attributes[a])) fixed += is_list(&op->attributes[a]) ? 2 : 1;
    for (int32_t i = 0; i < fixed; i++) printf("a%d, ", (int)i);
    printf("...) \\\n    muster_expr_%s_at(MUSTER_HERE, ", op->name);
    for (int32_t i = 0; i < fixed; i++) printf("a%d, ", (int)i);
    char lists[200] = "";
    for (int32_t a = 0; op->attributes[a].name; a++)
        if (!is_argument(&op->attributes[a]) && is_list(&op->attributes[a]))
            snprintf(lists + strlen(lists), sizeof lists - strlen(lists), ".%s ", op->attributes[a].name);
    printf("(muster_%s_attributes){", op->name);
    printf(*lists ? ".reserved = muster_fields_(\"%s\", #__VA_ARGS__), __VA_ARGS__})\n#endif\n\n" : "0, __VA_ARGS__})\n#endif\n\n", lists);
}

/* A field that is set to 0 holds what a field that is left out holds: only the text of the call
 * tells them apart. */
static void print_fields_check(void) {
    printf("/* The count of a list, or INT32_MIN: an address without a count, or a number in place of a list,\n"
           " * which the library refuses. `bits` are those of muster_fields_ that say so of this list. */\n"
           "static inline int32_t muster_list_count_(int32_t reserved, int32_t bits, const int64_t *list, int32_t count) {\n"
           "    return list ? (count ? count : INT32_MIN) : (reserved & bits) ? INT32_MIN : count;\n"
           "}\n"
           "#ifndef __cplusplus\n"
           "/* Which fields a call gives, read from their text. Bit 0: the first value has no name. Bit l + 1:\n"
           " * the call names list l of `lists` (\".stride .padding \") without its count, and not with a null\n"
           " * pointer that is written as one. Text in brackets does not count. */\n"
           "static inline int32_t muster_fields_(const char *lists, const char *text) {\n"
           "    const char first = text[strspn(text, \" \")];\n"
           "    int32_t found = first && first != '.' && first != ',';\n"
           "    for (int32_t bit = 2; *lists; bit *= 2, lists += strcspn(lists, \" \") + 1) {\n"
           "        const size_t length = strcspn(lists, \" \");\n"
           "        int32_t depth = 0, alone = 0;\n"
           "        for (const char *at = text; *at; at++) {\n"
           "            depth += (*at == '(' || *at == '{' || *at == '[') - (*at == ')' || *at == '}' || *at == ']');\n"
           "            if (depth || *at != '.' || strncmp(at, lists, length)) continue;\n"
           "            const char *value = at + length + strspn(at + length, \" \");\n"
           "            if (!strncmp(at + length, \"_count\", 6) && strchr(\" =\", at[length + 6])) {\n"
           "                alone = 0;\n"
           "                break;\n"
           "            }\n"
           "            if (*value != '=') continue;\n"
           "            value += 1 + strspn(value + 1, \" (\");\n"
           "            alone = strncmp(value, \"void\", 4) && strncmp(value, \"nullptr\", 7) && strncmp(value, \"NULL\", 4);\n"
           "        }\n"
           "        if (alone) found |= bit;\n"
           "    }\n"
           "    return found;\n"
           "}\n"
           "#endif\n\n");
}

static void print_header(void) {
    printf("/* muster/expr.h: a function for each operation of expressions (muster/graph.h), with NumPy's words.\n"
           " * Printed from the library's table of operations; a test compares.\n"
           " *\n"
           " *     muster_expr *h = muster_expr_relu(muster_expr_matmul(x, w));\n"
           " *     muster_expr *loss = muster_expr_mean(h, MUSTER_LIST(axis, 0), .keepdims = 1);\n"
           " *\n"
           " * The operands come first, NULL for one that is missing, with all behind it; then the attributes\n"
           " * that the operation must have, every floating-point one, and integers whose default is not 0\n"
           " * (MUSTER_NONE: the axis of argmin is not given). The others follow as fields, in any order or not\n"
           " * at all: a number by its name, a list by MUSTER_LIST(name, ...). A list of sizes is\n"
           " * MUSTER_SHAPE(...). A list of one entry is a list, too: `.axis = 0` compiles, since C takes the 0\n"
           " * for a null pointer, and the call is refused, as muster_expr_sum(x, 0) is.\n"
           " * C++ calls the functions whose names end in _at, with a struct that holds the fields, in which\n"
           " * {} leaves out all, and {0} does not mean axis 0:\n"
           " *\n"
           " *     const int64_t rows[] = {0};\n"
           " *     muster_mean_attributes by_row = {};\n"
           " *     by_row.axis = rows, by_row.axis_count = 1;\n"
           " *     muster_expr *loss = muster_expr_mean_at(MUSTER_HERE, h, by_row);\n"
           " *\n"
           " * or muster_expr_parse(graph, \"mean(h, axis=0)\", \"h\", h), which is the same in both languages.\n"
           " * Each function is muster_expr_apply with its name; errors and threads are those of\n"
           " * muster_expr_apply. */\n"
           "#ifndef MUSTER_EXPR_H\n#define MUSTER_EXPR_H\n\n#include \"muster/graph.h\"\n\n#include <string.h>\n\n"
           "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
           "/* NULL, where C++ programs may turn on warnings of it. */\n"
           "#ifdef __cplusplus\n#define MUSTER_NOTHING_ nullptr\n#else\n#define MUSTER_NOTHING_ NULL\n#endif\n"
           "/* clang-format off */\n"
           "/* A field that is a list: MUSTER_LIST(axis, 0, 1). */\n"
           "#define MUSTER_LIST(name, ...) \\\n"
           "    .name##_count = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .name = (const "
           "int64_t[]){__VA_ARGS__}\n\n");
    print_fields_check();
    for (int32_t id = 0; id < MST_OPERATORS; id++)
        if (public_operation(mst_operators[id])) print_function(mst_operators[id]);
    printf("/* clang-format on */\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- the table ---- */

static void print_row(const mst_operator *op) {
    bool more;
    const int32_t operands = mst_operator_operand_count(op, &more);
    char text[128];
    printf("| `%s(", op->name);
    for (int32_t i = 0; i < operands; i++) printf("%s%s", i ? ", " : "", op->operands[i]);
    if (more) printf(", ...");
    for (int32_t a = 0; op->attributes[a].name; a++) {
        const mst_attribute_row *attribute = &op->attributes[a];
        printf("%s%s%s%s", operands || a ? ", " : "", attribute->name, is_argument(attribute) && attribute->required ? "" : "=",
               is_list(attribute) ? "[]" : "");
        if (!attribute->required && !is_list(attribute) && attribute->number != 0 && fabs(attribute->number) < 1e9)
            printf("%g", attribute->number);
    }
    printf(")` | %s | %s | ", op->brief,
           op->dtypes == 0                   ? ""
           : op->dtypes == MST_ALL_DTYPES    ? "all"
           : op->dtypes == MST_NUMBER_DTYPES ? "all but bool"
                                             : mst_dtypes_text(text, op->dtypes));
    printf("%s |\n", op->gradient || !op->no_gradient ? "yes" : op->no_gradient);
}

/* chosen NULL: all. */
static void print_table(bool (*chosen)(const mst_operator *op)) {
    printf("| operation | result | dtypes | gradient |\n|---|---|---|---|\n");
    for (int32_t id = 0; id < MST_OPERATORS; id++)
        if (public_operation(mst_operators[id]) && (!chosen || chosen(mst_operators[id]))) print_row(mst_operators[id]);
}

/* The operations of which the layers of docs/models.md are made. */
static bool is_of_layers(const mst_operator *op) {
    static const char *const names[] = {"relu",
                                        "gelu",
                                        "dropout",
                                        "matmul",
                                        "convolution",
                                        "convolution_transpose",
                                        "max_pool",
                                        "average_pool",
                                        "l2_pool",
                                        "global_max_pool",
                                        "global_average_pool",
                                        "attention",
                                        "rnn",
                                        "lstm",
                                        "gru",
                                        "layer_norm",
                                        "rms_norm",
                                        "group_norm",
                                        "instance_norm",
                                        "local_response_norm",
                                        "batch_norm",
                                        "batch_norm_mean",
                                        "batch_norm_variance",
                                        "take",
                                        "embedding",
                                        "softmax_cross_entropy",
                                        "cross_entropy",
                                        "sigmoid_cross_entropy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--table") == 0)
        print_table(NULL);
    else if (argc > 1 && strcmp(argv[1], "--layers") == 0)
        print_table(is_of_layers);
    else
        print_header();
    return 0;
}
