#include "run/chat_session.h"

#include "base/file.h"
#include "run/answer_stream.h"
#include "run/line_editor.h"
#include "run/output.h"
#include "run/terminal.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct Session {
    Runtime *runtime;
    ChatOptions options;
    Engine *engine;
    LineEditor *editor;
    json_t *messages; // the conversation without the system message
    StrBuf system;    // "": none
    TokenList text;   // without a chat template: the conversation as tokens,
    size_t asked;     // of which so many came before the last answer
    uint32_t turn, attempt;
} Session;

static bool too_long(const Session *s, size_t count) {
    long long room = engine_longest_prompt(s->engine);
    if ((long long)count <= room) return false;
    printf("[dropped: the conversation would have %zu tokens, and there is room for %lld; /reset begins anew]\n", count,
           room);
    return true;
}

// ---- an answer

static void say_speed(const Session *s, double started, double first) {
    double now = log_seconds();
    EngineCounts counts = engine_counts(s->engine);
    if (!s->options.verbose || !counts.answer_tokens) return;
    printf("[%lld tokens, %.1f a second; the first after %.2f s; %lld of %lld prompt tokens were in the cache]\n",
           (long long)counts.answer_tokens,
           counts.answer_tokens > 1 ? (double)(counts.answer_tokens - 1) / (now - first) : 0, first - started,
           (long long)counts.cached_tokens, (long long)(counts.cached_tokens + counts.prompt_tokens));
}

static void say_end(const Session *s, EngineAnswer answer, bool interrupted) {
    if (interrupted)
        printf("[stopped]\n");
    else if (!answer.finished)
        printf("[cut off after %lld tokens: /max-new-tokens N sets the limit]\n", (long long)answer.count);
    else if (answer.finish == FINISH_LENGTH)
        printf("[the context of %lld tokens is full: /reset begins anew]\n",
               (long long)s->options.generation.max_length);
    else if (answer.finish == FINISH_NAN)
        printf("[the model's numbers broke down: no token could be drawn]\n");
}

// Shows the answer of a run that was started, until it ends, comes to the limit or Ctrl-C is pressed.
static EngineAnswer generate(Session *s) {
    AnswerStream stream = {.engine = s->engine,
                           .detokenizer = {.tokenizer = s->runtime->model.tokenizer, .skip_special = true}};
    double started = log_seconds(), first = 0;
    bool more = true, interrupted = false;
    EngineAnswer answer = {0};
    terminal_hold_interrupt();
    while (more && !interrupted && answer.count < s->options.generation.max_new_tokens) {
        more = engine_step(s->engine);
        answer = engine_answer(s->engine, 0, 0);
        if (answer.count && first <= 0) first = log_seconds();
        answer_stream_show(&stream, answer, false);
        interrupted = more && terminal_interrupted();
    }
    terminal_release_interrupt();
    answer_stream_show(&stream, answer, true);
    putchar('\n');
    say_end(s, answer, interrupted);
    say_speed(s, started, first);
    answer_stream_close(&stream);
    return answer;
}

static bool conversation_ids(const Session *s, TokenList *ids, Error *error) {
    if (s->options.plain) {
        for (size_t i = 0; i < s->text.count; i++) bpe_list_append(ids, s->text.ids[i]);
        return true;
    }
    json_t *whole = json_array();
    if (s->system.length)
        json_array_append_new(whole, json_pack("{s:s, s:s}", "role", "system", "content", s->system.text));
    json_array_extend(whole, s->messages);
    bool good = loaded_model_chat_ids(&s->runtime->model, ids, whole, true, error);
    json_decref(whole);
    return good;
}

static void keep_answer(Session *s, EngineAnswer answer) {
    if (s->options.plain) {
        bool ended = answer.finished && answer.finish == FINISH_STOP; // by a token that would end what follows
        s->asked = s->text.count;
        for (int64_t i = 0; i < answer.count - ended; i++) bpe_list_append(&s->text, answer.ids[i]);
        return;
    }
    StrBuf text = {0};
    answer_stream_text(s->engine, &text, answer);
    json_array_append_new(s->messages, json_pack("{s:s, s:o}", "role", "assistant", "content",
                                                 json_stringn(text.text ? text.text : "", text.length)));
    strbuf_close(&text);
}

// Answers the conversation as it stands. False when there is no answer to keep, which is said.
static bool respond(Session *s) {
    Error error;
    TokenList ids = {0};
    EngineAnswer answer = {0};
    if (!conversation_ids(s, &ids, &error)) {
        printf("[dropped: %s]\n", error.text);
    } else if (!too_long(s, ids.count)) {
        EngineRequest request = {.ids = ids.ids,
                                 .count = (int64_t)ids.count,
                                 .prompt = (int32_t)s->attempt,
                                 .samples = 1};
        EngineRun run = {.seed = (uint64_t)s->options.seed, .purpose = RNG_SAMPLE_TOKEN, .step = s->turn};
        if (engine_start(s->engine, &request, 1, run, &error))
            answer = generate(s);
        else
            printf("[dropped: %s]\n", error.text);
    }
    bpe_list_close(&ids);
    if (answer.count) keep_answer(s, answer);
    return answer.count > 0;
}

