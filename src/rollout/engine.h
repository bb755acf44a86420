// The rollout engine: prompts in, samples out. Continuous batching over a paged KV cache; the samples of one prompt share
// the prompt's pages; every sampled token's log-prob is recorded. Scheduling never changes a bit: each token depends on its
// own sequence and on Philox numbers by coordinates (seed, purpose; step, prompt, sample, token).
//
//   engine_open; engine_start; while (engine_step) {progress, streaming}; engine_collect; (engine_start …); engine_close
//
// A round (engine_step) seats waiting samples, walks a chunk of prompts, and decodes one token of every seated sample whose
// prompt is walked. A seat holds pages for all that its sample may come to, so that no sample is ever thrown out again;
// samples are seated in the order of the requests. A prompt is walked once: its first tokens are drawn for all its samples
// from the same row. The samples share its full pages; its last page, when partly filled, is copied for each (the last
// sample to be seated takes the original).
//
// An answer ends with a stop id, which belongs to it, log-prob included (FINISH_STOP), or at max_new_tokens or max_length
// (FINISH_LENGTH). Stop ids are options.stop_ids; without them the model's own, unless ignore_eos. Greedy answers record
// the log-probs of the untempered, unfiltered distribution. On plan no token stops an answer: all reach their limit.
#pragma once
#include "model/resident.h"
#include "rollout/sampler.h"
#include "text/samples.h"

typedef struct Engine Engine;

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

// Takes pages for kv_cache_tokens (tag MEMORY_KV_CACHE) and logits of some rows (MEMORY_LOGITS); walks use at most
// resident->max_rows rows. The resident must outlive the engine; its weights may be loaded anew between runs. Refuses options
// out of range and a max_length beyond the resident's rotary table. *engine is NULL after an error.
bool engine_open(Engine **engine, Resident *resident, const GenerationOptions *options, const int32_t *model_stop_ids,
                 int model_stop_count, Error *error);
void engine_close(Engine *engine); // accepts NULL

// How the next runs sample: temperature, top_p, top_k and min_p of options (validation may differ from training). The rest of the
// options stays as it was at open.
void engine_set_sampling(Engine *engine, const GenerationOptions *options);

// Begins a run and drops what the last one left. Refuses, naming the request: an empty prompt, one that leaves no room below
// max_length, ids outside the vocabulary, less than one sample, a prompt number given twice, a sample that does not fit into
// the cache even alone.
bool engine_start(Engine *engine, const EngineRequest *requests, int64_t count, EngineRun run, Error *error);

// One round. False when all samples are finished.
bool engine_step(Engine *engine);

typedef struct EngineCounts {
    int64_t samples, finished;
    int64_t prompt_tokens, answer_tokens; // walked and drawn so far
    int64_t free_pages, pages;
} EngineCounts;
EngineCounts engine_counts(const Engine *engine);

// The answer so far of sample `sample` of request `request`; the array stays where it is until the next start or close.
const int32_t *engine_answer(const Engine *engine, int64_t request, int32_t sample, int64_t *count);

// Fills count, prompt, question, offset, prompt_length, ids, generation_logprobs and finish of *out from a finished run, by
// prompt number, then sample; the other columns become NULL.
void engine_collect(const Engine *engine, Samples *out, Arena *arena);
