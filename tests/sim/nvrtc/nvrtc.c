/* The simulated NVRTC. Built-in kernels (MST_KERNEL) it does not compile: the "cubin" names those
 * that it finds in the texts, and those texts that the machine's own kernels were made of, each
 * with a hash of what was handed in, by which the driver tells whether it has the same. Any other
 * program is the user's, and is compiled (compile.c). */
#include "nvrtc_impl.h"

#include <stdlib.h>
#include <string.h>

SIM_EXPORT extern int muster_simulated;
int muster_simulated = 1;

#define NVRTC_DECLARE(result, name, arguments) SIM_EXPORT result name arguments;
MST_NVRTC_SYMBOLS(NVRTC_DECLARE)
#define NVRTC_INDEX(result, name, arguments) INDEX_##name,
enum { MST_NVRTC_SYMBOLS(NVRTC_INDEX) NVRTC_SYMBOL_COUNT };
#define NVRTC_SYMBOL(result, symbol, arguments) {.name = #symbol},
static sim_symbol symbols[NVRTC_SYMBOL_COUNT] = {MST_NVRTC_SYMBOLS(NVRTC_SYMBOL)};
static const int codes[] = {MST_NVRTC_OUT_OF_MEMORY, MST_NVRTC_COMPILATION, MST_NVRTC_BUILTIN_OPERATION_FAILURE, MST_NVRTC_INTERNAL_ERROR};

__attribute__((constructor)) static void add_symbols(void) {
    sim_symbols_add("nvrtc", symbols, NVRTC_SYMBOL_COUNT, codes, sizeof codes / sizeof *codes);
}

