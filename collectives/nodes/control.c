/* Poison, questions and answers. Poison is flooded: each process tells, once for each epoch, those
 * to which it sends its arrivals, 2^k below it, so that log2 of their number many hops reach
 * all. */
#include "control_private.h"

#include "clock_impl.h"
#include "memory_impl.h"

#include <stdio.h>
#include <string.h>

void mst_control_open(mst_control *c, mst_wire *wire) {
    memset(c, 0, sizeof *c);
    c->wire = wire;
    while (c->steps < MST_CONTROL_STEPS && (int64_t)1 << c->steps < wire->processes) c->steps++;
}

static int32_t neighbour(const mst_control *c, int32_t step) {
    return (int32_t)(((int64_t)c->wire->process + c->wire->processes - ((int64_t)1 << step)) % c->wire->processes);
}

static mst_progress failed(const mst_control *c, int32_t result) {
    return mst_channel_failed(&(mst_channel){.wire = c->wire}, result, "control messages between processes");
}

/* DONE: the slot is free. */
static mst_progress free_slot(const mst_control *c, struct mst_control_slot *slot) {
    int32_t done = 1;
    if (slot->request == 0) return MST_PROGRESS_DONE;
    const int32_t result = c->wire->table->test(c->wire->state, &slot->request, &done, NULL);
    if (result != MUSTER_WIRE_OK) return failed(c, result);
    return done ? MST_PROGRESS_DONE : MST_PROGRESS_RUNNING;
}

static mst_progress send(mst_control *c, struct mst_control_slot *slot, const mst_control_message *message, int32_t to) {
    const mst_progress progress = free_slot(c, slot);
    if (progress != MST_PROGRESS_DONE) return progress;
    slot->message = *message;
    slot->to = to;
    slot->sent_ns = mst_now_ns();
    /* Not counted: how many questions there are depends on the time. */
    const int32_t result =
        c->wire->table->send(c->wire->state, &slot->message, sizeof slot->message, to, mst_wire_tag(0, MST_KIND_CONTROL), &slot->request);
    return result == MUSTER_WIRE_OK ? MST_PROGRESS_DONE : failed(c, result);
}

static mst_progress send_by_any(mst_control *c, const mst_control_message *message, int32_t to) {
    const int32_t slots = message->type == MST_CONTROL_ANSWER ? MST_CONTROL_SLOTS : MST_CONTROL_ASKING_SLOTS;
    for (int32_t i = 0; i < slots; i++) {
        const mst_progress progress = send(c, &c->slots[i], message, to);
        if (progress != MST_PROGRESS_RUNNING) return progress;
    }
    return MST_PROGRESS_RUNNING;
}

/* Have half of the slots for questions been on their way to it for so long? It would get the
 * others, too, and no other process would be asked anything. */
static bool takes_nothing(mst_control *c, int32_t process, int64_t for_ns) {
    const int64_t now_ns = mst_now_ns();
    int32_t held = 0;
    for (int32_t i = 0; i < MST_CONTROL_SLOTS; i++)
        held += c->slots[i].to == process && now_ns - c->slots[i].sent_ns >= for_ns && free_slot(c, &c->slots[i]) == MST_PROGRESS_RUNNING;
    return held >= MST_CONTROL_ASKING_SLOTS / 2;
}

/* ---- poison ---- */

static mst_progress flood(mst_control *c, mst_control_type type) {
    for (int32_t step = 0; step < c->steps; step++) {
        if (!(c->to_flood[type] >> step & 1)) continue;
        const int32_t to = neighbour(c, step);
        mst_progress progress = send(c, &c->flood[type][step], &c->poison[type], to);
        /* The poison before may still be in its slot, and who gives up a call may not come here
         * again for long. */
        if (progress == MST_PROGRESS_RUNNING && !takes_nothing(c, to, 0)) progress = send_by_any(c, &c->poison[type], to);
        if (progress > MST_PROGRESS_DONE) return progress;
        if (progress == MST_PROGRESS_DONE) c->to_flood[type] &= ~(1u << step);
    }
    return MST_PROGRESS_DONE;
}

