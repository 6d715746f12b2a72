/* Prints docs/operations.md from the registry, or with --names the names of the operations. */
#include "op_impl.h"

#include <stdio.h>
#include <string.h>

/* "a (m, k)"; what any shape has: "x" and "x, repeated". */
static void print_operand(const mst_operand *operand) {
    printf("%s", operand->name);
    if (strcmp(operand->dims, "~") == 0)
        printf(" (repeats)");
    else if (!strpbrk(operand->dims, "*?")) {
        printf(" (");
        for (const char *d = operand->dims; *d; d++) printf("%s%c", d == operand->dims ? "" : ", ", *d);
        printf(")");
    }
    char text[128];
    if (operand->dtypes && operand->dtypes != MST_ALL_DTYPES) printf(" %s", mst_dtypes_text(text, operand->dtypes));
    if (operand->dtypes == MST_ALL_DTYPES) printf(" of any dtype");
    if (operand->use & MST_OPTIONAL) printf(", may be no tensor");
}

static void print_operands(const mst_op_row *o, bool results) {
    const char *between = "";
    for (const mst_operand *operand = o->operands; operand->name; operand++)
        if (mst_operand_is_result(operand) == results) {
            printf("%s", between);
            print_operand(operand);
            if ((operand->use & MST_IN_OUT) == MST_IN_OUT) printf(", read too");
            between = "; ";
        }
}

static void print_attributes(const mst_op_row *o) {
    for (const mst_attribute *a = o->attributes; a->name; a++) {
        printf("%s%s", a == o->attributes ? "" : "; ", a->name);
        for (int i = 1; a->choices && a->choices[i]; i++) printf("%s%s", i == 1 ? ": " : ", ", a->choices[i]);
    }
}

static void print_errors(const mst_op_row *o) {
    const char *between = "";
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        if (o->error[dtype] > 0) {
            printf("%s%s %g", between, muster_dtype_name(dtype), o->error[dtype]);
            between = ", ";
        }
    if (!*between) printf("exact");
}

static const char *dtypes_name(char text[128], uint32_t dtypes) {
    if (dtypes == MST_ALL_DTYPES) return "all";
    return dtypes == MST_NUMBER_DTYPES ? "all but bool" : mst_dtypes_text(text, dtypes);
}

static void print_row(const mst_op_row *o) {
    char text[128];
    printf("| `%s` | ", o->function);
    print_operands(o, false);
    printf(" | ");
    print_operands(o, true);
    printf(" | ");
    print_attributes(o);
    printf(" | %s", dtypes_name(text, o->dtypes));
    if (o->code_dtypes) printf("; on GPUs %s", dtypes_name(text, o->code_dtypes));
    printf(" | ");
    print_errors(o);
    printf(" | ");
    for (int32_t i = 0; i < o->code_count; i++) printf("%s`%s`", i ? ", " : "", o->code[i].name);
    printf(" |\n");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--names") == 0) {
        for (int32_t i = 0; i < MST_OPERATIONS; i++) printf("%s\n", mst_operations[i]->name);
        return 0;
    }
    printf("# Operations\n\n"
           "What a worker computes (`muster/ops.h`). Printed from the registry (`lib/ops/operations.def`) by "
           "`build/debug/tests/ops/ops_operations_table`;\n"
           "the test `ops/table` compares. Equal letters are equal sizes; an operand without sizes has any shape, the same as the others;\n"
           "`repeats`: its shape broadcasts. Largest error: of |result - exact| / (1 + |exact|).\n\n"
           "| function | reads | writes | attributes | dtypes | largest error | device kernels |\n|---|---|---|---|---|---|---|\n");
    for (int32_t i = 0; i < MST_OPERATIONS; i++) print_row(mst_operations[i]);
    return 0;
}
