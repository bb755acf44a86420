#include "model/parameters.h"

#include <stdio.h>

enum { GROUP_ALIGNMENT = 16 }; // elements: 64 bytes of fp32

typedef enum Place { IN_BLOCK, IN_ROOT } Place;

// What a role's name and place are; the sizes are in role_shape.
static const struct {
    Place place;
    bool joined; // follows the role before it without a gap
    const char *name;
} roles[PARAMETER_ROLE_COUNT] = {
    [PARAMETER_Q] = {IN_BLOCK, false, "self_attn.q_proj.weight"},
    [PARAMETER_K] = {IN_BLOCK, true, "self_attn.k_proj.weight"},
    [PARAMETER_V] = {IN_BLOCK, true, "self_attn.v_proj.weight"},
    [PARAMETER_O] = {IN_BLOCK, false, "self_attn.o_proj.weight"},
    [PARAMETER_GATE] = {IN_BLOCK, false, "mlp.gate_proj.weight"},
    [PARAMETER_UP] = {IN_BLOCK, true, "mlp.up_proj.weight"},
    [PARAMETER_DOWN] = {IN_BLOCK, false, "mlp.down_proj.weight"},
    [PARAMETER_Q_BIAS] = {IN_BLOCK, false, "self_attn.q_proj.bias"},
    [PARAMETER_K_BIAS] = {IN_BLOCK, true, "self_attn.k_proj.bias"},
    [PARAMETER_V_BIAS] = {IN_BLOCK, true, "self_attn.v_proj.bias"},
    [PARAMETER_INPUT_NORM] = {IN_BLOCK, false, "input_layernorm.weight"},
    [PARAMETER_MIDDLE_NORM] = {IN_BLOCK, false, "post_attention_layernorm.weight"},
    [PARAMETER_Q_NORM] = {IN_BLOCK, false, "self_attn.q_norm.weight"},
    [PARAMETER_K_NORM] = {IN_BLOCK, false, "self_attn.k_norm.weight"},
    [PARAMETER_EMBEDDING] = {IN_ROOT, false, "model.embed_tokens.weight"},
    [PARAMETER_FINAL_NORM] = {IN_ROOT, false, "model.norm.weight"},
    [PARAMETER_HEAD] = {IN_ROOT, false, "lm_head.weight"},
};

// Rows and columns of a role, columns 0 for a vector; false when the architecture has no such parameter.
static bool role_shape(int64_t *rows, int64_t *cols, const Architecture *a, ParameterRole role) {
    int64_t query_width = a->query_heads * a->head_dim, kv_width = a->kv_heads * a->head_dim;
    bool there = true;
    switch (role) {
    case PARAMETER_Q: *rows = query_width, *cols = a->hidden_size; break;
    case PARAMETER_K:
    case PARAMETER_V: *rows = kv_width, *cols = a->hidden_size; break;
    case PARAMETER_O: *rows = a->hidden_size, *cols = query_width; break;
    case PARAMETER_GATE:
    case PARAMETER_UP: *rows = a->intermediate_size, *cols = a->hidden_size; break;
    case PARAMETER_DOWN: *rows = a->hidden_size, *cols = a->intermediate_size; break;
    case PARAMETER_Q_BIAS: *rows = query_width, *cols = 0, there = a->qkv_bias; break;
    case PARAMETER_K_BIAS:
    case PARAMETER_V_BIAS: *rows = kv_width, *cols = 0, there = a->qkv_bias; break;
    case PARAMETER_INPUT_NORM:
    case PARAMETER_MIDDLE_NORM:
    case PARAMETER_FINAL_NORM: *rows = a->hidden_size, *cols = 0; break;
    case PARAMETER_Q_NORM:
    case PARAMETER_K_NORM: *rows = a->head_dim, *cols = 0, there = a->qk_norm; break;
    case PARAMETER_EMBEDDING: *rows = a->vocab_size, *cols = a->hidden_size; break;
    case PARAMETER_HEAD: *rows = a->vocab_size, *cols = a->hidden_size, there = !a->tied_head; break;
    case PARAMETER_ROLE_COUNT: CHECK(false, "role %d", (int)role);
    }
    return there;
}

