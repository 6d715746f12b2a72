#!/bin/sh
# headers_alone.sh HEADERS CC CXX: every public header compiles alone, twice included, as strict C11 and as C++11 (muster.hpp as C++17),
# and the macros of status.h, tensor.h, worker.h, graph.h and expr.h are usable there, with sizes of any integer type. Programs may turn on
# warnings of conversions, and C++ programs of casts; clang and clang++ check as well, where they are installed. An older C++ is told so.
set -eu
headers=$1 cc=$2 cxx=$3
warnings="-Wall -Wextra -Werror -pedantic-errors -fsyntax-only -Wcast-qual -Wconversion -Wsign-conversion"
cxx_warnings="$warnings -Wold-style-cast -Wzero-as-null-pointer-constant"
compile_c() {
    $cc -std=c11 $warnings "$@"
    if command -v clang >clang.txt; then clang -std=c11 $warnings "$@"; fi
}
compile_cxx() { # standard, arguments
    standard=$1
    shift
    $cxx -std=$standard $cxx_warnings "$@"
    if command -v clang++ >clang.txt; then clang++ -std=$standard $cxx_warnings "$@"; fi
}
refuses() { # standard, header, words
    printf '#include "%s"\n' "$2" >header.txt
    if $cxx -std=$1 -fsyntax-only -I"$headers" -x c++ header.txt 2>errors.txt; then echo "$2 compiles as $1" && exit 1; fi
    grep -qF "$3" errors.txt || { echo "$2 as $1: expected \"$3\"" && cat errors.txt && exit 1; }
}
for path in "$headers"/muster/*.h; do
    name=muster/$(basename "$path")
    printf '#include "%s"\n#include "%s"\nextern int not_empty;\n' "$name" "$name" >header.txt
    compile_c -I"$headers" -x c header.txt
    for standard in c++11 c++14 c++17; do compile_cxx $standard -I"$headers" -x c++ header.txt; done
done
for path in "$headers"/muster/*.hpp; do
    if [ -e "$path" ]; then
        printf '#include "muster/%s"\n' "$(basename "$path")" >header.txt
        compile_cxx c++17 -I"$headers" -x c++ header.txt
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
/* Each dtype, and sizes of any type. */
int32_t each(void *v, size_t n, unsigned u, short h, uint64_t l, int32_t i);
int32_t each(void *v, size_t n, unsigned u, short h, uint64_t l, int32_t i) {
    const muster_tensor all[] = {muster_f16(v, VIEW(n, u)), muster_bf16(v, VIEW(h, l)), muster_f32(v, VIEW(i, n, 4)), muster_f64(v, VIEW(sizeof(int))),
                                 muster_i8(v, VIEW(n)),     muster_u8(v, VIEW(u)),      muster_i16(v, VIEW(l)),       muster_i32(v, VIEW(n + u)),
                                 muster_i64(v, VIEW(n, n, n, n, u, u, u, u)), muster_u32(v), muster_u64(v, VIEW(n)), muster_bool(v, VIEW(n))};
    return all[0].ndim + (sizeof all / sizeof *all == 12 ? 1 : -1);
}
/* A plain body. */
muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user);
muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const float *x = MUSTER_DATA(const float, in[0]);
    double *y = MUSTER_DATA(double, out[0]);
    const uint64_t *l = MUSTER_DATA(const uint64_t, in[1]);
    for (int64_t i = 0; i < muster_tensor_count(in[0]); i++) y[i] = l[i] ? 0 : WIDE(x[i]);
    MUSTER_MUST(muster_worker_set_weight(w, 1));
    return MUSTER_DATA(void, in[0]) == user ? MUSTER_OK : MUSTER_USER;
}
muster_expr *sized(muster_graph *graph, size_t n, unsigned u);
muster_expr *sized(muster_graph *graph, size_t n, unsigned u) {
    return muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, n, u), MUSTER_SCATTER);
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
compile_c '-DVIEW(...)=__VA_ARGS__' '-DWIDE(x)=(double)(x)' -I"$headers" -x c use.txt
for standard in c++11 c++14 c++17 c++20; do
    compile_cxx $standard '-DVIEW(...)={__VA_ARGS__}' '-DWIDE(x)=static_cast<double>(x)' -I"$headers" -x c++ use.txt
done
refuses c++98 muster/status.h "Muster's headers need C++11 or later (-std=c++11), and muster/muster.hpp needs C++17"
refuses c++14 muster/muster.hpp "muster/muster.hpp needs C++17 (-std=c++17); muster/muster.h, the C headers, works from C++11 on"
rm header.txt use.txt clang.txt errors.txt
