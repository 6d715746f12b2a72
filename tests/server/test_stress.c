/* Clients that do a hundred thousand mixed operations each, seeded. Client i adds 2^(16 (i mod 4))
 * to the elements e with e mod 2 = i / 4, so that each shard that is received tells how many sends
 * of each client it holds; and that has to be a state which some order
 * allows: of one's own sends exactly those before the receive, of the others' at least those that
 * were done before it began and at most those that had begun when it was done, and never fewer than
 * before. */
#include "server_fixture.h"

#include <pthread.h>

#ifdef MUSTER_TEST_SANITIZED
enum { OPERATIONS = 4000 };
#else
enum { OPERATIONS = 100000 };
#endif
enum { ELEMENTS = 61, MOST = 8, IN_FLIGHT = 4 };

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    int32_t clients, workers;
    _Atomic int64_t begun[MOST], done[MOST];
    uint64_t seed;
} world;

typedef struct flight {
    muster_request *request;
    bool receives;
    int64_t own, least[MOST];
    int64_t elements[ELEMENTS];
} flight;

typedef struct actor {
    world *t;
    int32_t index;
    muster_client *client;
    int64_t sent, finished;   /* sends: begun; done in order */
    int64_t seen[MOST][MOST]; /* by shard and client */
    int64_t one[ELEMENTS];
    flight flights[IN_FLIGHT]; /* a ring, the oldest at `first` */
    int32_t first, count;
    muster_status status;
} actor;

static int64_t count_of(int64_t element, int32_t client) { return (int64_t)((uint64_t)element >> 16 * (client % 4) & 0xffff); }

static muster_status wrong(const char *what, int32_t client, int64_t found) {
    char text[128];
    snprintf(text, sizeof text, "%s: client %d, %lld", what, (int)client, (long long)found);
    return muster_fail(MUSTER_USER, text);
}

/* One shard of what was received. */
static muster_status check_shard(actor *a, const flight *f, int32_t shard) {
    int64_t first, count;
    MUSTER_TRY(muster_server_shard(a->t->server, 0, shard, &first, &count));
    for (int32_t c = 0; c < a->t->clients; c++) {
        int64_t number = -1;
        for (int64_t e = first; e < first + count; e++) {
            if (e % 2 != c / 4) continue;
            const int64_t here = count_of(f->elements[e], c);
            if (number >= 0 && here != number) return wrong("a torn shard", c, here);
            number = here;
        }
        if (number < 0) continue;
        if (c == a->index && number != f->own) return wrong("not one's own sends", c, number);
        if (number < f->least[c]) return wrong("a send that was done is missing", c, number);
        if (number > atomic_load(&a->t->begun[c])) return wrong("a send that has not begun", c, number);
        if (number < a->seen[shard][c]) return wrong("fewer than before", c, number);
        a->seen[shard][c] = number;
    }
    return MUSTER_OK;
}

static muster_status check_flight(actor *a, const flight *f) {
    for (int32_t s = 0; f->receives && s < muster_server_shards(a->t->server); s++) MUSTER_TRY(check_shard(a, f, s));
    return MUSTER_OK;
}

static muster_status land(actor *a) {
    flight *f = &a->flights[a->first];
    MUSTER_TRY(muster_request_wait(&f->request));
    a->first = (a->first + 1) % IN_FLIGHT;
    a->count--;
    if (!f->receives) atomic_store(&a->t->done[a->index], ++a->finished);
    return check_flight(a, f);
}

static flight *take_off(actor *a, bool receives) {
    flight *f = &a->flights[(a->first + a->count++) % IN_FLIGHT];
    f->receives = receives;
    f->own = a->sent;
    for (int32_t c = 0; c < a->t->clients; c++) f->least[c] = atomic_load(&a->t->done[c]);
    return f;
}

static muster_status send_one(actor *a, bool waits, int32_t flags) {
    atomic_store(&a->t->begun[a->index], ++a->sent);
    flight *f = take_off(a, false);
    f->request = NULL;
    if (!(flags & MUSTER_SEND_COPY))
        return muster_client_send(a->client, 0, MUSTER_RULE_ADD, 0, muster_i64(a->one, ELEMENTS), 0, waits ? NULL : &f->request);
    int64_t gone[ELEMENTS];
    memcpy(gone, a->one, sizeof gone);
    const muster_status status = muster_client_send(a->client, 0, MUSTER_RULE_ADD, 0, muster_i64(gone, ELEMENTS), flags, &f->request);
    memset(gone, 0xff, sizeof gone);
    return status;
}

static muster_status receive_one(actor *a, bool waits) {
    flight *f = take_off(a, true);
    f->request = NULL;
    return muster_client_receive(a->client, 0, muster_i64(f->elements, ELEMENTS), waits ? NULL : &f->request);
}

static muster_status test_oldest(actor *a) {
    int32_t done;
    return a->count ? muster_request_test(&a->flights[a->first].request, &done) : MUSTER_OK;
}

