/* What tells one build of the library, and one type of machine, from another. */
#include "nodes_private.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

typedef struct build_search {
    uintptr_t inside; /* an address of the library */
    char *text;
} build_search;

static bool build_holds(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz) return true;
    }
    return false;
}

/* Notes lie one after another, their names and contents padded to four bytes. */
static void build_read_notes(const char *at, size_t bytes, char *text) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        const size_t name = (note.n_namesz + 3u) & ~(size_t)3, content = (note.n_descsz + 3u) & ~(size_t)3;
        const char *id = at + sizeof note + name;
        if (sizeof note + name + content > bytes) return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at + sizeof note, "GNU", 4) == 0) {
            for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < MST_BUILD_TEXT; i++) sprintf(text + 2 * i, "%02x", (unsigned char)id[i]);
            return;
        }
        at += sizeof note + name + content;
        bytes -= sizeof note + name + content;
    }
}

static int build_visit(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size;
    const build_search *search = context;
    if (!build_holds(object, search->inside)) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_NOTE && !*search->text)
            build_read_notes((const char *)(uintptr_t)(object->dlpi_addr + part->p_vaddr), part->p_memsz, search->text);
    }
    return 1;
}

void mst_build_id(char text[MST_BUILD_TEXT]) {
    static const char inside;
    build_search search = {.inside = (uintptr_t)&inside, .text = text};
    text[0] = 0;
    dl_iterate_phdr(build_visit, &search);
}

/* "model name	: AMD EPYC 7763" of the kernel's file, where it has such a line (proc(5)). */
static void machine_read_processor(char *text, size_t size) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) != 0 || !colon) continue;
        snprintf(text, size, " %.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(file);
}

void mst_machine_type(char text[MST_MACHINE_TEXT]) {
    struct utsname machine;
    snprintf(text, MST_MACHINE_TEXT, "%s", uname(&machine) == 0 ? machine.machine : "unknown");
    const size_t at = strlen(text);
    machine_read_processor(text + at, MST_MACHINE_TEXT - at);
}
