/* Ending calls. */
#include "runtime_impl.h"

void muster_runtime_cancel(muster_runtime *runtime) {
    if (runtime && runtime->pool) mst_pool_cancel(runtime->pool);
}
