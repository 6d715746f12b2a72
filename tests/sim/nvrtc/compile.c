/* A program of the user's, compiled with the host's C++ compiler in a folder of its own, which is
 * removed afterwards: preprocessed behind the shim of CUDA's builtins, translated, compiled. */
#include "nvrtc_compiler.h"
#include "nvrtc_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FOLDER_MAX = 512, PATH_SIZE = 1024 };

typedef struct job {
    const unit *units;
    int unit_count;
    char folder[FOLDER_MAX];
    char name[PATH_SIZE], input[PATH_SIZE], preprocessed[PATH_SIZE], translated[PATH_SIZE], compiled[PATH_SIZE], object[PATH_SIZE],
        said[PATH_SIZE], include[PATH_SIZE], include_shim[PATH_SIZE];
} job;

/* ---- the folder ---- */
static bool make_folder(job *j) {
    const char *parent = getenv("TMPDIR");
    int length = snprintf(j->folder, sizeof j->folder, "%s/simulated-nvrtc.XXXXXX", parent && *parent ? parent : "/tmp");
    if (length < 0 || (size_t)length >= sizeof j->folder || !mkdtemp(j->folder)) return false;
    snprintf(j->input, sizeof j->input, "%s/.input.cc", j->folder);
    snprintf(j->preprocessed, sizeof j->preprocessed, "%s/.preprocessed.ii", j->folder);
    snprintf(j->translated, sizeof j->translated, "%s/.translated.ii", j->folder);
    snprintf(j->compiled, sizeof j->compiled, "%s/.compiled.o", j->folder);
    snprintf(j->object, sizeof j->object, "%s/.object.so", j->folder);
    snprintf(j->said, sizeof j->said, "%s/.said", j->folder);
    snprintf(j->include, sizeof j->include, "-I%s", j->folder);
    return true;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static bool write_file(const char *path, const char *first, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    bool whole = fputs(first, file) >= 0 && fputs(text, file) >= 0;
    return fclose(file) == 0 && whole;
}

/* NULL: it cannot be read, or out of memory. */
static char *read_file(const char *path, size_t *bytes) {
    char *text = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && (text = malloc((size_t)status.st_size + 1)) != NULL) {
        ssize_t got = read(file, text, (size_t)status.st_size);
        *bytes = got > 0 ? (size_t)got : 0;
        text[*bytes] = 0;
    }
    if (file >= 0) close(file);
    return text;
}

/* "muster/tensor.h" lies in a folder below. A name that leads out of the folder is no file, and so
 * is not found. */
