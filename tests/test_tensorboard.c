// run/tensorboard: the records of a file read back, their checksums against those of another implementation.
#include "base/file.h"
#include "base/jsonio.h"
#include "run/tensorboard.h"
#include "run/tensorboard_event.pb-c.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Events {
    TensorboardEvent__Event *event[16];
    int count;
    char *bytes;
    size_t size;
} Events;

static uint64_t number(const char *bytes, int size) {
    uint64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | (uint8_t)bytes[i];
    return value;
}

// Every record of the only file in the folder.
static Events read_events(const char *folder, Arena *arena) {
    Events events = {0};
    Error error;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    const char *path = NULL;
    for (struct dirent *entry; (entry = readdir(listing));)
        if (strstr(entry->d_name, "tfevents")) path = arena_format(arena, "%s/%s", folder, entry->d_name);
    closedir(listing);
    assert_non_null(path);
    assert_true(file_read(&events.bytes, &events.size, arena, path, &error));
    for (size_t at = 0; at < events.size;) {
        size_t length = number(events.bytes + at, 8);
        assert_true(at + length + 16 <= events.size && events.count < 16);
        events.event[events.count] =
            tensorboard_event__event__unpack(NULL, length, (const uint8_t *)events.bytes + at + 12);
        assert_non_null(events.event[events.count++]);
        at += length + 16;
    }
    return events;
}

static void free_events(Events *events) {
    for (int i = 0; i < events->count; i++) tensorboard_event__event__free_unpacked(events->event[i], NULL);
}

static void test_a_file_reads_back(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    Tensorboard board;
    char folder[] = "/tmp/test_tensorboard.XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_true(tensorboard_open(&board, arena_format(&arena, "%s/deep", folder), 7, &error));
    json_t *line = json_pack("{s:i, s:f, s:i, s:s, s:s, s:s, s:[i]}", "step", 8, "train/loss", 0.5, "train/reward", 3,
                             "train/x", "nan", "train/y", "-inf", "name", "text", "list", 1);
    assert_true(tensorboard_scalars(&board, line, 8, &error));
    json_decref(line);
    Origin origin = {0};
    Value *tree = value_container(&arena, VALUE_MAP, origin), *policy = value_container(&arena, VALUE_MAP, origin);
    value_set(&arena, policy, "lr", value_plain(&arena, "1e-5", origin));
    value_set(&arena, policy, "on", value_plain(&arena, "true", origin));
    value_set(&arena, policy, "name", value_plain(&arena, "AdamW", origin));
    value_set(&arena, policy, "none", value_plain(&arena, "null", origin));
    value_set(&arena, tree, "policy", policy);
    assert_true(tensorboard_hparams(&board, tree, &error));
    tensorboard_close(&board);

    Events events = read_events(arena_format(&arena, "%s/deep", folder), &arena);
    assert_int_equal(events.count, 4);
    assert_string_equal(events.event[0]->file_version, "brain.Event:2");
    assert_int_equal(events.event[1]->step, 8);
    assert_int_equal(events.event[1]->session_log->status, 1);
    TensorboardEvent__Summary *scalars = events.event[2]->summary;
    assert_int_equal(events.event[2]->step, 8);
    assert_int_equal(scalars->n_value, 4);
    assert_string_equal(scalars->value[0]->tag, "train/loss");
    assert_true(scalars->value[0]->simple_value == 0.5f && scalars->value[1]->simple_value == 3);
    assert_true(isnan(scalars->value[2]->simple_value) && scalars->value[3]->simple_value == -INFINITY);
    TensorboardEvent__PluginData *plugin = events.event[3]->summary->value[0]->metadata->plugin_data;
    assert_string_equal(plugin->plugin_name, "hparams");
    TensorboardEvent__HParams *hparams =
        tensorboard_event__hparams__unpack(NULL, plugin->content.len, plugin->content.data);
    assert_non_null(hparams);
    assert_int_equal(hparams->session_start_info->n_hparams, 4);
    assert_string_equal(hparams->session_start_info->hparams[0]->key, "policy.lr");
    assert_true(hparams->session_start_info->hparams[0]->value->number_value == 1e-5);
    assert_true(hparams->session_start_info->hparams[1]->value->bool_value);
    tensorboard_event__hparams__free_unpacked(hparams, NULL);
    // The first twelve bytes of every event file: the length 24 and its checksum.
    assert_int_equal(number(events.bytes, 8), 24);
    assert_int_equal(number(events.bytes + 8, 4), 0x224b7fa3u);
    free_events(&events);
    assert_true(file_remove_tree(folder, &error));
    arena_close(&arena);
}

// The only value of the event.
static TensorboardEvent__Value *value_of(const Events *events, int number) {
    assert_int_equal(events->event[number]->summary->n_value, 1);
    return events->event[number]->summary->value[0];
}

static void test_histograms_and_texts(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    Tensorboard board;
    char folder[] = "/tmp/test_tensorboard.XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_true(tensorboard_open(&board, folder, 0, &error));
    const float spread[] = {0, 3, NAN, 1.5f, -INFINITY, 0.05f}, same[] = {2, 2, 2}, lost[] = {NAN};
    assert_true(tensorboard_histogram(&board, "train/h/histogram", spread, 6, 3, &error));
    assert_true(tensorboard_histogram(&board, "train/same", same, 3, 3, &error));
    assert_true(tensorboard_histogram(&board, "train/lost", lost, 1, 3, &error));
    assert_true(tensorboard_histogram(&board, "train/none", NULL, 0, 3, &error));
    assert_true(tensorboard_text(&board, "train/samples", "**a** <b>", 3, &error));
    tensorboard_close(&board);

    Events events = read_events(folder, &arena);
    assert_int_equal(events.count, 5);
    const TensorboardEvent__Histogram *h = value_of(&events, 2)->histogram;
    assert_string_equal(value_of(&events, 2)->tag, "train/h/histogram");
    assert_true(h->min == 0 && h->max == 3 && h->num == 4 && h->sum == 4.5 + (double)0.05f);
    assert_int_equal(h->n_bucket, TENSORBOARD_BUCKETS);
    assert_int_equal(h->n_bucket_limit, TENSORBOARD_BUCKETS);
    assert_true(h->bucket[0] == 2 && h->bucket[15] == 1 && h->bucket[29] == 1 && h->bucket_limit[29] == 3);
    h = value_of(&events, 3)->histogram;
    assert_true(h->n_bucket == 1 && h->bucket[0] == 3 && h->bucket_limit[0] == 2);
    const TensorboardEvent__Value *text = value_of(&events, 4);
    assert_string_equal(text->metadata->plugin_data->plugin_name, "text");
    assert_int_equal(text->metadata->data_class, 2);
    assert_int_equal(text->tensor->dtype, 7);
    assert_int_equal(text->tensor->n_text, 1);
    assert_memory_equal(text->tensor->text[0].data, "**a** <b>", 9);
    free_events(&events);
    assert_true(file_remove_tree(folder, &error));
    arena_close(&arena);
}

static void test_a_folder_that_is_a_file_is_refused(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    Tensorboard board;
    char folder[] = "/tmp/test_tensorboard.XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *file = arena_format(&arena, "%s/file", folder);
    assert_true(file_write(file, "", 0, &error));
    assert_false(tensorboard_open(&board, file, 0, &error));
    assert_non_null(strstr(error.text, "file"));
    tensorboard_close(&board);
    assert_true(file_remove_tree(folder, &error));
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_reads_back),
        cmocka_unit_test(test_histograms_and_texts),
        cmocka_unit_test(test_a_folder_that_is_a_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
