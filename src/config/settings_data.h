// data.train, data.validation and env: what a recipe says of its data sets and rewards.
#pragma once
#include "config/settings.h"
#include "config/settings_table.h"

// Fills the entries of data.train and data.validation: what data.default says and they do not, then the built-in defaults.
// Before interpolations are resolved.
void settings_data_complete(Value *tree, Arena *arena);

// Begins an entry: its fields will be read into data.entry, of env into data.reward.
void settings_data_begin_dataset(Settings *settings, Arena *arena, const char *key);
void settings_data_begin_reward(Settings *settings, Arena *arena, const char *name);
// Ends it: puts it behind those before.
void settings_data_end_dataset(Settings *settings, Arena *arena);
void settings_data_end_reward(Settings *settings, Arena *arena);

// Checks the entries against the names there are and each other. The message begins with the key.
bool settings_data_check(Settings *settings, Error *error);

const RewardOptions *settings_data_reward(const Settings *settings, const char *name); // env.<name>, or NULL
