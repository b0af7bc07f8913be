// SPDX-License-Identifier: MIT
// Parses expressions with Python's precedence, lowest first: or, and, not, comparisons, sums,
// products, signs, powers, then calls, subscripts and attributes.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensor/parser.h"

typedef enum mmul_status parse_function(struct mmul_parser *parser, struct mmul_node **node);

static enum mmul_status fail_at(struct mmul_parser *parser, struct mmul_span at, const char *what) {
    return mmul_source_fail(parser->lexer.source, at, parser->err, "%s", what);
}

// ----------------------------------------------------------------------------------------- atoms

static enum mmul_status parse_number(struct mmul_parser *parser, struct mmul_node **node) {
    const struct mmul_span at = parser->token.at;
    char text[64];
    int length = 0;
    for (int i = at.begin; i < at.end && length < (int)sizeof text - 1; i++)
        if (parser->lexer.source->text[i] != '_')
            text[length++] = parser->lexer.source->text[i];
    text[length] = '\0';
    if (length == (int)sizeof text - 1)
        return fail_at(parser, at, "the number has too many digits");
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_NUMBER, at, node);
    if (status != MMUL_OK)
        return status;
    errno = 0;
    (*node)->is_integer = strpbrk(text, ".eE") == NULL;
    (*node)->real = strtod(text, NULL);
    if ((*node)->is_integer)
        (*node)->integer = strtoll(text, NULL, 10);
    if (errno == ERANGE && (*node)->is_integer)
        return fail_at(parser, at, "integers must be below 2^63");
    return mmul_parser_advance(parser);
}

// Resolves escapes. In f-strings, {{ and }} each become one brace.
static enum mmul_status parse_text(struct mmul_parser *parser, struct mmul_span part,
                                   bool is_format, struct mmul_node **node) {
    static const char letters[] = "nt\\'\"r", meanings[] = "\n\t\\'\"\r";
    const char *text = parser->lexer.source->text;
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_STRING, part, node);
    char *copy =
        mmul_arena_allocate(parser->arena, (size_t)(part.end - part.begin) + 1, parser->err);
    int length = 0;
    if (status != MMUL_OK || copy == NULL)
        return parser->err->status;
    for (int i = part.begin; i < part.end; i++) {
        char c = text[i];
        const struct mmul_span at = {i, i + 1};
        if (c == '\0')
            return fail_at(parser, at, "a string contains byte 0x00");
        if (c == '\\') {
            const char *letter = i + 1 < part.end ? strchr(letters, text[i + 1]) : NULL;
            if (letter == NULL || *letter == '\0')
                return fail_at(parser, at, "unknown escape: expected \\n \\t \\r \\\\ \\' or \\\"");
            c = meanings[letter - letters];
            i++;
        } else if (is_format && (c == '{' || c == '}')) {
            i++; // skip the second brace
        }
        copy[length++] = c;
    }
    (*node)->text = copy;
    return MMUL_OK;
}

// Parses the format after the colon of a field and keeps its text.
static enum mmul_status parse_field_format(struct mmul_parser *parser, struct mmul_span format,
                                           struct mmul_node **node) {
    struct mmul_node *field = NULL;
    if (memchr(parser->lexer.source->text + format.begin, '{',
               (size_t)(format.end - format.begin)) != NULL)
        return fail_at(parser, format, "nested formats are not supported");
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_FIELD, (*node)->at, &field);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, field, *node);
    if (status == MMUL_OK)
        status = mmul_parser_copy(parser, format, &field->text);
    *node = field;
    return status;
}

// Parses the inside of {...}: an expression and optionally a format.
static enum mmul_status parse_field(struct mmul_parser *parser, struct mmul_span part,
                                    struct mmul_node **node) {
    struct mmul_parser inner = {.arena = parser->arena, .err = parser->err, .depth = parser->depth};
    mmul_lexer_init(&inner.lexer, parser->lexer.source, part, true);
    enum mmul_status status = mmul_parser_advance(&inner);
    if (status == MMUL_OK)
        status = mmul_parse_expression(&inner, false, node);
    if (status == MMUL_OK && inner.token.kind != MMUL_TOKEN_END) {
        const struct mmul_span format = {inner.token.at.begin + 1, part.end};
        if (mmul_parser_sees(&inner, ":") || mmul_parser_sees(&inner, ":="))
            return parse_field_format(parser, format, node);
        if (mmul_parser_sees(&inner, "="))
            return fail_at(parser, inner.token.at, "{x=} is not supported");
        status = mmul_parser_fail(&inner, "'}'");
    }
    return status;
}

