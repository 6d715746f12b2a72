#!/bin/sh
# headers_alone.sh HEADERS CC CXX: every public header compiles alone, twice included, as strict C11 and as C++17,
# and the macros of tensor.h are usable there, with pointers to their element type alone.
set -eu
headers=$1 cc=$2 cxx=$3
warnings="-Wall -Wextra -Werror -pedantic-errors -fsyntax-only"
for path in "$headers"/muster/*.h; do
    name=muster/$(basename "$path")
    printf '#include "%s"\n#include "%s"\nextern int not_empty;\n' "$name" "$name" >header.txt
    $cc -std=c11 $warnings -I"$headers" -x c header.txt
    $cxx -std=c++17 $warnings -I"$headers" -x c++ header.txt
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
USE
$cc -std=c11 $warnings '-DVIEW(...)=__VA_ARGS__' -I"$headers" -x c use.txt
$cxx -std=c++17 $warnings '-DVIEW(...)={__VA_ARGS__}' -I"$headers" -x c++ use.txt

# compiles LANGUAGE MACRO POINTER: whether the macro takes that pointer.
compiles() {
    printf '#include "muster/muster.h"\nmuster_tensor use(%s p);\nmuster_tensor use(%s p) { return muster_%s(p, VIEW(2, 3)); }\n' "$3" "$3" "$2" >pointer.txt
    case $1 in
    c) $cc -std=c11 $warnings '-DVIEW(...)=__VA_ARGS__' -I"$headers" -x c pointer.txt ;;
    c++) $cxx -std=c++17 $warnings '-DVIEW(...)={__VA_ARGS__}' -I"$headers" -x c++ pointer.txt ;;
    esac 2>pointer_errors.txt
}
cases=0
for language in c c++; do
    for pair in f32:float f64:double i32:int32_t i64:int64_t u8:uint8_t; do
        macro=${pair%%:*} type=${pair#*:}
        for pointed in float double int32_t int64_t uint8_t int8_t; do
            for const in "" "const "; do
                cases=$((cases + 1))
                expected=refused received=refused
                test "$pointed" != "$type" || expected=accepted
                ! compiles "$language" "$macro" "$const$pointed *" || received=accepted
                if [ "$expected" != "$received" ]; then
                    echo "$language: muster_$macro of $const$pointed *: expected it $expected, $received by the compiler"
                    cat pointer_errors.txt
                    exit 1
                fi
            done
        done
    done
done
test $cases -eq 120
for macro in f32 f64 i32 i64 u8; do
    compiles c $macro "const void *" || exit 1
    compiles c $macro "void *" || exit 1
done
# Rows: of the element type alone.
rows() {
    printf '#include "muster/muster.h"\nmuster_tensor use(void);\nmuster_tensor use(void) { static %s x[2][3]; return muster_%s(x, 2, 3); }\n' "$2" "$1" >pointer.txt
    $cc -std=c11 $warnings -I"$headers" -x c pointer.txt 2>pointer_errors.txt
}
for type in float "const float"; do rows f32 "$type" || exit 1; done
for type in double int32_t "const int64_t"; do
    if rows f32 "$type"; then
        echo "c: muster_f32 of rows of $type was accepted"
        exit 1
    fi
done
rm header.txt use.txt pointer.txt pointer_errors.txt
