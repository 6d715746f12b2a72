/* The cache of compiled device code: one file per key in a private folder. The cached code runs on
 * the user's data, so the folder must belong to the user and be writable by nobody else. Every
 * failure here means "not in the cache" and nothing more. */
#include "code_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, NAME_SIZE = 2 * MST_CODE_KEY + 64 };

/* The head of a file; the image follows. */
typedef struct cache_head {
    char magic[16];
    uint8_t key[MST_CODE_KEY];
    uint8_t digest[32]; /* of the image */
    int64_t bytes;
} cache_head;
static const char magic[16] = "muster code 1\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char notice[MST_MESSAGE_SIZE], reported[MST_MESSAGE_SIZE];

static void set_notice(const char *text) {
    pthread_mutex_lock(&lock);
    snprintf(notice, sizeof notice, "%s", text);
    pthread_mutex_unlock(&lock);
}

bool mst_code_take_notice(char text[MST_MESSAGE_SIZE]) {
    pthread_mutex_lock(&lock);
    bool news = notice[0] && strcmp(notice, reported) != 0;
    if (news) memcpy(reported, notice, sizeof reported);
    memcpy(text, notice, sizeof notice);
    notice[0] = 0;
    pthread_mutex_unlock(&lock);
    return news;
}

/* ---- the folder ---- */

/* The folders for compiled code, by preference: the user's, then one below the folder of temporary
 * files, for a user without a home and for a home that cannot be written. */
enum { USERS_FOLDER, TEMPORARY_FOLDER, FOLDERS };

/* secure_getenv ignores the environment in a program with raised privileges. */
static bool is_set(const char *variable, const char **value) {
    *value = secure_getenv(variable);
    return *value && (*value)[0];
}

/* The folder above that of temporary files must not allow others to put another folder into the
 * place of ours. */
static bool temporary_path(char path[PATH_SIZE]) {
    const char *above;
    struct stat status;
    if (getauxval(AT_SECURE)) return false;
    if (!is_set("TMPDIR", &above) || above[0] != '/') above = "/tmp";
    if (stat(above, &status) != 0 || !S_ISDIR(status.st_mode) || (status.st_uid != 0 && status.st_uid != geteuid())) return false;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !(status.st_mode & S_ISVTX)) return false;
    const int length = snprintf(path, PATH_SIZE, "%s/muster-%ld", above, (long)geteuid());
    return length > 0 && length < PATH_SIZE;
}

/* The path of a folder; false if the user does not want it, or no place for it is known. */
static bool folder_path(int which, char path[PATH_SIZE]) {
    const char *value;
    int length = 0;
    if (is_set("MUSTER_CACHE_DIR", &value)) {
        if (which != USERS_FOLDER || strcmp(value, "off") == 0) return false;
        length = snprintf(path, PATH_SIZE, "%s", value);
    } else if (which == TEMPORARY_FOLDER)
        return temporary_path(path);
    else if (is_set("XDG_CACHE_HOME", &value) && value[0] == '/') /* the XDG specification says to ignore relative paths */
        length = snprintf(path, PATH_SIZE, "%s/muster", value);
    else if (is_set("HOME", &value) && value[0] == '/')
        length = snprintf(path, PATH_SIZE, "%s/.cache/muster", value);
    return length > 0 && length < PATH_SIZE;
}

/* Creates the folder and the missing folders above it. Changes the path only while it runs. */
static void make_folders(char *path) {
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        (void)mkdir(path, 0700);
        *at = '/';
    }
    (void)mkdir(path, 0700);
}

/* Opens a folder, and creates it before if `create` is set. -1: it cannot be used, and `reason`
 * says why if it is still empty. The caller uses the descriptor, so that the folder that was
 * checked is also the one that is used. */
static int open_folder(int which, bool create, char reason[MST_MESSAGE_SIZE]) {
    char path[PATH_SIZE];
    if (!folder_path(which, path)) return -1;
    if (create && which == USERS_FOLDER) make_folders(path);
    if (create && which == TEMPORARY_FOLDER) (void)mkdir(path, 0700);
    /* A link of another user among the temporary files is not followed. */
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (which == TEMPORARY_FOLDER ? O_NOFOLLOW : 0));
    struct stat status;
    if (folder < 0 || fstat(folder, &status) != 0) {
        if (!reason[0])
            snprintf(reason, MST_MESSAGE_SIZE, "compiled device code is not kept: %.300s: %s (MUSTER_CACHE_DIR names another folder)", path,
                     strerror(errno));
    } else if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        if (!reason[0])
            snprintf(reason, MST_MESSAGE_SIZE,
                     "compiled device code is not kept: %.300s: expected a folder of this user that nobody else may write, found one of "
                     "user %ld with mode %o (MUSTER_CACHE_DIR names another folder)",
                     path, (long)status.st_uid, (unsigned)(status.st_mode & 07777));
    } else
        return folder;
    if (folder >= 0) close(folder);
    return -1;
}

bool mst_code_cache_folder(char *path, size_t capacity) {
    char known[PATH_SIZE], reason[MST_MESSAGE_SIZE] = "";
    const int folder = open_folder(USERS_FOLDER, false, reason);
    if (folder < 0) return false;
    close(folder);
    return folder_path(USERS_FOLDER, known) && (size_t)snprintf(path, capacity, "%s", known) < capacity;
}