static bool is_twin(const struct mmul_parser *parser, int at, int end) {
    return at + 1 < end && parser->lexer.source->text[at + 1] == parser->lexer.source->text[at];
}

// Splits an f-string into text and fields.
static enum mmul_status parse_format(struct mmul_parser *parser, struct mmul_span inside,
                                     struct mmul_node *format) {
    const char *text = parser->lexer.source->text;
    enum mmul_status status = MMUL_OK;
    for (int at = inside.begin; status == MMUL_OK && at < inside.end;) {
        struct mmul_node *piece = NULL;
        int end = at;
        while (end < inside.end && text[end] != '{' && text[end] != '}')
            end += text[end] == '\\' && end + 1 < inside.end ? 2 : 1;
        while (end < inside.end && is_twin(parser, end, inside.end))
            for (end += 2; end < inside.end && text[end] != '{' && text[end] != '}';)
                end += text[end] == '\\' && end + 1 < inside.end ? 2 : 1;
        const struct mmul_span before = {at, end};
        if (end > at) {
            status = parse_text(parser, before, true, &piece);
            if (status == MMUL_OK)
                status = mmul_parser_add(parser, format, piece);
        }
        at = end;
        if (status != MMUL_OK || at == inside.end)
            continue;
        const struct mmul_span brace = {at, at + 1};
        const char *close =
            text[at] == '{' ? memchr(text + at, '}', (size_t)(inside.end - at)) : NULL;
        if (close == NULL)
            return fail_at(parser, brace, "a literal brace must be doubled: {{ or }}");
        const struct mmul_span field = {at + 1, (int)(close - text)};
        status = parse_field(parser, field, &piece);
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, format, piece);
        at = field.end + 1;
    }
    return status;
}

// Parses one string, or adjacent strings, which are concatenated.
static enum mmul_status parse_strings(struct mmul_parser *parser, struct mmul_node **node) {
    struct mmul_node *all = NULL;
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_FORMAT, parser->token.at, &all);
    while (status == MMUL_OK && parser->token.kind == MMUL_TOKEN_STRING) {
        const struct mmul_token token = parser->token;
        struct mmul_node *piece = NULL;
        all->at.end = token.at.end;
        if (token.is_format) {
            status = parse_format(parser, token.inside, all);
        } else {
            status = parse_text(parser, token.inside, false, &piece);
            if (status == MMUL_OK)
                status = mmul_parser_add(parser, all, piece);
        }
        if (status == MMUL_OK)
            status = mmul_parser_advance(parser);
    }
    if (status == MMUL_OK && all->first != NULL && all->first == all->last &&
        all->first->kind == MMUL_NODE_STRING) {
        all->kind = MMUL_NODE_STRING;
        all->text = all->first->text;
        all->first = all->last = NULL;
    }
    *node = all;
    return status;
}

// (x), (), (x,), (x, y)
static enum mmul_status parse_parentheses(struct mmul_parser *parser, struct mmul_node **node) {
    const struct mmul_span at = parser->token.at;
    enum mmul_status status = mmul_parser_advance(parser);
    if (status == MMUL_OK && mmul_parser_sees(parser, ")"))
        status = mmul_parser_node(parser, MMUL_NODE_TUPLE, at, node);
    else if (status == MMUL_OK)
        status = mmul_parse_expression(parser, true, node);
    if (status == MMUL_OK)
        status = mmul_parser_expect(parser, ")", "to close '('");
    if (status == MMUL_OK)
        (*node)->at = (struct mmul_span){at.begin, parser->last_end};
    return status;
}

