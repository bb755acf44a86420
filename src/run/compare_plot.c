#include "run/compare_plot.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/strbuf.h"

#include <cairo-svg.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 900,
    CURVES_HEIGHT = 680,
    LEFT = 64,
    RIGHT = 880,
    PNG_SCALE = 2,
    COLOURS = 8,
    LEGEND_LINE = 20,
    FONT_SIZE = 13
};
static const char font_name[] = "sans-serif";

typedef struct Colour {
    double red, green, blue;
} Colour;

// Okabe and Ito's, which people of every colour vision tell apart; the kinds of memory go on with lighter ones.
static const Colour colours[COLOURS] = {{0.00, 0.45, 0.70}, {0.84, 0.37, 0.00}, {0.00, 0.62, 0.45}, {0.80, 0.47, 0.65},
                                        {0.34, 0.71, 0.91}, {0.90, 0.62, 0.00}, {0.45, 0.45, 0.45}, {0.80, 0.75, 0.25}};

static void use_colour(cairo_t *c, size_t index, double alpha) {
    const Colour *colour = &colours[index % COLOURS];
    double lighter = index < COLOURS ? 0 : 0.5;
    cairo_set_source_rgba(c, colour->red + (1 - colour->red) * lighter, colour->green + (1 - colour->green) * lighter,
                          colour->blue + (1 - colour->blue) * lighter, alpha);
}

static void use_grey(cairo_t *c, double shade) {
    cairo_set_source_rgb(c, shade, shade, shade);
}

// align: 0 begins at x, 0.5 is centred on it, 1 ends there.
static void put_text(cairo_t *c, double x, double y, double align, const char *text) {
    cairo_text_extents_t size;
    cairo_text_extents(c, text, &size);
    cairo_move_to(c, x - align * size.x_advance, y);
    cairo_show_text(c, text);
}

// The text from x on, cut where it is wider; returns how wide it came out.
static double put_name(cairo_t *c, double x, double y, double width, const char *text) {
    cairo_text_extents_t size;
    StrBuf shown = {0};
    strbuf_puts(&shown, text);
    cairo_text_extents(c, shown.text, &size);
    for (size_t kept = strlen(text); size.x_advance > width && kept; cairo_text_extents(c, shown.text, &size)) {
        do kept--;
        while (kept && ((uint8_t)text[kept] & 0xc0) == 0x80); // whole characters
        strbuf_clear(&shown);
        strbuf_format(&shown, "%.*s…", (int)kept, text);
    }
    put_text(c, x, y, 0, shown.text);
    strbuf_close(&shown);
    return size.x_advance;
}

// --- axes -------------------------------------------------------------------------------------------------------------

// Where a panel lies on the paper, and what its axes run from and to.
typedef struct Panel {
    double top, bottom, x_low, x_high, y_low, y_high;
} Panel;

static double place_x(const Panel *p, double x) {
    return LEFT + (RIGHT - LEFT) * (x - p->x_low) / (p->x_high - p->x_low);
}

static double place_y(const Panel *p, double y) {
    return p->bottom - (p->bottom - p->top) * (y - p->y_low) / (p->y_high - p->y_low);
}

// 1, 2 or 5 times a power of ten, so that about `count` of them span the range.
static double tick_of(double span, double count) {
    double rough = span / count, power = pow(10, floor(log10(rough))), times = rough / power;
    return power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
}

static void line(cairo_t *c, double x, double y, double to_x, double to_y) {
    cairo_move_to(c, x, y);
    cairo_line_to(c, to_x, to_y);
    cairo_stroke(c);
}

static double y_tick(const Panel *p) {
    return tick_of(p->y_high - p->y_low, 5);
}

static void draw_axes(cairo_t *c, const Panel *p, const char *title) {
    char text[48];
    double tick_y = y_tick(p), tick_x = fmax(1, tick_of(p->x_high - p->x_low, 10));
    int digits = tick_y < 0.995 ? (int)ceil(-log10(tick_y) - 1e-9) : 0;
    cairo_set_line_width(c, 1);
    for (double y = ceil(p->y_low / tick_y - 1e-9) * tick_y; y <= p->y_high + 1e-9; y += tick_y) {
        use_grey(c, 0.87);
        line(c, LEFT, place_y(p, y), RIGHT, place_y(p, y));
        use_grey(c, 0.2);
        snprintf(text, sizeof text, "%.*f", digits, fabs(y) < 1e-12 ? 0 : y);
        put_text(c, LEFT - 8, place_y(p, y) + 4, 1, text);
    }
    for (double x = ceil(p->x_low / tick_x - 1e-9) * tick_x; x <= p->x_high + 1e-9; x += tick_x) {
        snprintf(text, sizeof text, "%.0f", fabs(x)); // never −0
        put_text(c, place_x(p, x), p->bottom + 18, 0.5, text);
    }
    use_grey(c, 0.2);
    line(c, LEFT, p->bottom, RIGHT, p->bottom);
    put_text(c, LEFT, p->top - 10, 0, title);
    put_text(c, RIGHT, p->bottom + 34, 1, "update");
}

