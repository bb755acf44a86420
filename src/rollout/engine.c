#include "rollout/engine.h"

#include "rollout/page_pool.h"

#include <string.h>

// A request under way.
typedef struct Prompt {
    int32_t *ids;
    int64_t count;
    int32_t number, samples, question;
    int64_t first_sample; // its samples lie next to each other
    int64_t limit;        // tokens of prompt and answer together, at most
    bool started;         // its pages are taken
    int32_t *pages;       // [pages of count], held until no sample waits any more
    int64_t walked;       // tokens whose keys and values are in the pages
    int64_t waiting;      // samples neither seated nor finished
} Prompt;

typedef struct Answer {
    int64_t prompt; // index of the request
    int32_t *ids;
    float *logprobs;
    int64_t count;
    int64_t seat; // or NO_SEAT
    bool finished;
    FinishReason finish;
} Answer;

enum { NO_SEAT = -1 };

// A place among the samples that are decoded together, with pages for all positions that the sample may fill.
typedef struct Seat {
    int64_t answer;
    int32_t *pages; // [pages of max_length]
    int64_t page_count;
} Seat;

struct Engine {
    Resident *resident;
    GenerationOptions options;
    int stop_count;
    int32_t stop_ids[GENERATION_MAX_STOP_IDS];
    KvCache cache;
    PagePool pool;
    Sampler sampler;
    Seat *seats; // [max_sequences], the first seat_count taken
    int64_t seat_count;
    int64_t *decoding; // [max_sequences] the answers that this round decodes
    int32_t *ids, *positions;
    AttentionSpan *spans; // [max_rows] of one walk
    Arena arena;          // holds all of this

