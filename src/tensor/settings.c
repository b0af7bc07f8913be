// SPDX-License-Identifier: MIT
// Settings from the command line, NAME=VALUE: replaces the literal of a line `NAME = literal` in
// the syntax tree before evaluation.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "tensor/script.h"

// Returns the literal of `NAME = 64`, `NAME = -1` or `NAME = "text"`; NULL for other statements.
static struct mmul_node *literal_of(const struct mmul_node *statement) {
    if (statement->kind != MMUL_NODE_ASSIGN || statement->first->kind != MMUL_NODE_NAME)
        return NULL;
    struct mmul_node *value = statement->last;
    bool is_negative = value->kind == MMUL_NODE_NEGATIVE && value->first->kind == MMUL_NODE_NUMBER;
    bool is_literal = value->kind == MMUL_NODE_NUMBER || value->kind == MMUL_NODE_STRING;
    return is_negative || is_literal ? value : NULL;
}

// Bytes shown of a setting; a longer one keeps its beginning and end.
enum { SHOWN_BYTES = 61 };

static enum mmul_status fail_unknown(const struct mmul_tree *tree, const char *setting,
                                     const char *name, struct mmul_error *err) {
    enum { MOST = 250, SHOWN = 5 };
    const char *names[MOST + 1] = {NULL};
    int count = 0;
    for (const struct mmul_node *s = tree->root->first; s != NULL && count < MOST; s = s->next)
        if (literal_of(s) != NULL)
            names[count++] = s->first->text;
    const char *nearest = mmul_nearest(name, names);
    char name_shown[SHOWN_BYTES];
    mmul_text_copy_shortened(name_shown, sizeof name_shown, name);
    mmul_fail(err, MMUL_ERR_USAGE, "'%s': no line of '%s' assigns a number or string to '%s'",
              setting, mmul_source_name(tree->source), name_shown);
    struct mmul_text shown = {0};
    for (int i = 0; i < count && i < SHOWN; i++)
        mmul_text_add(&shown, "%s'%s'", i > 0 ? ", " : "", names[i]);
    if (nearest != NULL)
        mmul_hint(err, "'%s'?", nearest);
    else if (count == 0)
        mmul_hint(err, "no line assigns a number or string");
    else
        mmul_hint(err, "it has %s%s", mmul_text_get(&shown), count > SHOWN ? ", ..." : "");
    mmul_text_fini(&shown);
    return MMUL_ERR_USAGE;
}

static enum mmul_status set_number(struct mmul_node *node, const char *setting, const char *value,
                                   struct mmul_error *err) {
    char *end = NULL;
    errno = 0;
    double real = strtod(value, &end);
    bool is_number = end != value && *end == '\0' && isfinite(real) &&
                     strspn(value, "0123456789+-.eE") == strlen(value);
    bool is_integer = is_number && strpbrk(value, ".eE") == NULL;
    if (is_integer) {
        errno = 0;
        node->integer = strtoll(value, NULL, 10);
        is_number = errno != ERANGE;
    }
    if (!is_number)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s': expected a number after '='", setting);
    node->kind = MMUL_NODE_NUMBER;
    node->is_integer = is_integer;
    node->real = real;
    return MMUL_OK;
}

enum mmul_status mmul_setting_apply(struct mmul_tree *tree, const char *text,
                                    struct mmul_error *err) {
    const char *equals = strchr(text, '=');
    char shown[SHOWN_BYTES];
    mmul_text_copy_shortened(shown, sizeof shown, text);
    if (equals == NULL || equals == text)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s': expected NAME=VALUE", shown);
    size_t length = (size_t)(equals - text), bytes = strlen(text) + 1;
    char *copy = mmul_arena_allocate(tree->arena, bytes, err);
    if (copy == NULL)
        return err->status;
    memcpy(copy, text, bytes);
    copy[length] = '\0';
    for (const struct mmul_node *s = tree->root->first; s != NULL; s = s->next) {
        struct mmul_node *literal = literal_of(s);
        if (literal == NULL || strcmp(s->first->text, copy) != 0)
            continue;
        if (literal->kind != MMUL_NODE_STRING)
            return set_number(literal, shown, equals + 1, err);
        literal->text = copy + length + 1;
        return MMUL_OK;
    }
    return fail_unknown(tree, shown, copy, err);
}
