// A data set by its recipe: where its questions come from, what stands around them, which of them are held out.
//
//   dataset_name   arithmetic       questions that are made (text/arithmetic.h)
//                  gsm8k            also GSM8K, openai/gsm8k: SPLIT.jsonl of the cache, as `whet pull gsm8k` leaves it; the
//                                   right answer is what stands behind ####
//                  OpenMathInstruct-2, DeepScaler, DAPOMath17K, DAPOMathAIME2024, AIME2024
//                                   SPLIT.jsonl (train, unless given) in data/NAME of the cache, with the keys of its publisher
//                  ResponseDataset  the file data_path, or SPLIT.jsonl (.json, .csv, .txt) in that folder
//                  a file, a folder the same as ResponseDataset with that data_path
//
// A row of a file (text/records.h) is either a conversation in "messages", whose last message, when it is the assistant's, is the
// right answer, or a question under input_key with the right answer, a text or a number, under output_key, which may be missing or null.
#pragma once
#include "base/digest.h"
#include "text/arithmetic.h"
#include "text/prompt_file.h"
#include "text/records.h"

// An entry of data.train or data.validation.
typedef struct DatasetOptions {
    const char *key; // where it stands: "data.train", "data.validation.1"
    bool validates;  // in data.validation
    const char *dataset_name;
    const char *data_path; // NULL but for ResponseDataset
    const char *split;     // NULL: "train", of one that validates "test"
    const char *input_key, *output_key;
    double split_validation_size; // held out: below 1 a share of the rows, rounded up, else their number
    int64_t seed;                 // which ones
    const char *prompt_file, *system_prompt_file; // NULL: none
    const char *env_name, *processor;
    ArithmeticOptions arithmetic;
} DatasetOptions;

// Questions are numbered within their part.
typedef enum DatasetPart { DATASET_REST, DATASET_HELD_OUT } DatasetPart;

typedef struct Dataset {
    const DatasetOptions *options;
    bool generated, gsm8k;
    Arithmetic arithmetic;
    Records records;
    PromptFile prompt;
    const char *system_prompt; // NULL: none
    int64_t count, held_out;
    char digest[DIGEST_HEX]; // of the file, or of what the questions are made from
} Dataset;

// A question as it is asked.
typedef struct DatasetQuestion {
    json_t *messages;   // conversation, ends with what the model answers to
    const char *prompt; // content of its last message
    const char *gold;   // the right answer, or NULL
    json_t *row;        // the row as it stands in the file; {} for questions that are made
} DatasetQuestion;

// Opens the files and reads every row once, so that no later one is a surprise. needs_gold: a row without a right answer is
// refused. Arrays lie in the arena, options must live as long. The error names the key, or file and line.
bool dataset_open(Dataset *dataset, const DatasetOptions *options, bool needs_gold, Arena *arena, Error *error);
void dataset_close(Dataset *dataset); // accepts a half-opened one

// How many of `count` rows the option holds out. Refuses, naming <key>.split_validation_size, what is no share and no whole number,
// and what leaves none.
bool dataset_held_out(int64_t *held_out, const DatasetOptions *options, int64_t count, Error *error);

int64_t dataset_count(const Dataset *dataset, DatasetPart part);

// The question `index` of a part. Where some are held out, or questions are made, rows come in an order that (seed) alone decides;
// else in the file's. The caller closes it. Fails only when the file was written to in the meantime.
bool dataset_question(DatasetQuestion *question, const Dataset *dataset, DatasetPart part, int64_t index, Arena *arena,
                      Error *error);
void dataset_question_close(DatasetQuestion *question); // accepts a zero-initialised one

// What a wrong name is told: the data sets there are.
bool dataset_check_name(const DatasetOptions *options, Error *error);
