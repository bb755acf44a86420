#include "run/task.h"

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "config/settings_data.h"

#include <math.h>
#include <string.h>

enum { CUT_PROMPT = 4 }; // tokens of a prompt that is too long

// ---- opening

static bool open_command(Task *task, const Settings *settings, const RewardOptions *options, Error *error) {
    char *name = arena_string(&task->arena, options->name);
    for (char *at = name; *at; at++)
        if (*at == '/') *at = '_';
    const char *path = arena_format(&task->arena, "%s/reward_%s.log", settings->logger.log_dir, name);
    RewardCommand **command = &task->commands[task->command_count++];
    return !task->scores ||
           (file_make_folders(settings->logger.log_dir, error) && reward_command_open(command, options, path, error));
}

// Data sets with the same env_name share its command.
static bool find_reward(Task *task, TaskSource *source, const Settings *settings, const char *name, Error *error) {
    const RewardOptions *options = settings_data_reward(settings, name);
    source->command = -1;
    source->reward = reward_find(name, options, error);
    if (!source->reward || source->reward->component_count) return source->reward;
    for (int i = 0; &task->sources[i] != source; i++)
        if (task->sources[i].command >= 0 && !strcmp(task->sources[i].data.options->env_name, name))
            source->command = task->sources[i].command;
    if (source->command >= 0) return true;
    source->command = task->command_count;
    return open_command(task, settings, options, error);
}

static bool check_gold(const TaskSource *source, Error *error) {
    Arena arena = {0};
    bool good = true;
    for (int part = 0; part < 2 && source->reward->takes && !source->data.generated; part++)
        for (int64_t i = 0; good && i < dataset_count(&source->data, (DatasetPart)part); i++) {
            DatasetQuestion q = {0};
            good = dataset_question(&q, &source->data, (DatasetPart)part, i, &arena, error);
            if (good && !source->reward->takes((TextSpan){q.gold, strlen(q.gold)}))
                good = error_set(error,
                                 "%s: the right answer '%.100s' of a row is not %s, which the reward of %s.env_name "
                                 "'%s' compares",
                                 source->data.records.path, q.gold, source->reward->gold, source->data.options->key,
                                 source->data.options->env_name);
            dataset_question_close(&q);
            arena_reset(&arena);
        }
    arena_close(&arena);
    return good;
}

static bool open_source(Task *task, const Settings *settings, const DatasetOptions *options, Error *error) {
    TaskSource *source = &task->sources[task->source_count++];
    source->data.options = options;
    if (settings->algorithm == ALGORITHM_SFT)
        return dataset_open(&source->data, options, DATASET_LEARNED, &task->arena, error);
    return find_reward(task, source, settings, options->env_name, error) &&
           dataset_open(&source->data, options, source->command < 0 ? DATASET_COMPARED : DATASET_ASKED, &task->arena,
                        error) &&
           check_gold(source, error);
}

static void add_stretch(TaskQuestions *questions, const Task *task, int source, DatasetPart part) {
    int64_t count = dataset_count(&task->sources[source].data, part);
    if (!count) return;
    questions->stretches[questions->stretch_count++] =
        (TaskStretch){.source = source, .part = part, .first = questions->count, .count = count};
    questions->count += count;
}

static bool open_sources(Task *task, const Settings *settings, Error *error) {
    const DataOptions *data = &settings->data;
    int64_t count = data->train_count + data->validation_count;
    task->sources = arena_array(&task->arena, TaskSource, count);
    task->commands = arena_array(&task->arena, RewardCommand *, count);
    task->train.stretches = arena_array(&task->arena, TaskStretch, count);
    task->validation.stretches = arena_array(&task->arena, TaskStretch, count);
    StrBuf digests = {0};
    for (int64_t i = 0; i < count; i++) {
        bool validates = i >= data->train_count;
        const DatasetOptions *options = validates ? &data->validation[i - data->train_count] : &data->train[i];
        if (!open_source(task, settings, options, error)) {
            strbuf_close(&digests);
            return false;
        }
        add_stretch(validates ? &task->validation : &task->train, task, (int)i, DATASET_REST);
        strbuf_format(&digests, "%s %s, %lld held out, seed %lld\n", options->key, task->sources[i].data.digest,
                      (long long)task->sources[i].data.held_out, (long long)options->seed);
    }
    digest_bytes(task->data_digest, digests.text, digests.length);
    strbuf_close(&digests);
    // Those that are held out come first, as in NeMo-RL.
    TaskQuestions given = task->validation;
    task->validation = (TaskQuestions){.stretches = arena_array(&task->arena, TaskStretch, count)};
    for (int i = 0; i < data->train_count; i++) add_stretch(&task->validation, task, i, DATASET_HELD_OUT);
    for (int i = 0; i < given.stretch_count; i++)
        add_stretch(&task->validation, task, given.stretches[i].source, DATASET_REST);
    return true;
}

