/* Programs of the user's in the machine: loaded (user.c), launched (user_launch.c), run block by
 * block (user_block.c). */
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
    _Alignas(16) unsigned char packed[];
} user_launch;

/* Runs blocks until there are no more of them. Several threads may, at the same time. */
void user_blocks_run(user_launch *what);
void user_fail(user_launch *what, sim_result why);
/* May the kernel do it? Reports where it may not. */
/* ThreadSanitizer's part of an access; NULL without it. */
extern void (*const user_watch)(const void *address, unsigned long bytes, int writes);
sim_result user_access(user_launch *what, mst_program_here *here, const void *address, size_t bytes, size_t alignment, bool writes);

/* launch.c */
enum { SIM_LAUNCH_USERS = 256 };
int sim_launch_users(const void *parameters, size_t bytes, atomic_int **users);
void sim_launch_count(const char *kernel);

#endif
