// Keys that stand for many: a row of the settings table says once what every data set and every environment may say.
//   data.train.KEY      also data.validation.KEY, data.default.KEY, and data.train.0.KEY … of lists
//   env.<name>.KEY      env.math.KEY, env.judge.KEY …
//
// Which algorithm a key belongs to: a recipe with a section sft is one of supervised fine-tuning, else it is one of GRPO.
#pragma once
#include "base/arena.h"

#include <stdbool.h>

enum { SETTINGS_KEY_SIZE = 256 };

typedef enum Algorithm { ALGORITHM_GRPO, ALGORITHM_SFT, ALGORITHM_COUNT } Algorithm;

const char *settings_key_section(Algorithm algorithm);                  // "grpo", "sft"
bool settings_key_serves(const char *key, Algorithm algorithm);         // the key of a row means something to it
const char *settings_key_foreign(const char *key, Algorithm algorithm); // else why not; NULL when it does

// A recipe trains by the keys of policy.megatron_cfg, where that is enabled, or by those that it takes the place of. Why a key
// is one of the others and does not count, or NULL.
const char *settings_key_unused(const char *key, bool megatron);

// The key of the row, or group of rows, that a key without one of its own has (both for data.validation.1 it is data.train), written to
// row; the key itself when there is no such rule.
const char *settings_key_row(char row[SETTINGS_KEY_SIZE], const char *key);

bool settings_key_holds_datasets(const char *key); // data.train, data.validation: a mapping, or a list of them
bool settings_key_at_or_below(const char *path, const char *key); // key is path, or path lies below it
