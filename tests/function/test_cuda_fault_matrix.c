/* The matrix foreign symbol x failure: a small program lives with one call of one symbol failing,
 * and fails with it in words that say where, leaves nothing behind, does not hang, and the next one
 * is right. A symbol of the lists that is not reached fails the test, but for those below. */
#include "cuda_program.h"

#include "base_seed.h"
#include "cuda/cublas_api_private.h"
#include "cuda/cuda_api_private.h"
#include "cuda/nvrtc_api_private.h"
#include "nccl/nccl_api_private.h"

typedef enum { FAILS, MEMORY, LOST, STALLS, QUEUE_STALLS, FAILURES } failure;
static const char *const failure_names[FAILURES] = {"fails", "is out of memory", "loses its device", "stands still",
                                                    "meets a queue that stands still"};
/* SECONDS: some for who has a processor, many for who has a tenth of one */
enum { SYMBOLS_MAX = 128, SECONDS = 150, VIRTUAL_SAMPLE = 5 };
#define PATIENT_NS 30000000000LL
#define IMPATIENT_NS 100000000LL

/* Of the lists, but not for what the program does; with what they are for. */
static const struct {
    const char *name, *reason;
} elsewhere[] = {
    {"cuStreamSynchronize", "Muster polls; for tests"},
    {"cuFuncIsLoaded", "for tests"},
    {"cuFuncLoad", "for kernels of the program's: device/test_cuda_program_limits"},
    {"cuFuncGetParamInfo", "for kernels of the program's: device/test_cuda_program_limits"},
    {"cuFuncSetAttribute", "as cuFuncGetParamInfo"},
    {"cuDeviceTotalMem_v2", "nobody asks for it"},
    {"cuMemAllocManaged", "for tests"},
    {"cuMemcpyPeerAsync", "nobody asks for it"},
    {"cuStreamGetCtx", "for the adoption of a stream: device/test_cuda_queue"},
    {"cuStreamIsCapturing", "for streams of the program: device/test_cuda_capture"},
    {"nvrtcGetPTXSize", "for GPUs that are newer than NVRTC: device/test_cuda_code"},
    {"nvrtcGetPTX", "as nvrtcGetPTXSize"},
    {"nvrtcGetProgramLog", "for texts about which NVRTC has something to say"},
    {"cublasGemmEx_64", "for products of more than 2^31 rows: device/test_cuda_code"},
    {"ncclCommSplit", "parts are made from an id of their own"},
    {"ncclRedOpCreatePreMulSum", "nobody asks for it"},
    {"ncclRedOpDestroy", "nobody asks for it"},
};

/* A failure of these does not fail the program: it does without. */
static const char *const tolerated[] = {
    "cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuModuleUnload", "cuStreamDestroy_v2", "cuEventDestroy_v2",
    "cuDevicePrimaryCtxRelease_v2",
    /* what is given up is gone */
    "cublasDestroy_v2", "nvrtcDestroyProgram", "ncclCommDestroy", "ncclCommFinalize", "ncclCommAbort",
    "cuMemGetInfo_v2",                   /* it only knows less about the memory */
    "cuStreamQuery",                     /* asked when a peer is tried and when a device is closed, and again */
    "cublasGetVersion_v2",               /* for the description */
    "nvrtcGetProgramLogSize",            /* the text has compiled */
    "cuPointerGetAttributes",            /* memory of which it says nothing is staged */
    "cuThreadExchangeStreamCaptureMode", /* to put a thread's mode back is tried again */
    "cuModuleGetLoadingMode",            /* for the description */
    "cuMemHostRegister_v2",              /* memory that cannot be locked is staged, or locked for reading only */
};

typedef struct fault_case {
    const char *symbol;
    int way; /* of program_devices */
    failure failure;
    uint64_t kth;
    const char *provoke; /* a call that fails too, so that there is an error to be named; NULL: none */
} fault_case;

/* What the processes of the cases tell the test. */
typedef struct census {
    uint64_t calls[2][SYMBOLS_MAX];
} census;
static census *counts;
static uint64_t random_state;

