/* OpenBLAS, opened at run time. Lists hold every symbol that is called. */
#include "blas_memory_impl.h"
#include "host_blas_private.h"
#include "library_facts_impl.h"
#include "own_thread_impl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Only this soname: some builds of libopenblas64.so.0 have the same function names with 64-bit
 * integers, and would read garbage from our 32-bit arguments. The configuration string is checked
 * as well, because the user may name a library by its path. */
static const char default_soname[] = "libopenblas.so.0";

/* X(member, symbol) with the member's type declared in mst_blas. */
#define CALCULATION_SYMBOLS(X) \
    X(sgemm, "cblas_sgemm")    \
    X(dgemm, "cblas_dgemm")    \
    X(sgemv, "cblas_sgemv")    \
    X(dgemv, "cblas_dgemv")    \
    X(saxpy, "cblas_saxpy")    \
    X(daxpy, "cblas_daxpy")    \
    X(sdot, "cblas_sdot")      \
    X(ddot, "cblas_ddot")

/* A library may be built without LAPACK. */
#define LAPACK_SYMBOLS(X) \
    X(dgeqrf, "dgeqrf_")  \
    X(dorgqr, "dorgqr_")

#define CONTROL_SYMBOLS(X)                         \
    X(get_config, "openblas_get_config")           \
    X(get_parallel, "openblas_get_parallel")       \
    X(get_num_threads, "openblas_get_num_threads") \
    X(set_num_threads, "openblas_set_num_threads")

typedef struct blas_control {
    char *(*get_config)(void);
    int (*get_parallel)(void);
    int (*get_num_threads)(void);
    void (*set_num_threads)(int count);
    /* NULL: the library has none */
    const char *(*get_corename)(void);
    int (*end_threads)(void);
} blas_control;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t opened_count;
_Atomic int32_t mst_blas_memory;
static int threads_found; /* the number of threads that the last close restores; 0: it was not changed */
static blas_control control;
static bool is_chosen; /* MUSTER_BLAS names the library, or none */
static char description[256] = "BLAS is not open";
static mst_blas blas = {.description = description};

/* The handle stays open until the process ends: OpenBLAS starts its own threads and registers fork
 * handlers. Unloading their code while one of them may still run would crash the program. */
static void *library;
static char library_path[256];
static bool library_is_ours; /* the process had not loaded it before */
static bool products_are_checked;

static void forget_functions(void) {
    memset(&blas, 0, sizeof blas);
    memset(&control, 0, sizeof control);
    blas.description = description;
    atomic_store(&mst_blas_memory, 0);
}

/* memcpy, because ISO C has no conversion from void * to a pointer to a function. */
static const char *find_symbol(void *handle, const char *symbol, void *pointer) {
    void *address = dlsym(handle, symbol);
    memcpy(pointer, &address, sizeof address);
    return address ? NULL : symbol;
}

static const char *find_symbols(void *handle) {
    const char *missing = NULL;
#define FIND_IN_BLAS(member, symbol) \
    if (!missing) missing = find_symbol(handle, symbol, &blas.member);
#define FIND_IN_CONTROL(member, symbol) \
    if (!missing) missing = find_symbol(handle, symbol, &control.member);
    CALCULATION_SYMBOLS(FIND_IN_BLAS)
    CONTROL_SYMBOLS(FIND_IN_CONTROL)
    const char *lacking = NULL;
#define FIND_IN_LAPACK(member, symbol) \
    if (!lacking) lacking = find_symbol(handle, symbol, &blas.member);
    LAPACK_SYMBOLS(FIND_IN_LAPACK)
    (void)find_symbol(handle, "openblas_get_corename", &control.get_corename);
    (void)find_symbol(handle, "blas_thread_shutdown_", &control.end_threads);
    if (lacking) {
        blas.dgeqrf = NULL;
        blas.dorgqr = NULL;
    }
#undef FIND_IN_BLAS
#undef FIND_IN_CONTROL
#undef FIND_IN_LAPACK
    return missing;
}

static bool open_library(const char *path) {
    if (library && strcmp(library_path, path) == 0) return true;
    void *present = dlopen(path, RTLD_NOLOAD | RTLD_NOW), *handle = dlopen(path, RTLD_LOCAL | RTLD_NOW);
    if (present) dlclose(present);
    if (!handle) {
        const char *reason = dlerror();
        snprintf(description, sizeof description, "no BLAS: %s", reason ? reason : path);
        return false;
    }
    library_is_ours = !present;
    products_are_checked = false;
    library = handle; /* a library opened before under another path stays loaded, see above */
    snprintf(library_path, sizeof library_path, "%s", path);
    return true;
}

/* ---- what the first product asks ---- */

/* The bytes that OpenBLAS takes for each thread that multiplies: a buffer and its alignment. */
enum { BUFFER_BYTES = (128 << 20) + (1 << 16) };

static bool has_address_space(int32_t threads) {
    struct rlimit most;
    if (getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return true;
    const size_t bytes = (size_t)threads * BUFFER_BYTES;
    void *tried = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tried == MAP_FAILED) return false;
    munmap(tried, bytes);
    return true;
}

