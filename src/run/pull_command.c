#include "run/pull_command.h"

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "run/data_pull.h"
#include "run/hub_pull.h"
#include "text/published_rows.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// What has come stays on the disk as it is; here it is only said.
static void on_interrupt(int number) {
    static const char text[] = "\nwhet pull: interrupted; what has come is kept, the same command goes on from there\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(128 + number);
    signal(number, SIG_DFL);
    raise(number);
}

static bool refuse_operand(Arguments *arguments, const char *operand, Arena *arena, Error *error) {
    const char *const *names;
    size_t count = data_pull_names(&names, arena);
    const char *near = strbuf_nearest(operand, names, count);
    command_misuse(arguments);
    if (near)
        return error_set(error, "'%s' is neither ORG/NAME nor a known data set; did you mean '%s'?", operand, near);
    return error_set(error, "'%s' is neither ORG/NAME of the hub nor a known data set (%s)", operand, names[0]);
}

// Sets in formats that whet does not read, or too many of them to know each file's digest.
static bool refuse_rows(const PublishedRows *rows, Arena *arena, Error *error) {
    const char *folder;
    if (!cache_folder_data(&folder, rows->name, arena, error)) return false;
    return error_set(error, "'%s' is not fetched: %s; put them into %s/train.jsonl", rows->name,
                     published_rows_remedy(rows, arena), folder);
}

// The options of a model refuse what another option or the operand has said otherwise.
static bool read_choice(HubPullOptions *options, Arguments *arguments, Arena *arena, Error *error) {
    const char *revision = command_text(arguments, "--revision"), *file = command_text(arguments, "--file");
    HubName *name = &options->name;
    const char **globs = arena_array(arena, const char *, arguments->given_count);
    if ((revision && name->revision) || (file && name->file))
        return command_misuse(arguments) ||
               error_set(error, "%s is given twice: in %s and by its option",
                         revision && name->revision ? "the revision" : "the file", arguments->operands[0]);
    if (revision) name->revision = revision;
    if (file) name->file = file;
    if (name->revision && !hub_name_is_inside(name->revision))
        return command_misuse(arguments) ||
               error_set(error, "'%s' is no name of a branch, tag or commit", name->revision);
    if (name->file && !hub_name_is_inside(name->file))
        return command_misuse(arguments) || error_set(error, "'%s' is no name of a file in a repository", name->file);
    for (const char *glob; (glob = command_repeated(arguments, "--include", (int)options->choice.glob_count));)
        globs[options->choice.glob_count++] = glob;
    options->choice.globs = globs;
    options->choice.file = name->file;
    return !(name->file && options->choice.glob_count) || command_misuse(arguments) ||
           error_set(error, "give either --file or --include");
}

static bool refuse_model_options(Arguments *arguments, const char *why, Error *error) {
    static const char *const names[] = {"--revision", "--file", "--include"};
    for (int i = 0; i < 3; i++)
        if (command_text(arguments, names[i]))
            return command_misuse(arguments) || error_set(error, "%s: %s", names[i], why);
    return true;
}

static bool pull(const char **path, Arguments *arguments, Arena *arena, Error *error) {
    const char *operand = *path = arguments->operands[0], *from = command_text(arguments, "--from");
    HubPullOptions options = {0};
    if (data_pull_knows(operand))
        return refuse_model_options(arguments, "only for models", error) &&
               data_pull(path, operand, from, arena, error);
    const PublishedRows *rows = published_rows_of(operand);
    if (rows) return refuse_rows(rows, arena, error);
    if (from) return command_misuse(arguments) || error_set(error, "--from: only for data sets");
    if (file_exists(operand)) {
        if (!refuse_model_options(arguments, "the operand is a path on this machine", error)) return false;
        log_info("%s: is on this machine; nothing to fetch", operand);
        return true;
    }
    if (!hub_name_parse(&options.name, operand, arena)) return refuse_operand(arguments, operand, arena, error);
    return read_choice(&options, arguments, arena, error) && hub_pull(path, &options, arena, error);
}

static bool run_pull(Arguments *arguments, Error *error) {
    Arena arena = {0};
    const char *path;
    if (command_switch(arguments, "--quiet")) log_set_level(LOG_WARNINGS);
    if (signal(SIGINT, on_interrupt) == SIG_IGN) signal(SIGINT, SIG_IGN); // as the shell has it for its background
    signal(SIGTERM, on_interrupt);
    bool good = pull(&path, arguments, &arena, error);
    if (good) puts(path);
    arena_close(&arena);
    return good;
}

const Command pull_command = {
    .verb = "pull",
    .operands = "MODEL|DATA",
    .summary = "Fetches a model of the Hugging Face hub, or a data set, into the cache, and prints where it lies.",
    .min_operands = 1,
    .max_operands = 1,
    .details = "MODEL is ORG/NAME, also ORG/NAME@REVISION and ORG/NAME/FILE.gguf; afterwards every MODEL and "
               "policy.model_name may be "
               "written like that. Of a folder of safetensors what whet reads is fetched: configuration, tokenizer, "
               "chat template, "
               "weights. Of a repository with several GGUF files --file chooses one; without it they are listed. Every "
               "file is "
               "checked against its digest, also those that are in the cache already.\n"
               "\n"
               "DATA is gsm8k (or openai/gsm8k).\n"
               "\n"
               "The cache is that of the hub's other clients: HF_HUB_CACHE, else HF_HOME/hub, else "
               "~/.cache/huggingface/hub; data sets "
               "go into WHET_CACHE, else ~/.cache/whet. HF_TOKEN (or HF_HOME/token) is for private and gated models, "
               "HF_ENDPOINT "
               "for another server, HF_HUB_OFFLINE=1 for no request at all; proxies and certificates are curl's "
               "https_proxy and "
               "CURL_CA_BUNDLE. An interrupted pull goes on where it stopped.",
    .examples = "whet pull HuggingFaceTB/SmolLM2-135M-Instruct\n"
                "whet pull ORG/NAME-GGUF --file NAME.Q8_0.gguf\n"
                "whet pull ORG/NAME --revision v1.0\n"
                "whet pull ORG/NAME --include '*.json' --include '*.txt'\n"
                "whet pull gsm8k\n"
                "whet pull gsm8k --from FOLDER  # without a network",
    .options = {{"--revision", "R", "branch, tag or commit of the model (default main)"},
                {"--include", "GLOB…", "fetch the files that match instead of what whet needs"},
                {"--file", "F", "fetch this file alone, like one of several GGUF files"},
                {"--from", "FOLDER", "take the files of the data set from a folder"},
                {"--quiet", NULL, "print the path and warnings only"}},
    .run = run_pull,
};
