/* The functions of NCCL (libnccl.so.2) that Muster calls, and ncclCommSplit and ncclRedOp*, which
 * only the tests call. Names, types and numbers are those of NVIDIA's nccl.h. */
#ifndef MST_NCCL_API_PRIVATE_H
#define MST_NCCL_API_PRIVATE_H

#include "foreign_impl.h"

#include <limits.h>

typedef unsigned int mst_nccl_result; /* an enum in nccl.h, as are all unsigned ints below */
typedef struct ncclComm *mst_nccl_comm;
struct CUstream_st;
typedef struct mst_nccl_id { /* ncclUniqueId */
    char internal[128];
} mst_nccl_id;

enum {
    MST_NCCL_SUCCESS = 0,
    MST_NCCL_UNHANDLED_CUDA_ERROR = 1,
    MST_NCCL_SYSTEM_ERROR = 2,
    MST_NCCL_INTERNAL_ERROR = 3,
    MST_NCCL_INVALID_ARGUMENT = 4,
    MST_NCCL_INVALID_USAGE = 5,
    MST_NCCL_REMOTE_ERROR = 6,
    MST_NCCL_IN_PROGRESS = 7,
};
/* ncclRedOp_t */
enum { MST_NCCL_SUM = 0, MST_NCCL_PROD = 1, MST_NCCL_MAX = 2, MST_NCCL_MIN = 3, MST_NCCL_AVG = 4, MST_NCCL_BUILT_IN_OPERATIONS = 5 };
enum { /* ncclDataType_t */
       MST_NCCL_INT8 = 0,
       MST_NCCL_UINT8 = 1,
       MST_NCCL_INT32 = 2,
       MST_NCCL_UINT32 = 3,
       MST_NCCL_INT64 = 4,
       MST_NCCL_UINT64 = 5,
       MST_NCCL_FLOAT16 = 6,
       MST_NCCL_FLOAT32 = 7,
       MST_NCCL_FLOAT64 = 8,
       MST_NCCL_BFLOAT16 = 9,
};
enum { MST_NCCL_SCALAR_DEVICE = 0, MST_NCCL_SCALAR_HOST_IMMEDIATE = 1 }; /* ncclScalarResidence_t */
enum { MST_NCCL_NO_COLOR = -1, MST_NCCL_UNDEFINED = INT_MIN };

/* ncclConfig_t as of version 2.18. Later versions only added fields at its end, and the library
 * reads no more than `size` bytes. */
typedef struct mst_nccl_config {
    size_t size;
    unsigned int magic;   /* MST_NCCL_MAGIC */
    unsigned int version; /* MST_NCCL_CONFIG_VERSION */
    int blocking;         /* 0 or 1; an int that is MST_NCCL_UNDEFINED is left to NCCL */
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name; /* or NULL */
    int split_share;
} mst_nccl_config;

#define MST_NCCL_MAGIC 0xcafebeefu
enum { MST_NCCL_CONFIG_VERSION = 21800 }; /* 2.18.0 */

#define MST_NCCL_SYMBOLS(X)                                                                                                             \
    X(mst_nccl_result, ncclGetVersion, (int *version))                                                                                  \
    X(const char *, ncclGetErrorString, (mst_nccl_result result))                                                                       \
    X(const char *, ncclGetLastError, (mst_nccl_comm comm))                                                                             \
    X(mst_nccl_result, ncclGetUniqueId, (mst_nccl_id * id))                                                                             \
    X(mst_nccl_result, ncclCommInitRankConfig, (mst_nccl_comm * comm, int size, mst_nccl_id id, int rank, mst_nccl_config *config))     \
    X(mst_nccl_result, ncclCommFinalize, (mst_nccl_comm comm))                                                                          \
    X(mst_nccl_result, ncclCommDestroy, (mst_nccl_comm comm))                                                                           \
    X(mst_nccl_result, ncclCommAbort, (mst_nccl_comm comm))                                                                             \
    X(mst_nccl_result, ncclCommGetAsyncError, (mst_nccl_comm comm, mst_nccl_result * error))                                            \
    X(mst_nccl_result, ncclCommSplit, (mst_nccl_comm comm, int color, int key, mst_nccl_comm *part, mst_nccl_config *config))           \
    X(mst_nccl_result, ncclGroupStart, (void))                                                                                          \
    X(mst_nccl_result, ncclGroupEnd, (void))                                                                                            \
    X(mst_nccl_result, ncclAllReduce,                                                                                                   \
      (const void *from, void *to, size_t count, unsigned int type, unsigned int operation, mst_nccl_comm comm,                         \
       struct CUstream_st *stream))                                                                                                     \
    X(mst_nccl_result, ncclReduce,                                                                                                      \
      (const void *from, void *to, size_t count, unsigned int type, unsigned int operation, int root, mst_nccl_comm comm,               \
       struct CUstream_st *stream))                                                                                                     \
    X(mst_nccl_result, ncclBroadcast,                                                                                                   \
      (const void *from, void *to, size_t count, unsigned int type, int root, mst_nccl_comm comm, struct CUstream_st *stream))          \
    X(mst_nccl_result, ncclAllGather,                                                                                                   \
      (const void *from, void *to, size_t send_count, unsigned int type, mst_nccl_comm comm, struct CUstream_st *stream))               \
    X(mst_nccl_result, ncclReduceScatter,                                                                                               \
      (const void *from, void *to, size_t receive_count, unsigned int type, unsigned int operation, mst_nccl_comm comm,                 \
       struct CUstream_st *stream))                                                                                                     \
    X(mst_nccl_result, ncclSend,                                                                                                        \
      (const void *from, size_t count, unsigned int type, int peer, mst_nccl_comm comm, struct CUstream_st *stream))                    \
    X(mst_nccl_result, ncclRecv, (void *to, size_t count, unsigned int type, int peer, mst_nccl_comm comm, struct CUstream_st *stream)) \
    X(mst_nccl_result, ncclRedOpCreatePreMulSum,                                                                                        \
      (unsigned int *operation, void *scalar, unsigned int type, unsigned int residence, mst_nccl_comm comm))                           \
    X(mst_nccl_result, ncclRedOpDestroy, (unsigned int operation, mst_nccl_comm comm))

/* Available from version 2.28 on. */
#define MST_NCCL_OPTIONAL_SYMBOLS(X)                                                                                           \
    X(mst_nccl_result, ncclAlltoAll,                                                                                           \
      (const void *from, void *to, size_t count, unsigned int type, mst_nccl_comm comm, struct CUstream_st *stream))           \
    X(mst_nccl_result, ncclGather,                                                                                             \
      (const void *from, void *to, size_t count, unsigned int type, int root, mst_nccl_comm comm, struct CUstream_st *stream)) \
    X(mst_nccl_result, ncclScatter,                                                                                            \
      (const void *from, void *to, size_t count, unsigned int type, int root, mst_nccl_comm comm, struct CUstream_st *stream))

typedef struct mst_nccl_api {
    MST_NCCL_SYMBOLS(MST_FOREIGN_MEMBER)
    MST_NCCL_OPTIONAL_SYMBOLS(MST_FOREIGN_MEMBER)
} mst_nccl_api;

#endif
