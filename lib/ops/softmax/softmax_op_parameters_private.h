/* The operations of the softmax family, for softmax.c and softmax.cu. */
#ifndef MST_SOFTMAX_OP_PARAMETERS_PRIVATE_H
#define MST_SOFTMAX_OP_PARAMETERS_PRIVATE_H

/* Operands: x and y; of the gradients y, dy and dx. */
typedef enum mst_softmax_op { MST_SOFTMAX, MST_LOG_SOFTMAX, MST_LOGSUMEXP, MST_SOFTMAX_GRADIENT, MST_LOG_SOFTMAX_GRADIENT } mst_softmax_op;

#endif
