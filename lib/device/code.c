/* Joins the kernel sources of all modules into one program, and builds images for devices: from the
 * cache, from a build of the same program in progress, or with the compiler. */
#include "code_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MODULES = 16, NAME = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;

/* ---- the sources ---- */

static const mst_code_sources *modules[MODULES] = {&mst_device_code};
static int32_t module_count = 1;

muster_status mst_code_add(const mst_code_sources *sources) {
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&lock);
    int32_t at = 0;
    while (at < module_count && modules[at] != sources) at++;
    if (at == MODULES)
        status = mst_error(MUSTER_INTERNAL, "mst_code_add: sources: expected at most %d modules, received one more, %s", MODULES,
                           sources->module);
    else if (at == module_count)
        modules[module_count++] = sources;
    pthread_mutex_unlock(&lock);
    return status;
}

int32_t mst_code_kernel_count(void) {
    pthread_mutex_lock(&lock);
    int32_t count = 0;
    for (int32_t i = 0; i < module_count; i++) count += modules[i]->kernel_count;
    pthread_mutex_unlock(&lock);
    return count;
}

const char *mst_code_kernel_name(int32_t place) {
    const char *name = NULL;
    pthread_mutex_lock(&lock);
    for (int32_t i = 0; i < module_count && !name; place -= modules[i++]->kernel_count)
        if (place >= 0 && place < modules[i]->kernel_count) name = modules[i]->kernels[place];
    pthread_mutex_unlock(&lock);
    return name;
}

int32_t mst_code_kernel_find(const char *name) {
    int32_t count = mst_code_kernel_count();
    for (int32_t place = 0; place < count; place++)
        if (strcmp(mst_code_kernel_name(place), name) == 0) return place;
    return -1;
}

static bool is_kernel_text(const char *name) {
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".cu") == 0;
}

/* The built-in program: a main source that includes every kernel source, and all sources to
 * include. Free it with free_built_in. */
static muster_status make_built_in(mst_code_program *program) {
    pthread_mutex_lock(&lock);
    int32_t count = 0, known = module_count;
    for (int32_t i = 0; i < known; i++) count += modules[i]->count;
    pthread_mutex_unlock(&lock);
    int64_t bytes = 1 + (int64_t)count * (NAME + 16), length = 0;
    mst_code_source *sources = mst_alloc((size_t)count * sizeof *sources);
    char *text = sources ? mst_alloc((size_t)bytes) : NULL;
    if (!text) {
        mst_free(sources);
        return mst_out_of_memory("mst_code_build: sources", bytes);
    }
    *program = (mst_code_program){.name = "muster.cu", .text = text, .sources = sources};
    for (int32_t i = 0; i < known; i++)
        for (int32_t j = 0; j < modules[i]->count; j++) {
            const mst_code_source *one = &modules[i]->sources[j];
            sources[program->count++] = *one;
            if (is_kernel_text(one->name))
                length += snprintf(text + length, (size_t)(bytes - length), "#include \"%.*s\"\n", NAME, one->name);
        }
    return MUSTER_OK;
}

static void free_built_in(const mst_code_program *program) {
    mst_free((void *)program->text);
    mst_free((void *)program->sources);
}

/* ---- the key ---- */

/* Hashes the text and its length, so that different lists of sources never give the same bytes. */
static void add_text(mst_sha256 *hash, const char *text) {
    int64_t length = (int64_t)strlen(text);
    mst_sha256_add(hash, &length, sizeof length);
    mst_sha256_add(hash, text, length);
}

static muster_status key_of(const mst_code_target *target, const mst_code_program *program, mst_code_key *key) {
    char version[MST_CODE_VERSION_SIZE] = "";
    MUSTER_TRY(target->compiler->version(target, version));
    mst_sha256 hash;
    mst_sha256_begin(&hash);
    add_text(&hash, target->compiler->name);
    add_text(&hash, version);
    mst_sha256_add(&hash, &target->architecture, sizeof target->architecture);
    for (int i = 0; i < MST_CODE_OPTIONS && target->options[i]; i++) add_text(&hash, target->options[i]);
    add_text(&hash, "");
    add_text(&hash, program->name);
    add_text(&hash, program->text);
    for (int32_t i = 0; i < program->count; i++) {
        add_text(&hash, program->sources[i].name);
        add_text(&hash, program->sources[i].text);
    }
    mst_sha256_end(&hash, key->bytes);
    return MUSTER_OK;
}

