#include "run/tensorboard.h"

#include "base/file.h"
#include "run/tensorboard_event.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef TensorboardEvent__Event Event;

// ---- records

// CRC-32C (Castagnoli), bit by bit: a few kilobytes a step.
static uint32_t checksum(const uint8_t *data, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void put_number(uint8_t *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * i);
}

// TFRecord's mask: a checksum of data that holds checksums is a poor one.
static void put_checksum(uint8_t *out, const uint8_t *data, size_t size) {
    uint32_t crc = checksum(data, size);
    put_number(out, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

static bool write_all(const Tensorboard *board, const uint8_t *data, size_t size, Error *error) {
    return file_put(board->descriptor, data, size, -1) ||
           error_set(error, "%s: cannot write: %s", board->path, strerror(errno));
}

static bool write_event(const Tensorboard *board, Event *event, int64_t step, Error *error) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    event->wall_time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    event->step = step;
    Arena arena = {0};
    size_t size = tensorboard_event__event__get_packed_size(event);
    uint8_t *record = arena_array(&arena, uint8_t, size + 16);
    put_number(record, size, 8);
    put_checksum(record + 8, record, 8);
    tensorboard_event__event__pack(event, record + 12);
    put_checksum(record + 12 + size, record + 12, size);
    bool good = write_all(board, record, size + 16, error);
    arena_close(&arena);
    return good;
}

// ---- the file

static bool write_header(const Tensorboard *board, int64_t step, Error *error) {
    char version[] = "brain.Event:2";
    Event first = TENSORBOARD_EVENT__EVENT__INIT, start = TENSORBOARD_EVENT__EVENT__INIT;
    TensorboardEvent__SessionLog session = TENSORBOARD_EVENT__SESSION_LOG__INIT;
    first.what_case = TENSORBOARD_EVENT__EVENT__WHAT_FILE_VERSION;
    first.file_version = version;
    session.status = 1;
    start.what_case = TENSORBOARD_EVENT__EVENT__WHAT_SESSION_LOG;
    start.session_log = &session;
    return write_event(board, &first, 0, error) && write_event(board, &start, step + 1, error);
}

bool tensorboard_open(Tensorboard *board, const char *folder, int64_t step, Error *error) {
    char host[256] = "host";
    gethostname(host, sizeof host - 1);
    *board = (Tensorboard){.descriptor = -1};
    board->path =
        arena_format(&board->arena, "%s/events.out.tfevents.%lld.%s.%d", folder, (long long)time(NULL), host, getpid());
    if (!file_make_folders(folder, error)) return false;
    board->descriptor = open(board->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (board->descriptor < 0) return error_set(error, "%s: cannot open: %s", board->path, strerror(errno));
    return write_header(board, step, error);
}

void tensorboard_close(Tensorboard *board) {
    if (board->path && board->descriptor >= 0) close(board->descriptor);
    arena_close(&board->arena);
    *board = (Tensorboard){0};
}

// ---- what is written

static bool write_summary(const Tensorboard *board, TensorboardEvent__Value **values, size_t count, int64_t step,
                          Error *error) {
    Event event = TENSORBOARD_EVENT__EVENT__INIT;
    TensorboardEvent__Summary summary = TENSORBOARD_EVENT__SUMMARY__INIT;
    summary.n_value = count;
    summary.value = values;
    event.what_case = TENSORBOARD_EVENT__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(board, &event, step, error);
}

// A number, or the text that jsonio_real makes of one that is not finite.
static bool scalar_of(float *value, const json_t *json) {
    const char *text = json_string_value(json);
    *value = json_is_number(json)   ? (float)json_number_value(json)
             : !text                ? 0
             : !strcmp(text, "nan") ? NAN
             : !strcmp(text, "inf") ? INFINITY
                                    : -INFINITY;
    return json_is_number(json) || (text && (!strcmp(text, "nan") || !strcmp(text, "inf") || !strcmp(text, "-inf")));
}

bool tensorboard_scalars(const Tensorboard *board, const json_t *line, int64_t step, Error *error) {
    Arena arena = {0};
    size_t most = json_object_size(line), count = 0;
    TensorboardEvent__Value *values = arena_array(&arena, TensorboardEvent__Value, most);
    TensorboardEvent__Value **list = arena_array(&arena, TensorboardEvent__Value *, most);
    const char *name;
    json_t *json;
    json_object_foreach((json_t *)line, name, json) {
        float value;
        if (!strcmp(name, "step") || !scalar_of(&value, json)) continue;
        list[count] = &values[count];
        tensorboard_event__value__init(list[count]);
        list[count]->tag = arena_string(&arena, name);
        list[count]->what_case = TENSORBOARD_EVENT__VALUE__WHAT_SIMPLE_VALUE;
        list[count++]->simple_value = value;
    }
    bool good = write_summary(board, list, count, step, error);
    arena_close(&arena);
    return good;
}

// ---- histograms and texts

// Counts of the finite values by bucket, and their sums.
static void fill_histogram(TensorboardEvent__Histogram *h, const float *values, int64_t count) {
    h->min = INFINITY, h->max = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        double value = (double)values[i];
        if (!isfinite(value)) continue;
        h->min = fmin(h->min, value), h->max = fmax(h->max, value);
        h->num++, h->sum += value, h->sum_squares += value * value;
    }
    size_t buckets = h->max > h->min ? TENSORBOARD_BUCKETS : 1;
    double width = (h->max - h->min) / (double)buckets;
    h->n_bucket = h->n_bucket_limit = buckets;
    for (size_t b = 0; b < buckets; b++)
        h->bucket_limit[b] = b + 1 < buckets ? h->min + width * (double)(b + 1) : h->max;
    for (int64_t i = 0; i < count; i++) {
        double value = (double)values[i];
        if (!isfinite(value)) continue;
        size_t bucket = width > 0 ? (size_t)((value - h->min) / width) : 0;
        h->bucket[bucket < buckets ? bucket : buckets - 1]++;
    }
}

bool tensorboard_histogram(const Tensorboard *board, const char *tag, const float *values, int64_t count, int64_t step,
                           Error *error) {
    Arena arena = {0};
    TensorboardEvent__Histogram histogram = TENSORBOARD_EVENT__HISTOGRAM__INIT;
    TensorboardEvent__Value value = TENSORBOARD_EVENT__VALUE__INIT, *list = &value;
    histogram.bucket = arena_array(&arena, double, TENSORBOARD_BUCKETS);
    histogram.bucket_limit = arena_array(&arena, double, TENSORBOARD_BUCKETS);
    fill_histogram(&histogram, values, count);
    value.tag = arena_string(&arena, tag);
    value.what_case = TENSORBOARD_EVENT__VALUE__WHAT_HISTOGRAM;
    value.histogram = &histogram;
    bool good = histogram.num == 0 || write_summary(board, &list, 1, step, error);
    arena_close(&arena);
    return good;
}

bool tensorboard_text(const Tensorboard *board, const char *tag, const char *text, int64_t step, Error *error) {
    Arena arena = {0};
    char plugin_name[] = "text";
    ProtobufCBinaryData data = {.len = strlen(text), .data = (uint8_t *)arena_string(&arena, text)};
    TensorboardEvent__Dimension dimension = TENSORBOARD_EVENT__DIMENSION__INIT, *dimensions = &dimension;
    TensorboardEvent__Shape shape = TENSORBOARD_EVENT__SHAPE__INIT;
    TensorboardEvent__Tensor tensor = TENSORBOARD_EVENT__TENSOR__INIT;
    TensorboardEvent__PluginData plugin = TENSORBOARD_EVENT__PLUGIN_DATA__INIT;
    TensorboardEvent__Metadata metadata = TENSORBOARD_EVENT__METADATA__INIT;
    TensorboardEvent__Value value = TENSORBOARD_EVENT__VALUE__INIT, *list = &value;
    dimension.size = 1;
    shape.n_dimension = 1;
    shape.dimension = &dimensions;
    tensor.dtype = 7;
    tensor.shape = &shape;
    tensor.n_text = 1;
    tensor.text = &data;
    plugin.plugin_name = plugin_name;
    metadata.plugin_data = &plugin;
    metadata.data_class = 2;
    value.tag = arena_string(&arena, tag);
    value.metadata = &metadata;
    value.what_case = TENSORBOARD_EVENT__VALUE__WHAT_TENSOR;
    value.tensor = &tensor;
    bool good = write_summary(board, &list, 1, step, error);
    arena_close(&arena);
    return good;
}

// ---- hyperparameters

typedef struct HParamList {
    Arena *arena;
    TensorboardEvent__SessionStart__HparamsEntry **entry;
    size_t count;
} HParamList;

static size_t leaves(const Value *value) {
    size_t count = !value->first;
    for (const Value *child = value->first; child; child = child->next) count += leaves(child);
    return count;
}

static void add_leaves(HParamList *list, const Value *value) {
    for (const Value *child = value->first; child; child = child->next) add_leaves(list, child);
    if (value->first) return;
    TensorboardEvent__SessionStart__HparamsEntry *entry =
        arena_array(list->arena, TensorboardEvent__SessionStart__HparamsEntry, 1);
    tensorboard_event__session_start__hparams_entry__init(entry);
    TensorboardEvent__HParam *hparam = arena_array(list->arena, TensorboardEvent__HParam, 1);
    tensorboard_event__hparam__init(hparam);
    entry->key = arena_string(list->arena, value_path(list->arena, value));
    entry->value = hparam;
    if (value->kind == VALUE_BOOL) {
        hparam->kind_case = TENSORBOARD_EVENT__HPARAM__KIND_BOOL_VALUE;
        hparam->bool_value = value->boolean;
    } else if (value->kind == VALUE_INTEGER || value->kind == VALUE_REAL) {
        hparam->kind_case = TENSORBOARD_EVENT__HPARAM__KIND_NUMBER_VALUE;
        hparam->number_value = value->real;
    } else {
        hparam->kind_case = TENSORBOARD_EVENT__HPARAM__KIND_STRING_VALUE;
        hparam->string_value = arena_string(list->arena, value->kind == VALUE_TEXT   ? value->text
                                                         : value->kind == VALUE_NULL ? "null"
                                                         : value->kind == VALUE_LIST ? "[]"
                                                                                     : "{}");
    }
    list->entry[list->count++] = entry;
}

bool tensorboard_hparams(const Tensorboard *board, const Value *tree, Error *error) {
    Arena arena = {0};
    size_t most = leaves(tree);
    HParamList list = {.arena = &arena,
                       .entry = arena_array(&arena, TensorboardEvent__SessionStart__HparamsEntry *, most)};
    add_leaves(&list, tree);
    TensorboardEvent__SessionStart session = TENSORBOARD_EVENT__SESSION_START__INIT;
    TensorboardEvent__HParams hparams = TENSORBOARD_EVENT__HPARAMS__INIT;
    session.n_hparams = list.count;
    session.hparams = list.entry;
    session.start_time_secs = (double)time(NULL);
    hparams.data_case = TENSORBOARD_EVENT__HPARAMS__DATA_SESSION_START_INFO;
    hparams.session_start_info = &session;
    size_t size = tensorboard_event__hparams__get_packed_size(&hparams);
    uint8_t *content = arena_array(&arena, uint8_t, size);
    tensorboard_event__hparams__pack(&hparams, content);

    char plugin_name[] = "hparams", tag[] = "_hparams_/session_start_info";
    TensorboardEvent__PluginData plugin = TENSORBOARD_EVENT__PLUGIN_DATA__INIT;
    TensorboardEvent__Metadata metadata = TENSORBOARD_EVENT__METADATA__INIT;
    TensorboardEvent__Value value = TENSORBOARD_EVENT__VALUE__INIT, *values = &value;
    plugin.plugin_name = plugin_name;
    plugin.content = (ProtobufCBinaryData){.len = size, .data = content};
    metadata.plugin_data = &plugin;
    value.tag = tag;
    value.metadata = &metadata;
    bool good = write_summary(board, &values, 1, 0, error);
    arena_close(&arena);
    return good;
}
