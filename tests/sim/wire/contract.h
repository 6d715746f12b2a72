/* What Muster relies on in a wire: every process of it makes the same calls of this suite. Runs
 * on any table, between threads as well as between programs under mpirun, and uses nothing of
 * the library. */
#ifndef SIM_WIRE_CONTRACT_H
#define SIM_WIRE_CONTRACT_H

#include "wire/wire_abi.h"

#include <stdbool.h>

typedef struct wire_contract {
    /* Given. */
    const muster_wire_table *table;
    muster_wire *wire;   /* open */
    uint64_t seed;       /* the same in all processes */
    int64_t patience_ns; /* a wait that takes longer fails; 0: 20 s */
    /* Called with the first failure, while all memory of the case is still there: ends all that
     * the wire may still do with it, by the table's `abort`. NULL: that is called. */
    void (*failed)(struct wire_contract *contract);
    bool no_second_wire; /* the table's `open` cannot be called again */
    /* Become. */
    int32_t rank, size;
    int32_t cases;     /* that this process has run */
    int32_t left_out;  /* because an entry of the table is NULL */
    char failure[400]; /* the first one, with file and line; empty: none */
} wire_contract;

/* How many cases there are, run or left out. */
enum { WIRE_CONTRACT_CASES = 26, WIRE_CONTRACT_BARRIER_TAG = 77 };

/* False if a case has failed in this process, which then aborts the launch.
 * Every process of the wire calls it. */
bool wire_contract_run(wire_contract *contract);

/* ---- for the files of the suite ---- */

bool wire_contract_fail(wire_contract *contract, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));
#define REQUIRE(contract, condition)                                                                               \
    do {                                                                                                           \
        if (!(condition)) return wire_contract_fail(contract, __FILE__, __LINE__, "%s does not hold", #condition); \
    } while (0)
#define REQUIRE_EQUAL(contract, received, expected)                                                                                       \
    do {                                                                                                                                  \
        const long long received_ = (long long)(received), expected_ = (long long)(expected);                                             \
        if (received_ != expected_)                                                                                                       \
            return wire_contract_fail(contract, __FILE__, __LINE__, "%s: expected %lld, received %lld", #received, expected_, received_); \
    } while (0)
#define REQUIRE_OK(contract, call) REQUIRE_EQUAL(contract, call, MUSTER_WIRE_OK)

int64_t wire_contract_now(void);
/* Tests until the request is done. */
bool wire_contract_wait(wire_contract *contract, muster_wire_request *request, muster_wire_status *status);
/* Tests until all are, by test_some. statuses may be NULL. */
bool wire_contract_wait_all(wire_contract *contract, muster_wire_request *requests, int32_t count, muster_wire_status *statuses);
/* No process returns before all have entered. */
bool wire_contract_barrier(wire_contract *contract);
/* One byte of the message `number` from one process to another. */
unsigned char wire_contract_byte(int32_t from, int32_t to, int64_t number, int64_t i);
void wire_contract_fill(unsigned char *bytes, int64_t count, int32_t from, int32_t to, int64_t number);
bool wire_contract_is_filled(const unsigned char *bytes, int64_t count, int32_t from, int32_t to, int64_t number);
uint64_t wire_contract_random(uint64_t *state);

bool wire_contract_messages(wire_contract *contract);    /* contract_messages.c */
bool wire_contract_matching(wire_contract *contract);    /* contract_matching.c */
bool wire_contract_requests(wire_contract *contract);    /* contract_requests.c */
bool wire_contract_collectives(wire_contract *contract); /* contract_collectives.c */

/* Runs a case, and returns from the caller where it fails. */
#define RUN_CASE(contract, function)                                               \
    do {                                                                           \
        if (!function(contract) || !wire_contract_barrier(contract)) return false; \
        (contract)->cases++;                                                       \
    } while (0)

#endif
