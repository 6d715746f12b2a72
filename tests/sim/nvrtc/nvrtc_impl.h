/* What the files of the simulated NVRTC share. */
#ifndef MUSTER_SIM_NVRTC_IMPL_H
#define MUSTER_SIM_NVRTC_IMPL_H

#include "nvrtc_api_private.h"
#include "state_impl.h"

#include <stdio.h>

typedef struct unit { /* a text, by the name under which others include it */
    char *name, *text;
} unit;

struct _nvrtcProgram {
    unsigned magic;
    int unit_count;
    unit *units; /* the program's own first */
    char *cubin, *ptx, *log;
};

/* ---- translate.c ---- */
/* The preprocessed text as C++ for the host, and behind it the table of its kernels; malloced, as
 * is *names: a line "kernel NAME" for
 * each. NULL: out of memory. */
char *nvrtc_translate(const char *text, char **names);

/* ---- compile.c ---- */
enum { NVRTC_ARGUMENTS_MAX = 64 };
/* A program of the user's, for `architecture`. names: as nvrtc_translate; line: its object as a
 * line of an image, "object BYTES HASH HEX";
 * log: also after a failure. All malloced, or NULL. options: as the caller gave them, -D among
 * them. */
mst_nvrtc_result nvrtc_compile_user(mst_nvrtc_program program, int architecture, int option_count, const char *const *options, char **names,
                                    char **line, char **log);

#endif
