// SPDX-License-Identifier: MIT
// Reads a file of placements: a YAML document, parsed by libyaml and walked once. libyaml handles
// aliases and tags. The size of the text bounds all sizes. This file is the only user of libyaml.
// It does not know the values that names mean.
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/text_file.h"

struct rule {
    char *pattern, *backward; // owned; backward NULL: not given
    int line;
    struct mmul_placement_request requested_placement;
    int *ranks;                                   // owned, borrowed by `requested_placement`
    bool is_placed, is_replicated, has_all_ranks; // given in the entry
    bool is_used;
};

struct mmul_placements {
    struct rule *rules; // owned
    int count;
    char **notices; // owned, texts too
    int notice_count;
    // Number of entries with `compile: true`, the first of which is `first_compiled`.
    int compiled;
    const struct rule *first_compiled;
};

// Context of the reading functions, and of their errors.
struct reading {
    const char *path;
    yaml_document_t *document;
    struct mmul_placements *made;
    struct mmul_error *err;
};

static enum mmul_status fail_at_node(const struct reading *r, const yaml_node_t *at,
                                     const char *reason, const char *what) {
    enum { SHOWN = 60 };
    return mmul_fail(r->err, MMUL_ERR_DATA, "%s:%zu:%zu: '%.*s': %s", r->path,
                     at->start_mark.line + 1, at->start_mark.column + 1, SHOWN, what, reason);
}

// Returns the text of a scalar, "" for other nodes.
static const char *node_text(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

static yaml_node_t *node_at(const struct reading *r, int index) {
    return yaml_document_get_node(r->document, index);
}

__attribute__((format(printf, 2, 3))) static enum mmul_status add_notice(const struct reading *r,
                                                                         const char *format, ...) {
    struct mmul_placements *p = r->made;
    char **grown = NULL;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    enum mmul_status status = MMUL_ALLOCATE(grown, p->notice_count + 1, "placements", r->err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < p->notice_count; i++)
        grown[i] = p->notices[i];
    mmul_free(p->notices);
    p->notices = grown;
    status = mmul_copy_text(text, &grown[p->notice_count], r->err);
    p->notice_count += status == MMUL_OK;
    return status;
}

// ------------------------------------------------------------------------------------ one request

static const char *const WORDS[] = {"rows", "cols", "cyclic", "replicate", "grid"};
static const enum mmul_placement_kind KINDS[] = {
    MMUL_PLACE_ROWS, MMUL_PLACE_COLS, MMUL_PLACE_CYCLIC, MMUL_PLACE_REPLICATE, MMUL_PLACE_GRID};

static enum mmul_status read_kind(const struct reading *r, const yaml_node_t *node,
                                  struct rule *rule) {
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(node_text(node), WORDS[i]) == 0) {
            rule->requested_placement.kind = KINDS[i];
            rule->is_placed = true;
            return MMUL_OK;
        }
    return fail_at_node(r, node, "expected rows, cols, cyclic, replicate or grid", node_text(node));
}

static enum mmul_status read_number(const struct reading *r, const yaml_node_t *node, int64_t most,
                                    int *number) {
    struct mmul_error ignored;
    int64_t value;
    if (mmul_parse_int64(node_text(node), "a number", 0, most, &value, &ignored) != MMUL_OK)
        return fail_at_node(
            r, node, most > 1 ? "expected a rank: 0, 1, ..." : "expected axis 0 (rows) or 1 (cols)",
            node_text(node));
    *number = (int)value;
    return MMUL_OK;
}

// Returns true for YAML 1.1's null: no value.
static bool is_null(const yaml_node_t *node) {
    const char *text = node_text(node);
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (*text == '\0' || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
}

static enum mmul_status read_bool(const struct reading *r, const yaml_node_t *node, bool *is_true) {
    *is_true = strcasecmp(node_text(node), "true") == 0;
    return *is_true || strcasecmp(node_text(node), "false") == 0
               ? MMUL_OK
               : fail_at_node(r, node, "expected true or false", node_text(node));
}

// Reads a list of ranks, or one rank. null: all.
static enum mmul_status read_ranks(const struct reading *r, const yaml_node_t *node,
                                   struct rule *rule) {
    const bool is_list = node->type == YAML_SEQUENCE_NODE;
    const yaml_node_item_t *items = is_list ? node->data.sequence.items.start : NULL;
    const int count = is_list ? (int)(node->data.sequence.items.top - items) : 1;
    if (rule->ranks != NULL || rule->has_all_ranks)
        return fail_at_node(r, node, "its ranks are given twice", rule->pattern);
    rule->is_placed = true;
    if (is_null(node)) {
        rule->has_all_ranks = true;
        return MMUL_OK;
    }
    if (count == 0)
        return fail_at_node(r, node, "expected at least one rank", rule->pattern);
    enum mmul_status status = MMUL_ALLOCATE(rule->ranks, count, "placements", r->err);
    for (int i = 0; status == MMUL_OK && i < count; i++)
        status = read_number(r, is_list ? node_at(r, items[i]) : node, INT_MAX, &rule->ranks[i]);
    rule->requested_placement.ranks = rule->ranks;
    rule->requested_placement.rank_count = count;
    return status;
}

typedef enum mmul_status read_pair(const struct reading *r, const yaml_node_t *key,
                                   const yaml_node_t *value, struct rule *rule);

static enum mmul_status read_pairs(const struct reading *r, const yaml_node_t *map, read_pair *read,
                                   struct rule *rule) {
    enum mmul_status status = MMUL_OK;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
         status == MMUL_OK && p < map->data.mapping.pairs.top; p++)
        status = read(r, node_at(r, p->key), node_at(r, p->value), rule);
    return status;
}