static enum mmul_status parse_atom(struct mmul_parser *parser, struct mmul_node **node) {
    static const char *const constants[] = {"True", "False", "None"};
    if (parser->token.kind == MMUL_TOKEN_NUMBER)
        return parse_number(parser, node);
    if (parser->token.kind == MMUL_TOKEN_STRING)
        return parse_strings(parser, node);
    if (mmul_parser_sees(parser, "("))
        return parse_parentheses(parser, node);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (!mmul_parser_sees(parser, constants[i]))
            continue;
        enum mmul_status status =
            mmul_parser_node(parser, MMUL_NODE_CONSTANT, parser->token.at, node);
        if (status != MMUL_OK)
            return status;
        (*node)->text = constants[i];
        return mmul_parser_advance(parser);
    }
    if (parser->token.kind == MMUL_TOKEN_NAME)
        return mmul_parser_name(parser, node);
    return mmul_parser_fail(parser, "a value");
}

// ------------------------------------------------------------------ calls, subscripts, attributes

// Parses an argument and the comma after it.
static enum mmul_status parse_argument(struct mmul_parser *parser, struct mmul_node *call) {
    struct mmul_node *value = NULL, *keyword = NULL;
    if (mmul_parser_sees(parser, "*") || mmul_parser_sees(parser, "**"))
        return fail_at(parser, parser->token.at, "'*' before an argument is not supported");
    enum mmul_status status = mmul_parse_expression(parser, false, &value);
    if (status == MMUL_OK && mmul_parser_sees(parser, "for"))
        return fail_at(parser, parser->token.at, "comprehensions are not supported");
    if (status == MMUL_OK && mmul_parser_sees(parser, "=")) {
        if (value->kind != MMUL_NODE_NAME)
            return fail_at(parser, value->at, "expected the name of a parameter before '='");
        keyword = value;
        keyword->kind = MMUL_NODE_KEYWORD;
        status = mmul_parser_advance(parser);
        if (status == MMUL_OK)
            status = mmul_parse_expression(parser, false, &value);
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, keyword, value);
    } else if (status == MMUL_OK && call->last->kind == MMUL_NODE_KEYWORD) {
        return fail_at(parser, value->at, "a positional argument follows a keyword argument");
    }
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, call, keyword != NULL ? keyword : value);
    if (status == MMUL_OK && !mmul_parser_sees(parser, ")"))
        status = mmul_parser_expect(parser, ",", "or ')' after an argument");
    return status;
}

static enum mmul_status parse_bound(struct mmul_parser *parser, struct mmul_node *slice) {
    struct mmul_node *bound = NULL;
    bool is_absent = mmul_parser_sees(parser, ":") || mmul_parser_sees(parser, ",") ||
                     mmul_parser_sees(parser, "]");
    enum mmul_status status =
        is_absent ? mmul_parser_node(parser, MMUL_NODE_ABSENT, parser->token.at, &bound)
                  : mmul_parse_expression(parser, false, &bound);
    return status == MMUL_OK ? mmul_parser_add(parser, slice, bound) : status;
}

// Parses a:b, a:b:c or a single index, and the comma after it.
static enum mmul_status parse_index(struct mmul_parser *parser, struct mmul_node *subscript) {
    struct mmul_node *slice = NULL;
    const struct mmul_span at = {parser->token.at.begin, parser->token.at.begin};
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_SLICE, at, &slice);
    if (status == MMUL_OK)
        status = parse_bound(parser, slice);
    if (status == MMUL_OK && mmul_parser_sees(parser, ":")) {
        status = mmul_parser_advance(parser);
        if (status == MMUL_OK)
            status = parse_bound(parser, slice);
        if (status == MMUL_OK && mmul_parser_sees(parser, ":")) {
            status = mmul_parser_advance(parser);
            if (status == MMUL_OK)
                status = parse_bound(parser, slice);
        }
    } else if (status == MMUL_OK) {
        slice = slice->first;
        if (slice->kind == MMUL_NODE_ABSENT)
            return mmul_parser_fail(parser, "a slice");
    }
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, subscript, slice);
    if (status == MMUL_OK && !mmul_parser_sees(parser, "]"))
        status = mmul_parser_expect(parser, ",", "or ']' after a slice");
    return status;
}

