// SPDX-License-Identifier: MIT
// The stack machine of a pickle, private to the pickle_*.c files. Values are numbers, texts,
// containers and records, never anything that can be called. A value is an index into an array, and
// a container is a list of items, so shared and cyclic values do no harm.
#pragma once

#include "io/pickle.h"

enum mmul_pickle_kind {
    PICKLE_OTHER, // None, a float, a truth value (in `whole`)
    PICKLE_INTEGER,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,
    PICKLE_SET, // items are dropped
    PICKLE_MARK,
    PICKLE_GLOBAL, // a row of the table in pickle_objects.c
    PICKLE_CLASS,  // any other global
    PICKLE_OBJECT, // an instance of a class, or the result of a call
    PICKLE_STORAGE,
    PICKLE_TENSOR,
    PICKLE_ARRAY, // numpy array, elements not yet set
    PICKLE_DTYPE, // numpy dtype
};

struct mmul_pickle_value {
    enum mmul_pickle_kind kind;
    int first, last, count; // items of a container or object; first, last: -1 if none
    // By kind: the number or truth value; the row of a global or storage; the class of a class or
    // object; the record of a tensor; the byte order of a dtype.
    int64_t whole;
    int64_t offset;            // first element, of a storage that is part of another
    const unsigned char *text; // content of a text, bytes, dtype; key of a storage; `length` bytes
    int length;
    bool is_latin1; // bytes that are written as text
    bool is_seen;   // object already walked
    bool is_open;   // container on the current path of the walk
};

// Special keys of items. PICKLE_INDEX: an item of a list or tuple, found by its index.
// PICKLE_STATE: the state of an object.
enum { PICKLE_INDEX = -1, PICKLE_STATE = -2 };

struct mmul_pickle_item {
    int key;         // a value, or one of the above
    int value, next; // next: -1 at the end
};

struct mmul_pickle_class {
    struct mmul_pickle_text module, name;
    int64_t skipped; // objects of the class without a tensor
};

struct mmul_pickle_machine {
    const unsigned char *at, *end;
    const char *name;
    struct mmul_pickle_value *values;
    struct mmul_pickle_item *items;
    struct mmul_pickle_class *classes;
    int *stack, *memo; // memo: -1 for an unset index
    struct mmul_pickle_tensor *records;
    int64_t value_count, item_count, class_count, stack_count, memo_count, record_count;
    int64_t value_room, item_room, class_room, stack_room, memo_room, record_room;
    bool is_cut; // the pickle ends too early: it needs more bytes
    struct mmul_error *err;
};

// ------------------------------------------------------------------------- pickle_values.c: values

// Fails with "'F' is not a valid PyTorch file: its pickle WHAT". mmul_pickle_fail_cut also sets
// is_cut.
enum mmul_status mmul_pickle_fail(struct mmul_pickle_machine *m, const char *what);
enum mmul_status mmul_pickle_fail_cut(struct mmul_pickle_machine *m);

// Makes room for one more element in *array, a pointer to an array. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_grow(struct mmul_pickle_machine *m, void *array, int64_t count,
                                  int64_t *room, size_t bytes_each);

// Pushes an existing value, or a new one, on the stack. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_push(struct mmul_pickle_machine *m, int value);
enum mmul_status mmul_pickle_push_new(struct mmul_pickle_machine *m,
                                      struct mmul_pickle_value value);
enum mmul_status mmul_pickle_push_kind(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind);

// Return the top of the stack, which pop also removes. The pointer is valid until a value is
// pushed. NULL: the stack is empty or a mark is on top. The error is set then.
struct mmul_pickle_value *mmul_pickle_top(struct mmul_pickle_machine *m);
struct mmul_pickle_value *mmul_pickle_pop(struct mmul_pickle_machine *m);

// Adds an item to a container or object. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_append(struct mmul_pickle_machine *m, int container, int key,
                                    int value);

