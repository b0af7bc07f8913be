// SPDX-License-Identifier: MIT
// Training data: texts of tokens, encode and decode, batches, and ranges of numbers. A batch
// depends on its seed and iteration only, so no generator state must be saved. Root holds the text
// and sends only the windows of each batch.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "model/matrix.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/local_training.h"
#include "tensor/save_targets.h"
#include "tensor/script.h"

enum { CODE_POINTS = 0x110000 };

// ------------------------------------------------------------------------------------------ tokens

static enum mmul_status map_file(struct mmul_inputs *inputs, const char *path,
                                 struct mmul_token_text *text, struct mmul_error *err) {
    struct stat there;
    int fd = -1;
    enum mmul_status status = mmul_inputs_open_file(inputs, path, &fd, err);
    if (status != MMUL_OK)
        return status;
    if (fstat(fd, &there) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", path);
    text->bytes = there.st_size;
    text->mapped = mmap(NULL, (size_t)text->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text->mapped == MAP_FAILED) {
        text->mapped = NULL;
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot map '%s'", path);
    }
    return mmul_guard_create(text->mapped, text->bytes, &text->guard, err);
}

// Decodes the UTF-8 code point at `at` and its length. Returns -1 if it is invalid (RFC 3629:
// shortest forms only, no surrogates).
static int decode_utf8(const unsigned char *at, int64_t left, int *length) {
    static const int least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = *at;
    *length = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (*length == 0 || first >= 0xf8 || *length > left)
        return -1;
    int point = *length == 1 ? first : first & (0x7f >> *length);
    for (int i = 1; i < *length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return -1;
        point = point << 6 | (at[i] & 0x3f);
    }
    const bool is_surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[*length] || point >= CODE_POINTS || is_surrogate ? -1 : point;
}

// Numbers the distinct characters by code point, so that the vocabulary depends on the text alone.
static enum mmul_status read_chars(const char *path, struct mmul_token_text *text,
                                   struct mmul_error *err) {
    const unsigned char *bytes = text->mapped;
    int32_t *ids = NULL;
    int length = 0;
    if (MMUL_ALLOCATE(ids, CODE_POINTS, "a vocabulary", err) != MMUL_OK ||
        MMUL_ALLOCATE_RAW(text->ids, text->bytes, "a text", err) != MMUL_OK) {
        mmul_free(ids);
        return err->status;
    }
    for (int64_t at = 0; at < text->bytes; at += length) {
        const int point = decode_utf8(bytes + at, text->bytes - at, &length);
        if (point < 0) {
            mmul_free(ids);
            mmul_fail(err, MMUL_ERR_DATA, "'%s' is not UTF-8: invalid byte at offset %lld", path,
                      (long long)at);
            mmul_hint(err, "kind=\"bytes\" accepts any file");
            return err->status;
        }
        ids[point] = 1;
        text->ids[text->count++] = point;
    }
    for (int point = 0; point < CODE_POINTS; point++)
        if (ids[point] != 0)
            ids[point] = text->vocabulary++;
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(text->points, text->vocabulary, "a vocabulary", err);
    for (int64_t i = 0; status == MMUL_OK && i < text->count; i++) {
        const int point = text->ids[i];
        text->ids[i] = ids[point];
        text->points[ids[point]] = point;
    }
    mmul_free(ids);
    return status;
}

static int32_t token_at(const struct mmul_token_text *text, int64_t i) {
    const unsigned char *bytes = text->mapped;
    return text->ids != NULL  ? text->ids[i]
           : text->width == 1 ? bytes[i]
                              : bytes[2 * i] | bytes[2 * i + 1] << 8;
}

static enum mmul_status read_numbers(const char *path, int width, struct mmul_token_text *text,
                                     struct mmul_error *err) {
    text->width = width;
    text->count = text->bytes / width;
    text->vocabulary = 256;
    if (text->bytes % width != 0)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' has %lld bytes: not a multiple of 2 for 16-bit tokens", path,
                         (long long)text->bytes);
    for (int64_t i = 0; width > 1 && i < text->count; i++)
        if (token_at(text, i) >= text->vocabulary)
            text->vocabulary = token_at(text, i) + 1;
    return MMUL_OK;
}

