// A rollout dealt out to ranks, and what comes of it: every request to one rank, the columns of all as one rank would have them. Every
// test holds for any number of ranks.
// ranks: 2 3
#include "base/log.h"
#include "run/deal.h"
#include "run/share.h"
#include "support/ranked_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { PROMPTS = 37, GROUP = 3 };

typedef struct World {
    Comm comm;
    Mesh mesh;
} World;

// ---- dealing

static void requests_of(EngineRequest requests[PROMPTS]) {
    for (int32_t i = 0; i < PROMPTS; i++)
        requests[i] = (EngineRequest){.count = 5 + i * 29 % 31, .prompt = 100 - i, .samples = GROUP};
}

static void nap(double seconds) {
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))},
        NULL);
}

// Few seats, and ranks of unlike speed: the quick ones take over more.
static void test_every_request_has_one_rank(void **state) {
    World *world = *state;
    EngineRequest requests[PROMPTS];
    requests_of(requests);
    for (int64_t seats = 1; seats <= GROUP * PROMPTS; seats += 19) {
        Arena arena = {0};
        Deal deal;
        EngineRequest *first;
        int64_t count;
        int32_t who[16][PROMPTS] = {{0}}, *own = who[world->comm.rank];
        deal_open(&deal, &first, &count, &world->mesh, requests, PROMPTS, seats, &arena);
        int64_t share = (PROMPTS + world->comm.size - 1) / world->comm.size;
        assert_true(count <= share);
        if (world->comm.size > 1) assert_true(count <= (seats < GROUP ? 1 : seats / GROUP));
        for (int64_t i = 0; i < count; i++) own[100 - first[i].prompt]++;
        for (const EngineRequest *next; (next = deal_next(&deal)); nap(world->comm.rank * 0.002))
            own[next - requests]++;
        assert_true(deal.over);
        deal_close(&deal);
        comm_all_gather(&world->comm, who, sizeof *who);
        for (int i = 0; i < PROMPTS; i++) {
            int takers = 0;
            for (int rank = 0; rank < world->comm.size; rank++) takers += who[rank][i];
            assert_int_equal(takers, 1);
        }
        arena_close(&arena);
    }
}

// The shares of 5 pretended ranks with seats enough differ by less than the longest prompt; those with few seats together have all.
static void test_pretended_shares(void **state) {
    (void)state;
    enum { RANKS = 5 };
    EngineRequest requests[PROMPTS];
    Error error;
    requests_of(requests);
    for (int64_t seats = GROUP; seats <= GROUP * PROMPTS; seats *= 6) {
        int64_t least = INT64_MAX, most = 0, all = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            Arena arena = {0};
            Comm comm = comm_pretend(rank, RANKS);
            Mesh mesh;
            Deal deal;
            EngineRequest *first;
            int64_t count, tokens = 0;
            assert_true(mesh_open(&mesh, &comm, 1, NULL, &error));
            deal_open(&deal, &first, &count, &mesh, requests, PROMPTS, seats, &arena);
            for (int64_t i = 0; i < count; i++) tokens += first[i].count;
            for (const EngineRequest *next; (next = deal_next(&deal));) tokens += next->count;
            least = tokens < least ? tokens : least, most = tokens > most ? tokens : most;
            all += tokens;
            arena_close(&arena);
        }
        int64_t expected = 0;
        for (int i = 0; i < PROMPTS; i++) expected += requests[i].count;
        assert_int_equal(all, expected);
        if (seats > GROUP * PROMPTS / RANKS) assert_true(most - least < 36);
    }
}

// The last rank stops; the others learn of it within seconds, and only from it.
static void test_a_stop_reaches_all(void **state) {
    World *world = *state;
    EngineRequest requests[PROMPTS];
    requests_of(requests);
    for (int stops = 0; stops < 2; stops++) {
        Arena arena = {0};
        Deal deal;
        EngineRequest *first;
        int64_t count;
        deal_open(&deal, &first, &count, &world->mesh, requests, PROMPTS, 1, &arena);
        double started = log_seconds();
        bool stopped = false;
        while (!stopped && log_seconds() - started < (stops ? 20 : 1.3)) {
            deal.looked_up -= stops * DEAL_LOOK; // soon
            stopped = deal_stops(&deal, stops && world->comm.rank == world->comm.size - 1);
            nap(0.01);
        }
        assert_int_equal(stopped, stops);
        if (stops && world->comm.size > 1) assert_null(deal_next(&deal));
        deal_close(&deal);
        arena_close(&arena);
    }
}

// ---- sharing

// All samples, or those of one rank. Lengths are unlike, and one answer is empty.
static Samples samples_of(Arena *arena, int rank, int ranks) {
    enum { MOST = PROMPTS * GROUP, LONGEST = 40 };
    Samples s = {.prompt = arena_array(arena, int32_t, MOST),
                 .question = arena_array(arena, int32_t, MOST),
                 .offset = arena_array(arena, int64_t, MOST + 1),
                 .prompt_length = arena_array(arena, int32_t, MOST),
                 .ids = arena_array(arena, int32_t, MOST * LONGEST),
                 .generation_logprobs = arena_array(arena, float, MOST *LONGEST),
                 .finish = arena_array(arena, FinishReason, MOST),
                 .stopped_by = arena_array(arena, int32_t, MOST)};
    for (int32_t p = 0; p < PROMPTS; p++)
        for (int32_t g = 0; g < GROUP && (ranks == 1 || p * p % ranks == rank); g++) {
            int64_t b = s.count++, at = s.offset[b];
            s.prompt[b] = 7 * p, s.question[b] = 1000 - p;
            s.prompt_length[b] = 1 + p % 4;
            s.finish[b] = (FinishReason)(b % 4), s.stopped_by[b] = p - g;
            s.offset[b + 1] = at + s.prompt_length[b] + (p * 5 + g * 11) % 30;
            for (int64_t t = at; t < s.offset[b + 1]; t++) {
                s.ids[t] = (int32_t)(p * 1000 + g * 100 + (t - at));
                s.generation_logprobs[t] = -(float)s.ids[t] / 7;
            }
            s.finish[b] = (FinishReason)((p + g) % 4);
        }
    return s;
}