// Reads `replicated`. A replicated value is whole, regardless of the rest of the entry.
static enum mmul_status read_replicated(const struct reading *r, const yaml_node_t *value,
                                        struct rule *rule) {
    enum mmul_status status = read_bool(r, value, &rule->is_replicated);
    rule->is_placed |= rule->is_replicated;
    return status;
}

// Reads shard: {axis: 0, workers: [0, 1], replicated: false}. Without an axis the value is whole.
static enum mmul_status read_shard(const struct reading *r, const yaml_node_t *key,
                                   const yaml_node_t *value, struct rule *rule) {
    int axis;
    if (strcmp(node_text(key), "workers") == 0 || strcmp(node_text(key), "ranks") == 0)
        return read_ranks(r, value, rule);
    if (strcmp(node_text(key), "replicated") == 0)
        return read_replicated(r, value, rule);
    if (strcmp(node_text(key), "axis") != 0)
        return fail_at_node(r, key, "expected axis, workers or replicated", node_text(key));
    enum mmul_status status = read_number(r, value, 1, &axis);
    rule->is_placed = true;
    if (status == MMUL_OK)
        rule->requested_placement.kind = axis == 0 ? MMUL_PLACE_ROWS : MMUL_PLACE_COLS;
    return status;
}

// Reads `compile`, which another program's files use to compile operations. It has no effect here.
static enum mmul_status read_compile(const struct reading *r, const yaml_node_t *value,
                                     const struct rule *rule) {
    bool is_compiled;
    enum mmul_status status = read_bool(r, value, &is_compiled);
    if (status == MMUL_OK && is_compiled && r->made->compiled++ == 0)
        r->made->first_compiled = rule;
    return status;
}

// Reads the columns of a block of a cyclic value.
static enum mmul_status read_block(const struct reading *r, const yaml_node_t *value,
                                   struct rule *rule) {
    struct mmul_error ignored;
    return mmul_parse_int64(node_text(value), "a number", 1, INT64_MAX,
                            &rule->requested_placement.block_cols, &ignored) == MMUL_OK
               ? MMUL_OK
               : fail_at_node(r, value, "expected 1 or more columns", node_text(value));
}

static enum mmul_status read_key(const struct reading *r, const yaml_node_t *key,
                                 const yaml_node_t *value, struct rule *rule) {
    const char *name = node_text(key);
    if (strcmp(name, "shard") == 0 && value->type == YAML_MAPPING_NODE)
        return read_pairs(r, value, read_shard, rule);
    if (strcmp(name, "shard") == 0)
        return read_kind(r, value, rule);
    if (strcmp(name, "ranks") == 0)
        return read_ranks(r, value, rule);
    if (strcmp(name, "backward") == 0 && rule->backward == NULL)
        return mmul_copy_text(node_text(value), &rule->backward, r->err);
    if (strcmp(name, "replicated") == 0)
        return read_replicated(r, value, rule);
    if (strcmp(name, "block") == 0)
        return read_block(r, value, rule);
    if (strcmp(name, "compile") == 0)
        return read_compile(r, value, rule);
    return fail_at_node(r, key, "expected shard, block, ranks, replicated, backward or compile",
                        name);
}

static enum mmul_status read_rule(const struct reading *r, const yaml_node_t *key,
                                  const yaml_node_t *value) {
    struct rule *rule = &r->made->rules[r->made->count++];
    rule->requested_placement.kind = MMUL_PLACE_REPLICATE;
    rule->line = (int)key->start_mark.line + 1;
    if (*node_text(key) == '\0')
        return fail_at_node(r, key, "expected the name of a value", node_text(key));
    enum mmul_status status = mmul_copy_text(node_text(key), &rule->pattern, r->err);
    if (status != MMUL_OK)
        return status;
    rule->requested_placement.pattern = rule->pattern;
    for (int i = 0; i + 1 < r->made->count; i++)
        if (strcmp(r->made->rules[i].pattern, rule->pattern) == 0)
            return fail_at_node(r, key, "this name occurs twice", rule->pattern);
    status = value->type == YAML_MAPPING_NODE ? read_pairs(r, value, read_key, rule)
                                              : read_kind(r, value, rule);
    rule->is_placed |= rule->backward != NULL;
    if (rule->is_replicated)
        rule->requested_placement.kind = MMUL_PLACE_REPLICATE;
    if (status == MMUL_OK && rule->requested_placement.kind == MMUL_PLACE_GRID &&
        rule->ranks != NULL)
        return fail_at_node(r, value, "a grid is on all ranks", rule->pattern);
    if (status == MMUL_OK && rule->requested_placement.kind != MMUL_PLACE_CYCLIC &&
        rule->requested_placement.block_cols != 0)
        return fail_at_node(r, value, "only cyclic has blocks of columns", rule->pattern);
    return status;
}

