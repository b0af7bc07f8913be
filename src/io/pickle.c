// SPDX-License-Identifier: MIT
// A stack machine whose values are numbers, texts and containers, never anything that could be called: values are
// indices into an array, containers lists of items, so that what is shared or holds itself does no harm. What is on the
// stack in the end is walked for tensors.
#include "io/pickle.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/dtype.h"

enum kind { OTHER, WHOLE, TEXT, TUPLE, LIST, DICT, MARK, GLOBAL, STORAGE, TENSOR };
enum global { ORDERED_DICT, TENSOR_2, TENSOR_3, PARAMETER, STORAGE_TYPE, ELEMENT_TYPE };

struct value {
    enum kind kind;
    int first, last,
        count; // of a container: items; of a tensor: `first` is its place among records
    int64_t
        whole; // of a number, a global (its place in the table), a storage (likewise, of its type)
    const unsigned char *text; // of a text, a storage (its key); `length` bytes
    int length;
};

struct item {
    int value, next; // -1: it is the last one
};

struct machine {
    const unsigned char *at, *end;
    const char *name;
    struct value *values;
    struct item *items;
    int *stack, *memo; // memo: -1 where nothing is
    struct mmul_pickle_tensor *records;
    int64_t value_count, item_count, stack_count, memo_count, record_count;
    int64_t value_room, item_room, stack_room, memo_room, record_room;
    struct mmul_error *err;
};

// ---------------------------------------------------------------------------------------- globals

static const struct global_row {
    const char *module, *name;
    enum global global;
    const char *type; // of elements
    int bytes;
    bool is_readable;
    enum mmul_dtype dtype;
} globals[] = {
    {"collections", "OrderedDict", ORDERED_DICT, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR_2, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_3, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_parameter", PARAMETER, NULL, 0, false, MMUL_F32},
    {"torch", "FloatStorage", STORAGE_TYPE, NULL, 4, true, MMUL_F32},
    {"torch", "HalfStorage", STORAGE_TYPE, NULL, 2, true, MMUL_F16},
    {"torch", "BFloat16Storage", STORAGE_TYPE, NULL, 2, true, MMUL_BF16},
    {"torch", "DoubleStorage", STORAGE_TYPE, NULL, 8, true, MMUL_F64},
    {"torch", "LongStorage", STORAGE_TYPE, NULL, 8, true, MMUL_I64},
    {"torch", "IntStorage", STORAGE_TYPE, NULL, 4, true, MMUL_I32},
    {"torch", "ShortStorage", STORAGE_TYPE, NULL, 2, true, MMUL_I16},
    {"torch", "CharStorage", STORAGE_TYPE, NULL, 1, true, MMUL_I8},
    {"torch", "ByteStorage", STORAGE_TYPE, NULL, 1, true, MMUL_U8},
    {"torch", "BoolStorage", STORAGE_TYPE, NULL, 1, true, MMUL_BOOL},
    {"torch", "ComplexFloatStorage", STORAGE_TYPE, "complex64", 8, false, MMUL_F32},
    {"torch", "ComplexDoubleStorage", STORAGE_TYPE, "complex128", 16, false, MMUL_F32},
    {"torch", "UntypedStorage", STORAGE_TYPE, NULL, 1, true, MMUL_U8},
    {"torch.storage", "UntypedStorage", STORAGE_TYPE, NULL, 1, true, MMUL_U8},
    {"torch", "uint16", ELEMENT_TYPE, NULL, 2, true, MMUL_U16},
    {"torch", "uint32", ELEMENT_TYPE, NULL, 4, true, MMUL_U32},
    {"torch", "uint64", ELEMENT_TYPE, "uint64", 8, false, MMUL_F32},
    {"torch", "float8_e4m3fn", ELEMENT_TYPE, "float8_e4m3fn", 1, false, MMUL_F32},
    {"torch", "float8_e5m2", ELEMENT_TYPE, "float8_e5m2", 1, false, MMUL_F32},
};
enum { GLOBAL_COUNT = sizeof globals / sizeof *globals };

// Names of opcodes that are refused, as pickletools has them.
static const struct {
    unsigned char opcode;
    const char *name;
} refused[] = {
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'L', "LONG"},
    {'P', "PERSID"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'d', "DICT"},
    {'g', "GET"},
    {'i', "INST"},
    {'l', "LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x8B, "LONG4"},
    {0x8C, "SHORT_BINUNICODE"},
    {0x8D, "BINUNICODE8"},
    {0x8E, "BINBYTES8"},
    {0x8F, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
};

// ----------------------------------------------------------------------------------------- errors

static enum mmul_status fail(struct machine *m, const char *what) {
    return mmul_fail(m->err, MMUL_ERR_DATA, "'%s' is not a valid PyTorch file: its pickle %s",
                     m->name, what);
}

static enum mmul_status fail_opcode(struct machine *m, unsigned char opcode) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (refused[i].opcode != opcode)
            continue;
        mmul_fail(m->err, MMUL_ERR_DATA,
                  "'%s' is not read: its pickle has %s, which tensors do not need", m->name,
                  refused[i].name);
        if (opcode >= 0x8C)
            mmul_hint(m->err, "torch.save writes protocol 2 unless it is told another one");
        return m->err->status;
    }
    return mmul_fail(m->err, MMUL_ERR_DATA,
                     "'%s' is not a valid PyTorch file: its pickle has the unknown opcode 0x%02x",
                     m->name, opcode);
}