    EngineRun run;
    Prompt *prompts;
    int64_t prompt_count, unwalked; // unwalked: the first prompt that is not walked to its end
    Answer *answers;
    int64_t answer_count, unseated; // unseated: the first answer that may still wait for a seat
    SamplerDraw *draws;             // [answer_count]
    int64_t draw_count;
    int64_t finished, prompt_tokens, answer_tokens;
    Arena run_arena; // of the run's arrays
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- opening and closing

// By default what max_sequences of max_length fill. One page more: the partly filled page of the prompt whose samples are
// not all seated yet.
static bool count_pages(int64_t *pages, const GenerationOptions *options, Error *error) {
    *pages = options->kv_cache_tokens / KV_PAGE_TOKENS;
    if (!options->kv_cache_tokens) *pages = options->max_sequences * kv_pages_of(options->max_length) + 1;
    if (*pages >= 1 && *pages <= INT32_MAX) return true;
    if (options->kv_cache_tokens)
        return error_set(error, "whet.kv_cache_tokens: %lld is not in %d..%lld", (long long)options->kv_cache_tokens,
                         KV_PAGE_TOKENS, (long long)INT32_MAX * KV_PAGE_TOKENS);
    return error_set(error, "whet.max_sequences: %lld sequences of %lld tokens are more than a cache can hold",
                     (long long)options->max_sequences, (long long)options->max_length);
}

static void choose_stop_ids(Engine *e, const int32_t *model_stop_ids, int model_stop_count) {
    const GenerationOptions *options = &e->options;
    bool own = options->stop_count == 0;
    int count = own ? model_stop_count : options->stop_count;
    if (own && options->ignore_eos) count = 0;
    CHECK(count <= GENERATION_MAX_STOP_IDS, "%d stop ids", count);
    e->stop_count = count;
    for (int i = 0; i < count; i++) e->stop_ids[i] = own ? model_stop_ids[i] : options->stop_ids[i];
}

bool engine_open(Engine **engine, Resident *resident, const GenerationOptions *options, const int32_t *model_stop_ids,
                 int model_stop_count, Error *error) {
    *engine = NULL;
    int64_t pages;
    if (!generation_options_check(options, error) || !count_pages(&pages, options, error)) return false;
    if (options->max_length > resident->cos_sin_PE.size[0])
        return error_set(error,
                         "policy.generation.vllm_cfg.max_model_len: %lld is more than the %lld positions of the model",
                         (long long)options->max_length, (long long)resident->cos_sin_PE.size[0]);
    int64_t vocabulary = resident->architecture->vocab_size;
    for (int i = 0; i < options->stop_count; i++)
        if (options->stop_ids[i] < 0 || options->stop_ids[i] >= vocabulary)
            return error_set(error, "policy.generation.stop_token_ids: %d is not in the model's vocabulary of %lld",
                             options->stop_ids[i], (long long)vocabulary);
    Arena arena = {0};
    Engine *e = arena_array(&arena, Engine, 1);
    int64_t seats = options->max_sequences, seat_pages = kv_pages_of(options->max_length);
    e->resident = resident;
    e->options = *options;
    choose_stop_ids(e, model_stop_ids, model_stop_count);
    e->cache = kv_cache_open(resident->ops, MEMORY_KV_CACHE, resident->architecture, resident->policy.compute, pages);
    e->pool = page_pool_open(&arena, pages);
    sampler_open(&e->sampler, resident, options, seats, &arena);
    e->seats = arena_array(&arena, Seat, seats);
    for (int64_t i = 0; i < seats; i++) e->seats[i].pages = arena_array(&arena, int32_t, seat_pages);
    e->decoding = arena_array(&arena, int64_t, seats);
    e->ids = arena_array(&arena, int32_t, resident->max_rows);
    e->positions = arena_array(&arena, int32_t, resident->max_rows);
    e->spans = arena_array(&arena, AttentionSpan, resident->max_rows);
    e->arena = arena;
    *engine = e;
    return true;
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

// Pages that the first sample of a prompt needs when the cache is empty: the most that the scheduler ever waits for.
static int64_t pages_alone(const EngineRequest *request, int64_t limit) {
    int64_t whole = request->count / KV_PAGE_TOKENS;
    bool copies = request->count % KV_PAGE_TOKENS && request->samples > 1;
    return kv_pages_of(limit - 1) + (copies ? kv_pages_of(request->count) - whole : 0);
}

static int64_t limit_of(const Engine *e, const EngineRequest *request) {
    return smaller(request->count + e->options.max_new_tokens, e->options.max_length);
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
    int64_t need = pages_alone(request, limit_of(e, request));
    if (need > e->pool.count)
        return error_set(
            error,
            "prompt %d: a sample of up to %lld tokens needs %lld tokens of cache, whet.kv_cache_tokens gives "
            "%lld",
            request->prompt, (long long)limit_of(e, request), (long long)(need * KV_PAGE_TOKENS),
            (long long)(e->pool.count * KV_PAGE_TOKENS));
    return true;
}

static int by_number(const void *a, const void *b) {
    int32_t x = (*(Prompt *const *)a)->number, y = (*(Prompt *const *)b)->number;
    return (x > y) - (x < y);
}

// The prompts in ascending order of their numbers.
static Prompt **sorted_prompts(const Engine *e, Arena *arena) {
    Prompt **sorted = arena_array(arena, Prompt *, e->prompt_count);
    for (int64_t i = 0; i < e->prompt_count; i++) sorted[i] = &e->prompts[i];
    if (e->prompt_count) qsort(sorted, (size_t)e->prompt_count, sizeof *sorted, by_number);
    return sorted;
}

static void drop_run(Engine *e) {
    page_pool_reset(&e->pool);
    arena_reset(&e->run_arena);
    e->seat_count = e->prompt_count = e->answer_count = 0;
    e->unwalked = e->unseated = e->draw_count = 0;
    e->finished = e->prompt_tokens = e->answer_tokens = 0;
}

static void add_prompt(Engine *e, const EngineRequest *request) {
    int64_t limit = limit_of(e, request), room = limit - request->count;
    Prompt *prompt = &e->prompts[e->prompt_count];
    *prompt = (Prompt){.ids = arena_array(&e->run_arena, int32_t, request->count),
                       .count = request->count,
                       .number = request->prompt,
                       .samples = request->samples,
                       .question = request->question,
                       .first_sample = e->answer_count,
                       .limit = limit,
                       .pages = arena_array(&e->run_arena, int32_t, kv_pages_of(request->count)),
                       .waiting = request->samples};
    memcpy(prompt->ids, request->ids, (size_t)request->count * sizeof *prompt->ids);
    int32_t *ids = arena_array(&e->run_arena, int32_t, room * request->samples);
    float *logprobs = arena_array(&e->run_arena, float, room * request->samples);
    for (int32_t i = 0; i < request->samples; i++)
        e->answers[e->answer_count++] = (Answer){.prompt = e->prompt_count,
                                                 .ids = ids + i * room,
                                                 .logprobs = logprobs + i * room,
                                                 .seat = NO_SEAT};
    e->prompt_count++;
}

bool engine_start(Engine *e, const EngineRequest *requests, int64_t count, EngineRun run, Error *error) {
    CHECK(count >= 0, "%lld requests", (long long)count);
    drop_run(e);
    int64_t samples = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!check_request(e, &requests[i], error)) return false;
        samples += requests[i].samples;
    }
    e->run = run;
    e->prompts = arena_array(&e->run_arena, Prompt, count);
    e->answers = arena_array(&e->run_arena, Answer, samples);
    e->draws = arena_array(&e->run_arena, SamplerDraw, samples);
    for (int64_t i = 0; i < count; i++) add_prompt(e, &requests[i]);
    Prompt **sorted = sorted_prompts(e, &e->run_arena);
    for (int64_t i = 1; i < count; i++) {
        if (sorted[i]->number != sorted[i - 1]->number) continue;
        int32_t twice = sorted[i]->number;
        drop_run(e);
        return error_set(error, "prompt %d is asked for twice", twice);
    }
    return true;
}

