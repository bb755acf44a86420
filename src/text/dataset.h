// A data set by its recipe: where its questions come from, what stands around them, which of them are held out.
//
//   dataset_name   arithmetic       questions that are made (text/arithmetic.h)
//                  gsm8k            also GSM8K, openai/gsm8k: SPLIT.jsonl of the cache, as `whet pull gsm8k` leaves it; the
//                                   right answer is what stands behind ####
//                  OpenMathInstruct-2, DeepScaler, squad, … (text/published_rows.h)
//                                   SPLIT.jsonl (train, unless given) in data/NAME of the cache, with the keys of its publisher
//                  ResponseDataset, openai_format
//                                   the file data_path, or SPLIT.jsonl (.json, .csv, .txt) in that folder
//                  a file, a folder the same as ResponseDataset with that data_path
//
// A row of a file (text/records.h) is either a conversation under chat_key, whose last message, when it is the assistant's, is the
// right answer, or a question under input_key with the right answer, a text or a number, under output_key, which may be missing or
// null. A key may lead into a row: "prompt.0.content".
//
// A data set that is learned from (sft) gives whole conversations, answers included; the prompt file then goes around what the user
// says first.
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
    const char *data_path;                  // NULL but for ResponseDataset
    const char *split;                      // NULL: "train", of one that validates "test"
    const char *input_key, *output_key;     // NULL: the data set's own; of files "input" and "output"
    const char *chat_key;                   // NULL: "messages"
    const char *tool_key;                   // of the tools that the chat template is given; NULL: none
    const char *system_key, *system_prompt; // the system message of a row; the one of rows without it. NULL: none
    bool verifiable_only, require_valid;    // NuminaMath-1.5: leave out rows without them
    bool extract_answer;                    // gsm8k: the answer is what stands behind ####, else all of it
    int64_t repeat;                         // so many times every row, one pass after the other; 0: once
    int64_t max_samples;                    // so many rows, which ones (seed) decides; 0: all
    double split_validation_size;           // held out: below 1 a share of the rows, rounded up, else their number
    int64_t seed;                           // which ones
    const char *prompt_file, *system_prompt_file; // NULL: none
    const char *env_name, *processor;
    ArithmeticOptions arithmetic;
} DatasetOptions;

// What is done with a data set.
typedef enum DatasetUse {
    DATASET_ASKED,    // answers are no matter of the rows
    DATASET_COMPARED, // every row has a right answer
    DATASET_LEARNED   // every row has an answer of the assistant, whose words are learned
} DatasetUse;

// Questions are numbered within their part.
typedef enum DatasetPart { DATASET_REST, DATASET_HELD_OUT } DatasetPart;

// A row of a set whose records are not rows one by one.
typedef struct DatasetPlace {
    int32_t record, thread;
} DatasetPlace;

typedef struct Dataset {
    const DatasetOptions *options;
    DatasetUse use;
    bool generated, gsm8k;
    Arithmetic arithmetic;
    Records records;
    PromptFile prompt;
    const char *system_prompt; // NULL: none
    DatasetPlace *places;      // [rows], or NULL: row i is record i
    int64_t rows, taken;       // that there are; of them asked, options->repeat times
    int64_t count, held_out;   // of questions
    char digest[DIGEST_HEX];   // of the file, or of what the questions are made from
} Dataset;

// A question as it is asked.
typedef struct DatasetQuestion {
    json_t *messages; // conversation; ends with what the model answers to, one that is learned from with the answer
    const char
        *prompt; // content of its last message, of one that is learned from what the user says first ("": nothing)
    const json_t *tools; // of the row under tool_key, or NULL
    const char *gold;    // the right answer, or NULL
    json_t *row;         // the row as it stands in the file; {} for questions that are made
} DatasetQuestion;

// Opens the files and reads every row once, so that no later one is a surprise: one without the answer that the use needs is
// refused. Arrays lie in the arena, options must live as long. The error names the key, or file and line.
bool dataset_open(Dataset *dataset, const DatasetOptions *options, DatasetUse use, Arena *arena, Error *error);
void dataset_close(Dataset *dataset); // accepts a half-opened one

// How many of `count` rows the option holds out. Refuses, naming <key>.split_validation_size, what is no share and no whole number,
// and what leaves none.
bool dataset_held_out(int64_t *held_out, const DatasetOptions *options, int64_t count, Error *error);

int64_t dataset_count(const Dataset *dataset, DatasetPart part);

// The question `index` of a part. Where some are held out, not all rows are taken, or questions are made, rows come in an order that (seed) alone decides;
// else in the file's. The caller closes it. Fails only when the file was written to in the meantime.
bool dataset_question(DatasetQuestion *question, const Dataset *dataset, DatasetPart part, int64_t index, Arena *arena,
                      Error *error);
void dataset_question_close(DatasetQuestion *question); // accepts a zero-initialised one

// What a wrong name is told: the data sets there are.
bool dataset_check_name(const DatasetOptions *options, Error *error);