// Counts the values above the last mark. -1: there is no mark. The error is set then.
int64_t mmul_pickle_count_above_mark(struct mmul_pickle_machine *m);

// Take the last `count` values from the stack, and the mark below them if has_mark. make_tuple
// pushes a tuple of them. fill adds them as items to the value below: a list, a dict (key and value
// each), a set, or an object, according to `kind`. A negative count returns the error that is
// already set.
enum mmul_status mmul_pickle_make_tuple(struct mmul_pickle_machine *m, int64_t count,
                                        bool has_mark);
enum mmul_status mmul_pickle_add_items(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind,
                                       int64_t count, bool has_mark);

enum mmul_status mmul_pickle_memo_put(struct mmul_pickle_machine *m, uint32_t index);
enum mmul_status mmul_pickle_memo_get(struct mmul_pickle_machine *m, uint32_t index);

// Returns item `index` of a tuple or list, NULL if there is none.
struct mmul_pickle_value *mmul_pickle_item(const struct mmul_pickle_machine *m,
                                           const struct mmul_pickle_value *tuple, int index);
bool mmul_pickle_has_kind(const struct mmul_pickle_value *value, enum mmul_pickle_kind kind);
bool mmul_pickle_is_text(const struct mmul_pickle_value *value, const char *text);

// Reads whole numbers >= 0 from a tuple of at most MMUL_TENSOR_DIMENSIONS items. Returns false if
// any item is something else.
bool mmul_pickle_read_sizes(const struct mmul_pickle_machine *m,
                            const struct mmul_pickle_value *tuple, int64_t *sizes);

// Pushes a tensor on the stack. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_pickle_push_tensor(struct mmul_pickle_machine *m,
                                         const struct mmul_pickle_tensor *tensor);

// ----------------------------------------------------------------------- pickle_objects.c: objects

// Pushes a global, found by its name, on the stack.
enum mmul_status mmul_pickle_push_global(struct mmul_pickle_machine *m,
                                         struct mmul_pickle_text module,
                                         struct mmul_pickle_text name);
// Adds a class that no global of the file names.
enum mmul_status mmul_pickle_add_class(struct mmul_pickle_machine *m,
                                       struct mmul_pickle_text module, struct mmul_pickle_text name,
                                       int64_t *class);

// Execute the opcodes BINPERSID; REDUCE, NEWOBJ and NEWOBJ_EX, which has two `arguments`; and
// BUILD.
enum mmul_status mmul_pickle_load_persistent(struct mmul_pickle_machine *m);
enum mmul_status mmul_pickle_reduce(struct mmul_pickle_machine *m, int arguments);
enum mmul_status mmul_pickle_build(struct mmul_pickle_machine *m);

// Returns the bytes per element of the storage.
int mmul_pickle_storage_bytes_each(const struct mmul_pickle_value *storage);

// -------------------------------------------------------------------------- pickle_numpy.c: arrays

// Evaluate numpy.dtype(...), the state of a dtype, the state of an array (`array` is its value),
// and numpy.core.numeric._frombuffer(...).
enum mmul_status mmul_pickle_push_dtype(struct mmul_pickle_machine *m,
                                        const struct mmul_pickle_value *arguments);
void mmul_pickle_build_dtype(struct mmul_pickle_machine *m, struct mmul_pickle_value *dtype,
                             const struct mmul_pickle_value *state);
enum mmul_status mmul_pickle_build_array(struct mmul_pickle_machine *m, int array,
                                         const struct mmul_pickle_value *state);
enum mmul_status mmul_pickle_push_buffer(struct mmul_pickle_machine *m,
                                         const struct mmul_pickle_value *arguments);

// -------------------------------------------------------------------------- pickle_walk.c: tensors

// Collects the tensors reachable from the value `root`, and the objects without any, in *pickle.
enum mmul_status mmul_pickle_find_tensors(struct mmul_pickle_machine *m, int root,
                                          struct mmul_pickle *pickle);
