// SPDX-License-Identifier: MIT
// The list of device kinds: maps a name to its kind and opens a device by name. A new backend is
// one table in its own file and one line here. Operations on a device are in device.c. This file
// does not choose devices: exec/setup/assign does, from the results of the probes.
#include "device/registry.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

// ----------------------------------------------------------------------------------------- names

// Every kind of device, one line each: KIND(name) for mmul_name_table in name_device.c. A name
// belongs to the first kind that accepts its form. Probes run in this order. MMUL_MORE_KINDS may
// add others at build time.
#ifndef MMUL_MORE_KINDS
#define MMUL_MORE_KINDS
#endif
#define KINDS       \
    KIND(cpu)       \
    KIND(reference) \
    KIND(opencl)    \
    KIND(faulty)    \
    MMUL_MORE_KINDS

#define KIND(name) extern const struct mmul_device_table mmul_##name##_table;
KINDS
#undef KIND
#define KIND(name) &mmul_##name##_table,
static const struct mmul_device_table *const kinds[] = {KINDS};
#undef KIND

enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

const struct mmul_device_table *mmul_device_kind(int index) {
    return index < KIND_COUNT ? kinds[index] : NULL;
}

static const struct mmul_device_table *find_kind(const char *text) {
    for (int i = 0; i < KIND_COUNT; i++)
        if (kinds[i]->is_name(text))
            return kinds[i];
    return NULL;
}

const char *mmul_device_inner_name(const char *text) {
    const struct mmul_device_table *kind = find_kind(text);
    return kind != NULL && kind->inner_name != NULL ? kind->inner_name(text) : NULL;
}

// Returns the innermost kind of a name. NULL: not a name, or only a probe can tell.
static const struct mmul_device_table *find_innermost(const char *text) {
    for (const char *inner; (inner = mmul_device_inner_name(text)) != NULL;)
        text = inner;
    return find_kind(text);
}

bool mmul_device_needs_no_probe(const char *text) {
    const struct mmul_device_table *kind = find_innermost(text);
    return kind != NULL && kind->probe == NULL;
}

bool mmul_device_may_match(const char *request, const struct mmul_device_table *table) {
    const struct mmul_device_table *kind = request != NULL ? find_innermost(request) : NULL;
    return kind == NULL || kind == table;
}

// Suggests the nearest kind whose names begin with its word. Otherwise lists the forms of all
// names.
static enum mmul_status fail_unknown(const char *text, struct mmul_error *err) {
    const char *words[KIND_COUNT + 1] = {NULL};
    struct mmul_text names = {0};
    for (int i = 0, count = 0; i < KIND_COUNT; i++) {
        const struct mmul_device_table *kind = kinds[i];
        if (strncmp(kind->names, kind->kind, strlen(kind->kind)) == 0)
            words[count++] = kind->kind;
        mmul_text_add(&names, "%s%s", i > 0 ? ", " : "", kind->names);
    }
    mmul_fail(err, MMUL_ERR_USAGE, "'%s' is not a device name", text);
    const char *nearest = mmul_nearest(text, words);
    if (nearest != NULL)
        mmul_hint(err, "did you mean '%s'?", nearest);
    else
        mmul_hint(err, "names are %s", mmul_text_get(&names));
    mmul_text_fini(&names);
    return MMUL_ERR_USAGE;
}

enum mmul_status mmul_device_check_name(const char *text, struct mmul_error *err) {
    if (strlen(text) > MMUL_DEVICE_NAME_MAX) {
        return mmul_fail(err, MMUL_ERR_USAGE, "device name '%.40s...' is longer than %d characters",
                         text, MMUL_DEVICE_NAME_MAX);
    }
    const struct mmul_device_table *kind = find_kind(text);
    if (kind == NULL)
        return fail_unknown(text, err);
    return kind->check_name != NULL ? kind->check_name(text, err) : MMUL_OK;
}

const char *mmul_device_fallback_name(const char *text, char next[static 128]) {
    const struct mmul_device_table *kind = find_kind(text);
    if (kind != NULL && kind->fallback_name != NULL)
        return kind->fallback_name(text, next);
    if (kind == NULL || kind->next == NULL)
        return NULL;
    mmul_text_copy(next, 128, kind->next);
    return next;
}

// ------------------------------------------------------------------------------------------ open

enum mmul_status mmul_device_open(const char *text, struct mmul_device **device,
                                  struct mmul_error *err) {
    enum mmul_status status = mmul_device_check_name(text, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_device *opened = mmul_allocate(1, sizeof *opened, "a device", err);
    if (opened == NULL)
        return err->status;
    opened->table = find_kind(text);
    status = opened->table->open(text, &opened->self, err);
    if (status != MMUL_OK) {
        mmul_free(opened);
        return status;
    }
    *device = opened;
    return MMUL_OK;
}
