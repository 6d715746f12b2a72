/* What the entries of the simulated driver begin with. */
#ifndef MUSTER_SIM_DRIVER_IMPL_H
#define MUSTER_SIM_DRIVER_IMPL_H

#include "program_calls.h"
#include "state_impl.h"

/* The exported functions; a definition that differs from the library's list does not compile. */
#define DRIVER_DECLARE(result, name, arguments) SIM_EXPORT result name arguments;
MST_CUDA_SYMBOLS(DRIVER_DECLARE)
MST_CUDA_OPTIONAL_SYMBOLS(DRIVER_DECLARE)
PROGRAM_CALLS(DRIVER_DECLARE)
#undef DRIVER_DECLARE

#define DRIVER_INDEX(result, name, arguments) INDEX_##name,
enum { MST_CUDA_SYMBOLS(DRIVER_INDEX) MST_CUDA_OPTIONAL_SYMBOLS(DRIVER_INDEX) PROGRAM_CALLS(DRIVER_INDEX) DRIVER_SYMBOL_COUNT };
#undef DRIVER_INDEX
extern sim_symbol driver_symbols[DRIVER_SYMBOL_COUNT];

static inline void driver_issue_end(sim_stream *const *stream) {
    if (*stream) sim_issue_end(*stream);
}

/* A call that may fail on purpose. */
#define DRIVER_ENTER(symbol)                                                 \
    do {                                                                     \
        unsigned injected_ = sim_enter(&driver_symbols[INDEX_##symbol], -1); \
        if (injected_) return injected_;                                     \
    } while (0)

/* The same of a call that goes to a device. */
#define DRIVER_ENTER_DEVICE(symbol, device)                                      \
    do {                                                                         \
        unsigned injected_ = sim_enter(&driver_symbols[INDEX_##symbol], device); \
        if (injected_) return injected_;                                         \
    } while (0)

/* A call that issues in the stream (NULL: there is none), to its end. */
#define DRIVER_ISSUE(symbol, on)                                                    \
    __attribute__((cleanup(driver_issue_end))) sim_stream *const issued_in_ = (on); \
    if (issued_in_) sim_issue_begin(issued_in_, #symbol);                           \
    DRIVER_ENTER_DEVICE(symbol, driver_stream_device(issued_in_))

/* A call that frees or destroys: it does so also where it fails on purpose. The result of the call:
 * DRIVER_RESULT(what it would have been). */
#define DRIVER_RELEASE(symbol, on_device) const unsigned injected_ = sim_enter(&driver_symbols[INDEX_##symbol], on_device)
#define DRIVER_RESULT(otherwise) (injected_ ? injected_ : (otherwise))

/* The current context, or the end of the call. */
#define DRIVER_CONTEXT(context)                       \
    sim_context *context;                             \
    do {                                              \
        sim_result required_ = sim_require(&context); \
        if (required_) return required_;              \
    } while (0)

/* A call that a graph could not repeat: the end of it where a capture refuses it. */
#define DRIVER_UNSAFE()                                          \
    do {                                                         \
        const sim_result refused_ = sim_capture_refuse_unsafe(); \
        if (refused_) return refused_;                           \
    } while (0)

/* The device that a call on a stream goes to, -1: no such stream. */
static inline int driver_stream_device(sim_stream *stream) { return stream ? sim_stream_device(stream) : -1; }

#endif
