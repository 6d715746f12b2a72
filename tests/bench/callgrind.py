"""For the tests that count instructions."""
import importlib.util
import shutil
import sys


def load(path):
    """bench/count/count.py as a module. Where valgrind is missing the test ends with 77: it is skipped."""
    if not shutil.which("valgrind") or not shutil.which("callgrind_annotate"):
        print("valgrind is not on this machine")
        sys.exit(77)
    specification = importlib.util.spec_from_file_location("count", path)
    count = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(count)
    return count
