// A model on disk: a Hugging Face folder (config.json, one or several *.safetensors) or one GGUF file.
#pragma once
#include "base/arena.h"
#include "model/architecture.h"
#include "model/parameters.h"
#include "text/chat_source.h"
#include "text/tokenizer.h"

typedef struct ModelFile ModelFile;

// Opens, maps, reads the architecture and checks that every parameter of the table is there with the right shape, and that no
// tensor is left over (rotary buffers and a head equal to a tied embedding are known extras). Refuses with names and shapes.
bool model_file_open(ModelFile **file, const char *path, Error *error);
// With values that take the place of config.json's: a JSON object, or NULL (model/hub_folder.h).
bool model_file_open_changed(ModelFile **file, const char *path, const char *config_overrides, Error *error);
void model_file_close(ModelFile *file); // accepts NULL

const Architecture *model_file_architecture(const ModelFile *file);
const ParameterTable *model_file_parameters(const ModelFile *file);

// Writes the parameter (of any table of the same architecture, or of a rank's share of it) as fp32, row-major in Hugging Face's
// layout (GGUF: dequantised exactly, q and k rows un-permuted). A value that is not finite is an error.
bool model_file_read(const ModelFile *file, const Parameter *parameter, float *out, Error *error);

// One row of it; any number of threads may read. Returns whether all values are finite. model_file_not_finite makes the error
// and returns false. model_file_leave when all was read: the file's pages need no memory of this process any more.
bool model_file_read_row(const ModelFile *file, const Parameter *parameter, int64_t row, float *out);
bool model_file_not_finite(const ModelFile *file, const Parameter *parameter, Error *error);
void model_file_leave(const ModelFile *file, const Parameter *parameter);

// Writes all parameters of a unit of the table into its flat array of fp32 (model/parameters.h); gaps are left alone.
bool model_file_read_unit(const ModelFile *file, const ParameterTable *table, int unit, float *flat, Error *error);

// Tokenizer of the model: from the GGUF's tables or the folder's tokenizer.json. The caller closes it.
bool model_file_tokenizer(const ModelFile *file, Tokenizer **tokenizer, Error *error);

const ChatSource *model_file_chat_templates(const ModelFile *file); // of the folder or the GGUF's metadata

// Ids that end an answer: eos of config, generation_config and tokenizer. Returns how many were written (at most max).
int model_file_stop_ids(const ModelFile *file, int32_t *ids, int max);

// A digest (XXH3-128, hex, NUL-terminated) of the weights' bytes, for environment.json.
void model_file_digest(const ModelFile *file, char hex[33]);