// ---- seats and pages

static bool partly_filled(const Prompt *prompt) {
    return prompt->count % KV_PAGE_TOKENS != 0;
}

// A sample no longer waits. The prompt's own hold on its pages ends with the last one.
static void leave_prompt(Engine *e, Prompt *prompt) {
    if (--prompt->waiting || !prompt->started) return;
    for (int64_t i = 0; i < kv_pages_of(prompt->count); i++) page_pool_give(&e->pool, prompt->pages[i]);
}

static void leave_seat(Engine *e, int64_t index) {
    Seat seat = e->seats[index], *last = &e->seats[--e->seat_count];
    for (int64_t i = 0; i < seat.page_count; i++) page_pool_give(&e->pool, seat.pages[i]);
    e->answers[seat.answer].seat = NO_SEAT;
    if (index != e->seat_count) {
        e->seats[index] = *last;
        e->answers[last->answer].seat = index;
    }
    *last = (Seat){.pages = seat.pages};
}

// A sample extends the partly filled page of its prompt in a copy of its own.
static void copy_partial_page(Engine *e, const Seat *seat, const Prompt *prompt) {
    int64_t partial = prompt->count / KV_PAGE_TOKENS;
    if (!partly_filled(prompt) || seat->pages[partial] == prompt->pages[partial]) return;
    kv_cache_copy_page(e->resident->ops, &e->cache, seat->pages[partial], prompt->pages[partial]);
}

// Seats one answer if there are pages for all that it may come to (the token drawn last is never stored).
static bool seat_answer(Engine *e, int64_t index) {
    Answer *answer = &e->answers[index];
    Prompt *prompt = &e->prompts[answer->prompt];
    int64_t total = kv_pages_of(prompt->limit - 1), shared = prompt->count / KV_PAGE_TOKENS;
    if (partly_filled(prompt) && prompt->waiting == 1) shared++; // nobody else will need the original
    int64_t prompt_pages = prompt->started ? 0 : kv_pages_of(prompt->count);
    if (prompt_pages + total - shared > e->pool.free_count) return false;

    for (int64_t i = 0; i < prompt_pages; i++) prompt->pages[i] = page_pool_take(&e->pool);
    prompt->started = true;
    Seat *seat = &e->seats[e->seat_count];
    seat->answer = index;
    seat->page_count = total;
    for (int64_t i = 0; i < total; i++) {
        seat->pages[i] = i < shared ? prompt->pages[i] : page_pool_take(&e->pool);
        if (i < shared) page_pool_share(&e->pool, seat->pages[i]);
    }
    if (prompt->walked == prompt->count) copy_partial_page(e, seat, prompt);
    answer->seat = e->seat_count++;
    leave_prompt(e, prompt);
    return true;
}

