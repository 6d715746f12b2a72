/* The texts that the kernels of this library were compiled from. */
#include "code_impl.h"
#include "state_impl.h"

#include <stdlib.h>

extern const mst_code_sources mst_simulated_code; /* made by cmake/embed.cmake from the same files */

/* Each text is hashed once in a process: every module that is loaded asks for the hashes of all
 * texts that it was made from. 0: not known yet. */
static uint64_t hash_at(int number, const char *text) {
    static atomic_ullong known[SIM_TEXTS];
    uint64_t hash = atomic_load_explicit(&known[number], memory_order_relaxed);
    if (hash == 0) {
        hash = sim_text_hash(text);
        atomic_store_explicit(&known[number], hash, memory_order_relaxed);
    }
    return hash;
}

const sim_text *sim_text_at(int number) {
    static _Thread_local sim_text found;
    const int headers = mst_simulated_code.header_count;
    if (number >= headers + mst_simulated_code.family_count) return NULL;
    const mst_code_source *text =
        number < headers ? &mst_simulated_code.headers[number] : &mst_simulated_code.families[number - headers].source;
    if (number >= SIM_TEXTS) abort(); /* more texts than the constant says */
    found = (sim_text){text->name, text->text, hash_at(number, text->text)};
    return &found;
}
