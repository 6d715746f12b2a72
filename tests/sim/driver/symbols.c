/* The driver's symbols, for injection and counts. */
#include "driver_impl.h"

SIM_EXPORT extern int muster_simulated;
int muster_simulated = 1;

#define DRIVER_SYMBOL(result, symbol, arguments) {.name = #symbol},
sim_symbol driver_symbols[DRIVER_SYMBOL_COUNT] = {MST_CUDA_SYMBOLS(DRIVER_SYMBOL) MST_CUDA_OPTIONAL_SYMBOLS(DRIVER_SYMBOL)
                                                      PROGRAM_CALLS(DRIVER_SYMBOL)};

static const int codes[] = {MST_CU_OUT_OF_MEMORY, MST_CU_INVALID_VALUE, MST_CU_UNKNOWN, MST_CU_OPERATING_SYSTEM,
                            MST_CU_LAUNCH_OUT_OF_RESOURCES};

__attribute__((constructor)) static void add_symbols(void) {
    sim_symbols_add("cuda", driver_symbols, DRIVER_SYMBOL_COUNT, codes, sizeof codes / sizeof *codes);
}
