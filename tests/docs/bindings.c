/* The code of docs/bindings.md: an array lent to another library and taken from one, by DLPack.
 * Here both are this program. */
#include "docs.h"

enum { N = 6 };

/* snippet: lend */
static void release(void *owner) { free(owner); }

static muster_dlpack_versioned *lend(float *numbers) {
    muster_dlpack_versioned *managed;
    check(muster_dlpack_export(NULL, muster_f32(numbers, N), 0, release, numbers, &managed));
    return managed; /* the other library calls managed->deleter, which calls release(numbers) */
}
/* end of snippet */

int main(void) {
    float *numbers = malloc(N * sizeof *numbers);
    if (!numbers) return 1;
    for (int i = 0; i < N; i++) numbers[i] = (float)i;
    muster_dlpack_versioned *managed = lend(numbers);
    /* snippet: take */
    muster_tensor x;
    muster_dlpack *handle;
    muster_status taken = muster_dlpack_import(NULL, managed, &x, &handle);
    if (taken != MUSTER_OK) managed->deleter(managed); /* it was not taken */
    check(taken);
    const float *first = muster_tensor_address(x); /* the other library's memory, not a copy */
    printf("%lld numbers, the first is %g\n", (long long)muster_tensor_count(x), (double)*first);
    muster_dlpack_release(handle); /* gives it back */
    /* end of snippet */
    return 0;
}