bool task_open(Task *task, const Settings *settings, const LoadedModel *model, bool scores, Error *error) {
    const DataOptions *data = &settings->data;
    *task = (Task){.model = model,
                   .scores = scores,
                   .advantages = &settings->adv_estimator,
                   .shuffle = data->shuffle,
                   .seed = (uint64_t)settings->run.seed,
                   .epochs = settings->run.max_num_epochs,
                   .prompts_per_turn = data->use_multiple_dataloader ? data->num_prompts_per_dataloader : 0,
                   .prompts_per_batch = settings_prompts_per_batch(settings)};
    if (!open_sources(task, settings, error)) return false;
    int64_t count = task->train_count = task->train.count;
    task->validation_count = task->validation.count;
    if (count > INT32_MAX || task->validation.count > INT32_MAX)
        return error_set(error, "data.train: %lld questions, data.validation %lld; at most %d can be numbered",
                         (long long)count, (long long)task->validation.count, INT32_MAX);
    if (settings->algorithm == ALGORITHM_SFT) {
        // NeMo-RL's sft_processor leaves out a conversation of that length too.
        int64_t longest = data->max_input_seq_length - 1, positions = settings->policy.max_total_sequence_length;
        task->max_prompt_length = longest < positions ? longest : positions;
        return task->prompts_per_batch <= count ||
               error_set(error, "policy.train_global_batch_size: %lld, but data.train has only %lld conversations",
                         (long long)task->prompts_per_batch, (long long)count);
    }
    if (task->prompts_per_batch > count)
        return error_set(error, "grpo.num_prompts_per_step: %lld%s, but data.train has only %lld questions",
                         (long long)task->prompts_per_batch,
                         settings->grpo.use_dynamic_sampling ? " with grpo.batch_multiplier" : "", (long long)count);
    int64_t room = settings->generation.max_length; // at most policy.max_total_sequence_length
    task->max_prompt_length = room - 1 < data->max_input_seq_length ? room - 1 : data->max_input_seq_length;
    return true;
}

void task_close(Task *task) {
    for (int i = 0; i < task->command_count; i++) reward_command_close(task->commands[i]);
    for (int i = 0; i < task->source_count; i++) dataset_close(&task->sources[i].data);
    Arena arena = task->arena;
    arena_close(&arena);
    *task = (Task){0};
}

// ---- questions

int64_t task_questions(const Task *task) {
    return task->epochs * task->train_count; // at most 1e9 · 2^31
}

static const TaskStretch *stretch_of(const Task *task, bool held_out, int64_t index) {
    const TaskQuestions *questions = held_out ? &task->validation : &task->train;
    CHECK(index >= 0 && index < questions->count, "question %lld of %lld", (long long)index,
          (long long)questions->count);
    int i = 0;
    while (index >= questions->stretches[i].first + questions->stretches[i].count) i++;
    return &questions->stretches[i];
}

bool task_open_question(DatasetQuestion *q, const Task *task, bool held_out, int64_t index, Arena *arena,
                        Error *error) {
    const TaskStretch *stretch = stretch_of(task, held_out, index);
    return dataset_question(q, &task->sources[stretch->source].data, stretch->part, index - stretch->first, arena,
                            error);
}

