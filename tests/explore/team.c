/* Meetings that go well. */
#include "rendezvous.h"

static const rank_scenario inline_two = {.size = 2, .runs = {{.body = rendezvous_inline, .rounds = 4}}};
static const rank_scenario inline_spinning = {.size = 2, .spin_ns = 1, .runs = {{.body = rendezvous_inline, .rounds = 2}}};
static const rank_scenario inline_pair = {
    .size = 3, .members = {2, 1}, .member_count = 2, .runs = {{.body = rendezvous_inline, .rounds = 1}}};
static const rank_scenario inline_three = {.size = 3, .runs = {{.body = rendezvous_inline, .rounds = 2}}};
static const rank_scenario address_two = {.size = 2, .runs = {{.body = rendezvous_by_address, .rounds = 2}}};
static const rank_scenario address_three = {.size = 3, .runs = {{.body = rendezvous_by_address, .rounds = 1}}};

const explore_scenario explore_team_scenarios[] = {
    RANK_SCENARIO("team/inline_2_ranks_4_rounds", inline_two),
    RANK_SCENARIO("team/inline_2_ranks_2_rounds_spinning", inline_spinning),
    RANK_SCENARIO("team/by_address_2_ranks_2_rounds", address_two),
    RANK_SCENARIO("team/inline_2_of_3_ranks", inline_pair),
    BOUND_SCENARIO("team/inline_3_ranks_2_rounds", inline_three, 3),
    BOUND_SCENARIO("team/by_address_3_ranks", address_three, 3),
    {0},
};
