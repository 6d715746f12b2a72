/* Access of one GPU to another's memory. The driver can promise it where it does not work: an
 * IOMMU, or PCIe's access control services between the two, may lose what is written, deliver
 * garbage, or never answer. So Muster tries each ordered pair of GPUs once per process, with the
 * kinds of access that it uses: loads and stores of a kernel, and copies in both directions.
 *
 * The attempt runs in a stream of its own, which is left behind if it does not end. */
#include "clock_impl.h"
#include "code/peer_parameters_private.h"
#include "code_impl.h"
#include "cuda_device_private.h"
#include "environment_impl.h"
#include "locale_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 1024 };
static const int64_t AREA = WORDS * (int64_t)sizeof(uint32_t);

int64_t mst_cuda_probe_ns = 5 * 1000000000ll;

/* What is known about the pairs, by ordinal. */
enum { UNTRIED, WORKS, FAILS };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* also held during an attempt */
static uint8_t outcomes[MST_CUDA_DEVICES][MST_CUDA_DEVICES];
static uint32_t attempts; /* so that words of an older attempt are not taken for those of this one */

void mst_cuda_forget_peers(void) {
    pthread_mutex_lock(&lock);
    memset(outcomes, 0, sizeof outcomes);
    pthread_mutex_unlock(&lock);
}

/* ---- one attempt ---- */

/* Three areas of memory on each GPU: what the other side reads, and where the kernel's words and
 * the copy's words arrive. */
enum { SOURCE, BY_KERNEL, BY_COPY, AREAS };
typedef struct probe {
    mst_cuda *local, *remote;
    char *local_memory, *remote_memory;
    mst_cu_stream stream; /* of local */
    uint32_t seed;
    uint32_t words[AREAS * WORDS];
} probe;

/* ---- waiting, for a bounded time ---- */

typedef struct deadline {
    const mst_cuda *cuda;
    int64_t end_ns;
} deadline;

static muster_status peer_expire(void *user) {
    const deadline *d = user;
    if (mst_now_ns() < d->end_ns) return MUSTER_OK;
    return mst_error(MUSTER_TIMEOUT, "%s: trying its peers: copies of %d words between the GPU and the host had not ended after %.3g s",
                     d->cuda->label, WORDS, (double)mst_cuda_probe_ns * 1e-9);
}

/* A call that frees memory of any GPU would wait for work that does not end. */
static void peer_note_stuck(const mst_cuda *cuda) {
    atomic_store(&cuda->physical->stuck, true);
    atomic_store(&mst_cuda_stuck_work, true);
}

static muster_status peer_synchronize(mst_cuda *cuda) {
    mst_device *device = &cuda->head;
    muster_status (*const interrupt)(void *) = device->interrupt;
    void *const user = device->interrupt_user;
    deadline d = {cuda, mst_now_ns() + mst_cuda_probe_ns};
    device->interrupt = peer_expire;
    device->interrupt_user = &d;
    const muster_status status = mst_cuda_synchronize(device);
    device->interrupt = interrupt;
    device->interrupt_user = user;
    if (status == MUSTER_TIMEOUT) peer_note_stuck(cuda);
    return status;
}

/* ---- what is written, and what arrives ---- */

static uint32_t word_at(uint32_t seed, int32_t i) { return (seed * WORDS + (uint32_t)i) * 2654435761u + seed; }

/* Words of the local side and of the remote side differ everywhere. */
static muster_status write_source(probe *p, mst_cuda *cuda, char *memory) {
    const uint32_t seed = 2 * p->seed + (cuda == p->remote);
    for (int32_t i = 0; i < WORDS; i++) p->words[i] = word_at(seed, i);
    MUSTER_TRY(mst_cuda_copy_in(&cuda->head, memory + SOURCE * AREA, p->words, AREA));
    return peer_synchronize(cuda);
}