static bool write_include(const job *j, const unit *included) {
    char path[PATH_SIZE];
    if (included->name[0] == '/' || strstr(included->name, "..")) return true;
    int length = snprintf(path, sizeof path, "%s/%s", j->folder, included->name);
    if (length < 0 || (size_t)length >= sizeof path) return false;
    for (char *slash = strchr(path + strlen(j->folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
        *slash = '/';
    }
    return write_file(path, "", included->text);
}

static bool write_texts(job *j) {
    char first[2 * PATH_SIZE] = "#line 1 \"";
    size_t length = strlen(first);
    for (const char *c = j->units[0].name; *c && length < sizeof first - 8; c++) {
        if (*c == '"' || *c == '\\') first[length++] = '\\';
        first[length++] = *c;
    }
    memcpy(first + length, "\"\n", 3);
    snprintf(j->name, sizeof j->name, "%s", j->units[0].name);
    if (!write_file(j->input, first, j->units[0].text)) return false;
    for (int i = 1; i < j->unit_count; i++)
        if (!write_include(j, &j->units[i])) return false;
    return true;
}

/* ---- the compiler ---- */
/* Its exit status, -1: it could not be run. made: the file that it makes. What it says goes to the
 * file `said`. */
static int run(const job *j, const char *const *arguments, const char *made) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) return -1;
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, j->said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int result = posix_spawn(&child, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (result != 0) {
        fprintf(stderr, "simulated NVRTC: %s cannot be run: %s\n", arguments[0], strerror(result));
        return -1;
    }
    while (waitpid(child, &status, 0) < 0) /* somebody ignores SIGCHLD: then the result tells */
        if (errno != EINTR) return access(made, R_OK) == 0 ? 0 : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The options that a preprocessor needs of those of NVRTC. */
static int add_definitions(int count, const char **arguments, char architecture[32], int number, int option_count,
                           const char *const *options) {
    snprintf(architecture, 32, "-D__CUDA_ARCH__=%d", number * 10);
    arguments[count++] = architecture;
    for (int i = 0; i < option_count && count < NVRTC_ARGUMENTS_MAX - 8; i++) {
        bool pair = (strcmp(options[i], "-D") == 0 || strcmp(options[i], "-I") == 0) && i + 1 < option_count;
        if (strncmp(options[i], "-D", 2) == 0 || strncmp(options[i], "-I", 2) == 0) arguments[count++] = options[i];
        if (pair) arguments[count++] = options[++i];
    }
    return count;
}

static int preprocess(job *j, int architecture, int option_count, const char *const *options) {
    char number[32];
    const char *arguments[NVRTC_ARGUMENTS_MAX] = {SIM_COMPILER,
                                                  "-E",
                                                  "-x",
                                                  "c++",
                                                  "-std=gnu++17",
                                                  "-nostdinc",
                                                  "-nostdinc++",
                                                  "-w",
                                                  "-DMST_SIMULATED",
                                                  "-include",
                                                  SIM_SHIM "/mst_program.hh",
                                                  "-include",
                                                  SIM_SHIM "/mst_program_table.hh",
                                                  j->include};
    int count = 0;
    while (arguments[count]) count++;
    count = add_definitions(count, arguments, number, architecture, option_count, options);
    arguments[count++] = "-o";
    arguments[count++] = j->preprocessed;
    arguments[count++] = j->input;
    return run(j, arguments, j->preprocessed);
}

/* SIM_CHECKS: the option by which each access to memory calls the shim first. -Bsymbolic: the shim
 * of this object, not what the program has of the same name (a sanitizer). */
static int compile_translated(job *j) {
    const char *link[] = {SIM_COMPILER, "-shared", "-Wl,-Bsymbolic", "-o", j->object, j->compiled, "-lm", "-s", NULL};
    const char *arguments[] = {SIM_COMPILER,
                               "-x",
                               "c++-cpp-output",
                               "-std=gnu++17",
                               "-O1",
                               "-g0",
                               "-w",
                               "-c",
                               "-fPIC",
                               "-fvisibility=hidden",
                               "-fno-exceptions",
                               "-fno-rtti",
                               "-fno-strict-aliasing",
                               "-fwrapv",
                               "-ffp-contract=off",
                               "-fno-math-errno",
                               "-fno-stack-protector",
                               "-fdiagnostics-color=never",
                               "-fmessage-length=0",
                               SIM_CHECKS "-o",
                               j->compiled,
                               j->translated,
                               NULL};
    int failed = run(j, arguments, j->compiled);
    return failed ? failed : run(j, link, j->object); /* apart: -fsanitize would link a library */
}

/* ---- what it said, as NVRTC says it: FILE(LINE): error: ... ---- */
static const char *kind_of(const char *line, size_t length) {
    static const char *const kinds[] = {": fatal error: ", ": error: ", ": warning: ", ": note: "};
    for (int i = 0; i < 4; i++) {
        const char *found = memmem(line, length, kinds[i], strlen(kinds[i]));
        if (found) return found;
    }
    return NULL;
}

/* FILE:LINE[:COLUMN] before `end`: where LINE begins; NULL: that is not what it is. */
static const char *line_number(const char *line, const char *end, int *digits) {
    const char *numbers[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        const char *at = end;
        while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
        if (at == end || at == line || at[-1] != ':') break;
        numbers[i] = at;
        end = at - 1;
    }
    const char *found = numbers[1] ? numbers[1] : numbers[0];
    *digits = found ? (int)strspn(found, "0123456789") : 0;
    return found;
}

static void put_line(const job *j, const char *line, size_t length, FILE *out, int *errors) {
    size_t folder = strlen(j->folder);
    if (length > folder && strncmp(line, j->folder, folder) == 0 && line[folder] == '/') {
        line += folder + 1;
        length -= folder + 1;
    }
    const char *kind = kind_of(line, length);
    int digits;
    const char *number = kind ? line_number(line, kind, &digits) : NULL;
    if (!number) return; /* "In function ...", "compilation terminated", the linker's command */
    bool fatal = strncmp(kind, ": fatal", 7) == 0;
    *errors += fatal || strncmp(kind, ": error", 7) == 0;
    const char *message = kind + (fatal ? strlen(": fatal") : 1);
    fprintf(out, "%.*s(%.*s):%.*s\n", (int)(number - line - 1), line, digits, number, (int)(line + length - message), message);
}

static char *make_log(const job *j, bool failed) {
    size_t bytes = 0, size;
    char *said = read_file(j->said, &bytes), *log = NULL;
    FILE *out = open_memstream(&log, &size);
    int errors = 0;
    if (!out) {
        free(said);
        return NULL;
    }
    for (const char *line = said; line && *line;) {
        size_t length = strcspn(line, "\n");
        put_line(j, line, length, out, &errors);
        line += length + (line[length] == '\n');
    }
    if (failed && errors == 0) fprintf(out, "%s(1): error: %s\n", j->name, said && *said ? said : "the compiler failed and said nothing");
    if (failed) fprintf(out, "\n%d error%s detected in the compilation of \"%s\".\n", errors ? errors : 1, errors > 1 ? "s" : "", j->name);
    fclose(out);
    free(said);
    return log;
}

/* ---- the result ---- */
static char *object_line(const job *j) {
    static const char digits[] = "0123456789abcdef";
    size_t bytes = 0;
    char *object = read_file(j->object, &bytes), *line = object ? malloc(2 * bytes + 80) : NULL;
    if (line) {
        int length = sprintf(line, "object %zu %016llx ", bytes, (unsigned long long)sim_bytes_hash(object, bytes));
        for (size_t i = 0; i < bytes; i++) {
            line[length++] = digits[(unsigned char)object[i] >> 4];
            line[length++] = digits[(unsigned char)object[i] & 15];
        }
        line[length] = '\n';
        line[length + 1] = 0;
    }
    free(object);
    return line;
}

static bool translate_file(const job *j, char **names) {
    size_t bytes = 0;
    char *text = read_file(j->preprocessed, &bytes), *translated = text ? nvrtc_translate(text, names) : NULL;
    bool written = translated && write_file(j->translated, "", translated);
    free(translated);
    free(text);
    return written;
}

static mst_nvrtc_result build(job *j, int architecture, int option_count, const char *const *options, char **names, char **line,
                              char **log) {
    if (!write_texts(j)) return MST_NVRTC_INTERNAL_ERROR;
    int failed = preprocess(j, architecture, option_count, options);
    if (!failed && !translate_file(j, names)) return MST_NVRTC_OUT_OF_MEMORY;
    if (!failed) failed = compile_translated(j);
    *log = make_log(j, failed != 0);
    if (!*log) return MST_NVRTC_OUT_OF_MEMORY;
    if (failed) return failed > 0 ? MST_NVRTC_COMPILATION : MST_NVRTC_INTERNAL_ERROR;
    *line = object_line(j);
    return *line ? MST_NVRTC_SUCCESS : MST_NVRTC_OUT_OF_MEMORY;
}

mst_nvrtc_result nvrtc_compile_user(mst_nvrtc_program program, int architecture, int option_count, const char *const *options, char **names,
                                    char **line, char **log) {
    job j = {.units = program->units, .unit_count = program->unit_count};
    if (!make_folder(&j)) return MST_NVRTC_INTERNAL_ERROR;
    mst_nvrtc_result result = build(&j, architecture, option_count, options, names, line, log);
    nftw(j.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return result;
}
