#include "run/supervision.h"

#include "base/int64.h"
#include "base/log.h"
#include "model/score.h"
#include "run/share.h"

#include <string.h>

enum { LEFT_OUT_IDS = 4 }; // of a conversation that is too long

// ---- one conversation

static const char *role_of(const json_t *messages, size_t i) {
    return json_string_value(json_object_get(json_array_get(messages, i), "role"));
}

// The template's text of messages 0..last.
static bool render(const LoadedModel *model, StrBuf *text, const json_t *messages, size_t last, const json_t *tools,
                   bool answered, Error *error) {
    const char *role = role_of(messages, last);
    bool asks = role && (!strcmp(role, "user") || !strcmp(role, "tool"));
    json_t *begin = json_array(), *variables = json_pack("{s:b}", "add_generation_prompt", answered && asks);
    for (size_t i = 0; i <= last; i++) json_array_append(begin, json_array_get(messages, i));
    if (tools) json_object_set(variables, "tools", (json_t *)(uintptr_t)tools);
    strbuf_clear(text);
    bool good = loaded_model_chat_text(model, text, begin, variables, error);
    json_decref(begin);
    json_decref(variables);
    return good;
}

// Bytes that two texts have in common at their start, in whole characters.
static size_t common_start(const StrBuf *a, const StrBuf *b) {
    size_t most = a->length < b->length ? a->length : b->length, count = 0;
    while (count < most && a->text[count] == b->text[count]) count++;
    while (count > 0 && count < b->length && ((unsigned char)b->text[count] & 0xC0) == 0x80) count--;
    return count;
}

static bool ends_with(const char *text, size_t length, const char *ending) {
    size_t size = strlen(ending);
    while (length && text[length - 1] == '\n') length--;
    return length >= size && !memcmp(text + length - size, ending, size);
}

// A piece of the conversation, with what stands around the whole.
static bool encode(const LoadedModel *model, TokenList *ids, const char *text, size_t length, const char *before,
                   const char *behind, Error *error) {
    StrBuf piece = {0};
    if (before && (length < strlen(before) || memcmp(text, before, strlen(before)))) strbuf_puts(&piece, before);
    strbuf_append(&piece, text, length);
    if (behind && !ends_with(text, length, behind)) strbuf_puts(&piece, behind);
    bool good = !piece.length || tokenizer_encode(model->tokenizer, ids, piece.text, piece.length, false, error);
    strbuf_close(&piece);
    return good;
}

static const char *special(const LoadedModel *model, bool wanted, int32_t id) {
    return wanted && id >= 0 ? tokenizer_token_text(model->tokenizer, id) : NULL;
}

// Where message i ends in the whole text: a template may close what is its last message, and no more. `text` is that of messages 0..i.
static bool find_end(size_t *end, const LoadedModel *model, const StrBuf *text, const StrBuf *whole, size_t i,
                     Error *error) {
    const char *eos = special(model, true, tokenizer_eos(model->tokenizer));
    *end = common_start(text, whole);
    size_t more = text->length - *end;
    while (more && text->text[*end + more - 1] == '\n') more--;
    return !more || (eos && more == strlen(eos) && !memcmp(text->text + *end, eos, more)) ||
           error_set(
               error,
               "the chat template prints messages[0..%zu] otherwise when others follow, so that it cannot be told "
               "what the assistant says; with sft.only_unmask_final: true the last message alone is learned",
               i);
}

bool supervision_ids(const LoadedModel *model, TokenList *ids, StrBuf *learned, const json_t *messages,
                     const json_t *tools, const SupervisionOptions *options, Error *error) {
    const char *bos = special(model, options->add_bos, tokenizer_bos(model->tokenizer));
    const char *eos = special(model, options->add_eos, tokenizer_eos(model->tokenizer));
    size_t count = json_array_size(messages), from = 0;
    StrBuf whole = {0}, text = {0};
    bool good = render(model, &whole, messages, count - 1, tools, options->add_generation_prompt, error);
    for (size_t i = 0; good && i < count; i++) {
        bool last = i + 1 == count;
        size_t to = whole.length;
        good = last || render(model, &text, messages, i, tools, options->add_generation_prompt, error);
        if (good && !last) {
            bool matters = !options->only_unmask_final || i + 2 == count; // else only its pieces are cut elsewhere
            good = find_end(&to, model, &text, &whole, i, error) || !matters;
        }
        if (!good) break;
        if (to < from) to = from;
        bool learns = options->only_unmask_final ? last : !strcmp(role_of(messages, i), "assistant");
        good = encode(model, ids, whole.text + from, to - from, i ? NULL : bos, last ? eos : NULL, error);
        while (good && learned->length < ids->count) strbuf_putc(learned, (char)learns);
        from = to;
    }
    strbuf_close(&whole);
    strbuf_close(&text);
    return good;
}