/* ---- the build ---- */

/* A build in progress. Other threads that ask for the same image wait for it and take copies. The
 * last user frees it. Guarded by `lock`. */
typedef struct build {
    mst_code_key key;
    struct build *next;
    int32_t users;
    bool done;
    muster_status status;
    mst_code_image image;
    char message[MST_MESSAGE_SIZE];
} build;
static build *builds;

void mst_code_release(mst_code_image *image) {
    mst_free(image->data);
    mst_free(image->log);
    *image = (mst_code_image){0};
}

static muster_status copy_image(const mst_code_image *from, mst_code_image *to) {
    char *data = mst_alloc_uninitialised((size_t)from->bytes + 1), *log = from->log ? mst_strdup(from->log) : NULL;
    if (!data || (from->log && !log)) {
        mst_free(data);
        mst_free(log);
        return mst_out_of_memory("mst_code_build: image", from->bytes);
    }
    memcpy(data, from->data, (size_t)from->bytes + 1);
    *to = (mst_code_image){.data = data, .bytes = from->bytes, .log = log, .found = from->found};
    return MUSTER_OK;
}

/* The build of this key that is in progress, or a new one, which the caller has to do (*mine).
 * NULL: no memory. */
static build *join(const mst_code_key *key, bool *mine) {
    pthread_mutex_lock(&lock);
    build *one = builds;
    while (one && memcmp(&one->key, key, sizeof *key) != 0) one = one->next;
    *mine = !one;
    if (!one && (one = mst_alloc(sizeof *one))) {
        one->key = *key;
        one->next = builds;
        builds = one;
    }
    if (one) one->users++;
    pthread_mutex_unlock(&lock);
    return one;
}

static void finish(build *one, muster_status status, const mst_code_image *image) {
    pthread_mutex_lock(&lock);
    build **at = &builds;
    while (*at != one) at = &(*at)->next;
    *at = one->next; /* from now on other threads find it in the cache */
    one->status = status;
    one->image = *image;
    if (status != MUSTER_OK) mst_error_save(one->message);
    one->done = true;
    pthread_cond_broadcast(&finished);
    pthread_mutex_unlock(&lock);
}

/* Waits without a time limit: the compiler cannot be stopped anyway. */
static void wait_for(build *one) {
    pthread_mutex_lock(&lock);
    while (!one->done) pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
}

static void leave(build *one) {
    pthread_mutex_lock(&lock);
    bool last = --one->users == 0;
    pthread_mutex_unlock(&lock);
    if (!last) return;
    mst_code_release(&one->image);
    mst_free(one);
}

static muster_status make(const mst_code_target *target, const mst_code_program *program, const mst_code_key *key, mst_code_image *image) {
    if (mst_code_cache_load(key, image)) return MUSTER_OK;
    MUSTER_TRY(target->compiler->compile(target, program, image));
    mst_code_cache_store(key, image);
    return MUSTER_OK;
}

static muster_status build_program(const mst_code_target *target, const mst_code_program *program, mst_code_image *image) {
    mst_code_key key;
    bool mine = false;
    MUSTER_TRY(key_of(target, program, &key));
    build *one = join(&key, &mine);
    if (!one) return mst_out_of_memory("mst_code_build: build", sizeof *one);
    if (mine) {
        mst_code_image made = {0};
        muster_status status = make(target, program, &key, &made);
        finish(one, status, &made);
    } else
        wait_for(one);
    muster_status status = one->status;
    if (status == MUSTER_OK)
        status = copy_image(&one->image, image);
    else {
        mst_error_restore(status, one->message);
        image->log = one->image.log ? mst_strdup(one->image.log) : NULL;
    }
    leave(one);
    return status;
}

muster_status mst_code_build(const mst_code_target *target, const mst_code_program *program, mst_code_image *image) {
    *image = (mst_code_image){0};
    if (program) return build_program(target, program, image);
    mst_code_program built_in;
    MUSTER_TRY(make_built_in(&built_in));
    muster_status status = build_program(target, &built_in, image);
    free_built_in(&built_in);
    return status;
}
