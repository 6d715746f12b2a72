/* The checks that a BLAS library passes before it is used. */
#ifndef MST_HOST_BLAS_PRIVATE_H
#define MST_HOST_BLAS_PRIVATE_H

#include "device_impl.h"

/* Products of small integers, which every order of the sums computes exactly, at 6 sizes and with
 * every transposition: less than 2 ms on one core. The name of the first function that computes a
 * wrong element, or NULL; text: which product. Errors: OUT_OF_MEMORY. */
enum { MST_BLAS_FAULT_TEXT = 96 };
muster_status mst_blas_find_fault(const mst_blas *blas, const char **function, char text[MST_BLAS_FAULT_TEXT]);

#endif