static enum mmul_status fail_global(struct machine *m, const char *module, int module_length,
                                    const char *name, int name_length) {
    mmul_fail(
        m->err, MMUL_ERR_DATA,
        "'%s' is not read: its pickle wants %.*s.%.*s of Python, and nothing is executed here",
        m->name, module_length < 80 ? module_length : 80, module,
        name_length < 80 ? name_length : 80, name);
    mmul_hint(m->err, "torch.save(model.state_dict(), ...) stores tensors alone");
    return m->err->status;
}

// ----------------------------------------------------------------------------------------- values

// Room for one more.
static enum mmul_status grow(struct machine *m, void *array, int64_t count, int64_t *room,
                             size_t bytes_each) {
    enum { FIRST = 256 };
    void *old, *larger;
    if (count < *room)
        return MMUL_OK;
    const int64_t wanted = *room > 0 ? 2 * *room : FIRST;
    memcpy(&old, array, sizeof old);
    larger = mmul_allocate_raw(wanted, bytes_each, "a pickle's values", m->err);
    if (larger == NULL)
        return m->err->status;
    if (count > 0)
        memcpy(larger, old, (size_t)count * bytes_each);
    mmul_free(old);
    memcpy(array, &larger, sizeof larger);
    *room = wanted;
    return MMUL_OK;
}

