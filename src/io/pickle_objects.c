// SPDX-License-Identifier: MIT
// Globals of a pickle and the objects made with them. Globals that tensors need are rows of a
// table. Any other global is a class, and its objects are only their attributes.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/pickle_machine.h"
#include "model/dtype.h"

enum global {
    ORDERED_DICT,
    DEFAULT_DICT,
    SET,
    BYTES,
    ENCODE,
    RECONSTRUCTOR,
    SIZE,
    TENSOR_2, // and version 1, with the same first arguments
    TENSOR_3,
    TENSOR_TYPED,
    PARAMETER,
    QUANTISED,
    SPARSE,
    META,
    STORAGE_TYPE,
    ELEMENT_TYPE,
    NUMPY_ARRAY,
    NUMPY_BUFFER,
    NUMPY_DTYPE,
};

static const struct global_row {
    const char *module, *name;
    enum global global;
    const char *type; // type of elements
    int bytes;
    bool is_readable;
    enum mmul_dtype dtype;
} globals[] = {
    {"collections", "OrderedDict", ORDERED_DICT, NULL, 0, false, MMUL_F32},
    {"collections", "defaultdict", DEFAULT_DICT, NULL, 0, false, MMUL_F32},
    {"__builtin__", "set", SET, NULL, 0, false, MMUL_F32},
    {"__builtin__", "frozenset", SET, NULL, 0, false, MMUL_F32},
    {"builtins", "set", SET, NULL, 0, false, MMUL_F32},
    {"builtins", "frozenset", SET, NULL, 0, false, MMUL_F32},
    {"__builtin__", "bytes", BYTES, NULL, 0, false, MMUL_F32},
    {"_codecs", "encode", ENCODE, NULL, 0, false, MMUL_F32},
    {"copyreg", "_reconstructor", RECONSTRUCTOR, NULL, 0, false, MMUL_F32},
    {"copy_reg", "_reconstructor", RECONSTRUCTOR, NULL, 0, false, MMUL_F32},
    {"torch", "Size", SIZE, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_tensor", TENSOR_2, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR_2, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_3, NULL, 0, false, MMUL_F32},
    {"torch._tensor", "_rebuild_from_type_v2", TENSOR_TYPED, NULL, 0, false, MMUL_F32},
    {"torch._tensor", "_rebuild_from_type", TENSOR_TYPED, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_parameter", PARAMETER, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_parameter_with_state", PARAMETER, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_qtensor", QUANTISED, NULL, 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_sparse_tensor", SPARSE, "sparse", 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_sparse_csr_tensor", SPARSE, "sparse", 0, false, MMUL_F32},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", META, "meta", 0, false, MMUL_F32},
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
    {"torch", "QInt8Storage", STORAGE_TYPE, "qint8", 1, false, MMUL_F32},
    {"torch", "QUInt8Storage", STORAGE_TYPE, "quint8", 1, false, MMUL_F32},
    {"torch", "QInt32Storage", STORAGE_TYPE, "qint32", 4, false, MMUL_F32},
    {"torch", "QUInt4x2Storage", STORAGE_TYPE, "quint4x2", 1, false, MMUL_F32},
    {"torch", "QUInt2x4Storage", STORAGE_TYPE, "quint2x4", 1, false, MMUL_F32},
    {"torch", "UntypedStorage", STORAGE_TYPE, NULL, 1, true, MMUL_U8},
    {"torch.storage", "UntypedStorage", STORAGE_TYPE, NULL, 1, true, MMUL_U8},
    {"torch", "uint16", ELEMENT_TYPE, NULL, 2, true, MMUL_U16},
    {"torch", "uint32", ELEMENT_TYPE, NULL, 4, true, MMUL_U32},
    {"torch", "uint64", ELEMENT_TYPE, "uint64", 8, false, MMUL_F32},
    {"torch", "float8_e4m3fn", ELEMENT_TYPE, "float8_e4m3fn", 1, false, MMUL_F32},
    {"torch", "float8_e5m2", ELEMENT_TYPE, "float8_e5m2", 1, false, MMUL_F32},
    {"numpy.core.multiarray", "_reconstruct", NUMPY_ARRAY, NULL, 0, false, MMUL_F32},
    {"numpy._core.multiarray", "_reconstruct", NUMPY_ARRAY, NULL, 0, false, MMUL_F32},
    {"numpy.core.numeric", "_frombuffer", NUMPY_BUFFER, NULL, 0, false, MMUL_F32},
    {"numpy._core.numeric", "_frombuffer", NUMPY_BUFFER, NULL, 0, false, MMUL_F32},
    {"numpy", "dtype", NUMPY_DTYPE, NULL, 0, false, MMUL_F32},
};
enum { GLOBAL_COUNT = sizeof globals / sizeof *globals };

// ----------------------------------------------------------------------------------------- globals

static bool is_named(struct mmul_pickle_text text, const char *name) {
    return (int)strlen(name) == text.length && memcmp(name, text.text, strlen(name)) == 0;
}

static bool is_global(const struct mmul_pickle_value *value, enum global global) {
    return mmul_pickle_has_kind(value, PICKLE_GLOBAL) && globals[value->whole].global == global;
}

enum mmul_status mmul_pickle_add_class(struct mmul_pickle_machine *m,
                                       struct mmul_pickle_text module, struct mmul_pickle_text name,
                                       int64_t *class) {
    enum mmul_status status =
        mmul_pickle_grow(m, &m->classes, m->class_count, &m->class_room, sizeof *m->classes);
    if (status != MMUL_OK)
        return status;
    m->classes[m->class_count] = (struct mmul_pickle_class){.module = module, .name = name};
    *class = m->class_count++;
    return MMUL_OK;
}

enum mmul_status mmul_pickle_push_global(struct mmul_pickle_machine *m,
                                         struct mmul_pickle_text module,
                                         struct mmul_pickle_text name) {
    struct mmul_pickle_value value = {.kind = PICKLE_GLOBAL};
    for (; value.whole < GLOBAL_COUNT; value.whole++)
        if (is_named(module, globals[value.whole].module) &&
            is_named(name, globals[value.whole].name))
            return mmul_pickle_push_new(m, value);
    value.kind = PICKLE_CLASS;
    enum mmul_status status = mmul_pickle_add_class(m, module, name, &value.whole);
    return status == MMUL_OK ? mmul_pickle_push_new(m, value) : status;
}

// ---------------------------------------------------------------------------------------- storages

int mmul_pickle_storage_bytes_each(const struct mmul_pickle_value *storage) {
    return globals[storage->whole].bytes;
}

// Pushes a storage. `id` is ('storage', type, key, location, elements). The older form adds (view's
// key, first element, elements) or None.
static enum mmul_status push_storage(struct mmul_pickle_machine *m,
                                     const struct mmul_pickle_value *id) {
    const struct mmul_pickle_value *type = mmul_pickle_item(m, id, 1),
                                   *key = mmul_pickle_item(m, id, 2),
                                   *view = mmul_pickle_item(m, id, 5), *first = NULL;
    if (mmul_pickle_has_kind(view, PICKLE_TUPLE))
        first = mmul_pickle_item(m, view, 1);
    if ((id->count != 5 && id->count != 6) || !is_global(type, STORAGE_TYPE) ||
        !mmul_pickle_has_kind(key, PICKLE_TEXT) ||
        (mmul_pickle_has_kind(view, PICKLE_TUPLE) &&
         (!mmul_pickle_has_kind(first, PICKLE_INTEGER) || first->whole < 0)))
        return mmul_pickle_fail(m, "has a persistent id that is not a storage");
    return mmul_pickle_push_new(
        m, (struct mmul_pickle_value){.kind = PICKLE_STORAGE,
                                      .whole = type->whole,
                                      .offset = first != NULL ? first->whole : 0,
                                      .text = key->text,
                                      .length = key->length});
}

enum mmul_status mmul_pickle_load_persistent(struct mmul_pickle_machine *m) {
    const struct mmul_pickle_value *id = mmul_pickle_pop(m);
    if (id == NULL)
        return m->err->status;
    const struct mmul_pickle_value *word =
        id->kind == PICKLE_TUPLE ? mmul_pickle_item(m, id, 0) : NULL;
    // The older form stores classes of modules together with their source.
    if (mmul_pickle_is_text(word, "module") &&
        mmul_pickle_has_kind(mmul_pickle_item(m, id, 1), PICKLE_CLASS))
        return mmul_pickle_push(m, m->items[m->items[id->first].next].value);
    if (mmul_pickle_is_text(word, "storage"))
        return push_storage(m, id);
    return mmul_pickle_fail(m, "has a persistent id that is not a storage");
}

// ----------------------------------------------------------------------------------------- tensors

static enum mmul_status push_unreadable_tensor(struct mmul_pickle_machine *m, const char *type,
                                               const struct mmul_pickle_value *sizes) {
    struct mmul_pickle_tensor made = {.name = NULL};
    if (!mmul_pickle_has_kind(sizes, PICKLE_TUPLE) || sizes->count > MMUL_TENSOR_DIMENSIONS ||
        !mmul_pickle_read_sizes(m, sizes, made.sizes))
        return mmul_pickle_fail(m, "has a tensor without sizes");
    mmul_text_copy(made.type, sizeof made.type, type);
    made.dimensions = sizes->count;
    return mmul_pickle_push_tensor(m, &made);
}

// Pushes a sparse tensor. Arguments: (layout, (..., sizes, ...)). The sizes are the only tuple
// among tensors.
static enum mmul_status push_sparse(struct mmul_pickle_machine *m,
                                    const struct mmul_pickle_value *arguments) {
    const struct mmul_pickle_value *parts = mmul_pickle_item(m, arguments, 1), *sizes = NULL;
    for (int p = 0; mmul_pickle_has_kind(parts, PICKLE_TUPLE) && p < parts->count && p < 4; p++)
        if (mmul_pickle_has_kind(mmul_pickle_item(m, parts, p), PICKLE_TUPLE))
            sizes = mmul_pickle_item(m, parts, p);
    return push_unreadable_tensor(m, "sparse", sizes);
}

// Pushes a tensor. Arguments: (storage, first element, sizes, strides, ...). Version 3 has the
// element type at index 6.
static enum mmul_status push_tensor(struct mmul_pickle_machine *m,
                                    const struct mmul_pickle_value *arguments,
                                    enum global version) {
    const struct mmul_pickle_value *storage = mmul_pickle_item(m, arguments, 0),
                                   *first = mmul_pickle_item(m, arguments, 1),
                                   *sizes = mmul_pickle_item(m, arguments, 2),
                                   *strides = mmul_pickle_item(m, arguments, 3),
                                   *type = version == TENSOR_3 ? mmul_pickle_item(m, arguments, 6)
                                                               : NULL,
                                   *metadata =
                                       mmul_pickle_item(m, arguments, version == TENSOR_3 ? 7 : 6);
    struct mmul_pickle_tensor made = {.name = NULL};
    if (!mmul_pickle_has_kind(storage, PICKLE_STORAGE) ||
        !mmul_pickle_has_kind(first, PICKLE_INTEGER) || first->whole < 0 ||
        !mmul_pickle_has_kind(sizes, PICKLE_TUPLE) ||
        !mmul_pickle_has_kind(strides, PICKLE_TUPLE) || sizes->count != strides->count ||
        (version == TENSOR_3 && !is_global(type, ELEMENT_TYPE)) ||
        __builtin_add_overflow(first->whole, storage->offset, &made.first))
        return mmul_pickle_fail(m, "has a tensor without storage, sizes and strides");
    if (sizes->count > MMUL_TENSOR_DIMENSIONS)
        return mmul_pickle_fail(m, "has a tensor of more than 8 dimensions");
    if (!mmul_pickle_read_sizes(m, sizes, made.sizes) ||
        !mmul_pickle_read_sizes(m, strides, made.strides))
        return mmul_pickle_fail(m, "has a tensor with sizes that are not whole numbers");
    const struct global_row *row = &globals[type != NULL ? type->whole : storage->whole];
    // Elements that are to be negated or conjugated are not read.
    const bool is_view = version != QUANTISED && mmul_pickle_has_kind(metadata, PICKLE_DICT) &&
                         metadata->count > 0 && row->is_readable;
    made.storage = (const char *)storage->text;
    made.storage_length = storage->length;
    mmul_text_copy(made.type, sizeof made.type,
                   is_view             ? "negated"
                   : row->type != NULL ? row->type
                                       : mmul_dtype_name(row->dtype));
    made.is_readable = row->is_readable && !is_view && version != QUANTISED;
    made.dtype = row->dtype;
    made.bytes_each = row->bytes;
    made.dimensions = sizes->count;
    return mmul_pickle_push_tensor(m, &made);
}

// ----------------------------------------------------------------------------------------- objects

// Pushes OrderedDict() or, as Python 2 writes it, OrderedDict([[key, value], ...]).
static enum mmul_status push_ordered(struct mmul_pickle_machine *m,
                                     const struct mmul_pickle_value *arguments) {
    const struct mmul_pickle_value *pairs =
        arguments->count > 0 ? mmul_pickle_item(m, arguments, 0) : NULL;
    const bool has_pairs = mmul_pickle_has_kind(pairs, PICKLE_LIST);
    if (arguments->count > has_pairs)
        return mmul_pickle_fail(m, "makes an OrderedDict from unexpected arguments");
    int item = has_pairs ? pairs->first : -1;
    enum mmul_status status = mmul_pickle_push_kind(m, PICKLE_DICT);
    for (; status == MMUL_OK && item >= 0; item = m->items[item].next) {
        const struct mmul_pickle_value *pair = &m->values[m->items[item].value];
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->count != 2)
            return mmul_pickle_fail(m, "makes an OrderedDict from unexpected arguments");
        const struct mmul_pickle_item *key = &m->items[pair->first];
        status = mmul_pickle_append(m, m->stack[m->stack_count - 1], key->value,
                                    m->items[key->next].value);
    }
    return status;
}