/* The first epoch that the poison ends. Without a gap it joins what was poisoned before: another
 * process may still be in one of those epochs, and get this message alone. */
static uint64_t first_poisoned(const mst_control *c, const mst_control_message *message) {
    if (message->type != MST_CONTROL_GIVEN_UP) return message->epoch;
    uint64_t first = message->epoch == MST_CONTROL_FOR_EVER ? c->current : c->current + 1;
    if (message->epoch < first) first = message->epoch;
    if (message->first > 0 && message->first < first) first = message->first;
    const uint64_t before = atomic_load(&c->poisoned_first[MST_CONTROL_GIVEN_UP]), last = atomic_load(&c->poisoned[MST_CONTROL_GIVEN_UP]);
    return last > 0 && last + 1 >= first && before < first ? before : first;
}

/* Does the poison, which ends epochs from `first` on, end one that the one before of its kind does
 * not? */
static bool ends_more(const mst_control *c, const mst_control_message *message, uint64_t first) {
    const uint64_t before = atomic_load(&c->poisoned[message->type]), before_first = atomic_load(&c->poisoned_first[message->type]);
    if (message->type == MST_CONTROL_CLOSED) return before == 0 || first < before_first;
    if (message->epoch > before) return true;
    return message->type == MST_CONTROL_GIVEN_UP && first < before_first && message->epoch + 1 >= before_first;
}

bool mst_control_poison(mst_control *c, const mst_control_message *message) {
    const mst_control_type type = message->type;
    const uint64_t first = first_poisoned(c, message), before = atomic_load(&c->poisoned[type]);
    if (!ends_more(c, message, first)) return false;
    const bool is_newest = type == MST_CONTROL_CLOSED || message->epoch > before;
    const uint64_t last = type == MST_CONTROL_CLOSED ? MST_CONTROL_FOR_EVER : is_newest ? message->epoch : before;
    atomic_store(&c->poisoned[type], 0); /* no thread sees half of it */
    atomic_store(&c->poisoned_first[type], first);
    if (is_newest) c->poison[type] = *message;
    c->poison[type].magic = MST_CONTROL_MAGIC;
    c->poison[type].first = first;
    c->poison[type].text[MST_MESSAGE_SIZE - 1] = 0;
    c->to_flood[type] = (uint32_t)(((uint64_t)1 << c->steps) - 1);
    atomic_store(&c->poisoned[type], last);
    flood(c, type); /* what fails here fails again in the next progress */
    return true;
}

/* ---- questions and answers ---- */

void mst_control_enter(mst_control *c, mst_control_waiter *waiter) {
    waiter->late.number = waiter->returned.number = 0;
    waiter->next = c->waiters;
    c->waiters = waiter;
    if (!waiter->enters) return;
    waiter->enters->epoch = waiter->epoch;
    waiter->enters->arrival = waiter->arrival;
}

void mst_control_leave(mst_control *c, mst_control_waiter *waiter) {
    mst_control_waiter **at = &c->waiters;
    while (*at != waiter) at = &(*at)->next;
    *at = waiter->next;
}

void mst_control_add(mst_control *c, mst_control_lane *lane) {
    lane->next = c->lanes;
    c->lanes = lane;
}

/* Nobody asks any more about calls before `epoch`. */
static void forget(mst_control *c, uint64_t epoch) {
    while (c->left && c->left->epoch < epoch) {
        mst_control_lane *lane = c->left;
        c->left = lane->next;
        mst_free(lane);
    }
}

/* All that are kept are of the same call. */
void mst_control_remove(mst_control *c, mst_control_lane *lane) {
    mst_control_lane **at = &c->lanes;
    if (!lane) return;
    while (*at != lane) at = &(*at)->next;
    *at = lane->next;
    forget(c, lane->epoch);
    if (c->left && c->left->epoch > lane->epoch) {
        mst_free(lane);
        return;
    }
    lane->next = c->left;
    c->left = lane;
}