#define NVRTC_ENTER(symbol)                                           \
    do {                                                              \
        unsigned injected_ = sim_enter(&symbols[INDEX_##symbol], -1); \
        if (injected_) return injected_;                              \
    } while (0)

#define PROGRAM_MAGIC 0x4d535452u

static bool is_program(mst_nvrtc_program program) { return program && program->magic == PROGRAM_MAGIC; }

/* ---- versions and names ---- */
enum { MAJOR = 13, MINOR = 0 };
static const int architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

mst_nvrtc_result nvrtcVersion(int *major, int *minor) {
    NVRTC_ENTER(nvrtcVersion);
    if (!major || !minor) return MST_NVRTC_INVALID_INPUT;
    *major = MAJOR;
    *minor = MINOR;
    return MST_NVRTC_SUCCESS;
}

mst_nvrtc_result nvrtcGetNumSupportedArchs(int *count) {
    NVRTC_ENTER(nvrtcGetNumSupportedArchs);
    if (!count) return MST_NVRTC_INVALID_INPUT;
    *count = ARCHITECTURES;
    return MST_NVRTC_SUCCESS;
}

mst_nvrtc_result nvrtcGetSupportedArchs(int *supported) {
    NVRTC_ENTER(nvrtcGetSupportedArchs);
    if (!supported) return MST_NVRTC_INVALID_INPUT;
    memcpy(supported, architectures, sizeof architectures);
    return MST_NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(mst_nvrtc_result result) {
    static const char *const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                                        "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
                                        "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
                                        "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
                                        "NVRTC_ERROR_INTERNAL_ERROR"};
    sim_count(&symbols[INDEX_nvrtcGetErrorString]);
    return result < sizeof names / sizeof *names ? names[result] : "NVRTC_ERROR unknown";
}

/* ---- programs ---- */
static void destroy(mst_nvrtc_program program) {
    for (int i = 0; i < program->unit_count; i++) {
        free(program->units[i].name);
        free(program->units[i].text);
    }
    free(program->units);
    free(program->cubin);
    free(program->ptx);
    free(program->log);
    program->magic = 0;
    free(program);
}

static bool add_unit(mst_nvrtc_program program, const char *name, const char *text) {
    unit *added = &program->units[program->unit_count++];
    added->name = strdup(name);
    added->text = strdup(text);
    return added->name && added->text;
}

mst_nvrtc_result nvrtcCreateProgram(mst_nvrtc_program *program, const char *text, const char *name, int header_count,
                                    const char *const *headers, const char *const *include_names) {
    NVRTC_ENTER(nvrtcCreateProgram);
    if (!program) return MST_NVRTC_INVALID_PROGRAM;
    if (!text || header_count < 0 || (header_count && (!headers || !include_names))) return MST_NVRTC_INVALID_INPUT;
    mst_nvrtc_program made = calloc(1, sizeof *made);
    if (!made) return MST_NVRTC_OUT_OF_MEMORY;
    made->magic = PROGRAM_MAGIC;
    made->units = calloc((size_t)header_count + 1, sizeof *made->units);
    made->log = strdup("");
    bool whole = made->units && made->log && add_unit(made, name ? name : "default_program", text);
    for (int i = 0; whole && i < header_count; i++) whole = add_unit(made, include_names[i], headers[i]);
    if (!whole) {
        destroy(made);
        return MST_NVRTC_OUT_OF_MEMORY;
    }
    sim_handle_made("NVRTC programs", -1);
    *program = made;
    return MST_NVRTC_SUCCESS;
}

mst_nvrtc_result nvrtcDestroyProgram(mst_nvrtc_program *program) {
    unsigned injected = sim_enter(&symbols[INDEX_nvrtcDestroyProgram], -1);
    if (!program || !is_program(*program)) return MST_NVRTC_INVALID_PROGRAM;
    destroy(*program);
    *program = NULL;
    sim_handle_gone("NVRTC programs", -1);
    return injected;
}

/* ---- "compilation" ---- */
static mst_nvrtc_result fail(mst_nvrtc_program program, mst_nvrtc_result result, const char *log) {
    free(program->log);
    program->log = strdup(log);
    return result;
}

/* A real compiler refuses brackets that do not match; so does this one. The function is not
 * compiled for sanitizers: under them its loop over characters would take longer than the rest of a
 * test. */
__attribute__((no_sanitize("thread"), no_sanitize("address"))) static bool brackets_match(const char *text) {
    int depth[3] = {0};
    for (; *text; text++) {
        if (text[0] == '/' && text[1] == '/') text += strcspn(text, "\n");
        if (text[0] == '/' && text[1] == '*') {
            const char *end = strstr(text + 2, "*/");
            if (!end) return false;
            text = end + 1;
            continue;
        }
        if (*text == '"' || (*text == '\'' && text[1] && (text[2] == '\'' || text[1] == '\\'))) {
            char quote = *text++;
            while (*text && *text != quote) text += *text == '\\' && text[1] ? 2 : 1;
        }
        if (!*text) break;
        static const char open[] = "({[", closed[] = ")}]";
        for (int i = 0; i < 3; i++) depth[i] += (*text == open[i]) - (*text == closed[i]);
    }
    return !depth[0] && !depth[1] && !depth[2];
}

typedef struct options {
    int architecture;
    bool real; /* sm_, else compute_ */
} options;

static bool is_known(const char *option) {
    static const char *const known[] = {"--std=",
                                        "--gpu-architecture=",
                                        "-arch=",
                                        "--fmad=",
                                        "--use_fast_math",
                                        "--device-as-default-execution-space",
                                        "-default-device",
                                        "--ptxas-options",
                                        "--maxrregcount=",
                                        "--ftz=",
                                        "--prec-div=",
                                        "--prec-sqrt=",
                                        "-lineinfo",
                                        "--generate-line-info",
                                        "-D",
                                        "-I",
                                        "-w",
                                        "--diag-suppress="};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(option, known[i], strlen(known[i])) == 0) return true;
    return false;
}

static bool read_architecture(const char *option, options *read) {
    const char *value = strncmp(option, "--gpu-architecture=", 19) == 0 ? option + 19
                        : strncmp(option, "-arch=", 6) == 0             ? option + 6
                                                                        : NULL;
    if (!value) return true;
    read->real = strncmp(value, "sm_", 3) == 0;
    if (!read->real && strncmp(value, "compute_", 8) != 0) return false;
    char *end;
    read->architecture = (int)strtol(value + (read->real ? 3 : 8), &end, 10);
    for (int i = 0; i < ARCHITECTURES; i++)
        if (architectures[i] == read->architecture) return *end == 0 || strcmp(end, "a") == 0 || strcmp(end, "f") == 0;
    return false;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

enum { NAMES_MAX = 4096 };
/* The names of MST_KERNEL( at the beginning of lines; malloced. -1: out of memory, or too many. */
static int find_kernels(mst_nvrtc_program program, char **names) {
    int count = 0;
    for (int i = 0; i < program->unit_count; i++) {
        /* line by line: a sanitizer reads all that is left of a text for each search in it */
        for (const char *at = program->units[i].text; at; at = strchr(at, '\n')) {
            at += *at == '\n';
            if (strncmp(at, "MST_KERNEL(", strlen("MST_KERNEL(")) != 0) continue;
            const char *name = at + strlen("MST_KERNEL(");
            if (count == NAMES_MAX) return -1;
            names[count] = strndup(name, strcspn(name, " ,)\n"));
            if (!names[count++]) return -1;
        }
    }
    qsort(names, (size_t)count, sizeof *names, compare_names);
    return count;
}

static void write_text(FILE *out, const sim_text *ours, const char *text) {
    fprintf(out, "text %s %016llx\n", ours->name, (unsigned long long)sim_text_hash(text));
}

/* Ours by name, whatever is in it; or those of ours that are in it as they are. */
static void write_texts(FILE *out, const unit *given) {
    const sim_text *ours;
    for (int i = 0; (ours = sim_text_at(i)) != NULL; i++)
        if (strcmp(ours->name, given->name) == 0) return write_text(out, ours, given->text);
    for (int i = 0; (ours = sim_text_at(i)) != NULL; i++)
        if (strstr(given->text, ours->text)) write_text(out, ours, ours->text);
}

/* names: of the kernels, each a line "kernel NAME" (user NULL: these are all there is); user: the
 * compiled object, a line too. */
static char *write_image(mst_nvrtc_program program, int architecture, const char *names, const char *user) {
    char *image = NULL;
    size_t bytes;
    FILE *out = open_memstream(&image, &bytes);
    if (!out) return NULL;
    fprintf(out, "%sarchitecture %d\n", SIM_IMAGE_HEAD, architecture);
    for (int i = 0; !user && i < program->unit_count; i++) write_texts(out, &program->units[i]);
    fprintf(out, "%s%send\n", names, user ? user : "");
    if (fclose(out) == 0) return image;
    free(image);
    return NULL;
}

static mst_nvrtc_result write_images(mst_nvrtc_program program, const options *wanted, const char *names, const char *user) {
    program->cubin = wanted->real ? write_image(program, wanted->architecture, names, user) : NULL;
    program->ptx = write_image(program, wanted->architecture, names, user);
    return !program->ptx || (wanted->real && !program->cubin) ? MST_NVRTC_OUT_OF_MEMORY : MST_NVRTC_SUCCESS;
}

static mst_nvrtc_result compile_built_in(mst_nvrtc_program program, const options *wanted, char *const *names, int count) {
    char *lines = NULL;
    size_t bytes;
    for (int i = 0; i < program->unit_count; i++)
        if (!brackets_match(program->units[i].text))
            return fail(program, MST_NVRTC_COMPILATION, "default_program(1): error: expected a closing bracket\n");
    FILE *out = open_memstream(&lines, &bytes);
    if (!out) return MST_NVRTC_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++) {
        sim_compile(names[i]);
        fprintf(out, "kernel %s\n", names[i]);
    }
    mst_nvrtc_result result = fclose(out) == 0 ? write_images(program, wanted, lines, NULL) : MST_NVRTC_OUT_OF_MEMORY;
    free(lines);
    return result;
}

static mst_nvrtc_result compile_user(mst_nvrtc_program program, const options *wanted, int option_count, const char *const *option) {
    char *names = NULL, *line = NULL, *log = NULL;
    mst_nvrtc_result result = nvrtc_compile_user(program, wanted->architecture, option_count, option, &names, &line, &log);
    if (log) {
        free(program->log);
        program->log = log;
    }
    if (result == MST_NVRTC_SUCCESS) result = write_images(program, wanted, names, line);
    free(names);
    free(line);
    return result;
}

static void forget_result(mst_nvrtc_program program) {
    free(program->cubin);
    free(program->ptx);
    program->cubin = program->ptx = NULL;
}

static mst_nvrtc_result compile(mst_nvrtc_program program, const options *wanted, int option_count, const char *const *option) {
    char **names = calloc(NAMES_MAX, sizeof *names);
    int count = names ? find_kernels(program, names) : -1;
    mst_nvrtc_result result = count < 0   ? MST_NVRTC_OUT_OF_MEMORY
                              : count > 0 ? compile_built_in(program, wanted, names, count)
                                          : compile_user(program, wanted, option_count, option);
    for (int i = 0; names && i < NAMES_MAX; i++) free(names[i]);
    free(names);
    return result;
}

mst_nvrtc_result nvrtcCompileProgram(mst_nvrtc_program program, int option_count, const char *const *option) {
    NVRTC_ENTER(nvrtcCompileProgram);
    if (!is_program(program)) return MST_NVRTC_INVALID_PROGRAM;
    options wanted = {.architecture = 75};
    forget_result(program);
    for (int i = 0; i < option_count; i++) {
        if (!is_known(option[i])) return fail(program, MST_NVRTC_INVALID_OPTION, "nvrtc: error: unrecognized option found\n");
        if (!read_architecture(option[i], &wanted))
            return fail(program, MST_NVRTC_INVALID_OPTION, "nvrtc: error: invalid value for --gpu-architecture (-arch)\n");
        i += strcmp(option[i], "-D") == 0 || strcmp(option[i], "-I") == 0; /* what follows belongs to it */
    }
    return compile(program, &wanted, option_count, option);
}

/* ---- results: sizes count the 0 at the end, but for a cubin's ---- */
static mst_nvrtc_result get_size(mst_nvrtc_program program, const char *text, size_t end, size_t *bytes) {
    if (!is_program(program)) return MST_NVRTC_INVALID_PROGRAM;
    if (!bytes) return MST_NVRTC_INVALID_INPUT;
    *bytes = text ? strlen(text) + end : 0;
    return MST_NVRTC_SUCCESS;
}

static mst_nvrtc_result get_text(mst_nvrtc_program program, const char *text, size_t end, char *to) {
    if (!is_program(program)) return MST_NVRTC_INVALID_PROGRAM;
    if (!to || !text) return MST_NVRTC_INVALID_INPUT;
    memcpy(to, text, strlen(text) + end);
    return MST_NVRTC_SUCCESS;
}

#define CHECKED(program, member) (is_program(program) ? (program)->member : NULL)

mst_nvrtc_result nvrtcGetCUBINSize(mst_nvrtc_program program, size_t *bytes) {
    NVRTC_ENTER(nvrtcGetCUBINSize);
    return get_size(program, CHECKED(program, cubin), 0, bytes);
}

mst_nvrtc_result nvrtcGetCUBIN(mst_nvrtc_program program, char *cubin) {
    NVRTC_ENTER(nvrtcGetCUBIN);
    return get_text(program, CHECKED(program, cubin), 0, cubin);
}

mst_nvrtc_result nvrtcGetPTXSize(mst_nvrtc_program program, size_t *bytes) {
    NVRTC_ENTER(nvrtcGetPTXSize);
    return get_size(program, CHECKED(program, ptx), 1, bytes);
}

mst_nvrtc_result nvrtcGetPTX(mst_nvrtc_program program, char *ptx) {
    NVRTC_ENTER(nvrtcGetPTX);
    return get_text(program, CHECKED(program, ptx), 1, ptx);
}

mst_nvrtc_result nvrtcGetProgramLogSize(mst_nvrtc_program program, size_t *bytes) {
    NVRTC_ENTER(nvrtcGetProgramLogSize);
    return get_size(program, CHECKED(program, log), 1, bytes);
}

mst_nvrtc_result nvrtcGetProgramLog(mst_nvrtc_program program, char *log) {
    NVRTC_ENTER(nvrtcGetProgramLog);
    return get_text(program, CHECKED(program, log), 1, log);
}