// Pushes bytes. Protocol 2 writes b'' as bytes(), others as _codecs.encode(TEXT, 'latin1').
static enum mmul_status push_bytes(struct mmul_pickle_machine *m,
                                   const struct mmul_pickle_value *arguments, bool is_encoded) {
    const struct mmul_pickle_value *text = is_encoded ? mmul_pickle_item(m, arguments, 0) : NULL;
    if (!is_encoded || !mmul_pickle_has_kind(text, PICKLE_TEXT) ||
        !mmul_pickle_is_text(mmul_pickle_item(m, arguments, 1), "latin1"))
        return mmul_pickle_push_kind(m, is_encoded ? PICKLE_OTHER : PICKLE_BYTES);
    return mmul_pickle_push_new(m, (struct mmul_pickle_value){.kind = PICKLE_BYTES,
                                                              .text = text->text,
                                                              .length = text->length,
                                                              .is_latin1 = true});
}

// Pushes an instance of a class, or the result of a function. Only its arguments are known.
static enum mmul_status push_object(struct mmul_pickle_machine *m, int callee_at,
                                    int arguments_at) {
    const struct mmul_pickle_value *callee = &m->values[callee_at];
    struct mmul_pickle_value made = {.kind = PICKLE_OBJECT, .whole = callee->whole};
    enum mmul_status status = MMUL_OK;
    if (callee->kind == PICKLE_GLOBAL) {
        const struct global_row *row = &globals[callee->whole];
        status = mmul_pickle_add_class(
            m, (struct mmul_pickle_text){row->module, (int)strlen(row->module)},
            (struct mmul_pickle_text){row->name, (int)strlen(row->name)}, &made.whole);
    }
    if (status == MMUL_OK)
        status = mmul_pickle_push_new(m, made);
    int item = m->values[arguments_at].count > 0 ? m->values[arguments_at].first : -1;
    for (; status == MMUL_OK && item >= 0; item = m->items[item].next)
        status =
            mmul_pickle_append(m, m->stack[m->stack_count - 1], PICKLE_INDEX, m->items[item].value);
    return status;
}

