/* y = alpha x + beta y for one dtype; see each_float_loops.h. One loop for each kind of beta. */
MST_CLONES static void MST_JOIN(scale_add_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_scale_add_parameters *p = context;
    C alpha = (C)p->alpha, beta = (C)p->beta;
    if (p->beta == 0) {
#define RESULT alpha *a
#include "scale_add/scale_add_body_loops.h"
    } else if (p->beta == 1) {
#define RESULT b + alpha *a
#include "scale_add/scale_add_body_loops.h"
    } else {
#define RESULT alpha *a + beta *b
#include "scale_add/scale_add_body_loops.h"
    }
}