const char *task_question(const Task *task, bool held_out, int64_t index, Arena *arena) {
    DatasetQuestion q = {0};
    Error error;
    bool good = task_open_question(&q, task, held_out, index, arena, &error);
    const char *text = good ? q.prompt : arena_string(arena, error.text);
    dataset_question_close(&q);
    return text;
}

json_t *task_messages(const Task *task, bool held_out, int64_t index, const char *answer) {
    Arena arena = {0};
    DatasetQuestion q = {0};
    Error error;
    json_t *messages = json_array();
    if (task_open_question(&q, task, held_out, index, &arena, &error))
        json_array_extend(messages, q.messages);
    else
        log_warn("%s", error.text);
    if (answer) json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "assistant", "content", answer));
    dataset_question_close(&q);
    arena_close(&arena);
    return messages;
}

static bool question_ids(const Task *task, TokenList *ids, bool held_out, int64_t index, Error *error) {
    Arena arena = {0};
    DatasetQuestion q = {0};
    bool good = task_open_question(&q, task, held_out, index, &arena, error) &&
                (loaded_model_chat_ids(task->model, ids, q.messages, true, error) ||
                 error_prefix(error, "the question '%.100s': ", q.prompt));
    if (good && !ids->count) good = error_set(error, "the question '%.100s' has no tokens", q.prompt);
    dataset_question_close(&q);
    arena_close(&arena);
    return good;
}

// ---- requests

// Prompts that were cut, for one line.
typedef struct CutPrompts {
    int64_t count, tokens; // tokens of the first
    int64_t question;
} CutPrompts;

static bool request(const Task *task, EngineRequest *request, CutPrompts *cut, bool held_out, int64_t index,
                    int64_t prompt, int32_t samples, Arena *arena, Error *error) {
    TokenList list = {0};
    bool good = question_ids(task, &list, held_out, index, error);
    if (good) {
        int64_t length = (int64_t)list.count;
        if (length > task->max_prompt_length) {
            if (!cut->count++) cut->tokens = length, cut->question = index;
            length = task->max_prompt_length < CUT_PROMPT ? task->max_prompt_length : CUT_PROMPT;
        }
        int32_t *ids = arena_array(arena, int32_t, length);
        memcpy(ids, list.ids, (size_t)length * sizeof *ids);
        *request = (EngineRequest){.ids = ids,
                                   .count = length,
                                   .prompt = (int32_t)prompt,
                                   .samples = samples,
                                   .question = (int32_t)index};
    }
    bpe_list_close(&list);
    return good;
}

static void say_cut(const Task *task, const CutPrompts *cut, bool held_out, int64_t count) {
    Arena arena = {0};
    if (cut->count)
        log_warn(
            "%lld of %lld prompts have more than %lld tokens (data.max_input_seq_length, or no room for an answer); "
            "their samples are left out; the first has %lld: '%.60s…'",
            (long long)cut->count, (long long)count, (long long)task->max_prompt_length, (long long)cut->tokens,
            task_question(task, held_out, cut->question, &arena));
    arena_close(&arena);
}

// The question at a position of an order of `count`, which goes on over the epochs.
static int64_t in_order(const Task *task, int64_t position, int64_t count) {
    int64_t epoch = position / count, index = position % count;
    CHECK(epoch <= UINT32_MAX, "epoch %lld", (long long)epoch);
    if (!task->shuffle) return index;
    return (int64_t)rng_permute((uint64_t)index, (uint64_t)count, task->seed, RNG_SHUFFLE, (uint32_t)epoch);
}

int64_t task_train_question(const Task *task, int64_t position) {
    if (!task->prompts_per_turn) return in_order(task, position, task->train.count);
    int64_t turn = position / task->prompts_per_turn, sets = task->train.stretch_count;
    const TaskStretch *stretch = &task->train.stretches[turn % sets];
    int64_t own = turn / sets * task->prompts_per_turn + position % task->prompts_per_turn;
    return stretch->first + in_order(task, own, stretch->count);
}

