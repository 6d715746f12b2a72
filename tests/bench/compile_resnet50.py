"""Compiling ResNet-50 with its gradients takes no more instructions than its limit: compile_resnet50.py COUNT PROGRAM, where COUNT is
bench/count/count.py and PROGRAM muster-bench-count. The count does not depend on what else the machine does."""
import os
import sys

import callgrind

count = callgrind.load(sys.argv[1])
for name in [name for name in os.environ if name.startswith("MUSTER_")]:
    del os.environ[name]
sys.exit(1 if count.resnet50_missed(sys.argv[2]) else 0)
