/* The exported functions: what each checks, and what it hands on. */
#include "nccl_sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

SIM_EXPORT int muster_simulated;
int muster_simulated = 1;

const char *const nccl_kind_names[] = {"AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
                                       "AlltoAll",  "Gather", "Scatter",   "Send",      "Recv"};

#define DECLARE(result, name, arguments) SIM_EXPORT result name arguments;
MST_NCCL_SYMBOLS(DECLARE)
MST_NCCL_OPTIONAL_SYMBOLS(DECLARE)

#define NUMBER(result, name, arguments) SYMBOL_##name,
enum { MST_NCCL_SYMBOLS(NUMBER) MST_NCCL_OPTIONAL_SYMBOLS(NUMBER) SYMBOLS };
#define ROW(result, function, arguments) {.name = #function},
static sim_symbol symbols[SYMBOLS] = {MST_NCCL_SYMBOLS(ROW) MST_NCCL_OPTIONAL_SYMBOLS(ROW)};
static const int codes[] = {MST_NCCL_UNHANDLED_CUDA_ERROR, MST_NCCL_SYSTEM_ERROR, MST_NCCL_INTERNAL_ERROR, MST_NCCL_INVALID_USAGE,
                            MST_NCCL_REMOTE_ERROR};

__attribute__((constructor)) static void enlist(void) {
    sim_symbols_add("nccl", symbols, SYMBOLS, codes, (int)(sizeof codes / sizeof *codes));
}

/* ---- errors ---- */

static _Thread_local char last_error[256];

mst_nccl_result nccl_fail(mst_nccl_result result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return result;
}

static int device_of(struct ncclComm *comm) { return comm && comm->magic == NCCL_COMM_MAGIC ? comm->device : -1; }

/* The code that is injected here, 0: none. */
static mst_nccl_result enter(int symbol, int device) {
    unsigned code = sim_enter(&symbols[symbol], device);
    return code ? nccl_fail(code, "injected into %s", symbols[symbol].name) : MST_NCCL_SUCCESS;
}
#define ENTER(name, device) enter(SYMBOL_##name, device)

const char *ncclGetErrorString(mst_nccl_result result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                        "internal error - please report this issue to the NCCL developers",
                                        "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                        "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    if (ENTER(ncclGetErrorString, -1) != MST_NCCL_SUCCESS || result >= sizeof texts / sizeof *texts) return "unknown result code";
    return texts[result];
}

const char *ncclGetLastError(struct ncclComm *comm) {
    static _Thread_local char copy[sizeof last_error];
    memcpy(copy, last_error, sizeof copy);
    return ENTER(ncclGetLastError, device_of(comm)) == MST_NCCL_SUCCESS ? copy : "";
}

mst_nccl_result ncclGetVersion(int *version) {
    mst_nccl_result result = ENTER(ncclGetVersion, -1);
    if (result != MST_NCCL_SUCCESS) return result;
    if (!version) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "GetVersion : version argument is NULL");
    *version = NCCL_CODE;
    return MST_NCCL_SUCCESS;
}

/* ---- communicators ---- */

mst_nccl_result ncclGetUniqueId(mst_nccl_id *id) {
    mst_nccl_result result = ENTER(ncclGetUniqueId, -1);
    if (result != MST_NCCL_SUCCESS) return result;
    return id ? nccl_id_make(id) : nccl_fail(MST_NCCL_INVALID_ARGUMENT, "GetUniqueId : out argument is NULL");
}

mst_nccl_result ncclCommInitRankConfig(struct ncclComm **comm, int size, mst_nccl_id id, int rank, mst_nccl_config *config) {
    mst_nccl_result result = ENTER(ncclCommInitRankConfig, -1);
    const bool hangs = result == MST_NCCL_IN_PROGRESS;
    nccl_group_start();
    if (result == MST_NCCL_SUCCESS || hangs)
        result = nccl_join(comm, size, &id, rank, config, hangs);
    else if (comm)
        *comm = NULL;
    return nccl_group_end(result);
}

mst_nccl_result ncclCommSplit(struct ncclComm *comm, int color, int key, struct ncclComm **part, mst_nccl_config *config) {
    mst_nccl_result result = ENTER(ncclCommSplit, device_of(comm));
    nccl_group_start();
    if (result == MST_NCCL_SUCCESS) result = nccl_check_ready(comm, "CommSplit");
    if (result == MST_NCCL_SUCCESS) result = nccl_split_enter(comm, color, key, part, config);
    return nccl_group_end(result);
}

