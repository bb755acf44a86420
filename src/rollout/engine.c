#include "rollout/engine.h"

#include "base/int64.h"
#include "rollout/scheduler.h"

#include <math.h>
#include <string.h>

// G samples of one prompt, next to each other.
typedef struct Request {
    int64_t first_sequence, prompt_length;
    int32_t number, samples, question;
} Request;

struct Engine {
    Resident *resident;
    uint64_t loads; // of the resident when the pages were last valid
    GenerationOptions options;
    int stop_count;
    int32_t stop_ids[2 * GENERATION_MAX_STOP_IDS];
    StopStrings stop_strings;
    int64_t pages; // of the cache
    KvCache cache; // layers NULL between engine_rest and the next run
    Scheduler scheduler;
    Sampler sampler;
    // One walk: its rows, the sample of each span, and the samples that draw from it.
    int32_t *ids, *positions;
    AttentionSpan *spans;
    int64_t *walked;
    TokenBatch batch;
    SamplerDraw *draws; // [max_sequences]
    int64_t draw_count;
    int64_t *decoding; // [max_sequences] the samples that a round decodes
    Arena arena;       // holds all of this

    EngineRun run;
    Request *requests;
    int64_t request_count, request_room, sequence_room;
    Sequence *sequences;
    EngineCounts counts;
    int64_t rows;    // walked
    Arena run_arena; // of the run's arrays
};

// ---- opening and closing

// Keys and values that are more than this machine holds, be it with this rank alone, are refused before the lists of their pages are made.
static bool check_memory(Resident *resident, int64_t pages, const GenerationOptions *options, Error *error) {
    double token = (double)kv_cache_token_bytes(resident->share, resident->policy.compute);
    double bytes = token * KV_PAGE_TOKENS * (double)pages, most = (double)device_machine_bytes(&resident->ops->device);
    if (bytes <= most) return true;
    if (options->kv_cache_tokens)
        return error_set(error,
                         "whet.kv_cache_tokens: %lld tokens take %.2f GiB of keys and values; the machine has %.2f GiB "
                         "of memory and swap",
                         (long long)options->kv_cache_tokens, bytes / 0x1p30, most / 0x1p30);
    return error_set(error,
                     "whet.max_sequences: %lld sequences of %lld tokens take %.2f GiB of keys and values; the machine "
                     "has %.2f GiB of memory and swap",
                     (long long)options->max_sequences, (long long)options->max_length, bytes / 0x1p30, most / 0x1p30);
}

// By default what max_sequences of max_length fill.
static bool count_pages(int64_t *pages, const GenerationOptions *options, Error *error) {
    *pages = options->kv_cache_tokens / KV_PAGE_TOKENS;
    if (!options->kv_cache_tokens) *pages = options->max_sequences * kv_pages_of(options->max_length);
    if (*pages >= 1 && *pages <= INT32_MAX) return true;
    if (options->kv_cache_tokens)
        return error_set(error, "whet.kv_cache_tokens: %lld is not in %d..%lld", (long long)options->kv_cache_tokens,
                         KV_PAGE_TOKENS, (long long)INT32_MAX * KV_PAGE_TOKENS);
    return error_set(error, "whet.max_sequences: %lld sequences of %lld tokens are more than a cache can hold",
                     (long long)options->max_sequences, (long long)options->max_length);
}

static bool choose_stops(Engine *e, const EngineStops *stops, Error *error) {
    const GenerationOptions *options = &e->options;
    int64_t vocabulary = e->resident->architecture->vocab_size;
    for (int i = 0; i < options->stop_count; i++) {
        if (options->stop_ids[i] < 0 || options->stop_ids[i] >= vocabulary)
            return error_set(error, "policy.generation.stop_token_ids: %d is not in the model's vocabulary of %lld",
                             options->stop_ids[i], (long long)vocabulary);
        e->stop_ids[e->stop_count++] = options->stop_ids[i];
    }
    CHECK(stops->count <= GENERATION_MAX_STOP_IDS, "%d stop ids", stops->count);
    for (int i = 0; i < stops->count && !options->ignore_eos; i++) e->stop_ids[e->stop_count++] = stops->ids[i];
    return stop_strings_open(&e->stop_strings, options, stops->tokenizer, &e->arena, error);
}

