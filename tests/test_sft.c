// Supervised fine-tuning: conversations as ids with their loss mask, runs whose loss falls, the same bits however a batch is
// cut and wherever a run was stopped, what is left out and what is refused.
#include "base/file.h"
#include "base/jsonio.h"
#include "run/course.h"
#include "run/supervision.h"
#include "support/run_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char recipe[] =
    "sft: {max_num_steps: 6, max_num_epochs: 100, val_period: 3, val_batches: 2, val_global_batch_size: 3}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: 8\n"
    "  train_micro_batch_size: 4\n"
    "  max_total_sequence_length: 96\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {save_period: 3, keep_top_k: null}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 4], right: [0, 4], split_validation_size: 5}\n";

static int setup(void **state) {
    (void)state;
    return run_setup_open("sft", recipe);
}

#define TRAIN(name, ...) run_require(run_train(RUN_SETTINGS(name, __VA_ARGS__), NULL))

static void put(const char *name, const char *text) {
    run_require(file_write(run_path(name), text, strlen(text), &run_error));
}

// ---- conversations

// The tokenizer of the cases, with a template.
static LoadedModel open_text(const char *template) {
    static const char config[] = "{\"bos_token\": \"<|begin_of_text|>\", \"eos_token\": \"<|im_end|>\"}";
    char *tokenizer;
    LoadedModel model;
    run_require(
        file_read(&tokenizer, NULL, &run_arena, "tests/data/text/tokenizers/kind_llama3/tokenizer.json", &run_error) &&
        file_make_folders(run_path("text"), &run_error));
    put("text/tokenizer.json", tokenizer);
    put("text/tokenizer_config.json", config);
    run_require(loaded_model_open_text(&model, run_path("text"), template, &run_error) &&
                loaded_model_chat_options(&model, NULL, NULL, &run_error));
    return model;
}

static void check_case(const json_t *json) {
    const SupervisionOptions options = {.add_bos = json_is_true(json_object_get(json, "add_bos")),
                                        .add_eos = json_is_true(json_object_get(json, "add_eos")),
                                        .add_generation_prompt =
                                            json_is_true(json_object_get(json, "add_generation_prompt")),
                                        .only_unmask_final = json_is_true(json_object_get(json, "only_unmask_final"))};
    LoadedModel model = open_text(json_string_value(json_object_get(json, "template")));
    TokenList ids = {0};
    StrBuf learned = {0};
    run_require(supervision_ids(&model, &ids, &learned, json_object_get(json, "messages"), NULL, &options, &run_error));
    const json_t *wanted = json_object_get(json, "ids"), *mask = json_object_get(json, "mask");
    assert_int_equal(ids.count, json_array_size(wanted));
    assert_int_equal(learned.length, ids.count);
    for (size_t i = 0; i < ids.count; i++) {
        assert_int_equal(ids.ids[i], json_integer_value(json_array_get(wanted, i)));
        assert_int_equal(learned.text[i], json_integer_value(json_array_get(mask, i)));
    }
    bpe_list_close(&ids);
    strbuf_close(&learned);
    loaded_model_close(&model);
}

static void test_conversations_are_cut_as_in_nemo_rl(void **state) {
    (void)state;
    char *text;
    run_require(file_read(&text, NULL, &run_arena, "tests/data/sft/cases.jsonl", &run_error));
    int cases = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), cases++) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        check_case(json);
        json_decref(json);
    }
    assert_int_equal(cases, 54);
}

// The ids as text, those with loss in capitals.
static const char *shown(const char *template, const char *messages, SupervisionOptions options, const json_t *tools) {
    LoadedModel model = open_text(template);
    TokenList ids = {0};
    StrBuf learned = {0}, text = {0};
    json_t *json = json_loads(messages, 0, NULL);
    assert_non_null(json);
    run_require(supervision_ids(&model, &ids, &learned, json, tools, &options, &run_error));
    for (size_t i = 0; i < ids.count; i++) {
        size_t start = text.length;
        tokenizer_decode(model.tokenizer, &text, &ids.ids[i], 1, false);
        for (size_t c = start; c < text.length && learned.text[i]; c++)
            if (text.text[c] >= 'a' && text.text[c] <= 'z') text.text[c] = (char)(text.text[c] - 'a' + 'A');
    }
    const char *result = arena_bytes(&run_arena, text.text, text.length);
    json_decref(json);
    bpe_list_close(&ids);
    strbuf_close(&learned);
    strbuf_close(&text);
    loaded_model_close(&model);
    return result;
}

