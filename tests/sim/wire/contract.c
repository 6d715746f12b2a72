/* The contract suite: what its cases share. */
#include "contract.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bool wire_contract_fail(wire_contract *contract, const char *file, int line, const char *format, ...) {
    if (contract->failure[0]) return false;
    const char *name = strrchr(file, '/');
    int length = snprintf(contract->failure, sizeof contract->failure, "%s:%d: process %d of %d: ", name ? name + 1 : file, line,
                          contract->rank, contract->size);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(contract->failure + length, sizeof contract->failure - (size_t)length, format, arguments);
    va_end(arguments);
    if (contract->failed)
        contract->failed(contract);
    else
        contract->table->abort(contract->wire, 1);
    return false;
}

int64_t wire_contract_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

bool wire_contract_wait(wire_contract *contract, muster_wire_request *request, muster_wire_status *status) {
    const int64_t end = wire_contract_now() + contract->patience_ns;
    int32_t done = 0;
    while (!done) {
        REQUIRE_OK(contract, contract->table->test(contract->wire, request, &done, status));
        if (done) break;
        if (wire_contract_now() > end) return wire_contract_fail(contract, __FILE__, __LINE__, "a request is not done in time");
        sched_yield();
    }
    REQUIRE_EQUAL(contract, *request, 0);
    return true;
}

bool wire_contract_wait_all(wire_contract *contract, muster_wire_request *requests, int32_t count, muster_wire_status *statuses) {
    enum { MOST = 4096 };
    static _Thread_local int32_t done[MOST];
    static _Thread_local muster_wire_status found[MOST];
    const int64_t end = wire_contract_now() + contract->patience_ns;
    REQUIRE(contract, count <= MOST);
    int32_t left = 0;
    for (int32_t i = 0; i < count; i++) left += requests[i] != 0;
    while (left) {
        int32_t done_count = -1;
        REQUIRE_OK(contract, contract->table->test_some(contract->wire, count, requests, &done_count, done, statuses ? found : NULL));
        REQUIRE(contract, done_count >= 0 && done_count <= left);
        for (int32_t i = 0; i < done_count; i++) {
            REQUIRE(contract, done[i] >= 0 && done[i] < count);
            REQUIRE_EQUAL(contract, requests[done[i]], 0);
            if (statuses) statuses[done[i]] = found[i];
        }
        left -= done_count;
        if (wire_contract_now() > end)
            return wire_contract_fail(contract, __FILE__, __LINE__, "%d of %d requests are not done in time", left, count);
        if (!done_count) sched_yield();
    }
    return true;
}

bool wire_contract_barrier(wire_contract *contract) {
    for (int32_t distance = 1; distance < contract->size; distance *= 2) {
        const int32_t to = (contract->rank + distance) % contract->size,
                      from = (contract->rank - distance + contract->size) % contract->size;
        muster_wire_request requests[2] = {0, 0};
        unsigned char nothing[2] = {0, 0};
        REQUIRE_OK(contract, contract->table->receive(contract->wire, nothing, 1, from, WIRE_CONTRACT_BARRIER_TAG, &requests[0]));
        REQUIRE_OK(contract, contract->table->send_matched(contract->wire, nothing + 1, 1, to, WIRE_CONTRACT_BARRIER_TAG, &requests[1]));
        if (!wire_contract_wait_all(contract, requests, 2, NULL)) return false;
    }
    return true;
}

unsigned char wire_contract_byte(int32_t from, int32_t to, int64_t number, int64_t i) {
    const uint64_t mixed =
        ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u ^ ((uint64_t)number * 64 + (uint64_t)from * 8 + (uint64_t)to + 1) * 0xc2b2ae3d27d4eb4fu;
    return (unsigned char)(mixed >> 37);
}

void wire_contract_fill(unsigned char *bytes, int64_t count, int32_t from, int32_t to, int64_t number) {
    for (int64_t i = 0; i < count; i++) bytes[i] = wire_contract_byte(from, to, number, i);
}

bool wire_contract_is_filled(const unsigned char *bytes, int64_t count, int32_t from, int32_t to, int64_t number) {
    for (int64_t i = 0; i < count; i++)
        if (bytes[i] != wire_contract_byte(from, to, number, i)) return false;
    return true;
}

