// SPDX-License-Identifier: MIT
// Statements and blocks, and the helpers that both halves of the parser share. A recursive descent
// parser with one token of look-ahead. The nesting depth is bounded, so that no text overflows the
// stack.
#include "tensor/parser.h"

#include <string.h>

#include "base/status.h"

enum mmul_status mmul_parser_advance(struct mmul_parser *parser) {
    parser->last_end = parser->token.at.end;
    return mmul_lexer_next(&parser->lexer, &parser->token, parser->err);
}

static bool is_text(const struct mmul_parser *parser, struct mmul_span at, const char *word) {
    size_t length = strlen(word);
    return (size_t)(at.end - at.begin) == length &&
           memcmp(parser->lexer.source->text + at.begin, word, length) == 0;
}

bool mmul_parser_sees(const struct mmul_parser *parser, const char *word) {
    const struct mmul_token *token = &parser->token;
    bool is_word = token->kind == MMUL_TOKEN_NAME || token->kind == MMUL_TOKEN_OPERATOR;
    return is_word && is_text(parser, token->at, word);
}

// Returns true for a reserved word of Python.
static bool is_keyword(const char *word) {
    static const char *const ours[] = {"for",  "in",    "def",   "return",   "if", "elif",
                                       "else", "False", "None",  "True",     "or", "and",
                                       "not",  "is",    "break", "continue", NULL};
    for (int i = 0; ours[i] != NULL; i++)
        if (strcmp(ours[i], word) == 0)
            return true;
    const struct mmul_missing_construct *refusal = mmul_refusal_find(word);
    return refusal != NULL && word[0] >= 'a' && strcmp(word, "match") != 0;
}

enum mmul_status mmul_parser_fail(struct mmul_parser *parser, const char *expected) {
    const struct mmul_source *source = parser->lexer.source;
    const struct mmul_token *token = &parser->token;
    char text[48];
    const char *found = mmul_source_quote(source, token->at, text);
    const struct mmul_missing_construct *refusal = NULL;
    if (token->kind == MMUL_TOKEN_NAME || token->kind == MMUL_TOKEN_OPERATOR)
        refusal = mmul_refusal_find(found);
    if (refusal != NULL) {
        mmul_source_fail(source, token->at, parser->err, "%s is not supported", refusal->what);
        if (refusal->hint != NULL)
            mmul_hint(parser->err, "%s", refusal->hint);
        return MMUL_ERR_DATA;
    }
    const char *what = token->kind == MMUL_TOKEN_END       ? "the end of the text"
                       : token->kind == MMUL_TOKEN_NEWLINE ? "the end of the line"
                       : token->kind == MMUL_TOKEN_INDENT  ? "an indented line"
                       : token->kind == MMUL_TOKEN_DEDENT  ? "the end of the block"
                                                           : NULL;
    if (what != NULL)
        return mmul_source_fail(source, token->at, parser->err, "expected %s, found %s", expected,
                                what);
    return mmul_source_fail(source, token->at, parser->err, "expected %s, found '%s'", expected,
                            found);
}

enum mmul_status mmul_parser_expect(struct mmul_parser *parser, const char *word,
                                    const char *where) {
    char expected[96];
    if (mmul_parser_sees(parser, word))
        return mmul_parser_advance(parser);
    snprintf(expected, sizeof expected, "'%s' %s", word, where);
    return mmul_parser_fail(parser, expected);
}

enum mmul_status mmul_parser_node(struct mmul_parser *parser, enum mmul_node_kind kind,
                                  struct mmul_span at, struct mmul_node **node) {
    *node = mmul_arena_allocate(parser->arena, sizeof **node, parser->err);
    if (*node == NULL)
        return parser->err->status;
    **node = (struct mmul_node){.kind = kind, .at = at, .depth = 1};
    return MMUL_OK;
}