static uint64_t pick(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

#define NAME(result, name, arguments) #name,
static const char *const symbols[] = {MST_CUDA_SYMBOLS(NAME) MST_CUDA_OPTIONAL_SYMBOLS(NAME) MST_CUBLAS_SYMBOLS(
    NAME) MST_CUBLAS_OPTIONAL_SYMBOLS(NAME) MST_NVRTC_SYMBOLS(NAME) MST_NCCL_SYMBOLS(NAME) MST_NCCL_OPTIONAL_SYMBOLS(NAME)};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static const char *library_of(const char *symbol) {
    return strncmp(symbol, "cublas", 6) == 0  ? "cublas"
           : strncmp(symbol, "nvrtc", 5) == 0 ? "nvrtc"
           : strncmp(symbol, "nccl", 4) == 0  ? "nccl"
                                              : "cuda";
}

static int code_of(const char *symbol, failure failure) {
    const char *library = library_of(symbol);
    if (strcmp(library, "cublas") == 0) return failure == MEMORY ? MST_CUBLAS_ALLOC_FAILED : MST_CUBLAS_INTERNAL_ERROR;
    if (strcmp(library, "nvrtc") == 0) return failure == MEMORY ? MST_NVRTC_OUT_OF_MEMORY : MST_NVRTC_INTERNAL_ERROR;
    if (strcmp(library, "nccl") == 0) return failure == MEMORY ? MST_NCCL_UNHANDLED_CUDA_ERROR : MST_NCCL_INTERNAL_ERROR;
    return failure == MEMORY ? MST_CU_OUT_OF_MEMORY : MST_CU_UNKNOWN;
}

static bool is_tolerated(const char *symbol) {
    for (size_t i = 0; i < sizeof tolerated / sizeof *tolerated; i++)
        if (tolerated[i] && strcmp(tolerated[i], symbol) == 0) return true;
    return false;
}

static const char *reason_of(const char *symbol) {
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (elsewhere[i].name && strcmp(elsewhere[i].name, symbol) == 0) return elsewhere[i].reason;
    return NULL;
}

static void take_notices(apart *a) {
    char notice[MST_MESSAGE_SIZE];
    while (mst_cuda_take_notice(notice)) strncat(a->note, notice, APART_TEXT - strlen(a->note) - 1);
}

/* The call, or one behind it at the end of the device, waits for the device's queues by itself:
 * nobody can end a wait in there, so the queue must go on. */
static bool waits_itself(const char *symbol) {
    static const char *const names[] = {"cuMemFree_v2",         "cuMemFreeHost",     "cuMemHostUnregister",
                                        "cuMemHostRegister_v2", "cuModuleUnload",    "cuDevicePrimaryCtxRelease_v2",
                                        "cuStreamDestroy_v2",   "cuEventDestroy_v2", "cublasDestroy_v2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], symbol) == 0) return true;
    return false;
}

static void inject(const fault_case *c) {
    switch (c->failure) {
    case LOST:
        muster_sim_inject_lost(c->symbol, c->kth);
        return;
    case STALLS:
        muster_sim_inject_stall(c->symbol, c->kth, 250);
        return;
    case QUEUE_STALLS:
        muster_sim_inject_queue_stall(c->symbol, c->kth, waits_itself(c->symbol) ? 250 : 0);
        return;
    default:
        muster_sim_inject(c->symbol, c->kth, code_of(c->symbol, c->failure));
    }
}

/* The message names the symbol; where the failure shows elsewhere, the device or the rank. */
static void check_verdict(apart *a, const fault_case *c, muster_status status, const char *message, const char *log) {
    const bool named = strstr(message, c->symbol) || (c->provoke && strstr(message, c->provoke));
    const bool located = strstr(message, "cuda:") || strstr(message, "rank ") || strstr(message, "GPU");
    if (strstr(message, "WRONG"))
        apart_wrong(a, "a wrong result: %s", message);
    else if (status == MUSTER_OK && (c->failure == FAILS || c->failure == MEMORY) && !is_tolerated(c->symbol) && !strstr(log, c->symbol) &&
             !strstr(a->note, c->symbol))
        apart_wrong(a, "nobody noticed");
    else if (status != MUSTER_OK && c->failure <= MEMORY && !named)
        apart_wrong(a, "the message does not name it: %s: %s", muster_status_name(status), message);
    else if (status != MUSTER_OK && !named && !located)
        apart_wrong(a, "the message names neither the symbol nor a device nor a rank: %s: %s", muster_status_name(status), message);
}

/* Is it over: nothing left in the library, nothing reported by the machine? */
static void check_left(apart *a, int64_t live) {
    if (mst_memory_live() != live) apart_wrong(a, "%lld blocks leaked", (long long)(mst_memory_live() - live));
    if (!strstr(a->note, "its memory and handles are kept")) muster_sim_check_leaks();
    if (muster_sim_hazard_count()) apart_wrong(a, "the machine reports: %.2000s", muster_sim_hazards());
    muster_sim_hazards_clear();
}

static void live_again(apart *a, program *p, const fault_case *c, int64_t live) {
    p->fail_after_ns = PATIENT_NS;
    muster_status status = program_live(p);
    take_notices(a);
    if (status == MUSTER_DEVICE_LOST && c->failure >= LOST) {
        if (!strstr(muster_last_error(), "cuda:")) apart_wrong(a, "the lost device is not named: %s", muster_last_error());
        program_machine(2);
        status = program_live(p);
        take_notices(a);
    }
    if (status != MUSTER_OK) apart_wrong(a, "the next life: %s: %s", muster_status_name(status), muster_last_error());
    check_left(a, live);
}

static muster_status live_with(const fault_case *c, program *p) {
    program_machine(1);
    if (c->provoke) muster_sim_inject(c->provoke, 1, code_of(c->provoke, FAILS));
    inject(c);
    return program_live(p);
}

static void run_case(apart *a, void *argument) {
    const fault_case *c = argument;
    const bool slow = c->failure >= STALLS;
    program p = program_make(program_devices[c->way], slow ? IMPATIENT_NS : PATIENT_NS);
    char message[MST_MESSAGE_SIZE] = "";
    setenv("MUSTER_COLLECTIVE_ALGORITHM", program_ways[c->way], 1);
    if (slow) mst_cuda_probe_ns = 1000000000;
    program_machine(1);
    const int64_t live = mst_memory_live();
    const uint64_t expected = c->provoke ? 2 : 1;
    muster_status status = live_with(c, &p);
    /* A busy machine was late before anything stood still: again with a longer deadline. The code
     * is TIMEOUT, or UNAVAILABLE where the deadline passed while the runtime was being opened. */
    while (status != MUSTER_OK && muster_sim_injected() < expected && p.fail_after_ns < PATIENT_NS) {
        muster_sim_inject_clear();
        p.fail_after_ns *= 4;
        status = live_with(c, &p);
    }
    if (status != MUSTER_OK) snprintf(message, sizeof message, "%s", muster_last_error());
    snprintf(a->note, APART_TEXT, "%s: %.1500s; log: %.1500s; ", muster_status_name(status), message, p.log);
    take_notices(a);
    const uint64_t calls = muster_sim_calls(c->symbol);
    const bool reached = muster_sim_injected() == expected || (c->provoke && calls > 0);
    if (!reached && c->kth == 1)
        apart_wrong(a, "it was not reached: %llu calls", (unsigned long long)calls);
    else if (!reached && status != MUSTER_OK)
        apart_wrong(a, "%s", message); /* polls come as often as they like */
    else
        check_verdict(a, c, status, message, p.log);
    muster_sim_inject_clear();
    /* the stall is the work that it finds */
    if (c->failure == QUEUE_STALLS && waits_itself(c->symbol)) muster_sim_hazards_clear();
    check_left(a, live);
    live_again(a, &p, c, live);
    program_free(&p);
}

static void count_calls(apart *a, void *argument) {
    const int way = *(int *)argument;
    program p = program_make(program_devices[way], PATIENT_NS);
    setenv("MUSTER_COLLECTIVE_ALGORITHM", program_ways[way], 1);
    program_machine(1);
    const int64_t live = mst_memory_live();
    if (program_live(&p) != MUSTER_OK) apart_wrong(a, "%s: %s", p.devices, muster_last_error());
    take_notices(a);
    if (p.log[0]) apart_wrong(a, "it says: %s", p.log);
    for (int i = 0; i < SYMBOLS; i++) counts->calls[way][i] = muster_sim_calls(symbols[i]);
    check_left(a, live);
    program_free(&p);
}

static const struct {
    const char *symbol, *provoke;
} provoked[] = {
    {"cuGetErrorName", "cuStreamCreate"},         {"cuGetErrorString", "cuStreamCreate"},
    {"cublasGetStatusString", "cublasCreate_v2"}, {"nvrtcGetErrorString", "nvrtcCompileProgram"},
    {"ncclGetErrorString", "ncclAllReduce"},      {"ncclGetLastError", "ncclAllReduce"},
    {"ncclCommAbort", "ncclAllReduce"},           {"cuCtxSetCurrent", "cuCtxPopCurrent_v2"},
};

static const char *provocation_of(const char *symbol) {
    for (size_t i = 0; i < sizeof provoked / sizeof *provoked; i++)
        if (strcmp(provoked[i].symbol, symbol) == 0) return provoked[i].provoke;
    return NULL;
}

/* Each call of these stands elsewhere, and is looked after by other code: all of them fail, up to
 * the middle of the life, behind which some belong to the end of a device. */
static bool is_swept(const char *symbol) {
    static const char *const names[] = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "ncclGetUniqueId"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], symbol) == 0) return true;
    return false;
}

