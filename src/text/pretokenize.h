// Splitting text into the pieces within which BPE merges: the pre-tokenizers Split, Digits, Whitespace, WhitespaceSplit,
// Metaspace and ByteLevel of the Hugging Face tokenizers library, each as one step: blanks replaced, a prefix put in front,
// a pattern that splits.
#pragma once
#include "text/pattern.h"

typedef enum PretokenizeBehavior { // what becomes of a match
    PRETOKENIZE_ISOLATED,          // a piece of its own
    PRETOKENIZE_REMOVED,
    PRETOKENIZE_MERGED_WITH_PREVIOUS, // joined to the text between it and the match before
    PRETOKENIZE_MERGED_WITH_NEXT,
    PRETOKENIZE_CONTIGUOUS, // matches that touch make one piece
} PretokenizeBehavior;

typedef enum PretokenizeWhen { PRETOKENIZE_NEVER, PRETOKENIZE_FIRST, PRETOKENIZE_ALWAYS } PretokenizeWhen;

typedef struct PretokenizeStep {
    const char *blank;           // what every U+0020 becomes; NULL: it stays
    const char *prefix;          // put in front of a piece that does not begin with it
    PretokenizeWhen when_prefix; // FIRST: only where the whole text begins
    Pattern *pattern;            // NULL: not split
    PretokenizeBehavior behavior;
    bool inverted; // what lies between matches counts as match
} PretokenizeStep;

// Working memory of one step. Zero-initialise; pretokenize_release when done.
typedef struct PretokenizeScratch {
    StrBuf text;
    PatternText prepared;
} PretokenizeScratch;

typedef struct PretokenizeItem {
    size_t at, size; // bytes; size 0: none
    bool match;
} PretokenizeItem;

// One text on its way through one step.
typedef struct PretokenizeCursor {
    const PretokenizeStep *step;
    PretokenizeScratch *scratch;
    const char *text;
    size_t size, at, character; // at: bytes read, character: as many characters
    PretokenizeItem ahead[2];   // read, not yet given out
    size_t ahead_count;
} PretokenizeCursor;

// text must stay until the last piece. first: it is where the whole text begins.
void pretokenize_begin(PretokenizeCursor *cursor, const PretokenizeStep *step, PretokenizeScratch *scratch,
                       const char *text, size_t size, bool first);

// The next piece, valid until the scratch is used again; *size 0 at the end. Fails only where the pattern does.
bool pretokenize_next(PretokenizeCursor *cursor, const char **piece, size_t *size, Error *error);

void pretokenize_release(PretokenizeScratch *scratch);