static void open_arrays(Engine *e, int64_t pages) {
    Resident *resident = e->resident;
    int64_t seats = e->options.max_sequences, rows = resident->max_rows;
    e->pages = pages;
    scheduler_open(&e->scheduler, pages, seats, e->options.enable_prefix_caching, &e->arena);
    sampler_open(&e->sampler, resident, &e->options, seats, &e->arena);
    e->ids = arena_array(&e->arena, int32_t, rows);
    e->positions = arena_array(&e->arena, int32_t, rows);
    e->spans = arena_array(&e->arena, AttentionSpan, rows);
    e->walked = arena_array(&e->arena, int64_t, rows);
    e->draws = arena_array(&e->arena, SamplerDraw, seats);
    e->decoding = arena_array(&e->arena, int64_t, seats);
    e->batch = (TokenBatch){.ids = e->ids, .positions = e->positions, .spans = e->spans};
}

bool engine_open(Engine **engine, Resident *resident, const GenerationOptions *options, EngineStops stops,
                 Error *error) {
    *engine = NULL;
    int64_t pages;
    if (!generation_options_check(options, error) || !count_pages(&pages, options, error)) return false;
    if (options->max_length > resident->cos_sin_PE.size[0])
        return error_set(error,
                         "policy.generation.vllm_cfg.max_model_len: %lld is more than the %lld positions of the model",
                         (long long)options->max_length, (long long)resident->cos_sin_PE.size[0]);
    if (!check_memory(resident, pages, options, error)) return false;
    Arena arena = {0};
    Engine *e = arena_array(&arena, Engine, 1);
    e->resident = resident;
    e->options = *options;
    e->arena = arena;
    if (choose_stops(e, &stops, error)) {
        open_arrays(e, pages);
        *engine = e;
        return true;
    }
    engine_close(e);
    return false;
}

void engine_set_sampling(Engine *e, const GenerationOptions *options) {
    e->options.temperature = options->temperature;
    e->options.top_p = options->top_p;
    e->options.top_k = options->top_k;
    e->options.min_p = options->min_p;
    sampler_set_filter(&e->sampler, options);
}

void engine_close(Engine *e) {
    if (!e) return;
    sampler_close(&e->sampler);
    kv_cache_close(e->resident->ops, &e->cache);
    arena_close(&e->run_arena);
    Arena arena = e->arena; // the engine itself lies in it
    arena_close(&arena);
}

// ---- beginning a run

static int64_t limit_of(const Engine *e, int64_t prompt_length) {
    return int64_smaller(prompt_length + e->options.max_new_tokens, e->options.max_length);
}

// The token drawn last is never stored.
static bool fits_alone(const Engine *e, int64_t prompt_length) {
    return kv_pages_of(limit_of(e, prompt_length) - 1) <= e->pages;
}

int64_t engine_longest_prompt(const Engine *e) {
    int64_t longest = e->options.max_length - 1;
    if (fits_alone(e, longest)) return longest;
    longest = e->pages * KV_PAGE_TOKENS + 1 - e->options.max_new_tokens;
    return longest > 0 ? longest : 0;
}