enum { CASES_MAX = 2048 };
static fault_case all_cases[CASES_MAX];
static int case_count, failed_cases, unreached;

static void end_case(apart *a, void *argument) {
    const fault_case *c = argument;
    if (!a->text[0]) return;
    failed_cases++;
    print_error("%s, call %llu on %s, %s: %s\n    %s\n", c->symbol, (unsigned long long)c->kth, program_devices[c->way],
                failure_names[c->failure], a->text, a->note);
}

static void end_count(apart *a, void *argument) {
    if (!a->text[0]) return;
    failed_cases++;
    print_error("%s: %s\n", program_devices[*(int *)argument], a->text);
}

static void add_case(fault_case c) {
    if (case_count == CASES_MAX) abort();
    all_cases[case_count++] = c;
}

/* On the GPUs of their own, and a part of it on virtual devices too; what only those reach, whole
 * on them. sample: one case of so many, and in any case that the symbol fails. */
static void add_symbol(int symbol, int sample) {
    const char *provoke = provocation_of(symbols[symbol]);
    bool reached = false;
    for (int way = 0; way < 2; way++) {
        const uint64_t calls = counts->calls[way][symbol];
        const int one_of = reached ? VIRTUAL_SAMPLE * sample : sample;
        if (provoke ? way == 1 : calls == 0) continue;
        for (failure f = 0; f < FAILURES; f++)
            if (pick((uint64_t)one_of) == 0 || (f == FAILS && !reached))
                add_case((fault_case){symbols[symbol], way, f, way == 0 ? 1 : 1 + pick((calls + 1) / 2), provoke});
        reached = true;
    }
    for (int way = 0; way < 2 && is_swept(symbols[symbol]); way++)
        for (uint64_t kth = 2; kth <= (counts->calls[way][symbol] + 1) / 2; kth++)
            if (pick((uint64_t)sample) == 0) add_case((fault_case){symbols[symbol], way, FAILS, kth, NULL});
    if (reached == (reason_of(symbols[symbol]) == NULL)) return;
    unreached++;
    print_error("%s: %s\n", symbols[symbol], reached ? "is reached, though the list says it is not" : "is never reached");
}

