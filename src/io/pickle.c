// SPDX-License-Identifier: MIT
// Executes the opcodes of a pickle on the machine of pickle_machine.h. pickle_walk.c then searches
// the value left on the stack for tensors. No opcode calls or imports anything.
#include "io/pickle.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/pickle_machine.h"

// Opcodes that are refused, named as in pickletools: those of older protocols, and those that need
// something from outside the file.
static const struct {
    unsigned char opcode;
    const char *name;
} refused[] = {
    {'F', "FLOAT"},  {'I', "INT"},     {'L', "LONG"},  {'P', "PERSID"},
    {'S', "STRING"}, {'V', "UNICODE"}, {'d', "DICT"},  {'g', "GET"},
    {'i', "INST"},   {'l', "LIST"},    {'o', "OBJ"},   {'p', "PUT"},
    {0x82, "EXT1"},  {0x83, "EXT2"},   {0x84, "EXT4"}, {0x97, "NEXT_BUFFER"},
};

static enum mmul_status fail_opcode(struct mmul_pickle_machine *m, unsigned char opcode) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].opcode == opcode)
            return mmul_fail(
                m->err, MMUL_ERR_DATA,
                "'%s' is not read: its pickle uses the opcode %s, which is not supported", m->name,
                refused[i].name);
    return mmul_fail(m->err, MMUL_ERR_DATA,
                     "'%s' is not a valid PyTorch file: its pickle has the unknown opcode 0x%02x",
                     m->name, opcode);
}

// Reads a number of `count` bytes, little-endian. Returns false if the pickle ends before.
static bool read_unsigned(struct mmul_pickle_machine *m, int count, uint64_t *number) {
    *number = 0;
    if (m->end - m->at < count) {
        mmul_pickle_fail_cut(m);
        return false;
    }
    for (int b = 0; b < count; b++)
        *number |= (uint64_t)m->at[b] << 8 * b;
    m->at += count;
    return true;
}

// Reads a text or bytes. Its length comes first and takes `length_bytes`.
static enum mmul_status read_text(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind,
                                  int length_bytes) {
    uint64_t length = 0;
    if (!read_unsigned(m, length_bytes, &length))
        return m->err->status;
    if (length > (uint64_t)(m->end - m->at))
        return mmul_pickle_fail_cut(m);
    const struct mmul_pickle_value text = {.kind = kind, .text = m->at, .length = (int)length};
    m->at += length;
    return mmul_pickle_push_new(m, text);
}

static enum mmul_status push_integer(struct mmul_pickle_machine *m, int64_t whole) {
    return mmul_pickle_push_new(m,
                                (struct mmul_pickle_value){.kind = PICKLE_INTEGER, .whole = whole});
}

static enum mmul_status push_bool(struct mmul_pickle_machine *m, bool is_true) {
    return mmul_pickle_push_new(m,
                                (struct mmul_pickle_value){.kind = PICKLE_OTHER, .whole = is_true});
}

// Reads a number of any length. One of more than 8 bytes is no size of a tensor and becomes
// PICKLE_OTHER.
static enum mmul_status read_long(struct mmul_pickle_machine *m, int length_bytes) {
    uint64_t length = 0, number = 0;
    if (!read_unsigned(m, length_bytes, &length))
        return m->err->status;
    if (length > 8) {
        if (length > (uint64_t)(m->end - m->at))
            return mmul_pickle_fail_cut(m);
        m->at += length;
        return mmul_pickle_push_kind(m, PICKLE_OTHER);
    }
    if (!read_unsigned(m, (int)length, &number))
        return m->err->status;
    if (length > 0 && length < 8 && (number >> (8 * length - 1) & 1) != 0)
        number |= UINT64_MAX << 8 * length;
    return push_integer(m, (int64_t)number);
}

static enum mmul_status read_number(struct mmul_pickle_machine *m, unsigned char opcode) {
    uint64_t number = 0;
    const int bytes = opcode == 'K' ? 1 : opcode == 'M' ? 2 : opcode == 'G' ? 8 : 4;
    if (!read_unsigned(m, bytes, &number))
        return m->err->status;
    if (opcode == 'G')
        return mmul_pickle_push_kind(m, PICKLE_OTHER);
    return push_integer(m, opcode == 'J' ? (int32_t)number : (int64_t)number);
}

static bool read_line(struct mmul_pickle_machine *m, struct mmul_pickle_text *line) {
    const unsigned char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (end == NULL) {
        mmul_pickle_fail_cut(m);
        return false;
    }
    *line = (struct mmul_pickle_text){(const char *)m->at, (int)(end - m->at)};
    m->at = end + 1;
    return true;
}

// Reads a global as two lines: module and name.
static enum mmul_status read_global(struct mmul_pickle_machine *m) {
    struct mmul_pickle_text module, name;
    if (!read_line(m, &module) || !read_line(m, &name))
        return m->err->status;
    return mmul_pickle_push_global(m, module, name);
}