// First come, first served: nobody overtakes a sample that waits for pages.
static void seat_waiting(Engine *e) {
    for (; e->unseated < e->answer_count && e->seat_count < e->options.max_sequences; e->unseated++)
        if (!e->answers[e->unseated].finished && !seat_answer(e, e->unseated)) return;
}

// ---- drawing tokens

static void add_draw(Engine *e, int64_t index, int64_t row) {
    const Answer *answer = &e->answers[index];
    const Prompt *prompt = &e->prompts[answer->prompt];
    e->draws[e->draw_count++] = (SamplerDraw){.sample = index,
                                              .row = (int32_t)row,
                                              .at = {.step = e->run.step,
                                                     .prompt = (uint32_t)prompt->number,
                                                     .sample = (uint32_t)(index - prompt->first_sample),
                                                     .token = (uint32_t)answer->count}};
}

static bool is_stop(const Engine *e, int32_t id) {
    for (int i = 0; i < e->stop_count; i++)
        if (e->stop_ids[i] == id) return ops_runs(e->resident->ops);
    return false;
}

static void add_token(Engine *e, const SamplerDraw *draw) {
    Answer *answer = &e->answers[draw->sample];
    Prompt *prompt = &e->prompts[answer->prompt];
    answer->ids[answer->count] = draw->id;
    answer->logprobs[answer->count++] = draw->logprob;
    e->answer_tokens++;
    bool stop = is_stop(e, draw->id);
    if (!stop && prompt->count + answer->count < prompt->limit) return;
    answer->finished = true;
    answer->finish = stop ? FINISH_STOP : FINISH_LENGTH;
    e->finished++;
    if (answer->seat == NO_SEAT)
        leave_prompt(e, prompt);
    else
        leave_seat(e, answer->seat);
}

static void draw_tokens(Engine *e) {
    sampler_draw(&e->sampler, e->draws, e->draw_count, e->run.seed, e->run.purpose);
    for (int64_t i = 0; i < e->draw_count; i++) add_token(e, &e->draws[i]);
    e->draw_count = 0;
}

// ---- walks

static void add_span(Engine *e, TokenBatch *batch, const int32_t *ids, int64_t count, int64_t start,
                     const int32_t *pages) {
    e->spans[batch->span_count++] =
        (AttentionSpan){.row = batch->count, .count = count, .start = start, .pages = pages};
    for (int64_t i = 0; i < count; i++) {
        e->ids[batch->count] = ids[i];
        e->positions[batch->count++] = (int32_t)(start + i);
    }
}

static TokenBatch empty_batch(Engine *e) {
    return (TokenBatch){.ids = e->ids, .positions = e->positions, .spans = e->spans};
}

// The prompt is walked: its samples get their pages and their first tokens, seated or not.
static void end_prompt(Engine *e, Prompt *prompt, int64_t last_row) {
    for (int32_t i = 0; i < prompt->samples; i++) {
        int64_t index = prompt->first_sample + i;
        if (e->answers[index].seat != NO_SEAT) copy_partial_page(e, &e->seats[e->answers[index].seat], prompt);
        add_draw(e, index, last_row);
    }
}

// Walks the next prefill_chunk tokens of the prompts that have pages, in order, packed.
static void prefill(Engine *e) {
    int64_t room = smaller(e->options.prefill_chunk, e->resident->max_rows);
    TokenBatch batch = empty_batch(e);
    int64_t first = e->unwalked, last = first;
    for (; last < e->prompt_count && e->prompts[last].started && batch.count < room; last++) {
        Prompt *prompt = &e->prompts[last];
        int64_t count = smaller(prompt->count - prompt->walked, room - batch.count);
        add_span(e, &batch, prompt->ids + prompt->walked, count, prompt->walked, prompt->pages);
        prompt->walked += count;
    }
    if (!batch.count) return;
    resident_forward(e->resident, &e->cache, &batch);
    e->prompt_tokens += batch.count;
    for (int64_t i = first; i < last; i++) {
        if (e->prompts[i].walked < e->prompts[i].count) break;
        const AttentionSpan *span = &e->spans[i - first];
        end_prompt(e, &e->prompts[i], span->row + span->count - 1);
        e->unwalked++;
    }
    draw_tokens(e);
}

