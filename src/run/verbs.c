#include "run/verbs.h"

#include "base/strbuf.h"
#include "run/bench_command.h"
#include "run/compare_command.h"
#include "run/completion_command.h"
#include "run/export_command.h"
#include "run/generate_command.h"
#include "run/help_command.h"
#include "run/plan_command.h"
#include "run/pull_command.h"
#include "run/report_command.h"
#include "run/tokenize_command.h"
#include "run/train_command.h"

#include <string.h>

static const Command *const verbs[] = {&train_command,     &plan_command,     &compare_command, &generate_command,
                                       &score_command,     &tokenize_command, &config_command,  &bench_command,
                                       &pull_command,      &export_command,   &report_command,  &help_command,
                                       &completion_command};
enum { VERB_COUNT = sizeof verbs / sizeof *verbs };

const Command *const *verbs_all(int *count) {
    *count = VERB_COUNT;
    return verbs;
}

const Command *verbs_find(const char *verb) {
    for (int i = 0; i < VERB_COUNT; i++)
        if (!strcmp(verbs[i]->verb, verb)) return verbs[i];
    return NULL;
}

bool verbs_refuse(const char *verb, Error *error) {
    const char *names[VERB_COUNT];
    for (int i = 0; i < VERB_COUNT; i++) names[i] = verbs[i]->verb;
    const char *near = strbuf_nearest(verb, names, VERB_COUNT);
    if (near) return error_set(error, "unknown verb '%s'; did you mean '%s'?", verb, near);
    return error_set(error, "unknown verb '%s'; see `whet help`", verb);
}