// Takes a global's module and name from the stack.
static enum mmul_status pop_global(struct mmul_pickle_machine *m) {
    const struct mmul_pickle_value *name = mmul_pickle_pop(m);
    const struct mmul_pickle_value *module = name != NULL ? mmul_pickle_pop(m) : NULL;
    if (module == NULL)
        return m->err->status;
    if (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT)
        return mmul_pickle_fail(m, "has a global without a name");
    return mmul_pickle_push_global(
        m, (struct mmul_pickle_text){(const char *)module->text, module->length},
        (struct mmul_pickle_text){(const char *)name->text, name->length});
}

static enum mmul_status execute_memo(struct mmul_pickle_machine *m, unsigned char opcode) {
    uint64_t number = 0;
    if (!read_unsigned(m, opcode == 'q' || opcode == 'h' ? 1 : 4, &number))
        return m->err->status;
    return opcode == 'q' || opcode == 'r' ? mmul_pickle_memo_put(m, (uint32_t)number)
                                          : mmul_pickle_memo_get(m, (uint32_t)number);
}

static enum mmul_status drop_values(struct mmul_pickle_machine *m, int64_t count) {
    if (count < 0)
        return m->err->status;
    m->stack_count -= count;
    return MMUL_OK;
}

// Executes opcodes of containers and of values without content.
static enum mmul_status execute_value(struct mmul_pickle_machine *m, unsigned char opcode) {
    switch (opcode) {
    case '}':
        return mmul_pickle_push_kind(m, PICKLE_DICT);
    case ']':
        return mmul_pickle_push_kind(m, PICKLE_LIST);
    case 0x8F: // EMPTY_SET
        return mmul_pickle_push_kind(m, PICKLE_SET);
    case '(':
        return mmul_pickle_push_kind(m, PICKLE_MARK);
    case 'N':
        return mmul_pickle_push_kind(m, PICKLE_OTHER);
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
        return push_bool(m, opcode == 0x88);
    case ')':
        return mmul_pickle_make_tuple(m, 0, false);
    case 0x85: // TUPLE1 to TUPLE3
    case 0x86:
    case 0x87:
        return mmul_pickle_make_tuple(m, opcode - 0x84, false);
    case 't':
        return mmul_pickle_make_tuple(m, mmul_pickle_count_above_mark(m), true);
    case 'a': // APPEND
        return mmul_pickle_add_items(m, PICKLE_LIST, 1, false);
    case 'e': // APPENDS
        return mmul_pickle_add_items(m, PICKLE_LIST, mmul_pickle_count_above_mark(m), true);
    case 's': // SETITEM
        return mmul_pickle_add_items(m, PICKLE_DICT, 2, false);
    case 'u': // SETITEMS
        return mmul_pickle_add_items(m, PICKLE_DICT, mmul_pickle_count_above_mark(m), true);
    case 0x90: // ADDITEMS
        return mmul_pickle_add_items(m, PICKLE_SET, mmul_pickle_count_above_mark(m), true);
    case 0x91: { // FROZENSET
        const int64_t count = mmul_pickle_count_above_mark(m);
        return drop_values(m, count < 0 ? count : count + 1) == MMUL_OK
                   ? mmul_pickle_push_kind(m, PICKLE_SET)
                   : m->err->status;
    }
    default:
        return fail_opcode(m, opcode);
    }
}

// Executes opcodes of texts, bytes and numbers: the content follows the opcode.
static enum mmul_status execute_content(struct mmul_pickle_machine *m, unsigned char opcode) {
    switch (opcode) {
    case 'X': // BINUNICODE
    case 'T': // BINSTRING: texts of Python 2
        return read_text(m, PICKLE_TEXT, 4);
    case 0x8C: // SHORT_BINUNICODE
    case 'U':  // SHORT_BINSTRING
        return read_text(m, PICKLE_TEXT, 1);
    case 0x8D: // BINUNICODE8
        return read_text(m, PICKLE_TEXT, 8);
    case 'B': // BINBYTES
        return read_text(m, PICKLE_BYTES, 4);
    case 'C': // SHORT_BINBYTES
        return read_text(m, PICKLE_BYTES, 1);
    case 0x8E: // BINBYTES8
    case 0x96: // BYTEARRAY8
        return read_text(m, PICKLE_BYTES, 8);
    case 'K': // BININT1, BININT2, BININT, BINFLOAT
    case 'M':
    case 'J':
    case 'G':
        return read_number(m, opcode);
    case 0x8A: // LONG1
        return read_long(m, 1);
    case 0x8B: // LONG4
        return read_long(m, 4);
    default:
        return execute_value(m, opcode);
    }
}