/* ---- its files ---- */

static void file_name(const mst_code_key *key, char name[NAME_SIZE]) {
    for (int i = 0; i < MST_CODE_KEY; i++) snprintf(name + 2 * i, 3, "%02x", key->bytes[i]);
}

static void digest_of(const void *data, int64_t bytes, uint8_t digest[32]) {
    mst_sha256 hash;
    mst_sha256_begin(&hash);
    mst_sha256_add(&hash, data, bytes);
    mst_sha256_end(&hash, digest);
}

static bool read_all(int file, void *to, int64_t bytes) {
    for (char *at = to; bytes > 0;) {
        ssize_t count = read(file, at, (size_t)bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        bytes -= count;
    }
    return true;
}

static bool write_all(int file, const void *from, int64_t bytes) {
    for (const char *at = from; bytes > 0;) {
        ssize_t count = write(file, at, (size_t)bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        bytes -= count;
    }
    return true;
}

static bool read_image(int file, const mst_code_key *key, mst_code_image *image) {
    struct stat status;
    cache_head head;
    uint8_t digest[32];
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || !read_all(file, &head, sizeof head))
        return false;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || memcmp(head.key, key->bytes, sizeof head.key) != 0) return false;
    if (head.bytes < 1 || head.bytes != (int64_t)status.st_size - (int64_t)sizeof head) return false;
    char *data = mst_alloc_uninitialised((size_t)head.bytes + 1);
    if (!data) return false;
    data[head.bytes] = 0;
    if (read_all(file, data, head.bytes)) {
        digest_of(data, head.bytes, digest);
        if (memcmp(digest, head.digest, sizeof digest) == 0) {
            *image = (mst_code_image){.data = data, .bytes = head.bytes, .found = true};
            return true;
        }
    }
    mst_free(data);
    return false;
}

static bool load_from(int folder, const mst_code_key *key, mst_code_image *image) {
    char name[NAME_SIZE];
    file_name(key, name);
    /* O_NONBLOCK: opening a pipe of that name must not block */
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool loaded = file >= 0 && read_image(file, key, image);
    if (file >= 0) close(file);
    return loaded;
}

bool mst_code_cache_load(const mst_code_key *key, mst_code_image *image) {
    char reason[MST_MESSAGE_SIZE] = ""; /* of no interest: the image will be stored, too */
    bool loaded = false;
    for (int which = 0; which < FOLDERS && !loaded; which++) {
        const int folder = open_folder(which, false, reason);
        if (folder < 0) continue;
        loaded = load_from(folder, key, image);
        close(folder);
    }
    return loaded;
}

/* Creates a file under a name that no other process uses. A file that already has this name is left
 * over from a crashed process with the same id. */
static int open_temporary(int folder, const char *name, char temporary[NAME_SIZE]) {
    static _Atomic uint32_t number;
    snprintf(temporary, NAME_SIZE, "%.64s.%ld.%u", name, (long)getpid(), atomic_fetch_add(&number, 1));
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, file = openat(folder, temporary, flags, 0600);
    if (file >= 0 || errno != EEXIST) return file;
    (void)unlinkat(folder, temporary, 0);
    return openat(folder, temporary, flags, 0600);
}

/* No fsync: a file that a crash of the machine leaves half written has a wrong digest. */
static bool store_in(int folder, const mst_code_key *key, const cache_head *head, const void *data) {
    char name[NAME_SIZE], temporary[NAME_SIZE];
    file_name(key, name);
    int file = open_temporary(folder, name, temporary);
    bool written = file >= 0 && write_all(file, head, sizeof *head) && write_all(file, data, head->bytes);
    int failure = errno;
    if (file >= 0 && close(file) != 0 && written) written = false, failure = errno;
    if (written && renameat(folder, temporary, folder, name) != 0) written = false, failure = errno;
    if (!written && file >= 0) (void)unlinkat(folder, temporary, 0);
    errno = failure;
    return written;
}

void mst_code_cache_store(const mst_code_key *key, const mst_code_image *image) {
    char reason[MST_MESSAGE_SIZE] = "";
    cache_head head = {.bytes = image->bytes};
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.key, key->bytes, sizeof head.key);
    digest_of(image->data, image->bytes, head.digest);
    for (int which = 0; which < FOLDERS; which++) {
        const int folder = open_folder(which, true, reason);
        if (folder < 0) continue;
        const bool stored = store_in(folder, key, &head, image->data);
        if (!stored && !reason[0])
            snprintf(reason, sizeof reason, "compiled device code is not kept: %s (MUSTER_CACHE_DIR names another folder)",
                     strerror(errno));
        close(folder);
        if (stored) return;
    }
    const char *chosen;
    if (!reason[0] && !is_set("MUSTER_CACHE_DIR", &chosen) && !getauxval(AT_SECURE))
        snprintf(reason, sizeof reason,
                 "compiled device code is not kept: neither HOME nor TMPDIR gives a folder that nobody else may write (MUSTER_CACHE_DIR "
                 "names one)");
    if (reason[0]) set_notice(reason);
}
