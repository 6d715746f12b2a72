/* The contract suite: one message, of all sizes and tags. */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MOST = 1 << 20, MESSAGES_SLACK = 16 };

/* In a ring: to the next process, from the one before. */
static bool messages_ring(wire_contract *contract, int64_t bytes, int64_t room, int32_t tag, bool matched, bool post_first) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    unsigned char *out = malloc((size_t)bytes + 1), *in = malloc((size_t)room + MESSAGES_SLACK);
    memset(in, 0xee, (size_t)room + MESSAGES_SLACK);
    wire_contract_fill(out, bytes, contract->rank, to, tag);
    muster_wire_request requests[2] = {0, 0};
    muster_wire_status statuses[2] = {{-9, -9, -9}, {-9, -9, -9}};
    int32_t result = MUSTER_WIRE_OK;
    if (post_first) result = table->receive(contract->wire, in, room, from, tag, &requests[0]);
    if (!result) result = (matched ? table->send_matched : table->send)(contract->wire, out, bytes, to, tag, &requests[1]);
    if (!post_first && !result) result = table->receive(contract->wire, in, room, from, tag, &requests[0]);
    bool right = !result && wire_contract_wait_all(contract, requests, 2, statuses);
    bool same = wire_contract_is_filled(in, bytes, from, contract->rank, tag);
    for (int64_t i = bytes; i < room + MESSAGES_SLACK; i++) same &= in[i] == 0xee;
    free(out);
    free(in);
    REQUIRE_OK(contract, result);
    if (!right) return false;
    REQUIRE(contract, same);
    REQUIRE_EQUAL(contract, statuses[0].from, from);
    REQUIRE_EQUAL(contract, statuses[0].tag, tag);
    REQUIRE_EQUAL(contract, statuses[0].bytes, bytes);
    return true;
}

static bool messages_of_all_sizes(wire_contract *contract) {
    const int64_t sizes[] = {0, 1, 7, 128, 4096, 4097, 65536, 65537, MESSAGES_MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t variant = 0; variant < 4; variant++)
            if (!messages_ring(contract, sizes[i], sizes[i], 3, variant & 1, variant & 2)) return false;
    return true;
}

static bool messages_of_all_tags(wire_contract *contract) {
    const int32_t tags[] = {0, 1, 31, 32, 1023, 32736, 32767};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (!messages_ring(contract, 33, 33, tags[i], false, i & 1)) return false;
    return true;
}

/* The message may be shorter than its receive; what is behind it stays. */
static bool messages_shorter_than_their_room(wire_contract *contract) {
    const int64_t sizes[] = {0, 1, 100, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int32_t variant = 0; variant < 4; variant++)
            if (!messages_ring(contract, sizes[i], sizes[i] + 100, 4, variant & 1, variant & 2)) return false;
    return true;
}

static bool messages_to_itself(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    unsigned char out[50], in[50] = {0};
    muster_wire_request requests[2] = {0, 0};
    wire_contract_fill(out, 50, contract->rank, contract->rank, 1);
    REQUIRE_OK(contract, table->send_matched(contract->wire, out, 50, contract->rank, 6, &requests[0]));
    REQUIRE_OK(contract, table->receive(contract->wire, in, 50, contract->rank, 6, &requests[1]));
    muster_wire_status statuses[2];
    if (!wire_contract_wait_all(contract, requests, 2, statuses)) return false;
    REQUIRE_EQUAL(contract, statuses[1].from, contract->rank);
    REQUIRE(contract, !memcmp(in, out, 50));
    return true;
}

/* A message that does not fit is an error of the receive, which says why, and writes nothing
 * behind its room. The wire goes on. */
static bool messages_too_long(wire_contract *contract) {
    const muster_wire_table *table = contract->table;
    const int32_t to = (contract->rank + 1) % contract->size, from = (contract->rank - 1 + contract->size) % contract->size;
    unsigned char out[64], in[64];
    memset(in, 0xee, sizeof in);
    wire_contract_fill(out, 64, contract->rank, to, 1);
    muster_wire_request send = 0, receive = 0;
    REQUIRE_OK(contract, table->receive(contract->wire, in, 40, from, 8, &receive));
    REQUIRE_OK(contract, table->send(contract->wire, out, 64, to, 8, &send));
    int32_t done = 0, result = MUSTER_WIRE_OK;
    const int64_t end = wire_contract_now() + contract->patience_ns;
    while (!done && result == MUSTER_WIRE_OK && wire_contract_now() < end) result = table->test(contract->wire, &receive, &done, NULL);
    REQUIRE_EQUAL(contract, result, MUSTER_WIRE_ERROR);
    REQUIRE_EQUAL(contract, receive, 0);
    char text[200] = "";
    table->error(text, sizeof text);
    REQUIRE(contract, text[0]);
    for (int32_t i = 40; i < 64; i++) REQUIRE_EQUAL(contract, in[i], 0xee);
    if (!wire_contract_wait(contract, &send, NULL)) return false;
    return messages_ring(contract, 64, 64, 8, false, true);
}

bool wire_contract_messages(wire_contract *contract) {
    RUN_CASE(contract, messages_of_all_sizes);
    RUN_CASE(contract, messages_of_all_tags);
    RUN_CASE(contract, messages_shorter_than_their_room);
    RUN_CASE(contract, messages_to_itself);
    RUN_CASE(contract, messages_too_long);
    return true;
}
