/* Programs of the user's in the machine: loaded (user.c), launched (user_launch.c), run block by
 * block (user_block.c), checked for races (user_races.c). The built-in kernel texts are such a
 * program, too, where they are checked (text_launch.c). */
#ifndef MUSTER_SIM_USER_IMPL_H
#define MUSTER_SIM_USER_IMPL_H

#include "shim/mst_program.h"
#include "state_impl.h"

struct sim_program {
    void *library;
    const mst_program_table *table;
    atomic_int references;        /* the module's, and one of each launch that is not done */
    uintptr_t image, image_bytes; /* code and data */
    intptr_t local_offset;        /* of thread-local memory, from what table->here() returns */
    size_t local_bytes;           /* all of it: shared memory, static and dynamic, and `here` */
};

typedef struct user_races user_races;

/* One launch, with its own copy of the parameters. */
typedef struct user_launch {
    sim_module *module;
    sim_program *program;
    const mst_program_kernel *kernel;
    const char *name;
    mst_program_position blocks, threads;
    unsigned shared;
    int device;
    sim_stream *stream;
    atomic_ullong next; /* block to run */
    atomic_uint failed; /* why: the first reason */
    user_races *races;  /* not NULL: one thread of the operating system runs it, with the threads of a block interleaved */
    _Alignas(16) unsigned char packed[];
} user_launch;

/* Of a file, loaded already or not; NULL: it cannot be loaded. */
sim_program *user_program_load(const char *path);

/* Runs blocks until there are no more of them. Several threads may, at the same time. */
void user_blocks_run(user_launch *what);
void user_fail(user_launch *what, sim_result why);
/* ThreadSanitizer's part of an access; NULL without it. */
extern void (*const user_watch)(const void *address, unsigned long bytes, int writes);
/* May the kernel do it? Reports where it may not. */
sim_result user_access(user_launch *what, mst_program_here *here, const void *address, size_t bytes, size_t alignment, bool writes);

/* ---- races (user_races.c), of one launch ---- */
user_races *user_races_begin(int threads, uint64_t seed); /* threads: of a block; NULL: out of memory */
void user_races_end(user_races *races);
uint64_t *user_races_chance(user_races *races); /* for sim_random */
uint64_t user_races_seed(const user_races *races);
void user_races_group(user_races *races, uint64_t number);                 /* a block begins; it is the only one that runs */
void user_races_barrier(user_races *races);                                /* all threads of the block have met */
void user_races_warp_barrier(user_races *races, int warp, unsigned lanes); /* these lanes have met */
void user_races_fence(user_races *races);
/* kind: MST_PROGRAM_READ, ... Reports the launch's first race. */
void user_races_access(user_races *races, const user_launch *what, const void *address, size_t bytes, int kind, int thread, bool shared);
/* Shall launches be checked? Of blocks times threads; the seed in *seed. */
bool user_races_wanted(uint64_t threads, uint64_t *seed);

/* ---- the built-in kernel texts (text_launch.c) ---- */
/* Runs a launch of a built-in kernel as a program of the user's. *checked false: nothing was done,
 * run it otherwise. */
sim_result text_launch_run(const char *kernel, const void *parameters, size_t bytes, int64_t blocks, int32_t threads, sim_stream *stream,
                           bool *checked);

/* launch.c */
enum { SIM_LAUNCH_USERS = 256 };
int sim_launch_users(const void *parameters, size_t bytes, atomic_int **users);
void sim_launch_count(const char *kernel);

#endif
