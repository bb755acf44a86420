#include "run/completion_command.h"

#include "base/strbuf.h"
#include "config/settings_table.h"
#include "run/verbs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// ---- what may stand where

// How a word of the command line is completed; the names are those that the scripts use.
static const char *const kind_names[] = {"none", "file", "folder", "model", "verb", "key", "words"};
typedef enum WordKind { WORD_NONE, WORD_FILE, WORD_FOLDER, WORD_MODEL, WORD_VERB, WORD_KEY, WORD_CHOICES } WordKind;

// A word of Command.operands, or the value of an option: "[PROMPT]", "key=value", "bash|zsh|fish".
typedef struct Word {
    char text[64]; // without brackets
    WordKind kind;
    bool more; // this one may be repeated
} Word;

static Word word_of(const char *from, size_t size) {
    static const struct {
        const char *name;
        WordKind kind;
    } known[] = {{"FILE", WORD_FILE},  {"RECIPE", WORD_FILE},       {"FOLDER", WORD_FOLDER},
                 {"DIR", WORD_FOLDER}, {"RUN", WORD_FOLDER},        {"MODEL", WORD_MODEL},
                 {"VERB", WORD_VERB},  {"CHECKPOINT", WORD_FOLDER}, {"key=value", WORD_KEY}};
    Word word = {.kind = WORD_NONE};
    size_t length = 0;
    for (size_t i = 0; i < size && length + 1 < sizeof word.text; i++)
        if (from[i] != '[' && from[i] != ']') word.text[length++] = from[i];
    char *more = strstr(word.text, "…");
    word.more = more != NULL;
    if (more) *more = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(word.text, known[i].name)) word.kind = known[i].kind;
    // Alternatives in capitals stand for something else.
    if (strchr(word.text, '|') && islower((unsigned char)word.text[0])) word.kind = WORD_CHOICES;
    return word;
}

// The operand at *at, which moves on; "…" by itself belongs to the word before it.
static bool next_operand(Word *word, const char **at) {
    while (**at == ' ') ++*at;
    if (!**at) return false;
    size_t size = strcspn(*at, " ");
    *word = word_of(*at, size);
    *at += size;
    if (strncmp(*at, " …", strlen(" …"))) return true;
    word->more = true;
    *at += strcspn(*at + 1, " ") + 1;
    return true;
}

static Word value_of(const CommandOption *option) {
    return word_of(option->value, strlen(option->value));
}

// The alternatives of "a|b" or "a, b", parted by blanks.
static void put_choices(StrBuf *out, const char *text) {
    for (; *text; text++)
        if (*text == '|')
            strbuf_putc(out, ' ');
        else if (*text != ',')
            strbuf_putc(out, *text);
}

// ---- keys of recipes

