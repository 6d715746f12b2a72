/* The simulated GPU machine as a test controls it: what machine there is, what goes wrong in it and
 * when, and what its checker saw. Link the target muster_sim; the library under test opens the
 * driver, cuBLAS, cuDNN, NVRTC and NCCL of the same machine when MUSTER_CUDA_LIBRARIES names the
 * folder of these libraries. Every function may be called by any thread, but for reset and
 * check_leaks: no other thread may be in a call then. */
#ifndef MUSTER_SIM_H
#define MUSTER_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_SIM_API __attribute__((visibility("default")))

enum { MUSTER_SIM_DEVICES_MAX = 8 };

/* Zero means the default. The environment gives the defaults of the first machine of a process:
 * MUSTER_SIM_DEVICES, MUSTER_SIM_MEMORY (bytes), MUSTER_SIM_SEED, MUSTER_SIM_DELAY (longest delay
 * in microseconds), MUSTER_SIM_DELAY_ONE_OF (delay_one_of), MUSTER_SIM_PEERS=0, MUSTER_SIM_MIG
 * (mig_instances), MUSTER_SIM_COMPILE (compile_time), and CUDA's CUDA_DEVICE_MAX_CONNECTIONS. */
typedef struct muster_sim_options {
    int devices;     /* 1 to 8; 2 */
    uint64_t memory; /* bytes of each device, at most 4 GiB; 256 MiB */
    uint64_t seed;   /* of every random choice; 1 */
    /* microseconds that a queue waits at most before each entry; none */
    uint32_t longest_delay;
    /* By chance one entry in so many waits; 1. A sleep takes longer than what is asked for. */
    uint32_t delay_one_of;
    int multiprocessors; /* of each device; 4 */
    /* hardware queues of each device, 1 to 32, which its streams share in turn; 8. An entry begins
     * when all that was put into its hardware queue before has begun, in whatever stream. */
    int connections;
    bool no_peers;                                /* no device may read another's memory */
    uint8_t hidden_peers[MUSTER_SIM_DEVICES_MAX]; /* bit j of element i: device i may not read device j's memory */
    /* So many devices, from 0 on, are MIG instances of one GPU: each has a UUID of its own, their
     * names say so, they share the GPU's PCI id, and they have no peers. */
    int mig_instances;
    bool prohibited;                        /* no process may use the devices (nvidia-smi --compute-mode=PROHIBITED) */
    int capability[MUSTER_SIM_DEVICES_MAX]; /* ten times the compute capability of each device; 90 */
    int local_bytes;                        /* of local memory that each thread of a kernel of the user's needs; none */
    /* The driver says that device i may access device j's memory (bit j of element i), but kernels
     * on device i, or copies in its queues, see other memory there; or they never end. */
    uint8_t lying_kernels[MUSTER_SIM_DEVICES_MAX], lying_copies[MUSTER_SIM_DEVICES_MAX], stuck_peers[MUSTER_SIM_DEVICES_MAX];
    bool exclusive_managed; /* the host may not touch managed memory while a device works */
    uint32_t compile_time;  /* microseconds that NVRTC takes for each built-in kernel; none */
} muster_sim_options;

/* Ends the machine, whatever it is doing (queued work is dropped, waiting work is woken), forgets
 * handles, injections, counts and reports, and makes a new one. NULL: the environment's. */
MUSTER_SIM_API void muster_sim_reset(const muster_sim_options *options);

/* ---- injection. symbol: the exported name ("cuMemAlloc_v2"), or NULL for any symbol. kth: 1 is
 * the next call from now on. Each is done once, but for that which is for ever. ---- */
/* The call does nothing and returns `code` of its library (what frees or destroys does its work all
 * the same). A code after which a context cannot be used (700, 719, ...) stays with the context of
 * the call. NCCL's code "in progress" in ncclGroupEnd or ncclCommFinalize: what the call begins on
 * a communicator that does not block stays in progress until the communicator is aborted. The
 * symbol "ncclConnect" is none of NCCL's: it stands for each connection that NCCL makes at first
 * use. */
MUSTER_SIM_API void muster_sim_inject(const char *symbol, uint64_t kth, int code);
/* As muster_sim_inject, and every later call of the symbol fails with the same code. NULL: every
 * call of the driver. What is queued goes on: a GPU that has fallen off the bus, or a driver that
 * cannot say what it is doing (999). */
