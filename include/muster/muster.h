/* muster/muster.h: includes every public header of Muster, but for muster/pointers.h, which is for
 * other languages. */
#ifndef MUSTER_H
#define MUSTER_H

#include "muster/allocator.h"
#include "muster/buffer.h"
#include "muster/communicator.h"
#include "muster/cuda.h"
#include "muster/dlpack.h"
#include "muster/driver.h"
#include "muster/dtype.h"
#include "muster/expr.h"
#include "muster/function.h"
#include "muster/graph.h"
#include "muster/initialiser.h"
#include "muster/kernel.h"
#include "muster/machine.h"
#include "muster/nodes.h"
#include "muster/operator.h"
#include "muster/ops.h"
#include "muster/rule.h"
#include "muster/runtime.h"
#include "muster/server.h"
#include "muster/status.h"
#include "muster/tensor.h"
#include "muster/variable.h"
#include "muster/worker.h"

#endif
