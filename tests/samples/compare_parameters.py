"""usage: compare_parameters.py [--count N] FIRST OTHER...: files of N f32 (those of the MLP). Each OTHER must agree with FIRST within
relative 1e-5, in norm and in each element (relative to it or to the root mean square of all, whichever is larger)."""
import sys

import numpy

NORM_LIMIT, ELEMENT_LIMIT = 1e-5, 1e-5
files, count = sys.argv[1:], 1276810
if files[0] == "--count":
    count, files = int(files[1]), files[2:]
first = numpy.fromfile(files[0], numpy.float32).astype(float)
scale = numpy.maximum(abs(first), numpy.sqrt((first ** 2).mean()))
good = first.size == count and bool(numpy.isfinite(first).all())
for path in files[1:]:
    other = numpy.fromfile(path, numpy.float32).astype(float)
    in_norm = numpy.linalg.norm(other - first) / numpy.linalg.norm(first)
    in_element = (abs(other - first) / scale).max()
    print(f"{path}: relative difference {in_norm:.1e} in norm, {in_element:.1e} in the worst element")
    good = good and in_norm <= NORM_LIMIT and in_element <= ELEMENT_LIMIT
sys.exit(0 if good else 1)
