// The rollout engine: prompts in, samples out. Continuous batching over a paged KV cache; samples that begin alike share pages;
// every sampled token's log-prob is recorded. Scheduling never changes a bit: each token depends on its own sequence and on
// Philox numbers by coordinates (seed, purpose; step, prompt, sample, token).
//
//   engine_open; engine_start; while (engine_step) {progress, streaming}; engine_collect; (engine_start …); engine_close
//
// A round (engine_step) seats waiting samples, walks the next chunk of prompts, and draws one token for every sample whose
// tokens are all walked; while prompts fill whole chunks it only walks prompts. Pages are taken as answers grow; a sample may
// lose its seat and be walked again (scheduler.h). A prompt is walked once for all its samples that have seats: their first
// tokens are drawn from the same row.
//
// With enable_prefix_caching full pages are found by what they hold, in this run and in later ones, as long as the resident's
// weights are the same: requests that share a beginning (a system prompt, a chat's earlier turns) walk it once.
//
// An answer ends with a stop id or with the token that completes a stop string, which belong to it, log-prob included; at
// max_new_tokens or max_length; or where its logits are no numbers (FINISH_NAN, no token). Stop ids are options.stop_ids and,
// unless ignore_eos, the model's own. Greedy answers record the log-probs of the untempered, unfiltered distribution. On plan no
// token stops an answer: all reach their limit.
#pragma once
#include "model/resident.h"
#include "rollout/sampler.h"
#include "rollout/stop_strings.h"
#include "text/samples.h"

typedef struct Engine Engine;

// What the model itself brings along to end answers.
typedef struct EngineStops {
    const Tokenizer *tokenizer; // not owned; reads answers for options.stop_strings; NULL: there must be none
    const int32_t *ids;         // [count] at most GENERATION_MAX_STOP_IDS, copied
    int count;
} EngineStops;

// G samples of one prompt.
typedef struct EngineRequest {
    const int32_t *ids; // [count], copied by engine_start
    int64_t count;
    int32_t prompt;   // coordinate of its random numbers and its group in Samples; not twice in one call
    int32_t samples;  // G
    int32_t question; // handed on to Samples
} EngineRequest;

// The coordinates that all draws of a run share.
typedef struct EngineRun {
    uint64_t seed;
    RngPurpose purpose;
    uint32_t step;
} EngineRun;

// Runs take pages for kv_cache_tokens (tag MEMORY_KV_CACHE) and logits of some rows (MEMORY_LOGITS); walks use at most
// resident->max_rows rows. The resident must outlive the engine; its weights may be loaded anew between runs. Refuses options
// out of range and a max_length beyond the resident's rotary table. *engine is NULL after an error.
bool engine_open(Engine **engine, Resident *resident, const GenerationOptions *options, EngineStops stops,
                 Error *error);
void engine_close(Engine *engine); // accepts NULL

// Drops what the last run left and gives pages and logits back, until the next run takes them again.
void engine_rest(Engine *engine);

// How the next runs sample: temperature, top_p, top_k and min_p of options (validation may differ from training). The rest of
// the options stays as it was at open.
void engine_set_sampling(Engine *engine, const GenerationOptions *options);

// The longest prompt, in tokens, that engine_start takes: one that leaves room for an answer below max_length and whose sample
// fits into the cache alone. 0: none.
int64_t engine_longest_prompt(const Engine *engine);

// Begins a run and drops what the last one left. Refuses, naming the request: an empty prompt, one that leaves no room below
// max_length, ids outside the vocabulary, less than one sample, a prompt number given twice, a sample that does not fit into
// the cache even alone.
bool engine_start(Engine *engine, const EngineRequest *requests, int64_t count, EngineRun run, Error *error);

// One more request for the run under way, behind the others; refused as engine_start does. Answers' arrays stay where they are.
bool engine_add(Engine *engine, const EngineRequest *request, Error *error);

// Whether another request would find work to do: a seat is free, and no sample waits.
bool engine_idles(const Engine *engine);

// One round. False when all samples are finished.
bool engine_step(Engine *engine);

typedef struct EngineCounts {
    int64_t samples, finished, nan;       // nan: ended with FINISH_NAN
    int64_t prompt_tokens, answer_tokens; // walked and drawn so far
    int64_t cached_tokens;                // not walked: their pages were found by what they hold
    int64_t preemptions;                  // times that a sample lost its seat
    int64_t recomputed_tokens;            // walked again after it, prompts of samples without an answer left out
    int64_t free_pages, pages;            // free: nobody uses them
} EngineCounts;
EngineCounts engine_counts(const Engine *engine);

// An answer so far. The arrays stay where they are until the next start or close.
typedef struct EngineAnswer {
    const int32_t *ids;
    const float *logprobs;
    int64_t count;
    int32_t held; // bytes at its end that may still become part of a stop string
    bool finished;
    FinishReason finish; // of a finished one, and
    int32_t stopped_by;  // the stop id, or the number of the stop string; -1: neither
} EngineAnswer;
EngineAnswer engine_answer(const Engine *engine, int64_t request, int32_t sample);

// To read answers with (stop_strings_text), until close.
const StopStrings *engine_stop_strings(const Engine *engine);

// Fills count, prompt, question, offset, prompt_length, ids, generation_logprobs, finish and stopped_by of *out from a finished
// run, by prompt number, then sample; the other columns become NULL.
void engine_collect(const Engine *engine, Samples *out, Arena *arena);
