/* The contract suite: requests, and many of them. */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

enum { REQUESTS_MANY = 1000, REQUESTS_ROUNDS = 60, REQUESTS_MOST_BYTES = 6000 };

/* A request that is 0 is done. */
static bool requests_none(wire_contract *contract) {
    muster_wire_request none[3] = {0, 0, 0};
    muster_wire_status statuses[3];
    int32_t done = -1, which[3] = {-1, -1, -1}, count = -1;
    REQUIRE_OK(contract, contract->table->test(contract->wire, &none[0], &done, NULL));
    REQUIRE_EQUAL(contract, done, 1);
    REQUIRE_OK(contract, contract->table->test_some(contract->wire, 3, none, &count, which, statuses));
    REQUIRE_EQUAL(contract, count, 0);
    REQUIRE_OK(contract, contract->table->test_some(contract->wire, 0, none, &count, which, NULL));
    REQUIRE_EQUAL(contract, count, 0);
    return true;
}

/* test_some skips requests that are 0, and says nothing of those that are not done. */
static bool requests_some(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    unsigned char bytes[4] = {0, 0, 0, 5};
    muster_wire_request requests[4] = {0, 0, 0, 0};
    int32_t which[4], count = 0;
    muster_wire_status statuses[4];
    REQUIRE_OK(contract, table->receive(contract->wire, &bytes[1], 1, contract->rank, 20, &requests[1]));
    REQUIRE_OK(contract, table->receive(contract->wire, &bytes[2], 1, contract->rank, 21, &requests[2]));
    REQUIRE_OK(contract, table->send(contract->wire, &bytes[3], 1, contract->rank, 21, &requests[3]));
    bool seen[4] = {false, false, false, false};
    const int64_t end = wire_contract_now() + contract->patience_ns;
    while (!(seen[2] && seen[3])) {
        REQUIRE(contract, wire_contract_now() < end);
        REQUIRE_OK(contract, table->test_some(contract->wire, 4, requests, &count, which, statuses));
        for (int32_t i = 0; i < count; i++) {
            REQUIRE(contract, which[i] == 2 || which[i] == 3);
            REQUIRE(contract, !seen[which[i]]);
            seen[which[i]] = true;
            REQUIRE(contract, which[i] != 2 || (statuses[i].tag == 21 && statuses[i].bytes == 1 && statuses[i].from == contract->rank));
        }
    }
    REQUIRE_EQUAL(contract, bytes[2], 5);
    REQUIRE(contract, requests[1] != 0);
    return table->cancel(contract->wire, &requests[1]) == MUSTER_WIRE_OK;
}

/* Many messages in both directions between neighbours, all in progress at once, of which the
 * receives are posted backwards by tag. */
static bool requests_many(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    enum { BYTES = 8 };
    unsigned char *memory = calloc(2 * REQUESTS_MANY, BYTES);
    muster_wire_request *requests = calloc(2 * REQUESTS_MANY, sizeof *requests);
    unsigned char *in = memory + (size_t)REQUESTS_MANY * BYTES;
    int32_t result = MUSTER_WIRE_OK, wrong = 0;
    for (int32_t i = 0; i < REQUESTS_MANY && !result; i++) {
        wire_contract_fill(memory + (size_t)i * BYTES, BYTES, contract->rank, to, i);
        result = table->send(contract->wire, memory + (size_t)i * BYTES, BYTES, to, 1000 + i, &requests[i]);
    }
    for (int32_t i = REQUESTS_MANY - 1; i >= 0 && !result; i--)
        result = table->receive(contract->wire, in + (size_t)i * BYTES, BYTES, from, 1000 + i, &requests[REQUESTS_MANY + i]);
    const bool done = !result && wire_contract_wait_all(contract, requests, 2 * REQUESTS_MANY, NULL);
    for (int32_t i = 0; done && i < REQUESTS_MANY; i++)
        wrong += !wire_contract_is_filled(in + (size_t)i * BYTES, BYTES, from, contract->rank, i);
    free(memory);
    free(requests);
    REQUIRE_OK(contract, result);
    REQUIRE_EQUAL(contract, wrong, 0);
    return done;
}

