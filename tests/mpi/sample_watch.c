/* A library that samples_suite.py preloads into samples: counts the rows that bodies of the program
 * compute in this process, and what the process sends by Open MPI, and writes both to the file
 * MUSTER_SAMPLE_WATCH when the process exits. */
#include "muster/function.h"
#include "muster/runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t rows, messages, bytes;

static void *symbol_of(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found) return found;
    fprintf(stderr, "sample_watch: there is no %s\n", name);
    abort();
}

static __attribute__((destructor)) void write_counts(void) {
    const char *path = getenv("MUSTER_SAMPLE_WATCH");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%lld %lld %lld\n", (long long)rows, (long long)messages, (long long)bytes);
    fclose(file);
}

/* ---- bodies ---- */

/* What a function has as its user's pointer instead; never freed. */
typedef struct watched {
    const muster_runtime *runtime;
    muster_body body;
    void *user;
} watched;

static muster_status watch_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    const watched *its = user;
    /* what one device computes for all is computed in every process */
    if (muster_worker_size(worker) == muster_runtime_size(its->runtime) && muster_worker_rows(worker) > 0)
        atomic_fetch_add(&rows, muster_worker_rows(worker));
    return its->body(worker, in, out, its->user);
}

/* A function of a compiled graph is known by its body, and stays as it is. */
muster_status muster_function_create(muster_runtime *runtime, const char *name, muster_body body, void *user, muster_function **function) {
    muster_status (*create)(muster_runtime *, const char *, muster_body, void *, muster_function **);
    *(void **)&create = symbol_of(RTLD_NEXT, "muster_function_create");
    watched *its = malloc(sizeof *its);
    if (!its || !body) abort();
    *its = (watched){runtime, body, user};
    return create(runtime, name, watch_body, its, function);
}

/* ---- sends: the handles of Open MPI are pointers ---- */

int MPI_Isend(const void *data, int count, void *datatype, int to, int tag, void *communicator, void **request);
int MPI_Issend(const void *data, int count, void *datatype, int to, int tag, void *communicator, void **request);
typedef int (*mpi_send)(const void *, int, void *, int, int, void *, void **);

static int find_mpi(struct dl_phdr_info *info, size_t size, void *path) {
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name || strncmp(name, "/libmpi.so", 10) != 0) return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

/* MPI is in the library that the shim was opened with, whose symbols the others do not see. */
static mpi_send send_of(const char *name) {
    const char *path = "libmpi.so";
    mpi_send send;
    dl_iterate_phdr(find_mpi, &path);
    *(void **)&send = symbol_of(dlopen(path, RTLD_LAZY | RTLD_NOLOAD), name);
    return send;
}

static void count_send(int count) {
    atomic_fetch_add(&messages, 1);
    atomic_fetch_add(&bytes, count);
}

int MPI_Isend(const void *data, int count, void *datatype, int to, int tag, void *communicator, void **request) {
    static _Atomic mpi_send send;
    if (!send) send = send_of("PMPI_Isend");
    count_send(count);
    return send(data, count, datatype, to, tag, communicator, request);
}

int MPI_Issend(const void *data, int count, void *datatype, int to, int tag, void *communicator, void **request) {
    static _Atomic mpi_send send;
    if (!send) send = send_of("PMPI_Issend");
    count_send(count);
    return send(data, count, datatype, to, tag, communicator, request);
}