static enum mmul_status call_global(struct mmul_pickle_machine *m, int callee_at,
                                    int arguments_at) {
    const struct mmul_pickle_value *callee = &m->values[callee_at],
                                   *arguments = &m->values[arguments_at];
    if (callee->kind != PICKLE_GLOBAL)
        return push_object(m, callee_at, arguments_at);
    const enum global global = globals[callee->whole].global;
    const struct mmul_pickle_value *first = mmul_pickle_item(m, arguments, 0);
    switch (global) {
    case ORDERED_DICT:
        return push_ordered(m, arguments);
    case DEFAULT_DICT:
        return mmul_pickle_push_kind(m, PICKLE_DICT);
    case SET:
        return mmul_pickle_push_kind(m, PICKLE_SET);
    case BYTES:
    case ENCODE:
        return push_bytes(m, arguments, global == ENCODE);
    case RECONSTRUCTOR:
        return push_object(
            m, mmul_pickle_has_kind(first, PICKLE_CLASS) ? (int)(first - m->values) : callee_at,
            arguments_at);
    case SIZE: // a tuple
        return mmul_pickle_has_kind(first, PICKLE_TUPLE)
                   ? mmul_pickle_push(m, (int)(first - m->values))
                   : push_object(m, callee_at, arguments_at);
    case TENSOR_2:
    case TENSOR_3:
    case QUANTISED:
        return push_tensor(m, arguments, global);
    case SPARSE:
        return push_sparse(m, arguments);
    case META:
        return push_unreadable_tensor(m, "meta", mmul_pickle_item(m, arguments, 1));
    case PARAMETER:
        return mmul_pickle_has_kind(first, PICKLE_TENSOR)
                   ? mmul_pickle_push(m, (int)(first - m->values))
                   : mmul_pickle_fail(m, "has a parameter that is not a tensor");
    case NUMPY_ARRAY:
        return mmul_pickle_push_kind(m, PICKLE_ARRAY);
    case NUMPY_BUFFER:
        return mmul_pickle_push_buffer(m, arguments);
    case NUMPY_DTYPE:
        return mmul_pickle_push_dtype(m, arguments);
    default:
        return push_object(m, callee_at, arguments_at);
    }
}

