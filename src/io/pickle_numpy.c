// SPDX-License-Identifier: MIT
// Arrays of numpy in a pickle. Their elements are bytes of the pickle. Protocol 2 stores them as
// text with one character per byte; pt.c decodes it.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/npy.h"
#include "io/pickle_machine.h"
#include "model/dtype.h"

static const unsigned char records[] = "records";

// Pushes numpy.dtype('f4', align, copy). The byte order is '|' until the state sets another.
enum mmul_status mmul_pickle_push_dtype(struct mmul_pickle_machine *m,
                                        const struct mmul_pickle_value *arguments) {
    const struct mmul_pickle_value *type = mmul_pickle_item(m, arguments, 0);
    if (!mmul_pickle_has_kind(type, PICKLE_TEXT)) // a class stands for records
        return mmul_pickle_push_new(m, (struct mmul_pickle_value){.kind = PICKLE_DTYPE,
                                                                  .whole = '|',
                                                                  .text = records,
                                                                  .length = sizeof records - 1});
    return mmul_pickle_push_new(
        m, (struct mmul_pickle_value){
               .kind = PICKLE_DTYPE, .whole = '|', .text = type->text, .length = type->length});
}

// Reads the byte order from the state (version, byte order, ...).
void mmul_pickle_build_dtype(struct mmul_pickle_machine *m, struct mmul_pickle_value *dtype,
                             const struct mmul_pickle_value *state) {
    const struct mmul_pickle_value *order =
        state->kind == PICKLE_TUPLE ? mmul_pickle_item(m, state, 1) : NULL;
    if (mmul_pickle_has_kind(order, PICKLE_TEXT) && order->length == 1)
        dtype->whole = order->text[0];
}

static void set_type(struct mmul_pickle_tensor *made, const struct mmul_pickle_value *dtype) {
    char *const name = made->type;
    const int length =
        dtype->length < (int)sizeof made->type - 2 ? dtype->length : (int)sizeof made->type - 2;
    name[0] = (char)dtype->whole;
    memcpy(name + 1, dtype->text, (size_t)length);
    name[length + 1] = '\0';
    made->is_readable = mmul_npy_type(name, &made->dtype, &made->is_big);
    if (made->is_readable) {
        made->bytes_each = (int)mmul_dtype_bytes(made->dtype);
        mmul_text_copy(made->type, sizeof made->type, mmul_dtype_name(made->dtype));
        return;
    }
    // numpy counts characters of 4 bytes in its texts.
    const long count = strtol(name + 2, NULL, 10);
    made->bytes_each = count > 0 && count < 1 << 20 ? (int)count * (name[1] == 'U' ? 4 : 1) : 0;
}

// Sets strides without gaps, in C or Fortran order. Returns false if there are too many elements to
// count.
static bool set_strides(struct mmul_pickle_tensor *made, bool is_fortran, int64_t *count) {
    *count = 1;
    for (int i = 0; i < made->dimensions; i++) {
        const int d = is_fortran ? i : made->dimensions - 1 - i;
        made->strides[d] = *count;
        if (__builtin_mul_overflow(*count, made->sizes[d] > 0 ? made->sizes[d] : 1, count))
            return false;
    }
    for (int d = 0; d < made->dimensions; d++)
        if (made->sizes[d] == 0)
            *count = 0;
    return true;
}

// Counts the characters of a text of U+0000 to U+00FF. -1: it has others.
static int64_t count_latin1(const unsigned char *text, int64_t length) {
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++, count++) {
        if (text[i] < 0x80)
            continue;
        if ((text[i] & 0xFE) != 0xC2 || i + 1 == length || (text[i + 1] & 0xC0) != 0x80)
            return -1;
        i++;
    }
    return count;
}

struct array_parts {
    const struct mmul_pickle_value *shape, *dtype, *data;
    bool is_fortran;
};