bool parameters_is_norm(ParameterRole role) {
    return (role >= PARAMETER_INPUT_NORM && role <= PARAMETER_K_NORM) || role == PARAMETER_FINAL_NORM;
}

// Where a share's part of a role begins in the whole, and whether no rank before it holds the same part.
static void place_part(Parameter *item, const Architecture *a) {
    const Architecture *whole = a->whole ? a->whole : a;
    int64_t cols = 0, sharers = 1;
    role_shape(&item->whole_rows, &cols, whole, item->role);
    item->whole_cols = item->vector ? 1 : cols;
    item->real_rows = item->rows;
    item->counts = true;
    if (!a->whole) return;
    if (parameters_is_norm(item->role)) { // all ranks hold it
        item->counts = a->rank == 0;
        return;
    }
    if (item->role == PARAMETER_K || item->role == PARAMETER_V || item->role == PARAMETER_K_BIAS ||
        item->role == PARAMETER_V_BIAS)
        sharers = a->ranks * a->kv_heads / whole->kv_heads;
    item->counts = a->rank % sharers == 0;
    if (item->role == PARAMETER_O || item->role == PARAMETER_DOWN)
        item->first_col = a->rank * item->cols;
    else
        item->first_row = a->rank / sharers * item->rows;
    int64_t left = item->whole_rows - item->first_row;
    if (item->real_rows > left) item->real_rows = left > 0 ? left : 0;
}

static int64_t align_up(int64_t elements) {
    return (elements + GROUP_ALIGNMENT - 1) / GROUP_ALIGNMENT * GROUP_ALIGNMENT;
}

static void add_unit(ParameterTable *table, const Architecture *architecture, int unit) {
    Place place = unit == architecture->layer_count ? IN_ROOT : IN_BLOCK;
    int64_t offset = 0;
    table->unit_first[unit] = table->count;
    for (int role = 0; role < PARAMETER_ROLE_COUNT; role++) {
        int64_t rows = 0, cols = 0;
        if (roles[role].place != place || !role_shape(&rows, &cols, architecture, (ParameterRole)role)) continue;
        if (!roles[role].joined) offset = align_up(offset);
        Parameter *item = &table->items[table->count++];
        *item = (Parameter){.role = (ParameterRole)role, .unit = unit, .rows = rows, .offset = offset};
        item->vector = cols == 0;
        item->cols = item->vector ? 1 : cols;
        place_part(item, architecture);
        if (place == IN_ROOT)
            snprintf(item->name, sizeof item->name, "%s", roles[role].name);
        else
            snprintf(item->name, sizeof item->name, "model.layers.%d.%s", unit, roles[role].name);
        offset += item->rows * item->cols;
        table->total += item->rows * item->cols;
    }
    table->unit_sizes[unit] = align_up(offset);
}

void parameters_open(ParameterTable *table, const Architecture *architecture) {
    *table = (ParameterTable){.unit_count = (int)architecture->layer_count + 1};
    table->items = arena_array(&table->arena, Parameter, table->unit_count * PARAMETER_ROLE_COUNT);
    table->unit_sizes = arena_array(&table->arena, int64_t, table->unit_count);
    table->unit_first = arena_array(&table->arena, int, table->unit_count);
    for (int unit = 0; unit < table->unit_count; unit++) add_unit(table, architecture, unit);
}

void parameters_close(ParameterTable *table) {
    arena_close(&table->arena);
    *table = (ParameterTable){0};
}

const Parameter *parameters_find(const ParameterTable *table, int unit, ParameterRole role) {
    if (unit < 0 || unit >= table->unit_count) return NULL;
    for (int i = table->unit_first[unit]; i < table->count && table->items[i].unit == unit; i++)
        if (table->items[i].role == role) return &table->items[i];
    return NULL;
}