static int by_key(const void *a, const void *b) {
    const Setting *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

// The honoured settings, sorted.
static const Setting **honoured(size_t *count, Arena *arena) {
    const Setting **settings = arena_array(arena, const Setting *, settings_table_count);
    *count = 0;
    for (size_t i = 0; i < settings_table_count; i++)
        // "env.<name>.…" is many keys, of names that the recipe chooses.
        if (settings_table[i].class == SETTING_HONOURED && settings_table[i].type != SETTING_GROUP &&
            !strchr(settings_table[i].key, '<'))
            settings[(*count)++] = &settings_table[i];
    qsort(settings, *count, sizeof *settings, by_key);
    return settings;
}

// Appends the values of a setting; false when they cannot be listed.
static bool put_values(StrBuf *out, const Setting *setting) {
    if (setting->type == SETTING_BOOL)
        strbuf_puts(out, "true false");
    else if (setting->allowed)
        put_choices(out, setting->allowed);
    else
        return false;
    return true;
}

static void put_keys(StrBuf *out, const char *after) {
    Arena arena = {0};
    size_t count;
    const Setting **settings = honoured(&count, &arena);
    for (size_t i = 0; i < count; i++) strbuf_format(out, "%s%s\n", settings[i]->key, after);
    arena_close(&arena);
}

// The body of a `case` over keys, in the syntax that bash and zsh share; each line is `key) before VALUES after`.
static void put_key_cases(StrBuf *out, const char *before, const char *after) {
    Arena arena = {0};
    size_t count;
    const Setting **settings = honoured(&count, &arena);
    for (size_t i = 0; i < count; i++) {
        StrBuf values = {0};
        if (put_values(&values, settings[i]))
            strbuf_format(out, "    %s) %s%s%s ;;\n", settings[i]->key, before, values.text, after);
        strbuf_close(&values);
    }
    arena_close(&arena);
}

// ---- bash

static const char bash_head[] =
    "# Completion of whet for bash, made by `whet completion bash`. Use:  source <(whet completion bash)\n"
    "_whet_models() { # names of models in the hub's cache\n"
    "    local folder hub=${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub\n"
    "    for folder in \"${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-$hub}}\"/models--*/; do\n"
    "        [ -d \"$folder\" ] || continue\n"
    "        folder=${folder%/} folder=${folder##*/models--}\n"
    "        echo \"${folder//--//}\"\n"
    "    done\n"
    "}\n";

static const char bash_tail[] =
    "# One part of a dotted key at a time.\n"
    "_whet_complete_key() {\n"
    "    local sign=${1%%[!+~]*} key rest last=\n"
    "    local word=${1#\"$sign\"}\n"
    "    compopt -o nospace 2>/dev/null\n"
    "    for key in $_whet_keys; do\n"
    "        case $key in \"$word\"*) ;; *) continue ;; esac\n"
    "        rest=${key#\"$word\"}\n"
    "        case $rest in\n"
    "        *.*) key=$word${rest%%.*}. ;;\n"
    "        *) [ \"$sign\" = '~' ] || key=$key= ;;\n"
    "        esac\n"
    "        [ \"$key\" = \"$last\" ] || COMPREPLY+=(\"$sign$key\")\n"
    "        last=$key\n"
    "    done\n"
    "}\n"
    "_whet_complete() { # KIND WORD BEFORE: what a word of this kind may be, with BEFORE put before it\n"
    "    local IFS=$'\\n' kind=${1%% *}\n"
    "    case $kind in\n"
    "    file | folder | model)\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        local flag=-f\n"
    "        [ \"$kind\" = folder ] && flag=-d\n"
    "        COMPREPLY=($(compgen \"$flag\" -P \"$3\" -- \"$2\"))\n"
    "        [ \"$kind\" = model ] && COMPREPLY+=($(compgen -P \"$3\" -W \"$(_whet_models)\" -- \"$2\"))\n"
    "        ;;\n"
    "    words) IFS=' '; COMPREPLY=($(IFS=$'\\n '; compgen -P \"$3\" -W \"${1#words }\" -- \"$2\" | tr '\\n' ' ')) ;;\n"
    "    key) IFS=$' \\n'; _whet_complete_key \"$2\" ;;\n"
    "    esac\n"
    "}\n"
    "_whet() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} named= verb=${COMP_WORDS[1]} kind "
    "i\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "        _whet_complete \"words $_whet_verbs --help --version\" \"$word\"\n"
    "        return\n"
    "    fi\n"
    "    # bash parts --name=value into three words\n"
    "    if [ \"$word\" = = ]; then\n"
    "        named=$before word=\n"
    "    elif [ \"$before\" = = ]; then\n"
    "        named=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    elif [[ $word == *=* ]]; then\n"
    "        named=${word%%=*}\n"
    "        word=${word#*=}\n"
    "        kind=$(_whet_value \"$verb $named\" || _whet_key_value \"${named##*[+~]}\")\n"
    "        _whet_complete \"$kind\" \"$word\" \"$named=\"\n"
    "        return\n"
    "    elif [[ $before == --* ]] && kind=$(_whet_value \"$verb $before\"); then\n"
    "        named=$before\n"
    "    fi\n"
    "    if [ -n \"$named\" ]; then\n"
    "        _whet_complete \"$(_whet_value \"$verb $named\" || _whet_key_value \"${named##*[+~]}\")\" \"$word\"\n"
    "        return\n"
    "    fi\n"
    "    if [[ $word == -* ]]; then\n"
    "        _whet_complete \"words $(_whet_options \"$verb\")\" \"$word\"\n"
    "        return\n"
    "    fi\n"
    "    local operand=1\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        =) ((i++)) ;;\n"
    "        --*) [ \"${COMP_WORDS[i + 1]}\" != = ] && _whet_value \"$verb ${COMP_WORDS[i]}\" >/dev/null && ((i++)) "
    ";;\n"
    "        *) ((operand++)) ;;\n"
    "        esac\n"
    "    done\n"
    "    _whet_complete \"$(_whet_operand \"$verb\" \"$operand\")\" \"$word\"\n"
    "}\n"
    "complete -F _whet whet\n";

// "file", or "words a b c".
static void put_bash_kind(StrBuf *out, const Word *word) {
    strbuf_puts(out, kind_names[word->kind]);
    if (word->kind != WORD_CHOICES) return;
    strbuf_putc(out, ' ');
    put_choices(out, word->text);
}

static void put_bash_values(StrBuf *out) {
    int count;
    const Command *const *verbs = verbs_all(&count);
    strbuf_puts(out, "_whet_value() { # \"VERB OPTION\": what its value is; fails for a switch\n    case $1 in\n");
    for (int v = 0; v < count; v++)
        for (int i = 0; i < command_option_count(verbs[v]); i++) {
            const CommandOption *option = &verbs[v]->options[i];
            if (command_is_heading(option) || !option->value) continue;
            Word word = value_of(option);
            strbuf_format(out, "    '%s %s') echo '", verbs[v]->verb, option->name);
            put_bash_kind(out, &word);
            strbuf_puts(out, "' ;;\n");
        }
    strbuf_puts(out, "    *) return 1 ;;\n    esac\n}\n");
}

static void put_bash_operands(StrBuf *out) {
    int count;
    const Command *const *verbs = verbs_all(&count);
    strbuf_puts(out, "_whet_operand() { # VERB NUMBER: what its operand is\n    case \"$1 $2\" in\n");
    for (int v = 0; v < count; v++) {
        const char *at = verbs[v]->operands;
        Word word;
        for (int number = 1; next_operand(&word, &at); number++) {
            strbuf_format(out, word.more ? "    '%s '*) echo '" : "    '%s %d') echo '", verbs[v]->verb, number);
            if (word.kind == WORD_VERB)
                strbuf_puts(out, "'\"words $_whet_verbs\"'");
            else
                put_bash_kind(out, &word);
            strbuf_puts(out, "' ;;\n");
        }
    }
    strbuf_puts(out, "    *) echo none ;;\n    esac\n}\n");
}

static void put_bash(StrBuf *out) {
    int count;
    const Command *const *verbs = verbs_all(&count);
    strbuf_puts(out, bash_head);
    strbuf_puts(out, "_whet_verbs='");
    for (int v = 0; v < count; v++) strbuf_format(out, "%s%s", v ? " " : "", verbs[v]->verb);
    strbuf_puts(out, "'\n_whet_options() { # VERB\n    case $1 in\n");
    for (int v = 0; v < count; v++) {
        strbuf_format(out, "    %s) echo '--help", verbs[v]->verb);
        for (int i = 0; i < command_option_count(verbs[v]); i++)
            if (!command_is_heading(&verbs[v]->options[i])) strbuf_format(out, " %s", verbs[v]->options[i].name);
        strbuf_puts(out, "' ;;\n");
    }
    strbuf_puts(out, "    esac\n}\n");
    put_bash_values(out);
    put_bash_operands(out);
    strbuf_puts(out, "_whet_keys='");
    put_keys(out, "");
    strbuf_puts(out, "'\n_whet_key_value() { # KEY: what its value is\n    case $1 in\n");
    put_key_cases(out, "echo 'words ", "'");
    strbuf_puts(out, "    *) echo none ;;\n    esac\n}\n");
    strbuf_puts(out, bash_tail);
}

// ---- zsh

static const char zsh_head[] =
    "#compdef whet\n"
    "# Completion of whet for zsh, made by `whet completion zsh`. Use:  source <(whet completion zsh), after compinit\n"
    "_whet_models() {\n"
    "    local -a names\n"
    "    local hub=${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub\n"
    "    names=(${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-$hub}}/models--*(N/:t))\n"
    "    names=(${${names#models--}//--//})\n"
    "    _alternative 'names:cached model:compadd -a names' 'files:model:_files'\n"
    "}\n";

static const char zsh_keys[] = "    )\n"
                               "    if compset -P '*='; then\n"
                               "        key=${${IPREFIX%=}##[+~]##}\n"
                               "        case $key in\n";

// A text inside '[…]' or after ':' of an _arguments specification, itself in single quotes.
static void put_zsh_text(StrBuf *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            strbuf_puts(out, "'\\''");
        else {
            if (strchr("[]:\\", *text)) strbuf_putc(out, '\\');
            strbuf_putc(out, *text);
        }
    }
}

