// Who is walked and decoded, and in which pages its keys and values lie. The engine (engine.h) walks what is decided here.
//
// The samples of a run stand in one order, that of the requests: older before younger. The first of them that are not finished
// have seats; the others wait. A seat is given when a sample's known tokens fit into available pages and every older sample
// still has a page to grow into; from then on pages are taken as the answer grows. When none is left the youngest loses its
// seat and its pages and waits again, until all that it knew (prompt and answer so far) is walked anew: preemption. The oldest
// never loses its seat while another has one, and fits alone, so every run ends.
//
// The first sample of a prompt that gets a seat leads: it walks the prompt. Those of the same prompt that are seated before its
// walk ends follow it: they share its full pages and copy the partly filled one. Beyond that full pages are found by content
// (prefix_cache.h), those of this run and of earlier ones, written by prompts or by answers; a page is found as soon as its last
// token is on the way into a batch, since a walk stores the keys of all its rows before any row reads them.
#pragma once
#include "rollout/page_pool.h"
#include "rollout/prefix_cache.h"
#include "rollout/stop_strings.h"
#include "text/samples.h"

enum { NOBODY = -1 };

// One sample: the prompt's tokens and its own. Tokens are known (given or drawn), and stored once a walk has (or will have,
// when it is in the batch) written their keys and values.
typedef struct Sequence {
    int64_t request;
    int32_t *ids;    // [limit]
    float *logprobs; // [limit − prompt_length] of the answer
    int64_t prompt_length, limit, known, stored;
    int32_t *pages; // [pages of limit]
    int64_t page_count;
    int64_t noted;   // leading pages that the prefix cache has heard of
    uint64_t serial; // of the content of these
    int64_t leader;  // the sample whose walk of the prompt it waits for, or NOBODY
    bool finished;
    FinishReason finish;
    int32_t stopped_by;
    StopState stop;
} Sequence;

typedef struct Scheduler {
    bool caching;
    PagePool pool;
    PrefixCache prefixes;
    int64_t max_seats, seat_count;
    int64_t *seats; // [max_seats] samples by age
    Sequence *sequences;
    int64_t count, waiting;             // all samples from `waiting` on have no seat
    int64_t preemptions, cached_tokens; // seats lost; tokens whose pages were found by content
} Scheduler;

void scheduler_open(Scheduler *scheduler, int64_t pages, int64_t max_seats, bool caching, Arena *arena);

// Ends what was under way and begins with sequences[count], which stay the caller's. Pages that hold whole prefixes stay known.
void scheduler_start(Scheduler *scheduler, Sequence *sequences, int64_t count);

// There are more samples, behind the others: sequences[count] holds them all, at another place perhaps.
void scheduler_extend(Scheduler *scheduler, Sequence *sequences, int64_t count);
bool scheduler_idles(const Scheduler *scheduler); // a seat is free, and no sample waits

void scheduler_forget(Scheduler *scheduler); // pages hold nothing any more: the weights have changed. Between runs

// Gives a page to every seated sample whose next token has none, oldest first, preempting the youngest as need be.
void scheduler_grow(Scheduler *scheduler);

// Seats the sample that has waited longest; with only_follower only when another walks its prompt. False: none waits, or there
// is no seat or not enough pages.
bool scheduler_admit(Scheduler *scheduler, bool only_follower);

// The next `count` known tokens are in a batch.
void scheduler_store(Scheduler *scheduler, Sequence *sequence, int64_t count);

// The leader's prompt is walked: the next sample that follows it, from seat *seat on, stands where the leader stands.
bool scheduler_follow(Scheduler *scheduler, Sequence *leader, int64_t *seat);

void scheduler_leave(Scheduler *scheduler, int64_t index); // a sample is finished
