/* The table of thresholds: the rows of thresholds.def, and those of the user's file. */
#include "thresholds_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THRESHOLD_LINE = 512, THRESHOLD_WORD = 96 };

enum {
#define THRESHOLD_PLACE(name) PLACE_##name,
    MST_THRESHOLD_NAMES(THRESHOLD_PLACE)
#undef THRESHOLD_PLACE
        THRESHOLD_COUNT
};
#define THRESHOLD_NAME(name) #name,
static const char *const names[THRESHOLD_COUNT] = {MST_THRESHOLD_NAMES(THRESHOLD_NAME)};
#undef THRESHOLD_NAME

typedef struct threshold_row {
    int64_t value;
    int32_t place; /* of the name */
    char kind[THRESHOLD_WORD];
} threshold_row;

static const threshold_row rows[] = {
#define MST_THRESHOLD(value, name, kind) {value, PLACE_##name, kind},
#include "thresholds.def"
#undef MST_THRESHOLD
};

/* How exactly a row fits the machine: 0 is not at all. */
enum { FIT_ANY = 1, FIT_CAPABILITY, FIT_MODEL, FIT_OF_A_FILE = 10 };

typedef struct threshold_search {
    char model[64], capability[16];
    mst_thresholds found;
    int32_t fits[THRESHOLD_COUNT];               /* of what was found so far */
    char kinds[THRESHOLD_COUNT][THRESHOLD_WORD]; /* of the rows that gave it */
} threshold_search;

static int64_t *threshold_at(mst_thresholds *thresholds, int32_t place) {
    int64_t *const members[THRESHOLD_COUNT] = {
#define THRESHOLD_ADDRESS(name) &thresholds->name,
        MST_THRESHOLD_NAMES(THRESHOLD_ADDRESS)
#undef THRESHOLD_ADDRESS
    };
    return members[place];
}

/* A later row of the same kind replaces an earlier one. */
static void threshold_take(threshold_search *search, const threshold_row *row, int32_t bonus) {
    const int32_t fit = strcmp(row->kind, "any") == 0                ? FIT_ANY
                        : strcmp(row->kind, search->capability) == 0 ? FIT_CAPABILITY
                        : strcmp(row->kind, search->model) == 0      ? FIT_MODEL
                                                                     : 0;
    if (fit == 0 || fit + bonus < search->fits[row->place]) return;
    search->fits[row->place] = fit + bonus;
    snprintf(search->kinds[row->place], THRESHOLD_WORD, "%s", row->kind);
    *threshold_at(&search->found, row->place) = row->value;
}

/* ---- the user's file ---- */

static bool threshold_parse_value(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool threshold_parse_name(const char *text, int32_t *place) {
    for (*place = 0; *place < THRESHOLD_COUNT; ++*place)
        if (strcmp(names[*place], text) == 0) return true;
    return false;
}

/* Is there nothing in the line but spaces and a comment? */
static bool threshold_is_blank(const char *line) {
    line += strspn(line, " \t\r\n");
    return !*line || strncmp(line, "/*", 2) == 0 || strncmp(line, "* ", 2) == 0;
}

/* NULL, or what is wrong with the line. */
static const char *threshold_parse(const char *line, threshold_row *row) {
    char value[24], name[THRESHOLD_WORD];
    int length = 0;
    if (sscanf(line, " MST_THRESHOLD( %23[^,], %95[^,], \"%95[^\"]\" )%n", value, name, row->kind, &length) != 3 || length == 0)
        return "expected a row MST_THRESHOLD(bytes, name, \"kind\")";
    if (!threshold_parse_value(value, &row->value)) return "expected a number of bytes";
    if (!threshold_parse_name(name, &row->place)) return "expected p2p_bytes, staged_bytes or reduced_saved_bytes";
    return threshold_is_blank(line + length) ? NULL : "expected nothing after the row";
}

static muster_status threshold_refuse(const char *path, const char *problem) {
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_runtime_open: the environment's MUSTER_THRESHOLDS: expected a file of thresholds, received '%.200s': %s", path,
                     problem);
}

static muster_status threshold_read_lines(const char *path, FILE *file, threshold_search *search) {
    char line[THRESHOLD_LINE], problem[THRESHOLD_LINE + 128];
    for (int32_t number = 1; fgets(line, sizeof line, file); number++) {
        threshold_row row;
        line[strcspn(line, "\n")] = '\0';
        const char *wrong = threshold_is_blank(line) ? NULL : threshold_parse(line, &row);
        if (wrong) {
            snprintf(problem, sizeof problem, "line %d: %s, received \"%.100s\"", (int)number, wrong, line);
            return threshold_refuse(path, problem);
        }
        if (!threshold_is_blank(line)) threshold_take(search, &row, FIT_OF_A_FILE);
    }
    return ferror(file) ? threshold_refuse(path, strerror(errno)) : MUSTER_OK;
}

/* Nothing where no file is named. A message shows a line of the file, so a program with raised
 * privileges reads none. */
static muster_status threshold_read_file(threshold_search *search) {
    const char *path = secure_getenv("MUSTER_THRESHOLDS");
    if (!path || !*path) return MUSTER_OK;
    FILE *file = fopen(path, "re");
    if (!file) return threshold_refuse(path, strerror(errno));
    const muster_status status = threshold_read_lines(path, file, search);
    fclose(file);
    return status;
}

/* ---- the kind of a machine ---- */

/* A GPU is named "cuda:0 NVIDIA H100 80GB HBM3": its number, and its model. */
static threshold_search threshold_search_for(const char *name, int32_t capability) {
    threshold_search search = {.model = ""};
    const char *space = strchr(name, ' ');
    if (capability == 0) return search;
    if (space) snprintf(search.model, sizeof search.model, "%s", space + 1);
    snprintf(search.capability, sizeof search.capability, "sm_%d", (int)capability);
    return search;
}

static muster_status threshold_look(threshold_search *search) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) threshold_take(search, &rows[i], 0);
    return threshold_read_file(search);
}

muster_status mst_thresholds_find(const mst_device *device, mst_thresholds *found) {
    threshold_search search = threshold_search_for(device->name, device->capability);
    MUSTER_TRY(threshold_look(&search));
    *found = search.found;
    return MUSTER_OK;
}

int32_t mst_thresholds_count(void) { return THRESHOLD_COUNT; }

muster_status mst_thresholds_get_fact(const char *name, int32_t capability, int32_t place, mst_threshold_fact *fact) {
    threshold_search search = threshold_search_for(name, capability);
    MUSTER_TRY(threshold_look(&search));
    const char *path = search.fits[place] >= FIT_OF_A_FILE ? secure_getenv("MUSTER_THRESHOLDS") : NULL;
    fact->bytes = *threshold_at(&search.found, place);
    fact->name = names[place];
    snprintf(fact->kind, sizeof fact->kind, "%s", search.kinds[place]);
    snprintf(fact->source, sizeof fact->source, "%s", path ? path : "");
    return MUSTER_OK;
}

muster_status mst_thresholds_check(void) {
    threshold_search search = {.model = ""};
    return threshold_read_file(&search);
}