static void put_zsh_kind(StrBuf *out, const Word *word) {
    static const char *const actions[] = {" ", "_files", "_files -/", "_whet_models", "_whet_verbs", "_whet_keys", ""};
    put_zsh_text(out, word->text);
    strbuf_format(out, ":%s", actions[word->kind]);
    if (word->kind != WORD_CHOICES) return;
    strbuf_putc(out, '(');
    put_choices(out, word->text);
    strbuf_putc(out, ')');
}

static void put_zsh_verb(StrBuf *out, const Command *command) {
    strbuf_format(out, "    %s)\n        _arguments -S", command->verb);
    for (int i = 0; i < command_option_count(command); i++) {
        const CommandOption *option = &command->options[i];
        if (command_is_heading(option)) continue;
        strbuf_format(out, " \\\n            '%s%s%s[", command_repeats(option) ? "*" : "", option->name,
                      option->value ? "=" : "");
        put_zsh_text(out, option->help);
        strbuf_putc(out, ']');
        if (option->value) {
            Word word = value_of(option);
            strbuf_putc(out, ':');
            put_zsh_kind(out, &word);
        }
        strbuf_putc(out, '\'');
    }
    const char *at = command->operands;
    Word word;
    for (int number = 1; next_operand(&word, &at); number++) {
        strbuf_format(out, word.more ? " \\\n            '*:" : " \\\n            '%d:", number);
        put_zsh_kind(out, &word);
        strbuf_putc(out, '\'');
    }
    strbuf_puts(out, " \\\n            '(- *)--help[what the verb does and takes]'\n        ;;\n");
}