#define GROW(m, what) \
    grow(m, &(m)->what##s, (m)->what##_count, &(m)->what##_room, sizeof *(m)->what##s)

static enum mmul_status push(struct machine *m, int value) {
    enum mmul_status status = grow(m, &m->stack, m->stack_count, &m->stack_room, sizeof *m->stack);
    if (status == MMUL_OK)
        m->stack[m->stack_count++] = value;
    return status;
}

static enum mmul_status push_new(struct machine *m, struct value value) {
    enum mmul_status status = GROW(m, value);
    if (status != MMUL_OK)
        return status;
    value.last = -1;
    m->values[m->value_count] = value;
    return push(m, (int)m->value_count++);
}

static enum mmul_status push_kind(struct machine *m, enum kind kind) {
    return push_new(m, (struct value){.kind = kind, .first = -1});
}

static enum mmul_status push_whole(struct machine *m, int64_t whole) {
    return push_new(m, (struct value){.kind = WHOLE, .first = -1, .whole = whole});
}

// NULL: there is none, which `fail` has said; a mark is none.
static struct value *top(struct machine *m) {
    struct value *value = m->stack_count > 0 ? &m->values[m->stack[m->stack_count - 1]] : NULL;
    if (value != NULL && value->kind != MARK)
        return value;
    fail(m, "takes more than it has");
    return NULL;
}

static struct value *pop(struct machine *m) {
    struct value *value = top(m);
    m->stack_count -= value != NULL;
    return value;
}

static enum mmul_status append(struct machine *m, int container, int value) {
    enum mmul_status status = GROW(m, item);
    if (status != MMUL_OK)
        return status;
    struct value *to = &m->values[container];
    const int item = (int)m->item_count++;
    m->items[item] = (struct item){.value = value, .next = -1};
    if (to->count++ == 0)
        to->first = item;
    else
        m->items[to->last].next = item;
    to->last = item;
    return MMUL_OK;
}

// How many values are above the mark; -1: there is none.
static int64_t above_mark(struct machine *m) {
    int64_t at = m->stack_count - 1;
    while (at >= 0 && m->values[m->stack[at]].kind != MARK)
        at--;
    if (at < 0)
        fail(m, "has no mark where one is needed");
    return at < 0 ? -1 : m->stack_count - 1 - at;
}

// The last `count` values become items of `container`, and leave the stack, with the mark below where there is one.
static enum mmul_status take_items(struct machine *m, int container, int64_t count, bool has_mark) {
    enum mmul_status status = MMUL_OK;
    for (int64_t i = m->stack_count - count; status == MMUL_OK && i < m->stack_count; i++)
        status = append(m, container, m->stack[i]);
    m->stack_count -= count + has_mark;
    return status;
}

static enum mmul_status make_tuple(struct machine *m, int64_t count, bool has_mark) {
    if (count < 0)
        return m->err->status;
    for (int64_t i = m->stack_count - count; i < m->stack_count; i++)
        if (i < 0 || m->values[m->stack[i]].kind == MARK)
            return fail(m, "takes more than it has");
    enum mmul_status status = push_kind(m, TUPLE);
    if (status != MMUL_OK)
        return status;
    const int tuple = m->stack[--m->stack_count];
    status = take_items(m, tuple, count, has_mark);
    return status == MMUL_OK ? push(m, tuple) : status;
}

// What is above the mark goes into the list or dict below it.
static enum mmul_status fill(struct machine *m, enum kind kind, int64_t count, bool has_mark) {
    if (count < 0)
        return m->err->status;
    const int64_t below = m->stack_count - count - has_mark - 1;
    if (below < 0 || m->values[m->stack[below]].kind != kind || (kind == DICT && count % 2 != 0))
        return fail(m, kind == DICT ? "fills what is no dict" : "fills what is no list");
    for (int64_t i = m->stack_count - count; i < m->stack_count; i++)
        if (m->values[m->stack[i]].kind == MARK)
            return fail(m, "takes more than it has");
    return take_items(m, m->stack[below], count, has_mark);
}

// ------------------------------------------------------------------------------------------- memo

static enum mmul_status memo_put(struct machine *m, uint32_t index) {
    const int64_t most = m->end - m->at; // each takes bytes of the pickle
    if (top(m) == NULL)
        return m->err->status;
    if ((int64_t)index > m->memo_count + most)
        return fail(m, "numbers its values with gaps");
    while (m->memo_count <= index) {
        enum mmul_status status = grow(m, &m->memo, m->memo_count, &m->memo_room, sizeof *m->memo);
        if (status != MMUL_OK)
            return status;
        m->memo[m->memo_count++] = -1;
    }
    m->memo[index] = m->stack[m->stack_count - 1];
    return MMUL_OK;
}

static enum mmul_status memo_get(struct machine *m, uint32_t index) {
    if ((int64_t)index >= m->memo_count || m->memo[index] < 0)
        return fail(m, "takes a value that it has not numbered");
    return push(m, m->memo[index]);
}

// ---------------------------------------------------------------------------------------- tensors

// Item `index` of a tuple; NULL: it has no such.
static struct value *item_of(const struct machine *m, const struct value *tuple, int index) {
    int item = index < tuple->count ? tuple->first : -1;
    for (int i = 0; i < index && item >= 0; i++)
        item = m->items[item].next;
    return item >= 0 ? &m->values[m->items[item].value] : NULL;
}

static bool is_kind(const struct value *value, enum kind kind) {
    return value != NULL && value->kind == kind;
}

static bool is_text(const struct value *value, const char *text) {
    return is_kind(value, TEXT) && value->length == (int)strlen(text) &&
           memcmp(value->text, text, strlen(text)) == 0;
}

// ('storage', type, key, location, elements)
static enum mmul_status make_storage(struct machine *m) {
    const struct value *id = pop(m);
    if (id == NULL)
        return m->err->status;
    const struct value *type = item_of(m, id, 1), *key = item_of(m, id, 2);
    if (id->kind != TUPLE || id->count != 5 || !is_text(item_of(m, id, 0), "storage") ||
        !is_kind(type, GLOBAL) || globals[type->whole].global != STORAGE_TYPE ||
        !is_kind(key, TEXT))
        return fail(m, "has a persistent id that is no storage");
    return push_new(m, (struct value){.kind = STORAGE,
                                      .first = -1,
                                      .whole = type->whole,
                                      .text = key->text,
                                      .length = key->length});
}

static bool take_sizes(const struct machine *m, const struct value *tuple, int64_t *sizes) {
    for (int d = 0; d < tuple->count; d++) {
        const struct value *size = item_of(m, tuple, d);
        if (!is_kind(size, WHOLE) || size->whole < 0)
            return false;
        sizes[d] = size->whole;
    }
    return true;
}

// (storage, first element, sizes, strides, ...), and of version 3 the type of elements at place 6.
static enum mmul_status make_tensor(struct machine *m, const struct value *arguments,
                                    enum global version) {
    const struct value *storage = item_of(m, arguments, 0), *first = item_of(m, arguments, 1),
                       *sizes = item_of(m, arguments, 2), *strides = item_of(m, arguments, 3),
                       *type = version == TENSOR_3 ? item_of(m, arguments, 6) : NULL,
                       *metadata = item_of(m, arguments, version == TENSOR_3 ? 7 : 6);
    struct mmul_pickle_tensor made = {.name = NULL};
    if (!is_kind(storage, STORAGE) || !is_kind(first, WHOLE) || first->whole < 0 ||
        !is_kind(sizes, TUPLE) || !is_kind(strides, TUPLE) || sizes->count != strides->count ||
        (version == TENSOR_3 &&
         (!is_kind(type, GLOBAL) || globals[type->whole].global != ELEMENT_TYPE)))
        return fail(m, "has a tensor without storage, sizes and strides");
    if (sizes->count > MMUL_TENSOR_DIMENSIONS)
        return fail(m, "has a tensor of more than 8 dimensions");
    if (!take_sizes(m, sizes, made.sizes) || !take_sizes(m, strides, made.strides))
        return fail(m, "has a tensor whose sizes are no whole numbers");
    if (is_kind(metadata, DICT) && metadata->count > 0)
        return fail(m, "has a tensor that is to be conjugated or negated");
    const struct global_row *row = &globals[type != NULL ? type->whole : storage->whole];
    made.storage = (const char *)storage->text;
    made.storage_length = storage->length;
    made.type = row->type != NULL ? row->type : mmul_dtype_name(row->dtype);
    made.is_readable = row->is_readable;
    made.dtype = row->dtype;
    made.bytes_each = row->bytes;
    made.dimensions = sizes->count;
    made.first = first->whole;
    enum mmul_status status = GROW(m, record);
    if (status != MMUL_OK)
        return status;
    m->records[m->record_count] = made;
    return push_new(m, (struct value){.kind = TENSOR, .first = (int)m->record_count++});
}

static enum mmul_status reduce(struct machine *m) {
    if (pop(m) == NULL)
        return m->err->status;
    const int arguments_at = m->stack[m->stack_count];
    const struct value *callee = pop(m), *arguments = &m->values[arguments_at];
    if (callee == NULL)
        return m->err->status;
    if (callee->kind != GLOBAL || arguments->kind != TUPLE)
        return fail(m, "calls what is no function");
    const struct global_row *row = &globals[callee->whole];
    switch (row->global) {
    case ORDERED_DICT:
        return arguments->count == 0 ? push_kind(m, DICT)
                                     : fail(m, "makes an OrderedDict of something");
    case TENSOR_2:
    case TENSOR_3:
        return make_tensor(m, arguments, row->global);
    case PARAMETER:
        if (!is_kind(item_of(m, arguments, 0), TENSOR))
            return fail(m, "has a parameter that is no tensor");
        return push(m, m->items[arguments->first].value);
    default:
        return fail_global(m, row->module, (int)strlen(row->module), row->name,
                           (int)strlen(row->name));
    }
}

// ---------------------------------------------------------------------------------------- opcodes

// A number of `count` bytes, little-endian. False: the pickle ends before.
static bool take_bytes(struct machine *m, int count, uint64_t *number) {
    *number = 0;
    if (m->end - m->at < count) {
        fail(m, "ends too early");
        return false;
    }
    for (int b = 0; b < count; b++)
        *number |= (uint64_t)m->at[b] << 8 * b;
    m->at += count;
    return true;
}

static enum mmul_status take_text(struct machine *m) {
    uint64_t length = 0;
    if (!take_bytes(m, 4, &length))
        return m->err->status;
    if ((int64_t)length > m->end - m->at)
        return fail(m, "ends too early");
    const struct value text = {.kind = TEXT, .first = -1, .text = m->at, .length = (int)length};
    m->at += length;
    return push_new(m, text);
}

// Numbers of Python have any length; those of tensors 8 bytes at most.
static enum mmul_status take_long(struct machine *m) {
    uint64_t length = 0, number = 0;
    if (!take_bytes(m, 1, &length))
        return m->err->status;
    if (length > 8) {
        if ((int64_t)length > m->end - m->at)
            return fail(m, "ends too early");
        m->at += length;
        return push_kind(m, OTHER);
    }
    if (!take_bytes(m, (int)length, &number))
        return m->err->status;
    if (length > 0 && length < 8 && (number >> (8 * length - 1) & 1) != 0)
        number |= UINT64_MAX << 8 * length;
    return push_whole(m, (int64_t)number);
}

// Two lines: module and name.
static enum mmul_status take_global(struct machine *m) {
    const char *module = (const char *)m->at;
    const unsigned char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (end == NULL)
        return fail(m, "ends too early");
    const int module_length = (int)(end - m->at);
    m->at = end + 1;
    const char *name = (const char *)m->at;
    end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (end == NULL)
        return fail(m, "ends too early");
    const int name_length = (int)(end - m->at);
    m->at = end + 1;
    for (int g = 0; g < GLOBAL_COUNT; g++)
        if ((int)strlen(globals[g].module) == module_length &&
            memcmp(globals[g].module, module, (size_t)module_length) == 0 &&
            (int)strlen(globals[g].name) == name_length &&
            memcmp(globals[g].name, name, (size_t)name_length) == 0)
            return push_new(m, (struct value){.kind = GLOBAL, .first = -1, .whole = g});
    return fail_global(m, module, module_length, name, name_length);
}

// Attributes of a dict, such as the versions of a state_dict, are left out.
static enum mmul_status build(struct machine *m) {
    if (pop(m) == NULL)
        return m->err->status;
    const struct value *object = top(m);
    if (object == NULL)
        return m->err->status;
    return object->kind == DICT ? MMUL_OK : fail(m, "sets attributes of what is no dict");
}

static enum mmul_status step_number(struct machine *m, unsigned char opcode) {
    uint64_t number = 0;
    const int bytes = opcode == 'K' ? 1 : opcode == 'M' ? 2 : opcode == 'G' ? 8 : 4;
    if (!take_bytes(m, bytes, &number))
        return m->err->status;
    if (opcode == 'G')
        return push_kind(m, OTHER);
    return push_whole(m, opcode == 'J' ? (int32_t)number : (int64_t)number);
}

static enum mmul_status step_memo(struct machine *m, unsigned char opcode) {
    uint64_t number = 0;
    if (!take_bytes(m, opcode == 'q' || opcode == 'h' ? 1 : 4, &number))
        return m->err->status;
    return opcode == 'q' || opcode == 'r' ? memo_put(m, (uint32_t)number)
                                          : memo_get(m, (uint32_t)number);
}

// All but STOP.
static enum mmul_status step(struct machine *m, unsigned char opcode) {
    uint64_t ignored;
    switch (opcode) {
    case 0x80: // PROTO
        return take_bytes(m, 1, &ignored) ? MMUL_OK : m->err->status;
    case '}':
        return push_kind(m, DICT);
    case ']':
        return push_kind(m, LIST);
    case '(':
        return push_kind(m, MARK);
    case 'N':
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
        return push_kind(m, OTHER);
    case ')':
        return make_tuple(m, 0, false);
    case 0x85: // TUPLE1 to TUPLE3
    case 0x86:
    case 0x87:
        return make_tuple(m, opcode - 0x84, false);
    case 't':
        return make_tuple(m, above_mark(m), true);
    case 'a': // APPEND
        return fill(m, LIST, 1, false);
    case 'e': // APPENDS
        return fill(m, LIST, above_mark(m), true);
    case 's': // SETITEM
        return fill(m, DICT, 2, false);
    case 'u': // SETITEMS
        return fill(m, DICT, above_mark(m), true);
    case 'X': // BINUNICODE
        return take_text(m);
    case 'K': // BININT1, BININT2, BININT, BINFLOAT
    case 'M':
    case 'J':
    case 'G':
        return step_number(m, opcode);
    case 0x8A: // LONG1
        return take_long(m);
    case 'q': // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
    case 'r':
    case 'h':
    case 'j':
        return step_memo(m, opcode);
    case 'c':
        return take_global(m);
    case 'Q': // BINPERSID
        return make_storage(m);
    case 'R':
        return reduce(m);
    case 'b':
        return build(m);
    default:
        return fail_opcode(m, opcode);
    }
}

// *root: what is left in the end.
static enum mmul_status run(struct machine *m, int *root) {
    while (m->at < m->end) {
        const unsigned char opcode = *m->at++;
        if (opcode == '.') {
            if (top(m) == NULL)
                return m->err->status;
            *root = m->stack[m->stack_count - 1];
            return MMUL_OK;
        }
        enum mmul_status status = step(m, opcode);
        if (status != MMUL_OK)
            return status;
    }
    return fail(m, "ends too early");
}

// ---------------------------------------------------------------------------------------- walking

// What was made of a container is found by its way; containers that share others are walked as often as these are
// reached, so that small pickles may be large: there is an end to it.
enum { DEPTH_MOST = 64, NAME_MOST = 1000, VISITS_MOST = 1 << 20 };

struct walk {
    struct machine *m;
    struct mmul_pickle *pickle;
    int64_t room, visits;
    char name[NAME_MOST + 32];
    int length;
};

static enum mmul_status add_tensor(struct walk *w, int record) {
    struct machine *m = w->m;
    enum mmul_status status =
        grow(m, &w->pickle->tensors, w->pickle->count, &w->room, sizeof *w->pickle->tensors);
    if (status != MMUL_OK)
        return status;
    struct mmul_pickle_tensor *tensor = &w->pickle->tensors[w->pickle->count];
    *tensor = m->records[record];
    status = mmul_copy_text(w->length > 0 ? w->name : "data", &tensor->name, m->err);
    w->pickle->count += status == MMUL_OK;
    return status;
}

// The way goes on by a key, or by a place. Nothing but texts and whole numbers are keys.
static enum mmul_status go_on(struct walk *w, const struct value *key, int place) {
    const char *dot = w->length > 0 ? "." : "";
    char *at = w->name + w->length;
    const size_t room = sizeof w->name - (size_t)w->length;
    if (is_kind(key, TEXT) && (w->length + key->length > NAME_MOST ||
                               memchr(key->text, '\0', (size_t)key->length) != NULL))
        return fail(w->m, "has a key that is too long, or no text");
    if (is_kind(key, TEXT))
        w->length += snprintf(at, room, "%s%.*s", dot, key->length, (const char *)key->text);
    else
        w->length += snprintf(at, room, "%s%" PRId64, dot, key != NULL ? key->whole : place);
    return w->length <= NAME_MOST ? MMUL_OK : fail(w->m, "has a key that is too long, or no text");
}

static enum mmul_status visit(struct walk *w, int index, int depth) {
    struct machine *m = w->m;
    const struct value *value = &m->values[index];
    const int length = w->length;
    enum mmul_status status = MMUL_OK;
    if (depth > DEPTH_MOST || ++w->visits > VISITS_MOST)
        return fail(m, "has values that hold each other too deeply");
    if (value->kind == TENSOR)
        return add_tensor(w, value->first);
    if (value->kind != DICT && value->kind != LIST && value->kind != TUPLE)
        return MMUL_OK;
    int place = 0;
    for (int item = value->count > 0 ? value->first : -1; status == MMUL_OK && item >= 0;
         item = m->items[item].next) {
        const struct value *key = value->kind == DICT ? &m->values[m->items[item].value] : NULL;
        item = key != NULL ? m->items[item].next : item;
        // What is reached by other keys has no name.
        if (key != NULL && key->kind != TEXT && key->kind != WHOLE)
            continue;
        status = go_on(w, key, place++);
        if (status == MMUL_OK)
            status = visit(w, m->items[item].value, depth + 1);
        w->length = length;
        w->name[length] = '\0';
    }
    return status;
}

enum mmul_status mmul_pickle_parse(const unsigned char *bytes, size_t count, const char *name,
                                   struct mmul_pickle *pickle, struct mmul_error *err) {
    struct machine m = {.at = bytes, .end = bytes + count, .name = name, .err = err};
    struct walk w = {.m = &m, .pickle = pickle};
    int root = 0;
    *pickle = (struct mmul_pickle){.count = 0};
    enum mmul_status status = run(&m, &root);
    if (status == MMUL_OK)
        status = visit(&w, root, 0);
    mmul_free(m.values);
    mmul_free(m.items);
    mmul_free(m.stack);
    mmul_free(m.memo);
    mmul_free(m.records);
    if (status != MMUL_OK)
        mmul_pickle_fini(pickle);
    return status;
}

void mmul_pickle_fini(struct mmul_pickle *pickle) {
    for (int64_t t = 0; t < pickle->count; t++)
        mmul_free(pickle->tensors[t].name);
    mmul_free(pickle->tensors);
    *pickle = (struct mmul_pickle){.count = 0};
}