// Executes any opcode but STOP.
static enum mmul_status execute_opcode(struct mmul_pickle_machine *m, unsigned char opcode) {
    uint64_t ignored;
    switch (opcode) {
    case 0x80: // PROTO, FRAME
    case 0x95:
        return read_unsigned(m, opcode == 0x80 ? 1 : 8, &ignored) ? MMUL_OK : m->err->status;
    case 'q': // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
    case 'r':
    case 'h':
    case 'j':
        return execute_memo(m, opcode);
    case 0x94: // MEMOIZE
        return mmul_pickle_memo_put(m, (uint32_t)m->memo_count);
    case '0': // POP
        return mmul_pickle_pop(m) != NULL ? MMUL_OK : m->err->status;
    case '1': { // POP_MARK
        const int64_t count = mmul_pickle_count_above_mark(m);
        return drop_values(m, count < 0 ? count : count + 1);
    }
    case '2': // DUP
        return mmul_pickle_top(m) != NULL ? mmul_pickle_push(m, m->stack[m->stack_count - 1])
                                          : m->err->status;
    case 0x98: // READONLY_BUFFER
        return mmul_pickle_top(m) != NULL ? MMUL_OK : m->err->status;
    case 'c':
        return read_global(m);
    case 0x93:
        return pop_global(m);
    case 'Q': // BINPERSID
        return mmul_pickle_load_persistent(m);
    case 'R':  // REDUCE
    case 0x81: // NEWOBJ
        return mmul_pickle_reduce(m, 1);
    case 0x92: // NEWOBJ_EX
        return mmul_pickle_reduce(m, 2);
    case 'b':
        return mmul_pickle_build(m);
    default:
        return execute_content(m, opcode);
    }
}

// Executes the pickle up to STOP. *root: the value on top of the stack.
static enum mmul_status execute_pickle(struct mmul_pickle_machine *m, int *root) {
    while (m->at < m->end) {
        const unsigned char opcode = *m->at++;
        if (opcode == '.') {
            if (mmul_pickle_top(m) == NULL)
                return m->err->status;
            *root = m->stack[m->stack_count - 1];
            return MMUL_OK;
        }
        enum mmul_status status = execute_opcode(m, opcode);
        if (status != MMUL_OK)
            return status;
    }
    return mmul_pickle_fail_cut(m);
}

// ----------------------------------------------------------------------------------------- results

static enum mmul_status list_storages(const struct mmul_pickle_machine *m,
                                      struct mmul_pickle *pickle) {
    int64_t count = 0;
    for (int64_t v = 0; v < m->value_count; v++)
        count += m->values[v].kind == PICKLE_STORAGE;
    enum mmul_status status = MMUL_ALLOCATE(pickle->storages, count, "a list of storages", m->err);
    for (int64_t v = 0; status == MMUL_OK && v < m->value_count; v++) {
        const struct mmul_pickle_value *value = &m->values[v];
        if (value->kind == PICKLE_STORAGE)
            pickle->storages[pickle->storage_count++] = (struct mmul_pickle_storage){
                {(const char *)value->text, value->length}, mmul_pickle_storage_bytes_each(value)};
    }
    return status;
}

static enum mmul_status list_texts(const struct mmul_pickle_machine *m, int root,
                                   struct mmul_pickle *pickle) {
    const struct mmul_pickle_value *list = &m->values[root];
    const bool is_list = list->kind == PICKLE_LIST;
    int item = is_list ? list->first : -1;
    enum mmul_status status =
        MMUL_ALLOCATE(pickle->texts, is_list ? list->count : 0, "a list of keys", m->err);
    for (; status == MMUL_OK && item >= 0; item = m->items[item].next) {
        const struct mmul_pickle_value *value = &m->values[m->items[item].value];
        if (value->kind != PICKLE_TEXT) {
            pickle->text_count = 0;
            break;
        }
        pickle->texts[pickle->text_count++] =
            (struct mmul_pickle_text){(const char *)value->text, value->length};
    }
    return status;
}

enum mmul_status mmul_pickle_parse(const unsigned char *bytes, size_t count, const char *name,
                                   struct mmul_pickle *pickle, struct mmul_error *err) {
    struct mmul_pickle_machine m = {.at = bytes, .end = bytes + count, .name = name, .err = err};
    int root = 0;
    *pickle = (struct mmul_pickle){.count = 0};
    enum mmul_status status = execute_pickle(&m, &root);
    if (status == MMUL_OK)
        status = mmul_pickle_find_tensors(&m, root, pickle);
    if (status == MMUL_OK)
        status = list_storages(&m, pickle);
    if (status == MMUL_OK)
        status = list_texts(&m, root, pickle);
    if (status != MMUL_OK)
        mmul_pickle_fini(pickle);
    pickle->bytes = status == MMUL_OK ? (size_t)(m.at - bytes) : m.is_cut ? count : 0;
    MMUL_FREE_ALL(m.values, m.items, m.classes, m.stack, m.memo, m.records);
    return status;
}

void mmul_pickle_fini(struct mmul_pickle *pickle) {
    for (int64_t t = 0; t < pickle->count; t++)
        mmul_free(pickle->tensors[t].name);
    for (int64_t s = 0; s < pickle->skipped_count; s++)
        mmul_free((char *)pickle->skipped[s].name);
    mmul_free(pickle->tensors);
    mmul_free(pickle->skipped);
    mmul_free(pickle->storages);
    mmul_free(pickle->texts);
    *pickle = (struct mmul_pickle){.count = 0};
}