static void every_symbol_may_fail_in_every_way(void **state) {
    (void)state;
    const char *only = getenv("MUSTER_SYMBOL");
    const uint64_t seed = test_seed();
    int ways[] = {0, 1};
    apart_runs counting = {.seconds = SECONDS, .run = count_calls, .ended = end_count},
               runs = {.seconds = SECONDS, .run = run_case, .ended = end_case};
    random_state = seed;
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(counts != MAP_FAILED);
    apart_run_all(&counting, ways, sizeof *ways, 2);
    assert_int_equal(failed_cases, 0);
#ifdef MUSTER_TEST_SANITIZED
    const int sample = test_is_full() ? 1 : 24;
#else
    const int sample = test_is_full() || only ? 1 : 27;
#endif
    for (int i = 0; i < SYMBOLS; i++)
        if (!only || strcmp(only, symbols[i]) == 0) add_symbol(i, sample);
    apart_run_all(&runs, all_cases, sizeof *all_cases, case_count);
    print_message("seed %llu: %d symbols, %d failures, %d cases\n", (unsigned long long)seed, (int)SYMBOLS, (int)FAILURES, case_count);
    if (failed_cases || unreached) fail_msg("%d cases failed, %d symbols were not as listed", failed_cases, unreached);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    setenv("MUSTER_DEVICE_MEMORY", "1048576", 1);
    setenv("MUSTER_SPIN_NS", "0", 1); /* several lives share the processors: they would spin in vain */
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_symbol_may_fail_in_every_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
