#!/bin/sh
# headers_alone.sh HEADERS CC CXX: every public header compiles alone, twice included, as strict C11 and as C++17,
# and the macros of tensor.h, graph.h and expr.h are usable there. C++ programs may turn on warnings of casts; clang++ checks as well,
# where it is installed.
set -eu
headers=$1 cc=$2 cxx=$3
warnings="-Wall -Wextra -Werror -pedantic-errors -fsyntax-only"
cxx_warnings="$warnings -Wold-style-cast -Wcast-qual -Wconversion -Wzero-as-null-pointer-constant"
compile_cxx() {
    $cxx -std=c++17 $cxx_warnings "$@"
    if command -v clang++ >clang.txt; then clang++ -std=c++17 $cxx_warnings "$@"; fi
}
for path in "$headers"/muster/*.h; do
    name=muster/$(basename "$path")
    printf '#include "%s"\n#include "%s"\nextern int not_empty;\n' "$name" "$name" >header.txt
    $cc -std=c11 $warnings -I"$headers" -x c header.txt
    compile_cxx -I"$headers" -x c++ header.txt
done
for path in "$headers"/muster/*.hpp; do
    if [ -e "$path" ]; then
        printf '#include "muster/%s"\n' "$(basename "$path")" >header.txt
        compile_cxx -I"$headers" -x c++ header.txt
    fi
done
for path in "$headers"/muster/*.hpp; do
    name=muster/$(basename "$path")
    printf '#include "%s"\n#include "%s"\nextern int not_empty;\n' "$name" "$name" >header.txt
    $cxx -std=c++17 $warnings -Wold-style-cast -Wcast-qual -I"$headers" -x c++ header.txt
done
cat >use.txt <<'USE'
#include "muster/muster.h"
muster_status use(const float *x, int64_t n, float *r);
muster_status use(const float *x, int64_t n, float *r) {
    muster_tensor matrix = muster_f32(x, VIEW(n, 4)), vector = muster_f32(r, VIEW(n));
    muster_tensor scalar = muster_f32(r);
    MUSTER_TRY(matrix.ndim == 2 && vector.ndim == 1 && scalar.ndim == 0 ? MUSTER_OK : MUSTER_INTERNAL);
    return muster_tensor_address(matrix) ? MUSTER_OK : MUSTER_INTERNAL;
}
int32_t shapes(muster_graph *graph, int64_t n);
int32_t shapes(muster_graph *graph, int64_t n) {
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, n, 4), MUSTER_SCATTER);
    return muster_expr_ndim(x) + muster_expr_ndim(muster_graph_input(graph, "r", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST));
}
muster_expr *operations(muster_expr *x);
muster_expr *operations(muster_expr *x) {
    x = muster_expr_exp(muster_expr_reshape(x, MUSTER_SHAPE(MUSTER_ROWS, 4)));
#ifdef __cplusplus
    return muster_expr_sum_at(MUSTER_HERE, x, {});
#else
    return muster_expr_sum(muster_expr_sum(x, MUSTER_LIST(axis, 0, 1), .keepdims = 1));
#endif
}
USE
$cc -std=c11 $warnings '-DVIEW(...)=__VA_ARGS__' -I"$headers" -x c use.txt
compile_cxx '-DVIEW(...)={__VA_ARGS__}' -I"$headers" -x c++ use.txt
rm header.txt use.txt clang.txt
