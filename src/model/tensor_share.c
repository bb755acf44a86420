#include "model/tensor_share.h"

#include "base/int64.h"
#include "base/strbuf.h"
#include "ops/softmax.h"

static bool one_divides(int64_t a, int64_t b) {
    return a % b == 0 || b % a == 0;
}

static bool divides_model(const Architecture *whole, int64_t parts) {
    return parts >= 1 && whole->query_heads % parts == 0 && whole->intermediate_size % parts == 0 &&
           one_divides(whole->kv_heads, parts);
}

int tensor_share_segments(const Architecture *whole) {
    int segments = TENSOR_SHARE_MAX_SEGMENTS;
    while (!divides_model(whole, segments)) segments /= 2;
    return segments;
}

static int segments_of(const Architecture *a) {
    return a->segments ? a->segments : tensor_share_segments(a);
}

// Whether the tree over so many segments (linear_segments_folds) is cut into equal trees, one for each rank.
static bool tree_divides(int64_t segments, int64_t ranks) {
    if (segments == ranks) return true;
    return ranks == 1 || (segments % 2 == 0 && ranks % 2 == 0 && tree_divides(segments / 2, ranks / 2));
}

bool tensor_share_check_segments(const Architecture *whole, int64_t segments, Error *error) {
    if (segments >= 1 && segments <= LINEAR_MAX_SEGMENTS && divides_model(whole, segments)) return true;
    return error_set(
        error,
        "whet.tensor_segments: %lld segments of at most %d do not divide %lld query heads, %lld key/value heads and "
        "intermediate_size %lld; the model's own are %d",
        (long long)segments, LINEAR_MAX_SEGMENTS, (long long)whole->query_heads, (long long)whole->kv_heads,
        (long long)whole->intermediate_size, tensor_share_segments(whole));
}

static bool can_divide(const Architecture *whole, int64_t ranks) {
    return ranks <= LINEAR_MAX_SEGMENTS && divides_model(whole, ranks) && whole->hidden_size % ranks == 0;
}

static bool refuse_ranks(const Architecture *whole, int ranks, const char *key, Error *error) {
    StrBuf choices = {0};
    for (int i = 1; i <= LINEAR_MAX_SEGMENTS; i++)
        if (can_divide(whole, i)) strbuf_format(&choices, "%s%d", choices.length ? ", " : "", i);
    error_set(error,
              "%s: %d does not divide %lld query heads, %lld key/value heads, "
              "intermediate_size %lld and hidden_size %lld; possible are %s",
              key, ranks, (long long)whole->query_heads, (long long)whole->kv_heads,
              (long long)whole->intermediate_size, (long long)whole->hidden_size, choices.text);
    strbuf_close(&choices);
    return false;
}

// Rows of the vocabulary in one segment: whole blocks of the softmax.
static int64_t segment_rows(int64_t vocabulary, int segments) {
    int64_t blocks = (vocabulary + SOFTMAX_BLOCK - 1) / SOFTMAX_BLOCK;
    return (blocks + segments - 1) / segments * SOFTMAX_BLOCK;
}

bool tensor_share_open(Architecture *share, const Architecture *whole, int rank, int ranks, int64_t segments,
                       const char *key, Error *error) {
    *share = *whole;
    if (segments && !tensor_share_check_segments(whole, segments, error)) return false;
    if (!can_divide(whole, ranks)) return refuse_ranks(whole, ranks, key, error);
    int of_all = segments ? (int)segments : segments_of(whole);
    if (!tree_divides(of_all, ranks)) {
        if (segments)
            return error_set(error, "whet.tensor_segments: %lld cannot be shared by the %d ranks of %s; %d can",
                             (long long)segments, ranks, key, ranks);
        of_all = ranks;
    }
    share->segments = of_all / ranks;
    if (ranks == 1) return true;
    share->whole = whole;
    share->rank = rank;
    share->ranks = ranks;
    share->query_heads /= ranks;
    share->kv_heads = whole->kv_heads > ranks ? whole->kv_heads / ranks : 1;
    share->intermediate_size /= ranks;
    share->vocab_size = segment_rows(whole->vocab_size, of_all) * share->segments;
    return true;
}

int64_t tensor_share_vocabulary_first(const Architecture *share) {
    return share->whole ? share->rank * share->vocab_size : 0;
}

int64_t tensor_share_vocabulary_count(const Architecture *share) {
    if (!share->whole) return share->vocab_size;
    int64_t left = share->whole->vocab_size - tensor_share_vocabulary_first(share);
    return left < 0 ? 0 : int64_smaller(left, share->vocab_size);
}

void tensor_share_ids(const Architecture *share, int32_t *rows, const int32_t *ids, int64_t count) {
    int64_t first = tensor_share_vocabulary_first(share), real = tensor_share_vocabulary_count(share);
    for (int64_t i = 0; i < count; i++)
        rows[i] = ids[i] < first || ids[i] >= first + real ? -1 : (int32_t)(ids[i] - first);
}

TensorShareSums tensor_share_sums(const Architecture *share) {
    int segments = segments_of(share);
    int64_t sharers = share->whole && share->ranks > share->whole->kv_heads ? share->ranks / share->whole->kv_heads : 1;
    int64_t queries = share->query_heads * share->head_dim, keys = share->kv_heads * share->head_dim;
    int64_t key_pieces = share->rank % sharers ? 0 : int64_smaller(share->kv_heads, segments);
    TensorShareSums sums = {.kv_sharers = (int)sharers,
                            .kv_parts = segments > share->kv_heads ? segments / (int)share->kv_heads : 1};
    sums.heads.count = sums.ffn.count = sums.qkv.count = sums.gate_up.count = sums.vocabulary.count = segments;
    linear_segments_add(&sums.heads, queries, segments, 1);
    linear_segments_add(&sums.ffn, share->intermediate_size, segments, 1);
    linear_segments_add(&sums.qkv, queries, segments, 1);
    linear_segments_add(&sums.qkv, keys, key_pieces, 1);
    linear_segments_add(&sums.qkv, keys, key_pieces, 1);
    linear_segments_add(&sums.gate_up, share->intermediate_size, segments, 1);
    linear_segments_add(&sums.gate_up, share->intermediate_size, segments, 1);
    linear_segments_add(&sums.vocabulary, share->vocab_size, segments, SOFTMAX_BLOCK);
    return sums;
}
