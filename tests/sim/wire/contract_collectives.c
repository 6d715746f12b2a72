/* The contract suite: the MPI's own collectives, where the table has them. The values are small
 * whole numbers, so that every order of a sum gives the same. */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

enum { COLLECTIVES_COUNT = 300 };

/* What process p brings as element i. Products stay exact in every type: all but one factor are
 * 1. */
static int64_t collectives_value(int32_t operation, int32_t p, int64_t i) {
    if (operation == MUSTER_WIRE_PROD) return i % 7 == p ? 2 + i % 3 : 1;
    return (i * 3 + p * 5) % 11;
}

static int64_t collectives_expected(const wire_contract *contract, int32_t operation, int64_t i) {
    int64_t result = collectives_value(operation, 0, i);
    for (int32_t p = 1; p < contract->size; p++) {
        const int64_t value = collectives_value(operation, p, i);
        if (operation == MUSTER_WIRE_SUM) result += value;
        if (operation == MUSTER_WIRE_PROD) result *= value;
        if (operation == MUSTER_WIRE_MAX && value > result) result = value;
        if (operation == MUSTER_WIRE_MIN && value < result) result = value;
    }
    return result;
}

static const int32_t collectives_sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

static void collectives_put(int32_t type, unsigned char *to, int64_t i, int64_t value) {
    const float single = (float)value;
    const double twice = (double)value;
    const int32_t size = collectives_sizes[type];
    const void *from = type == MUSTER_WIRE_F32   ? (const void *)&single
                       : type == MUSTER_WIRE_F64 ? (const void *)&twice
                                                 : (const void *)&value;
    memcpy(to + i * size, from, (size_t)size); /* the low bytes come first on every machine that Muster runs on */
}

static bool collectives_has(int32_t type, const unsigned char *memory, int64_t i, int64_t value) {
    unsigned char expected[8];
    collectives_put(type, expected, 0, value);
    return !memcmp(memory + i * collectives_sizes[type], expected, (size_t)collectives_sizes[type]);
}

/* Sums of many processes must fit into the type. */
static bool collectives_fits(const wire_contract *contract, int32_t type) { return collectives_sizes[type] > 1 || contract->size <= 11; }

static bool collectives_reduce(wire_contract *contract, int64_t count, int32_t type, int32_t operation, const int32_t *counts) {
    unsigned char from[COLLECTIVES_COUNT * 8], to[COLLECTIVES_COUNT * 8 + 8];
    memset(to, 0xee, sizeof to);
    for (int64_t i = 0; i < count; i++) collectives_put(type, from, i, collectives_value(operation, contract->rank, i));
    muster_wire_request request = 0;
    if (counts)
        REQUIRE_OK(contract, contract->table->reduce_scatter(contract->wire, from, to, counts, type, operation, &request));
    else
        REQUIRE_OK(contract, contract->table->all_reduce(contract->wire, from, to, count, type, operation, &request));
    if (!wire_contract_wait(contract, &request, NULL)) return false;
    int64_t first = 0;
    for (int32_t p = 0; counts && p < contract->rank; p++) first += counts[p];
    const int64_t own = counts ? counts[contract->rank] : count;
    for (int64_t i = 0; i < own; i++)
        if (!collectives_has(type, to, i, collectives_expected(contract, operation, first + i)))
            return wire_contract_fail(contract, __FILE__, __LINE__, "element %d of a reduction: type %d, operation %d", (int)i, type,
                                      operation);
    REQUIRE_EQUAL(contract, to[own * collectives_sizes[type]], 0xee);
    return true;
}

static bool collectives_all_reduce(wire_contract *contract) {
    const int64_t counts[] = {0, 1, 17, COLLECTIVES_COUNT};
    for (int32_t type = MUSTER_WIRE_I8; type <= MUSTER_WIRE_F64; type++)
        for (int32_t operation = MUSTER_WIRE_SUM; operation <= MUSTER_WIRE_MIN; operation++)
            for (int32_t i = 0; i < 4 && collectives_fits(contract, type); i++)
                if (!collectives_reduce(contract, counts[i], type, operation, NULL)) return false;
    return true;
}

/* Parts of different lengths, some of them empty. */
static bool collectives_reduce_scatter(wire_contract *contract) {
    int32_t *counts = malloc((size_t)contract->size * sizeof *counts);
    int64_t count = 0;
    for (int32_t p = 0; p < contract->size; p++) count += counts[p] = contract->size > 40 ? p % 3 : p * 5 % 8;
    bool right = true;
    for (int32_t type = MUSTER_WIRE_I8; right && type <= MUSTER_WIRE_F64; type++)
        for (int32_t operation = MUSTER_WIRE_SUM; right && operation <= MUSTER_WIRE_MIN; operation++)
            if (collectives_fits(contract, type) && count <= COLLECTIVES_COUNT)
                right = collectives_reduce(contract, count, type, operation, counts);
    free(counts);
    return right;
}

static bool collectives_broadcast(wire_contract *contract) {
    const int64_t sizes[] = {0, 1, 100, 5000};
    unsigned char bytes[5000];
    for (int32_t root = 0; root < contract->size; root++)
        for (int32_t i = 0; i < 4; i++) {
            if (root == contract->rank)
                wire_contract_fill(bytes, sizes[i], root, 0, i);
            else
                memset(bytes, 0, sizeof bytes);
            muster_wire_request request = 0;
            REQUIRE_OK(contract, contract->table->broadcast(contract->wire, bytes, sizes[i], root, &request));
            if (!wire_contract_wait(contract, &request, NULL)) return false;
            REQUIRE(contract, wire_contract_is_filled(bytes, sizes[i], root, 0, i));
        }
    return true;
}

