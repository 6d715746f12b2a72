/* Builds images for devices: from the cache, from a build of the same program in progress, or with
 * the compiler. */
#include "code_private.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;

/* ---- the key ---- */

muster_status mst_code_key_of(const mst_code_target *target, const mst_code_program *program, mst_code_key *key) {
    char version[MST_CODE_VERSION_SIZE] = "";
    MUSTER_TRY(target->compiler->version(target, version));
    mst_sha256 hash;
    mst_sha256_begin(&hash);
    mst_code_hash_text(&hash, target->compiler->name);
    mst_code_hash_text(&hash, version);
    mst_sha256_add(&hash, &target->architecture, sizeof target->architecture);
    for (int i = 0; i < MST_CODE_OPTIONS && target->options[i]; i++) mst_code_hash_text(&hash, target->options[i]);
    mst_code_hash_text(&hash, "");
    mst_code_hash_text(&hash, program->name);
    mst_code_hash_text(&hash, program->text);
    if (program->digest)
        mst_sha256_add(&hash, program->digest, sizeof((mst_code_headers *)0)->digest);
    else
        mst_code_hash_sources(&hash, program->sources, program->count);
    mst_sha256_end(&hash, key->bytes);
    return MUSTER_OK;
}

/* ---- the build ---- */

/* A build in progress, or a finished one that is kept. Other threads that ask for the same image
 * wait for it and take copies. The last user frees it; the list of kept ones counts as one. Guarded
 * by `lock`. */
typedef struct build {
    mst_code_key key;
    struct build *next;
    int32_t users;
    bool done, keeps;
    muster_status status;
    mst_code_image image;
    char message[MST_MESSAGE_SIZE];
} build;
static build *builds;
static int32_t holders; /* between mst_code_hold and mst_code_let_go */

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

static build *find_build(const mst_code_key *key) {
    build *one = builds;
    while (one && memcmp(&one->key, key, sizeof *key) != 0) one = one->next;
    return one;
}

static void remove_build(const build *one) {
    build **at = &builds;
    while (*at != one) at = &(*at)->next;
    *at = one->next;
}

static void free_build(build *one) {
    mst_code_release(&one->image);
    mst_free(one);
}

/* The build of this key, in progress or kept, or a new one, which the caller has to do (*mine).
 * NULL: no memory. */
static build *join(const mst_code_key *key, bool keeps, bool *mine) {
    pthread_mutex_lock(&lock);
    build *one = find_build(key);
    *mine = !one;
    if (!one && (one = mst_alloc(sizeof *one))) {
        one->key = *key;
        one->keeps = keeps;
        one->next = builds;
        builds = one;
    }
    if (one) one->users++;
    pthread_mutex_unlock(&lock);
    return one;
}

static void finish(build *one, muster_status status, const mst_code_image *image) {
    pthread_mutex_lock(&lock);
    if (status == MUSTER_OK && one->keeps && holders > 0)
        one->users++;
    else
        remove_build(one); /* from now on other threads find it in the cache */
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
    if (last) free_build(one);
}

void mst_code_hold(void) {
    pthread_mutex_lock(&lock);
    holders++;
    pthread_mutex_unlock(&lock);
}

void mst_code_let_go(void) {
    pthread_mutex_lock(&lock);
    build **at = &builds;
    const bool last = --holders == 0;
    while (last && *at) {
        build *one = *at;
        if (!one->done) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        if (--one->users == 0) free_build(one);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- building ---- */

/* sentence: what to announce if the program is compiled, or NULL. */
static muster_status make(const mst_code_target *target, const mst_code_program *program, const mst_code_key *key, const char *sentence,
                          mst_code_image *image) {
    if (mst_code_cache_load(key, image)) return MUSTER_OK;
    if (sentence && target->announce) target->announce(target->announce_user, sentence);
    MUSTER_TRY(target->compiler->compile(target, program, image));
    mst_code_cache_store(key, image);
    return MUSTER_OK;
}

static muster_status take_result(const build *one, mst_code_image *image) {
    if (one->status == MUSTER_OK) return copy_image(&one->image, image);
    image->log = one->image.log ? mst_strdup(one->image.log) : NULL;
    return mst_error_restore(one->status, one->message);
}

static muster_status build_program(const mst_code_target *target, const mst_code_program *program, bool keeps, const char *sentence,
                                   mst_code_image *image) {
    mst_code_key key;
    bool mine = false;
    *image = (mst_code_image){0};
    MUSTER_TRY(mst_code_key_of(target, program, &key));
    build *one = join(&key, keeps, &mine);
    if (!one) return mst_out_of_memory("mst_code_build: build", sizeof *one);
    if (mine) {
        mst_code_image made = {0};
        muster_status status = make(target, program, &key, sentence, &made);
        finish(one, status, &made);
    } else
        wait_for(one);
    const muster_status status = take_result(one, image);
    leave(one);
    return status;
}

muster_status mst_code_build(const mst_code_target *target, const mst_code_program *program, mst_code_image *image) {
    return build_program(target, program, false, NULL, image);
}

muster_status mst_code_build_kept(const mst_code_target *target, const mst_code_program *program, const char *sentence,
                                  mst_code_image *image) {
    return build_program(target, program, true, sentence, image);
}

muster_status mst_code_find(const mst_code_target *target, const mst_code_program *program, mst_code_image *image) {
    mst_code_key key;
    muster_status status = MUSTER_OK;
    MUSTER_TRY(mst_code_key_of(target, program, &key));
    pthread_mutex_lock(&lock);
    const build *kept = find_build(&key);
    if (kept && kept->done) status = copy_image(&kept->image, image);
    pthread_mutex_unlock(&lock);
    if (status == MUSTER_OK && !image->data) (void)mst_code_cache_load(&key, image);
    return status;
}