enum mmul_status mmul_builtin_tokens(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    static const char *const kinds[] = {"chars", "bytes", "u16", NULL};
    struct mmul_token_text *text = NULL;
    const char *path = NULL;
    int kind = 0;
    (void)builtin;
    enum mmul_status status = mmul_argument_get_text(e, &arguments[0], "file", NULL, &path);
    if (status == MMUL_OK)
        status = mmul_argument_get_choice(e, &arguments[1], "kind", kinds, &kind);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(text, 1, "a text", e->err);
    if (status != MMUL_OK)
        return status;
    text->next = e->script->texts; // the script owns it from here
    e->script->texts = text;
    text->path = path;
    status = mmul_script_copy_text(e, &text->path);
    if (status == MMUL_OK)
        status = map_file(e->script->inputs, path, text, e->err);
    if (status == MMUL_OK)
        status =
            kind == 0 ? read_chars(path, text, e->err) : read_numbers(path, kind, text, e->err);
    if (status == MMUL_OK)
        status = mmul_inputs_check_file(e->script->inputs, path, e->err);
    *result = (struct mmul_object){.kind = MMUL_OBJECT_TOKENS, .tokens = text};
    return status == MMUL_OK ? status : mmul_evaluator_locate(e, call);
}

void mmul_script_token_texts_free(struct mmul_script *script) {
    while (script->texts != NULL) {
        struct mmul_token_text *text = script->texts;
        script->texts = text->next;
        mmul_guard_destroy(text->guard);
        if (text->mapped != NULL)
            munmap(text->mapped, (size_t)text->bytes);
        MMUL_FREE_ALL(text->ids, text->points, text);
    }
}

// ----------------------------------------------------------------------- numbers in root's memory

