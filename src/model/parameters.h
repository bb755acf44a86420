// The parameters of a model by FSDP unit: units 0..L-1 are the decoder blocks, unit L is the root (embedding, final norm,
// head unless tied). A unit's parameters lie in one flat array in the order of the roles below. Query, key and value
// weights follow each other without a gap, likewise their biases, likewise gate and up, so that one view serves one matrix
// product; every such group, and every other parameter, starts at a multiple of 16 elements, and the gaps hold zeros.
#pragma once
#include "base/arena.h"
#include "model/architecture.h"

typedef enum ParameterRole {
    PARAMETER_Q,
    PARAMETER_K,
    PARAMETER_V,
    PARAMETER_O,
    PARAMETER_GATE,
    PARAMETER_UP,
    PARAMETER_DOWN,
    PARAMETER_Q_BIAS,
    PARAMETER_K_BIAS,
    PARAMETER_V_BIAS,
    PARAMETER_INPUT_NORM,
    PARAMETER_MIDDLE_NORM, // Hugging Face: post_attention_layernorm
    PARAMETER_Q_NORM,      // of each query head, [head_dim]
    PARAMETER_K_NORM,
    PARAMETER_EMBEDDING,
    PARAMETER_FINAL_NORM,
    PARAMETER_HEAD,
    PARAMETER_ROLE_COUNT
} ParameterRole;

typedef struct Parameter {
    char name[64]; // Hugging Face: "model.layers.3.self_attn.q_proj.weight"
    ParameterRole role;
    int unit;
    int64_t rows, cols; // weights: out × in; vectors: rows = length, cols = 1
    bool vector;        // Hugging Face shape is [rows], not [rows, cols]
    int64_t offset;     // elements from the start of the unit's flat array
    // Which part of the model's parameter a rank's share holds (model/tensor_share.h); else all of it.
    int64_t whole_rows, whole_cols; // as in files
    int64_t first_row, first_col;
    int64_t real_rows; // of `rows`; the others, at the end of a vocabulary, are zeros that belong to no token
    bool counts;       // false: another rank holds the same part, and counts and writes it
} Parameter;

typedef struct ParameterTable {
    int count, unit_count;
    Parameter *items;    // by unit, then by offset
    int *unit_first;     // of items: where each unit begins
    int64_t *unit_sizes; // elements of each flat array, gaps included (multiple of 16)
    int64_t total;       // elements without gaps
    Arena arena;         // owner of the arrays
} ParameterTable;

// The architecture must have passed architecture_check; it may be a rank's share.
void parameters_open(ParameterTable *table, const Architecture *architecture);
void parameters_close(ParameterTable *table);

bool parameters_is_norm(ParameterRole role); // a norm's weights, which begin as 1

// The parameter of a unit and role, or NULL (a tied head, an absent bias).
const Parameter *parameters_find(const ParameterTable *table, int unit, ParameterRole role);