// --- curves -----------------------------------------------------------------------------------------------------------

static double number_at(const json_t *list, size_t i) {
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

// x[i] of a list of steps; without one, i + 1.
static double step_at(const json_t *steps, size_t i) {
    return steps ? number_at(steps, i) : (double)(i + 1);
}

static void draw_curve(cairo_t *c, const Panel *p, const double *value, size_t count, const json_t *steps, bool dots) {
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        if (isnan(value[i])) continue;
        (begun ? cairo_line_to : cairo_move_to)(c, place_x(p, step_at(steps, i)), place_y(p, value[i]));
        begun = true;
    }
    cairo_stroke(c);
    for (size_t i = 0; dots && i < count; i++) {
        if (isnan(value[i])) continue;
        cairo_arc(c, place_x(p, step_at(steps, i)), place_y(p, value[i]), 3.5, 0, 2 * M_PI);
        cairo_fill(c);
    }
}

static bool has_value(const json_t *arm, const json_t *value) {
    return !strcmp(json_string_value(json_object_get(arm, "value")), json_string_value(value));
}

// Of one value's arms: each seed's curve thin, or their mean.
static void draw_value(cairo_t *c, const Panel *p, const json_t *summary, size_t value, const char *key,
                       const json_t *steps, bool mean, double width, double alpha) {
    Arena arena = {0};
    const json_t *arm, *wanted = json_array_get(json_object_get(summary, "values"), value);
    size_t i, count = 0;
    double *sum = NULL, arms = 0;
    use_colour(c, value, alpha);
    cairo_set_line_width(c, width);
    json_array_foreach(json_object_get(summary, "arms"), i, arm) {
        if (!has_value(arm, wanted)) continue;
        const json_t *list = json_object_get(arm, key);
        if (!sum || !mean) count = json_array_size(list), sum = arena_array(&arena, double, count);
        for (size_t k = 0; k < count; k++) sum[k] += number_at(list, k);
        arms++;
        if (!mean) draw_curve(c, p, sum, count, steps, false);
    }
    for (size_t k = 0; k < count && mean; k++) sum[k] /= arms;
    if (mean && sum) draw_curve(c, p, sum, count, steps, steps != NULL);
    arena_close(&arena);
}

// The range of a curve of all arms, from tick to tick.
static void set_range(Panel *p, const json_t *summary, const char *key) {
    const json_t *arm;
    size_t i;
    p->y_low = INFINITY, p->y_high = -INFINITY;
    json_array_foreach(json_object_get(summary, "arms"), i, arm) {
        const json_t *list = json_object_get(arm, key);
        for (size_t k = 0; k < json_array_size(list); k++)
            p->y_low = fmin(p->y_low, number_at(list, k)), p->y_high = fmax(p->y_high, number_at(list, k));
    }
    if (!(p->y_low <= p->y_high)) p->y_low = 0, p->y_high = 1;
    if (p->y_high - p->y_low < 0.02) p->y_low -= 0.01, p->y_high += 0.01;
    double tick = y_tick(p);
    p->y_low = tick * floor(p->y_low / tick + 1e-9), p->y_high = tick * ceil(p->y_high / tick - 1e-9);
}