// Adds a matrix backed by numbers in root's memory. Takes ownership of `numbers`, which live until
// the job ends.
static enum mmul_status borrow_numbers(struct mmul_evaluator *e, const struct mmul_node *at,
                                       struct mmul_shape shape, enum mmul_dtype dtype,
                                       void *numbers, struct mmul_object *matrix) {
    struct mmul_script_temporary *lent = NULL;
    int value = -1;
    e->operations++; // counts as an operation, because it makes a matrix
    if (MMUL_ALLOCATE(lent, 1, "numbers", e->err) != MMUL_OK) {
        mmul_free(numbers);
        return e->err->status;
    }
    lent->numbers = numbers;
    lent->next = e->script->lent;
    e->script->lent = lent;
    if (mmul_matrix_borrow(numbers, shape, dtype, "numbers", &lent->matrix, e->err) != MMUL_OK ||
        mmul_program_load(e->program, lent->matrix, &value, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    *matrix = mmul_matrix_object(e, value, 2);
    return MMUL_OK;
}

// As borrow_numbers, for a count x length matrix of integers that the caller fills in.
static enum mmul_status borrow_integers(struct mmul_evaluator *e, const struct mmul_node *at,
                                        int64_t count, int64_t length, int32_t **numbers,
                                        struct mmul_object *matrix) {
    int32_t *made = NULL;
    if (MMUL_ALLOCATE(made, count * length, "a batch", e->err) != MMUL_OK)
        return e->err->status;
    *numbers = made;
    return borrow_numbers(e, at, (struct mmul_shape){1, 1, count, length}, MMUL_I32, made, matrix);
}

void mmul_script_temporaries_free(struct mmul_script *script) {
    while (script->lent != NULL) {
        struct mmul_script_temporary *lent = script->lent;
        script->lent = lent->next;
        mmul_matrix_close(lent->matrix);
        mmul_free(lent->numbers);
        mmul_free(lent);
    }
}

enum mmul_status mmul_script_open_tensor(struct mmul_evaluator *e, const struct mmul_node *at,
                                         const char *file, const char *tensor,
                                         struct mmul_matrix **matrix) {
    struct mmul_script_temporary *lent = NULL;
    const size_t bytes = strlen(file) + strlen(tensor) + 2;
    char *path = mmul_arena_allocate(e->arena, bytes, e->err);
    if (path == NULL || MMUL_ALLOCATE(lent, 1, "a tensor", e->err) != MMUL_OK)
        return e->err->status;
    lent->next = e->script->lent; // the script owns it from here
    e->script->lent = lent;
    snprintf(path, bytes, "%s:%s", file, tensor);
    if (mmul_inputs_open_matrix(e->script->inputs, path, &lent->matrix, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    *matrix = lent->matrix;
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------- characters

static int compare_points(const void *x, const void *y) {
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

// Returns the id of the character at `at` and its length; -1 if the text lacks it.
static int32_t find_letter(const struct mmul_token_text *text, const char *at, int *length) {
    const unsigned char *bytes = (const unsigned char *)at;
    const int32_t *found = NULL;
    *length = 1;
    if (text->points == NULL)
        return bytes[0];
    const int32_t point = decode_utf8(bytes, (int64_t)strlen(at), length);
    if (point >= 0)
        found =
            bsearch(&point, text->points, (size_t)text->vocabulary, sizeof point, compare_points);
    return found != NULL ? (int32_t)(found - text->points) : -1;
}

static enum mmul_status read_tokens(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                    const char *function, const struct mmul_token_text **text) {
    if (argument->object.kind != MMUL_OBJECT_TOKENS) {
        mmul_evaluator_fail(e, argument->node, "%s: text is %s, expected what tokens(...) gives",
                            function, mmul_object_name(&argument->object));
        return MMUL_ERR_DATA;
    }
    *text = argument->object.tokens;
    if ((*text)->width > 1)
        return mmul_evaluator_fail(e, argument->node,
                                   "%s needs a text of characters or bytes: '%s' has 16-bit tokens",
                                   function, (*text)->path);
    return MMUL_OK;
}

// Encodes characters as ids, 1 x n.
enum mmul_status mmul_builtin_encode(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    const struct mmul_token_text *text = NULL;
    const char *letters = NULL;
    int32_t ids[MMUL_STRING_MOST], *numbers = NULL;
    int count = 0;
    (void)builtin;
    if (mmul_argument_get_text(e, &arguments[0], "letters", NULL, &letters) != MMUL_OK ||
        read_tokens(e, &arguments[1], "encode", &text) != MMUL_OK)
        return e->err->status;
    for (int length = 0; *letters != '\0' && count < MMUL_STRING_MOST; letters += length) {
        const int32_t id = find_letter(text, letters, &length);
        if (id < 0)
            return mmul_evaluator_fail(e, arguments[0].node, "'%s' has no '%.*s'", text->path,
                                       length > 0 ? length : 1, letters);
        ids[count++] = id;
    }
    if (count == 0)
        return mmul_evaluator_fail(e, arguments[0].node, "encode: the string is empty");
    if (borrow_integers(e, call, 1, count, &numbers, result) != MMUL_OK)
        return e->err->status;
    memcpy(numbers, ids, (size_t)count * sizeof *ids);
    return MMUL_OK;
}

// Returns a format for print: the ids are not known during evaluation.
enum mmul_status mmul_builtin_decode(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    struct mmul_object letters = arguments[0].object;
    int64_t count = 0;
    (void)builtin;
    if (mmul_argument_check_matrix(e, &arguments[0], "ids") != MMUL_OK ||
        read_tokens(e, &arguments[1], "decode", &letters.tokens) != MMUL_OK)
        return e->err->status;
    if (!mmul_shape_count(letters.shape, &count) || count > MMUL_STRING_MOST)
        return mmul_evaluator_fail(e, call, "decode: more than %d ids", MMUL_STRING_MOST);
    enum mmul_status status = mmul_evaluator_tuple(e, &letters, 1, result);
    result->kind = MMUL_OBJECT_FORMAT;
    return status;
}

const char *mmul_script_letter(const struct mmul_token_text *text, double id,
                               char letter[static 5]) {
    static const char unknown[] = "\xef\xbf\xbd"; // U+FFFD
    if (!(id >= 0 && id < text->vocabulary))
        return unknown;
    const int32_t point = text->points != NULL ? text->points[(int)id] : -1;
    int length = 0;
    if (point < 0 || point < 0x80) {
        letter[length++] = (char)(point < 0 ? (int)id : point);
    } else {
        const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
        static const int first[] = {0, 0xc0, 0xe0, 0xf0};
        letter[length++] = (char)(first[more] | point >> (6 * more));
        for (int i = more - 1; i >= 0; i--)
            letter[length++] = (char)(0x80 | ((point >> (6 * i)) & 0x3f));
    }
    letter[length] = '\0';
    return letter;
}

// ----------------------------------------------------------------------------------------- batches

// Draws window w of an iteration from [0, most) by multiply-shift (Lemire 2019, without rejection).
static int64_t draw_index(uint64_t seed, int64_t turn, int64_t count, int64_t w, int64_t most) {
    const uint64_t drawn = mmul_random_at(seed, (uint64_t)(turn * count + w));
    return (int64_t)((unsigned __int128)drawn * (uint64_t)most >> 64);
}

struct batch {
    int64_t count, seed, turn;
    // Range of windows or rows to build: those of the current node, or all.
    int64_t begin, end;
};

// Returns windows of the text, and the same windows one token later.
static enum mmul_status make_text_batch(struct mmul_evaluator *e, const struct mmul_node *call,
                                        const struct mmul_argument *arguments,
                                        const struct batch *b, struct mmul_object *result) {
    const struct mmul_token_text *text = arguments[0].object.tokens;
    struct mmul_object pair[2];
    int32_t *x = NULL, *y = NULL;
    int64_t length = 0;
    if (mmul_argument_get_integer(e, &arguments[2], "length", &length) != MMUL_OK)
        return e->err->status;
    if (length < 1 || length >= text->count)
        return mmul_evaluator_fail(
            e, arguments[2].node,
            "window length %lld for a text of %lld tokens: expected 1 to %lld", (long long)length,
            (long long)text->count, (long long)text->count - 1);
    if (borrow_integers(e, call, b->end - b->begin, length, &x, &pair[0]) != MMUL_OK ||
        borrow_integers(e, call, b->end - b->begin, length, &y, &pair[1]) != MMUL_OK)
        return e->err->status;
    for (int64_t w = b->begin; w < b->end; w++) {
        const int64_t begin =
            draw_index((uint64_t)b->seed, b->turn, b->count, w, text->count - length);
        for (int64_t i = 0; i < length; i++) {
            *x++ = token_at(text, begin + i);
            *y++ = token_at(text, begin + i + 1);
        }
    }
    if (mmul_inputs_check_file(e->script->inputs, text->path, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, call);
    return mmul_evaluator_tuple(e, pair, 2, result);
}

static enum mmul_status reshape(struct mmul_evaluator *e, const struct mmul_node *at,
                                const struct mmul_object *x, int64_t rows, int64_t cols,
                                struct mmul_object *result) {
    struct mmul_call call = {
        .operation = "reshape", .operand_count = 1, .with.shape = {1, 1, rows, cols}};
    result->axes = 2;
    return mmul_apply_operation(e, at, &call, x, result);
}

// Returns random rows of a table with their labels: (1, n), or rows of a second table.
static enum mmul_status make_table_batch(struct mmul_evaluator *e, const struct mmul_node *call,
                                         const struct mmul_argument *arguments,
                                         const struct batch *b, struct mmul_object *result) {
    struct mmul_call take = {.operation = "take", .operand_count = 2};
    struct mmul_object pair[2] = {{.axes = 2}, {.axes = 2}}, both[2], ids;
    const struct mmul_object *table = &arguments[0].object;
    struct mmul_object labels = arguments[1].object;
    int32_t *numbers = NULL;
    if (mmul_argument_check_matrix(e, &arguments[0], "table") != MMUL_OK ||
        mmul_argument_check_matrix(e, &arguments[1], "labels") != MMUL_OK)
        return e->err->status;
    const bool is_row = labels.shape.rows == 1 && labels.shape.cols == table->shape.rows;
    if (table->axes != 2 || labels.axes != 2 || (!is_row && labels.shape.rows != table->shape.rows))
        return mmul_evaluator_fail(e, call,
                                   "batch: a table has two axes, and labels one for each "
                                   "of its rows");
    enum mmul_status status = borrow_integers(e, call, 1, b->end - b->begin, &numbers, &ids);
    for (int64_t w = b->begin; status == MMUL_OK && w < b->end; w++)
        *numbers++ =
            (int32_t)draw_index((uint64_t)b->seed, b->turn, b->count, w, table->shape.rows);
    if (status == MMUL_OK && is_row)
        status = reshape(e, call, &arguments[1].object, table->shape.rows, 1, &labels);
    both[0] = *table;
    both[1] = ids;
    if (status == MMUL_OK)
        status = mmul_apply_operation(e, call, &take, both, &pair[0]);
    both[0] = labels;
    if (status == MMUL_OK)
        status = mmul_apply_operation(e, call, &take, both, &pair[1]);
    if (status == MMUL_OK && is_row) {
        const struct mmul_object column = pair[1];
        status = reshape(e, call, &column, 1, b->end - b->begin, &pair[1]);
    }
    return status == MMUL_OK ? mmul_evaluator_tuple(e, pair, 2, result) : status;
}

// Splits `count` windows or rows among the nodes. Fails if a node gets none.
static enum mmul_status split_among_nodes(struct mmul_evaluator *e, const struct mmul_node *at,
                                          int64_t count, int64_t *begin, int64_t *end) {
    const struct mmul_local_node *a = e->apart;
    int64_t *offsets =
        mmul_arena_allocate(e->arena, (size_t)(a->nodes + 1) * sizeof *offsets, e->err);
    if (offsets == NULL || mmul_split_offsets(count, a->nodes, a->shares, MMUL_SPLIT_EXACT, offsets,
                                              e->err) != MMUL_OK)
        return e->err->status;
    *begin = offsets[a->node];
    *end = offsets[a->node + 1];
    if (*begin == *end)
        return mmul_evaluator_fail(e, at, "%lld rows are too few for %d nodes: node %d gets none",
                                   (long long)count, a->nodes, a->node);
    a->windows[a->node] += *end - *begin;
    return MMUL_OK;
}

enum mmul_status mmul_builtin_batch(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const bool is_text = arguments[0].object.kind == MMUL_OBJECT_TOKENS;
    struct batch b;
    (void)builtin;
    if (mmul_argument_get_integer(e, &arguments[is_text ? 1 : 2], "count", &b.count) != MMUL_OK ||
        mmul_argument_get_integer(e, &arguments[3], "seed", &b.seed) != MMUL_OK ||
        mmul_argument_get_integer(e, &arguments[4], "turn", &b.turn) != MMUL_OK)
        return e->err->status;
    if (b.count < 1 || b.turn < 0 || b.seed < 0)
        return mmul_evaluator_fail(e, call,
                                   "batch: count is at least 1, seed and turn are at "
                                   "least 0");
    b.begin = 0;
    b.end = b.count;
    if (e->apart != NULL && split_among_nodes(e, call, b.count, &b.begin, &b.end) != MMUL_OK)
        return e->err->status;
    e->script->windows += b.end - b.begin;
    return is_text ? make_text_batch(e, call, arguments, &b, result)
                   : make_table_batch(e, call, arguments, &b, result);
}

// ------------------------------------------------------------------------------- ranges of numbers

static enum mmul_status borrow_range(struct mmul_evaluator *e, const struct mmul_node *call,
                                     const struct mmul_object bounds[3], int64_t count,
                                     struct mmul_object *result) {
    const struct mmul_shape row = {1, 1, 1, count};
    const double begin = mmul_object_number(&bounds[0]), step = mmul_object_number(&bounds[2]);
    const double last = begin + (double)(count - 1) * step;
    double *reals = NULL;
    int32_t *wholes = NULL;
    const bool are_whole = mmul_object_is_integer(&bounds[0]) &&
                           mmul_object_is_integer(&bounds[2]) && fabs(begin) <= INT32_MAX &&
                           fabs(last) <= INT32_MAX;
    if (are_whole && MMUL_ALLOCATE(wholes, count, "numbers", e->err) != MMUL_OK)
        return e->err->status;
    if (!are_whole && MMUL_ALLOCATE(reals, count, "numbers", e->err) != MMUL_OK)
        return e->err->status;
    for (int64_t i = 0; i < count; i++)
        if (are_whole)
            wholes[i] = (int32_t)(begin + (double)i * step);
        else
            reals[i] = begin + (double)i * step;
    return are_whole ? borrow_numbers(e, call, row, MMUL_I32, wholes, result)
                     : borrow_numbers(e, call, row, MMUL_F64, reals, result);
}

// As numpy's arange, from 0 or from the first of two numbers. Returns a row.
enum mmul_status mmul_builtin_arange(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    static const char *const names[] = {"start", "stop", "step"};
    struct mmul_object bounds[3];
    const bool from_zero =
        arguments[1].node == NULL || arguments[1].object.kind == MMUL_OBJECT_NONE;
    double numbers[3] = {0, 0, 1};
    (void)builtin;
    for (int i = 0; i < 3; i++) {
        if (mmul_argument_get_real(e, &arguments[i], names[i], numbers[i], &numbers[i]) != MMUL_OK)
            return e->err->status;
        bounds[i] = mmul_object_is_number(&arguments[i].object) ? arguments[i].object
                                                                : mmul_object_from_integer(i == 2);
    }
    if (from_zero) {
        bounds[1] = bounds[0];
        bounds[0] = mmul_object_from_integer(0);
    }
    const double begin = mmul_object_number(&bounds[0]), end = mmul_object_number(&bounds[1]);
    const double count = ceil((end - begin) / mmul_object_number(&bounds[2]));
    if (mmul_object_number(&bounds[2]) == 0)
        return mmul_evaluator_fail(e, call, "arange: the step must not be 0");
    if (!(count >= 1 && count <= INT32_MAX))
        return mmul_evaluator_fail(e, call, "arange: %g numbers, expected 1 to %d",
                                   count > 0 ? count : 0, INT32_MAX);
    enum mmul_status status = borrow_range(e, call, bounds, (int64_t)count, result);
    result->is_row = true;
    return status;
}

// As numpy's linspace: `num` numbers including both ends. Returns a row.
enum mmul_status mmul_builtin_linspace(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                       const struct mmul_node *call,
                                       const struct mmul_argument *arguments,
                                       struct mmul_object *result) {
    double first = 0, last = 0, *reals = NULL;
    int64_t count = 50;
    (void)builtin;
    enum mmul_status status = mmul_argument_get_real(e, &arguments[0], "start", 0, &first);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[1], "stop", 0, &last);
    if (status == MMUL_OK && arguments[2].node != NULL)
        status = mmul_argument_get_integer(e, &arguments[2], "num", &count);
    if (status == MMUL_OK && (count < 1 || count > INT32_MAX))
        return mmul_evaluator_fail(e, call, "linspace: %lld numbers, expected 1 to %d",
                                   (long long)count, INT32_MAX);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(reals, count, "numbers", e->err);
    if (status != MMUL_OK)
        return status;
    const double step = count > 1 ? (last - first) / (double)(count - 1) : 0;
    for (int64_t i = 0; i < count; i++)
        reals[i] = i > 0 && i == count - 1 ? last : first + (double)i * step;
    status = borrow_numbers(e, call, (struct mmul_shape){1, 1, 1, count}, MMUL_F64, reals, result);
    result->is_row = true;
    return status;
}