/* A library that computes wrong products is forgotten. */
static muster_status check_products(void) {
    const char *wrong;
    char product[MST_BLAS_FAULT_TEXT], core[64] = "unknown";
    if (products_are_checked) return MUSTER_OK;
    MUSTER_TRY(mst_blas_find_fault(&blas, &wrong, product));
    products_are_checked = !wrong;
    if (!wrong) return MUSTER_OK;
    if (control.get_corename) snprintf(core, sizeof core, "%s", control.get_corename());
    snprintf(description, sizeof description, "no BLAS: %.80s computes wrong products on this processor, core type %s: %s of %s",
             library_path, core, wrong, product);
    if (threads_found > 0 && control.get_num_threads() == 1) control.set_num_threads(threads_found);
    threads_found = 0;
    forget_functions();
    return MUSTER_OK;
}

muster_status mst_blas_take_memory(int32_t threads, const char *where) {
    pthread_mutex_lock(&lock);
    const int32_t present = atomic_load(&mst_blas_memory);
    muster_status status = MUSTER_OK;
    if (blas.sgemm && present < threads && !has_address_space(threads - present))
        status = mst_error(MUSTER_OUT_OF_MEMORY,
                           "%s: OpenBLAS needs %d MiB of address space for each of %d threads, which this process does not get (ulimit -v)",
                           where, BUFFER_BYTES >> 20, (int)threads);
    else if (blas.sgemm)
        status = check_products();
    if (status == MUSTER_OK && !blas.sgemm)
        status = mst_error(MUSTER_UNAVAILABLE, "%s: worker: expected a BLAS library, received none (%s); %s", where, description,
                           is_chosen ? "unset MUSTER_BLAS, or let it name an OpenBLAS" : "install the Debian package libopenblas0-pthread");
    if (status == MUSTER_OK && present < threads) atomic_store(&mst_blas_memory, threads);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- opening and closing ---- */

/* Fills the table. On failure the table stays empty and the description holds the reason. */
static muster_status load(void *unused) {
    (void)unused;
    const char *asked = getenv("MUSTER_BLAS");
    is_chosen = asked && asked[0];
    const char *path = is_chosen ? asked : default_soname;
    if (strcmp(path, "none") == 0) {
        snprintf(description, sizeof description, "no BLAS: MUSTER_BLAS is \"none\"");
        return MUSTER_OK;
    }
    if (!open_library(path)) return MUSTER_OK;
    const char *missing = find_symbols(library);
    if (missing) {
        forget_functions();
        snprintf(description, sizeof description, "no BLAS: %.150s lacks %s", path, missing);
        return MUSTER_OK;
    }
    const char *config = control.get_config();
    bool wide = strstr(config, "USE64BITINT") != NULL, serial = control.get_parallel() == 0;
    if (wide || serial) {
        snprintf(description, sizeof description, "no BLAS: %.100s (%.60s) %s", path, config,
                 wide ? "has 64-bit integers, Muster calls the variant with 32-bit integers"
                      : "is a serial build, which gives wrong results when called from several threads");
        forget_functions();
        return MUSTER_OK;
    }
    snprintf(description, sizeof description, "%.200s", config);
    return has_address_space(1) ? check_products() : MUSTER_OK;
}

/* OpenBLAS may start threads to reach this number. */
static void set_threads(int count) {
    const sigset_t before = mst_signals_block();
    control.set_num_threads(count);
    mst_signals_restore(&before);
}

/* For the first runtime. OpenBLAS starts its threads while it is opened. */
static muster_status open_first(void) {
    forget_functions();
    threads_found = 0;
    return library ? load(NULL) : mst_own_thread_run(load, NULL, "muster_runtime_open: OpenBLAS");
}

static muster_status open_counted(bool keep_threads, bool keep_if_open) {
    pthread_mutex_lock(&lock);
    const bool keep = keep_threads || (keep_if_open && opened_count > 0);
    const muster_status status = opened_count == 0 ? open_first() : MUSTER_OK;
    if (status == MUSTER_OK) opened_count++;
    /* The first open without keep_threads changes the setting, so that a runtime with keep_threads
     * does not keep the others from doing so. */
    if (status == MUSTER_OK && !keep && threads_found == 0 && control.set_num_threads) {
        threads_found = control.get_num_threads();
        set_threads(1);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

muster_status mst_blas_open(bool keep_threads) { return open_counted(keep_threads, false); }
muster_status mst_blas_use(void) { return open_counted(false, true); }

void mst_blas_close(void) {
    pthread_mutex_lock(&lock);
    if (opened_count > 0 && --opened_count == 0) {
        /* A number other than 1 is the program's own choice since then. */
        if (threads_found > 0 && control.get_num_threads() == 1) set_threads(threads_found);
        /* The threads of a library that only Muster uses end: they block all signals, and keep a
         * process whose main thread has ended. A program that multiplies starts them again. */
        if (library_is_ours && control.end_threads) control.end_threads();
        threads_found = 0;
        forget_functions();
        snprintf(description, sizeof description, "BLAS is not open");
    }
    pthread_mutex_unlock(&lock);
}

const mst_blas *mst_blas_get(void) { return &blas; }

void mst_blas_get_facts(mst_library_facts *facts) {
    if (mst_blas_use() != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    pthread_mutex_lock(&lock);
    snprintf(facts->text, sizeof facts->text, "%s", description);
    if (blas.sgemm) {
        (void)sscanf(description, "OpenBLAS %63s", facts->version);
        mst_library_found(facts, &blas.sgemm);
    }
    pthread_mutex_unlock(&lock);
    mst_blas_close();
}
