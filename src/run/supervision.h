// What supervised fine-tuning learns from: conversations as ids, with loss on what the assistant says.
//
// As in NeMo-RL (data/llm_message_utils.py) a conversation is cut at its messages, each piece is encoded alone, and loss falls on
// all ids of the pieces that the assistant says. What begins an answer (add_generation_prompt) belongs to the message before it.
// Message i ends where the template's text of messages 0..i and the text of all of them differ first, which may only be before an
// eos that closes the former: a template that prints earlier messages otherwise is refused.
#pragma once
#include "run/trainer.h"
#include "train/batch.h"

typedef struct SupervisionOptions {
    bool add_bos,
        add_eos; // the tokenizer's, if it has one, where the text does not begin with it, or end in it but for newlines
    bool add_generation_prompt;
    bool only_unmask_final; // loss on the last message alone, whoever says it
} SupervisionOptions;

// Appends the ids of a conversation, and to `learned` for each a byte, 1 where loss falls on it. tools: NULL, or what the
// template is given.
bool supervision_ids(const LoadedModel *model, TokenList *ids, StrBuf *learned, const json_t *messages,
                     const json_t *tools, const SupervisionOptions *options, Error *error);

typedef struct Supervision {
    TrainBatch batch; // its columns lie in the arena
    int64_t left_out; // conversations that are too long: a few of their ids, without loss
} Supervision;

// The conversations first..first+count-1: training positions (task_train_question), or those held out.
bool supervision_read(Supervision *supervision, const Trainer *trainer, bool held_out, int64_t first, int64_t count,
                      Arena *arena, Error *error);

// Adds −Σ log p over the tokens with loss, as the trainer's rollout policy has them, and their number; fp64, in the order of the
// conversations.
bool supervision_measure(double *loss, int64_t *tokens, Trainer *trainer, const TrainBatch *batch, Arena *arena,
                         Error *error);