static void put_zsh(StrBuf *out) {
    int count;
    const Command *const *verbs = verbs_all(&count);
    strbuf_puts(out, zsh_head);
    strbuf_puts(out, "_whet_verbs() {\n    local -a verbs=(\n");
    for (int v = 0; v < count; v++) {
        strbuf_format(out, "        '%s:", verbs[v]->verb);
        put_zsh_text(out, verbs[v]->summary);
        strbuf_puts(out, "'\n");
    }
    strbuf_puts(out, "    )\n    _describe verb verbs\n}\n_whet_keys() {\n    local key\n    local -a keys=(\n");
    put_keys(out, "");
    strbuf_puts(out, zsh_keys);
    put_key_cases(out, "compadd ", "");
    strbuf_puts(out, "        esac\n        return\n    fi\n    compset -P '[+~]##'\n"
                     "    compadd -M 'r:|.=*' -S = -q -a keys\n}\n"
                     "_whet() {\n    if (( CURRENT == 2 )); then\n        _whet_verbs\n        return\n    fi\n"
                     "    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $verb in\n");
    for (int v = 0; v < count; v++) put_zsh_verb(out, verbs[v]);
    strbuf_puts(out, "    esac\n}\nif [[ $funcstack[1] = _whet ]]; then _whet \"$@\"; else compdef _whet whet; fi\n");
}

// ---- fish

