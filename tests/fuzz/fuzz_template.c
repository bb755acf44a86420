// Fuzz target: chat templates, parsed and rendered with conversations that have everything in them.
#include "fuzz/fuzz_files.h"
#include "text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "[{\"role\": \"system\", \"content\": \"Be brief. \\u00e9\"}, {\"role\": \"user\", \"content\": \"  2 + 2?\\n\"},"
    " {\"role\": \"assistant\", \"content\": \"<think>easy</think>4\", \"reasoning_content\": \"r\", \"tool_calls\":"
    " [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null, true]}}}]},"
    " {\"role\": \"tool\", \"name\": \"f\", \"content\": [{\"type\": \"text\", \"text\": \"t\"}]},"
    " {\"role\": \"user\", \"content\": \"\", \"n\": -12345678901}]";
static const char extra[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true, \"l\": "
                            "[3, 1, 2], \"s\": \"abc\","
                            " \"d\": {\"a\": 1, \"b\": [2]}, \"n\": null, \"f\": 1.5, \"enable_thinking\": false,"
                            " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": "
                            "\"d\", \"parameters\": {}}}]}";
static const ChatClock clock = {2024, 2, 29, 13, 5, 9, 0};
static json_t *messages, *variables;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error error = {{0}};
    ChatTemplate *template = NULL;
    if (!messages) {
        messages = json_loads(conversation, 0, NULL);
        variables = json_loads(extra, 0, NULL);
        CHECK(messages && variables, "the conversation is no JSON");
    }
    if (!chat_open(&template, (const char *)data, size, "x.jinja", &error)) {
        fuzz_files_refused(&error);
        return 0;
    }
    StrBuf text = {0};
    Arena arena = {0};
    ChatDetails details = {.clock = &clock, .arena = &arena};
    if (!chat_render(template, &text, messages, variables, &details, &error)) fuzz_files_refused(&error);
    for (size_t i = 0; i < details.span_count; i++)
        CHECK(details.spans[i].start <= details.spans[i].end && details.spans[i].end <= text.length, "span %zu", i);
    arena_close(&arena);
    strbuf_close(&text);
    chat_close(template);
    return 0;
}
