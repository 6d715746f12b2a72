/* The shim: fills the wire's table from one MPI. It is compiled with that MPI's mpicc, and knows
 * mpi.h, wire_abi.h and the C library, nothing else of Muster. Of MPI it calls what never waits for
 * another process, but for initialising, finalising and freeing: a test reads this file for that.
 * All calls are under one lock, so that several runtimes of a process need no more than
 * MPI_THREAD_SERIALIZED. */
#define _GNU_SOURCE /* dladdr */
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5
#include <mpi-ext.h>
#endif

#include "wire_abi.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPICH 5 has the names, too, and aborts the process in MPIX_Comm_failure_ack. */
#if defined(OPEN_MPI) && defined(MPIX_ERR_PROC_FAILED) && defined(MPIX_ERR_REVOKED)
#define SHIM_ULFM
#endif
struct muster_wire {
    MPI_Comm comm; /* of no use before `opened` */
    int opened;    /* its request was seen done */
    int rank, size;
};
typedef char shim_fits[sizeof(MPI_Request) <= sizeof(muster_wire_request) && sizeof(int) == sizeof(int32_t) ? 1 : -1];

static pthread_mutex_t shim_mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread char shim_text[MPI_MAX_ERROR_STRING + 100]; /* of the last error */
static muster_wire_table shim_table;

static int32_t shim_refuse(const char *what, const char *why, long long value) {
    snprintf(shim_text, sizeof shim_text, "%s: %s %lld", what, why, value);
    return MUSTER_WIRE_ERROR;
}

/* What a code of MPI is for the library; the text is kept. */
static int32_t shim_code(int code, const char *what) {
    if (code == MPI_SUCCESS) return MUSTER_WIRE_OK;
    int class = code, length = 0;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    if (MPI_Error_class(code, &class) != MPI_SUCCESS) class = code;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", code);
    snprintf(shim_text, sizeof shim_text, "%s: %s", what, text);
#ifdef SHIM_ULFM
    if (class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED || class == MPIX_ERR_PROC_FAILED_PENDING) return MUSTER_WIRE_LOST;
#endif
    return MUSTER_WIRE_ERROR;
}

static void shim_lock(void) { pthread_mutex_lock(&shim_mutex); }
static int32_t shim_leave(int code, const char *what) {
    const int32_t result = shim_code(code, what);
    pthread_mutex_unlock(&shim_mutex);
    return result;
}

/* A request as a number: the bits of MPI's handle, but 0 for MPI_REQUEST_NULL. */
static muster_wire_request shim_number(MPI_Request request) {
    muster_wire_request number = 0;
    if (request != MPI_REQUEST_NULL) memcpy(&number, &request, sizeof request);
    return number;
}

static MPI_Request shim_request(muster_wire_request number) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (number) memcpy(&request, &number, sizeof request);
    return request;
}

/* ---- the process ---- */

/* A text of MPI's in one line, with single spaces. */
static void shim_line(char *to, int32_t size, const char *from) {
    int32_t length = 0;
    for (; *from && length + 1 < size; from++) {
        const char c = *from == '\t' || *from == '\n' ? ' ' : *from;
        if (c == ' ' && (length == 0 || to[length - 1] == ' ')) continue;
        to[length++] = c;
    }
    if (size > 0) to[length] = 0;
}