static enum mmul_status describe_array(struct mmul_pickle_machine *m,
                                       const struct array_parts *parts,
                                       struct mmul_pickle_tensor *made) {
    int64_t count = 0, bytes = 0;
    *made = (struct mmul_pickle_tensor){.name = NULL};
    if (!mmul_pickle_has_kind(parts->shape, PICKLE_TUPLE) ||
        !mmul_pickle_has_kind(parts->dtype, PICKLE_DTYPE) ||
        !mmul_pickle_has_kind(parts->data, PICKLE_BYTES))
        return mmul_pickle_fail(m, "has an array without sizes, type and elements");
    if (parts->shape->count > MMUL_TENSOR_DIMENSIONS)
        return mmul_pickle_fail(m, "has an array of more than 8 dimensions");
    if (!mmul_pickle_read_sizes(m, parts->shape, made->sizes))
        return mmul_pickle_fail(m, "has an array with sizes that are not whole numbers");
    made->dimensions = parts->shape->count;
    set_type(made, parts->dtype);
    if (!set_strides(made, parts->is_fortran, &count) ||
        __builtin_mul_overflow(count, made->bytes_each, &bytes))
        return mmul_pickle_fail(m, "has an array with too many elements to count");
    made->elements = parts->data->text;
    made->elements_bytes = parts->data->length;
    made->is_latin1 = parts->data->is_latin1;
    const int64_t found =
        made->is_latin1 ? count_latin1(made->elements, made->elements_bytes) : made->elements_bytes;
    if (made->is_readable && found != bytes)
        return mmul_pickle_fail(m, "has an array with a length that does not match its sizes");
    if (made->elements == NULL) // b'' in protocol 2
        made->elements = m->end;
    return MMUL_OK;
}

// Applies the state (version, sizes, type, is Fortran order, elements). An array of objects has a
// list as elements.
enum mmul_status mmul_pickle_build_array(struct mmul_pickle_machine *m, int array,
                                         const struct mmul_pickle_value *state) {
    struct mmul_pickle_tensor made;
    if (state->kind != PICKLE_TUPLE || state->count != 5)
        return mmul_pickle_fail(m, "has an array without sizes, type and elements");
    const struct mmul_pickle_value *is_fortran = mmul_pickle_item(m, state, 3);
    const struct array_parts parts = {.shape = mmul_pickle_item(m, state, 1),
                                      .dtype = mmul_pickle_item(m, state, 2),
                                      .data = mmul_pickle_item(m, state, 4),
                                      .is_fortran = is_fortran->whole != 0};
    if (mmul_pickle_has_kind(parts.data, PICKLE_LIST)) {
        const int data_at = (int)(parts.data - m->values);
        int64_t class = 0;
        enum mmul_status status =
            mmul_pickle_add_class(m, (struct mmul_pickle_text){"numpy", 5},
                                  (struct mmul_pickle_text){"ndarray", 7}, &class);
        m->values[array].kind = PICKLE_OBJECT;
        m->values[array].whole = class;
        return status == MMUL_OK ? mmul_pickle_append(m, array, PICKLE_STATE, data_at) : status;
    }
    enum mmul_status status = describe_array(m, &parts, &made);
    if (status == MMUL_OK)
        status = mmul_pickle_push_tensor(m, &made);
    if (status != MMUL_OK)
        return status;
    m->values[array].kind = PICKLE_TENSOR;
    m->values[array].whole = m->record_count - 1;
    m->stack_count--; // the array is below it
    return MMUL_OK;
}

// Pushes the array of _frombuffer(elements, type, sizes, order).
enum mmul_status mmul_pickle_push_buffer(struct mmul_pickle_machine *m,
                                         const struct mmul_pickle_value *arguments) {
    struct mmul_pickle_tensor made;
    const struct array_parts parts = {
        .data = mmul_pickle_item(m, arguments, 0),
        .dtype = mmul_pickle_item(m, arguments, 1),
        .shape = mmul_pickle_item(m, arguments, 2),
        .is_fortran = mmul_pickle_is_text(mmul_pickle_item(m, arguments, 3), "F")};
    enum mmul_status status = describe_array(m, &parts, &made);
    return status == MMUL_OK ? mmul_pickle_push_tensor(m, &made) : status;
}