// Calls `function` of (function, type, arguments, state), which makes a tensor of a class of its
// own.
static enum mmul_status call_typed_tensor(struct mmul_pickle_machine *m, int callee_at,
                                          int arguments_at) {
    const struct mmul_pickle_value *arguments = &m->values[arguments_at],
                                   *function = mmul_pickle_item(m, arguments, 0),
                                   *given = mmul_pickle_item(m, arguments, 2);
    const bool is_known = mmul_pickle_has_kind(function, PICKLE_GLOBAL) &&
                          globals[function->whole].global != TENSOR_TYPED &&
                          mmul_pickle_has_kind(given, PICKLE_TUPLE);
    return is_known ? call_global(m, (int)(function - m->values), (int)(given - m->values))
                    : push_object(m, callee_at, arguments_at);
}

enum mmul_status mmul_pickle_reduce(struct mmul_pickle_machine *m, int arguments) {
    for (int a = 1; a < arguments; a++) // keyword arguments are not needed
        if (mmul_pickle_pop(m) == NULL)
            return m->err->status;
    if (mmul_pickle_pop(m) == NULL)
        return m->err->status;
    const int arguments_at = m->stack[m->stack_count];
    const struct mmul_pickle_value *callee = mmul_pickle_pop(m);
    if (callee == NULL)
        return m->err->status;
    if ((callee->kind != PICKLE_GLOBAL && callee->kind != PICKLE_CLASS &&
         callee->kind != PICKLE_OBJECT) ||
        m->values[arguments_at].kind != PICKLE_TUPLE)
        return mmul_pickle_fail(m, "calls something that is not a function");
    const int callee_at = m->stack[m->stack_count];
    return is_global(callee, TENSOR_TYPED) ? call_typed_tensor(m, callee_at, arguments_at)
                                           : call_global(m, callee_at, arguments_at);
}

// Ignores attributes of tensors and of dicts, such as the versions of a state_dict.
enum mmul_status mmul_pickle_build(struct mmul_pickle_machine *m) {
    if (mmul_pickle_pop(m) == NULL)
        return m->err->status;
    const int state_at = m->stack[m->stack_count];
    struct mmul_pickle_value *object = mmul_pickle_top(m);
    if (object == NULL)
        return m->err->status;
    switch (object->kind) {
    case PICKLE_OBJECT:
        return mmul_pickle_append(m, m->stack[m->stack_count - 1], PICKLE_STATE, state_at);
    case PICKLE_ARRAY:
        return mmul_pickle_build_array(m, m->stack[m->stack_count - 1], &m->values[state_at]);
    case PICKLE_DTYPE:
        mmul_pickle_build_dtype(m, object, &m->values[state_at]);
        return MMUL_OK;
    case PICKLE_OTHER:
    case PICKLE_INTEGER:
    case PICKLE_TEXT:
    case PICKLE_BYTES:
        return mmul_pickle_fail(m, "sets attributes of something that is not an object");
    default:
        return MMUL_OK;
    }
}