mst_nccl_result ncclCommGetAsyncError(struct ncclComm *comm, mst_nccl_result *error) {
    mst_nccl_result result = ENTER(ncclCommGetAsyncError, device_of(comm));
    if (result == MST_NCCL_SUCCESS) result = nccl_check(comm, "ncclGetAsyncError");
    if (result == MST_NCCL_SUCCESS && !error)
        result = nccl_fail(MST_NCCL_INVALID_ARGUMENT, "ncclGetAsyncError : asyncError argument is NULL");
    if (result == MST_NCCL_SUCCESS)
        *error = comm->blocking ? atomic_load_explicit(&comm->state, memory_order_relaxed) : nccl_progress(comm, false);
    return result;
}

mst_nccl_result ncclCommFinalize(struct ncclComm *comm) {
    mst_nccl_result result = ENTER(ncclCommFinalize, device_of(comm));
    const bool hangs = result == MST_NCCL_IN_PROGRESS;
    if ((result != MST_NCCL_SUCCESS && !hangs) || !comm) return result;
    result = nccl_check_ready(comm, "CommFinalize");
    return result == MST_NCCL_SUCCESS ? nccl_finalize(comm, hangs) : result;
}

/* An injected failure is only told: what ends a communicator ends it. */
mst_nccl_result ncclCommDestroy(struct ncclComm *comm) {
    mst_nccl_result injected = ENTER(ncclCommDestroy, device_of(comm));
    if (!comm) return injected;
    nccl_group_start();
    mst_nccl_result result = nccl_check_ready(comm, "CommDestroy");
    if (result == MST_NCCL_SUCCESS) result = nccl_end(comm, false);
    result = nccl_group_end(result);
    return injected != MST_NCCL_SUCCESS ? injected : result;
}

mst_nccl_result ncclCommAbort(struct ncclComm *comm) {
    mst_nccl_result injected = ENTER(ncclCommAbort, device_of(comm));
    if (!comm) return injected;
    nccl_group_start();
    mst_nccl_result result = nccl_check(comm, "CommAbort");
    if (result == MST_NCCL_SUCCESS) result = nccl_end(comm, true);
    result = nccl_group_end(result);
    return injected != MST_NCCL_SUCCESS ? injected : result;
}

/* ---- groups ---- */

mst_nccl_result ncclGroupStart(void) {
    mst_nccl_result result = ENTER(ncclGroupStart, -1);
    if (result == MST_NCCL_SUCCESS) nccl_group_start();
    return result;
}

mst_nccl_result ncclGroupEnd(void) {
    mst_nccl_result result = ENTER(ncclGroupEnd, -1);
    if (nccl_group_depth() == 0)
        return result != MST_NCCL_SUCCESS ? result : nccl_fail(MST_NCCL_INVALID_USAGE, "ncclGroupEnd: not in a group call.");
    if (result == MST_NCCL_IN_PROGRESS) nccl_group_hang();
    return nccl_group_end(result);
}

/* ---- reductions with a factor ---- */

mst_nccl_result ncclRedOpCreatePreMulSum(unsigned int *operation, void *scalar, unsigned int type, unsigned int residence,
                                         struct ncclComm *comm) {
    mst_nccl_result result = ENTER(ncclRedOpCreatePreMulSum, device_of(comm));
    if (result == MST_NCCL_SUCCESS) result = nccl_check_ready(comm, "ncclRedOpCreatePreMulSum");
    if (result != MST_NCCL_SUCCESS) return result;
    size_t bytes = sim_nccl_type_size(type);
    if (!operation || !scalar || !bytes || residence > MST_NCCL_SCALAR_HOST_IMMEDIATE)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "ncclRedOpCreatePreMulSum : an argument is NULL or unknown");
    for (unsigned i = 0; i < NCCL_OPERATORS; i++) {
        nccl_operator *made = &comm->operators[i];
        if (made->used) continue;
        *made = (nccl_operator){.used = true, .type = type};
        if (residence == MST_NCCL_SCALAR_HOST_IMMEDIATE)
            memcpy(&made->scalar, scalar, bytes);
        else
            made->address = scalar;
        *operation = MST_NCCL_BUILT_IN_OPERATIONS + i +
                     /* another communicator's number means nothing to this one */
                     (unsigned)(comm->clique->number % 1000000) * NCCL_OPERATORS;
        return MST_NCCL_SUCCESS;
    }
    return nccl_fail(MST_NCCL_SYSTEM_ERROR, "no room for more operators");
}

