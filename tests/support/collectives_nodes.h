/* Several processes of a launch as threads of one program, each with mst_nodes of its own, on the
 * wire between threads. Bodies note what they see; the test looks at it when all threads have
 * ended. */
#ifndef MST_COLLECTIVES_NODES_H
#define MST_COLLECTIVES_NODES_H

#include "base_await.h"
#include "base_check.h"
#include "nodes/rounds_private.h"
#include "wire_launch.h"

enum { NODES_MOST = 5, NODES_NOTES = 12 };

typedef struct nodes_test nodes_test;
struct nodes_test {
    /* Wanted. */
    wire_launch_options launch_options;
    int32_t on_lost;
    int64_t abort_after_ns; /* the option; nothing: 1 ms, by the option */
    int64_t close_grace_ns; /* the option */
    bool environment;       /* the option is not set: the environment says */
    void (*body)(nodes_test *test, mst_nodes *nodes,
                 int32_t process); /* open and joined; process p has p + 1 ranks. No deadlines but those that the body sets */
    bool no_join;                  /* body opens nodes only */
    mst_wire_test_opener open;     /* NULL: wire_launch_open */
    void *user;
    /* Seen. */
    wire_launch *launch;
    wire_launch_counts counts; /* after all have closed */
    int32_t aborted;
    int32_t notes[NODES_MOST];
    muster_status status[NODES_MOST][NODES_NOTES];
    char message[NODES_MOST][NODES_NOTES][MST_MESSAGE_SIZE];
    pthread_mutex_t lock;
    char log[2048];
    await_barrier barrier; /* of all processes, for bodies */
};

/* Runs the body in all processes. */
void nodes_run(nodes_test *test);
/* The next note of the process: the status, and the thread's last error if it is not OK. */
void nodes_note(nodes_test *test, int32_t process, muster_status status);
/* Takes the control messages that have come. */
void nodes_take_all(mst_nodes *nodes);
/* A round with this text, which is its signature, too. */
mst_round nodes_round(const char *text);
/* begin and end; notes both. */
void nodes_call(nodes_test *test, mst_nodes *nodes, const char *text, muster_status own);
/* An arrival of all processes on lane 1, inside of a call, as collectives make it. */
muster_status nodes_collective(nodes_test *test, mst_nodes *nodes, mst_arrival *arrival, const char *what);
muster_status nodes_collective_open(mst_nodes *nodes, mst_arrival *arrival, int32_t lane);
void nodes_collective_close(mst_nodes *nodes, mst_arrival *arrival);
void nodes_sleep(int64_t ns);

/* What process p has noted as number k, in all processes from `first` to `last`. */
void nodes_expect(const nodes_test *test, int32_t first, int32_t last, int32_t k, muster_status status, const char *message);

#endif
