#include "run/answers.h"

#include "run/output.h"
#include "run/runtime.h"

#include <stdio.h>

void answers_open(Answers *answers, const Engine *engine, const Inputs *prompts, int32_t samples, bool json) {
    *answers = (Answers){.engine = engine, .prompts = prompts, .samples = samples, .json = json, .lost = -1};
    answers->stream =
        (AnswerStream){.engine = engine, .detokenizer = {.tokenizer = prompts->model->tokenizer, .skip_special = true}};
}

static json_t *id_list(const int32_t *ids, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static void print_json(const Answers *answers, int64_t prompt, int64_t sample, EngineAnswer answer) {
    const Inputs *prompts = answers->prompts;
    int64_t start = prompts->offset[prompt], length = prompts->offset[prompt + 1] - start;
    json_t *logprobs = json_array(), *reason = json_null();
    for (int64_t t = 0; t < answer.count; t++) json_array_append_new(logprobs, jsonio_real((double)answer.logprobs[t]));
    if (answer.finish == FINISH_STOP) reason = json_integer(answer.stopped_by);
    if (answer.finish == FINISH_STOP_STRING)
        reason = json_string(engine_stop_strings(answers->engine)->text[answer.stopped_by]);
    StrBuf text = {0};
    answer_stream_text(answers->engine, &text, answer);
    json_t *line = json_object();
    json_object_set_new(line, "prompt", json_integer(prompt));
    json_object_set_new(line, "sample", json_integer(sample));
    json_object_set_new(line, "text", json_stringn(text.text ? text.text : "", text.length));
    json_object_set_new(line, "finish_reason", json_string(samples_finish_name(answer.finish)));
    json_object_set_new(line, "stop_reason", reason);
    json_object_set_new(line, "prompt_ids", id_list(prompts->ids.ids + start, length));
    json_object_set_new(line, "ids", id_list(answer.ids, answer.count));
    json_object_set_new(line, "logprobs", logprobs);
    output_json(line);
    strbuf_close(&text);
}

static void print_text(const Answers *answers, int64_t prompt, int64_t sample, EngineAnswer answer) {
    StrBuf text = {0};
    printf("[prompt %lld, sample %lld]\n", (long long)prompt, (long long)sample);
    answer_stream_text(answers->engine, &text, answer);
    output_text(text.text, text.length);
    putchar('\n');
    strbuf_close(&text);
}

bool answers_print(Answers *answers, Error *error) {
    int64_t count = answers->prompts->count * answers->samples;
    for (; answers->next < count; answers->next++) {
        int64_t prompt = answers->next / answers->samples, sample = answers->next % answers->samples;
        EngineAnswer answer = engine_answer(answers->engine, prompt, (int32_t)sample);
        bool alone = count == 1 && !answers->json;
        if (alone) answer_stream_show(&answers->stream, answer, false);
        if (!answer.finished) break;
        if (answer.finish == FINISH_NAN && answers->lost < 0) answers->lost = answers->next;
        if (alone)
            putchar('\n');
        else
            (answers->json ? print_json : print_text)(answers, prompt, sample, answer);
    }
    return output_flush(error);
}

bool answers_check(const Answers *answers, DType compute, Error *error) {
    if (answers->lost < 0) return true;
    int64_t prompt = answers->lost / answers->samples, sample = answers->lost % answers->samples;
    return error_set(
        error, "prompt %lld, sample %lld: after %lld tokens the logits hold NaN or infinity; " RUNTIME_NUMBERS_LOST,
        (long long)prompt, (long long)sample, (long long)engine_answer(answers->engine, prompt, (int32_t)sample).count,
        dtype_name(compute));
}

void answers_close(Answers *answers) {
    answer_stream_close(&answers->stream);
}