uint64_t wire_contract_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- what the table says of itself ---- */

static bool contract_table(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    REQUIRE_EQUAL(contract, table->abi, MUSTER_WIRE_ABI);
    REQUIRE_EQUAL(contract, table->bytes, sizeof *table);
    REQUIRE(contract, table->name && table->name[0]);
    REQUIRE(contract, !table->revoke == !table->lost);
    REQUIRE_EQUAL(contract, table->rank(contract->wire), contract->rank);
    REQUIRE(contract, contract->rank >= 0 && contract->rank < contract->size);
    return true;
}

/* Texts end inside of the room that they are given. */
static bool contract_texts(wire_contract *contract) {
    void (*const texts[])(char *, int32_t) = {contract->table->version, contract->table->host, contract->table->error};
    for (int32_t i = 0; i < 3; i++) {
        char text[300], small[6];
        memset(text, '#', sizeof text);
        memset(small, '#', sizeof small);
        texts[i](text, sizeof text);
        texts[i](small, 4);
        REQUIRE(contract, memchr(text, 0, sizeof text));
        REQUIRE(contract, i == 2 || text[0]);
        REQUIRE(contract, memchr(small, 0, 4));
        REQUIRE(contract, small[4] == '#' && small[5] == '#');
        REQUIRE(contract, !strchr(text, '\n'));
    }
    return true;
}

static bool contract_state(wire_contract *contract) {
    int32_t initialised = -1, finalised = -1, threads = -1;
    REQUIRE_OK(contract, contract->table->state(&initialised, &finalised, &threads));
    REQUIRE(contract, initialised == 0 || initialised == 1);
    REQUIRE_EQUAL(contract, finalised, 0);
    REQUIRE(contract, threads >= MUSTER_WIRE_SINGLE && threads <= MUSTER_WIRE_MULTIPLE);
    return true;
}

/* A duplicate has the same processes, and its messages are its own. */
static bool contract_second_wire(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    if (contract->no_second_wire) return true;
    muster_wire *first = contract->wire, *second = NULL;
    muster_wire_request request = 0;
    REQUIRE_OK(contract, table->open(0, 0, &second, &request));
    contract->wire = second;
    if (!wire_contract_wait(contract, &request, NULL)) return false;
    REQUIRE_EQUAL(contract, table->rank(second), contract->rank);
    REQUIRE_EQUAL(contract, table->size(second), contract->size);
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    unsigned char out[2] = {1, 2}, in[2] = {0, 0};
    muster_wire_request sends[2] = {0, 0}, receives[2] = {0, 0};
    muster_wire *const wires[2] = {first, second};
    for (int32_t i = 0; i < 2; i++) REQUIRE_OK(contract, table->send(wires[i], &out[i], 1, to, 5, &sends[i]));
    for (int32_t i = 1; i >= 0; i--) REQUIRE_OK(contract, table->receive(wires[i], &in[i], 1, from, 5, &receives[i]));
    for (int32_t i = 0; i < 2; i++) {
        contract->wire = wires[i];
        if (!wire_contract_wait(contract, &sends[i], NULL) || !wire_contract_wait(contract, &receives[i], NULL)) return false;
        REQUIRE_EQUAL(contract, in[i], out[i]);
    }
    contract->wire = first;
    if (!wire_contract_barrier(contract)) return false;
    table->close(second);
    return true;
}

bool wire_contract_run(wire_contract *contract) {
    contract->rank = contract->table->rank(contract->wire);
    contract->size = contract->table->size(contract->wire);
    contract->cases = contract->left_out = 0;
    contract->failure[0] = 0;
    if (!contract->patience_ns) contract->patience_ns = 20000000000;
    RUN_CASE(contract, contract_table);
    RUN_CASE(contract, contract_texts);
    RUN_CASE(contract, contract_state);
    RUN_CASE(contract, contract_second_wire);
    if (!wire_contract_messages(contract) || !wire_contract_matching(contract) || !wire_contract_requests(contract) ||
        !wire_contract_collectives(contract))
        return false;
    REQUIRE_EQUAL(contract, contract->cases + contract->left_out, WIRE_CONTRACT_CASES);
    return true;
}
