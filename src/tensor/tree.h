// SPDX-License-Identifier: MIT
//
// The syntax tree of a program. A node keeps its children in a linked list.
#pragma once

#include "tensor/source.h"

enum mmul_node_kind {
    MMUL_NODE_ABSENT,    // an omitted bound of a slice
    MMUL_NODE_NUMBER,    // .integer, .real
    MMUL_NODE_STRING,    // .text
    MMUL_NODE_FORMAT,    // f"...": strings, expressions and fields
    MMUL_NODE_FIELD,     // {x:.3f} inside f"...": one child; .text: the format
    MMUL_NODE_CONSTANT,  // .text: True, False or None
    MMUL_NODE_NAME,      // .text
    MMUL_NODE_TUPLE,     // the elements
    MMUL_NODE_NEGATIVE,  // one operand
    MMUL_NODE_BINARY,    // .text: the operator; two operands
    MMUL_NODE_LOGIC,     // .text: and, or; two or more operands
    MMUL_NODE_NOT,       // one operand
    MMUL_NODE_CALL,      // the callee, then the arguments
    MMUL_NODE_KEYWORD,   // .text=child: a keyword argument, or a parameter with default
    MMUL_NODE_ATTRIBUTE, // child.text
    MMUL_NODE_SUBSCRIPT, // x[...]: x, then a slice or an expression per axis
    MMUL_NODE_SLICE,     // two bounds, and a step if present
    // Statements
    MMUL_NODE_BLOCK,      // one child per statement
    MMUL_NODE_ASSIGN,     // a name or a tuple of names; a value
    MMUL_NODE_EXPRESSION, // a value
    MMUL_NODE_FOR,        // a name or a tuple of names, an iterable, a block
    MMUL_NODE_IF,         // a condition, a block, and optionally an else block
    MMUL_NODE_DEF,        // .text; a tuple of names or keywords, then a block
    MMUL_NODE_RETURN,     // a value, or no child
    MMUL_NODE_BREAK,      // leaves the innermost loop
    MMUL_NODE_CONTINUE,   // continues the innermost loop
};

struct mmul_node {
    enum mmul_node_kind kind;
    struct mmul_span at;
    const char *text; // in the arena; meaning as listed above
    bool is_integer;  // the number is an integer
    int64_t integer;
    double real;
    int depth; // height of the subtree, 1 for a leaf; a chain of operators counts once
    struct mmul_node *first, *last, *next;
    const struct mmul_node *outer; // parent operator if this is its left operand, else NULL
};

struct mmul_tree {
    const struct mmul_source *source; // borrowed
    struct mmul_arena *arena;         // borrowed
    struct mmul_node *root;           // a block
};

// Returns "range" or "loop" if the loop iterates over such a call, else NULL.
const char *mmul_loop_iterable(const struct mmul_node *loop);

// Returns true if the loop contains a break of its own.
bool mmul_loop_has_break(const struct mmul_node *loop);

// Parses `source`. Fails with MMUL_ERR_DATA (line, problem, and the alternative in this language)
// or MMUL_ERR_SYSTEM.
enum mmul_status mmul_tree_parse(const struct mmul_source *source, struct mmul_arena *arena,
                                 struct mmul_tree *tree, struct mmul_error *err);

// ----------------------------------------------------------------------------------- refusals.c

// Describes a Python construct that this language lacks, by the word or operator it begins with.
// Returns NULL for an unknown word.
struct mmul_missing_construct {
    const char *word, *what, *hint; // `hint` is NULL if there is no alternative
};
const struct mmul_missing_construct *mmul_refusal_find(const char *word);

// Returns the replacement for a numpy function that this language lacks. NULL if none is known.
const char *mmul_refusal_find_alternative(const char *name);