// Resolves `backward`: gradients go to the ranks of another entry. Without such an entry they go to
// the value's own ranks, since files of other programs may name missing entries.
static enum mmul_status resolve_backward(const struct reading *r) {
    struct mmul_placements *p = r->made;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < p->count; i++) {
        struct rule *rule = &p->rules[i];
        int other = 0;
        if (rule->backward == NULL)
            continue;
        while (other < p->count && strcmp(p->rules[other].pattern, rule->backward) != 0)
            other++;
        if (other < p->count)
            p->rules[other].is_used = true;
        if (other == p->count || p->rules[other].ranks == NULL) {
            status = add_notice(r,
                                "%s:%d: backward of '%.60s' is '%.60s', which has no "
                                "ranks: its gradients stay with the value",
                                r->path, rule->line, rule->pattern, rule->backward);
            continue;
        }
        rule->requested_placement.backward_ranks = p->rules[other].ranks;
        rule->requested_placement.backward_count = p->rules[other].requested_placement.rank_count;
    }
    return status;
}

static enum mmul_status add_compile_notice(const struct reading *r) {
    const struct mmul_placements *p = r->made;
    if (p->compiled == 0)
        return MMUL_OK;
    return add_notice(r, "%s:%d: compile of '%.60s'%s is ignored", r->path, p->first_compiled->line,
                      p->first_compiled->pattern, p->compiled > 1 ? " and of others" : "");
}

// ---------------------------------------------------------------------------------------- the file

static enum mmul_status read_document(const struct reading *r) {
    const yaml_node_t *root = yaml_document_get_root_node(r->document);
    enum mmul_status status = MMUL_OK;
    if (root == NULL || root->type != YAML_MAPPING_NODE)
        return mmul_fail(r->err, MMUL_ERR_DATA, "%s: expected lines NAME: placement", r->path);
    const yaml_node_pair_t *pairs = root->data.mapping.pairs.start;
    const int count = (int)(root->data.mapping.pairs.top - pairs);
    status = MMUL_ALLOCATE(r->made->rules, count, "placements", r->err);
    for (int i = 0; status == MMUL_OK && i < count; i++)
        status = read_rule(r, node_at(r, pairs[i].key), node_at(r, pairs[i].value));
    if (status == MMUL_OK)
        status = resolve_backward(r);
    return status == MMUL_OK ? add_compile_notice(r) : status;
}

enum mmul_status mmul_placements_read(const char *path, struct mmul_placements **placements,
                                      struct mmul_error *err) {
    yaml_parser_t parser;
    yaml_document_t document;
    char *text = NULL;
    struct mmul_placements *made = NULL;
    enum mmul_status status = mmul_text_file_load(path, "placements", &text, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made, 1, "placements", err);
    if (status == MMUL_OK && !yaml_parser_initialize(&parser))
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "out of memory: placements");
    if (status != MMUL_OK) {
        mmul_free(text);
        mmul_free(made);
        return status;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    if (!yaml_parser_load(&parser, &document)) {
        status = mmul_fail(err, MMUL_ERR_DATA, "%s:%zu:%zu: %s", path, parser.problem_mark.line + 1,
                           parser.problem_mark.column + 1,
                           parser.problem != NULL ? parser.problem : "no YAML");
    } else {
        const struct reading r = {path, &document, made, err};
        status = read_document(&r);
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    mmul_free(text);
    if (status == MMUL_OK)
        *placements = made;
    else
        mmul_placements_destroy(made);
    return status;
}

void mmul_placements_destroy(struct mmul_placements *placements) {
    for (int i = 0; placements != NULL && i < placements->count; i++) {
        MMUL_FREE_ALL(placements->rules[i].pattern, placements->rules[i].backward,
                      placements->rules[i].ranks);
    }
    for (int i = 0; placements != NULL && i < placements->notice_count; i++)
        mmul_free(placements->notices[i]);
    if (placements != NULL) {
        mmul_free(placements->rules);
        mmul_free(placements->notices);
    }
    mmul_free(placements);
}

bool mmul_placements_find(struct mmul_placements *placements, const char *name,
                          struct mmul_placement_request *requested_placement) {
    for (int i = 0; placements != NULL && i < placements->count; i++) {
        struct rule *rule = &placements->rules[i];
        if (fnmatch(rule->pattern, name, 0) != 0)
            continue;
        rule->is_used = true;
        *requested_placement = rule->requested_placement;
        return rule->is_placed;
    }
    return false;
}

const char *mmul_placements_notice(const struct mmul_placements *placements, int index) {
    return placements != NULL && index < placements->notice_count ? placements->notices[index]
                                                                  : NULL;
}

const char *mmul_placements_unused(const struct mmul_placements *placements, int index) {
    for (int i = 0; placements != NULL && i < placements->count; i++)
        if (!placements->rules[i].is_used && index-- == 0)
            return placements->rules[i].pattern;
    return NULL;
}
