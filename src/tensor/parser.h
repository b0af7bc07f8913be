// SPDX-License-Identifier: MIT
//
// The interface between the two halves of the parser: expressions (parse_expression.c) and
// statements (parser.c).
#pragma once

#include "tensor/lexer.h"
#include "tensor/tree.h"

struct mmul_parser {
    struct mmul_lexer lexer;
    struct mmul_token token;  // current token
    int last_end;             // end of the previous token
    struct mmul_arena *arena; // borrowed
    int depth;
    int loops;              // loops around the current statement, within its function
    struct mmul_error *err; // borrowed
};

enum mmul_status mmul_parser_advance(struct mmul_parser *parser);

// Returns true if the current token is this name or operator.
bool mmul_parser_sees(const struct mmul_parser *parser, const char *word);

// Consumes the current token if it is `word`, else fails.
enum mmul_status mmul_parser_expect(struct mmul_parser *parser, const char *word,
                                    const char *where);

// Reports an unexpected token. A construct of Python that the language lacks is named.
enum mmul_status mmul_parser_fail(struct mmul_parser *parser, const char *expected);

enum mmul_status mmul_parser_node(struct mmul_parser *parser, enum mmul_node_kind kind,
                                  struct mmul_span at, struct mmul_node **node);

// Appends a child. Fails if the tree becomes too deep.
enum mmul_status mmul_parser_add(struct mmul_parser *parser, struct mmul_node *parent,
                                 struct mmul_node *child);

// Copies the text of a span into the arena.
enum mmul_status mmul_parser_copy(struct mmul_parser *parser, struct mmul_span at,
                                  const char **text);

// Parses a name that can be assigned to.
enum mmul_status mmul_parser_name(struct mmul_parser *parser, struct mmul_node **node);

// Replaces *left by the node `left OPERATOR right`.
enum mmul_status mmul_parser_join(struct mmul_parser *parser, const char *symbol,
                                  struct mmul_node **left, struct mmul_node *right);

// Parses one expression. several: a comma makes it a tuple.
enum mmul_status mmul_parse_expression(struct mmul_parser *parser, bool several,
                                       struct mmul_node **node);