static nccl_operator *operator_of(struct ncclComm *comm, unsigned operation) {
    unsigned first = MST_NCCL_BUILT_IN_OPERATIONS + (unsigned)(comm->clique->number % 1000000) * NCCL_OPERATORS;
    if (operation < first || operation >= first + NCCL_OPERATORS || !comm->operators[operation - first].used) return NULL;
    return &comm->operators[operation - first];
}

mst_nccl_result ncclRedOpDestroy(unsigned int operation, struct ncclComm *comm) {
    mst_nccl_result injected = ENTER(ncclRedOpDestroy, device_of(comm));
    if (operation < MST_NCCL_BUILT_IN_OPERATIONS)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "ncclRedOpDestroy : operator is a NCCL builtin.");
    mst_nccl_result result = nccl_check(comm, "ncclRedOpDestroy");
    nccl_operator *made = result == MST_NCCL_SUCCESS ? operator_of(comm, operation) : NULL;
    if (result == MST_NCCL_SUCCESS && !made)
        result = nccl_fail(MST_NCCL_INVALID_ARGUMENT, "ncclRedOpDestroy : operator unknown to this communicator.");
    if (made) made->used = false;
    return injected != MST_NCCL_SUCCESS ? injected : result;
}

/* ---- operations ---- */

static mst_nccl_result check_in_place(const nccl_operation *o) {
    size_t in, out, part = o->count * sim_nccl_type_size(o->type);
    nccl_bytes(o, &in, &out);
    const char *from = o->from, *to = o->to, *allowed_from = from;
    if (in == 0 || out == 0 || from + in <= to || to + out <= from) return MST_NCCL_SUCCESS;
    if (o->kind == NCCL_ALL_GATHER || o->kind == NCCL_GATHER)
        allowed_from = to + (size_t)o->comm->rank * part;
    else if (o->kind == NCCL_REDUCE_SCATTER || o->kind == NCCL_SCATTER)
        allowed_from = to - (size_t)o->comm->rank * part;
    else if (o->kind == NCCL_ALL_TO_ALL)
        allowed_from = NULL;
    else
        allowed_from = to;
    if (from != allowed_from)
        sim_hazard("%s: rank %d: input and output overlap, and not as NCCL allows it in place", o->symbol, o->comm->rank);
    return MST_NCCL_SUCCESS;
}

/* Its own factor, if it names one. */
static mst_nccl_result check_operator(nccl_operation *o) {
    if (o->operation < MST_NCCL_BUILT_IN_OPERATIONS) return MST_NCCL_SUCCESS;
    const nccl_operator *made = operator_of(o->comm, o->operation);
    if (!made)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "%s : reduction operation %u unknown to this communicator", nccl_kind_names[o->kind],
                         o->operation);
    if (made->type != o->type)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT,
                         "Data type supplied to user-created ncclRedOp_t does not match type given to reduction operation");
    o->scale = *made;
    o->operation = MST_NCCL_BUILT_IN_OPERATIONS; /* all factors are one kind: each rank has its own */
    return MST_NCCL_SUCCESS;
}

static mst_nccl_result check_operation(nccl_operation *o) {
    const char *name = nccl_kind_names[o->kind];
    int size = o->comm->clique->size;
    if (o->root < 0 || o->root >= size)
        return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "%s : invalid root %d (root should be in the 0..%d range)", name, o->root, size);
    if (!sim_nccl_type_size(o->type)) return nccl_fail(MST_NCCL_INVALID_ARGUMENT, "%s : invalid type %u", name, o->type);
    mst_nccl_result result = check_operator(o);
    if (result != MST_NCCL_SUCCESS) return result;
    if (!o->stream || sim_stream_device(o->stream) != o->comm->device)
        return nccl_fail(MST_NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure 'invalid resource handle' (the stream is none of device %d)",
                         o->comm->device);
    return check_in_place(o);
}

