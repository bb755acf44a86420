// Samples on TensorBoard: how their numbers are spread, and some of them as text.
#pragma once
#include "run/step_log.h"

// Of a step with rollouts, under NeMo-RL's tags: train/{baseline_reward, total_reward, gen_tokens_per_sample, advantages,
// generation_logprobs}/histogram, over samples (the last two: over tokens of answers). train/samples: the first of the best and the
// first of the worst samples. Nothing where TensorBoard is off.
bool board_samples_step(const StepReport *report, const Trainer *trainer, Error *error);

// Appends a sample as Markdown: what it is worth, then question and answer as they are.
void board_samples_put(StrBuf *text, const Task *task, const Samples *samples, bool held_out, int64_t b);
