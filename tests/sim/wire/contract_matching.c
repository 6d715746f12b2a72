/* The contract suite: which receive gets which message. */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

enum { MATCHING_MANY = 200, MATCHING_ORDER = 11, MATCHING_GO = 12, MATCHING_PROBED = 13 };

/* Two messages of one sender and tag never overtake each other, whatever their sizes. */
static bool matching_order(wire_contract *contract, bool post_first) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    enum { MOST = 9000 };
    unsigned char *out = malloc((size_t)MATCHING_MANY * MOST), *in = malloc((size_t)MATCHING_MANY * MOST);
    muster_wire_request *requests = calloc(2 * MATCHING_MANY, sizeof *requests);
    muster_wire_status *statuses = calloc(2 * MATCHING_MANY, sizeof *statuses);
    int32_t result = MUSTER_WIRE_OK;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < MATCHING_MANY && !result; i++) {
            const int64_t bytes = i % 5 ? 1 + i % 3 : MOST - i;
            if ((pass == 0) == post_first) {
                result = table->receive(contract->wire, in + (size_t)i * MOST, MOST, i % 2 ? from : -1, MATCHING_ORDER, &requests[i]);
            } else {
                wire_contract_fill(out + (size_t)i * MOST, bytes, contract->rank, to, i);
                result = table->send(contract->wire, out + (size_t)i * MOST, bytes, to, MATCHING_ORDER, &requests[MATCHING_MANY + i]);
            }
        }
    const bool done = !result && wire_contract_wait_all(contract, requests, 2 * MATCHING_MANY, statuses);
    int32_t wrong = 0;
    for (int32_t i = 0; done && i < MATCHING_MANY; i++) {
        const int64_t bytes = i % 5 ? 1 + i % 3 : MOST - i;
        wrong += statuses[i].bytes != bytes || statuses[i].from != from ||
                 !wire_contract_is_filled(in + (size_t)i * MOST, bytes, from, contract->rank, i);
    }
    free(out);
    free(in);
    free(requests);
    free(statuses);
    REQUIRE_OK(contract, result);
    REQUIRE_EQUAL(contract, wrong, 0);
    return done;
}

static bool matching_order_posted(wire_contract *contract) { return matching_order(contract, true); }
static bool matching_order_unexpected(wire_contract *contract) { return matching_order(contract, false); }

/* A receive takes the message of its tag, and leaves the earlier one of another tag. */
static bool matching_by_tag(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    unsigned char out[3] = {10, 20, 30}, in[3] = {0};
    const int32_t tags[3] = {0, 32767, 9};
    muster_wire_request sends[3] = {0}, receives[3] = {0};
    for (int32_t i = 0; i < 3; i++) REQUIRE_OK(contract, table->send(contract->wire, &out[i], 1, to, tags[i], &sends[i]));
    for (int32_t i = 2; i >= 0; i--) {
        muster_wire_status status;
        REQUIRE_OK(contract, table->receive(contract->wire, &in[i], 1, from, tags[i], &receives[i]));
        if (!wire_contract_wait(contract, &receives[i], &status)) return false;
        REQUIRE_EQUAL(contract, in[i], out[i]);
        REQUIRE_EQUAL(contract, status.tag, tags[i]);
    }
    return wire_contract_wait_all(contract, sends, 3, NULL);
}

/* Everybody sends to process 0, which takes them from anybody: each once, with its sender. */
static bool matching_from_any(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    unsigned char bytes[20];
    muster_wire_request request = 0;
    if (contract->rank) {
        wire_contract_fill(bytes, 20, contract->rank, 0, 2);
        REQUIRE_OK(contract, table->send(contract->wire, bytes, 20, 0, MATCHING_GO, &request));
        return wire_contract_wait(contract, &request, NULL);
    }
    bool *seen = calloc((size_t)contract->size, sizeof *seen);
    bool right = true;
    for (int32_t i = 1; right && i < contract->size; i++) {
        muster_wire_status status = {-1, -1, -1};
        right = table->receive(contract->wire, bytes, 20, -1, MATCHING_GO, &request) == MUSTER_WIRE_OK &&
                wire_contract_wait(contract, &request, &status);
        right = right && status.from > 0 && status.from < contract->size && !seen[status.from] && status.bytes == 20 &&
                wire_contract_is_filled(bytes, 20, status.from, 0, 2);
        if (right) seen[status.from] = true;
    }
    free(seen);
    REQUIRE(contract, right);
    return true;
}