// A template may close the last message with an eos that is gone once another follows. One that prints earlier messages otherwise
// leaves no way to tell who says what.
static void test_earlier_messages_printed_otherwise(void **state) {
    (void)state;
    const char *talk = "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
                       "{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]";
    SupervisionOptions none = {0};
    assert_string_equal(shown("{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>", talk, none, NULL),
                        "aBcD<|IM_END|>");
    const char *marks = "{% for m in messages %}{% if loop.last %}!{% endif %}{{ m.content }};{% endfor %}";
    LoadedModel model = open_text(marks);
    TokenList ids = {0};
    StrBuf learned = {0};
    json_t *json = json_loads(talk, 0, NULL);
    assert_false(supervision_ids(&model, &ids, &learned, json, NULL, &none, &run_error));
    assert_non_null(strstr(run_error.text, "prints messages[0..0] otherwise when others follow"));
    json_decref(json);
    bpe_list_close(&ids);
    strbuf_close(&learned);
    loaded_model_close(&model);
    assert_string_equal(shown("{% for m in messages %}{{ m.content }};{% endfor %}", talk,
                              (SupervisionOptions){.only_unmask_final = true}, NULL),
                        "a;b;c;D;");
    json_t *tools = json_pack("[{s:s}]", "name", "t");
    assert_string_equal(
        shown("{{ tools[0].name }}{% for m in messages %}{{ m.content }}{% endfor %}", talk, none, tools), "taBcD");
    json_decref(tools);
}

// ---- runs

static void test_the_loss_falls(void **state) {
    (void)state;
    TRAIN("falls", "sft.max_num_steps=30", "sft.val_at_end=true", "logger.tensorboard_enabled=true");
    json_t *lines = run_lines("falls/logs/metrics.jsonl");
    const json_t *start = json_array_get(lines, 0), *first = json_array_get(lines, 1);
    size_t count = json_array_size(lines);
    const json_t *last = json_array_get(lines, count - 2), *end = json_array_get(lines, count - 1);
    assert_true(run_number(start, "validation/val_loss") > 4);
    assert_true(run_number(first, "train/loss") > 4 && run_number(last, "train/loss") < 2);
    assert_true(run_number(end, "validation/val_loss") < 2.5);
    const char *const names[] = {"train/grad_norm",
                                 "train/lr",
                                 "train/global_valid_seqs",
                                 "train/global_valid_toks",
                                 "train/num_unmasked_tokens",
                                 "train/num_valid_samples",
                                 "timing/train/total_step_time",
                                 "timing/train/policy_training",
                                 "timing/train/valid_tokens_per_sec_per_gpu",
                                 "memory/peak_memory_allocated_mb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) run_number(first, names[i]);
    // "assistant\nN<|im_end|>\n" and its beginning: what the template prints for the message is learned, as in NeMo-RL.
    assert_true(run_number(first, "train/global_valid_toks") == 8 * 14);
    json_decref(lines);
    json_t *info;
    run_require(jsonio_read(&info, run_path("falls/step_30/training_info.json"), &run_error));
    assert_int_equal(run_number(info, "consumed_samples"), 240);
    assert_true(run_number(info, "val:val_loss") < 2.5);
    json_decref(info);
}

static bool same_weights(const char *a, const char *b) {
    static const char *const files[] = {"policy/weights/model/model.safetensors",
                                        "policy/optimizer/optim/optimizer.safetensors"};
    for (int i = 0; i < 2; i++)
        if (!run_same_bytes(arena_format(&run_arena, "%s/step_6/%s", a, files[i]),
                            arena_format(&run_arena, "%s/step_6/%s", b, files[i])))
            return false;
    return true;
}

static void test_neither_cuts_nor_stops_change_a_bit(void **state) {
    (void)state;
    TRAIN("whole", NULL);
    TRAIN("cut", "policy.train_micro_batch_size=8", "whet.reduction_block=4", "policy.logprob_chunk_size=5",
          "whet.threads=1", "sft.val_micro_batch_size=2");
    TRAIN("packed", "policy.sequence_packing.enabled=true");
    TRAIN("resumed", "sft.max_num_steps=3");
    TRAIN("resumed", NULL);
    assert_true(same_weights("whole", "cut"));
    assert_true(same_weights("whole", "resumed"));
    TRAIN("dynamic", "policy.dynamic_batching.enabled=true");
    json_t *a = run_lines("whole/logs/metrics.jsonl"), *b = run_lines("dynamic/logs/metrics.jsonl");
    json_t *c = run_lines("resumed/logs/metrics.jsonl"), *d = run_lines("packed/logs/metrics.jsonl");
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *line = json_array_get(a, i);
        const char *name = json_object_get(line, "train/loss") ? "train/loss" : "validation/val_loss";
        double loss = run_number(line, name);
        assert_true(fabs(run_number(json_array_get(b, i), name) / loss - 1) < 1e-5);
        assert_true(run_number(json_array_get(c, i), name) == loss);
        assert_true(fabs(run_number(json_array_get(d, i), name) / loss - 1) < 1e-5);
    }
    json_decref(a);
    json_decref(b);
    json_decref(c);
    json_decref(d);
}

