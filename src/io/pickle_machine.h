// SPDX-License-Identifier: MIT
//
// The stack machine of a pickle, for the files that make it up: values are numbers, texts, containers and records,
// never anything that could be called. They are indices into an array and containers lists of items, so that values
// that are shared or hold themselves do no harm.
#pragma once

#include "io/pickle.h"

enum mmul_pickle_kind {
    PICKLE_OTHER, // None, a float, a truth (`whole`)
    PICKLE_WHOLE,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,
    PICKLE_SET, // its items are dropped
    PICKLE_MARK,
    PICKLE_GLOBAL, // of the table in pickle_objects.c
    PICKLE_CLASS,  // any other global
    PICKLE_OBJECT, // of such a class, or what it returns
    PICKLE_STORAGE,
    PICKLE_TENSOR,
    PICKLE_ARRAY, // of numpy, without its elements yet
    PICKLE_DTYPE, // of numpy
};

struct mmul_pickle_value {
    enum mmul_pickle_kind kind;
    int first, last, count; // items of a container or object
    // Of a number or a truth: itself; of a global or storage: its row; of a class or object: the class; of a tensor:
    // the record; of a dtype: the byte order.
    int64_t whole;
    int64_t offset;            // of a storage that is a part of another
    const unsigned char *text; // of a text, bytes, a storage (its key), a dtype; `length` bytes
    int length;
    bool is_latin1; // bytes that are written as a text
    bool is_seen;   // an object that was walked through
    bool is_open;   // a container that is being walked through
};

// What an item is found by, where that is no value.
enum { PICKLE_PLACE = -1, PICKLE_STATE = -2 }; // its place; nothing: it is the object's state

struct mmul_pickle_item {
    int key;         // a value, or one of the above
    int value, next; // -1: it is the last one
};

struct mmul_pickle_class {
    struct mmul_pickle_text module, name;
    int64_t skipped; // objects of it in which no tensor was found
};

struct mmul_pickle_machine {
    const unsigned char *at, *end;
    const char *name;
    struct mmul_pickle_value *values;
    struct mmul_pickle_item *items;
    struct mmul_pickle_class *classes;
    int *stack, *memo; // memo: -1 where nothing is
    struct mmul_pickle_tensor *records;
    int64_t value_count, item_count, class_count, stack_count, memo_count, record_count;
    int64_t value_room, item_room, class_room, stack_room, memo_room, record_room;
    bool is_cut; // it needs more bytes than there are
    struct mmul_error *err;
};

// ------------------------------------------------------------------------- pickle_values.c: values

// "'F' is not a valid PyTorch file: its pickle WHAT".
enum mmul_status mmul_pickle_fail(struct mmul_pickle_machine *m, const char *what);
enum mmul_status mmul_pickle_fail_cut(struct mmul_pickle_machine *m);

// Makes room for one more of what *array, a pointer, points to. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_grow(struct mmul_pickle_machine *m, void *array, int64_t count,
                                  int64_t *room, size_t bytes_each);

// A value that is there, or a new one, becomes the top of the stack. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_push(struct mmul_pickle_machine *m, int value);
enum mmul_status mmul_pickle_push_new(struct mmul_pickle_machine *m,
                                      struct mmul_pickle_value value);
enum mmul_status mmul_pickle_push_kind(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind);

// The top of the stack, which pop takes away; valid until a value is pushed. NULL: the stack is empty or ends with a
// mark, which the error says.
struct mmul_pickle_value *mmul_pickle_top(struct mmul_pickle_machine *m);
struct mmul_pickle_value *mmul_pickle_pop(struct mmul_pickle_machine *m);

// Adds an item to a container or object. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_append(struct mmul_pickle_machine *m, int container, int key,
                                    int value);

// How many values are above the last mark. -1: there is none, which the error says.
int64_t mmul_pickle_above_mark(struct mmul_pickle_machine *m);

// The last `count` values become a tuple, or items of what is below them: a list, a dict of key and value each, a set,
// or an object, as `kind` says. With the mark below them where there is one. A negative count passes on a failure.
enum mmul_status mmul_pickle_make_tuple(struct mmul_pickle_machine *m, int64_t count,
                                        bool has_mark);
enum mmul_status mmul_pickle_fill(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind,
                                  int64_t count, bool has_mark);

enum mmul_status mmul_pickle_memo_put(struct mmul_pickle_machine *m, uint32_t index);
enum mmul_status mmul_pickle_memo_get(struct mmul_pickle_machine *m, uint32_t index);

// Item `index` of a tuple or list. NULL: there is none.
struct mmul_pickle_value *mmul_pickle_item(const struct mmul_pickle_machine *m,
                                           const struct mmul_pickle_value *tuple, int index);
bool mmul_pickle_is(const struct mmul_pickle_value *value, enum mmul_pickle_kind kind);
bool mmul_pickle_is_text(const struct mmul_pickle_value *value, const char *text);

// Whole numbers from 0 on of a tuple of at most MMUL_TENSOR_DIMENSIONS. False: it has others.
bool mmul_pickle_take_sizes(const struct mmul_pickle_machine *m,
                            const struct mmul_pickle_value *tuple, int64_t *sizes);

// A tensor becomes the top of the stack. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_push_tensor(struct mmul_pickle_machine *m,
                                         const struct mmul_pickle_tensor *tensor);

// ----------------------------------------------------------------------- pickle_objects.c: objects

// A global by its name becomes the top of the stack.
enum mmul_status mmul_pickle_push_global(struct mmul_pickle_machine *m,
                                         struct mmul_pickle_text module,
                                         struct mmul_pickle_text name);
// A class that the file does not name.
enum mmul_status mmul_pickle_add_class(struct mmul_pickle_machine *m,
                                       struct mmul_pickle_text module, struct mmul_pickle_text name,
                                       int64_t *class);

// What the opcodes BINPERSID, REDUCE (and NEWOBJ, NEWOBJ_EX, with more arguments) and BUILD do.
enum mmul_status mmul_pickle_take_persistent(struct mmul_pickle_machine *m);
enum mmul_status mmul_pickle_reduce(struct mmul_pickle_machine *m, int arguments);
enum mmul_status mmul_pickle_build(struct mmul_pickle_machine *m);

// Bytes of elements of that storage.
int mmul_pickle_storage_bytes_each(const struct mmul_pickle_value *storage);

// ------------------------------------------------------------------------- pickle_numpy.c: arrays

// numpy.dtype(...), the state of one, the state of an array (of which `array` is the value), and
// numpy.core.numeric._frombuffer(...).
enum mmul_status mmul_pickle_push_dtype(struct mmul_pickle_machine *m,
                                        const struct mmul_pickle_value *arguments);
void mmul_pickle_build_dtype(struct mmul_pickle_machine *m, struct mmul_pickle_value *dtype,
                             const struct mmul_pickle_value *state);
enum mmul_status mmul_pickle_build_array(struct mmul_pickle_machine *m, int array,
                                         const struct mmul_pickle_value *state);
enum mmul_status mmul_pickle_push_buffer(struct mmul_pickle_machine *m,
                                         const struct mmul_pickle_value *arguments);

// -------------------------------------------------------------------------- pickle_walk.c: tensors

// The tensors that are found from the value `root` on, and the objects that hold none, to *pickle.
enum mmul_status mmul_pickle_walk(struct mmul_pickle_machine *m, int root,
                                  struct mmul_pickle *pickle);