static mst_nccl_result operate(int symbol, nccl_operation operation, struct CUstream_st *stream) {
    mst_nccl_result result = enter(symbol, device_of(operation.comm));
    operation.symbol = symbols[symbol].name;
    nccl_group_start();
    if (result == MST_NCCL_SUCCESS) result = nccl_check_ready(operation.comm, nccl_kind_names[operation.kind]);
    if (result == MST_NCCL_SUCCESS) operation.stream = sim_stream_of(stream);
    if (result == MST_NCCL_SUCCESS) result = check_operation(&operation);
    if (result == MST_NCCL_SUCCESS) result = nccl_group_add(&operation);
    return nccl_group_end(result);
}

mst_nccl_result ncclAllReduce(const void *from, void *to, size_t count, unsigned int type, unsigned int operation, struct ncclComm *comm,
                              struct CUstream_st *stream) {
    return operate(SYMBOL_ncclAllReduce,
                   (nccl_operation){
                       .kind = NCCL_ALL_REDUCE, .from = from, .to = to, .count = count, .type = type, .operation = operation, .comm = comm},
                   stream);
}

mst_nccl_result ncclReduce(const void *from, void *to, size_t count, unsigned int type, unsigned int operation, int root,
                           struct ncclComm *comm, struct CUstream_st *stream) {
    return operate(
        SYMBOL_ncclReduce,
        (nccl_operation){
            .kind = NCCL_REDUCE, .from = from, .to = to, .count = count, .type = type, .operation = operation, .root = root, .comm = comm},
        stream);
}

mst_nccl_result ncclBroadcast(const void *from, void *to, size_t count, unsigned int type, int root, struct ncclComm *comm,
                              struct CUstream_st *stream) {
    return operate(
        SYMBOL_ncclBroadcast,
        (nccl_operation){.kind = NCCL_BROADCAST, .from = from, .to = to, .count = count, .type = type, .root = root, .comm = comm}, stream);
}

mst_nccl_result ncclAllGather(const void *from, void *to, size_t send_count, unsigned int type, struct ncclComm *comm,
                              struct CUstream_st *stream) {
    return operate(SYMBOL_ncclAllGather,
                   (nccl_operation){.kind = NCCL_ALL_GATHER, .from = from, .to = to, .count = send_count, .type = type, .comm = comm},
                   stream);
}

mst_nccl_result ncclReduceScatter(const void *from, void *to, size_t receive_count, unsigned int type, unsigned int operation,
                                  struct ncclComm *comm, struct CUstream_st *stream) {
    return operate(SYMBOL_ncclReduceScatter,
                   (nccl_operation){.kind = NCCL_REDUCE_SCATTER,
                                    .from = from,
                                    .to = to,
                                    .count = receive_count,
                                    .type = type,
                                    .operation = operation,
                                    .comm = comm},
                   stream);
}

mst_nccl_result ncclSend(const void *from, size_t count, unsigned int type, int peer, struct ncclComm *comm, struct CUstream_st *stream) {
    return operate(SYMBOL_ncclSend,
                   (nccl_operation){.kind = NCCL_SEND, .from = from, .count = count, .type = type, .root = peer, .comm = comm}, stream);
}

mst_nccl_result ncclRecv(void *to, size_t count, unsigned int type, int peer, struct ncclComm *comm, struct CUstream_st *stream) {
    return operate(SYMBOL_ncclRecv, (nccl_operation){.kind = NCCL_RECV, .to = to, .count = count, .type = type, .root = peer, .comm = comm},
                   stream);
}

mst_nccl_result ncclAlltoAll(const void *from, void *to, size_t count, unsigned int type, struct ncclComm *comm,
                             struct CUstream_st *stream) {
    return operate(SYMBOL_ncclAlltoAll,
                   (nccl_operation){.kind = NCCL_ALL_TO_ALL, .from = from, .to = to, .count = count, .type = type, .comm = comm}, stream);
}

mst_nccl_result ncclGather(const void *from, void *to, size_t count, unsigned int type, int root, struct ncclComm *comm,
                           struct CUstream_st *stream) {
    return operate(SYMBOL_ncclGather,
                   (nccl_operation){.kind = NCCL_GATHER, .from = from, .to = to, .count = count, .type = type, .root = root, .comm = comm},
                   stream);
}

mst_nccl_result ncclScatter(const void *from, void *to, size_t count, unsigned int type, int root, struct ncclComm *comm,
                            struct CUstream_st *stream) {
    return operate(SYMBOL_ncclScatter,
                   (nccl_operation){.kind = NCCL_SCATTER, .from = from, .to = to, .count = count, .type = type, .root = root, .comm = comm},
                   stream);
}
