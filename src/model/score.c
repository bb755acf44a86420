#include "model/score.h"

#include "base/int64.h"

// Sequences first..last-1 are walked together: several that fit into the budget, or a single one in pieces.
typedef struct Group {
    int64_t first, last, tokens, pages;
} Group;

typedef struct Score {
    Resident *resident;
    const ScoreInput *input;
    SoftmaxFilter filter;
    float *logprobs;
    int64_t budget; // rows of a walk
    KvCache cache;
    Tensor logits;  // [≤ SCORE_MAX_ROWS, V]
    int32_t *pages; // 0, 1, 2 …
    int32_t *positions;
    AttentionSpan *spans;
    // Rows of the walk whose next token is wanted, that token and its column.
    int64_t target_count;
    int32_t *rows, *targets;
    int64_t *columns;
    SoftmaxRow *softmax;
    float *picked;
    Arena arena;
} Score;

static int64_t length_of(const ScoreInput *input, int64_t b) {
    return input->offset[b + 1] - input->offset[b];
}

static Group next_group(const ScoreInput *input, int64_t first, int64_t budget) {
    Group group = {.first = first, .last = first};
    while (group.last < input->count) {
        int64_t length = length_of(input, group.last);
        if (group.last > first && group.tokens + length > budget) break;
        group.tokens += length;
        group.pages += kv_pages_of(length);
        group.last++;
    }
    return group;
}

static bool check_input(const Resident *resident, const ScoreInput *input, Error *error) {
    int64_t positions = resident->cos_sin_PE.size[0], vocabulary = resident->architecture->vocab_size;
    for (int64_t b = 0; b < input->count; b++) {
        int64_t length = length_of(input, b);
        CHECK(length >= 0, "sequence %lld has %lld tokens", (long long)b, (long long)length);
        if (length > positions)
            return error_set(error, "sequence %lld has %lld tokens, the model has %lld positions", (long long)b,
                             (long long)length, (long long)positions);
        for (int64_t t = 0; t < length; t++) {
            int32_t id = input->ids[input->offset[b] + t];
            if (id >= 0 && id < vocabulary) continue;
            return error_set(error, "sequence %lld: token %lld has the id %d, which is not in the vocabulary of %lld",
                             (long long)b, (long long)t, id, (long long)vocabulary);
        }
    }
    return true;
}

static void score_open(Score *s) {
    Ops *ops = s->resident->ops;
    int64_t pages = 0, tokens = 0, sequences = 0;
    for (Group g = next_group(s->input, 0, s->budget); g.first < s->input->count;
         g = next_group(s->input, g.last, s->budget)) {
        if (g.pages > pages) pages = g.pages;
        if (g.tokens > tokens) tokens = g.tokens;
        if (g.last - g.first > sequences) sequences = g.last - g.first;
    }
    int64_t rows = int64_smaller(tokens, s->budget), logit_rows = int64_smaller(rows, SCORE_MAX_ROWS);
    if (s->input->logit_rows > 0) logit_rows = int64_smaller(logit_rows, s->input->logit_rows);
    s->cache = kv_cache_open(ops, MEMORY_SCRATCH, s->resident->share, s->resident->policy.compute, pages);
    s->logits =
        DEVICE_TENSOR_RAW(&ops->device, MEMORY_LOGITS, DTYPE_F32, logit_rows, s->resident->architecture->vocab_size);
    s->pages = arena_array(&s->arena, int32_t, pages);
    for (int64_t i = 0; i < pages; i++) s->pages[i] = (int32_t)i;
    s->positions = arena_array(&s->arena, int32_t, rows);
    s->spans = arena_array(&s->arena, AttentionSpan, sequences);
    s->rows = arena_array(&s->arena, int32_t, rows);
    s->targets = arena_array(&s->arena, int32_t, rows);
    s->columns = arena_array(&s->arena, int64_t, rows);
    s->softmax = arena_array(&s->arena, SoftmaxRow, logit_rows);
    s->picked = arena_array(&s->arena, float, logit_rows);
}

static void score_close(Score *s) {
    kv_cache_close(s->resident->ops, &s->cache);
    device_release(&s->resident->ops->device, &s->logits);
    arena_close(&s->arena);
}

// Tokens start..end-1 of sequence b as one span of the batch.
static void add_span(Score *s, TokenBatch *batch, int64_t b, int64_t start, int64_t end, const int32_t *pages) {
    const ScoreInput *input = s->input;
    int64_t length = length_of(input, b), row = batch->count;
    if (start == end) return;
    s->spans[batch->span_count++] = (AttentionSpan){.row = row, .count = end - start, .start = start, .pages = pages};
    for (int64_t t = start; t < end; t++) {
        s->positions[batch->count++] = (int32_t)t;
        int64_t next = input->offset[b] + t + 1;
        if (t + 1 == length || (input->wanted && input->wanted[next] == 0)) continue;
        int64_t i = s->target_count++;
        s->rows[i] = (int32_t)(row + t - start);
        s->targets[i] = input->ids[next];
        s->columns[i] = next;
    }
}

// Logits exist for a few rows at a time.
static void pick_logprobs(Score *s) {
    Ops *ops = s->resident->ops;
    int64_t chunk = s->logits.size[0];
    for (int64_t first = 0; first < s->target_count; first += chunk) {
        int64_t count = int64_smaller(chunk, s->target_count - first);
        Tensor logits_NV = tensor_rows(&s->logits, 0, count);
        resident_logits(s->resident, &logits_NV, s->rows + first);
        softmax_rows(ops, s->softmax, &logits_NV, s->resident->architecture->vocab_size, s->filter);
        softmax_logprobs(ops, s->picked, &logits_NV, s->softmax, s->targets + first, s->filter);
        for (int64_t i = 0; i < count; i++) s->logprobs[s->columns[first + i]] = s->picked[i];
    }
    s->target_count = 0;
}

// Walks the tokens of the group that lie at positions start … start + budget - 1.
static int64_t walk_piece(Score *s, const Group *group, int64_t start) {
    TokenBatch batch = {.ids = s->input->ids + s->input->offset[group->first] + start,
                        .positions = s->positions,
                        .spans = s->spans};
    const int32_t *pages = s->pages;
    for (int64_t b = group->first; b < group->last; b++) {
        int64_t length = length_of(s->input, b);
        add_span(s, &batch, b, start, int64_smaller(length, start + s->budget), pages);
        pages += kv_pages_of(length);
    }
    if (!batch.count) return 0;
    resident_forward(s->resident, &s->cache, &batch);
    pick_logprobs(s);
    return batch.count;
}

bool score_sequences(Resident *resident, float *logprobs, const ScoreInput *input, SoftmaxFilter filter,
                     int64_t token_budget, Progress *progress, Error *error) {
    if (!check_input(resident, input, error)) return false;
    bool limited = token_budget > 0 && token_budget < resident->max_rows;
    Score score = {.resident = resident,
                   .input = input,
                   .filter = filter,
                   .logprobs = logprobs,
                   .budget = limited ? token_budget : resident->max_rows};
    if (input->count == 0) return true;
    for (int64_t t = input->offset[0]; t < input->offset[input->count]; t++) logprobs[t] = 0;
    score_open(&score);
    int64_t done = 0;
    for (Group g = next_group(input, 0, score.budget); g.first < input->count;
         g = next_group(input, g.last, score.budget))
        for (int64_t start = 0; start < g.tokens; start += score.budget) {
            done += walk_piece(&score, &g, start);
            if (progress) progress_update(progress, done);
        }
    score_close(&score);
    return true;
}
