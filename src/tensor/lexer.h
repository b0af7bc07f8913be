// SPDX-License-Identifier: MIT
//
// Words of the text, one after the other; indentation as Python has it.
#pragma once

#include "tensor/source.h"

enum mmul_token_kind {
    MMUL_TOKEN_NAME, // keywords too
    MMUL_TOKEN_NUMBER,
    MMUL_TOKEN_STRING, // quotes included; f-strings too
    MMUL_TOKEN_OPERATOR,
    MMUL_TOKEN_NEWLINE,
    MMUL_TOKEN_INDENT,
    MMUL_TOKEN_DEDENT,
    MMUL_TOKEN_END,
};

struct mmul_token {
    enum mmul_token_kind kind;
    struct mmul_span at;
    struct mmul_span inside; // of a string: what is between the quotes
    bool is_format;          // of a string: f"..."
};

enum { MMUL_INDENTS_MOST = 32 };

struct mmul_lexer {
    const struct mmul_source *source; // borrowed
    int at, end;
    int brackets; // that are open: line ends are blanks
    int indents[MMUL_INDENTS_MOST], indent_count, dedents;
    bool is_line_begun;
};

// Of all of the source, or of an expression inside of it (`part`: no lines).
void mmul_lexer_init(struct mmul_lexer *lexer, const struct mmul_source *source,
                     struct mmul_span part, bool is_expression);

// Fails with MMUL_ERR_DATA: what is no word of the language.
enum mmul_status mmul_lexer_next(struct mmul_lexer *lexer, struct mmul_token *token,
                                 struct mmul_error *err);
