#include "run/first_difference.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "run/train_command.h"

#include <math.h>
#include <string.h>

// --- matching ---------------------------------------------------------------------------------------------------------

// A record and which it is among those of its kind.
typedef struct Place {
    const TraceRecord *record;
    int64_t number; // in the trace
    int64_t turn;   // among records of the same kind
} Place;

static int by_kind(const TraceRecord *a, const TraceRecord *b) {
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->phase != b->phase) return a->phase < b->phase ? -1 : 1;
    if (a->unit != b->unit) return a->unit < b->unit ? -1 : 1;
    int64_t one = a->rows * a->columns, other = b->rows * b->columns;
    if (one != other) return one < other ? -1 : 1;
    return strcmp(a->operation, b->operation);
}

static int by_place(const void *one, const void *other) {
    const Place *a = one, *b = other;
    int kind = by_kind(a->record, b->record);
    return kind ? kind : (a->number > b->number) - (a->number < b->number);
}

// The records by kind, those of a kind in their order.
static Place *places_of(const Trace *trace, Arena *arena) {
    Place *places = arena_array(arena, Place, trace->count);
    for (int64_t i = 0; i < trace->count; i++) places[i] = (Place){.record = trace_records(trace) + i, .number = i};
    qsort(places, (size_t)trace->count, sizeof *places, by_place);
    for (int64_t i = 1; i < trace->count; i++)
        if (!by_kind(places[i - 1].record, places[i].record)) places[i].turn = places[i - 1].turn + 1;
    return places;
}

// partner[i]: the number of the other trace's record that belongs to record i; −1: none.
static int64_t *partners_of(const Trace *one, const Trace *other, Arena *arena) {
    int64_t *partner = arena_array(arena, int64_t, one->count);
    const Place *a = places_of(one, arena), *b = places_of(other, arena);
    for (int64_t i = 0, k = 0; i < one->count; i++) {
        int order = 1;
        for (; k < other->count; k++) {
            order = by_kind(b[k].record, a[i].record);
            if (!order) order = (b[k].turn > a[i].turn) - (b[k].turn < a[i].turn);
            if (order >= 0) break;
        }
        partner[a[i].number] = k < other->count && !order ? b[k].number : -1;
    }
    return partner;
}

// Fills what does not need values; *at is the first difference in both traces.
static void match(FirstDifference *d, int64_t at[2], const Trace *one, const Trace *other) {
    Arena arena = {0};
    const int64_t *partner = partners_of(one, other, &arena);
    for (int64_t i = 0; i < one->count && !d->found; i++) {
        const TraceRecord *a = trace_records(one) + i, *b = partner[i] < 0 ? NULL : trace_records(other) + partner[i];
        if (!b) {
            d->alone++;
        } else if (a->dtype != b->dtype) {
            if (!d->other_dtype++) d->cast[0] = *a, d->cast[1] = *b;
        } else if (a->digest == b->digest) {
            d->equal++;
        } else {
            d->found = true;
            d->record = *a;
            at[0] = i, at[1] = partner[i];
        }
    }
    arena_close(&arena);
}

// --- values -----------------------------------------------------------------------------------------------------------

// Bits as a number that counts places on the line of all numbers of the dtype.
static int64_t place_on_line(uint32_t bits, int width) {
    int64_t magnitude = bits & ((UINT32_C(1) << (width - 1)) - 1);
    return bits >> (width - 1) ? -magnitude : magnitude;
}

static uint32_t bits_at(const void *values, DType dtype, int64_t i) {
    return dtype_size(dtype) == 4 ? ((const uint32_t *)values)[i] : ((const uint16_t *)values)[i];
}

static void measure(FirstDifference *d, const void *one, const void *other) {
    DType dtype = d->record.dtype;
    int width = 8 * (int)dtype_size(dtype);
    for (int64_t i = 0; i < d->record.rows * d->record.columns; i++) {
        uint32_t a = bits_at(one, dtype, i), b = bits_at(other, dtype, i);
        if (a == b) continue;
        double x = (double)dtype_load(one, dtype, i), y = (double)dtype_load(other, dtype, i), apart = fabs(x - y);
        int64_t units = llabs(place_on_line(a, width) - place_on_line(b, width));
        if (!d->elements++) {
            d->row = i / d->record.columns, d->column = i % d->record.columns;
            d->values[0] = x, d->values[1] = y;
        }
        d->farthest = fmax(d->farthest, isfinite(apart) ? apart : INFINITY);
        if (units > d->farthest_units) d->farthest_units = units;
    }
}

// --- running ----------------------------------------------------------------------------------------------------------

static void shorten(Settings *s, int64_t steps) {
    s->run.max_num_steps = steps;
    s->run.val_at_start = s->run.val_at_end = false;
    s->run.val_period = 0;
    s->checkpointing.enabled = false;
}

static bool run(Trace *trace, const Settings *settings, int64_t wanted, int *stop, Error *error) {
    Comm self = comm_self();
    *trace = (Trace){.wanted = wanted};
    return train_command_train(settings, &self, trace, stop, error);
}

static bool run_both(Trace traces[2], Settings *const settings[2], const int64_t wanted[2], int *stop, Error *error) {
    for (int i = 0; i < 2 && !*stop; i++)
        if (!run(&traces[i], settings[i], wanted[i], stop, error)) return false;
    return true;
}

static void close_both(Trace traces[2]) {
    trace_close(&traces[0]), trace_close(&traces[1]);
}

