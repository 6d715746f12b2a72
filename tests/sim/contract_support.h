/* What the contract tests share: they say of every symbol what a caller may rely on, and hold for
 * the simulated libraries and for the real ones alike. The libraries are those of the folder
 * MUSTER_CUDA_LIBRARIES, or else the system's. */
#ifndef MUSTER_SIM_CONTRACT_SUPPORT_H
#define MUSTER_SIM_CONTRACT_SUPPORT_H

#include "base_check.h"
#include "cublas_api_private.h"
#include "cuda_api_private.h"
#include "cudnn_api_private.h"
#include "nvrtc_api_private.h"

extern mst_cuda_api cu;
extern mst_cublas_api blas;
extern mst_cudnn_api dnn;
extern mst_nvrtc_api nvrtc;

/* Each opens one library and fills its functions; false, and a line on stderr: it is not there, or
 * lacks a symbol. */
bool contract_open_cuda(void);
bool contract_open_cublas(void);
bool contract_open_cudnn(void);
bool contract_open_nvrtc(void);

/* contract.cu, compiled for the option ("--gpu-architecture=sm_90"). Freed by free. Fails the
 * test. */
char *contract_compile(const char *option);
mst_nvrtc_program contract_program(const char *text); /* with all headers that a kernel text may include */
void contract_show_log(mst_nvrtc_program program);    /* on stderr */
char *contract_read(const char *path);                /* a file of the source tree, malloced */

/* cuInit, the primary context of device 0 retained and current, a stream. For a group of tests. */
typedef struct contract_device {
    mst_cu_device device;
    mst_cu_context context;
    mst_cu_stream stream;
} contract_device;
extern contract_device gpu;
int contract_setup(void **state);
int contract_teardown(void **state);

#define assert_code(expression, code)                                                                                  \
    do {                                                                                                               \
        unsigned code_ = (unsigned)(expression);                                                                       \
        if (code_ != (unsigned)(code)) fail_msg("%s: expected %u, received %u", #expression, (unsigned)(code), code_); \
    } while (0)
#define assert_done(expression) assert_code(expression, 0)

#endif
