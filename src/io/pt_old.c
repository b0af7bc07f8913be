// SPDX-License-Identifier: MIT
// Reads PyTorch files from before torch 1.6. The file does not give the length of its pickles. The
// parser first gets the start of the file, then four times as much while that is too short.
// Elements stay in the file: pt.c reads them.
#include "io/pt_old.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/format_probes.h"
#include "io/transfer.h"

struct source {
    int fd;
    const char *name;
    int64_t bytes; // size of the file
};

static enum mmul_status fail_file(const char *name, const char *what, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a valid PyTorch file: %s", name, what);
}

// ---------------------------------------------------------------------------------------- storages

static int compare_texts(struct mmul_pickle_text a, struct mmul_pickle_text b) {
    const int length = a.length < b.length ? a.length : b.length;
    const int order = length > 0 ? memcmp(a.text, b.text, (size_t)length) : 0;
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_named(const void *a, const void *b) {
    const struct mmul_pickle_storage *x = a, *y = b;
    return compare_texts(x->key, y->key);
}

static int compare_stored(const void *a, const void *b) {
    const struct mmul_pt_old_storage *x = a, *y = b;
    return compare_texts(x->key, y->key);
}

static enum mmul_status place_storage(const struct source *source, int64_t at, int bytes_each,
                                      struct mmul_pt_old_storage *storage, struct mmul_error *err) {
    unsigned char bytes[8];
    uint64_t count = 0;
    size_t got = 0;
    int errnum = mmul_pread_all(source->fd, bytes, sizeof bytes, at, &got);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", source->name);
    if (got < sizeof bytes)
        return fail_file(source->name, "it ends before its last storage", err);
    for (int b = 7; b >= 0; b--)
        count = count << 8 | bytes[b];
    storage->offset = at + (int64_t)sizeof bytes;
    return count <= INT64_MAX &&
                   !__builtin_mul_overflow((int64_t)count, bytes_each, &storage->bytes)
               ? MMUL_OK
               : fail_file(source->name, "a storage has more elements than can be counted", err);
}

// Locates the storages, which lie one behind the other from byte `at` on. Their types are in the
// object's pickle.
static enum mmul_status place_storages(const struct source *source, int64_t at,
                                       const struct mmul_pickle *keys, struct mmul_pt_old *old,
                                       struct mmul_error *err) {
    struct mmul_pickle *pickle = &old->pickle;
    enum mmul_status status =
        MMUL_ALLOCATE(old->storages, keys->text_count, "a list of storages", err);
    qsort(pickle->storages, (size_t)pickle->storage_count, sizeof *pickle->storages, compare_named);
    for (int64_t k = 0; status == MMUL_OK && k < keys->text_count; k++) {
        struct mmul_pt_old_storage *storage = &old->storages[k];
        const struct mmul_pickle_storage key = {.key = keys->texts[k]};
        const struct mmul_pickle_storage *named = bsearch(
            &key, pickle->storages, (size_t)pickle->storage_count, sizeof key, compare_named);
        if (named == NULL)
            return fail_file(source->name, "it has a storage that its pickle does not name", err);
        storage->key = key.key;
        status = place_storage(source, at, named->bytes_each, storage, err);
        if (status == MMUL_OK && storage->bytes > source->bytes - storage->offset)
            status = fail_file(source->name, "it ends before its last storage", err);
        at = storage->offset + storage->bytes;
        old->storage_count += status == MMUL_OK;
    }
    if (status == MMUL_OK)
        qsort(old->storages, (size_t)old->storage_count, sizeof *old->storages, compare_stored);
    return status;
}

const struct mmul_pt_old_storage *mmul_pt_old_find(const struct mmul_pt_old *old,
                                                   struct mmul_pickle_text key) {
    const struct mmul_pt_old_storage wanted = {.key = key};
    return bsearch(&wanted, old->storages, (size_t)old->storage_count, sizeof wanted,
                   compare_stored);
}

// ----------------------------------------------------------------------------------------- pickles

enum { MAGIC, VERSION, MACHINE, OBJECT, KEYS, PICKLES };

struct pickles {
    struct mmul_pickle all[PICKLES];
    int64_t bytes;   // size of all of them
    bool needs_more; // too few bytes were given
};

static enum mmul_status parse_pickles(const unsigned char *bytes, size_t count, const char *name,
                                      struct pickles *pickles, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    size_t at = 0;
    for (int p = 0; status == MMUL_OK && p < PICKLES; p++) {
        struct mmul_pickle *pickle = &pickles->all[p];
        status = mmul_pickle_parse(bytes + at, count - at, name, pickle, err);
        pickles->needs_more = status == MMUL_ERR_DATA && pickle->bytes == count - at;
        at += pickle->bytes;
    }
    pickles->bytes = (int64_t)at;
    return status;
}

static enum mmul_status read_pickles(const struct source *source, int64_t count,
                                     struct pickles *pickles, unsigned char **bytes,
                                     struct mmul_error *err) {
    size_t got = 0;
    enum mmul_status status = MMUL_ALLOCATE_RAW(*bytes, count, "a pickle", err);
    if (status != MMUL_OK)
        return status;
    int errnum = mmul_pread_all(source->fd, *bytes, (size_t)count, 0, &got);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", source->name);
    return mmul_is_old_pytorch(*bytes, got)
               ? parse_pickles(*bytes, got, source->name, pickles, err)
               : fail_file(source->name, "it has no magic number", err);
}

static void release_pickles(struct pickles *pickles) {
    for (int p = 0; p < PICKLES; p++)
        mmul_pickle_fini(&pickles->all[p]);
}

enum mmul_status mmul_pt_old_read(int fd, const char *name, int64_t file_bytes,
                                  struct mmul_pt_old *old, struct mmul_error *err) {
    enum { FIRST_BYTES = 1 << 20 };
    const struct source source = {.fd = fd, .name = name, .bytes = file_bytes};
    const int64_t most = mmul_min(file_bytes, MMUL_PICKLE_MAX);
    struct pickles pickles = {.bytes = 0};
    enum mmul_status status = MMUL_OK;
    *old = (struct mmul_pt_old){.bytes = NULL};
    int64_t count = mmul_min(FIRST_BYTES, most);
    status = read_pickles(&source, count, &pickles, &old->bytes, err);
    while (pickles.needs_more && count < most) {
        release_pickles(&pickles);
        pickles = (struct pickles){.bytes = 0};
        mmul_free(old->bytes);
        old->bytes = NULL;
        count = mmul_min(4 * count, most);
        status = read_pickles(&source, count, &pickles, &old->bytes, err);
    }
    old->pickle = pickles.all[OBJECT];
    pickles.all[OBJECT] = (struct mmul_pickle){.count = 0};
    if (status == MMUL_OK)
        status = place_storages(&source, pickles.bytes, &pickles.all[KEYS], old, err);
    release_pickles(&pickles);
    return status;
}

void mmul_pt_old_fini(struct mmul_pt_old *old) {
    mmul_pickle_fini(&old->pickle);
    mmul_free(old->storages);
    mmul_free(old->bytes);
}
