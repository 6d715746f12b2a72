/* The built-in kernel texts as a program in which every access to memory and every barrier is a
 * call, so that the machine can interleave the threads of a block and look for races. The texts are
 * compiled in their branch for GPUs (without MST_SIMULATED) behind mst_program.hh, as a program of
 * the user's is; the shared object exports one mst_texts_control, `mst_texts`, beside its
 * mst_program_table. For C and C++. */
#ifndef MST_TEXTS_H
#define MST_TEXTS_H

typedef struct mst_texts_control {
    /* where the running thread finds what lies at a device address; does not return where there is
     * none. Set by the loader. */
    void *(*address)(const void *device_address);
    /* The barrier that is passed as if it were not there: file (the end of its path) and line; line
     * 0: all are obeyed. For tests: what the check for races must find. */
    const char *left_out_file;
    int left_out_line;
    unsigned long left_out; /* how often it was passed by a thread */
} mst_texts_control;

#endif