static double width_of(const char *text) {
    cairo_font_face_t *face = cairo_toy_font_face_create(font_name, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_matrix_t size, scale;
    cairo_matrix_init_scale(&size, FONT_SIZE, FONT_SIZE);
    cairo_matrix_init_identity(&scale);
    cairo_scaled_font_t *font = cairo_scaled_font_create(face, &size, &scale, options);
    cairo_text_extents_t extents;
    cairo_scaled_font_text_extents(font, text, &extents);
    cairo_scaled_font_destroy(font);
    cairo_font_options_destroy(options);
    cairo_font_face_destroy(face);
    return extents.x_advance;
}

// Whether a name of the legend begins another line; *used is how far the line reaches, to begin with LEFT.
static bool begins_line(double *used, const char *name) {
    double width = fmin(20 + width_of(name), RIGHT - LEFT);
    bool begins = *used > LEFT && *used + width > RIGHT;
    *used = (begins ? LEFT : *used) + width + 24;
    return begins;
}

// Lines of the legend behind the first.
static int more_lines(const json_t *summary) {
    const json_t *value;
    size_t i;
    double used = LEFT;
    int lines = 0;
    json_array_foreach(json_object_get(summary, "values"), i, value) lines +=
        begins_line(&used, json_string_value(value));
    return lines;
}

static void draw_legend(cairo_t *c, const json_t *summary) {
    const json_t *values = json_object_get(summary, "values"), *value;
    size_t i;
    double x = LEFT, top = 38, used = LEFT;
    use_grey(c, 0.1);
    put_name(c, LEFT, 26, RIGHT - LEFT, json_string_value(json_object_get(summary, "key")));
    json_array_foreach(values, i, value) {
        if (begins_line(&used, json_string_value(value))) x = LEFT, top += LEGEND_LINE;
        use_colour(c, i, 1);
        cairo_rectangle(c, x, top, 14, 10);
        cairo_fill(c);
        use_grey(c, 0.2);
        x += 44 + put_name(c, x + 20, top + 10, RIGHT - x - 20, json_string_value(value));
    }
}

static void draw_curves(cairo_t *c, const json_t *summary) {
    const json_t *steps = json_object_get(summary, "validations");
    size_t values = json_array_size(json_object_get(summary, "values"));
    bool several = json_array_size(json_object_get(summary, "seeds")) > 1;
    double last = json_number_value(json_object_get(summary, "steps"));
    Panel reward = {.top = 92, .bottom = 330, .x_low = 0, .x_high = last},
          accuracy = {.top = 402, .bottom = 640, .x_low = 0, .x_high = last};
    set_range(&reward, summary, "reward");
    set_range(&accuracy, summary, "accuracy");
    draw_legend(c, summary);
    cairo_translate(c, 0, LEGEND_LINE * more_lines(summary));
    draw_axes(c, &reward,
              several ? "training reward; bold: mean over 10 updates and all seeds"
                      : "training reward; bold: mean over 10 updates");
    draw_axes(c, &accuracy, several ? "held-out accuracy; bold: mean over seeds" : "held-out accuracy");
    for (size_t v = 0; v < values; v++) draw_value(c, &reward, summary, v, "reward", NULL, false, 1, 0.22);
    for (size_t v = 0; v < values && several; v++)
        draw_value(c, &accuracy, summary, v, "accuracy", steps, false, 1, 0.4);
    for (size_t v = 0; v < values; v++) {
        draw_value(c, &reward, summary, v, "reward_average", NULL, true, 2.5, 1);
        draw_value(c, &accuracy, summary, v, "accuracy", steps, true, 2.5, 1);
    }
}

// --- memory -----------------------------------------------------------------------------------------------------------

enum { BAR = 34, BAR_STEP = 58, BARS_TOP = 70, LEGEND_COLUMNS = 4 };

// Of the first rank: one stacked bar for each value.
static const json_t *bars_of(const json_t *summary) {
    return json_object_get(json_array_get(json_object_get(summary, "memory"), 0), "by_value");
}

static bool is_shown(const json_t *bars, const char *tag) {
    const json_t *bar;
    size_t i;
    json_array_foreach(bars, i, bar) if (json_number_value(json_object_get(json_object_get(bar, "at_peak_mb"), tag)) >
                                         0) return true;
    return false;
}

static double largest_of(const json_t *bars) {
    const json_t *bar;
    size_t i;
    double largest = 1;
    json_array_foreach(bars, i, bar) largest = fmax(largest, json_number_value(json_object_get(bar, "peak_mb")));
    return largest;
}

static void draw_bar(cairo_t *c, const json_t *bars, size_t index, const char *name, double top, double scale) {
    const json_t *bar = json_array_get(bars, index);
    const char *tag;
    json_t *mb;
    size_t colour = 0;
    double x = LEFT;
    char text[64];
    json_object_foreach(json_object_get(bar, "at_peak_mb"), tag, mb) {
        if (!is_shown(bars, tag)) continue;
        double width = json_number_value(mb) * scale;
        use_colour(c, colour++, 1);
        cairo_rectangle(c, x, top, width, BAR);
        cairo_fill(c);
        x += width;
    }
    use_grey(c, 0.1);
    snprintf(text, sizeof text, "%.1f MiB", json_number_value(json_object_get(bar, "peak_mb")));
    put_text(c, x + 8, top + BAR / 2 + 4, 0, text);
    put_name(c, LEFT, top - 6, RIGHT - LEFT, name);
}

static double memory_height(const json_t *summary) {
    return BARS_TOP + BAR_STEP * (double)json_array_size(json_object_get(summary, "values")) + 90;
}

static void draw_memory(cairo_t *c, const json_t *summary) {
    const json_t *bars = bars_of(summary), *values = json_object_get(summary, "values");
    double scale = (RIGHT - LEFT - 110) / largest_of(bars), top = BARS_TOP;
    use_grey(c, 0.1);
    put_text(c, LEFT, 26, 0, json_string_value(json_object_get(summary, "key")));
    put_text(c, RIGHT, 26, 1,
             json_object_get(summary, "planned") ? "alive at the peak of the update, as planned"
                                                 : "alive at the peak of the update, mean; rank 0");
    for (size_t v = 0; v < json_array_size(values); v++, top += BAR_STEP)
        draw_bar(c, bars, v, json_string_value(json_array_get(values, v)), top, scale);
    const char *tag;
    json_t *ignored;
    size_t shown = 0;
    json_object_foreach(json_object_get(json_array_get(bars, 0), "at_peak_mb"), tag, ignored) {
        if (!is_shown(bars, tag)) continue;
        double x = LEFT + (double)(shown % LEGEND_COLUMNS) * 205, y = top + 8 + (double)(shown / LEGEND_COLUMNS) * 22;
        use_colour(c, shown++, 1);
        cairo_rectangle(c, x, y, 14, 10);
        cairo_fill(c);
        use_grey(c, 0.2);
        put_text(c, x + 20, y + 10, 0, tag);
    }
}

// --- files ------------------------------------------------------------------------------------------------------------

typedef enum Picture { PICTURE_CURVES, PICTURE_MEMORY } Picture;

// cairo hands the bytes of a file over by this.
static cairo_status_t take_bytes(void *out, const unsigned char *data, unsigned int length) {
    strbuf_append(out, data, length);
    return CAIRO_STATUS_SUCCESS;
}

static void draw(cairo_surface_t *surface, Picture picture, const json_t *summary, double scale) {
    cairo_t *c = cairo_create(surface);
    cairo_scale(c, scale, scale);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_select_font_face(c, font_name, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, FONT_SIZE);
    cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
    switch (picture) {
    case PICTURE_CURVES: draw_curves(c, summary); break;
    case PICTURE_MEMORY: draw_memory(c, summary); break;
    }
    cairo_destroy(c);
}

static bool write_picture(Picture picture, const char *name, const json_t *summary, bool svg, const char *folder,
                          Error *error) {
    Arena arena = {0};
    StrBuf bytes = {0};
    double height =
        picture == PICTURE_CURVES ? CURVES_HEIGHT + LEGEND_LINE * more_lines(summary) : memory_height(summary);
    cairo_surface_t *surface =
        svg ? cairo_svg_surface_create_for_stream(take_bytes, &bytes, WIDTH, height)
            : cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH * PNG_SCALE, (int)height * PNG_SCALE);
    draw(surface, picture, summary, svg ? 1 : PNG_SCALE);
    if (svg)
        cairo_surface_finish(surface);
    else
        cairo_surface_write_to_png_stream(surface, take_bytes, &bytes);
    cairo_status_t status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    const char *path = arena_format(&arena, "%s/%s.%s", folder, name, svg ? "svg" : "png");
    bool good =
        (!status && bytes.length) || error_set(error, "%s: cannot be drawn: %s", path, cairo_status_to_string(status));
    good = good && file_write(path, bytes.text, bytes.length, error);
    strbuf_close(&bytes);
    arena_close(&arena);
    return good;
}

bool compare_plot_write(const json_t *summary, const char *folder, Error *error) {
    bool planned = json_object_get(summary, "planned");
    for (int svg = 0; svg < 2; svg++)
        if ((!planned && !write_picture(PICTURE_CURVES, "curves", summary, svg, folder, error)) ||
            !write_picture(PICTURE_MEMORY, planned ? "plan" : "memory", summary, svg, folder, error))
            return false;
    return true;
}