/* Process p brings p % 4 * 3 bytes; between the parts are gaps, which stay. */
static bool collectives_all_gather(wire_contract *contract) {
    int32_t *counts = malloc((size_t)contract->size * sizeof *counts), *offsets = malloc((size_t)contract->size * sizeof *offsets);
    unsigned char *all = malloc((size_t)contract->size * 12), from[12];
    memset(all, 0xee, (size_t)contract->size * 12);
    for (int32_t p = 0; p < contract->size; p++) {
        counts[p] = p % 4 * 3;
        offsets[p] = (contract->size - 1 - p) * 12;
    }
    wire_contract_fill(from, counts[contract->rank], contract->rank, 0, 8);
    muster_wire_request request = 0;
    bool right =
        contract->table->all_gather(contract->wire, from, counts[contract->rank], all, counts, offsets, &request) == MUSTER_WIRE_OK &&
        wire_contract_wait(contract, &request, NULL);
    for (int32_t p = 0; right && p < contract->size; p++) {
        right = wire_contract_is_filled(all + offsets[p], counts[p], p, 0, 8);
        for (int32_t i = counts[p]; i < 12; i++) right &= all[offsets[p] + i] == 0xee;
    }
    free(counts);
    free(offsets);
    free(all);
    REQUIRE(contract, right);
    return true;
}

/* Process p sends (p + 2 q) % 5 bytes to process q. */
static bool collectives_all_to_all(wire_contract *contract) {
    const int32_t size = contract->size;
    int32_t *tables = malloc((size_t)size * 4 * sizeof *tables);
    int32_t *send_counts = tables, *send_offsets = tables + size, *counts = tables + 2 * size, *offsets = tables + 3 * size;
    unsigned char *from = malloc((size_t)size * 8), *to = malloc((size_t)size * 8);
    memset(to, 0xee, (size_t)size * 8);
    for (int32_t q = 0; q < size; q++) {
        send_counts[q] = (contract->rank + 2 * q) % 5;
        counts[q] = (q + 2 * contract->rank) % 5;
        send_offsets[q] = offsets[q] = q * 8;
        wire_contract_fill(from + q * 8, send_counts[q], contract->rank, q, 9);
    }
    muster_wire_request request = 0;
    bool right =
        contract->table->all_to_all(contract->wire, from, send_counts, send_offsets, to, counts, offsets, &request) == MUSTER_WIRE_OK &&
        wire_contract_wait(contract, &request, NULL);
    for (int32_t q = 0; right && q < size; q++) {
        right = wire_contract_is_filled(to + q * 8, counts[q], q, contract->rank, 9);
        for (int32_t i = counts[q]; i < 8; i++) right &= to[q * 8 + i] == 0xee;
    }
    free(tables);
    free(from);
    free(to);
    REQUIRE(contract, right);
    return true;
}

/* Two in progress at once, and messages beside them, do not disturb each other. */
static bool collectives_together(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    int32_t one = contract->rank + 1, sum = 0, most = 0, out = contract->rank, in = -1;
    muster_wire_request requests[4] = {0, 0, 0, 0};
    REQUIRE_OK(contract, table->receive(contract->wire, &in, 4, from, 0, &requests[0]));
    REQUIRE_OK(contract, table->all_reduce(contract->wire, &one, &sum, 1, MUSTER_WIRE_I32, MUSTER_WIRE_SUM, &requests[1]));
    REQUIRE_OK(contract, table->all_reduce(contract->wire, &one, &most, 1, MUSTER_WIRE_I32, MUSTER_WIRE_MAX, &requests[2]));
    REQUIRE_OK(contract, table->send(contract->wire, &out, 4, to, 0, &requests[3]));
    if (!wire_contract_wait_all(contract, requests, 4, NULL)) return false;
    REQUIRE_EQUAL(contract, sum, contract->size * (contract->size + 1) / 2);
    REQUIRE_EQUAL(contract, most, contract->size);
    REQUIRE_EQUAL(contract, in, from);
    return true;
}

bool wire_contract_collectives(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const bool there[] = {table->all_reduce, table->reduce_scatter, table->broadcast,
                          table->all_gather, table->all_to_all,     table->all_reduce};
    bool (*const cases[])(wire_contract *) = {collectives_all_reduce, collectives_reduce_scatter, collectives_broadcast,
                                              collectives_all_gather, collectives_all_to_all,     collectives_together};
    for (int32_t i = 0; i < 6; i++) {
        if (there[i])
            RUN_CASE(contract, cases[i]);
        else
            contract->left_out++;
    }
    /* Nothing is left for anybody. */
    int32_t found = 0;
    for (int32_t tag = 0; tag < WIRE_CONTRACT_BARRIER_TAG; tag++) { /* the others may be in the last barrier */
        int32_t there_now = 0;
        REQUIRE_OK(contract, table->probe(contract->wire, -1, tag, &there_now, NULL));
        found += there_now;
    }
    REQUIRE_EQUAL(contract, found, 0);
    return wire_contract_barrier(contract);
}
