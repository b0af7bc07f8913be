// SPDX-License-Identifier: MIT
//
// A program as a tree. Nodes have their children as a list.
#pragma once

#include "tensor/source.h"

enum mmul_node_kind {
    MMUL_NODE_ABSENT,    // a bound of a slice that is not there
    MMUL_NODE_NUMBER,    // .integer, .real
    MMUL_NODE_STRING,    // .text
    MMUL_NODE_FORMAT,    // f"...": strings, expressions and fields
    MMUL_NODE_FIELD,     // {x:.3f} of f"...": of one; .text: the format
    MMUL_NODE_CONSTANT,  // .text: True, False or None
    MMUL_NODE_NAME,      // .text
    MMUL_NODE_TUPLE,     // its elements
    MMUL_NODE_NEGATIVE,  // of one
    MMUL_NODE_BINARY,    // .text: the operator; of two
    MMUL_NODE_LOGIC,     // .text: and, or; of two or more
    MMUL_NODE_NOT,       // of one
    MMUL_NODE_CALL,      // what is called, then arguments
    MMUL_NODE_KEYWORD,   // .text=child: an argument, a parameter with a default
    MMUL_NODE_ATTRIBUTE, // child.text
    MMUL_NODE_SUBSCRIPT, // x[...]: x, then a slice or an expression for each axis
    MMUL_NODE_SLICE,     // two bounds, and a step where it is written
    // Statements
    MMUL_NODE_BLOCK,      // a statement each
    MMUL_NODE_ASSIGN,     // a name, or a tuple of them; and a value
    MMUL_NODE_EXPRESSION, // a value
    MMUL_NODE_FOR,        // a name, or a tuple of them; what it goes over; a block
    MMUL_NODE_IF,         // a condition, a block, and perhaps another block
    MMUL_NODE_DEF,        // .text; names or keywords in a tuple, a block
    MMUL_NODE_RETURN,     // a value, or nothing
    MMUL_NODE_BREAK,      // of the innermost loop around it
    MMUL_NODE_CONTINUE,   // the same
};

struct mmul_node {
    enum mmul_node_kind kind;
    struct mmul_span at;
    const char *text; // of the arena; see above
    bool is_integer;  // of a number
    int64_t integer;
    double real;
    int depth; // 1: no children; operators one after the other are one level
    struct mmul_node *first, *last, *next;
    const struct mmul_node *outer; // of an operator: the one whose left side it is; NULL: none
};

struct mmul_tree {
    const struct mmul_source *source; // borrowed
    struct mmul_arena *arena;         // borrowed
    struct mmul_node *root;           // a block
};

// Of a loop: "range" or "loop", a call of which it goes over; NULL: over something else.
const char *mmul_node_range(const struct mmul_node *loop);

// Does a loop have a break of its own?
bool mmul_node_breaks(const struct mmul_node *loop);

// Fails with MMUL_ERR_DATA (a line, what is wrong, and what the language has instead), MMUL_ERR_SYSTEM.
enum mmul_status mmul_tree_parse(const struct mmul_source *source, struct mmul_arena *arena,
                                 struct mmul_tree *tree, struct mmul_error *err);

// ----------------------------------------------------------------------------------- refusals.c

// What is Python, but not of the part that this language is, begins with this word or operator: a name for
// it. NULL: nothing that we know.
struct mmul_refusal {
    const char *word, *what, *hint; // hint: NULL: none
};
const struct mmul_refusal *mmul_refusal_find(const char *word);

// What the language has instead of a function of numpy's that it has not. NULL: nothing that we know.
const char *mmul_refusal_instead(const char *name);