static muster_status peer_issue(probe *p) {
    static mst_code_kernel kernel = {.name = "mst_peer_probe"};
    const mst_peer_parameters parameters = {.remote_source = (const uint32_t *)(p->remote_memory + SOURCE * AREA),
                                            .local_source = (const uint32_t *)(p->local_memory + SOURCE * AREA),
                                            .local_target = (uint32_t *)(p->local_memory + BY_KERNEL * AREA),
                                            .remote_target = (uint32_t *)(p->remote_memory + BY_KERNEL * AREA),
                                            .count = WORDS};
    mst_device *local = &p->local->head;
    MUSTER_TRY(mst_cuda_launch(local, &kernel, WORDS, &parameters, sizeof parameters));
    MUSTER_TRY(mst_cuda_copy(local, p->local_memory + BY_COPY * AREA, p->remote_memory + SOURCE * AREA, AREA));
    return mst_cuda_copy(local, p->remote_memory + BY_COPY * AREA, p->local_memory + SOURCE * AREA, AREA);
}

/* In the probe's own stream. */
static muster_status peer_issue_apart(probe *p) {
    const mst_cu_stream compute = p->local->compute;
    p->local->compute = p->stream;
    const muster_status status = peer_issue(p);
    p->local->compute = compute;
    return status;
}

static int32_t right_words(const probe *p, int area, uint32_t seed) {
    int32_t right = 0;
    for (int32_t i = 0; i < WORDS; i++) right += p->words[area * WORDS + i] == word_at(seed, i);
    return right;
}

/* How many words arrived in an area by the kernel, and by the copy. */
typedef struct arrived {
    int32_t kernel, copy;
} arrived;

static muster_status count_arrived(probe *p, mst_cuda *cuda, const char *memory, arrived *found) {
    const uint32_t seed = 2 * p->seed + (cuda != p->remote); /* of the other side's source */
    muster_status status = mst_cuda_copy_out(&cuda->head, p->words, memory, AREAS * AREA);
    if (status == MUSTER_OK) status = peer_synchronize(cuda);
    if (status != MUSTER_OK) {
        mst_cuda_discard(cuda); /* a later synchronize would deliver into *p, which is freed by then */
        return status;
    }
    *found = (arrived){right_words(p, BY_KERNEL, seed), right_words(p, BY_COPY, seed)};
    return MUSTER_OK;
}

static void peer_notice(const probe *p, const char *what) {
    char text[MST_MESSAGE_SIZE];
    snprintf(
        text, sizeof text,
        "%s cannot use the memory of %s, although the driver says so: %s. Collectives and copies between the two take other ways. Where "
        "an IOMMU or PCIe's access control services (ACS) are the reason, NCCL needs NCCL_P2P_DISABLE=1",
        p->local->label, p->remote->label, what);
    mst_cuda_add_notice(text);
}

static muster_status peer_judge(probe *p, bool *works) {
    arrived local, remote;
    char what[160];
    MUSTER_TRY(count_arrived(p, p->local, p->local_memory, &local));
    MUSTER_TRY(count_arrived(p, p->remote, p->remote_memory, &remote));
    *works = local.kernel == WORDS && local.copy == WORDS && remote.kernel == WORDS && remote.copy == WORDS;
    if (*works) return MUSTER_OK;
    snprintf(what, sizeof what, "of %d words each, a kernel loaded %d and stored %d, copies read %d and wrote %d rightly", WORDS,
             (int)local.kernel, (int)remote.kernel, (int)local.copy, (int)remote.copy);
    peer_notice(p, what);
    return MUSTER_OK;
}

/* The work that does not end may use the memory of both GPUs for ever. */
static void peer_leave_behind(probe *p) {
    char what[100];
    peer_note_stuck(p->local);
    peer_note_stuck(p->remote);
    mst_snprintf(what, sizeof what, "loads, stores and copies of %d words had not ended after %.3g s", WORDS,
                 (double)mst_cuda_probe_ns * 1e-9);
    peer_notice(p, what);
}

/* *ended: the stream is empty, and the memory may be released. */
static muster_status peer_run_apart(probe *p, bool *ended) {
    mst_cuda_scope scope;
    *ended = true;
    MUSTER_TRY(mst_cuda_begin(p->local, &scope));
    muster_status status = MST_CU(p->local, cuStreamCreate, &p->stream, MST_CU_STREAM_NON_BLOCKING);
    if (status == MUSTER_OK) {
        status = peer_issue_apart(p);
        *ended = mst_cuda_drain_stream(p->local, p->stream, mst_cuda_probe_ns);
        if (*ended) (void)p->local->api->cuStreamDestroy_v2(p->stream);
    }
    return mst_cuda_end(p->local, &scope, status);
}

