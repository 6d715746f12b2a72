/* muster-info: prints what Muster finds on this machine, by its public functions alone. */
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

static const char help[] = "NAME\n"
                           "    muster-info - print the devices, libraries and thresholds that Muster finds on this machine\n"
                           "\n"
                           "SYNOPSIS\n"
                           "    muster-info [--json]\n"
                           "    muster-info --help | --version\n"
                           "\n"
                           "DESCRIPTION\n"
                           "    Prints the devices that a runtime could open, the libraries that Muster has opened, with their\n"
                           "    versions and files, the libraries that it does without, with the reason of each, and the\n"
                           "    thresholds in force on each GPU, or on the first device where there is no GPU. Each library is\n"
                           "    looked for as a program that uses Muster looks for it. No runtime is opened, and nothing is\n"
                           "    created on a GPU.\n"
                           "\n"
                           "OPTIONS\n"
                           "    --json      print one JSON object with the members version, devices, libraries, thresholds\n"
                           "    --help      print this text\n"
                           "    --version   print the version of the library\n"
                           "\n"
                           "EXIT STATUS\n"
                           "    0  all was printed, whatever is missing\n"
                           "    1  the output could not be written\n"
                           "    2  a wrong argument\n"
                           "\n"
                           "ENVIRONMENT\n"
                           "    MUSTER_BLAS, MUSTER_ONEDNN, MUSTER_OPENCL_LIBRARY, MUSTER_CUDA_LIBRARIES, MUSTER_CUDNN,\n"
                           "    MUSTER_MPI_SHIM, MUSTER_THRESHOLDS, CUDA_VISIBLE_DEVICES: as for every program that uses Muster.\n";

/* ---- facts ---- */

/* A device that cannot be asked has an error in place of the rest. */
typedef struct device_facts {
    muster_device_info info;
    const char *error;
} device_facts;

static device_facts device_of(int32_t index) {
    device_facts facts = {.error = NULL};
    muster_device_info_init(&facts.info);
    if (muster_device_get_info(index, &facts.info) != MUSTER_OK) facts.error = muster_last_error();
    return facts;
}

/* Thresholds are for GPUs: without one, the first device shows those of any machine. */
static int shows_thresholds(int32_t index) { return index == 0 || strcmp(device_of(index).info.backend, "cuda") == 0; }

static muster_library_info library_of(int32_t index) {
    muster_library_info info;
    muster_library_info_init(&info);
    if (muster_library_get_info(index, &info) != MUSTER_OK) {
        memset(&info, 0, sizeof info);
        snprintf(info.text, sizeof info.text, "%s", muster_last_error());
    }
    return info;
}

/* ---- text ---- */

static void print_bytes(int64_t bytes) {
    if (bytes < 0)
        printf("an unknown number of");
    else
        printf("%lld", (long long)(bytes >> 20));
}

static void print_device(int32_t index) {
    const device_facts facts = device_of(index);
    if (facts.error) {
        printf("  %d  %s\n", (int)index, facts.error);
        return;
    }
    printf("  %d  %s, ", (int)index, facts.info.name);
    print_bytes(facts.info.memory_total);
    printf(" MiB");
    if (facts.info.capability_major)
        printf(", compute capability %d.%d", (int)facts.info.capability_major, (int)facts.info.capability_minor);
    printf("%s%s\n", facts.info.uuid[0] ? ", " : "", facts.info.uuid);
}

static void print_libraries(int32_t found, const char *title) {
    int32_t count = 0;
    for (int32_t i = 0; i < muster_library_count(); i++) {
        const muster_library_info info = library_of(i);
        if (info.found != found) continue;
        if (count++ == 0) printf("%s:\n", title);
        printf("  %-12s %s\n", info.name, info.work);
        if (found) printf("      version %s, %s\n", info.version[0] ? info.version : "unknown", info.path);
        if (info.text[0]) printf("      %s\n", info.text);
    }
}

static void print_thresholds(int32_t device) {
    printf("thresholds of device %d:\n", (int)device);
    for (int32_t i = 0; i < muster_threshold_count(); i++) {
        muster_threshold_info info;
        muster_threshold_info_init(&info);
        if (muster_threshold_get_info(device, i, &info) != MUSTER_OK) {
            printf("  %s\n", muster_last_error());
            return;
        }
        printf("  %-20s %lld bytes (for %s, from %s)\n", info.name, (long long)info.bytes, info.kind,
               info.source[0] ? info.source : "the library's table");
    }
}

