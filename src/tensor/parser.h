// SPDX-License-Identifier: MIT
//
// What the two halves of the parser share: expressions (parse_expression.c) and statements (parser.c).
#pragma once

#include "tensor/lexer.h"
#include "tensor/tree.h"

struct mmul_parser {
    struct mmul_lexer lexer;
    struct mmul_token token;  // at hand
    int last_end;             // where the one before it ended
    struct mmul_arena *arena; // borrowed
    int depth;
    int loops;              // around the statement at hand, inside of its function
    struct mmul_error *err; // borrowed
};

enum mmul_status mmul_parser_advance(struct mmul_parser *parser);

// Is the token at hand this name or operator?
bool mmul_parser_sees(const struct mmul_parser *parser, const char *word);

// Fails unless it is, and takes it.
enum mmul_status mmul_parser_expect(struct mmul_parser *parser, const char *word,
                                    const char *where);

// The token at hand is not what should be here: by its name where it is Python's.
enum mmul_status mmul_parser_fail(struct mmul_parser *parser, const char *expected);

enum mmul_status mmul_parser_node(struct mmul_parser *parser, enum mmul_node_kind kind,
                                  struct mmul_span at, struct mmul_node **node);

// Fails when the tree becomes too deep.
enum mmul_status mmul_parser_add(struct mmul_parser *parser, struct mmul_node *parent,
                                 struct mmul_node *child);

// A copy of what stands there.
enum mmul_status mmul_parser_copy(struct mmul_parser *parser, struct mmul_span at,
                                  const char **text);

// A name that may be assigned to.
enum mmul_status mmul_parser_name(struct mmul_parser *parser, struct mmul_node **node);

// left OPERATOR right, in place of the left side.
enum mmul_status mmul_parser_join(struct mmul_parser *parser, const char *operator,
                                  struct mmul_node ** left, struct mmul_node *right);

// One expression; `several`: with commas a tuple.
enum mmul_status mmul_parse_expression(struct mmul_parser *parser, bool several,
                                       struct mmul_node **node);