static bool check_request(const Engine *e, const EngineRequest *request, Error *error) {
    int64_t vocabulary = e->resident->architecture->vocab_size;
    if (request->count < 1) return error_set(error, "prompt %d is empty", request->prompt);
    if (request->count >= e->options.max_length)
        return error_set(error,
                         "prompt %d has %lld tokens, which leaves no room for an answer below max_model_len %lld",
                         request->prompt, (long long)request->count, (long long)e->options.max_length);
    if (request->samples < 1)
        return error_set(error, "prompt %d: %d samples asked for", request->prompt, request->samples);
    for (int64_t i = 0; i < request->count; i++)
        if (request->ids[i] < 0 || request->ids[i] >= vocabulary)
            return error_set(error, "prompt %d: token %lld has the id %d, which is not in the vocabulary of %lld",
                             request->prompt, (long long)i, request->ids[i], (long long)vocabulary);
    if (!fits_alone(e, request->count)) {
        int64_t limit = limit_of(e, request->count);
        return error_set(
            error,
            "prompt %d: a sample of up to %lld tokens needs %lld tokens of cache, whet.kv_cache_tokens gives %lld",
            request->prompt, (long long)limit, (long long)(kv_pages_of(limit - 1) * KV_PAGE_TOKENS),
            (long long)(e->pages * KV_PAGE_TOKENS));
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    int32_t x = (*(Request *const *)a)->number, y = (*(Request *const *)b)->number;
    return (x > y) - (x < y);
}

// The requests in ascending order of their numbers.
static Request **sorted_requests(const Engine *e, Arena *arena) {
    Request **sorted = arena_array(arena, Request *, e->request_count);
    for (int64_t i = 0; i < e->request_count; i++) sorted[i] = &e->requests[i];
    if (e->request_count) qsort(sorted, (size_t)e->request_count, sizeof *sorted, by_number);
    return sorted;
}

static void drop_run(Engine *e) {
    scheduler_start(&e->scheduler, NULL, 0);
    if (e->loads != e->resident->loads) scheduler_forget(&e->scheduler);
    e->loads = e->resident->loads;
    arena_reset(&e->run_arena);
    e->request_count = e->request_room = e->sequence_room = e->draw_count = e->rows = 0;
    e->counts = (EngineCounts){0};
}

static void open_cache(Engine *e) {
    const Resident *resident = e->resident;
    if (e->cache.layers) return;
    e->cache = kv_cache_open(resident->ops, MEMORY_KV_CACHE, resident->share, resident->policy.compute, e->pages);
    sampler_open_logits(&e->sampler);
}

void engine_rest(Engine *e) {
    drop_run(e);
    scheduler_forget(&e->scheduler);
    sampler_drop_logits(&e->sampler);
    kv_cache_close(e->resident->ops, &e->cache);
}

static void add_request(Engine *e, const EngineRequest *request) {
    int64_t limit = limit_of(e, request->count);
    e->requests[e->request_count] = (Request){.first_sequence = e->counts.samples,
                                              .prompt_length = request->count,
                                              .number = request->prompt,
                                              .samples = request->samples,
                                              .question = request->question};
    for (int32_t i = 0; i < request->samples; i++) {
        Sequence *q = &e->sequences[e->counts.samples++];
        *q = (Sequence){.request = e->request_count,
                        .ids = arena_array(&e->run_arena, int32_t, limit),
                        .logprobs = arena_array(&e->run_arena, float, limit - request->count),
                        .prompt_length = request->count,
                        .limit = limit,
                        .known = request->count,
                        .pages = arena_array(&e->run_arena, int32_t, kv_pages_of(limit)),
                        .leader = NOBODY,
                        .stopped_by = -1};
        memcpy(q->ids, request->ids, (size_t)request->count * sizeof *q->ids);
    }
    e->request_count++;
}

bool engine_start(Engine *e, const EngineRequest *requests, int64_t count, EngineRun run, Error *error) {
    CHECK(count >= 0, "%lld requests", (long long)count);
    drop_run(e);
    int64_t samples = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!check_request(e, &requests[i], error)) return false;
        samples += requests[i].samples;
    }
    open_cache(e);
    e->run = run;
    e->requests = arena_array(&e->run_arena, Request, count);
    e->sequences = arena_array(&e->run_arena, Sequence, samples);
    e->request_room = count, e->sequence_room = samples;
    for (int64_t i = 0; i < count; i++) add_request(e, &requests[i]);
    Request **sorted = sorted_requests(e, &e->run_arena);
    for (int64_t i = 1; i < count; i++) {
        if (sorted[i]->number != sorted[i - 1]->number) continue;
        int32_t twice = sorted[i]->number;
        drop_run(e);
        return error_set(error, "prompt %d is asked for twice", twice);
    }
    scheduler_start(&e->scheduler, e->sequences, samples);
    return true;
}

// Arrays for twice as many.
static void make_room(Engine *e, int64_t samples) {
    int64_t count = e->counts.samples;
    if (e->request_count == e->request_room) {
        Request *requests = arena_array(&e->run_arena, Request, 2 * e->request_room + 1);
        if (e->request_count) memcpy(requests, e->requests, (size_t)e->request_count * sizeof *requests);
        e->requests = requests;
        e->request_room = 2 * e->request_room + 1;
    }
    if (count + samples > e->sequence_room) {
        Sequence *sequences = arena_array(&e->run_arena, Sequence, 2 * count + samples);
        if (count) memcpy(sequences, e->sequences, (size_t)count * sizeof *sequences);
        e->sequences = sequences;
        e->sequence_room = 2 * count + samples;
    }
}

bool engine_add(Engine *e, const EngineRequest *request, Error *error) {
    if (!check_request(e, request, error)) return false;
    for (int64_t i = 0; i < e->request_count; i++)
        if (e->requests[i].number == request->prompt)
            return error_set(error, "prompt %d is asked for twice", request->prompt);
    make_room(e, request->samples);
    add_request(e, request);
    scheduler_extend(&e->scheduler, e->sequences, e->counts.samples);
    return true;
}

bool engine_idles(const Engine *e) {
    return scheduler_idles(&e->scheduler);
}

