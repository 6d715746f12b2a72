/* The logs of compilers. */
#include "kernel_private.h"

#include <pthread.h>
#include <string.h>

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool keyed;

static void make_key(void) { keyed = pthread_key_create(&key, mst_free) == 0; }

void mst_create_log_set(char *log) {
    pthread_once(&once, make_key);
    if (!keyed) {
        mst_free(log);
        return;
    }
    char *before = pthread_getspecific(key);
    if (pthread_setspecific(key, log) == 0)
        mst_free(before);
    else
        mst_free(log);
}

const char *muster_kernel_create_log(void) {
    pthread_once(&once, make_key);
    const char *log = keyed ? pthread_getspecific(key) : NULL;
    return log ? log : "";
}

const char *mst_log_first(const char *log, int *length) {
    const char *at = strstr(log, "error");
    if (!at) at = log;
    while (at > log && at[-1] != '\n') at--;
    *length = (int)strcspn(at, "\n");
    return at;
}