static int64_t root_of(const Trace *trace) {
    int64_t root = 0;
    for (int64_t i = 0; i < trace->count; i++)
        if (trace_records(trace)[i].unit > root) root = trace_records(trace)[i].unit;
    return root;
}

bool first_difference_find(FirstDifference *d, Settings *one, Settings *other, int64_t steps, int *stop, Error *error) {
    Settings *settings[2] = {one, other};
    Trace traces[2] = {{0}, {0}};
    int64_t at[2] = {-1, -1};
    *d = (FirstDifference){0};
    for (int i = 0; i < 2; i++) shorten(settings[i], steps);
    bool good = run_both(traces, settings, at, stop, error);
    if (good && !*stop) {
        match(d, at, &traces[0], &traces[1]);
        d->root = root_of(&traces[0]);
    }
    close_both(traces);
    if (!good || *stop || !d->found) return good;
    log_info("the runs part in step %lld: once more for the values", (long long)d->record.step);
    for (int i = 0; i < 2; i++) shorten(settings[i], d->record.step);
    traces[0] = traces[1] = (Trace){0};
    good = run_both(traces, settings, at, stop, error);
    if (good && !*stop) measure(d, traces[0].values.text, traces[1].values.text);
    close_both(traces);
    return good;
}

// --- telling ----------------------------------------------------------------------------------------------------------

static void put_place(StrBuf *out, const FirstDifference *d, const TraceRecord *r) {
    strbuf_format(out, "step %lld, phase %s, ", (long long)r->step, ledger_phase_name(r->phase));
    if (r->unit == d->root)
        strbuf_puts(out, "root unit");
    else
        strbuf_format(out, "block %d", r->unit);
    strbuf_format(out, ", %s", r->operation);
}

static void put_found(StrBuf *out, const FirstDifference *d, const char *const names[2]) {
    const TraceRecord *r = &d->record;
    strbuf_puts(out, "The first tensor whose bits differ: ");
    put_place(out, d, r);
    strbuf_format(out, ", [%lld", (long long)r->rows);
    if (r->columns > 1) strbuf_format(out, ", %lld", (long long)r->columns);
    strbuf_format(out, "] in %s.\n%lld of %lld elements differ, by at most %.9g (%lld unit%s in the last place)",
                  dtype_name(r->dtype), (long long)d->elements, (long long)(r->rows * r->columns), d->farthest,
                  (long long)d->farthest_units, d->farthest_units == 1 ? "" : "s");
    strbuf_format(out, "; the first, in row %lld and column %lld, is %.9g with %s and %.9g with %s.\n",
                  (long long)d->row, (long long)d->column, d->values[0], names[0], d->values[1], names[1]);
    strbuf_format(out, "%lld tensors before it agree to the bit.\n", (long long)d->equal);
}

void first_difference_text(StrBuf *out, const FirstDifference *d, const char *const names[2]) {
    if (d->found) {
        put_found(out, d, names);
    } else {
        strbuf_format(out, "No tensor differs: %lld agree to the bit.\n", (long long)d->equal);
    }
    if (d->other_dtype) {
        strbuf_format(out, "%lld more are stored in different dtypes, the first: ", (long long)d->other_dtype);
        put_place(out, d, &d->cast[0]);
        strbuf_format(out, ", in %s and %s.\n", dtype_name(d->cast[0].dtype), dtype_name(d->cast[1].dtype));
    }
    if (d->alone)
        strbuf_format(out, "%lld more have no counterpart of their size with %s.\n", (long long)d->alone, names[1]);
}

static json_t *place_json(const FirstDifference *d, const TraceRecord *r) {
    json_t *place = json_object();
    json_object_set_new(place, "step", json_integer(r->step));
    json_object_set_new(place, "phase", json_string(ledger_phase_name(r->phase)));
    json_object_set_new(place, "unit", r->unit == d->root ? json_string("root") : json_integer(r->unit));
    json_object_set_new(place, "operation", json_string(r->operation));
    json_object_set_new(place, "shape", json_pack("[I, I]", (json_int_t)r->rows, (json_int_t)r->columns));
    json_object_set_new(place, "dtype", json_string(dtype_name(r->dtype)));
    return place;
}

json_t *first_difference_json(const FirstDifference *d, const char *const names[2]) {
    json_t *all = json_pack("{s:[s, s], s:b}", "runs", names[0], names[1], "found", d->found);
    if (d->found) {
        json_object_set_new(all, "tensor", place_json(d, &d->record));
        json_object_set_new(all, "elements", json_integer(d->record.rows * d->record.columns));
        json_object_set_new(all, "differing", json_integer(d->elements));
        json_object_set_new(all, "farthest", jsonio_real(d->farthest));
        json_object_set_new(all, "farthest_units", json_integer(d->farthest_units));
        json_object_set_new(all, "first",
                            json_pack("{s:I, s:I, s:[o, o]}", "row", (json_int_t)d->row, "column",
                                      (json_int_t)d->column, "values", jsonio_real(d->values[0]),
                                      jsonio_real(d->values[1])));
    }
    json_object_set_new(all, "equal_before", json_integer(d->equal));
    json_object_set_new(all, "other_dtype_before", json_integer(d->other_dtype));
    if (d->other_dtype) json_object_set_new(all, "first_other_dtype", place_json(d, &d->cast[0]));
    json_object_set_new(all, "alone_before", json_integer(d->alone));
    return all;
}