// Validation's loss is the step's, of the same conversations under the same weights: two walks, one number.
static void test_validation_and_training_measure_the_same(void **state) {
    (void)state;
    put("talks.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"ho\"}]}\n"
        "{\"input\":\"one\",\"output\":\"two\"}\n"
        "{\"input\":\"three\",\"output\":4}\n");
    for (int half = 0; half < 2; half++) {
        char *name = half ? "half" : "full";
        TRAIN(name, "sft.max_num_steps=1", "policy.train_global_batch_size=3", "++data.validation={}",
              arena_format(&run_arena, "data.train={dataset_name: %s, split_validation_size: 0}",
                           run_path("talks.jsonl")),
              arena_format(&run_arena, "++data.validation.dataset_name=%s", run_path("talks.jsonl")),
              half ? "policy.precision=bfloat16" : "policy.precision=float32", "sft.val_batches=0",
              "sft.val_global_batch_size=2");
        json_t *lines = run_lines(arena_format(&run_arena, "%s/logs/metrics.jsonl", name));
        double before = run_number(json_array_get(lines, 0), "validation/val_loss");
        double loss = run_number(json_array_get(lines, 1), "train/loss");
        assert_true(fabs(before / loss - 1) < 1e-12);
        json_decref(lines);
    }
}

static void test_what_is_too_long_is_left_out(void **state) {
    (void)state;
    put("long.jsonl", "{\"input\":\"0123456789012345678901234567890123456789\",\"output\":\"a\"}\n"
                      "{\"input\":\"x\",\"output\":\"b\"}\n");
    char *data =
        arena_format(&run_arena, "data.train={dataset_name: %s, split_validation_size: 0}", run_path("long.jsonl"));
    char *const overrides[] = {data,
                               "data.max_input_seq_length=40",
                               "policy.train_global_batch_size=2",
                               "sft.val_period=0",
                               "sft.val_at_start=false",
                               "sft.max_num_steps=1",
                               NULL};
    TRAIN("long", data, overrides[1], overrides[2], overrides[3], overrides[4], overrides[5]);
    json_t *lines = run_lines("long/logs/metrics.jsonl");
    const json_t *step = json_array_get(lines, 0);
    assert_true(run_number(step, "train/global_valid_seqs") == 1);
    assert_true(run_number(step, "train/num_mask_sample_filtered") == 1);
    assert_true(run_number(step, "train/global_valid_toks") == 14);
    json_decref(lines);
}

// ---- refusals

static void refuse(const char *message, const char *rows, char *override) {
    if (rows) put("rows.jsonl", rows);
    char *data = rows ? arena_format(&run_arena, "data.train={dataset_name: %s, split_validation_size: 0}",
                                     run_path("rows.jsonl"))
                      : override;
    if (run_train(RUN_SETTINGS("refused", data, override), NULL)) fail_msg("not refused: %s", message);
    if (!strstr(run_error.text, message)) fail_msg("'%s' does not say '%s'", run_error.text, message);
}

static void test_refusals(void **state) {
    (void)state;
    char *few = "sft={val_period: 0, val_at_start: false}";
    refuse("rows.jsonl:2: messages: none is the assistant's",
           "{\"input\":\"a\",\"output\":\"b\"}\n"
           "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n",
           few);
    refuse("rows.jsonl:1: no \"output\" (output_key)", "{\"input\":\"a\"}\n", few);
    refuse("rows.jsonl:1: no answer to learn", "{\"input\":\"a\",\"output\":null}\n", few);
    refuse("policy.train_global_batch_size: 8, but data.train has only 1 conversations",
           "{\"input\":\"a\",\"output\":\"b\"}\n", few);
    refuse("grpo: this recipe is one of sft", NULL, "++grpo.seed=3");
    refuse("unknown key sft.val_batch; did you mean sft.val_batches?", NULL, "++sft.val_batch=3");
    refuse("data.train.processor: 'math_hf_data_processor' in a recipe of sft; expected sft_processor", NULL,
           "++data.train.processor=math_hf_data_processor");
    refuse("checkpointing.metric_name: a step has no metric 'val:accuracy'", NULL,
           "checkpointing.metric_name=val:accuracy");
    refuse("would train on questions that are held out", NULL, "++data.train.repeat=2");
}

static void test_keys_without_effect_are_told(void **state) {
    (void)state;
    Settings *s = RUN_SETTINGS("told", "++loss_fn.ratio_clip_min=0.3", "++policy.generation.temperature=0.5",
                               "++env={judge: {command: x}}");
    if (!s) fail_msg("%s", run_error.text);
    assert_int_equal(s->note_count, 3);
    for (int i = 0; i < 3; i++) assert_non_null(strstr(s->notes[i].reason, "no answers are sampled"));
    assert_int_equal(s->policy.train_global_batch_size, 8);
    assert_true(s->optimizer.eps == 1e-5 && s->scheduler.part_count == 0);
    assert_string_equal(s->checkpointing.metric_name, "val:val_loss");
    assert_false(s->checkpointing.higher_is_better);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversations_are_cut_as_in_nemo_rl),
        cmocka_unit_test(test_earlier_messages_printed_otherwise),
        cmocka_unit_test(test_the_loss_falls),
        cmocka_unit_test(test_neither_cuts_nor_stops_change_a_bit),
        cmocka_unit_test(test_validation_and_training_measure_the_same),
        cmocka_unit_test(test_what_is_too_long_is_left_out),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_keys_without_effect_are_told),
    };
    return cmocka_run_group_tests(tests, setup, run_setup_close);
}
