/* event_loop.c: asynchronous calls in a program with an epoll loop, which no call may hold up. Each
 * finished call adds 1 to one eventfd; the loop then tests which calls have ended. The loop serves
 * the program's own events, too: here a pipe. */
#include "sample.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ROWS = 1000, CALLS = 8 };

typedef struct job {
    float x[ROWS], mean;
    muster_pending *pending; /* NULL: has ended */
} job;

static muster_status mean_of_squares(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor squares;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape, &squares));
    MUSTER_TRY(muster_unary_op(w, MUSTER_SQUARE, in[0], squares));
    return muster_mean(w, squares, out[0]);
}

static void begin(muster_function *f, job *j, int number, int finished) {
    for (int i = 0; i < ROWS; i++) j->x[i] = (float)number;
    CHECK(muster_function_call_async(f, (muster_tensor[]){muster_f32(j->x, ROWS)}, 1, (muster_tensor[]){muster_f32(&j->mean)}, 1, NULL,
                                     &j->pending));
    CHECK(muster_pending_notify_fd(j->pending, finished));
}

/* The jobs that have ended since the last look. */
static int end_jobs(job *jobs) {
    int ended = 0;
    for (int i = 0; i < CALLS; i++) {
        int32_t done;
        if (!jobs[i].pending) continue;
        CHECK(muster_pending_test(&jobs[i].pending, &done)); /* the status of the call, if it has ended */
        ended += done;
    }
    return ended;
}

static void watch(int loop, int fd) {
    EXPECT(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd}) == 0);
}

int main(void) {
    static job jobs[CALLS];
    muster_runtime *rt = sample_open("host:2");
    muster_function *f;
    CHECK(muster_function_create(rt, "mean_of_squares", mean_of_squares, NULL, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    CHECK(muster_function_output(f, "mean", MUSTER_F32, 0, MUSTER_AVG));

    int messages[2], received = 0, ended = 0;
    const int loop = epoll_create1(EPOLL_CLOEXEC), finished = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    EXPECT(loop >= 0 && finished >= 0 && pipe(messages) == 0);
    watch(loop, finished);
    watch(loop, messages[0]);
    for (int i = 0; i < CALLS; i++) begin(f, &jobs[i], i, finished);
    EXPECT(write(messages[1], "hello", 5) == 5);

    while (ended < CALLS || received == 0) {
        struct epoll_event event;
        char text[8];
        uint64_t count;
        EXPECT(epoll_wait(loop, &event, 1, -1) == 1);
        if (event.data.fd == finished) {
            EXPECT(read(finished, &count, sizeof count) == sizeof count); /* before the tests: what ends now is news again */
            ended += end_jobs(jobs);
        } else {
            received += read(messages[0], text, sizeof text) == 5;
        }
    }
    for (int i = 0; i < CALLS; i++) EXPECT(jobs[i].mean == (float)(i * i));
    printf("%d calls and %d message, in one loop\n", ended, received);
    CHECK(muster_runtime_close(rt)); /* no news comes after this */
    close(finished);
    close(loop);
    return 0;
}