// Parses one of (...), [...] and .name after `left`, which becomes its child.
static enum mmul_status parse_trailer(struct mmul_parser *parser, struct mmul_node **left) {
    struct mmul_node *node = NULL;
    bool is_call = mmul_parser_sees(parser, "("), is_subscript = mmul_parser_sees(parser, "[");
    enum mmul_node_kind kind = is_call        ? MMUL_NODE_CALL
                               : is_subscript ? MMUL_NODE_SUBSCRIPT
                                              : MMUL_NODE_ATTRIBUTE;
    enum mmul_status status = mmul_parser_node(parser, kind, (*left)->at, &node);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, *left);
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK && is_subscript && mmul_parser_sees(parser, "]"))
        return mmul_parser_fail(parser, "a slice");
    while (status == MMUL_OK && is_call && !mmul_parser_sees(parser, ")"))
        status = parse_argument(parser, node);
    while (status == MMUL_OK && is_subscript && !mmul_parser_sees(parser, "]"))
        status = parse_index(parser, node);
    if (status == MMUL_OK && kind == MMUL_NODE_ATTRIBUTE) {
        if (parser->token.kind != MMUL_TOKEN_NAME)
            return mmul_parser_fail(parser, "a name after '.'");
        status = mmul_parser_copy(parser, parser->token.at, &node->text);
    }
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    node->at.end = parser->last_end;
    *left = node;
    return status;
}

static enum mmul_status parse_postfix(struct mmul_parser *parser, struct mmul_node **node) {
    enum mmul_status status = parse_atom(parser, node);
    while (status == MMUL_OK && (mmul_parser_sees(parser, "(") || mmul_parser_sees(parser, "[") ||
                                 mmul_parser_sees(parser, ".")))
        status = parse_trailer(parser, node);
    return status;
}

// ------------------------------------------------------------------------------------- operators

enum mmul_status mmul_parser_join(struct mmul_parser *parser, const char *symbol,
                                  struct mmul_node **left, struct mmul_node *right) {
    struct mmul_node *node = NULL;
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_BINARY, (*left)->at, &node);
    if (status != MMUL_OK)
        return status;
    if ((*left)->kind == MMUL_NODE_BINARY)
        (*left)->outer = node;
    status = mmul_parser_add(parser, node, *left);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, right);
    if (status == MMUL_OK)
        node->text = symbol;
    *left = node;
    return status;
}

static const char *find_operator(const struct mmul_parser *parser, const char *const *operators) {
    for (int i = 0; operators[i] != NULL; i++)
        if (mmul_parser_sees(parser, operators[i]))
            return operators[i];
    return NULL;
}

// Left-associative operators.
static enum mmul_status parse_chain(struct mmul_parser *parser, const char *const *operators,
                                    parse_function *parse_operand, struct mmul_node **node) {
    const char *symbol;
    enum mmul_status status = parse_operand(parser, node);
    while (status == MMUL_OK && (symbol = find_operator(parser, operators)) != NULL) {
        struct mmul_node *right = NULL;
        status = mmul_parser_advance(parser);
        if (status == MMUL_OK)
            status = parse_operand(parser, &right);
        if (status == MMUL_OK)
            status = mmul_parser_join(parser, symbol, node, right);
    }
    return status;
}

// -x and x ** y: the power binds tighter than a sign on its left, less tightly than one on its
// right.
static enum mmul_status parse_sign(struct mmul_parser *parser, struct mmul_node **node) {
    struct mmul_node *operand = NULL;
    const struct mmul_span at = parser->token.at;
    if (++parser->depth > MMUL_NESTING_MOST)
        return mmul_source_fail(parser->lexer.source, at, parser->err,
                                "this is nested more than %d levels deep", MMUL_NESTING_MOST);
    enum mmul_status status;
    if (mmul_parser_sees(parser, "-")) {
        status = mmul_parser_node(parser, MMUL_NODE_NEGATIVE, at, node);
        if (status == MMUL_OK)
            status = mmul_parser_advance(parser);
        if (status == MMUL_OK)
            status = parse_sign(parser, &operand);
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, *node, operand);
    } else {
        status = parse_postfix(parser, node);
        if (status == MMUL_OK && mmul_parser_sees(parser, "**")) {
            status = mmul_parser_advance(parser);
            if (status == MMUL_OK)
                status = parse_sign(parser, &operand);
            if (status == MMUL_OK)
                status = mmul_parser_join(parser, "**", node, operand);
        }
    }
    parser->depth--;
    return status;
}