// ---- drawing tokens

static void add_draw(Engine *e, int64_t index, int64_t row) {
    const Sequence *q = &e->sequences[index];
    const Request *request = &e->requests[q->request];
    e->draws[e->draw_count++] = (SamplerDraw){.sample = index,
                                              .row = (int32_t)row,
                                              .at = {.step = e->run.step,
                                                     .prompt = (uint32_t)request->number,
                                                     .sample = (uint32_t)(index - request->first_sequence),
                                                     .token = (uint32_t)(q->known - q->prompt_length)}};
}

static bool is_stop_id(const Engine *e, int32_t id) {
    for (int i = 0; i < e->stop_count; i++)
        if (e->stop_ids[i] == id) return true;
    return false;
}

// Whether the answer ends with the token that it was just given. On plan nothing is drawn, so nothing stops.
static bool ends(Engine *e, Sequence *q) {
    int32_t id = q->ids[q->known - 1];
    bool drawn = ops_runs(e->resident->ops);
    int string = drawn ? stop_strings_push(&e->stop_strings, &q->stop, id) : -1;
    if (drawn && is_stop_id(e, id)) {
        q->finish = FINISH_STOP;
        q->stopped_by = id;
    } else if (string >= 0) {
        q->finish = FINISH_STOP_STRING;
        q->stopped_by = string;
    } else {
        q->finish = FINISH_LENGTH;
        return q->known == q->limit;
    }
    return true;
}

static void take_draw(Engine *e, const SamplerDraw *draw) {
    Sequence *q = &e->sequences[draw->sample];
    if (isnan(draw->logprob)) {
        q->finish = FINISH_NAN;
        e->counts.nan++;
    } else {
        q->logprobs[q->known - q->prompt_length] = draw->logprob;
        q->ids[q->known++] = draw->id;
        e->counts.answer_tokens++;
        if (!ends(e, q)) return;
    }
    q->finished = true;
    e->counts.finished++;
    scheduler_leave(&e->scheduler, draw->sample);
}

// ---- walks

static void count_rows(Engine *e, const Sequence *q, int64_t count) {
    if (q->known == q->prompt_length)
        e->counts.prompt_tokens += count;
    else
        e->counts.recomputed_tokens +=
            count - (q->stored + count == q->known); // the last one has not been walked before
}

static void add_span(Engine *e, int64_t index, int64_t count) {
    Sequence *q = &e->sequences[index];
    TokenBatch *batch = &e->batch;
    count_rows(e, q, count);
    e->walked[batch->span_count] = index;
    e->spans[batch->span_count++] =
        (AttentionSpan){.row = batch->count, .count = count, .start = q->stored, .pages = q->pages};
    for (int64_t i = 0; i < count; i++) {
        e->ids[batch->count] = q->ids[q->stored + i];
        e->positions[batch->count++] = (int32_t)(q->stored + i);
    }
    scheduler_store(&e->scheduler, q, count);
}

// All tokens of a sample are stored: it draws the next from the row of the last, and so do those that followed its walk.
static void end_span(Engine *e, int64_t index, int64_t last_row) {
    Sequence *leader = &e->sequences[index];
    if (leader->stored < leader->known) return;
    add_draw(e, index, last_row);
    for (int64_t seat = 0; scheduler_follow(&e->scheduler, leader, &seat);) {
        const Sequence *q = &e->sequences[e->scheduler.seats[seat]];
        int64_t partial = q->prompt_length / KV_PAGE_TOKENS;
        if (q->prompt_length % KV_PAGE_TOKENS)
            kv_cache_copy_page(e->resident->ops, &e->cache, q->pages[partial], leader->pages[partial]);
        add_draw(e, e->scheduler.seats[seat], last_row);
    }
}

static void walk(Engine *e) {
    TokenBatch *batch = &e->batch;
    if (!batch->count) return;
    resident_forward(e->resident, &e->cache, batch);
    for (int64_t i = 0; i < batch->span_count; i++) end_span(e, e->walked[i], e->spans[i].row + e->spans[i].count - 1);
    e->rows += batch->count;
    batch->count = batch->span_count = 0;
    sampler_draw(&e->sampler, e->draws, e->draw_count, e->run.seed, e->run.purpose);
    for (int64_t i = 0; i < e->draw_count; i++) take_draw(e, &e->draws[i]);
    e->draw_count = 0;
}

