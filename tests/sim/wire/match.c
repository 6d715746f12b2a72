/* Messages and the receives that take them. */
#include "wire_launch_private.h"

#include <string.h>

static bool receive_takes(const wire_request *receive, const wire_message *message) {
    return (receive->from < 0 || receive->from == message->from) && receive->tag == message->tag;
}

void wire_message_free(wire_launch *launch, wire_message *message) {
    if (message->copy) wire_free(launch, message->copy, (size_t)message->bytes);
    wire_free(launch, message, sizeof *message);
    launch->counts.messages--;
}

bool wire_message_keep(wire_launch *launch, wire_message *message) {
    if (message->bytes && !message->copy) {
        message->copy = wire_allocate(launch, (size_t)message->bytes);
        if (!message->copy) return false;
        memcpy(message->copy, message->source, (size_t)message->bytes);
    }
    message->source = NULL;
    if (message->send) message->send->message = NULL;
    message->send = NULL;
    return true;
}

void wire_message_take(wire_launch *launch, wire_request *receive, wire_message *message) {
    if (!receive) {
        wire_message_free(launch, message);
        return;
    }
    const int64_t bytes = message->bytes < receive->room ? message->bytes : receive->room;
    if (bytes) memcpy(receive->to, message->copy ? message->copy : message->source, (size_t)bytes);
    receive->status = (muster_wire_status){.from = message->from, .tag = message->tag, .bytes = message->bytes};
    const bool cut_off = message->bytes > receive->room;
    wire_request_end(receive, cut_off ? MUSTER_WIRE_ERROR : MUSTER_WIRE_OK, cut_off ? "the message is longer than its receive" : NULL);
    wire_clock_done(receive, receive->done_at);
    if (message->send) {
        message->send->message = NULL;
        wire_request_end(message->send, MUSTER_WIRE_OK, NULL);
        wire_clock_done(message->send, message->send->done_at);
    }
    wire_message_free(launch, message);
}

/* They match. */
static void message_match(wire_launch *launch, wire_request *receive, wire_message *message) {
    if (!wire_clock_match(launch, message, receive)) wire_message_take(launch, receive, message);
}

static void posted_remove(muster_wire *wire, wire_request **link) {
    wire_request *request = *link;
    *link = request->next;
    if (!request->next) wire->posted_end = link;
    request->next = NULL;
}

static wire_message *message_remove(wire_message ***end, wire_message **link) {
    wire_message *message = *link;
    *link = message->next;
    if (!message->next && end) *end = link;
    message->next = NULL;
    return message;
}

void wire_hold(wire_message *message) {
    wire_message **end = &message->comm->members[message->to].held;
    while (*end) end = &(*end)->next;
    message->aloft = false;
    message->next = NULL;
    *end = message;
}

void wire_arrive(wire_launch *launch, wire_message *message) {
    muster_wire *wire = &message->comm->members[message->to];
    if (wire_is_cut(launch, message->comm, message->from, message->to)) {
        wire_hold(message);
        return;
    }
    for (wire_request **link = &wire->posted; *link; link = &(*link)->next)
        if (receive_takes(*link, message)) {
            wire_request *receive = *link;
            posted_remove(wire, link);
            message_match(launch, receive, message);
            return;
        }
    message->next = NULL;
    *wire->unexpected_end = message;
    wire->unexpected_end = &message->next;
    wire_clock_arrived(wire, message);
}

wire_message **wire_find(muster_wire *wire, int32_t from, int32_t tag) {
    wire_message **found = NULL;
    for (wire_message **link = &wire->unexpected; *link; link = &(*link)->next) {
        if ((*link)->tag != tag || (from >= 0 && (*link)->from != from)) continue;
        if (!found) found = link;
        if (from >= 0 || !wire->launch->options.seed) break;
        if ((*link)->probed) return link;
        /* From any process: another sender's first one will do as well. */
        if ((*link)->from != (*found)->from && wire_chance(wire->launch)) {
            bool first = true;
            for (wire_message *m = wire->unexpected; m != *link; m = m->next) first &= m->from != (*link)->from || m->tag != tag;
            if (first) found = link;
        }
    }
    return found;
}