static void say(Session *s, const char *text) {
    size_t messages = json_array_size(s->messages), tokens = s->text.count;
    Error error;
    json_t *content = json_string(text);
    if (!content) {
        printf("[dropped: this is not UTF-8]\n");
        return;
    }
    s->attempt = 0;
    if (!s->options.plain)
        json_array_append_new(s->messages, json_pack("{s:s, s:O}", "role", "user", "content", content));
    else if (!tokenizer_encode(s->runtime->model.tokenizer, &s->text, text, strlen(text), !tokens, &error))
        printf("[%s]\n", error.text);
    json_decref(content);
    if (respond(s)) {
        s->turn++;
        return;
    }
    while (json_array_size(s->messages) > messages) json_array_remove(s->messages, messages);
    s->text.count = tokens;
}

// ---- commands

static void reset(Session *s) {
    json_array_clear(s->messages);
    s->text.count = s->asked = 0;
    s->turn = s->attempt = 0;
}

static void retry(Session *s) {
    size_t count = json_array_size(s->messages);
    if (!s->turn) {
        printf("[there is no answer yet]\n");
        return;
    }
    s->turn--; // the same turn
    s->attempt++;
    if (s->options.plain) {
        size_t whole = s->text.count;
        s->text.count = s->asked;
        if (!respond(s)) s->text.count = whole;
    } else {
        json_t *old = json_incref(json_array_get(s->messages, count - 1));
        json_array_remove(s->messages, count - 1);
        if (!respond(s)) json_array_append(s->messages, old);
        json_decref(old);
    }
    s->turn++;
}

typedef enum Action { ACT_HELP, ACT_RESET, ACT_RETRY, ACT_SYSTEM, ACT_REAL, ACT_INTEGER, ACT_END } Action;

typedef struct ChatCommand {
    const char *name, *value, *help;
    Action action;
    size_t offset; // in ChatOptions, of a number
    double low, high;
} ChatCommand;

#define NUMBER(kind, field, least, most) ACT_##kind, offsetof(ChatOptions, field), least, most
static const ChatCommand commands[] = {
    {"/reset", "", "forget the conversation", ACT_RESET, 0, 0, 0},
    {"/retry", "", "another answer to the last message", ACT_RETRY, 0, 0, 0},
    {"/system", "TEXT", "the system message from now on; without TEXT: none", ACT_SYSTEM, 0, 0, 0},
    {"/seed", "N", "of the random numbers", NUMBER(INTEGER, seed, 0, UINT32_MAX)},
    {"/max-new-tokens", "N", "of an answer", NUMBER(INTEGER, generation.max_new_tokens, 1, INT32_MAX)},
    {"/temperature", "T", "0: the likeliest token",
     NUMBER(REAL, generation.temperature, 0, GENERATION_MAX_TEMPERATURE)},
    {"/top-k", "K", "tokens to choose from; 0: all", NUMBER(INTEGER, generation.top_k, 0, INT32_MAX)},
    {"/top-p", "P", "share of probability to choose from", NUMBER(REAL, generation.top_p, 1e-6, 1)},
    {"/min-p", "P", "least share of the likeliest token's probability", NUMBER(REAL, generation.min_p, 0, 1)},
    {"/help", "", "this", ACT_HELP, 0, 0, 0},
    {"/exit", "", "end, as Ctrl-D does", ACT_END, 0, 0, 0},
    {"/quit", "", "the same", ACT_END, 0, 0, 0},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void help(const Session *s) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const ChatCommand *c = &commands[i];
        const char *field = (const char *)&s->options + c->offset;
        printf("  %-15s %-5s %s", c->name, c->value, c->help);
        if (c->action == ACT_INTEGER) printf(" (now %lld)", (long long)*(const int64_t *)field);
        if (c->action == ACT_REAL) printf(" (now %g)", *(const double *)field);
        printf("\n");
    }
    printf("Lines between two lines of \"\"\" are one message; // at its start is a slash. Ctrl-C stops an answer.\n");
}

static void set_number(Session *s, const ChatCommand *c, const char *text) {
    char *field = (char *)&s->options + c->offset, *end;
    double number = strtod(text, &end);
    bool whole = c->action == ACT_INTEGER && number >= c->low && number <= c->high && (double)(int64_t)number != number;
    bool cold =
        field == (char *)&s->options.generation.temperature && number > 0 && number < GENERATION_MIN_TEMPERATURE;
    if (end == text || *end || !(number >= c->low && number <= c->high) || whole || cold) {
        printf("[%s %s: expected %s from %.10g to %.10g]\n", c->name, text,
               c->action == ACT_INTEGER ? "an integer" : "a number", c->low, c->high);
        return;
    }
    if (c->action == ACT_INTEGER)
        *(int64_t *)field = (int64_t)number;
    else
        *(double *)field = number;
    engine_set_sampling(s->engine, &s->options.generation);
}