bool task_train_requests(const Task *task, EngineRequest **requests, int64_t position, int64_t first_prompt,
                         int32_t samples, Arena *arena, Error *error) {
    CutPrompts cut = {0};
    *requests = arena_array(arena, EngineRequest, task->prompts_per_batch);
    for (int64_t p = 0; p < task->prompts_per_batch; p++)
        if (!request(task, &(*requests)[p], &cut, false, task_train_question(task, position + p), first_prompt + p,
                     samples, arena, error))
            return false;
    say_cut(task, &cut, false, task->prompts_per_batch);
    return true;
}

bool task_validation_requests(const Task *task, EngineRequest **requests, int64_t first, int64_t count, int32_t samples,
                              Arena *arena, Error *error) {
    CutPrompts cut = {0};
    *requests = arena_array(arena, EngineRequest, count);
    for (int64_t p = 0; p < count; p++)
        if (!request(task, &(*requests)[p], &cut, true, first + p, first + p, samples, arena, error)) return false;
    say_cut(task, &cut, true, count);
    return true;
}

// ---- rewards

// Samples with their questions; those of one prompt, which stand together, share one.
typedef struct Scoring {
    const Task *task;
    Samples *samples;
    DatasetQuestion *questions; // [question_count]
    int64_t question_count;
    int64_t *question; // [count] of questions
    int *source;       // [count]
    bool *cut;         // [count]
    int64_t step;
    bool held_out;
    Arena *arena;
} Scoring;

// A prompt of so few tokens may be the beginning of a longer one.
static bool was_cut(const Scoring *s, int64_t b, bool *cut, Error *error) {
    TokenList ids = {0};
    *cut = false;
    if (s->samples->prompt_length[b] > CUT_PROMPT) return true;
    bool good = question_ids(s->task, &ids, s->held_out, s->samples->question[b], error);
    *cut = (int64_t)ids.count > s->task->max_prompt_length;
    bpe_list_close(&ids);
    return good;
}

static bool open_questions(Scoring *s, Error *error) {
    const Samples *samples = s->samples;
    for (int64_t b = 0; b < samples->count; b++) {
        int32_t index = samples->question[b];
        s->source[b] = stretch_of(s->task, s->held_out, index)->source;
        if (b && samples->question[b - 1] == index) {
            s->question[b] = s->question[b - 1], s->cut[b] = s->cut[b - 1];
            continue;
        }
        s->question[b] = s->question_count++;
        if (!task_open_question(&s->questions[s->question[b]], s->task, s->held_out, index, s->arena, error) ||
            !was_cut(s, b, &s->cut[b], error))
            return false;
    }
    return true;
}

// What the samples' rewards consist of, when that is the same for all: the columns of Samples.
static void set_components(Samples *samples, int count, const char *const *names, Arena *arena) {
    samples->component_count = count;
    for (int c = 0; c < count; c++) {
        samples->component_name[c] = names[c];
        samples->component[c] = arena_array(arena, float, samples->count);
    }
}

static bool same_components(const Samples *samples, int count, const char *const *names) {
    bool same = samples->component_count == count;
    for (int c = 0; same && c < count; c++) same = !strcmp(samples->component_name[c], names[c]);
    return same;
}

// Files the components of sample b: the first decides which there are, and the first with others that there are none.
static void put_components(Samples *samples, int64_t b, bool *mixed, int count, const char *const *names,
                           const float *values, Arena *arena) {
    if (*mixed) return;
    if (samples->component_count < 0) set_components(samples, count, names, arena);
    *mixed = !same_components(samples, count, names);
    for (int c = 0; c < count && !*mixed; c++) samples->component[c][b] = values[c];
}

static json_t *command_request(const Scoring *s, int64_t b) {
    static const char *const own[] = {"id", "prompt", "messages", "response", "ground_truth", "step"};
    const DatasetQuestion *q = &s->questions[s->question[b]];
    const char *name, *text = s->samples->text[b];
    json_t *value, *line = json_pack("{s:n, s:s, s:O, s:s, s:s?, s:I}", own[0], own[1], q->prompt, own[2], q->messages,
                                     own[3], text, own[4], q->gold, own[5], (json_int_t)s->step);
    CHECK(line, "sample %lld is no UTF-8", (long long)b);
    json_object_foreach(q->row, name, value) {
        bool taken = false;
        for (int i = 0; i < 6; i++) taken = taken || !strcmp(name, own[i]);
        json_object_set(line, taken ? arena_format(s->arena, "row_%s", name) : name, value);
    }
    return line;
}

