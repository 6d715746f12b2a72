/* Between the simulated machine and a program of the user's that the simulated NVRTC has compiled:
 * the shared object exports one mst_program_table, `mst_program`. For C and C++; no header is
 * included, as NVRTC has none. */
#ifndef MST_PROGRAM_H
#define MST_PROGRAM_H

enum { MST_PROGRAM_VERSION = 2, MST_PROGRAM_SHARED = 232448 /* bytes of dynamic shared memory at most */ };

typedef struct mst_program_position {
    unsigned int x, y, z;
} mst_program_position;

enum { MST_PROGRAM_SEEN = 8 };
typedef struct mst_program_range {
    unsigned long start, bytes;
} mst_program_range;

/* What a thread of the operating system is doing in the program: thread-local there. Addresses
 * within one of the ranges are legal without asking. */
typedef struct mst_program_here {
    mst_program_position thread, block, threads, blocks;
    mst_program_range stack;                  /* of the threads of the block */
    mst_program_range seen[MST_PROGRAM_SEEN]; /* allocations that were used */
    unsigned int next;                        /* of them */
} mst_program_here;

typedef struct mst_program_parameter {
    unsigned int offset, bytes; /* in the packed parameters, as CUDA packs them */
    int pointer;
} mst_program_parameter;

typedef struct mst_program_kernel {
    const char *name;
    void (*run)(const unsigned char *packed); /* as the thread that `here` says */
    const mst_program_parameter *parameters;
    int parameter_count;
    unsigned int packed_bytes;
    int threads; /* that its launch bounds allow, 1024: it has none */
} mst_program_kernel;

/* Kinds of accesses. A fence is said to `watch` alone, with no bytes. */
enum { MST_PROGRAM_READ, MST_PROGRAM_WRITE, MST_PROGRAM_ATOMIC, MST_PROGRAM_FENCE };

/* What the machine does for a running thread of a block. */
typedef struct mst_program_machine {
    /* does not return where the access is illegal */
    void (*check)(const void *address, unsigned long bytes, unsigned long alignment, int kind);
    /* NULL, or wants to know of each legal one that `check` was not asked about, and of fences */
    void (*watch)(const void *address, unsigned long bytes, int kind);
    void (*barrier)(void);
    void (*warp_barrier)(unsigned int mask);
    /* the value of that lane of the warp */
    unsigned long long (*exchange)(unsigned int mask, unsigned long long value, int lane);
    unsigned int (*ballot)(unsigned int mask, int predicate);
    void (*trap)(void);
} mst_program_machine;

typedef struct mst_program_table {
    int version, kernel_count;
    const mst_program_kernel *kernels;
    mst_program_machine *machine;    /* set by the loader */
    mst_program_here *(*here)(void); /* of the calling thread */
    char *(*dynamic)(void);          /* likewise: MST_PROGRAM_SHARED bytes */
} mst_program_table;

#endif
