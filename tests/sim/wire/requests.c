/* Requests: numbers with a generation, so that a stale one is noticed. */
#include "wire_launch_private.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char error_text[256];

int32_t wire_refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return MUSTER_WIRE_ERROR;
}

const char *wire_last_error(void) { return error_text; }

static bool requests_grow(wire_launch *launch) {
    if (launch->chunk_count == launch->chunk_limit) {
        const int32_t limit = launch->chunk_limit ? 2 * launch->chunk_limit : 16;
        wire_request **chunks = wire_allocate(launch, sizeof *chunks * (size_t)limit);
        if (!chunks) return false;
        for (int32_t i = 0; i < launch->chunk_count; i++) chunks[i] = launch->chunks[i];
        wire_free(launch, launch->chunks, sizeof *chunks * (size_t)launch->chunk_limit);
        launch->chunks = chunks;
        launch->chunk_limit = limit;
    }
    wire_request *chunk = wire_allocate(launch, sizeof *chunk * WIRE_REQUEST_CHUNK);
    if (!chunk) return false;
    for (int32_t i = WIRE_REQUEST_CHUNK - 1; i >= 0; i--) {
        chunk[i].number = (uint32_t)(launch->chunk_count * WIRE_REQUEST_CHUNK + i);
        chunk[i].next = launch->free_requests;
        launch->free_requests = &chunk[i];
    }
    launch->chunks[launch->chunk_count++] = chunk;
    return true;
}

wire_request *wire_request_begin(muster_wire *wire, wire_request_kind kind, muster_wire_request *handle) {
    wire_launch *launch = wire->launch;
    if (!launch->free_requests && !requests_grow(launch)) return NULL;
    wire_request *request = launch->free_requests;
    launch->free_requests = request->next;
    *request = (wire_request){.wire = wire, .kind = kind, .number = request->number, .generation = request->generation + 1};
    launch->counts.requests++;
    *handle = (uint64_t)request->generation << 32 | (request->number + 1u);
    return request;
}

wire_request *wire_request_find(wire_launch *launch, muster_wire_request handle) {
    const uint32_t number = (uint32_t)handle - 1u;
    if (number >= (uint32_t)launch->chunk_count * WIRE_REQUEST_CHUNK) return NULL;
    wire_request *request = &launch->chunks[number / WIRE_REQUEST_CHUNK][number % WIRE_REQUEST_CHUNK];
    return request->kind != WIRE_FREE && request->generation == (uint32_t)(handle >> 32) ? request : NULL;
}

void wire_request_end(wire_request *request, int32_t result, const char *error) {
    request->done = true;
    request->result = result;
    request->error = error;
}

void wire_request_free(wire_launch *launch, wire_request *request) {
    request->kind = WIRE_FREE;
    request->next = launch->free_requests;
    launch->free_requests = request;
    launch->counts.requests--;
}