static bool score_by_command(const Scoring *s, int number, bool *mixed, Error *error) {
    Samples *samples = s->samples;
    json_t **requests = arena_array(s->arena, json_t *, samples->count);
    int64_t *sample = arena_array(s->arena, int64_t, samples->count), count = 0;
    for (int64_t b = 0; b < samples->count; b++) {
        if (s->task->sources[s->source[b]].command != number || s->cut[b] || samples->finish[b] == FINISH_NAN) continue;
        sample[count] = b;
        requests[count++] = command_request(s, b);
    }
    RewardScores scores;
    bool good = reward_command_score(s->task->commands[number], &scores, requests, count, s->arena, error);
    for (int64_t i = 0; i < count; i++) {
        json_decref(requests[i]);
        if (!good) continue;
        float values[REWARD_MAX_COMPONENTS];
        for (int c = 0; c < scores.component_count; c++) values[c] = scores.component[c][i];
        samples->reward[sample[i]] = scores.reward[i];
        put_components(samples, sample[i], mixed, scores.component_count, scores.names, values, s->arena);
    }
    return good;
}

static void score_by_rule(const Scoring *s, int64_t b, bool *mixed) {
    const Reward *reward = s->task->sources[s->source[b]].reward;
    const char *gold = s->questions[s->question[b]].gold, *names[REWARD_MAX_COMPONENTS], *text = s->samples->text[b];
    float values[REWARD_MAX_COMPONENTS];
    for (int c = 0; c < reward->component_count; c++) names[c] = reward->components[c].name;
    s->samples->reward[b] =
        reward_score(values, reward, (TextSpan){text, strlen(text)}, (TextSpan){gold, strlen(gold)});
    put_components(s->samples, b, mixed, reward->component_count == 1 ? 0 : reward->component_count, names, values,
                   s->arena);
}

// A validation's data sets may have other rewards, which are taken as they are.
static bool weigh(const Scoring *s, Error *error) {
    const AdvantageOptions *options = s->task->advantages;
    int64_t weights = options->reward_weight_count, components = s->samples->component_count;
    if (!weights || (weights != components && s->held_out)) return true;
    if (weights != components)
        return error_set(error, "grpo.adv_estimator.reward_weights: %lld numbers for %lld components of the reward",
                         (long long)weights, (long long)components);
    samples_weigh_reward(s->samples, options->reward_weights);
    return true;
}

static bool score(Scoring *s, Error *error) {
    Samples *samples = s->samples;
    bool mixed = false;
    samples->component_count = -1;
    for (int64_t b = 0; b < samples->count; b++)
        if (s->task->sources[s->source[b]].command < 0 && !s->cut[b]) score_by_rule(s, b, &mixed);
    for (int i = 0; i < s->task->command_count; i++)
        if (!score_by_command(s, i, &mixed, error)) return false;
    if (mixed || samples->component_count < 0) samples->component_count = 0;
    for (int64_t b = 0; b < samples->count; b++)
        samples->valid[b] = samples->finish[b] != FINISH_NAN && !s->cut[b] && !isnan(samples->reward[b]);
    return weigh(s, error);
}

bool task_reward(const Task *task, Samples *samples, bool held_out, int64_t step, Arena *arena, Error *error) {
    int64_t count = samples->count;
    samples->reward = arena_array(arena, float, count);
    samples->valid = arena_array(arena, float, count);
    Scoring scoring = {.task = task,
                       .samples = samples,
                       .questions = arena_array(arena, DatasetQuestion, count),
                       .question = arena_array(arena, int64_t, count),
                       .source = arena_array(arena, int, count),
                       .cut = arena_array(arena, bool, count),
                       .step = step,
                       .held_out = held_out,
                       .arena = arena};
    bool good = open_questions(&scoring, error) && score(&scoring, error);
    for (int64_t q = 0; q < scoring.question_count; q++) dataset_question_close(&scoring.questions[q]);
    return good;
}
