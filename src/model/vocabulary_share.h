// Embedding and head of tensor-parallel ranks, each of which holds rows of the vocabulary (model/tensor_share.h). tensor NULL or
// of one rank: the whole vocabulary is here.
#pragma once
#include "comm/comm.h"
#include "model/tensor_share.h"
#include "ops/softmax.h"

// x_TD = the embeddings of those of ids[T] that this rank holds, else −0, which changes no sum: from the rows of table_VD, or
// (NULL) out of the panels of a tied head.
void vocabulary_share_look_up(Ops *ops, const Architecture *share, Tensor *x_TD, const Tensor *table_VD,
                              const LinearWeight *head, const int32_t *ids);

// The same of all ids, on all ranks.
void vocabulary_share_embed(Ops *ops, const Architecture *share, Comm *tensor, Tensor *x_TD, const Tensor *table_VD,
                            const LinearWeight *head, const int32_t *ids);

// logits_NV (fp32) of the whole vocabulary, on all ranks: each computes those of its rows, all gather them.
void vocabulary_share_logits(Ops *ops, const Architecture *share, Comm *tensor, Tensor *logits_NV,
                             const Tensor *norm_ND, const LinearWeight *head);

// softmax_fold of rows whose blocks lie on the ranks: blocks_TS[T][S] (host, of the whole vocabulary) holds this rank's, and
// targets_T[t] the tempered logit of ids[t] where it holds that; afterwards both hold all, on all ranks.
void vocabulary_share_fold(Ops *ops, const Architecture *share, Comm *tensor, SoftmaxRow *rows_T,
                           SoftmaxBlock *blocks_TS, float *targets_T, const int32_t *ids, int64_t rows);

// The columns of logits_NV that are this rank's, with zeros behind the vocabulary: a copy (tag MEMORY_LOGITS), to be released.
Tensor vocabulary_share_columns(Ops *ops, const Architecture *share, const Tensor *logits_NV);
