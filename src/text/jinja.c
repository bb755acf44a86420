#include "text/jinja.h"

#include "text/jinja_eval.h"
#include "text/jinja_text.h"

#include <stdlib.h>

struct JinjaTemplate {
    Arena home;   // of this struct
    JinjaRun run; // memory of the tree
    JinjaNodes body;
    JinjaScope *root;
};

bool jinja_open(JinjaTemplate **template, const char *source, size_t size, JinjaFault *fault) {
    Arena home = {0};
    JinjaTemplate *parsed = arena_array(&home, JinjaTemplate, 1);
    parsed->home = home;
    JinjaRun *run = &parsed->run;
    *template = NULL;
    bool good = size <= JINJA_MOST_SOURCE ||
                jinja_run_fault(run, "LimitError", "the template is longer than %d bytes", JINJA_MOST_SOURCE);
    good =
        good && jinja_parse(run, source, size, &parsed->body) && jinja_scope_resolve(run, &parsed->body, &parsed->root);
    if (good) {
        *template = parsed;
    } else {
        *fault = run->fault;
        jinja_close(parsed);
    }
    return good;
}

void jinja_close(JinjaTemplate *template) {
    if (!template) return;
    jinja_run_close(&template->run);
    Arena home = template->home;
    arena_close(&home);
}

bool jinja_render(const JinjaTemplate *template, JinjaRun *run, JinjaValue variables, const JinjaClock *clock,
                  JinjaRendered *rendered) {
    JinjaRender render = {.variables = variables, .clock = clock};
    JinjaFlow flow = JINJA_GOES_ON;
    run->render = &render;
    bool good = jinja_exec(run, &template->body, jinja_eval_enter(run, template->root, NULL), &render.text, &flow);
    run->render = NULL;
    if (good) *rendered = (JinjaRendered){jinja_text_taken(&render.text), render.spans, render.span_count};
    return good && jinja_run_good(run);
}
