/* The loop chooses the operation for each element. A separate loop for each operation would take
 * many times as long to compile and run no faster, because the loop waits for memory. */
#include "tensor.cuh"

template <typename D> static inline void binary_floats(const mst_element_parameters &p) {
    typedef typename D::computed C;
    int32_t op = p.op;
    mst_map<D, 2>(p.iterator, p.count, [=](const C *v) -> C {
        C a = v[0], b = v[1];
        switch (op) {
        case MUSTER_ADD:
            return a + b;
        case MUSTER_SUB:
            return a - b;
        case MUSTER_MUL:
            return a * b;
        case MUSTER_DIV:
            return a / b;
        case MUSTER_MAXIMUM:
            return a > b || a != a ? a : b;
        default:
            return a < b || a != a ? a : b;
        }
    });
}

/* Rounds towards zero. Division by 0 gives 0; the most negative number divided by -1 wraps. */
MST_OUTLINE int64_t binary_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
MST_OUTLINE uint64_t binary_quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

/* Integers wrap: they are computed as W, which has 64 bits, and the low bits are kept. */
template <typename D, typename W> static inline void binary_integers(const mst_element_parameters &p) {
    typedef typename D::computed C;
    int32_t op = p.op;
    mst_map<D, 2>(p.iterator, p.count, [=](const C *v) -> C {
        C a = v[0], b = v[1];
        switch (op) {
        case MUSTER_ADD:
            return (C)((uint64_t)a + (uint64_t)b);
        case MUSTER_SUB:
            return (C)((uint64_t)a - (uint64_t)b);
        case MUSTER_MUL:
            return (C)((uint64_t)a * (uint64_t)b);
        case MUSTER_DIV:
            return (C)binary_quotient((W)a, (W)b);
        case MUSTER_MAXIMUM:
            return a > b ? a : b;
        default:
            return a < b ? a : b;
        }
    });
}

MST_KERNEL(mst_binary, mst_element_parameters) {
    switch (p.dtype) {
#define FLOAT_CASE(NAME, name) \
    case MUSTER_##NAME:        \
        return binary_floats<mst_##name>(p);
#define SIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:         \
        return binary_integers<mst_##name, int64_t>(p);
#define UNSIGNED_CASE(NAME, name) \
    case MUSTER_##NAME:           \
        return binary_integers<mst_##name, uint64_t>(p);
        MST_EACH_FLOAT_TYPE(FLOAT_CASE)
        MST_EACH_SIGNED_TYPE(SIGNED_CASE)
        MST_EACH_UNSIGNED_TYPE(UNSIGNED_CASE)
#undef FLOAT_CASE
#undef SIGNED_CASE
#undef UNSIGNED_CASE
    }
}
