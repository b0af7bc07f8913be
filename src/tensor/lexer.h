// SPDX-License-Identifier: MIT
//
// Splits the text into tokens, one at a time, with Python's rules for indentation.
#pragma once

#include "tensor/source.h"

enum mmul_token_kind {
    MMUL_TOKEN_NAME, // also keywords
    MMUL_TOKEN_NUMBER,
    MMUL_TOKEN_STRING, // including the quotes; also f-strings
    MMUL_TOKEN_OPERATOR,
    MMUL_TOKEN_NEWLINE,
    MMUL_TOKEN_INDENT,
    MMUL_TOKEN_DEDENT,
    MMUL_TOKEN_END,
};

struct mmul_token {
    enum mmul_token_kind kind;
    struct mmul_span at;
    struct mmul_span inside; // string: the text between the quotes
    bool is_format;          // string: marks an f-string
};

enum { MMUL_INDENTS_MOST = 32 };

struct mmul_lexer {
    const struct mmul_source *source; // borrowed
    int at, end;
    int brackets; // number of open brackets; newlines inside brackets are blanks
    int indents[MMUL_INDENTS_MOST], indent_count, dedents;
    bool is_line_begun;
};

// Starts at `part` of the source. is_expression: the part is a single expression without lines.
void mmul_lexer_init(struct mmul_lexer *lexer, const struct mmul_source *source,
                     struct mmul_span part, bool is_expression);

// Reads the next token. Fails with MMUL_ERR_DATA if the text is no token of the language.
enum mmul_status mmul_lexer_next(struct mmul_lexer *lexer, struct mmul_token *token,
                                 struct mmul_error *err);
