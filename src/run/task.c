#include "run/task.h"

#include <math.h>
#include <string.h>

static void note_digest(char hex[DIGEST_HEX], const ArithmeticOptions *data) {
    Arena arena = {0};
    const char *text =
        arena_format(&arena, "arithmetic %.*s %lld..%lld %lld..%lld, %lld held out, seed %llu", data->operation_count,
                     data->operations, (long long)data->left_min, (long long)data->left_max, (long long)data->right_min,
                     (long long)data->right_max, (long long)data->held_out, (unsigned long long)data->seed);
    digest_bytes(hex, text, strlen(text));
    arena_close(&arena);
}

bool task_open(Task *task, const Settings *settings, const LoadedModel *model, Error *error) {
    const DataOptions *data = &settings->data;
    *task = (Task){.model = model, .shuffle = data->shuffle};
    if (!arithmetic_open(&task->questions, &data->arithmetic, error)) return false;
    note_digest(task->data_digest, &data->arithmetic);
    task->reward = reward_find(data->env_name, error);
    if (!task->reward) return error_prefix(error, "data.train.env_name: ");
    task->train_count = arithmetic_count(&task->questions, ARITHMETIC_TRAIN);
    task->validation_count = arithmetic_count(&task->questions, ARITHMETIC_HELD_OUT);
    task->prompts_per_batch = settings_prompts_per_batch(settings);
    if (task->train_count > INT32_MAX)
        return error_set(error, "data.train: %lld questions; at most %d can be numbered", (long long)task->train_count,
                         INT32_MAX);
    if (task->prompts_per_batch > task->train_count)
        return error_set(error, "grpo.num_prompts_per_step: %lld%s, but data.train has only %lld questions",
                         (long long)task->prompts_per_batch,
                         settings->grpo.use_dynamic_sampling ? " with grpo.batch_multiplier" : "",
                         (long long)task->train_count);
    int64_t room = settings->generation.max_length; // at most policy.max_total_sequence_length
    task->max_prompt_length = room - 1 < data->max_input_seq_length ? room - 1 : data->max_input_seq_length;
    return true;
}

const char *task_question(const Task *task, bool held_out, int64_t index, Arena *arena) {
    int64_t answer;
    char *text = arena_alloc(arena, ARITHMETIC_QUESTION_SIZE);
    arithmetic_question(&task->questions, held_out ? ARITHMETIC_HELD_OUT : ARITHMETIC_TRAIN, index, text, &answer);
    return text;
}

json_t *task_messages(const Task *task, bool held_out, int64_t index, const char *answer) {
    Arena arena = {0};
    json_t *messages =
        json_pack("[{s:s, s:s}]", "role", "user", "content", task_question(task, held_out, index, &arena));
    if (answer) json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "assistant", "content", answer));
    arena_close(&arena);
    return messages;
}

static bool request(const Task *task, EngineRequest *request, bool held_out, int64_t index, int64_t prompt,
                    int32_t samples, Arena *arena, Error *error) {
    json_t *messages = task_messages(task, held_out, index, NULL);
    TokenList list = {0};
    bool good = loaded_model_chat_ids(task->model, &list, messages, true, error);
    json_decref(messages);
    if (good && (int64_t)list.count > task->max_prompt_length)
        good = error_set(error,
                         "the question '%s' has %zu tokens; data.max_input_seq_length and "
                         "policy.generation.vllm_cfg.max_model_len (policy.max_total_sequence_length) leave room for "
                         "%lld",
                         task_question(task, held_out, index, arena), list.count, (long long)task->max_prompt_length);
    if (good) {
        int32_t *ids = arena_array(arena, int32_t, list.count);
        memcpy(ids, list.ids, list.count * sizeof *ids);
        *request = (EngineRequest){.ids = ids,
                                   .count = (int64_t)list.count,
                                   .prompt = (int32_t)prompt,
                                   .samples = samples,
                                   .question = (int32_t)index};
    }
    bpe_list_close(&list);
    return good;
}

bool task_train_requests(const Task *task, EngineRequest **requests, int64_t position, int64_t first_prompt,
                         int32_t samples, Arena *arena, Error *error) {
    *requests = arena_array(arena, EngineRequest, task->prompts_per_batch);
    for (int64_t p = 0; p < task->prompts_per_batch; p++) {
        int64_t epoch = (position + p) / task->train_count, index = (position + p) % task->train_count;
        if (task->shuffle) index = arithmetic_train_index(&task->questions, epoch, index);
        if (!request(task, &(*requests)[p], false, index, first_prompt + p, samples, arena, error)) return false;
    }
    return true;
}

bool task_validation_requests(const Task *task, EngineRequest **requests, int64_t first, int64_t count, int32_t samples,
                              Arena *arena, Error *error) {
    *requests = arena_array(arena, EngineRequest, count);
    for (int64_t p = 0; p < count; p++)
        if (!request(task, &(*requests)[p], true, first + p, first + p, samples, arena, error)) return false;
    return true;
}

void task_reward(const Task *task, Samples *samples, bool held_out, Arena *arena) {
    samples->reward = arena_array(arena, float, samples->count);
    samples->valid = arena_array(arena, float, samples->count);
    for (int64_t b = 0; b < samples->count; b++) {
        char question[ARITHMETIC_QUESTION_SIZE];
        int64_t answer;
        arithmetic_question(&task->questions, held_out ? ARITHMETIC_HELD_OUT : ARITHMETIC_TRAIN, samples->question[b],
                            question, &answer);
        samples->reward[b] = task->reward->function(samples->text[b], strlen(samples->text[b]), answer);
        samples->valid[b] = samples->finish[b] != FINISH_NAN && !isnan(samples->reward[b]);
    }
}
