/* The parameters of the kernels of contract.cu. */
#ifndef MUSTER_SIM_CONTRACT_PARAMETERS_H
#define MUSTER_SIM_CONTRACT_PARAMETERS_H

#include <stdint.h>

typedef struct contract_parameters {
    int64_t count;
    const void *from; /* f32 */
    void *to;         /* f32 */
    float factor;
} contract_parameters;

#endif