enum mmul_status mmul_parser_add(struct mmul_parser *parser, struct mmul_node *parent,
                                 struct mmul_node *child) {
    if (parent->first == NULL)
        parent->first = child;
    else
        parent->last->next = child;
    parent->last = child;
    // The evaluator walks a chain of left operands in a loop, so the chain adds no depth.
    bool is_chain = parent->kind == MMUL_NODE_BINARY && child->outer == parent;
    int depth = child->depth + (is_chain ? 0 : 1);
    parent->depth = depth > parent->depth ? depth : parent->depth;
    if (child->at.end > parent->at.end)
        parent->at.end = child->at.end;
    if (parent->depth <= MMUL_NESTING_MOST)
        return MMUL_OK;
    return mmul_source_fail(parser->lexer.source, child->at, parser->err,
                            "this is nested more than %d levels deep", MMUL_NESTING_MOST);
}

enum mmul_status mmul_parser_copy(struct mmul_parser *parser, struct mmul_span at,
                                  const char **text) {
    size_t length = (size_t)(at.end - at.begin);
    char *copy = mmul_arena_allocate(parser->arena, length + 1, parser->err);
    if (copy == NULL)
        return parser->err->status;
    memcpy(copy, parser->lexer.source->text + at.begin, length);
    *text = copy;
    return MMUL_OK;
}

enum mmul_status mmul_parser_name(struct mmul_parser *parser, struct mmul_node **node) {
    if (parser->token.kind != MMUL_TOKEN_NAME)
        return mmul_parser_fail(parser, "a name");
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_NAME, parser->token.at, node);
    if (status == MMUL_OK)
        status = mmul_parser_copy(parser, parser->token.at, &(*node)->text);
    if (status == MMUL_OK && is_keyword((*node)->text))
        return mmul_parser_fail(parser, "a name");
    return status == MMUL_OK ? mmul_parser_advance(parser) : status;
}

// ------------------------------------------------------------------------------------ statements

static enum mmul_status parse_statement(struct mmul_parser *parser, struct mmul_node *block);

static enum mmul_status end_line(struct mmul_parser *parser) {
    if (parser->token.kind == MMUL_TOKEN_END)
        return MMUL_OK;
    if (parser->token.kind != MMUL_TOKEN_NEWLINE)
        return mmul_parser_fail(parser, "the end of the line");
    return mmul_parser_advance(parser);
}

static bool begins_compound(const struct mmul_parser *parser) {
    return mmul_parser_sees(parser, "for") || mmul_parser_sees(parser, "if") ||
           mmul_parser_sees(parser, "def");
}

// Parses ':' and the indented lines after it, or a simple statement on the same line.
static enum mmul_status parse_block(struct mmul_parser *parser, struct mmul_node *parent) {
    struct mmul_node *block = NULL;
    enum mmul_status status = mmul_parser_expect(parser, ":", "before a block");
    if (status == MMUL_OK && parser->token.kind != MMUL_TOKEN_NEWLINE) {
        if (begins_compound(parser))
            return mmul_parser_fail(parser, "the block on separate lines");
        status = mmul_parser_node(parser, MMUL_NODE_BLOCK, parser->token.at, &block);
        if (status == MMUL_OK)
            status = parse_statement(parser, block);
        return status == MMUL_OK ? mmul_parser_add(parser, parent, block) : status;
    }
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK && parser->token.kind != MMUL_TOKEN_INDENT)
        status = mmul_parser_fail(parser, "an indented line");
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK)
        status = mmul_parser_node(parser, MMUL_NODE_BLOCK, parser->token.at, &block);
    while (status == MMUL_OK && parser->token.kind != MMUL_TOKEN_DEDENT)
        status = parse_statement(parser, block);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, parent, block);
    return status == MMUL_OK ? mmul_parser_advance(parser) : status;
}

const char *mmul_loop_iterable(const struct mmul_node *loop) {
    const struct mmul_node *over = loop->first->next;
    if (over->kind != MMUL_NODE_CALL || over->first->kind != MMUL_NODE_NAME)
        return NULL;
    return strcmp(over->first->text, "range") == 0  ? "range"
           : strcmp(over->first->text, "loop") == 0 ? "loop"
                                                    : NULL;
}

