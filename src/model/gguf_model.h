// Models of all families in GGUF files: the architecture by metadata keys, and where a parameter lies. Names and orders are
// those that llama.cpp's convert_hf_to_gguf.py writes.
#pragma once
#include "model/architecture.h"
#include "model/gguf.h"
#include "model/parameters.h"
#include "text/chat_source.h"
#include "text/tokenizer.h"

// Reads general.architecture (Mistral's files say llama) and the keys below its name, the stop ids of the tokenizer, and from
// the tensors the vocabulary's size (rows of token_embd.weight) and whether the head is tied (no output.weight). Llama 3's
// rope scaling is recognised from the tensor rope_freqs.weight. Refuses what whet does not compute, naming key and value.
bool gguf_model_architecture(Architecture *architecture, const Gguf *file, Error *error);

// Name of the parameter's tensor: "blk.3.attn_q.weight".
void gguf_model_name(char name[64], const Parameter *parameter);

// Whether the rows of each head lie interleaved: row 2j is Hugging Face's j, row 2j + 1 is j + head_dim/2.
bool gguf_model_interleaved(ModelFamily family, ParameterRole role);

// Tensors that are no parameters but known: rope_freqs.weight.
bool gguf_model_extra(const char *name);

// The tables under tokenizer.ggml.*, in the arena or the file.
bool gguf_model_tables(TokenizerTables *tables, const Gguf *file, Arena *arena, Error *error);

// The tokenizer of the tables under tokenizer.ggml.*: byte-level BPE ("gpt2") or SentencePiece BPE ("llama").
bool gguf_model_tokenizer(Tokenizer **tokenizer, const Gguf *file, Error *error);

// tokenizer.chat_template is "default"; those that tokenizer.chat_templates names lie under tokenizer.chat_template.NAME.
bool gguf_model_chat_templates(ChatSource *source, const Gguf *file, Arena *arena, Error *error);
