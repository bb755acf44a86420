#include "run/board_samples.h"

#include <math.h>
#include <string.h>

// Indented by four: Markdown leaves it as it is.
static void put_verbatim(StrBuf *text, const char *content) {
    for (const char *line = content;; line++) {
        size_t length = strcspn(line, "\n");
        strbuf_puts(text, "    ");
        strbuf_append(text, line, length);
        strbuf_putc(text, '\n');
        line += length;
        if (!*line) break;
    }
    strbuf_putc(text, '\n');
}

void board_samples_put(StrBuf *text, const Task *task, const Samples *samples, bool held_out, int64_t b) {
    Arena arena = {0};
    strbuf_format(text, "**reward %g**, %lld tokens, %s\n\n", (double)samples->reward[b],
                  (long long)(samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b]),
                  samples_finish_name(samples->finish[b]));
    put_verbatim(text, task_question(task, held_out, samples->question[b], &arena));
    strbuf_puts(text, "→\n\n");
    put_verbatim(text, samples->text[b]);
    arena_close(&arena);
}

// A column of tokens without those of prompts.
static int64_t of_answers(float *values, const Samples *samples, const float *column) {
    int64_t count = 0;
    for (int64_t b = 0; b < samples->count; b++)
        for (int64_t t = samples->offset[b] + samples->prompt_length[b]; t < samples->offset[b + 1]; t++)
            values[count++] = column[t];
    return count;
}

static bool put_texts(const Samples *s, const Trainer *t, int64_t step, Error *error) {
    StrBuf text = {0};
    int64_t best = 0, worst = 0;
    for (int64_t b = 1; b < s->count; b++) {
        if (s->reward[b] > s->reward[best]) best = b;
        if (s->reward[b] < s->reward[worst]) worst = b;
    }
    board_samples_put(&text, &t->task, s, false, best);
    if (worst != best) board_samples_put(&text, &t->task, s, false, worst);
    bool good = tensorboard_text(&t->board, "train/samples", text.text, step, error);
    strbuf_close(&text);
    return good;
}

bool board_samples_step(const StepReport *r, const Trainer *t, Error *error) {
    const Samples *s = r->samples;
    if (!t->settings->logger.tensorboard_enabled || !s->count) return true;
    Arena arena = {0};
    float *length = arena_array(&arena, float, s->count), *values = arena_array(&arena, float, s->offset[s->count]);
    float *reward = arena_array(&arena, float, s->count);
    for (int64_t b = 0; b < s->count; b++) {
        length[b] = (float)(s->offset[b + 1] - s->offset[b] - s->prompt_length[b]);
        reward[b] = s->valid[b] != 0 ? s->reward[b] : NAN; // not scored
    }
    bool good =
        tensorboard_histogram(&t->board, "train/baseline_reward/histogram", r->baseline, s->count, r->step, error) &&
        tensorboard_histogram(&t->board, "train/total_reward/histogram", reward, s->count, r->step, error) &&
        tensorboard_histogram(&t->board, "train/gen_tokens_per_sample/histogram", length, s->count, r->step, error) &&
        tensorboard_histogram(&t->board, "train/advantages/histogram", values, of_answers(values, s, s->advantage),
                              r->step, error) &&
        tensorboard_histogram(&t->board, "train/generation_logprobs/histogram", values,
                              of_answers(values, s, s->generation_logprobs), r->step, error) &&
        put_texts(s, t, r->step, error);
    arena_close(&arena);
    return good;
}
