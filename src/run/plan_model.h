// The architecture of policy.model_name alone, for a plan: no weights and no tokenizer are needed.
#pragma once
#include "model/parameters.h"

typedef struct PlanModel {
    Architecture architecture;
    ParameterTable parameters;
} PlanModel;

// name: a model that is there (a folder with a config.json, a checkpoint step_N, a GGUF file, a config.json itself), a well-known
// model of the hub (model/known_models.h), or one in the hub's cache. overrides: policy.hf_config_overrides, a JSON object or NULL.
bool plan_model_open(PlanModel *model, const char *name, const char *overrides, Error *error);
void plan_model_close(PlanModel *model); // accepts a half-opened one