static void test_samples_of_all(void **state) {
    World *world = *state;
    Arena arena = {0};
    Samples whole = samples_of(&arena, 0, 1), own = samples_of(&arena, world->comm.rank, world->comm.size), all;
    share_samples(&all, &own, &world->mesh.data, &arena);
    assert_int_equal(all.count, whole.count);
    size_t count = (size_t)whole.count, tokens = (size_t)whole.offset[count];
    assert_memory_equal(all.offset, whole.offset, (count + 1) * sizeof *all.offset);
    assert_memory_equal(all.prompt, whole.prompt, count * sizeof *all.prompt);
    assert_memory_equal(all.question, whole.question, count * sizeof *all.question);
    assert_memory_equal(all.prompt_length, whole.prompt_length, count * sizeof *all.prompt_length);
    assert_memory_equal(all.finish, whole.finish, count * sizeof *all.finish);
    assert_memory_equal(all.stopped_by, whole.stopped_by, count * sizeof *all.stopped_by);
    assert_memory_equal(all.ids, whole.ids, tokens * sizeof *all.ids);
    assert_memory_equal(all.generation_logprobs, whole.generation_logprobs, tokens * sizeof(float));
    arena_close(&arena);
}

static void test_parts_make_the_whole(void **state) {
    World *world = *state;
    Arena arena = {0};
    Samples whole = samples_of(&arena, 0, 1);
    int64_t first, last, end = 0;
    float *values = arena_array(&arena, float, whole.offset[whole.count]);
    share_part(&first, &last, whole.offset, whole.count, &world->mesh.data);
    assert_true(first <= last);
    for (int64_t t = whole.offset[first]; t < whole.offset[last]; t++) values[t] = (float)t + 1;
    share_by_token(values, whole.offset, whole.count, &world->mesh.data);
    for (int64_t t = 0; t < whole.offset[whole.count]; t++) assert_true(values[t] == (float)t + 1);
    for (int rank = 0; rank < 9; rank++) { // pretended: side by side, and about equally many tokens each
        Comm comm = comm_pretend(rank, 9);
        share_part(&first, &last, whole.offset, whole.count, &comm);
        assert_int_equal(first, end);
        int64_t tokens = whole.offset[last] - whole.offset[first], ninth = whole.offset[whole.count] / 9;
        assert_true(tokens > ninth - 40 && tokens < ninth + 40);
        end = last;
    }
    assert_int_equal(end, whole.count);
    arena_close(&arena);
}

static void test_rewards_of_rank_0(void **state) {
    World *world = *state;
    for (int components = 0; components <= 2; components++) {
        Arena arena = {0};
        Samples s = samples_of(&arena, 0, 1);
        if (world->comm.rank == 0) {
            s.reward = arena_array(&arena, float, s.count), s.valid = arena_array(&arena, float, s.count);
            s.component_count = components;
            for (int c = 0; c < components; c++) {
                s.component_name[c] = c ? "short" : "";
                s.component[c] = arena_array(&arena, float, s.count);
            }
            for (int64_t b = 0; b < s.count; b++) {
                s.reward[b] = (float)b / 3, s.valid[b] = (float)(b % 2);
                for (int c = 0; c < components; c++) s.component[c][b] = (float)(b * (c + 2));
            }
        }
        share_rewards(&s, &world->comm, &arena);
        assert_int_equal(s.component_count, components);
        for (int64_t b = 0; b < s.count; b++) {
            assert_true(s.reward[b] == (float)b / 3 && s.valid[b] == (float)(b % 2));
            for (int c = 0; c < components; c++) assert_true(s.component[c][b] == (float)(b * (c + 2)));
        }
        for (int c = 0; c < components; c++) assert_string_equal(s.component_name[c], c ? "short" : "");
        arena_close(&arena);
    }
}

static void test_counts_are_summed(void **state) {
    World *world = *state;
    EngineCounts own = {.samples = 1 << world->comm.rank, .answer_tokens = 10, .pages = 7}, sum;
    sum = share_counts(own, &world->mesh.data);
    assert_int_equal(sum.samples, (1 << world->comm.size) - 1);
    assert_int_equal(sum.answer_tokens, 10 * world->comm.size);
    assert_int_equal(sum.pages, 7);
}

int main(void) {
    World world;
    Error error;
    if (!ranked_test_open(&world.comm)) return 1;
    if (!mesh_open(&world.mesh, &world.comm, 1, NULL, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_every_request_has_one_rank, &world),
        cmocka_unit_test(test_pretended_shares),
        cmocka_unit_test_prestate(test_a_stop_reaches_all, &world),
        cmocka_unit_test_prestate(test_samples_of_all, &world),
        cmocka_unit_test_prestate(test_parts_make_the_whole, &world),
        cmocka_unit_test_prestate(test_rewards_of_rank_0, &world),
        cmocka_unit_test_prestate(test_counts_are_summed, &world),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_close_world(&world.comm);
    return failed;
}
