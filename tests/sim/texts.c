/* The texts that the kernels of this library were compiled from. */
#include "code_impl.h"
#include "state_impl.h"

extern const mst_code_sources mst_simulated_code; /* made by cmake/embed.cmake from the same files */

const sim_text *sim_text_at(int number) {
    static _Thread_local sim_text found;
    if (number >= mst_simulated_code.count) return NULL;
    found = (sim_text){mst_simulated_code.sources[number].name, mst_simulated_code.sources[number].text};
    return &found;
}
