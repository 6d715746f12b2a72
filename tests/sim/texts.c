/* The texts that the kernels of this library were compiled from. */
#include "code_impl.h"
#include "state_impl.h"

extern const mst_code_sources mst_simulated_code; /* made by cmake/embed.cmake from the same files */

const sim_text *sim_text_at(int number) {
    static _Thread_local sim_text found;
    const int headers = mst_simulated_code.header_count;
    if (number >= headers + mst_simulated_code.family_count) return NULL;
    const mst_code_source *text =
        number < headers ? &mst_simulated_code.headers[number] : &mst_simulated_code.families[number - headers].source;
    found = (sim_text){text->name, text->text};
    return &found;
}