/* send_matched is done only when its receive is there. */
static bool matching_is_told(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    if (contract->size < 2 || contract->rank > 1) return true;
    unsigned char byte = 1;
    muster_wire_request request = 0, go = 0;
    if (contract->rank == 1) {
        REQUIRE_OK(contract, table->receive(contract->wire, &byte, 1, 0, MATCHING_GO, &go));
        if (!wire_contract_wait(contract, &go, NULL)) return false;
        REQUIRE_OK(contract, table->receive(contract->wire, &byte, 1, 0, MATCHING_ORDER, &request));
        return wire_contract_wait(contract, &request, NULL);
    }
    REQUIRE_OK(contract, table->send_matched(contract->wire, &byte, 1, 1, MATCHING_ORDER, &request));
    for (int32_t i = 0; i < 1000; i++) {
        int32_t done = -1;
        REQUIRE_OK(contract, table->test(contract->wire, &request, &done, NULL));
        REQUIRE_EQUAL(contract, done, 0);
    }
    REQUIRE_OK(contract, table->send(contract->wire, &byte, 1, 1, MATCHING_GO, &go));
    return wire_contract_wait(contract, &request, NULL) && wire_contract_wait(contract, &go, NULL);
}

static bool matching_probe_until(wire_contract *contract, int32_t from, int32_t tag, muster_wire_status *status) {
    const int64_t end = wire_contract_now() + contract->patience_ns;
    int32_t there = 0;
    while (!there && wire_contract_now() < end) REQUIRE_OK(contract, contract->table->probe(contract->wire, from, tag, &there, status));
    REQUIRE_EQUAL(contract, there, 1);
    return true;
}

/* probe finds the message that the next receive gets, and takes nothing away. */
static bool matching_probe(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    int32_t there = -1;
    REQUIRE_OK(contract, table->probe(contract->wire, from, MATCHING_PROBED, &there, NULL));
    REQUIRE_EQUAL(contract, there, 0);
    if (!wire_contract_barrier(contract)) return false;
    unsigned char out[31], in[31] = {0};
    muster_wire_request requests[2] = {0, 0};
    wire_contract_fill(out, 31, contract->rank, to, 5);
    REQUIRE_OK(contract, table->send(contract->wire, out, 31, to, MATCHING_PROBED, &requests[0]));
    for (int32_t i = 0; i < 3; i++) {
        muster_wire_status status = {-1, -1, -1};
        if (!matching_probe_until(contract, i == 1 ? -1 : from, MATCHING_PROBED, &status)) return false;
        REQUIRE_EQUAL(contract, status.from, from);
        REQUIRE_EQUAL(contract, status.tag, MATCHING_PROBED);
        REQUIRE_EQUAL(contract, status.bytes, 31);
    }
    REQUIRE_OK(contract, table->receive(contract->wire, in, 31, from, MATCHING_PROBED, &requests[1]));
    if (!wire_contract_wait_all(contract, requests, 2, NULL)) return false;
    REQUIRE(contract, wire_contract_is_filled(in, 31, from, contract->rank, 5));
    REQUIRE_OK(contract, table->probe(contract->wire, from, MATCHING_PROBED, &there, NULL));
    REQUIRE_EQUAL(contract, there, 0);
    return true;
}

/* A cancelled receive takes no message away. */
static bool matching_cancel(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    unsigned char out = 99, wrong = 7, in = 0;
    muster_wire_request requests[3] = {0, 0, 0};
    REQUIRE_OK(contract, table->receive(contract->wire, &wrong, 1, from, 14, &requests[0]));
    REQUIRE_OK(contract, table->receive(contract->wire, &wrong, 1, -1, 14, &requests[1]));
    REQUIRE_OK(contract, table->cancel(contract->wire, &requests[0]));
    REQUIRE_EQUAL(contract, requests[0], 0);
    REQUIRE_OK(contract, table->cancel(contract->wire, &requests[1]));
    REQUIRE_EQUAL(contract, requests[1], 0);
    if (!wire_contract_barrier(contract)) return false;
    REQUIRE_OK(contract, table->receive(contract->wire, &in, 1, from, 14, &requests[1]));
    REQUIRE_OK(contract, table->send(contract->wire, &out, 1, to, 14, &requests[2]));
    if (!wire_contract_wait_all(contract, requests, 3, NULL)) return false;
    REQUIRE_EQUAL(contract, in, 99);
    REQUIRE_EQUAL(contract, wrong, 7);
    return true;
}

bool wire_contract_matching(wire_contract *contract) {
    RUN_CASE(contract, matching_order_posted);
    RUN_CASE(contract, matching_order_unexpected);
    RUN_CASE(contract, matching_by_tag);
    RUN_CASE(contract, matching_from_any);
    RUN_CASE(contract, matching_is_told);
    RUN_CASE(contract, matching_probe);
    RUN_CASE(contract, matching_cancel);
    return true;
}