static void shim_version(char *text, int32_t size) {
    char all[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    MPI_Get_library_version(all, &length);
    all[strcspn(all, "\n")] = 0;
    shim_line(text, size, all);
}

static int32_t shim_level(int level) { /* MPI's numbers are in this order, too */
    return (level >= MPI_THREAD_FUNNELED) + (level >= MPI_THREAD_SERIALIZED) + (level >= MPI_THREAD_MULTIPLE);
}

static int32_t shim_state(int32_t *initialised, int32_t *finalised, int32_t *threads) {
    int is = 0, was = 0, level = MPI_THREAD_SINGLE;
    int code = MPI_Initialized(&is);
    if (code == MPI_SUCCESS) code = MPI_Finalized(&was);
    if (code == MPI_SUCCESS && is && !was) code = MPI_Query_thread(&level);
    *initialised = is;
    *finalised = was;
    *threads = shim_level(level);
    return shim_code(code, "MPI_Query_thread");
}

static int32_t shim_initialise(int32_t *threads) {
    int level = MPI_THREAD_SINGLE;
#if defined(SHIM_GLOBAL) || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 4)
    Dl_info info; /* its components look for libmpi's symbols among those of the whole process */
    if (dladdr((void *)(size_t)MPI_Init_thread, &info)) (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
#endif
    shim_lock();
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    *threads = shim_level(level);
    return shim_leave(code, "MPI_Init_thread");
}

static int32_t shim_finalise(void) {
    shim_lock();
    return shim_leave(MPI_Finalize(), "MPI_Finalize");
}

static void shim_abort(muster_wire *wire, int32_t code) { /* without the lock, which may be held for ever */
    MPI_Abort(wire && wire->opened ? wire->comm : MPI_COMM_WORLD, code);
}

static void shim_error(char *text, int32_t size) { shim_line(text, size, shim_text); }

static void shim_host(char *text, int32_t size) {
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length;
    shim_lock();
    (void)shim_leave(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    shim_line(text, size, name);
}

/* ---- communicators ---- */

static int32_t shim_open(int32_t has_parent, int32_t parent, muster_wire **wire, muster_wire_request *request) {
    MPI_Comm from = has_parent ? MPI_Comm_f2c((MPI_Fint)parent) : MPI_COMM_WORLD;
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Request begun = MPI_REQUEST_NULL;
    int between = 0;
    static const char zero[sizeof from]; /* a NULL of MPI_Comm_f2c */
    if (from == MPI_COMM_NULL || !memcmp(&from, zero, sizeof from))
        return shim_refuse("MPI_Comm_f2c", "there is no communicator of the Fortran handle", parent);
    muster_wire *opened = calloc(1, sizeof *opened);
    if (!opened) return shim_refuse("calloc", "no memory for bytes:", (long long)sizeof *opened);
    shim_lock();
    /* Errors of what is no communicator go to the handler of MPI_COMM_WORLD. */
    int code = MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_test_inter(from, &between);
    if (code == MPI_SUCCESS && between) code = MPI_ERR_COMM;
    if (code == MPI_SUCCESS) code = MPI_Comm_idup(from, &opened->comm, &begun);
    if (before != MPI_ERRHANDLER_NULL) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
        MPI_Errhandler_free(&before);
    }
    if (code != MPI_SUCCESS) free(opened);
    if (code == MPI_SUCCESS) *wire = opened, *request = shim_number(begun);
    return shim_leave(code, "MPI_Comm_idup");
}

#ifdef SHIM_ULFM
static int32_t shim_revoke(muster_wire *wire) {
    shim_lock();
    return shim_leave(MPIX_Comm_revoke(wire->comm), "MPIX_Comm_revoke");
}

static int32_t shim_lost(muster_wire *wire, int32_t *ranks, int32_t size, int32_t *count) {
    MPI_Group all = MPI_GROUP_NULL, lost = MPI_GROUP_NULL;
    int number = *count = 0, there;
    shim_lock();
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE); /* lets MPI learn what has happened */
    int code = MPIX_Comm_failure_ack(wire->comm);
    if (code == MPI_SUCCESS) code = MPIX_Comm_failure_get_acked(wire->comm, &lost);
    if (code == MPI_SUCCESS && (code = MPI_Comm_group(wire->comm, &all)) == MPI_SUCCESS) code = MPI_Group_size(lost, &number);
    for (int i = 0; code == MPI_SUCCESS && i < number && i < size; i++) code = MPI_Group_translate_ranks(lost, 1, &i, all, &ranks[i]);
    if (code == MPI_SUCCESS) *count = number;
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    if (lost != MPI_GROUP_NULL && lost != MPI_GROUP_EMPTY) MPI_Group_free(&lost);
    return shim_leave(code, "MPIX_Comm_failure_get_acked");
}

/* What is compiled in need not be switched on (Open MPI: mpirun --with-ft ulfm), nor work. */
static void shim_find_ulfm(muster_wire *wire) {
    MPI_Group lost = MPI_GROUP_NULL;
    const char *on = getenv("OMPI_MCA_mpi_ft_enable");
    if (!on || !strchr("1tTyY", on[0])) return;
    if (MPIX_Comm_failure_ack(wire->comm) != MPI_SUCCESS || MPIX_Comm_failure_get_acked(wire->comm, &lost) != MPI_SUCCESS) return;
    if (lost != MPI_GROUP_NULL && lost != MPI_GROUP_EMPTY) MPI_Group_free(&lost);
    shim_table.revoke = shim_revoke;
    shim_table.lost = shim_lost;
}
#endif

/* When the duplicate is there. */
static int shim_opened(muster_wire *wire) {
    int code = MPI_Comm_set_errhandler(wire->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(wire->comm, &wire->rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(wire->comm, &wire->size);
    wire->opened = code == MPI_SUCCESS;
#ifdef SHIM_ULFM
    if (wire->opened) shim_find_ulfm(wire);
#endif
    return code;
}

static void shim_close(muster_wire *wire) {
    int32_t initialised, finalised, threads;
    shim_state(&initialised, &finalised, &threads);
    shim_lock();
    if (wire->opened && !finalised) MPI_Comm_free(&wire->comm);
    pthread_mutex_unlock(&shim_mutex);
    if (wire->opened) free(wire); /* else MPI may still write to it */
}

static int32_t shim_rank(muster_wire *wire) { return wire->rank; }
static int32_t shim_size(muster_wire *wire) { return wire->size; }

/* ---- messages ---- */

#define SHIM_FITS(count) \
    if ((count) < 0 || (count) > INT_MAX) return shim_refuse(__func__, "expected 0 to 2147483647, received", count)
#define SHIM_BEGIN(function, ...)                                   \
    do {                                                            \
        MPI_Request begun = MPI_REQUEST_NULL;                       \
        shim_lock();                                                \
        const int code = function(__VA_ARGS__, wire->comm, &begun); \
        if (code == MPI_SUCCESS) *request = shim_number(begun);     \
        return shim_leave(code, #function);                         \
    } while (0)

static int32_t shim_send(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    SHIM_FITS(bytes);
    SHIM_BEGIN(MPI_Isend, from, (int)bytes, MPI_BYTE, to, tag);
}

static int32_t shim_send_matched(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag,
                                 muster_wire_request *request) {
    SHIM_FITS(bytes);
    SHIM_BEGIN(MPI_Issend, from, (int)bytes, MPI_BYTE, to, tag);
}

static int32_t shim_receive(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *request) {
    SHIM_FITS(bytes);
    SHIM_BEGIN(MPI_Irecv, to, (int)bytes, MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from, tag);
}

static void shim_status(const MPI_Status *from, muster_wire_status *to) {
    int bytes = 0;
    if (!to) return;
    if (MPI_Get_count(from, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes == MPI_UNDEFINED) bytes = 0;
    to->from = from->MPI_SOURCE;
    to->tag = from->MPI_TAG;
    to->bytes = bytes;
}

enum { SHIM_SOME = 64 }; /* as many as are tested at once */

/* At most SHIM_SOME requests; `first` is the number of the first. */
static int shim_test_few(int32_t count, int32_t first, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                         muster_wire_status *statuses) {
    MPI_Request few[SHIM_SOME];
    MPI_Status ended[SHIM_SOME];
    int numbers[SHIM_SOME], number = 0, code, worst = MPI_SUCCESS;
    memset(ended, 0, (size_t)count * sizeof *ended); /* MPI leaves out what only receives have */
    for (int32_t i = 0; i < count; i++) few[i] = shim_request(requests[i]);
    code = MPI_Testsome(count, few, &number, numbers, ended);
    if (number == MPI_UNDEFINED || (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)) return code;
    for (int32_t i = 0; i < number; i++) {
        const int32_t which = numbers[i];
        if (code == MPI_ERR_IN_STATUS && ended[i].MPI_ERROR != MPI_SUCCESS) worst = ended[i].MPI_ERROR;
        requests[which] = shim_number(few[which]);
        if (requests[which]) continue; /* a receive from any process, one of which has ended */
        if (statuses) shim_status(&ended[i], &statuses[*done_count]);
        done[(*done_count)++] = first + which;
    }
    return worst;
}

static int32_t shim_test(muster_wire *wire, muster_wire_request *request, int32_t *done, muster_wire_status *status) {
    int32_t count = 0, number;
    shim_lock();
    int code = shim_test_few(*request != 0, 0, request, &count, &number, status);
    if (code == MPI_SUCCESS && count && !wire->opened) code = shim_opened(wire);
    *done = !*request;
    return shim_leave(code, "MPI_Test");
}

static int32_t shim_test_some(muster_wire *wire, int32_t count, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                              muster_wire_status *statuses) {
    int code = MPI_SUCCESS;
    (void)wire;
    *done_count = 0;
    shim_lock();
    for (int32_t first = 0; first < count && code == MPI_SUCCESS; first += SHIM_SOME) {
        const int32_t few = count - first < SHIM_SOME ? count - first : SHIM_SOME;
        code = shim_test_few(few, first, requests + first, done_count, done, statuses);
    }
    return shim_leave(code, "MPI_Testsome");
}

static int32_t shim_probe(muster_wire *wire, int32_t from, int32_t tag, int32_t *there, muster_wire_status *status) {
    MPI_Status found;
    int flag = 0;
    shim_lock();
    const int code = MPI_Iprobe(from < 0 ? MPI_ANY_SOURCE : from, tag, wire->comm, &flag, &found);
    *there = code == MPI_SUCCESS && flag;
    if (*there) shim_status(&found, status);
    return shim_leave(code, "MPI_Iprobe");
}

/* A receive whose message is on its way stays, with an error, until it is done. */
static int32_t shim_cancel(muster_wire *wire, muster_wire_request *request) {
    MPI_Request one = shim_request(*request);
    int flag = 0, code;
    (void)wire;
    if (!*request) return MUSTER_WIRE_OK;
    shim_lock();
    code = MPI_Cancel(&one);
    for (int i = 0; code == MPI_SUCCESS && !flag && i < 100; i++) code = MPI_Test(&one, &flag, MPI_STATUS_IGNORE);
    *request = shim_number(one);
    const int32_t result = shim_leave(*request ? code : MPI_SUCCESS, "MPI_Cancel");
    return result == MUSTER_WIRE_OK && *request ? shim_refuse("MPI_Cancel", "a message is on its way; tests:", 100) : result;
}

/* ---- collectives ---- */

static MPI_Datatype shim_type(int32_t type) {
    const MPI_Datatype types[] = {MPI_INT8_T,   MPI_UINT8_T, MPI_INT16_T,  MPI_UINT16_T, MPI_INT32_T,
                                  MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT,    MPI_DOUBLE};
    return type < 0 || type > MUSTER_WIRE_F64 ? MPI_DATATYPE_NULL : types[type];
}

static MPI_Op shim_op(int32_t operation) {
    const MPI_Op operations[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
    return operation < 0 || operation > MUSTER_WIRE_MIN ? MPI_OP_NULL : operations[operation];
}

static int32_t shim_all_reduce(muster_wire *wire, const void *from, void *to, int64_t count, int32_t type, int32_t operation,
                               muster_wire_request *request) {
    SHIM_FITS(count);
    SHIM_BEGIN(MPI_Iallreduce, from == to ? MPI_IN_PLACE : from, to, (int)count, shim_type(type), shim_op(operation));
}

static int32_t shim_reduce_scatter(muster_wire *wire, const void *from, void *to, const int32_t *counts, int32_t type, int32_t operation,
                                   muster_wire_request *request) {
    SHIM_BEGIN(MPI_Ireduce_scatter, from == to ? MPI_IN_PLACE : from, to, counts, shim_type(type), shim_op(operation));
}

static int32_t shim_broadcast(muster_wire *wire, void *buffer, int64_t bytes, int32_t root, muster_wire_request *request) {
    SHIM_FITS(bytes);
    SHIM_BEGIN(MPI_Ibcast, buffer, (int)bytes, MPI_BYTE, root);
}

static int32_t shim_all_gather(muster_wire *wire, const void *from, int32_t bytes, void *to, const int32_t *counts, const int32_t *offsets,
                               muster_wire_request *request) {
    const void *contribution = (const char *)to + offsets[wire->rank] == from ? MPI_IN_PLACE : from;
    SHIM_BEGIN(MPI_Iallgatherv, contribution, bytes, MPI_BYTE, to, counts, offsets, MPI_BYTE);
}

static int32_t shim_all_to_all(muster_wire *wire, const void *from, const int32_t *send_counts, const int32_t *send_offsets, void *to,
                               const int32_t *receive_counts, const int32_t *receive_offsets, muster_wire_request *request) {
    SHIM_BEGIN(MPI_Ialltoallv, from, send_counts, send_offsets, MPI_BYTE, to, receive_counts, receive_offsets, MPI_BYTE);
}

/* ---- the symbol ---- */

#define SHIM_TEXT_OF(number) #number
#define SHIM_TEXT(number) SHIM_TEXT_OF(number)
#if defined(OPEN_MPI)
#define SHIM_NAME "Open MPI " SHIM_TEXT(OMPI_MAJOR_VERSION) "." SHIM_TEXT(OMPI_MINOR_VERSION) "." SHIM_TEXT(OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define SHIM_NAME "MPICH " MPICH_VERSION
#else
#define SHIM_NAME "an MPI of version " SHIM_TEXT(MPI_VERSION) "." SHIM_TEXT(MPI_SUBVERSION)
#endif

/* clang-format off */
static muster_wire_table shim_table = {
    MUSTER_WIRE_ABI, (int32_t)sizeof(muster_wire_table), SHIM_NAME,
    shim_version, shim_state, shim_initialise, shim_finalise, shim_abort, shim_error,
    shim_open, shim_close, shim_rank, shim_size, shim_host,
    shim_send, shim_send_matched, shim_receive, shim_test, shim_test_some, shim_probe, shim_cancel,
    shim_all_reduce, shim_reduce_scatter, shim_broadcast, shim_all_gather, shim_all_to_all,
    NULL, NULL, /* revoke, lost: shim_find_ulfm */
};
/* clang-format on */

__attribute__((visibility("default"))) const muster_wire_table *muster_wire_1(int32_t abi);
const muster_wire_table *muster_wire_1(int32_t abi) { return abi == MUSTER_WIRE_ABI ? &shim_table : NULL; }