/* A receive that is waited for at once may not overtake sends in flight: everything in the ring
 * lands in order. */
static muster_status act(actor *a) {
    uint64_t random = a->t->seed * 1000 + (uint64_t)a->index;
    for (int64_t k = 0; k < OPERATIONS; k++) {
        const uint32_t choice = fixture_random(&random, 100);
        while (a->count == IN_FLIGHT) MUSTER_TRY(land(a));
        if (choice < 20)
            MUSTER_TRY(send_one(a, true, 0));
        else if (choice < 30)
            MUSTER_TRY(send_one(a, false, 0));
        else if (choice < 35)
            MUSTER_TRY(send_one(a, false, MUSTER_SEND_COPY));
        else if (choice < 70)
            MUSTER_TRY(receive_one(a, true));
        else if (choice < 95)
            MUSTER_TRY(receive_one(a, false));
        else
            MUSTER_TRY(test_oldest(a));
        if (choice % 3 == 0)
            while (a->count) MUSTER_TRY(land(a));
    }
    while (a->count) MUSTER_TRY(land(a));
    return MUSTER_OK;
}

static muster_status run_actor(world *t, int32_t index, muster_client *client) {
    actor *a = test_calloc(1, sizeof *a);
    a->t = t;
    a->index = index;
    a->client = client;
    for (int64_t e = 0; e < ELEMENTS; e++) a->one[e] = e % 2 == index / 4 ? (int64_t)1 << 16 * (index % 4) : 0;
    const muster_status status = act(a);
    test_free(a);
    return status;
}

static muster_status worker_body(muster_worker *w, void *user) {
    world *t = user;
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    return run_actor(t, muster_worker_rank(w), client);
}

typedef struct host_thread {
    world *t;
    int32_t index;
    muster_status status;
    char message[MST_MESSAGE_SIZE];
    pthread_t thread;
} host_thread;

static muster_status host_act(const host_thread *h) {
    muster_client *client;
    MUSTER_TRY(muster_client_open(h->t->server, &client));
    const muster_status status = run_actor(h->t, h->index, client);
    if (status != MUSTER_OK) return status;
    return muster_client_close(client);
}

static void *host_main(void *self) {
    host_thread *h = self;
    h->status = host_act(h);
    mst_error_save(h->message);
    return NULL;
}

static void check_end(world *t) {
    int64_t elements[ELEMENTS];
    muster_client *client;
    assert_ok(muster_client_open(t->server, &client));
    assert_ok(muster_client_receive(client, 0, muster_i64(elements, ELEMENTS), NULL));
    for (int64_t e = 0; e < ELEMENTS; e++)
        for (int32_t c = 0; c < t->clients; c++)
            if (e % 2 == c / 4) assert_int_equal(count_of(elements[e], c), atomic_load(&t->begun[c]));
    assert_ok(muster_client_close(client));
}

/* `workers` inside a function, and the other clients in threads of their own. */
static void stress(int32_t workers, int32_t hosts, int32_t shards, int32_t progress) {
    int64_t zeros[ELEMENTS] = {0};
    world t = {.runtime = fixture_open("host", workers), .clients = workers + hosts, .workers = workers, .seed = fixture_seed()};
    host_thread threads[MOST];
    t.server = server_of(t.runtime, muster_i64(zeros, ELEMENTS), shards, progress);
    for (int32_t h = 0; h < hosts; h++) {
        threads[h] = (host_thread){.t = &t, .index = workers + h};
        assert_int_equal(pthread_create(&threads[h].thread, NULL, host_main, &threads[h]), 0);
    }
    assert_ok(server_run(t.runtime, worker_body, &t));
    for (int32_t h = 0; h < hosts; h++) {
        pthread_join(threads[h].thread, NULL);
        if (threads[h].status != MUSTER_OK) fail_msg("client %d: %s", (int)threads[h].index, threads[h].message);
    }
    check_end(&t);
    fixture_close(t.runtime);
}

static void one_client(void **state) {
    (void)state;
    stress(1, 0, 3, -1);
}
static void two_workers(void **state) {
    (void)state;
    stress(2, 0, 2, -1);
}
static void three_clients_of_both_kinds(void **state) {
    (void)state;
    stress(1, 2, 4, -1);
}
static void two_clients_and_a_progress_thread(void **state) {
    (void)state;
    stress(2, 0, 3, 1);
}
static void four_workers(void **state) {
    (void)state;
    stress(4, 0, 4, -1);
}
static void eight_clients_of_both_kinds(void **state) {
    (void)state;
    stress(4, 4, 8, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client),
        cmocka_unit_test(two_workers),
        cmocka_unit_test(three_clients_of_both_kinds),
        cmocka_unit_test(two_clients_and_a_progress_thread),
        cmocka_unit_test(four_workers),
        cmocka_unit_test(eight_clients_of_both_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
