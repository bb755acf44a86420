#include "support/toy_batch.h"

TrainBatch toy_batch(ToyBatch *room, ToyBatchShape shape) {
    CHECK(shape.count <= TOY_BATCH_SEQUENCES && shape.shortest + shape.lengths - 1 <= TOY_BATCH_LONGEST,
          "%lld sequences of up to %d", (long long)shape.count, shape.shortest + shape.lengths - 1);
    *room = (ToyBatch){0};
    for (int b = 0; b < shape.count; b++) {
        int length = shape.shortest + 31 * b % shape.lengths;
        room->offset[b + 1] = room->offset[b] + length;
        room->sample_mask[b] = b != shape.left_out;
        room->reward[b] = (float)(b % 2);
        for (int t = 0; t < length; t++) {
            int64_t at = room->offset[b] + t;
            room->mask[at] = t >= TOY_BATCH_PROMPT && b != shape.left_out;
            room->generation[at] = shape.logprob - 0.01f * (float)(at % 13);
            room->reference[at] = shape.logprob - 0.1f - 0.02f * (float)(at % 7);
            room->advantage[at] = (float)(b % 3) - 0.9f;
        }
    }
    return (TrainBatch){.count = shape.count,
                        .offset = room->offset,
                        .ids = room->ids,
                        .mask = room->mask,
                        .sample_mask = room->sample_mask,
                        .generation = room->generation,
                        .reference = room->reference,
                        .advantage = room->advantage,
                        .reward = room->reward};
}
