// From the words of a formula to its tree.
#pragma once
#include "text/answer_tree.h"

// The tree of a whole answer, in the arena, or NULL when the text cannot be read as mathematics. Units behind numbers and
// currency signs are dropped. With commas, "1,234" is one number, else a list.
Node *answer_parse(TextSpan text, bool commas, Arena *arena);

// New nodes, for those who rewrite trees.
Node *answer_node(Arena *arena, NodeKind kind, int count);
Node *answer_node_of(Arena *arena, NodeKind kind, Node *first, Node *second); // second may be NULL
