// A model folder in the layout of the Hugging Face hub: config.json, generation_config.json (optional), the weights in
// model.safetensors or in the shards that model.safetensors.index.json names, and the chat templates.
#pragma once
#include "model/architecture.h"
#include "model/safetensors.h"
#include "text/chat_source.h"

typedef struct HubFolder {
    Arena arena;
    const char *path;
    Architecture architecture; // eos_ids also from generation_config.json and the tokenizer's eos_token
    Safetensors *shards;
    int shard_count;
    ChatSource templates;
} HubFolder;

// Opens and checks every file; the index and the shards must agree on every tensor. Zero-initialise or open before close.
// overrides: NULL, or a JSON object whose values take the place of config.json's (policy.hf_config_overrides); one that changes
// nothing of what is computed is refused.
bool hub_folder_open(HubFolder *folder, const char *path, const char *overrides, Error *error);
void hub_folder_close(HubFolder *folder);

// What a config.json says with the same overrides, which are put into it; source names it in messages.
bool hub_folder_architecture(Architecture *architecture, json_t *config, const char *overrides, const char *source,
                             Error *error);

// The tensor of that name and the file that holds it, or NULL.
const SafetensorsEntry *hub_folder_find(const HubFolder *folder, const char *name, const Safetensors **shard);