// Takes a line that begins with a slash. False: the conversation ends.
static bool take_command(Session *s, const char *line) {
    size_t size = strcspn(line, " \t");
    const char *value = line + size + strspn(line + size, " \t");
    const char *names[COMMAND_COUNT];
    const ChatCommand *found = NULL;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strlen(names[i]) == size && !strncmp(names[i], line, size)) found = &commands[i];
    }
    if (!found) {
        Arena arena = {0};
        const char *near = strbuf_nearest(arena_format(&arena, "%.*s", (int)size, line), names, COMMAND_COUNT);
        printf("[no command %.*s; %s%s]\n", (int)size, line, near ? "did you mean " : "see ", near ? near : "/help");
        arena_close(&arena);
        return true;
    }
    if (found->action != ACT_SYSTEM && !*found->value != !*value) {
        printf("[%s takes %s]\n", found->name, *found->value ? "a value" : "no value");
        return true;
    }
    switch (found->action) {
    case ACT_HELP: help(s); break;
    case ACT_RESET: reset(s); break;
    case ACT_RETRY: retry(s); break;
    case ACT_SYSTEM:
        strbuf_clear(&s->system);
        if (s->options.plain)
            printf("[without a chat template there is no system message]\n");
        else
            strbuf_puts(&s->system, value);
        break;
    case ACT_REAL:
    case ACT_INTEGER: set_number(s, found, value); break;
    case ACT_END: return false;
    }
    return true;
}

// ---- the conversation

static const char fence[] = "\"\"\"";

// The lines after a line of fence, up to the next one.
static LineEvent read_block(Session *s, StrBuf *text) {
    const char *line;
    LineEvent event;
    while ((event = line_editor_read(s->editor, &line, ". ")) == LINE_TEXT && strcmp(line, fence)) {
        if (text->length) strbuf_putc(text, '\n');
        strbuf_puts(text, line);
    }
    return event;
}

// False: the conversation ends.
static bool take_line(Session *s) {
    const char *line;
    StrBuf text = {0};
    LineEvent event = line_editor_read(s->editor, &line, "> ");
    bool block = event == LINE_TEXT && !strcmp(line, fence), more = true;
    if (block) {
        event = read_block(s, &text);
    } else if (event == LINE_TEXT) {
        line_editor_remember(s->editor, line);
        strbuf_puts(&text, line);
    }
    if (event == LINE_INTERRUPT && !block)
        printf("[Ctrl-D or /exit ends the conversation]\n");
    else if (event == LINE_END)
        more = false;
    else if (event == LINE_TEXT && !block && text.length && text.text[0] == '/' && text.text[1] != '/')
        more = take_command(s, text.text);
    else if (event == LINE_TEXT && text.length)
        say(s, text.text + (!block && text.text[0] == '/'));
    strbuf_close(&text);
    return more;
}

// WHET_HISTORY, else whet/history in the folder of the user's programs' state; NULL: none.
static const char *history_file(Arena *arena) {
    const char *given = getenv("WHET_HISTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (given) return *given ? given : NULL;
    if (!(state && *state) && !(home && *home)) return NULL;
    const char *folder =
        state && *state ? arena_format(arena, "%s/whet", state) : arena_format(arena, "%s/.local/state/whet", home);
    Error error;
    return file_make_folders(folder, &error) ? arena_format(arena, "%s/history", folder) : NULL;
}

bool chat_session_run(Runtime *runtime, const ChatOptions *options, Error *error) {
    Arena arena = {0};
    Session s = {.runtime = runtime, .options = *options};
    const LoadedModel *model = &runtime->model;
    GenerationOptions generation = options->generation;
    generation.max_new_tokens = generation.max_length; // the limit may be moved while the engine is open
    EngineStops stops = {model->tokenizer, model->stop_ids, model->stop_count};
    bool good = engine_open(&s.engine, &runtime->resident, &generation, stops, error);
    if (good) {
        s.messages = json_array();
        strbuf_puts(&s.system, options->system ? options->system : "");
        line_editor_open(&s.editor, history_file(&arena));
        printf("%s, %lld tokens of context%s. /help lists the commands, Ctrl-D ends.\n", model->path,
               (long long)generation.max_length, options->plain ? "; it continues the text that you type" : "");
        while (good && take_line(&s)) good = output_flush(error);
    }
    line_editor_close(s.editor);
    json_decref(s.messages);
    bpe_list_close(&s.text);
    strbuf_close(&s.system);
    engine_close(s.engine);
    arena_close(&arena);
    return good;
}
