/* How a program learns that something asynchronous has ended: a function of its own, or a number
 * written into a file descriptor, such as an eventfd. */
#include "runtime_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void mst_completion_call(mst_completion completion) {
    const char *outer = mst_runtime_callback;
    mst_runtime_callback = "a completion function";
    completion.function(completion.user);
    mst_runtime_callback = outer;
}

/* A descriptor that takes nothing, because its counter is full or its reader is gone, has nobody
 * who could be told. */
static void completion_write(void *user) {
    const uint64_t one = 1;
    ssize_t written;
    do written = write((int)(intptr_t)user, &one, sizeof one);
    while (written < 0 && errno == EINTR);
}

muster_status mst_completion_of_fd(const char *where, int32_t fd, mst_completion *completion) {
    *completion = (mst_completion){completion_write, (void *)(intptr_t)fd};
    if (fd >= 0 && fcntl(fd, F_GETFD) != -1) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: fd: expected an open file descriptor, received %" PRId32, where, fd);
}
