/* Do outputs that will have left the cache when they are read bypass it? On some machines stores
 * that bypass the cache are faster, since a line that is written whole is not read first; on others
 * they are much slower. So both are tried in the program's own collectives. */
#ifndef MST_STORES_PRIVATE_H
#define MST_STORES_PRIVATE_H

#include "communicator_impl.h"

/* From how many bytes on the outputs of a collective are taken to leave the cache, unless the
 * options say it. Measured with 32 MiB of last-level cache. */
enum { MST_STORES_FROM = 24 << 20 };

/* How one rank writes in one collective. */
typedef struct mst_stores_use {
    bool past_cache;  /* the collective touches so much memory that its outputs may bypass the cache */
    bool streaming;   /* then they do */
    bool asked;       /* some of this rank's outputs could bypass the cache: it made a difference */
    int64_t bytes;    /* that the collective touches */
    int64_t begin_ns; /* 0: this use is not timed */
} mst_stores_use;

/* May an output bypass the cache that was not read before? Then this returns whether it shall. */
static inline bool mst_stores_stream(mst_stores_use *use) {
    if (!use || !use->past_cache) return false;
    use->asked = true;
    return use->streaming;
}

/* The state of a world, which all its communicators share. Without a choice by the options, worker
 * 0 times its part of the collectives past the cache, seven with each kind of stores, of one size
 * for each kind of collective and each class of sizes. Stores that bypass the cache are used from
 * then on if the median with them is at least 10 % better. Nothing is done in addition, and the
 * bits are the same. Class 0 begins at the least size, and each other one at twice the size of the
 * one before: what is faster just past the cache may be slower far from it. */
enum { MST_STORES_SAMPLES = 7, MST_STORES_CLASSES = 4 };
typedef enum { MST_STORES_UNDECIDED, MST_STORES_PLAIN, MST_STORES_STREAMING } mst_stores_decision;
typedef struct mst_stores_trial {
    _Atomic int32_t decision; /* mst_stores_decision */
    /* written by worker 0, before the decision */
    double speedup; /* the median time of plain stores, divided by that of streaming ones */
    int64_t bytes;  /* the size that is timed */
    int32_t others; /* collectives of other sizes since the last of this size */
    int32_t counts[2];
    int64_t ns[2][MST_STORES_SAMPLES]; /* [0] plain, [1] streaming */
} mst_stores_trial;

typedef struct mst_stores {
    int64_t from;  /* bytes; negative: never */
    bool measured; /* else the options have chosen */
    mst_stores_trial trials[MST_COLLECTIVE_COUNT][MST_STORES_CLASSES];
} mst_stores;

/* stores.c. mst_stores_begin and mst_stores_end enclose the work of one rank; `tag` is the same for
 * all ranks of a collective, and another one in the next. stores may be NULL: plain. */
void mst_stores_begin(const mst_stores *stores, mst_collective collective, int64_t bytes, uint64_t tag, bool timed, mst_stores_use *use);
/* Returns true if this has decided. */
bool mst_stores_end(mst_stores *stores, mst_collective collective, const mst_stores_use *use);
bool mst_stores_record(mst_stores_trial *trial, int64_t bytes, bool streaming, int64_t ns);
/* The class of sizes of a collective that touches so many bytes, at least `from`. */
int32_t mst_stores_class(const mst_stores *stores, int64_t bytes);
/* "streaming stores not measured yet", "streaming stores in all_reduce of 64 MiB (1.31 times as
 * fast), not in broadcast of 32 MiB (0.82 times as fast)", "streaming stores from 1 bytes on, as
 * asked for". The sizes are those that were timed: what all ranks together touch. */
void mst_stores_describe(const mst_stores *stores, char *text, size_t size);
/* The option, else the environment's MUSTER_STREAM_BYTES. */
muster_status mst_stores_read(int64_t option, mst_stores *stores);

#endif
