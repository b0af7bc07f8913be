// SPDX-License-Identifier: MIT
// The machine's values, stack, memo, and the items of containers.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/pickle_machine.h"

enum mmul_status mmul_pickle_fail(struct mmul_pickle_machine *m, const char *what) {
    return mmul_fail(m->err, MMUL_ERR_DATA, "'%s' is not a valid PyTorch file: its pickle %s",
                     m->name, what);
}

enum mmul_status mmul_pickle_fail_cut(struct mmul_pickle_machine *m) {
    m->is_cut = true;
    return mmul_pickle_fail(m, "ends too early");
}

// ------------------------------------------------------------------------------------------- stack

enum mmul_status mmul_pickle_grow(struct mmul_pickle_machine *m, void *array, int64_t count,
                                  int64_t *room, size_t bytes_each) {
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
    mmul_pickle_grow(m, &(m)->what##s, (m)->what##_count, &(m)->what##_room, sizeof *(m)->what##s)

enum mmul_status mmul_pickle_push(struct mmul_pickle_machine *m, int value) {
    enum mmul_status status =
        mmul_pickle_grow(m, &m->stack, m->stack_count, &m->stack_room, sizeof *m->stack);
    if (status == MMUL_OK)
        m->stack[m->stack_count++] = value;
    return status;
}

enum mmul_status mmul_pickle_push_new(struct mmul_pickle_machine *m,
                                      struct mmul_pickle_value value) {
    enum mmul_status status = GROW(m, value);
    if (status != MMUL_OK)
        return status;
    value.first = value.last = -1;
    m->values[m->value_count] = value;
    return mmul_pickle_push(m, (int)m->value_count++);
}

enum mmul_status mmul_pickle_push_kind(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind) {
    return mmul_pickle_push_new(m, (struct mmul_pickle_value){.kind = kind});
}

enum mmul_status mmul_pickle_push_tensor(struct mmul_pickle_machine *m,
                                         const struct mmul_pickle_tensor *tensor) {
    enum mmul_status status = GROW(m, record);
    if (status != MMUL_OK)
        return status;
    m->records[m->record_count] = *tensor;
    return mmul_pickle_push_new(
        m, (struct mmul_pickle_value){.kind = PICKLE_TENSOR, .whole = m->record_count++});
}

struct mmul_pickle_value *mmul_pickle_top(struct mmul_pickle_machine *m) {
    struct mmul_pickle_value *value =
        m->stack_count > 0 ? &m->values[m->stack[m->stack_count - 1]] : NULL;
    if (value != NULL && value->kind != PICKLE_MARK)
        return value;
    mmul_pickle_fail(m, "uses more values than it has");
    return NULL;
}

struct mmul_pickle_value *mmul_pickle_pop(struct mmul_pickle_machine *m) {
    struct mmul_pickle_value *value = mmul_pickle_top(m);
    m->stack_count -= value != NULL;
    return value;
}

// -------------------------------------------------------------------------------------- containers

enum mmul_status mmul_pickle_append(struct mmul_pickle_machine *m, int container, int key,
                                    int value) {
    enum mmul_status status = GROW(m, item);
    if (status != MMUL_OK)
        return status;
    struct mmul_pickle_value *to = &m->values[container];
    const int item = (int)m->item_count++;
    m->items[item] = (struct mmul_pickle_item){.key = key, .value = value, .next = -1};
    if (to->count++ == 0)
        to->first = item;
    else
        m->items[to->last].next = item;
    to->last = item;
    return MMUL_OK;
}

int64_t mmul_pickle_count_above_mark(struct mmul_pickle_machine *m) {
    int64_t at = m->stack_count - 1;
    while (at >= 0 && m->values[m->stack[at]].kind != PICKLE_MARK)
        at--;
    if (at < 0)
        mmul_pickle_fail(m, "lacks a mark");
    return at < 0 ? -1 : m->stack_count - 1 - at;
}

// Moves the last `count` values from the stack into the container, as items or pairs.
static enum mmul_status move_items(struct mmul_pickle_machine *m, int container, int64_t count,
                                   bool are_pairs) {
    enum mmul_status status = MMUL_OK;
    const int64_t first = m->stack_count - count;
    for (int64_t i = 0; status == MMUL_OK && i < count; i += 1 + are_pairs)
        status = mmul_pickle_append(m, container, are_pairs ? m->stack[first + i] : PICKLE_INDEX,
                                    m->stack[first + i + are_pairs]);
    m->stack_count = first;
    return status;
}

static bool has_mark_among(const struct mmul_pickle_machine *m, int64_t count) {
    for (int64_t i = m->stack_count - count; i < m->stack_count; i++)
        if (i < 0 || m->values[m->stack[i]].kind == PICKLE_MARK)
            return true;
    return false;
}

enum mmul_status mmul_pickle_make_tuple(struct mmul_pickle_machine *m, int64_t count,
                                        bool has_mark) {
    if (count < 0)
        return m->err->status;
    if (has_mark_among(m, count))
        return mmul_pickle_fail(m, "uses more values than it has");
    enum mmul_status status = mmul_pickle_push_kind(m, PICKLE_TUPLE);
    if (status != MMUL_OK)
        return status;
    const int tuple = m->stack[--m->stack_count];
    status = move_items(m, tuple, count, false);
    m->stack_count -= has_mark;
    return status == MMUL_OK ? mmul_pickle_push(m, tuple) : status;
}

enum mmul_status mmul_pickle_add_items(struct mmul_pickle_machine *m, enum mmul_pickle_kind kind,
                                       int64_t count, bool has_mark) {
    if (count < 0)
        return m->err->status;
    const int64_t below = m->stack_count - count - has_mark - 1;
    const bool are_pairs = kind == PICKLE_DICT;
    const enum mmul_pickle_kind found = below >= 0 ? m->values[m->stack[below]].kind : PICKLE_OTHER;
    if ((found != kind && found != PICKLE_OBJECT) || (are_pairs && count % 2 != 0))
        return mmul_pickle_fail(m, are_pairs ? "adds items to something that is not a dict"
                                   : kind == PICKLE_LIST
                                       ? "adds items to something that is not a list"
                                       : "adds items to something that is not a set");
    if (has_mark_among(m, count))
        return mmul_pickle_fail(m, "uses more values than it has");
    enum mmul_status status = MMUL_OK;
    if (found == PICKLE_SET)
        m->stack_count -= count;
    else
        status = move_items(m, m->stack[below], count, are_pairs);
    m->stack_count -= has_mark;
    return status;
}

struct mmul_pickle_value *mmul_pickle_item(const struct mmul_pickle_machine *m,
                                           const struct mmul_pickle_value *tuple, int index) {
    int item = index < tuple->count ? tuple->first : -1;
    for (int i = 0; i < index && item >= 0; i++)
        item = m->items[item].next;
    return item >= 0 ? &m->values[m->items[item].value] : NULL;
}

bool mmul_pickle_has_kind(const struct mmul_pickle_value *value, enum mmul_pickle_kind kind) {
    return value != NULL && value->kind == kind;
}

bool mmul_pickle_is_text(const struct mmul_pickle_value *value, const char *text) {
    return mmul_pickle_has_kind(value, PICKLE_TEXT) && value->length == (int)strlen(text) &&
           memcmp(value->text, text, strlen(text)) == 0;
}

bool mmul_pickle_read_sizes(const struct mmul_pickle_machine *m,
                            const struct mmul_pickle_value *tuple, int64_t *sizes) {
    for (int d = 0; d < tuple->count; d++) {
        const struct mmul_pickle_value *size = mmul_pickle_item(m, tuple, d);
        if (!mmul_pickle_has_kind(size, PICKLE_INTEGER) || size->whole < 0)
            return false;
        sizes[d] = size->whole;
    }
    return true;
}

// -------------------------------------------------------------------------------------------- memo

enum mmul_status mmul_pickle_memo_put(struct mmul_pickle_machine *m, uint32_t index) {
    const int64_t most = m->end - m->at; // each takes bytes of the pickle
    if (mmul_pickle_top(m) == NULL)
        return m->err->status;
    if ((int64_t)index > m->memo_count + most)
        return mmul_pickle_fail(m, "sets memo indices with gaps");
    while (m->memo_count <= index) {
        enum mmul_status status =
            mmul_pickle_grow(m, &m->memo, m->memo_count, &m->memo_room, sizeof *m->memo);
        if (status != MMUL_OK)
            return status;
        m->memo[m->memo_count++] = -1;
    }
    m->memo[index] = m->stack[m->stack_count - 1];
    return MMUL_OK;
}

enum mmul_status mmul_pickle_memo_get(struct mmul_pickle_machine *m, uint32_t index) {
    if ((int64_t)index >= m->memo_count || m->memo[index] < 0)
        return mmul_pickle_fail(m, "reads a memo index that it has not set");
    return mmul_pickle_push(m, m->memo[index]);
}