/* A lane may have had other communicators before, in this call, too. */
static mst_control_lane *communicator_of(mst_control_lane *lane, const mst_control_message *question) {
    while (lane && (lane->lane != question->lane || lane->birth != question->wanted.birth)) lane = lane->next;
    return lane;
}

bool mst_control_has_entered(const mst_control *c, const mst_control_message *question) {
    const mst_control_lane *lane = communicator_of(c->lanes, question);
    if (!lane) lane = communicator_of(c->left, question);
    return lane && lane->epoch == question->epoch && lane->arrival >= question->wanted.arrival;
}

bool mst_control_ask(mst_control *c, mst_control_question *question, const mst_control_message *what, int32_t process) {
    mst_control_message message = *what;
    message.magic = MST_CONTROL_MAGIC;
    message.number = c->questions + 1;
    message.process = c->wire->process;
    if (takes_nothing(c, process, 0) || send_by_any(c, &message, process) != MST_PROGRESS_DONE) return false;
    question->number = ++c->questions;
    question->answered = false;
    return true;
}

bool mst_control_is_leaving(mst_control *c, const mst_control_question *question) {
    bool is_leaving = false;
    for (int32_t i = 0; i < MST_CONTROL_SLOTS; i++) {
        const bool has_it = c->slots[i].message.type != MST_CONTROL_ANSWER && c->slots[i].message.number == question->number;
        is_leaving |= has_it && free_slot(c, &c->slots[i]) == MST_PROGRESS_RUNNING;
    }
    return is_leaving;
}

int32_t mst_control_held_by(const mst_control *c, int32_t process) {
    for (int32_t i = 0; i < MST_CONTROL_SLOTS; i++)
        if (c->slots[i].to == process) return process;
    return c->slots[0].to;
}

/* Only a process that waits in the same call knows. What has failed here becomes known by itself,
 * and decides. */
static int32_t returned_rank(const mst_control *c, const mst_control_message *question, char text[MST_MESSAGE_SIZE]) {
    const mst_control_waiter *known = NULL;
    for (const mst_control_waiter *waiter = c->waiters; waiter; waiter = waiter->next)
        if (waiter->epoch == question->epoch && (waiter->worker || waiter->ended)) known = waiter;
    if (!known || mst_control_is_poisoned(c, MST_CONTROL_FAILED, question->epoch)) return MST_CONTROL_NO_RANK;
    if (question->wanted.arrival > 0 && mst_control_has_entered(c, question)) return MST_CONTROL_NO_RANK;
    mst_control_lane *lane = communicator_of(c->lanes, question);
    if (lane) return lane->returned(lane, known, &question->wanted, text);
    return known->ended ? MST_CONTROL_ALL_RANKS : MST_CONTROL_NO_RANK;
}

static mst_progress answer_returned(mst_control *c, const mst_control_message *question) {
    mst_control_message message = {.magic = MST_CONTROL_MAGIC, .type = MST_CONTROL_ANSWER, .number = question->number, .process = -1};
    message.rank = returned_rank(c, question, message.text);
    return send_by_any(c, &message, question->process);
}

/* Of several that wait in this process: the one on the lane of the question. */
static mst_progress answer(mst_control *c, const mst_control_message *question) {
    const mst_control_waiter *best = c->waiters;
    for (const mst_control_waiter *waiter = c->waiters; waiter; waiter = waiter->next)
        if (waiter->lane == question->lane) best = waiter;
    mst_control_message message = {.magic = MST_CONTROL_MAGIC, .type = MST_CONTROL_ANSWER, .number = question->number, .process = -1};
    if (best) {
        message.epoch = best->epoch;
        message.lane = best->lane;
        message.process = best->machine->waits_for(best->machine);
        snprintf(message.text, sizeof message.text, "%s", best->doing);
    } else {
        /* A body asks whether it is cancelled. */
        snprintf(message.text, sizeof message.text, "%s", c->without_wait ? c->without_wait : "a body");
    }
    return send_by_any(c, &message, question->process);
}

static void take_answer_to(mst_control_question *question, const mst_control_message *message) {
    if (question->number != message->number || question->answered) return;
    question->answer = *message;
    question->answer.text[MST_MESSAGE_SIZE - 1] = 0;
    question->answered = true;
}

