/* How the wires end of the processes of a nodes_test. */
#ifndef MST_COLLECTIVES_ENDS_H
#define MST_COLLECTIVES_ENDS_H

#include "collectives_nodes.h"

typedef struct ends_seen {
    void (*close)(mst_wire *wire, mst_wire_end end); /* the wire's own */
    _Atomic int32_t closed;                          /* how many wires have ended */
    mst_wire_end ends[NODES_MOST];                   /* by process */
    bool stale[NODES_MOST];
} ends_seen;
extern ends_seen ends;

/* Before nodes_run: none has ended. */
void ends_begin(void);
/* In the body of a test, which all processes call: notes how the wire of this one ends. */
void ends_note(nodes_test *test, mst_nodes *nodes, int32_t process);

#endif