// Fills the batch with known tokens that are not stored, up to `room` rows: of samples that have seats, then of those that
// get one.
static void add_prefill(Engine *e, int64_t room) {
    Scheduler *s = &e->scheduler;
    for (int64_t seat = 0; e->batch.count < room; seat++) {
        if (seat == s->seat_count && !scheduler_admit(s, false)) return;
        Sequence *q = &e->sequences[s->seats[seat]];
        int64_t count = int64_smaller(q->known - q->stored, room - e->batch.count);
        if (q->leader != NOBODY || q->known - q->stored < 2) continue;
        add_span(e, s->seats[seat], count);
    }
    while (scheduler_admit(s, true)) continue; // a walk that ends in this batch serves as many as there are seats for
}

// One row for every sample of which only the last token is not stored.
static void add_decode(Engine *e) {
    Scheduler *s = &e->scheduler;
    int64_t count = 0;
    for (int64_t seat = 0; seat < s->seat_count; seat++) {
        const Sequence *q = &e->sequences[s->seats[seat]];
        if (q->leader == NOBODY && q->stored == q->known - 1) e->decoding[count++] = s->seats[seat];
    }
    for (int64_t i = 0; i < count; i++) {
        if (e->batch.count == e->resident->max_rows) walk(e);
        add_span(e, e->decoding[i], 1);
    }
}

// While prompts fill whole batches they are walked alone: the samples that are decoded later are the more for it. What is left
// of them is walked along with the samples that are decoded.
bool engine_step(Engine *e) {
    if (e->counts.finished == e->counts.samples) return false;
    int64_t before = e->rows, room = int64_smaller(e->options.prefill_chunk, e->resident->max_rows);
    scheduler_grow(&e->scheduler);
    add_prefill(e, room);
    if (e->batch.count < room) add_decode(e);
    walk(e);
    CHECK(e->rows > before, "a round without a row: %lld seats, %lld of %lld pages available",
          (long long)e->scheduler.seat_count, (long long)e->scheduler.pool.available, (long long)e->pages);
    return e->counts.finished < e->counts.samples;
}

// ---- results

EngineCounts engine_counts(const Engine *e) {
    EngineCounts counts = e->counts;
    counts.cached_tokens = e->scheduler.cached_tokens;
    counts.preemptions = e->scheduler.preemptions;
    counts.free_pages = e->scheduler.pool.available;
    counts.pages = e->pages;
    return counts;
}

const StopStrings *engine_stop_strings(const Engine *e) {
    return &e->stop_strings;
}

EngineAnswer engine_answer(const Engine *e, int64_t request, int32_t sample) {
    CHECK(request >= 0 && request < e->request_count && sample >= 0 && sample < e->requests[request].samples,
          "request %lld, sample %d", (long long)request, sample);
    const Sequence *q = &e->sequences[e->requests[request].first_sequence + sample];
    return (EngineAnswer){.ids = q->ids + q->prompt_length,
                          .logprobs = q->logprobs,
                          .count = q->known - q->prompt_length,
                          .held = stop_strings_held(&e->stop_strings, &q->stop),
                          .finished = q->finished,
                          .finish = q->finish,
                          .stopped_by = q->stopped_by};
}

static void collect_sequence(Samples *out, const Request *request, const Sequence *q) {
    int64_t b = out->count++, start = out->offset[b];
    out->prompt[b] = request->number;
    out->question[b] = request->question;
    out->prompt_length[b] = (int32_t)q->prompt_length;
    out->finish[b] = q->finish;
    out->stopped_by[b] = q->stopped_by;
    out->offset[b + 1] = start + q->known;
    memcpy(out->ids + start, q->ids, (size_t)q->known * sizeof *out->ids);
    memcpy(out->generation_logprobs + start + q->prompt_length, q->logprobs,
           (size_t)(q->known - q->prompt_length) * sizeof *q->logprobs);
}

void engine_collect(const Engine *e, Samples *out, Arena *arena) {
    int64_t samples = e->counts.samples, tokens = 0;
    CHECK(e->counts.finished == samples, "%lld of %lld samples are finished", (long long)e->counts.finished,
          (long long)samples);
    for (int64_t i = 0; i < samples; i++) tokens += e->sequences[i].known;
    samples_open(out, samples, tokens, arena);
    Arena scratch = {0};
    Request **sorted = sorted_requests(e, &scratch);
    for (int64_t i = 0; i < e->request_count; i++)
        for (int32_t k = 0; k < sorted[i]->samples; k++)
            collect_sequence(out, sorted[i], &e->sequences[sorted[i]->first_sequence + k]);
    arena_close(&scratch);
}