static const char fish_head[] =
    "# Completion of whet for fish, made by `whet completion fish`. Use:  whet completion fish | source\n"
    "function __whet_models\n"
    "    set -l caches $XDG_CACHE_HOME ~/.cache\n"
    "    set -l homes $HF_HOME $caches[1]/huggingface\n"
    "    set -l hubs $HF_HUB_CACHE $HUGGINGFACE_HUB_CACHE $homes[1]/hub\n"
    "    for folder in $hubs[1]/models--*/\n"
    "        string replace -r '.*/models--(.*)/$' '$1' -- $folder | string replace -a -- -- /\n"
    "    end\n"
    "end\n"
    "complete -c whet -f\n"
    "complete -c whet -n __fish_use_subcommand -l version -d 'which whet this is'\n"
    "complete -c whet -l help -d 'what a verb does and takes'\n";

static void put_fish_text(StrBuf *out, const char *text) {
    strbuf_putc(out, '\'');
    for (; *text; text++) {
        if (strchr("'\\", *text)) strbuf_putc(out, '\\');
        strbuf_putc(out, *text);
    }
    strbuf_putc(out, '\'');
}

static void put_fish_kind(StrBuf *out, const Word *word) {
    if (word->kind == WORD_FILE || word->kind == WORD_MODEL) strbuf_puts(out, " -F");
    if (word->kind == WORD_FOLDER) strbuf_puts(out, " -a '(__fish_complete_directories)'");
    if (word->kind == WORD_MODEL) strbuf_puts(out, " -a '(__whet_models)'");
    if (word->kind == WORD_KEY || word->kind == WORD_CHOICES) {
        strbuf_puts(out, " -a '");
        if (word->kind == WORD_KEY)
            put_keys(out, "=");
        else
            put_choices(out, word->text);
        strbuf_putc(out, '\'');
    }
}

static void put_fish(StrBuf *out) {
    int count;
    const Command *const *verbs = verbs_all(&count);
    strbuf_puts(out, fish_head);
    for (int v = 0; v < count; v++) {
        strbuf_format(out, "complete -c whet -n __fish_use_subcommand -a %s -d ", verbs[v]->verb);
        put_fish_text(out, verbs[v]->summary);
        strbuf_putc(out, '\n');
        for (int i = 0; i < command_option_count(verbs[v]); i++) {
            const CommandOption *option = &verbs[v]->options[i];
            if (command_is_heading(option)) continue;
            strbuf_format(out, "complete -c whet -n '__fish_seen_subcommand_from %s' -l %s -d ", verbs[v]->verb,
                          option->name + strlen("--"));
            put_fish_text(out, option->help);
            if (option->value) {
                Word word = value_of(option);
                strbuf_puts(out, " -r");
                put_fish_kind(out, &word);
            }
            strbuf_putc(out, '\n');
        }
        const char *at = verbs[v]->operands;
        for (Word word; next_operand(&word, &at);) {
            if (word.kind == WORD_NONE) continue;
            strbuf_format(out, "complete -c whet -n '__fish_seen_subcommand_from %s'", verbs[v]->verb);
            if (word.kind == WORD_VERB)
                for (int i = 0; i < count; i++) strbuf_format(out, " -a %s", verbs[i]->verb);
            else
                put_fish_kind(out, &word);
            strbuf_putc(out, '\n');
        }
    }
}

static bool run_completion(Arguments *arguments, Error *error) {
    static const struct {
        const char *name;
        void (*put)(StrBuf *out);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(arguments->operands[0], shells[i].name)) continue;
        StrBuf script = {0};
        shells[i].put(&script);
        fwrite(script.text, 1, script.length, stdout);
        strbuf_close(&script);
        return true;
    }
    return command_misuse(arguments) ||
           error_set(error, "'%s' is none of the shells bash, zsh and fish", arguments->operands[0]);
}

const Command completion_command = {
    .verb = "completion",
    .operands = "bash|zsh|fish",
    .summary = "A script by which the shell completes verbs, options, their values, models and keys of recipes.",
    .min_operands = 1,
    .max_operands = 1,
    .examples = "source <(whet completion bash)   # now; in ~/.bashrc: always\n"
                "source <(whet completion zsh)    # after compinit\n"
                "whet completion fish | source\n",
    .run = run_completion,
};