static void take_answer(mst_control *c, const mst_control_message *message) {
    for (mst_control_waiter *waiter = c->waiters; waiter; waiter = waiter->next) {
        take_answer_to(&waiter->late, message);
        take_answer_to(&waiter->returned, message);
    }
}

/* ---- what comes ---- */

static mst_progress take(mst_control *c, uint64_t current) {
    enum { LONG_NS = 20000000 };
    const mst_control_message *message = &c->incoming;
    if (message->magic != MST_CONTROL_MAGIC || message->process < -1 || message->process >= c->wire->processes) return MST_PROGRESS_DONE;
    const bool asks = message->type == MST_CONTROL_QUESTION || message->type == MST_CONTROL_RETURNED;
    if (asks && message->process >= 0 && takes_nothing(c, message->process, LONG_NS)) return MST_PROGRESS_DONE;
    if (message->type == MST_CONTROL_QUESTION && message->process >= 0) return answer(c, message);
    if (message->type == MST_CONTROL_RETURNED && message->process >= 0) return answer_returned(c, message);
    if (message->type == MST_CONTROL_ANSWER) take_answer(c, message);
    const bool is_over = message->epoch < current && message->type != MST_CONTROL_CLOSED;
    if (message->type < MST_CONTROL_POISON_KINDS && message->process >= 0 && !is_over) mst_control_poison(c, message);
    return MST_PROGRESS_DONE;
}

static mst_progress post(mst_control *c) {
    memset(&c->incoming, 0, sizeof c->incoming); /* a message that is too short lacks the magic number */
    const int32_t result =
        c->wire->table->receive(c->wire->state, &c->incoming, sizeof c->incoming, -1, mst_wire_tag(0, MST_KIND_CONTROL), &c->receive);
    return result == MUSTER_WIRE_OK ? MST_PROGRESS_DONE : failed(c, result);
}

mst_progress mst_control_progress(mst_control *c, uint64_t current) {
    c->current = current;
    forget(c, current);
    for (int32_t type = 0; type < MST_CONTROL_POISON_KINDS; type++) {
        const mst_progress progress = c->to_flood[type] ? flood(c, type) : MST_PROGRESS_DONE;
        if (progress > MST_PROGRESS_DONE) return progress;
    }
    for (int32_t taken = 0; taken < 4; taken++) { /* the lock is not held for longer */
        if (!c->there && c->receive == 0) {
            const mst_progress progress = post(c);
            if (progress != MST_PROGRESS_DONE) return progress;
        }
        if (!c->there) {
            int32_t done = 0;
            const int32_t result = c->wire->table->test(c->wire->state, &c->receive, &done, NULL);
            if (result != MUSTER_WIRE_OK) return failed(c, result);
            if (!done) return MST_PROGRESS_DONE;
            c->there = true;
        }
        const mst_progress progress = take(c, current);
        if (progress != MST_PROGRESS_DONE) return progress;
        c->there = false;
    }
    return MST_PROGRESS_RUNNING;
}

/* ---- the end ---- */

static bool slots_are_sending(mst_control *c, struct mst_control_slot *slots, int32_t count) {
    bool sending = false;
    for (int32_t i = 0; i < count; i++) sending |= free_slot(c, &slots[i]) != MST_PROGRESS_DONE;
    return sending;
}

bool mst_control_is_sending(mst_control *c) {
    bool sending = slots_are_sending(c, c->slots, MST_CONTROL_SLOTS);
    for (int32_t type = 0; type < MST_CONTROL_POISON_KINDS; type++)
        sending |= c->to_flood[type] != 0 || slots_are_sending(c, c->flood[type], c->steps);
    return sending;
}

bool mst_control_close(mst_control *c) {
    forget(c, UINT64_MAX);
    const bool stays = c->receive != 0 && c->wire->table->cancel(c->wire->state, &c->receive) != MUSTER_WIRE_OK;
    return mst_control_is_sending(c) || stays;
}