// One token more for every seated sample whose prompt is walked.
static void decode(Engine *e) {
    int64_t count = 0;
    for (int64_t i = 0; i < e->seat_count; i++)
        if (e->answers[e->seats[i].answer].count) e->decoding[count++] = e->seats[i].answer;
    for (int64_t first = 0; first < count; first += e->resident->max_rows) {
        TokenBatch batch = empty_batch(e);
        for (int64_t i = first; i < count && batch.count < e->resident->max_rows; i++) {
            const Answer *answer = &e->answers[e->decoding[i]];
            int64_t position = e->prompts[answer->prompt].count + answer->count - 1;
            add_draw(e, e->decoding[i], batch.count);
            add_span(e, &batch, &answer->ids[answer->count - 1], 1, position, e->seats[answer->seat].pages);
        }
        resident_forward(e->resident, &e->cache, &batch);
        draw_tokens(e);
    }
}

bool engine_step(Engine *e) {
    if (e->finished == e->answer_count) return false;
    int64_t before = e->prompt_tokens + e->answer_tokens;
    seat_waiting(e);
    prefill(e);
    decode(e);
    CHECK(e->prompt_tokens + e->answer_tokens > before, "a round without a token: %lld seats, %lld of %lld pages free",
          (long long)e->seat_count, (long long)e->pool.free_count, (long long)e->pool.count);
    return e->finished < e->answer_count;
}

// ---- results

EngineCounts engine_counts(const Engine *e) {
    return (EngineCounts){.samples = e->answer_count,
                          .finished = e->finished,
                          .prompt_tokens = e->prompt_tokens,
                          .answer_tokens = e->answer_tokens,
                          .free_pages = e->pool.free_count,
                          .pages = e->pool.count};
}

const int32_t *engine_answer(const Engine *e, int64_t request, int32_t sample, int64_t *count) {
    CHECK(request >= 0 && request < e->prompt_count && sample >= 0 && sample < e->prompts[request].samples,
          "request %lld, sample %d", (long long)request, sample);
    const Answer *answer = &e->answers[e->prompts[request].first_sample + sample];
    *count = answer->count;
    return answer->ids;
}

static void collect_answer(Samples *out, const Prompt *prompt, const Answer *answer) {
    int64_t b = out->count++, start = out->offset[b], end = start + prompt->count;
    out->prompt[b] = prompt->number;
    out->question[b] = prompt->question;
    out->prompt_length[b] = (int32_t)prompt->count;
    out->finish[b] = answer->finish;
    out->offset[b + 1] = end + answer->count;
    memcpy(out->ids + start, prompt->ids, (size_t)prompt->count * sizeof *out->ids);
    memcpy(out->ids + end, answer->ids, (size_t)answer->count * sizeof *out->ids);
    memcpy(out->generation_logprobs + end, answer->logprobs, (size_t)answer->count * sizeof *answer->logprobs);
}

void engine_collect(const Engine *e, Samples *out, Arena *arena) {
    CHECK(e->finished == e->answer_count, "%lld of %lld samples are finished", (long long)e->finished,
          (long long)e->answer_count);
    int64_t tokens = e->answer_tokens;
    for (int64_t i = 0; i < e->prompt_count; i++) tokens += e->prompts[i].count * e->prompts[i].samples;
    *out = (Samples){.prompt = arena_array(arena, int32_t, e->answer_count),
                     .question = arena_array(arena, int32_t, e->answer_count),
                     .offset = arena_array(arena, int64_t, e->answer_count + 1),
                     .prompt_length = arena_array(arena, int32_t, e->answer_count),
                     .ids = arena_array(arena, int32_t, tokens),
                     .generation_logprobs = arena_array(arena, float, tokens),
                     .finish = arena_array(arena, FinishReason, e->answer_count)};
    Arena scratch = {0};
    Prompt **sorted = sorted_prompts(e, &scratch);
    for (int64_t i = 0; i < e->prompt_count; i++)
        for (int32_t k = 0; k < sorted[i]->samples; k++)
            collect_answer(out, sorted[i], &e->answers[sorted[i]->first_sample + k]);
    arena_close(&scratch);
}