static enum mmul_status parse_product(struct mmul_parser *parser, struct mmul_node **node) {
    static const char *const operators[] = {"*", "/", "//", "%", "@", NULL};
    return parse_chain(parser, operators, parse_sign, node);
}

static enum mmul_status parse_sum(struct mmul_parser *parser, struct mmul_node **node) {
    static const char *const operators[] = {"+", "-", NULL};
    return parse_chain(parser, operators, parse_product, node);
}

static enum mmul_status parse_comparison(struct mmul_parser *parser, struct mmul_node **node) {
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
    struct mmul_node *right = NULL;
    enum mmul_status status = parse_sum(parser, node);
    const char *symbol = status == MMUL_OK ? find_operator(parser, operators) : NULL;
    if (symbol == NULL)
        return status;
    status = mmul_parser_advance(parser);
    if (status == MMUL_OK)
        status = parse_sum(parser, &right);
    if (status == MMUL_OK)
        status = mmul_parser_join(parser, symbol, node, right);
    if (status == MMUL_OK && find_operator(parser, operators) != NULL)
        return fail_at(parser, parser->token.at, "chained comparisons are not supported");
    return status;
}

// not x
static enum mmul_status parse_not(struct mmul_parser *parser, struct mmul_node **node) {
    struct mmul_node *operand = NULL;
    const struct mmul_span at = parser->token.at;
    if (!mmul_parser_sees(parser, "not"))
        return parse_comparison(parser, node);
    if (++parser->depth > MMUL_NESTING_MOST)
        return mmul_source_fail(parser->lexer.source, at, parser->err,
                                "this is nested more than %d levels deep", MMUL_NESTING_MOST);
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_NOT, at, node);
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK)
        status = parse_not(parser, &operand);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, *node, operand);
    parser->depth--;
    return status;
}

// x WORD y WORD z becomes one node.
static enum mmul_status parse_logic(struct mmul_parser *parser, const char *word,
                                    parse_function *parse_operand, struct mmul_node **node) {
    struct mmul_node *logic = NULL, *operand = NULL;
    enum mmul_status status = parse_operand(parser, node);
    if (status != MMUL_OK || !mmul_parser_sees(parser, word))
        return status;
    status = mmul_parser_node(parser, MMUL_NODE_LOGIC, (*node)->at, &logic);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, logic, *node);
    while (status == MMUL_OK && mmul_parser_sees(parser, word)) {
        status = mmul_parser_advance(parser);
        if (status == MMUL_OK)
            status = parse_operand(parser, &operand);
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, logic, operand);
    }
    if (status == MMUL_OK)
        logic->text = word;
    *node = logic;
    return status;
}

static enum mmul_status parse_and(struct mmul_parser *parser, struct mmul_node **node) {
    return parse_logic(parser, "and", parse_not, node);
}

static enum mmul_status parse_or(struct mmul_parser *parser, struct mmul_node **node) {
    return parse_logic(parser, "or", parse_and, node);
}

enum mmul_status mmul_parse_expression(struct mmul_parser *parser, bool several,
                                       struct mmul_node **node) {
    struct mmul_node *tuple = NULL, *element = NULL;
    enum mmul_status status = parse_or(parser, node);
    if (status == MMUL_OK && mmul_parser_sees(parser, "if"))
        return fail_at(parser, parser->token.at,
                       "x if ... else y is not supported: use an if statement");
    if (status != MMUL_OK || !several || !mmul_parser_sees(parser, ","))
        return status;
    status = mmul_parser_node(parser, MMUL_NODE_TUPLE, (*node)->at, &tuple);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, tuple, *node);
    while (status == MMUL_OK && mmul_parser_sees(parser, ",")) {
        status = mmul_parser_advance(parser);
        const enum mmul_token_kind kind = parser->token.kind;
        if (status != MMUL_OK || kind == MMUL_TOKEN_NEWLINE || kind == MMUL_TOKEN_END ||
            mmul_parser_sees(parser, ")") || mmul_parser_sees(parser, "=") ||
            mmul_parser_sees(parser, "in") || mmul_parser_sees(parser, ":"))
            break;
        status = parse_or(parser, &element);
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, tuple, element);
    }
    *node = tuple;
    return status;
}
