#include "server_play.h"

#include "clock.h"

static void rewrite(float *tensor, int64_t count, float number) {
    for (int64_t i = 0; i < count; i++) tensor[i] = number;
}

static int64_t wrong_elements(const float *pulled, int64_t count, float one, float other) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) wrong += pulled[i] != one && pulled[i] != other;
    return wrong;
}

static bool iterate(const server_player *player, const collective_player *place, const server_job *job, bool odd, uint64_t *begin,
                    uint64_t *end) {
    const float mine = (float)(player->rank + 1);
    rewrite(player->tensor, job->count, odd ? -mine : mine);
    *begin = collective_rendezvous(place);
    const bool ok = *begin != 0 && player->exchange(player->self, job, player);
    *end = bench_ticks();
    if (!ok) collective_abort(player->session);
    return ok && collective_rendezvous(place) != 0;
}

bool server_play(const server_player *player, const server_job *job) {
    const collective_player place = {.session = player->session, .index = player->rank, .players = SERVER_CLIENTS};
    for (int32_t i = -job->warm; i < job->calls; i++) {
        uint64_t begin, end;
        if (!iterate(player, &place, job, (i & 1) != 0, &begin, &end)) return false;
        if (i < 0) continue;
        if (player->rank == 0) player->session->begins[i] = begin;
        player->session->ends[player->rank][i] = end;
    }
    player->session->wrong[player->rank] =
        /* the other's push was behind it, or before */
        wrong_elements(player->pulled, job->count, (float)(2 - player->rank), 0);
    return collective_rendezvous(&place) != 0;
}
