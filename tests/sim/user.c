/* A program of the user's: the shared object of its image, loaded by itself, so that two modules
 * have nothing in common. */
#include "user_impl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The loader has a lock of its own, which ThreadSanitizer cannot see. */
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

static void *load_library(const char *path) {
    pthread_mutex_lock(&loader_lock);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "simulated GPU: %s\n", dlerror());
    pthread_mutex_unlock(&loader_lock);
    return library;
}

static void unload_library(void *library) {
    pthread_mutex_lock(&loader_lock);
    dlclose(library);
    pthread_mutex_unlock(&loader_lock);
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* "object BYTES HASH HEX"; NULL: damaged, or out of memory. */
static unsigned char *read_object(const char *line, size_t *bytes) {
    unsigned long long hash;
    int length = 0;
    if (sscanf(line, "object %zu %llx %n", bytes, &hash, &length) != 2 || length == 0) return NULL;
    const char *hex = line + length;
    if (strcspn(hex, "\n") != 2 * *bytes) return NULL;
    unsigned char *object = malloc(*bytes + 1);
    for (size_t i = 0; object && i < *bytes; i++) object[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    if (object && sim_bytes_hash(object, *bytes) == hash) return object;
    free(object);
    return NULL;
}

/* By a file of a name that no loaded one has: the loader takes two of one name for the same. */
static void *load(const unsigned char *object, size_t bytes) {
    const char *parent = getenv("TMPDIR");
    char path[512];
    int length = snprintf(path, sizeof path, "%s/simulated-module.XXXXXX", parent && *parent ? parent : "/tmp");
    int file = length > 0 && (size_t)length < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (file < 0) return NULL;
    void *library = NULL;
    if (write(file, object, bytes) == (ssize_t)bytes && close(file) == 0) library = load_library(path);
    unlink(path);
    return library;
}

/* Where the object and its thread-local memory lie. */
static int look_at(struct dl_phdr_info *info, size_t size, void *data) {
    sim_program *program = data;
    uintptr_t table = (uintptr_t)program->table, low = UINTPTR_MAX, high = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (start < low) low = start;
        if (start + header->p_memsz > high) high = start + header->p_memsz;
    }
    if (table < low || table >= high) return 0;
    program->image = low;
    program->image_bytes = high - low;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) program->local_bytes = info->dlpi_phdr[i].p_memsz;
    program->local_offset = (intptr_t)info->dlpi_tls_data - (intptr_t)program->table->here();
    return info->dlpi_tls_data != NULL;
}

static bool look(sim_program *program) {
    program->table = dlsym(program->library, "mst_program");
    if (!program->table || program->table->version != MST_PROGRAM_VERSION) return false;
    memset(program->table->here(), 0, sizeof(mst_program_here)); /* this thread has its memory from now on */
    return dl_iterate_phdr(look_at, program) != 0;
}

sim_program *user_program_load(const char *path) {
    sim_program *program = calloc(1, sizeof *program);
    if (program) program->library = load_library(path);
    if (!program || !program->library || !look(program)) {
        if (program && program->library) unload_library(program->library);
        free(program);
        return NULL;
    }
    sim_program_attach(program, true);
    atomic_store(&program->references, 1);
    return program;
}

sim_result sim_program_open(const char *line, sim_program **result) {
    size_t bytes;
    unsigned char *object = read_object(line, &bytes);
    if (!object) return SIM_INVALID_IMAGE;
    sim_program *program = calloc(1, sizeof *program);
    if (program) program->library = load(object, bytes);
    free(object);
    if (!program || !program->library || !look(program)) {
        if (program && program->library) unload_library(program->library);
        free(program);
        return program ? SIM_INVALID_IMAGE : SIM_OUT_OF_MEMORY;
    }
    uint64_t seed;
    sim_program_attach(program, user_races_wanted(1, &seed));
    atomic_store(&program->references, 1);
    *result = program;
    return SIM_OK;
}

void sim_program_release(sim_program *program) {
    if (!program || atomic_fetch_sub_explicit(&program->references, 1, memory_order_acq_rel) != 1) return;
    unload_library(program->library);
    free(program);
}

const mst_program_kernel *sim_program_find(const sim_program *program, const char *name) {
    for (int i = 0; i < program->table->kernel_count; i++)
        if (strcmp(program->table->kernels[i].name, name) == 0) return &program->table->kernels[i];
    return NULL;
}

/* Of all its kernels: which one it belongs to is not known here. */
int sim_program_static_shared(const sim_program *program) {
    size_t rest = sizeof(mst_program_here) + MST_PROGRAM_SHARED;
    return program->local_bytes > rest + 256 ? (int)(program->local_bytes - rest) / 16 * 16 : 0;
}

/* Names outlive their modules, for the counts. */
const char *sim_program_name(const char *name) {
    static struct kept {
        struct kept *next;
        char name[];
    } * names;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* never taken by a stream's thread */
    pthread_mutex_lock(&lock);
    struct kept *found = names;
    while (found && strcmp(found->name, name) != 0) found = found->next;
    if (!found && (found = malloc(sizeof *found + strlen(name) + 1)) != NULL) {
        strcpy(found->name, name);
        found->next = names;
        names = found;
    }
    pthread_mutex_unlock(&lock);
    return found ? found->name : "a kernel";
}