static muster_status peer_attempt(probe *p, bool *works, bool *ended) {
    MUSTER_TRY(write_source(p, p->local, p->local_memory));
    MUSTER_TRY(write_source(p, p->remote, p->remote_memory));
    const muster_status status = peer_run_apart(p, ended);
    if (!*ended && !mst_cuda_is_lost(p->local)) {
        peer_leave_behind(p);
        return MUSTER_OK;
    }
    MUSTER_TRY(status);
    return *ended ? peer_judge(p, works) : mst_cuda_report_lost(p->local);
}

static muster_status try_pair(mst_cuda *local, mst_cuda *remote, bool *works) {
    void *memory[2] = {NULL, NULL};
    bool ended = true;
    *works = false;
    if (atomic_load(&local->physical->stuck) || atomic_load(&remote->physical->stuck)) return MUSTER_OK;
    probe *p = mst_alloc(sizeof *p);
    if (!p) return mst_out_of_memory("peer access", sizeof *p);
    muster_status status = mst_cuda_allocate(&local->head, AREAS * AREA, &memory[0]);
    if (status == MUSTER_OK) status = mst_cuda_allocate(&remote->head, AREAS * AREA, &memory[1]);
    p->local = local;
    p->remote = remote;
    p->local_memory = memory[0];
    p->remote_memory = memory[1];
    p->seed = ++attempts;
    if (status == MUSTER_OK) status = peer_attempt(p, works, &ended);
    if (ended) mst_cuda_release(&local->head, memory[0]);
    if (ended) mst_cuda_release(&remote->head, memory[1]);
    mst_free(p);
    return status;
}

/* ---- the question ---- */

/* Asks the driver, and enables the access. */
static muster_status peer_enable(mst_cuda *cuda, const mst_cuda *other, bool *access) {
    int can = 0;
    MUSTER_TRY(MST_CU(cuda, cuDeviceCanAccessPeer, &can, cuda->device, other->device));
    if (!can) return MUSTER_OK;
    mst_cu_result result = cuda->api->cuCtxEnablePeerAccess(other->context, 0);
    /* Too many peers, or no support after all: slower ways to copy remain. */
    if (result == MST_CU_TOO_MANY_PEERS || result == MST_CU_PEER_ACCESS_UNSUPPORTED) return MUSTER_OK;
    if (result != MST_CU_PEER_ACCESS_ALREADY_ENABLED) MUSTER_TRY(mst_cuda_check(cuda, result, "cuCtxEnablePeerAccess"));
    *access = true;
    return MUSTER_OK;
}

/* With the lock. A failure of the attempt itself is reported, and the next question tries again. */
static muster_status peer_look_up(mst_cuda *cuda, mst_cuda *other, bool *access) {
    uint8_t *known = &outcomes[cuda->ordinal][other->ordinal];
    bool works = false;
    if (*known == UNTRIED) {
        MUSTER_TRY(try_pair(cuda, other, &works));
        *known = works ? WORKS : FAILS;
    }
    *access = *known == WORKS;
    return MUSTER_OK;
}

muster_status mst_cuda_peer_access(mst_device *device, mst_device *other, bool *access) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    bool enabled = false;
    *access = false;
    if (!mst_device_is_cuda(other)) return MUSTER_OK;
    mst_cuda *peer = mst_cuda_of(other);
    if (peer->context == cuda->context) {
        *access = true;
        return MUSTER_OK;
    }
    if (!cuda->peers) return MUSTER_OK;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    MUSTER_TRY(mst_cuda_end(cuda, &scope, peer_enable(cuda, peer, &enabled)));
    if (!enabled) return MUSTER_OK;
    pthread_mutex_lock(&lock);
    const muster_status status = peer_look_up(cuda, peer, access);
    pthread_mutex_unlock(&lock);
    return status;
}

muster_status mst_cuda_read_peers(mst_cuda *cuda) {
    int64_t number = 1;
    bool is_set;
    if (cuda->settings.p2p == 0) MUSTER_TRY(mst_environment_number("MUSTER_P2P", "0 or 1", 0, 1, &number, &is_set));
    cuda->peers = cuda->settings.p2p >= 0 && number != 0;
    return MUSTER_OK;
}
