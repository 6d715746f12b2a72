"""Compiling ResNet-50 with its gradients takes no more instructions than its limit: compile_resnet50.py COUNT PROGRAM, where COUNT is
bench/count/count.py and PROGRAM muster-bench-count. The count does not depend on what else the machine does."""
import importlib.util
import os
import shutil
import sys

if not shutil.which("valgrind") or not shutil.which("callgrind_annotate"):
    print("valgrind is not on this machine")
    sys.exit(77)
specification = importlib.util.spec_from_file_location("count", sys.argv[1])
count = importlib.util.module_from_spec(specification)
specification.loader.exec_module(count)
for name in [name for name in os.environ if name.startswith("MUSTER_")]:
    del os.environ[name]
sys.exit(1 if count.resnet50_missed(sys.argv[2]) else 0)