// Checks that the left side of '=' consists of names.
static enum mmul_status check_target(struct mmul_parser *parser, const struct mmul_node *target) {
    bool is_tuple = target->kind == MMUL_NODE_TUPLE;
    const struct mmul_node *name = is_tuple ? target->first : target;
    for (; name != NULL; name = is_tuple ? name->next : NULL) {
        if (name->kind == MMUL_NODE_NAME)
            continue;
        mmul_source_fail(parser->lexer.source, name->at, parser->err,
                         "cannot assign: expected a name");
        if (name->kind == MMUL_NODE_SUBSCRIPT)
            mmul_hint(parser->err, "values are immutable: concat and where make new ones");
        return MMUL_ERR_DATA;
    }
    return MMUL_OK;
}

// for a in, for a, b in, for (a, b) in
static enum mmul_status parse_for(struct mmul_parser *parser, struct mmul_node *node) {
    struct mmul_node *target = NULL, *over = NULL;
    if (parser->token.kind != MMUL_TOKEN_NAME && !mmul_parser_sees(parser, "("))
        return mmul_parser_fail(parser, "a name");
    enum mmul_status status = mmul_parse_expression(parser, true, &target);
    if (status == MMUL_OK)
        status = check_target(parser, target);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, target);
    if (status == MMUL_OK)
        status = mmul_parser_expect(parser, "in", "in 'for NAME in range(...):'");
    if (status == MMUL_OK)
        status = mmul_parse_expression(parser, true, &over);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, over);
    if (status == MMUL_OK && target->kind == MMUL_NODE_TUPLE && mmul_loop_iterable(node) != NULL)
        return mmul_source_fail(parser->lexer.source, target->at, parser->err,
                                "%s gives one number at a time, for one name",
                                mmul_loop_iterable(node));
    parser->loops++;
    if (status == MMUL_OK)
        status = parse_block(parser, node);
    parser->loops--;
    return status;
}

bool mmul_loop_has_break(const struct mmul_node *loop) {
    if (loop->kind == MMUL_NODE_BREAK)
        return true;
    for (const struct mmul_node *child = loop->first; child != NULL; child = child->next)
        if (child->kind != MMUL_NODE_FOR && mmul_loop_has_break(child))
            return true;
    return false;
}

// break, continue
static enum mmul_status parse_jump(struct mmul_parser *parser, struct mmul_node *node) {
    if (parser->loops == 0)
        return mmul_source_fail(parser->lexer.source, node->at, parser->err, "%s outside of a loop",
                                node->kind == MMUL_NODE_BREAK ? "break" : "continue");
    return end_line(parser);
}

// `elif` becomes an if inside the else block.
static enum mmul_status parse_if(struct mmul_parser *parser, struct mmul_node *node) {
    struct mmul_node *condition = NULL, *otherwise = NULL, *inner = NULL;
    enum mmul_status status = mmul_parse_expression(parser, false, &condition);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, condition);
    if (status == MMUL_OK)
        status = parse_block(parser, node);
    if (status != MMUL_OK)
        return status;
    bool is_elif = mmul_parser_sees(parser, "elif");
    if (!is_elif && !mmul_parser_sees(parser, "else"))
        return MMUL_OK;
    const struct mmul_span at = parser->token.at;
    status = mmul_parser_advance(parser);
    if (status == MMUL_OK && !is_elif)
        return parse_block(parser, node);
    if (++parser->depth > MMUL_NESTING_MOST)
        return mmul_source_fail(parser->lexer.source, at, parser->err,
                                "more than %d branches of one if", MMUL_NESTING_MOST);
    if (status == MMUL_OK)
        status = mmul_parser_node(parser, MMUL_NODE_BLOCK, at, &otherwise);
    if (status == MMUL_OK)
        status = mmul_parser_node(parser, MMUL_NODE_IF, at, &inner);
    if (status == MMUL_OK)
        status = parse_if(parser, inner);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, otherwise, inner);
    parser->depth--;
    return status == MMUL_OK ? mmul_parser_add(parser, node, otherwise) : status;
}

