// SPDX-License-Identifier: MIT
// The lexer. Accepts one spelling where Python allows several. Tabs as indentation, backslashes at
// line ends, string prefixes other than f and non-decimal numbers are refused with a specific
// message.
#include "tensor/lexer.h"

#include <string.h>

#include "base/status.h"

void mmul_lexer_init(struct mmul_lexer *lexer, const struct mmul_source *source,
                     struct mmul_span part, bool is_expression) {
    static const char mark[] = "\xEF\xBB\xBF"; // UTF-8 byte order mark, which some editors write
    *lexer = (struct mmul_lexer){.source = source,
                                 .at = part.begin,
                                 .end = part.end,
                                 .brackets = is_expression,
                                 .is_line_begun = is_expression,
                                 .indent_count = 1};
    if (part.begin == 0 && part.end >= 3 && memcmp(source->text, mark, 3) == 0)
        lexer->at = 3;
}

static int peek(const struct mmul_lexer *lexer, int ahead) {
    int at = lexer->at + ahead;
    return at < lexer->end ? (unsigned char)lexer->source->text[at] : -1;
}

static bool is_letter(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static enum mmul_status fail_at(const struct mmul_lexer *lexer, int length, struct mmul_error *err,
                                const char *what) {
    const struct mmul_span at = {lexer->at, lexer->at + length};
    return mmul_source_fail(lexer->source, at, err, "%s", what);
}

static enum mmul_status skip_blanks(struct mmul_lexer *lexer, struct mmul_error *err) {
    for (;; lexer->at++) {
        int c = peek(lexer, 0);
        if (c == '#')
            while (peek(lexer, 1) >= 0 && peek(lexer, 1) != '\n')
                lexer->at++;
        else if (c == '\\')
            break;
        else if (c != ' ' && !(c == '\r' && peek(lexer, 1) == '\n') &&
                 !(c == '\n' && lexer->brackets > 0) && !(c == '\t' && lexer->is_line_begun))
            return MMUL_OK;
    }
    fail_at(lexer, 1, err, "a backslash at the end of a line is not supported");
    mmul_hint(err, "inside brackets a line continues without it");
    return MMUL_ERR_DATA;
}

// Reads the indentation of the next line that is not empty.
static enum mmul_status begin_line(struct mmul_lexer *lexer, struct mmul_error *err) {
    int begin = lexer->at;
    enum mmul_status status = skip_blanks(lexer, err);
    if (status != MMUL_OK)
        return status;
    while (peek(lexer, 0) == '\n') {
        begin = ++lexer->at;
        if ((status = skip_blanks(lexer, err)) != MMUL_OK)
            return status;
    }
    if (peek(lexer, 0) == '\t')
        return fail_at(lexer, 1, err, "indent with blanks, not with tabs");
    int indent = peek(lexer, 0) < 0 ? 0 : lexer->at - begin;
    lexer->is_line_begun = true;
    if (indent > lexer->indents[lexer->indent_count - 1]) {
        if (lexer->indent_count == MMUL_INDENTS_MOST)
            return fail_at(lexer, 1, err, "blocks are nested too deeply");
        lexer->indents[lexer->indent_count++] = indent;
        lexer->dedents = -1;
        return MMUL_OK;
    }
    while (indent < lexer->indents[lexer->indent_count - 1]) {
        lexer->indent_count--;
        lexer->dedents++;
    }
    if (indent != lexer->indents[lexer->indent_count - 1])
        return fail_at(lexer, 1, err, "the indentation matches no enclosing block");
    return MMUL_OK;
}

static enum mmul_status take_number(struct mmul_lexer *lexer, struct mmul_error *err) {
    int begin = lexer->at;
    bool is_real = false;
    while (is_digit(peek(lexer, 0)) || (peek(lexer, 0) == '_' && is_digit(peek(lexer, 1))))
        lexer->at++;
    bool is_padded = lexer->at - begin > 1 && lexer->source->text[begin] == '0';
    if (peek(lexer, 0) == '.') {
        is_real = true;
        do
            lexer->at++;
        while (is_digit(peek(lexer, 0)) || (peek(lexer, 0) == '_' && is_digit(peek(lexer, 1))));
    }
    int sign = peek(lexer, 1) == '-' || peek(lexer, 1) == '+';
    if ((peek(lexer, 0) | 32) == 'e' && is_digit(peek(lexer, 1 + sign))) {
        is_real = true;
        lexer->at += 1 + sign;
        while (is_digit(peek(lexer, 0)))
            lexer->at++;
    }
    if (is_letter(peek(lexer, 0)) || (is_padded && !is_real)) {
        fail_at(lexer, 1, err, "expected a decimal number such as 64, 1e-5 or 0.5");
        return MMUL_ERR_DATA;
    }
    return MMUL_OK;
}

// Reads a string in single or triple quotes.
static enum mmul_status take_string(struct mmul_lexer *lexer, struct mmul_token *token,
                                    struct mmul_error *err) {
    const struct mmul_lexer before = *lexer;
    int quote = peek(lexer, 0);
    int quotes = peek(lexer, 1) == quote && peek(lexer, 2) == quote ? 3 : 1;
    lexer->at += quotes;
    token->inside.begin = lexer->at;
    for (;; lexer->at++) {
        int c = peek(lexer, 0);
        if (c < 0 || (c == '\n' && quotes == 1))
            return fail_at(&before, 1, err, "the string has no closing quote");
        if (c == '\\' && peek(lexer, 1) >= 0) {
            lexer->at++;
            continue;
        }
        if (c == quote && (quotes == 1 || (peek(lexer, 1) == quote && peek(lexer, 2) == quote)))
            break;
    }
    token->inside.end = lexer->at;
    lexer->at += quotes;
    token->kind = MMUL_TOKEN_STRING;
    return MMUL_OK;
}

static enum mmul_status take_operator(struct mmul_lexer *lexer, struct mmul_error *err) {
    static const char *const operators[] = {
        "**=", "//=", "<<=", ">>=", "...", "**", "//", "==", "!=", "<=", ">=", "->",
        ":=",  "+=",  "-=",  "*=",  "/=",  "@=", "%=", "&=", "|=", "^=", "<<", ">>",
    };
    int length = 1, c = peek(lexer, 0);
    for (size_t i = 0; length == 1 && i < sizeof operators / sizeof *operators; i++) {
        int bytes = (int)strlen(operators[i]);
        if (bytes <= lexer->end - lexer->at &&
            memcmp(lexer->source->text + lexer->at, operators[i], (size_t)bytes) == 0)
            length = bytes;
    }
    if (length == 1 && (c == 0 || strchr("()[]{},:.=+-*/%@<>&|^~;", c) == NULL)) {
        const struct mmul_span at = {lexer->at, lexer->at + 1};
        if (c < ' ' || c > '~')
            return mmul_source_fail(lexer->source, at, err,
                                    "byte 0x%02X outside of strings and comments", (unsigned)c);
        return mmul_source_fail(lexer->source, at, err, "unexpected '%c'", c);
    }
    lexer->brackets += strchr("([{", c) != NULL;
    lexer->brackets -= strchr(")]}", c) != NULL && lexer->brackets > 0;
    lexer->at += length;
    return MMUL_OK;
}

static enum mmul_status take_word(struct mmul_lexer *lexer, struct mmul_token *token,
                                  struct mmul_error *err) {
    int begin = lexer->at;
    while (is_letter(peek(lexer, 0)) || is_digit(peek(lexer, 0)))
        lexer->at++;
    token->kind = MMUL_TOKEN_NAME;
    if (peek(lexer, 0) != '"' && peek(lexer, 0) != '\'')
        return MMUL_OK;
    token->is_format = lexer->at == begin + 1 && (lexer->source->text[begin] | 32) == 'f';
    if (token->is_format)
        return take_string(lexer, token, err);
    lexer->at = begin;
    return fail_at(lexer, 1, err, "f\"...\" is the only supported string prefix");
}

enum mmul_status mmul_lexer_next(struct mmul_lexer *lexer, struct mmul_token *token,
                                 struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (!lexer->is_line_begun && lexer->dedents == 0)
        status = begin_line(lexer, err);
    *token = (struct mmul_token){.kind = MMUL_TOKEN_INDENT, .at = {lexer->at, lexer->at}};
    if (status != MMUL_OK)
        return status;
    if (lexer->dedents != 0) {
        token->kind = lexer->dedents < 0 ? MMUL_TOKEN_INDENT : MMUL_TOKEN_DEDENT;
        lexer->dedents += lexer->dedents < 0 ? 1 : -1;
        return MMUL_OK;
    }
    if ((status = skip_blanks(lexer, err)) != MMUL_OK)
        return status;
    token->at.begin = lexer->at;
    int c = peek(lexer, 0);
    if (c < 0 && lexer->brackets == 0 && lexer->indent_count > 1) { // the last line has no newline
        token->kind = MMUL_TOKEN_NEWLINE;
        lexer->is_line_begun = false;
    } else if (c < 0) {
        token->kind = MMUL_TOKEN_END;
    } else if (c == '\n') {
        token->kind = MMUL_TOKEN_NEWLINE;
        lexer->at++;
        lexer->is_line_begun = false;
    } else if (is_letter(c)) {
        status = take_word(lexer, token, err);
    } else if (is_digit(c) || (c == '.' && is_digit(peek(lexer, 1)))) {
        token->kind = MMUL_TOKEN_NUMBER;
        status = take_number(lexer, err);
    } else if (c == '"' || c == '\'') {
        status = take_string(lexer, token, err);
    } else {
        token->kind = MMUL_TOKEN_OPERATOR;
        status = take_operator(lexer, err);
    }
    token->at.end = lexer->at;
    return status;
}