typedef struct requests_plan {
    int64_t bytes;
    int32_t from, to, tag;
    bool matched;
} requests_plan;

/* Some messages between processes by chance, that all know from the seed. */
static void requests_plan_round(const wire_contract *contract, uint64_t *random, requests_plan *plan) {
    for (int32_t i = 0; i < REQUESTS_ROUNDS; i++) {
        const uint64_t r = wire_contract_random(random);
        plan[i] = (requests_plan){.bytes = (int64_t)((r >> 8) % (r & 1 ? REQUESTS_MOST_BYTES : 50)),
                                  .from = (int32_t)((r >> 24) % (uint64_t)contract->size),
                                  .to = (int32_t)((r >> 36) % (uint64_t)contract->size),
                                  .tag = (int32_t)((r >> 48) % 3) + 40,
                                  .matched = r & 2};
    }
}

/* In any order of sending and posting that keeps those of one pair and tag in order. */
static bool requests_by_chance(wire_contract *contract) {
    uint64_t random = contract->seed * 77 + 1;
    requests_plan plan[REQUESTS_ROUNDS];
    muster_wire_request requests[2 * REQUESTS_ROUNDS];
    unsigned char *out = malloc((size_t)REQUESTS_ROUNDS * REQUESTS_MOST_BYTES), *in = malloc((size_t)REQUESTS_ROUNDS * REQUESTS_MOST_BYTES);
    int32_t wrong = 0, result = MUSTER_WIRE_OK;
    bool done = true;
    for (int32_t round = 0; round < 5 && done && !result && !wrong; round++) {
        requests_plan_round(contract, &random, plan);
        memset(requests, 0, sizeof requests);
        uint64_t own = random + (uint64_t)contract->rank;
        int32_t next[2] = {0, 0}; /* what this process sends, and what it posts, advance by chance */
        while ((next[0] < REQUESTS_ROUNDS || next[1] < REQUESTS_ROUNDS) && !result) {
            const int32_t what = next[0] == REQUESTS_ROUNDS   ? 1
                                 : next[1] == REQUESTS_ROUNDS ? 0
                                                              : (int32_t)(wire_contract_random(&own) >> 9 & 1);
            const int32_t i = next[what]++;
            unsigned char *bytes = (what ? in : out) + (size_t)i * REQUESTS_MOST_BYTES;
            if (what && plan[i].to == contract->rank) {
                result = contract->table->receive(contract->wire, bytes, REQUESTS_MOST_BYTES, plan[i].from, plan[i].tag, &requests[i]);
            } else if (!what && plan[i].from == contract->rank) {
                wire_contract_fill(bytes, plan[i].bytes, plan[i].from, plan[i].to, i);
                result = (plan[i].matched ? contract->table->send_matched : contract->table->send)(
                    contract->wire, bytes, plan[i].bytes, plan[i].to, plan[i].tag, &requests[REQUESTS_ROUNDS + i]);
            }
        }
        muster_wire_status statuses[2 * REQUESTS_ROUNDS];
        done = !result && wire_contract_wait_all(contract, requests, 2 * REQUESTS_ROUNDS, statuses);
        for (int32_t i = 0; done && i < REQUESTS_ROUNDS; i++)
            if (plan[i].to == contract->rank)
                wrong += statuses[i].bytes != plan[i].bytes || statuses[i].from != plan[i].from || statuses[i].tag != plan[i].tag ||
                         !wire_contract_is_filled(in + (size_t)i * REQUESTS_MOST_BYTES, plan[i].bytes, plan[i].from, plan[i].to, i);
    }
    free(out);
    free(in);
    REQUIRE_OK(contract, result);
    REQUIRE_EQUAL(contract, wrong, 0);
    return done;
}

bool wire_contract_requests(wire_contract *contract) {
    RUN_CASE(contract, requests_none);
    RUN_CASE(contract, requests_some);
    RUN_CASE(contract, requests_many);
    RUN_CASE(contract, requests_by_chance);
    return true;
}