// x, w, eps=1e-6
static enum mmul_status parse_parameters(struct mmul_parser *parser, struct mmul_node *parameters) {
    enum mmul_status status = MMUL_OK;
    bool has_default = false;
    while (status == MMUL_OK && !mmul_parser_sees(parser, ")")) {
        struct mmul_node *name = NULL, *value = NULL;
        if (mmul_parser_sees(parser, "*") || mmul_parser_sees(parser, "**"))
            return mmul_source_fail(parser->lexer.source, parser->token.at, parser->err,
                                    "'*' among parameters is not supported");
        status = mmul_parser_name(parser, &name);
        for (const struct mmul_node *p = parameters->first; status == MMUL_OK && p != NULL;
             p = p->next)
            if (strcmp(p->text, name->text) == 0)
                status = mmul_source_fail(parser->lexer.source, name->at, parser->err,
                                          "two parameters have the name '%s'", name->text);
        if (status == MMUL_OK && mmul_parser_sees(parser, "=")) {
            has_default = true;
            name->kind = MMUL_NODE_KEYWORD;
            status = mmul_parser_advance(parser);
            if (status == MMUL_OK)
                status = mmul_parse_expression(parser, false, &value);
            if (status == MMUL_OK)
                status = mmul_parser_add(parser, name, value);
        } else if (status == MMUL_OK && has_default) {
            status = mmul_source_fail(parser->lexer.source, name->at, parser->err,
                                      "parameter '%s' without default follows one with a default",
                                      name->text);
        }
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, parameters, name);
        if (status == MMUL_OK && !mmul_parser_sees(parser, ")"))
            status = mmul_parser_expect(parser, ",", "between parameters");
    }
    return status;
}

static enum mmul_status parse_def(struct mmul_parser *parser, struct mmul_node *node) {
    struct mmul_node *name = NULL, *parameters = NULL;
    enum mmul_status status = mmul_parser_name(parser, &name);
    if (status == MMUL_OK)
        status = mmul_parser_expect(parser, "(", "after the name of a function");
    if (status == MMUL_OK)
        status = mmul_parser_node(parser, MMUL_NODE_TUPLE, parser->token.at, &parameters);
    if (status == MMUL_OK)
        status = parse_parameters(parser, parameters);
    if (status == MMUL_OK)
        status = mmul_parser_expect(parser, ")", "after parameters");
    if (status != MMUL_OK)
        return status;
    const int loops = parser->loops;
    node->text = name->text;
    status = mmul_parser_add(parser, node, parameters);
    parser->loops = 0;
    if (status == MMUL_OK)
        status = parse_block(parser, node);
    parser->loops = loops;
    return status;
}

static enum mmul_status parse_return(struct mmul_parser *parser, struct mmul_node *node) {
    struct mmul_node *value = NULL;
    enum mmul_status status = MMUL_OK;
    if (parser->token.kind != MMUL_TOKEN_NEWLINE && parser->token.kind != MMUL_TOKEN_END) {
        status = mmul_parse_expression(parser, true, &value);
        if (status == MMUL_OK)
            status = mmul_parser_add(parser, node, value);
    }
    return status == MMUL_OK ? end_line(parser) : status;
}

// x += y becomes x = x + y.
static enum mmul_status parse_augmented(struct mmul_parser *parser, const char *symbol,
                                        struct mmul_node *node) {
    const struct mmul_node *target = node->first;
    struct mmul_node *left = NULL, *right = NULL;
    if (target->kind != MMUL_NODE_NAME)
        return mmul_source_fail(parser->lexer.source, target->at, parser->err,
                                "'%s=' needs a name on its left", symbol);
    node->kind = MMUL_NODE_ASSIGN;
    enum mmul_status status = mmul_parser_node(parser, MMUL_NODE_NAME, target->at, &left);
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK)
        status = mmul_parse_expression(parser, true, &right);
    if (status != MMUL_OK)
        return status;
    left->text = target->text;
    left->depth = target->depth;
    status = mmul_parser_join(parser, symbol, &left, right);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, left);
    return status == MMUL_OK ? end_line(parser) : status;
}

