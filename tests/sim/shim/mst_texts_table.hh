/* Behind the built-in kernel texts: what the loader asks for. */
static __thread __attribute__((aligned(256))) char mst_text_dynamic[MST_PROGRAM_SHARED]; /* none is used */
static mst_program_here *mst_text_here() { return &mst_here; }
static char *mst_text_get_dynamic() { return mst_text_dynamic; }

extern "C" {
mst_texts_control mst_texts = {0, "", 0, 0};
extern __attribute__((visibility("default"))) mst_program_table mst_program;
mst_program_table mst_program = {MST_PROGRAM_VERSION, 0, mst_text_kernels, &mst_machine, mst_text_here, mst_text_get_dynamic};
}
/* The last constructor of this file: all kernels are in the table. */
static struct mst_text_closing {
    MST_UNCHECKED __noinline__ mst_text_closing() { mst_program.kernel_count = mst_text_count; }
} mst_text_closed;
