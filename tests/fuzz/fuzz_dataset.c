// Fuzz target: data sets of JSON lines, JSON, CSV and text as recipes name them, asked, compared and learned from. The first
// byte chooses format and keys, the rest is the file.
#include "fuzz/fuzz_files.h"
#include "fuzz/fuzz_model.h"
#include "run/supervision.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_QUESTIONS = 3, PROMPT_FILE = 16, LONG_KEYS = 32, SOLUTIONS = 64 };

static const Architecture architecture = {.vocab_size = 49152, .max_positions = 2048};
static LoadedModel model = {.path = "x", .architecture = &architecture};

// Before the first input, whose time is counted.
int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count, (void)words;
    fuzz_model_text_side(&model);
    return 0;
}

static void learn(const DatasetQuestion *q) {
    const SupervisionOptions options = {.add_bos = true, .add_eos = true, .add_generation_prompt = true};
    TokenList ids = {0};
    StrBuf learned = {0};
    Error error;
    if (supervision_ids(&model, &ids, &learned, q->messages, q->tools, &options, &error))
        CHECK(ids.count == learned.length, "%zu ids, %zu marks", ids.count, learned.length);
    else
        fuzz_files_refused(&error);
    bpe_list_close(&ids);
    strbuf_close(&learned);
}

static void read_questions(const Dataset *set, Arena *arena) {
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < dataset_count(set, (DatasetPart)part) && i < MOST_QUESTIONS; i++) {
            DatasetQuestion q = {0};
            Error error;
            CHECK(dataset_question(&q, set, (DatasetPart)part, i, arena, &error), "%s",
                  error.text); // all were read once
            CHECK(q.prompt && json_array_size(q.messages), "a question without messages");
            if (set->use == DATASET_LEARNED) learn(&q);
            dataset_question_close(&q);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const endings[] = {"jsonl", "json", "csv", "txt"};
    if (!size) return 0;
    int way = *data;
    Arena arena = {0};
    DatasetOptions options = {.key = "data.train",
                              .dataset_name = arena_format(&arena, "fuzz/x.%s", endings[way & 3]),
                              .env_name = "math",
                              .tool_key = "tools",
                              .system_key = "system",
                              .extract_answer = !(way & SOLUTIONS),
                              .split_validation_size = way & 4 ? 0.5 : 0,
                              .max_samples = way & 8 ? 2 : 0,
                              .prompt_file = way & PROMPT_FILE ? "fuzz/prompt.txt" : NULL,
                              .seed = 7};
    if (way & LONG_KEYS) options.input_key = "a.0.b", options.output_key = "c.d", options.chat_key = "e";
    fuzz_files_forget();
    fuzz_files_add(options.dataset_name, data + 1, size - 1);
    fuzz_files_add("fuzz/prompt.txt", "Solve {} in {{}}.", 17);
    for (int use = 0; use < 3; use++) {
        Dataset set;
        Error error = {{0}};
        if (dataset_open(&set, &options, (DatasetUse)use, &arena, &error))
            read_questions(&set, &arena);
        else
            fuzz_files_refused(&error);
        dataset_close(&set);
    }
    arena_close(&arena);
    return 0;
}
