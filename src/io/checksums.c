// SPDX-License-Identifier: MIT
// Checksums of tensors: computed when a .safetensors file is packed, compared when a state is
// restored.
#include "io/checksums.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/npz.h"
#include "io/tensors.h"
#include "io/transfer.h"

static const char key[] = "xxh3";
enum { BUFFER_BYTES = 1 << 20, DIGITS = 17 };

int mmul_checksum_compute(int fd, int64_t offset, int64_t bytes, uint64_t *hash) {
    struct mmul_error ignored;
    struct mmul_hasher *hasher = NULL;
    char *buffer = NULL;
    int errnum = 0;
    if (mmul_hasher_create(&hasher, &ignored) != MMUL_OK ||
        MMUL_ALLOCATE_RAW(buffer, BUFFER_BYTES, "a copy buffer", &ignored) != MMUL_OK)
        errnum = ENOMEM;
    for (int64_t done = 0; errnum == 0 && done < bytes;) {
        const size_t now = (size_t)mmul_min(BUFFER_BYTES, bytes - done);
        size_t got = 0;
        errnum = mmul_pread_all(fd, buffer, now, offset + done, &got);
        if (errnum == 0 && got < now)
            errnum = EIO;
        else if (errnum == 0)
            mmul_hasher_add(hasher, buffer, got);
        done += (int64_t)now;
    }
    if (errnum == 0)
        *hash = mmul_hasher_value(hasher);
    mmul_hasher_destroy(hasher);
    mmul_free(buffer);
    return errnum;
}

static void hash_text(struct mmul_hasher *hasher, const char *text) {
    mmul_hasher_add(hasher, text, strlen(text) + 1);
}

// Hashes all names and checksums, and all texts that are no checksums.
static enum mmul_status hash_all(json_t *texts, const struct mmul_tensor_checksum *checked,
                                 int64_t count, uint64_t *hash, struct mmul_error *err) {
    struct mmul_hasher *hasher = NULL;
    const char *name;
    json_t *text;
    if (mmul_hasher_create(&hasher, err) != MMUL_OK)
        return err->status;
    for (int64_t i = 0; i < count; i++) {
        hash_text(hasher, checked[i].name);
        mmul_hasher_add(hasher, &checked[i].hash, sizeof checked[i].hash);
    }
    json_object_foreach(texts, name, text) {
        if (strncmp(name, key, strlen(key)) == 0)
            continue; // a checksum
        hash_text(hasher, name);
        hash_text(hasher, json_string_value(text));
    }
    *hash = mmul_hasher_value(hasher);
    mmul_hasher_destroy(hasher);
    return MMUL_OK;
}

static json_t *format_hash(uint64_t hash) {
    char digits[DIGITS];
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)hash);
    return json_string(digits);
}

// Makes "xxh3:NAME", released by the caller with mmul_free.
static enum mmul_status make_key(const char *tensor, char **made, struct mmul_error *err) {
    const size_t bytes = sizeof key + strlen(tensor) + 1;
    enum mmul_status status = MMUL_ALLOCATE_RAW(*made, (int64_t)bytes, "a checksum", err);
    if (status == MMUL_OK)
        snprintf(*made, bytes, "%s:%s", key, tensor);
    return status;
}

// The checksum of everything comes first, then the texts. So the first bytes of a file distinguish
// its version from all others.
enum mmul_status mmul_checksums_add(struct json_t *texts,
                                    const struct mmul_tensor_checksum *checked, int count,
                                    struct json_t **made, struct mmul_error *err) {
    uint64_t all = 0;
    json_t *stored = json_object();
    enum mmul_status status = hash_all(texts, checked, count, &all, err);
    if (status == MMUL_OK) {
        if (json_object_set_new(stored, key, format_hash(all)) != 0 ||
            (texts != NULL && json_object_update(stored, texts) != 0))
            status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate checksums");
    }
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        char *name = NULL;
        status = make_key(checked[i].name, &name, err);
        if (status == MMUL_OK && !mmul_text_is_utf8(checked[i].name))
            status = mmul_fail(err, MMUL_ERR_USAGE, "'%s' cannot name a tensor: it is not UTF-8",
                               checked[i].name);
        else if (status == MMUL_OK &&
                 json_object_set_new(stored, name, format_hash(checked[i].hash)) != 0)
            status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate checksums");
        mmul_free(name);
    }
    if (status == MMUL_OK)
        *made = stored;
    else
        json_decref(stored);
    return status;
}

static enum mmul_status fail_differs(const struct mmul_tensors *tensors, const char *tensor,
                                     struct mmul_error *err) {
    if (tensor != NULL)
        mmul_fail(err, MMUL_ERR_DATA, "'%s' is not what was written: the checksum of '%s' differs",
                  tensors->file->path, tensor);
    else
        mmul_fail(err, MMUL_ERR_DATA,
                  "'%s' is not what was written: its header and its checksums differ",
                  tensors->file->path);
    mmul_hint(err, "it was changed in place, or mixes several versions: use another copy");
    return err->status;
}

static bool matches_stored_hash(const json_t *metadata, const char *name, uint64_t hash) {
    char digits[DIGITS];
    const char *stored = json_string_value(json_object_get(metadata, name));
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)hash);
    return stored != NULL && strcmp(stored, digits) == 0;
}

static enum mmul_status verify_tensor(const struct mmul_tensors *tensors,
                                      const struct mmul_tensor_entry *entry, uint64_t *hash,
                                      struct mmul_error *err) {
    char *name = NULL;
    const int errnum = mmul_checksum_compute(tensors->file->fd, entry->offset, entry->bytes, hash);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'",
                               tensors->file->path);
    enum mmul_status status = make_key(entry->name, &name, err);
    if (status == MMUL_OK && !matches_stored_hash(tensors->metadata, name, *hash))
        status = fail_differs(tensors, entry->name, err);
    mmul_free(name);
    return status;
}

enum mmul_status mmul_tensors_check(const struct mmul_tensors *tensors, struct mmul_error *err) {
    struct mmul_tensor_checksum *checked = NULL;
    uint64_t all = 0;
    if (tensors->format == MMUL_FORMAT_NPZ)
        return mmul_npz_verify_checksums(tensors, err);
    if (json_object_get(tensors->metadata, key) == NULL)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(checked, tensors->count + 1, "checksums", err);
    for (int64_t i = 0; status == MMUL_OK && i < tensors->count; i++) {
        checked[i].name = tensors->all[i].name;
        status = verify_tensor(tensors, &tensors->all[i], &checked[i].hash, err);
    }
    if (status == MMUL_OK)
        status = hash_all(tensors->metadata, checked, tensors->count, &all, err);
    if (status == MMUL_OK && !matches_stored_hash(tensors->metadata, key, all))
        status = fail_differs(tensors, NULL, err);
    mmul_free(checked);
    return status;
}