// An expression or an assignment.
static enum mmul_status parse_simple(struct mmul_parser *parser, struct mmul_node *node) {
    static const struct {
        const char *word, *symbol;
    } augmented[] = {{"+=", "+"},   {"-=", "-"}, {"*=", "*"},   {"/=", "/"},
                     {"//=", "//"}, {"%=", "%"}, {"**=", "**"}, {"@=", "@"}};
    struct mmul_node *left = NULL, *right = NULL;
    enum mmul_status status = mmul_parse_expression(parser, true, &left);
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, left);
    if (status == MMUL_OK && mmul_parser_sees(parser, ":"))
        status = mmul_source_fail(parser->lexer.source, parser->token.at, parser->err,
                                  "annotations are not supported");
    for (size_t i = 0; status == MMUL_OK && i < sizeof augmented / sizeof *augmented; i++)
        if (mmul_parser_sees(parser, augmented[i].word))
            return parse_augmented(parser, augmented[i].symbol, node);
    if (status != MMUL_OK || !mmul_parser_sees(parser, "="))
        return status == MMUL_OK ? end_line(parser) : status;
    node->kind = MMUL_NODE_ASSIGN;
    status = check_target(parser, left);
    if (status == MMUL_OK)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK)
        status = mmul_parse_expression(parser, true, &right);
    if (status == MMUL_OK && mmul_parser_sees(parser, "="))
        status = mmul_source_fail(parser->lexer.source, parser->token.at, parser->err,
                                  "a = b = ... is not supported");
    if (status == MMUL_OK)
        status = mmul_parser_add(parser, node, right);
    return status == MMUL_OK ? end_line(parser) : status;
}

static enum mmul_status parse_statement(struct mmul_parser *parser, struct mmul_node *block) {
    static const struct {
        const char *word;
        enum mmul_node_kind kind;
        enum mmul_status (*parse)(struct mmul_parser *, struct mmul_node *);
    } compound[] = {
        {"for", MMUL_NODE_FOR, parse_for},      {"if", MMUL_NODE_IF, parse_if},
        {"def", MMUL_NODE_DEF, parse_def},      {"return", MMUL_NODE_RETURN, parse_return},
        {"break", MMUL_NODE_BREAK, parse_jump}, {"continue", MMUL_NODE_CONTINUE, parse_jump}};
    enum mmul_status (*parse)(struct mmul_parser *, struct mmul_node *) = parse_simple;
    enum mmul_node_kind kind = MMUL_NODE_EXPRESSION;
    struct mmul_node *node = NULL;
    const struct mmul_span at = parser->token.at;
    for (size_t i = 0; i < sizeof compound / sizeof *compound; i++)
        if (mmul_parser_sees(parser, compound[i].word)) {
            parse = compound[i].parse;
            kind = compound[i].kind;
        }
    enum mmul_status status = mmul_parser_node(parser, kind, at, &node);
    if (status == MMUL_OK && parse != parse_simple)
        status = mmul_parser_advance(parser);
    if (status == MMUL_OK)
        status = parse(parser, node);
    return status == MMUL_OK ? mmul_parser_add(parser, block, node) : status;
}

enum mmul_status mmul_tree_parse(const struct mmul_source *source, struct mmul_arena *arena,
                                 struct mmul_tree *tree, struct mmul_error *err) {
    struct mmul_parser parser = {.arena = arena, .err = err};
    const struct mmul_span all = {0, source->length};
    struct mmul_node *root = NULL;
    mmul_lexer_init(&parser.lexer, source, all, false);
    enum mmul_status status = mmul_parser_advance(&parser);
    if (status == MMUL_OK)
        status = mmul_parser_node(&parser, MMUL_NODE_BLOCK, all, &root);
    while (status == MMUL_OK && parser.token.kind != MMUL_TOKEN_END)
        status = parser.token.kind == MMUL_TOKEN_NEWLINE ? mmul_parser_advance(&parser)
                                                         : parse_statement(&parser, root);
    if (status == MMUL_OK)
        *tree = (struct mmul_tree){.source = source, .arena = arena, .root = root};
    return status;
}