int32_t wire_send(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, bool rendezvous,
                  muster_wire_request *handle) {
    wire_launch *launch = wire->launch;
    wire_message *message = wire_allocate(launch, sizeof *message);
    wire_request *request = message ? wire_request_begin(wire, WIRE_SEND, handle) : NULL;
    if (!request) {
        if (message) wire_free(launch, message, sizeof *message);
        return wire_refuse("out of memory");
    }
    const int64_t eager = launch->options.eager_bytes;
    *message = (wire_message){.comm = wire->comm,
                              .source = from,
                              .send = request,
                              .bytes = bytes,
                              .from = wire->rank,
                              .to = to,
                              .tag = tag,
                              .rendezvous = rendezvous || eager < 0 || bytes > eager};
    request->message = message;
    request->from = to;
    launch->counts.messages++;
    launch->counts.sent++;
    launch->counts.sent_bytes += bytes;
    if (launch->clock) {
        wire_clock_send(launch, message);
    } else if (launch->options.lazy) {
        *wire->outbox_end = message;
        wire->outbox_end = &message->next;
    } else {
        wire_arrive(launch, message);
    }
    return MUSTER_WIRE_OK;
}

int32_t wire_receive(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *handle) {
    wire_launch *launch = wire->launch;
    wire_request *request = wire_request_begin(wire, WIRE_RECEIVE, handle);
    if (!request) return wire_refuse("out of memory");
    request->to = to;
    request->room = bytes;
    request->from = from;
    request->tag = tag;
    request->done_at = wire_clock_now(wire);
    wire_clock_act(wire);
    wire_message **link = wire_find(wire, from, tag);
    if (link) {
        message_match(launch, request, message_remove(&wire->unexpected_end, link));
        return MUSTER_WIRE_OK;
    }
    *wire->posted_end = request;
    wire->posted_end = &request->next;
    return MUSTER_WIRE_OK;
}

/* Takes a message out of whatever list of its receiver or sender holds it. */
static void message_unlink(wire_message *message) {
    if (message->aloft) return;
    muster_wire *to = &message->comm->members[message->to], *from = &message->comm->members[message->from];
    for (wire_message **link = &to->unexpected; *link; link = &(*link)->next)
        if (*link == message) {
            message_remove(&to->unexpected_end, link);
            return;
        }
    for (wire_message **link = &from->outbox; *link; link = &(*link)->next)
        if (*link == message) {
            message_remove(&from->outbox_end, link);
            return;
        }
    for (wire_message **link = &to->held; *link; link = &(*link)->next)
        if (*link == message) {
            message_remove(NULL, link);
            return;
        }
}

void wire_request_unlink(wire_request *request) {
    muster_wire *wire = request->wire;
    if (request->kind == WIRE_RECEIVE)
        for (wire_request **link = &wire->posted; *link; link = &(*link)->next)
            if (*link == request) {
                posted_remove(wire, link);
                return;
            }
    if (request->kind == WIRE_RECEIVE && request->message) { /* its bytes were on their way */
        request->message->receive = NULL;
        request->message = NULL;
    }
    if (request->kind == WIRE_SEND && request->message) {
        wire_message *message = request->message;
        request->message = NULL;
        message->send = NULL;
        message_unlink(message);
        if (message->aloft)
            message->dropped = true;
        else
            wire_message_free(wire->launch, message);
    }
    if (request->kind == WIRE_COLLECTIVE && request->collective) request->collective->parts[wire->rank].request = NULL;
}

/* An eager send is done when its bytes are kept elsewhere, though nobody has matched it. One to a
 * process that has ended never is: its message is gone. */
static void send_look(wire_request *request) {
    wire_message *message = request->message;
    if (!message || message->rendezvous || request->done_at > wire_clock_now(request->wire)) return;
    if (wire_message_keep(request->wire->launch, message)) wire_request_end(request, MUSTER_WIRE_OK, NULL);
}

void wire_request_look(wire_request *request) {
    wire_launch *launch = request->wire->launch;
    const wire_comm *comm = request->wire->comm;
    if (request->done) return;
    if (request->kind == WIRE_SEND) send_look(request);
    if (request->done || !launch->options.fault_tolerance) return;
    bool lost = comm->revoked;
    if (request->kind == WIRE_SEND || (request->kind == WIRE_RECEIVE && request->from >= 0)) {
        lost |= wire_is_dead(launch, comm, request->from);
    } else {
        for (int32_t i = 0; !lost && launch->any_dead && i < comm->size; i++) lost = wire_is_dead(launch, comm, i);
    }
    if (!lost) return;
    wire_request_unlink(request);
    wire_request_end(request, MUSTER_WIRE_LOST, NULL);
}

void wire_outbox_flush(muster_wire *wire) {
    while (wire->outbox && wire->outbox->aged) {
        wire_message *message = wire->outbox;
        message_remove(&wire->outbox_end, &wire->outbox);
        wire_arrive(wire->launch, message);
    }
    for (wire_message *message = wire->outbox; message; message = message->next) message->aged = true;
}