// ---- a batch of them

// All ids read so far, and where loss falls.
typedef struct Reading {
    TokenList ids;
    StrBuf learned;
    int64_t *offset;
    float *sample_mask;
} Reading;

static bool read_one(Reading *reading, Supervision *supervision, const Trainer *t, bool held_out, int64_t index,
                     int64_t b, Error *error) {
    const Settings *s = t->settings;
    const SupervisionOptions options = {.add_bos = s->data.add_bos,
                                        .add_eos = s->data.add_eos,
                                        .add_generation_prompt = s->data.add_generation_prompt,
                                        .only_unmask_final = s->sft.only_unmask_final};
    Arena arena = {0};
    DatasetQuestion q = {0};
    bool good = task_open_question(&q, &t->task, held_out, index, &arena, error) &&
                (supervision_ids(&t->model, &reading->ids, &reading->learned, q.messages, q.tools, &options, error) ||
                 error_prefix(error, "the conversation '%.100s': ", q.prompt));
    int64_t length = (int64_t)reading->ids.count - reading->offset[b];
    if (good && !length) good = error_set(error, "the conversation '%.100s' has no tokens", q.prompt);
    reading->sample_mask[b] = length <= t->task.max_prompt_length;
    if (good && length > t->task.max_prompt_length) {
        supervision->left_out++;
        int64_t kept = int64_smaller(LEFT_OUT_IDS, int64_larger(t->task.max_prompt_length, 1));
        bpe_list_cut(&reading->ids, (size_t)(reading->offset[b] + kept));
        reading->learned.length = reading->ids.count;
    }
    dataset_question_close(&q);
    arena_close(&arena);
    return good;
}

bool supervision_read(Supervision *supervision, const Trainer *t, bool held_out, int64_t first, int64_t count,
                      Arena *arena, Error *error) {
    Reading reading = {.offset = arena_array(arena, int64_t, count + 1),
                       .sample_mask = arena_array(arena, float, count)};
    bool good = true;
    *supervision = (Supervision){0};
    for (int64_t b = 0; good && b < count; b++) {
        int64_t index = held_out ? first + b : task_train_question(&t->task, first + b);
        good = read_one(&reading, supervision, t, held_out, index, b, error);
        reading.offset[b + 1] = (int64_t)reading.ids.count;
    }
    if (good) {
        int64_t total = reading.offset[count];
        int32_t *ids = arena_array(arena, int32_t, total);
        float *mask = arena_array(arena, float, total);
        memcpy(ids, reading.ids.ids, (size_t)total * sizeof *ids);
        for (int64_t b = 0; b < count; b++)
            for (int64_t i = reading.offset[b]; i < reading.offset[b + 1]; i++)
                mask[i] = reading.sample_mask[b] * (float)reading.learned.text[i];
        supervision->batch = (TrainBatch){.count = count,
                                          .offset = reading.offset,
                                          .ids = ids,
                                          .mask = mask,
                                          .sample_mask = reading.sample_mask};
    }
    bpe_list_close(&reading.ids);
    strbuf_close(&reading.learned);
    return good;
}

bool supervision_measure(double *loss, int64_t *tokens, Trainer *t, const TrainBatch *batch, Arena *arena,
                         Error *error) {
    const PolicyOptions *policy = &t->settings->policy;
    int64_t total = batch->offset[batch->count];
    int64_t budget = policy->sequence_packing.enabled || policy->dynamic_batching.enabled
                         ? policy->batching.max_tokens
                         : t->settings->sft.val_micro_batch_size * policy->max_total_sequence_length;
    float *logprobs = arena_array(arena, float, total);
    int64_t first, last;
    share_part(&first, &last, batch->offset, batch->count, &t->mesh.data);
    ScoreInput input = {.count = last - first,
                        .offset = batch->offset + first,
                        .ids = batch->ids,
                        .wanted = batch->mask,
                        .logit_rows = policy->logprob_chunk_size};
    SoftmaxFilter filter = {.temperature = 1, .top_p = 1};
    bool good = score_sequences(&t->rollout, logprobs, &input, filter, budget, NULL, error);
    if (!comm_agree(&t->mesh.world, good, error)) return false;
    share_by_token(logprobs, batch->offset, batch->count, &t->mesh.data);
    for (int64_t b = 0; b < batch->count; b++)
        for (int64_t i = batch->offset[b] + 1; i < batch->offset[b + 1]; i++) {
            if (batch->mask[i] == 0) continue;
            *loss -= (double)logprobs[i];
            ++*tokens;
        }
    return true;
}