static void print_text(const char *version) {
    const int32_t devices = muster_device_count();
    printf("Muster %s\ndevices:\n", version);
    for (int32_t i = 0; i < devices; i++) print_device(i);
    print_libraries(1, "libraries");
    print_libraries(0, "missing");
    for (int32_t i = 0; i < devices; i++)
        if (shows_thresholds(i)) print_thresholds(i);
}

/* ---- JSON ---- */

/* The bytes of the UTF-8 character at `text`; 0: there is none. File names may have any bytes. */
static size_t utf8_length(const unsigned char *text) {
    const size_t length = text[0] < 0x80 ? 1 : text[0] >= 0xC2 && text[0] < 0xE0 ? 2 : text[0] >= 0xE0 && text[0] < 0xF0 ? 3 : 4;
    if (text[0] >= 0x80 && (text[0] < 0xC2 || text[0] > 0xF4)) return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    return length;
}

static void json_text(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    putchar('"');
    while (*at) {
        const size_t length = utf8_length(at);
        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < 0x20 || length == 0)
            printf("\\u%04x", length == 0 ? 0xFFFDu : (unsigned)*at);
        else
            fwrite(at, 1, length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

static void json_member(const char *name, const char *text) {
    printf(", \"%s\": ", name);
    json_text(text);
}

static void json_bytes(const char *name, int64_t bytes) {
    if (bytes < 0)
        printf(", \"%s\": null", name);
    else
        printf(", \"%s\": %lld", name, (long long)bytes);
}

static void json_device(int32_t index) {
    const device_facts facts = device_of(index);
    printf("%s\n    {\"index\": %d", index ? "," : "", (int)index);
    if (facts.error) {
        json_member("error", facts.error);
    } else {
        json_member("backend", facts.info.backend);
        printf(", \"ordinal\": %d", (int)facts.info.ordinal);
        json_member("name", facts.info.name);
        json_member("uuid", facts.info.uuid);
        json_bytes("memory_total", facts.info.memory_total);
        json_bytes("memory_free", facts.info.memory_free);
        printf(", \"capability_major\": %d, \"capability_minor\": %d", (int)facts.info.capability_major, (int)facts.info.capability_minor);
    }
    putchar('}');
}

static void json_library(int32_t index) {
    const muster_library_info info = library_of(index);
    printf("%s\n    {\"index\": %d", index ? "," : "", (int)index);
    json_member("name", info.name);
    json_member("work", info.work);
    printf(", \"found\": %s", info.found ? "true" : "false");
    json_member("version", info.version);
    json_member("path", info.path);
    json_member("text", info.text);
    putchar('}');
}

static void json_threshold(int32_t device, int32_t index, int first) {
    muster_threshold_info info;
    muster_threshold_info_init(&info);
    const muster_status status = muster_threshold_get_info(device, index, &info);
    printf("%s\n    {\"device\": %d", first ? "" : ",", (int)device);
    if (status != MUSTER_OK) {
        json_member("error", muster_last_error());
    } else {
        json_member("name", info.name);
        json_bytes("bytes", info.bytes);
        json_member("kind", info.kind);
        json_member("source", info.source);
    }
    putchar('}');
}

static void print_json(const char *version) {
    const int32_t devices = muster_device_count();
    int count = 0;
    printf("{\n  \"version\": ");
    json_text(version);
    printf(",\n  \"devices\": [");
    for (int32_t i = 0; i < devices; i++) json_device(i);
    printf("\n  ],\n  \"libraries\": [");
    for (int32_t i = 0; i < muster_library_count(); i++) json_library(i);
    printf("\n  ],\n  \"thresholds\": [");
    for (int32_t i = 0; i < devices; i++)
        for (int32_t j = 0; shows_thresholds(i) && j < muster_threshold_count(); j++) json_threshold(i, j, count++ == 0);
    printf("\n  ]\n}\n");
}

int main(int count, char **arguments) {
    const char *asked = count > 1 ? arguments[1] : "";
    const int is_json = strcmp(asked, "--json") == 0, is_help = strcmp(asked, "--help") == 0, is_version = strcmp(asked, "--version") == 0;
    char version[32];
    if (count > 2 || (count == 2 && !is_json && !is_help && !is_version)) {
        fprintf(stderr, "muster-info: expected no argument, --json, --help or --version, received \"%s\"\n", arguments[count > 2 ? 2 : 1]);
        return 2;
    }
    snprintf(version, sizeof version, "%d.%d.%d", (int)muster_version() / 10000, (int)muster_version() / 100 % 100,
             (int)muster_version() % 100);
    if (is_help)
        fputs(help, stdout);
    else if (is_version)
        printf("muster-info %s\n", version);
    else if (is_json)
        print_json(version);
    else
        print_text(version);
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    perror("muster-info: the output could not be written");
    return 1;
}