MUSTER_SIM_API void muster_sim_inject_for_ever(const char *symbol, uint64_t kth, int code);
MUSTER_SIM_API void muster_sim_end_for_ever(void); /* all that is for ever; what stands still stays so */
/* The device of the call (of its stream or its current context) is lost: this and every later call
 * on it fails, what is queued is dropped. */
MUSTER_SIM_API void muster_sim_inject_lost(const char *symbol, uint64_t kth);
/* The call stands still for so long, 0: until muster_sim_release. */
MUSTER_SIM_API void muster_sim_inject_stall(const char *symbol, uint64_t kth, uint32_t milliseconds);
/* The queues of the call's device stand still in front of what the call, and whatever comes after
 * it, puts into them. */
MUSTER_SIM_API void muster_sim_inject_queue_stall(const char *symbol, uint64_t kth, uint32_t milliseconds);
/* Every call from now on fails with this probability, with one of some codes that its library
 * returns; probability 0 ends it. */
MUSTER_SIM_API void muster_sim_inject_random(uint64_t seed, double probability);
/* One stream, a CUstream, stands still from here on: what is put into it now comes later. */
MUSTER_SIM_API void muster_sim_stall_stream(void *stream, uint32_t milliseconds);
MUSTER_SIM_API void muster_sim_release(void);           /* all that stands still goes on */
MUSTER_SIM_API void muster_sim_inject_clear(void);      /* forgets what was not done yet, and releases */
MUSTER_SIM_API uint64_t muster_sim_injected(void);      /* how many were done since the last reset */
MUSTER_SIM_API void muster_sim_lose_device(int device); /* now */

/* ---- races inside of kernels ---- */
/* From now on the threads of a block are interleaved at random, and accesses that race are reported
 * (user_races.c): of kernels of programs that are loaded from now on, and of the built-in kernels,
 * whose texts then run in their branch for GPUs. Launches of more than 2^17 threads run as ever.
 * seed: of the order, changed by each launch; 0 ends it. MUSTER_SIM_RACES in the environment does
 * the same. Does not belong to a machine: a reset changes nothing. */
MUSTER_SIM_API void muster_sim_check_races(uint64_t seed);
/* The built-in kernels pass the barrier of this line of this text as if it were not there; line 0:
 * they obey all. Only while no kernel runs. */
MUSTER_SIM_API void muster_sim_leave_out_barrier(const char *file, int line);
MUSTER_SIM_API uint64_t muster_sim_left_out(void); /* how often threads have passed such a barrier */

/* ---- counts ---- */
MUSTER_SIM_API uint64_t muster_sim_calls(const char *symbol); /* since the last reset; NULL: of all */
/* The symbols of the libraries that are open so far, by index; NULL after the last. library:
 * "cuda", "cublas", "cudnn", "nvrtc" or "nccl". */
MUSTER_SIM_API const char *muster_sim_symbol(int index, const char **library);
/* Calls that waited in the host for what was queued: cuMemFree, copies to pageable memory,
 * cuStreamSynchronize, ... */
MUSTER_SIM_API uint64_t muster_sim_waits(void);
MUSTER_SIM_API uint64_t muster_sim_bytes_to_host(void); /* that copies from devices to host memory had */
/* What a device's allocations use of its memory, in units of 2 MiB; and how much of that is
 * allocated: allocations of up to 1 MiB share units. */
MUSTER_SIM_API uint64_t muster_sim_memory_used(int device);
MUSTER_SIM_API uint64_t muster_sim_memory_taken(int device);
MUSTER_SIM_API uint64_t muster_sim_launches(const char *kernel); /* that have run; NULL: of all */
/* How often NVRTC has compiled the built-in kernel; NULL: of all. */
MUSTER_SIM_API uint64_t muster_sim_compiled(const char *kernel);

/* ---- reports ---- */
/* One line for each broken rule, in the order they were seen; "" when there is none. Valid until
 * the next call of it. */
MUSTER_SIM_API const char *muster_sim_hazards(void);
MUSTER_SIM_API int muster_sim_hazard_count(void);
MUSTER_SIM_API void muster_sim_hazards_clear(void);
/* Reports each handle that is still there, by kind and device; their number. What belongs to a lost
 * device is not counted. */
MUSTER_SIM_API int muster_sim_check_leaks(void);

#ifdef __cplusplus
}
#endif
#endif
