// SPDX-License-Identifier: MIT
// The description of a set of shards, as data and as JSON. A file from elsewhere is checked value
// by value, so a loaded description always describes a possible cut. Does not look at the shards.
#include "io/shard_set.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/shard_folder.h"
#include "model/matrix.h"

enum { HASH_DIGITS = 16, SET_VERSION = 1 };

static const char set_format[] = "mpimatmul shards";

enum mmul_status mmul_shard_set_create(int parts, struct mmul_shard_set **set,
                                       struct mmul_error *err) {
    if (parts < 1 || parts > MMUL_SHARDS_MAX) {
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot make %d shards: expected 1 to %d", parts,
                         MMUL_SHARDS_MAX);
    }
    struct mmul_shard_set *made = mmul_allocate(1, sizeof *made, "a shard set", err);
    if (made == NULL)
        return err->status;
    made->parts = parts;
    enum mmul_status status = MMUL_ALLOCATE(made->offsets, parts + 1, "shard offsets", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->hashes, parts, "shard checksums", err);
    if (status != MMUL_OK) {
        mmul_shard_set_destroy(made);
        return status;
    }
    *set = made;
    return MMUL_OK;
}

void mmul_shard_set_destroy(struct mmul_shard_set *set) {
    if (set == NULL)
        return;
    if (set->kept != NULL)
        MMUL_FREE_ALL(set->kept->changed_ns, set->kept->weights, set->kept->hosts);
    MMUL_FREE_ALL(set->kept, set->offsets, set->hashes, set);
}

enum mmul_status mmul_shard_set_make_persistent(struct mmul_shard_set *set,
                                                struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE(set->kept, 1, "a shard set", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(set->kept->changed_ns, set->parts, "times of shards", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(set->kept->weights, set->parts, "weights of shards", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(set->kept->hosts, set->parts, "hosts of shards", err);
    return status;
}

enum mmul_status mmul_shard_set_check_whole(const struct mmul_shard_set *set, const char *name,
                                            struct mmul_error *err) {
    if (set->kept == NULL || set->kept->is_whole)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA, "'%s' is half-written: the job that wrote it was stopped", name);
    mmul_hint(err, "keep it again, or mpimatmul kept %s --remove", name);
    return err->status;
}

int64_t mmul_shard_axis_length(struct mmul_shape shape, enum mmul_axis axis) {
    return axis == MMUL_ROWS ? mmul_shape_matrices(shape) * shape.rows : shape.cols;
}

struct mmul_shape mmul_shard_shape(const struct mmul_shard_set *set, int part) {
    int64_t length = set->offsets[part + 1] - set->offsets[part];
    struct mmul_shape shape = {.batch = 1, .depth = 1};
    shape.rows = set->axis == MMUL_ROWS ? length : mmul_shard_axis_length(set->shape, MMUL_ROWS);
    shape.cols = set->axis == MMUL_COLS ? length : set->shape.cols;
    return shape;
}

// ----------------------------------------------------------------------------------------- storing

static json_t *keeping_json(const struct mmul_shard_set *set) {
    const struct mmul_persistent_shards *kept = set->kept;
    json_t *changed = json_array(), *weights = json_array(), *hosts = json_array();
    char job[HASH_DIGITS + 1];
    bool failed = changed == NULL || weights == NULL || hosts == NULL;
    for (int i = 0; i < set->parts && !failed; i++)
        failed = json_array_append_new(changed, json_integer(kept->changed_ns[i])) != 0 ||
                 json_array_append_new(weights, json_real(kept->weights[i])) != 0 ||
                 json_array_append_new(hosts, mmul_json_from_text(kept->hosts[i])) != 0;
    if (failed) {
        json_decref(changed);
        json_decref(weights);
        json_decref(hosts);
        return NULL;
    }
    snprintf(job, sizeof job, "%016" PRIx64, kept->job);
    return json_pack("{s:s, s:b, s:b, s:b, s:o, s:o, s:o}", "job", job, "whole", kept->is_whole,
                     "integers", kept->has_integers, "bools", kept->has_bools, "changed_ns",
                     changed, "weights", weights, "hosts", hosts);
}

static json_t *set_json(const struct mmul_shard_set *set) {
    json_t *offsets = json_array(), *hashes = json_array();
    bool failed = offsets == NULL || hashes == NULL;
    for (int i = 0; i <= set->parts && !failed; i++)
        failed = json_array_append_new(offsets, json_integer(set->offsets[i])) != 0;
    for (int i = 0; i < set->parts && !failed; i++) {
        char text[HASH_DIGITS + 1];
        snprintf(text, sizeof text, "%016" PRIx64, set->hashes[i]);
        failed = json_array_append_new(hashes, json_string(text)) != 0;
    }
    if (failed) {
        json_decref(offsets);
        json_decref(hashes);
        return NULL;
    }
    struct mmul_shape shape = set->shape;
    json_t *keeping = set->kept != NULL ? keeping_json(set) : NULL;
    if (set->kept != NULL && keeping == NULL) {
        json_decref(offsets);
        json_decref(hashes);
        return NULL;
    }
    return json_pack("{s:s, s:i, s:s, s:[IIII], s:s, s:o, s:o, s:o*}", "format", set_format,
                     "version", SET_VERSION, "axis", set->axis == MMUL_ROWS ? "rows" : "cols",
                     "shape", (json_int_t)shape.batch, (json_int_t)shape.depth,
                     (json_int_t)shape.rows, (json_int_t)shape.cols, "dtype",
                     mmul_dtype_name(set->dtype), "offsets", offsets, "xxh3", hashes, "kept",
                     keeping);
}

enum mmul_status mmul_shard_set_store(const struct mmul_shard_set *set, const char *folder,
                                      const char *name, struct mmul_error *err) {
    char *path = NULL, *text = NULL;
    json_t *value = set_json(set);
    enum mmul_status status;
    if (value == NULL) {
        status =
            mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate JSON for the shards of '%s'", name);
        goto out;
    }
    status = mmul_shard_set_path(folder, name, &path, err);
    if (status == MMUL_OK)
        status = mmul_json_format(value, &text, err);
    if (status == MMUL_OK)
        status = mmul_text_store(path, text, err);
out:
    mmul_free(text);
    mmul_free(path);
    json_decref(value);
    return status;
}

// ----------------------------------------------------------------------------------------- loading

// Unchecked values of the JSON, borrowed from it.
struct raw_set {
    const char *format, *axis, *dtype;
    int version;
    json_int_t sizes[4];
    json_t *offsets, *hashes, *kept; // kept NULL: absent
};

static enum mmul_status fail_set(const char *path, const char *what, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' does not describe a set of shards: %s", path, what);
}

static enum mmul_status unpack_json(const json_t *value, const char *path, struct raw_set *raw,
                                    struct mmul_error *err) {
    json_error_t problem;
    // jansson only reads through this pointer, though it takes it without const.
    int rc = json_unpack_ex((json_t *)(uintptr_t)value, &problem, JSON_STRICT,
                            "{s:s, s:i, s:s, s:[IIII], s:s, s:o, s:o, s?o}", "format", &raw->format,
                            "version", &raw->version, "axis", &raw->axis, "shape", &raw->sizes[0],
                            &raw->sizes[1], &raw->sizes[2], &raw->sizes[3], "dtype", &raw->dtype,
                            "offsets", &raw->offsets, "xxh3", &raw->hashes, "kept", &raw->kept);
    if (rc != 0)
        return fail_set(path, problem.text, err);
    if (strcmp(raw->format, set_format) != 0 || raw->version != SET_VERSION)
        return fail_set(path, "unknown format or version", err);
    return MMUL_OK;
}

static enum mmul_status read_whole(const struct raw_set *raw, const char *path,
                                   struct mmul_shard_set *set, struct mmul_error *err) {
    int64_t count;
    struct mmul_shape shape = {raw->sizes[0], raw->sizes[1], raw->sizes[2], raw->sizes[3]};
    bool is_rows = strcmp(raw->axis, "rows") == 0;
    if (!is_rows && strcmp(raw->axis, "cols") != 0)
        return fail_set(path, "axis is neither rows nor cols", err);
    if (!mmul_shape_count(shape, &count) || count == 0)
        return fail_set(path, "impossible sizes", err);
    if (mmul_dtype_parse(raw->dtype, &set->dtype, err) != MMUL_OK)
        return fail_set(path, "unknown element type", err);
    set->shape = shape;
    set->axis = is_rows ? MMUL_ROWS : MMUL_COLS;
    return MMUL_OK;
}

static enum mmul_status read_offsets(const json_t *offsets, const char *path,
                                     struct mmul_shard_set *set, struct mmul_error *err) {
    int64_t before = 0;
    for (int i = 0; i <= set->parts; i++) {
        const json_t *offset = json_array_get(offsets, (size_t)i);
        int64_t at = json_is_integer(offset) ? json_integer_value(offset) : -1;
        if (at < before || (i == 0 && at != 0))
            return fail_set(path, "offsets do not increase from zero", err);
        set->offsets[i] = at;
        before = at;
    }
    if (before == mmul_shard_axis_length(set->shape, set->axis))
        return MMUL_OK;
    return fail_set(path, "offsets do not end where the matrix does", err);
}

static bool parse_hash(const char *text, uint64_t *hash) {
    uint64_t value = 0;
    if (text == NULL || strlen(text) != HASH_DIGITS)
        return false;
    for (; *text != '\0'; text++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = strchr(digits, *text);
        if (digit == NULL)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *hash = value;
    return true;
}

static enum mmul_status read_hashes(const json_t *hashes, const char *path,
                                    struct mmul_shard_set *set, struct mmul_error *err) {
    if (!json_is_array(hashes) || json_array_size(hashes) != (size_t)set->parts)
        return fail_set(path, "expected one checksum per shard", err);
    for (int i = 0; i < set->parts; i++) {
        const char *text = json_string_value(json_array_get(hashes, (size_t)i));
        if (!parse_hash(text, &set->hashes[i]))
            return fail_set(path, "a checksum is not 16 hexadecimal digits", err);
    }
    set->has_hashes = true;
    return MMUL_OK;
}

static enum mmul_status read_ranks(json_t *const lists[3], const char *path,
                                   struct mmul_shard_set *set, struct mmul_error *err) {
    for (int i = 0; i < set->parts; i++) {
        const json_t *time = json_array_get(lists[0], (size_t)i);
        const json_t *weight = json_array_get(lists[1], (size_t)i);
        const char *host = json_string_value(json_array_get(lists[2], (size_t)i));
        if (!json_is_integer(time) || !json_is_real(weight) || !(json_real_value(weight) >= 0) ||
            host == NULL || strlen(host) >= MMUL_SHARD_HOST_BYTES)
            return fail_set(path, "expected a time, weight and host for every rank", err);
        set->kept->changed_ns[i] = json_integer_value(time);
        set->kept->weights[i] = json_real_value(weight);
        strcpy(set->kept->hosts[i], host);
    }
    return MMUL_OK;
}

static enum mmul_status read_keeping(json_t *kept, const char *path, struct mmul_shard_set *set,
                                     struct mmul_error *err) {
    const char *job = NULL;
    json_t *lists[3]; // times, weights, hosts
    int is_whole = 0, has_integers = 0, has_bools = 0;
    json_error_t problem;
    if (kept == NULL)
        return MMUL_OK;
    if (json_unpack_ex(kept, &problem, JSON_STRICT, "{s:s, s:b, s:b, s?b, s:o, s:o, s:o}", "job",
                       &job, "whole", &is_whole, "integers", &has_integers, "bools", &has_bools,
                       "changed_ns", &lists[0], "weights", &lists[1], "hosts", &lists[2]) != 0)
        return fail_set(path, problem.text, err);
    enum mmul_status status = mmul_shard_set_make_persistent(set, err);
    if (status == MMUL_OK && !parse_hash(job, &set->kept->job))
        status = fail_set(path, "a job is not 16 hexadecimal digits", err);
    if (status != MMUL_OK)
        return status;
    set->kept->is_whole = is_whole != 0;
    set->kept->has_integers = has_integers != 0;
    set->kept->has_bools = has_bools != 0;
    return read_ranks(lists, path, set, err);
}

static enum mmul_status read_set(const struct raw_set *raw, const char *path,
                                 struct mmul_shard_set **set, struct mmul_error *err) {
    struct mmul_shard_set *made = NULL;
    size_t offsets = json_is_array(raw->offsets) ? json_array_size(raw->offsets) : 0;
    if (offsets < 2 || offsets - 1 > MMUL_SHARDS_MAX)
        return fail_set(path, "unusable number of offsets", err);
    enum mmul_status status = mmul_shard_set_create((int)offsets - 1, &made, err);
    if (status == MMUL_OK)
        status = read_whole(raw, path, made, err);
    if (status == MMUL_OK)
        status = read_offsets(raw->offsets, path, made, err);
    if (status == MMUL_OK)
        status = read_hashes(raw->hashes, path, made, err);
    if (status == MMUL_OK)
        status = read_keeping(raw->kept, path, made, err);
    if (status != MMUL_OK) {
        mmul_shard_set_destroy(made);
        return status;
    }
    *set = made;
    return MMUL_OK;
}

enum mmul_status mmul_shard_set_load(const char *path, struct mmul_shard_set **set,
                                     struct mmul_error *err) {
    json_t *value = NULL;
    struct raw_set raw = {0};
    enum mmul_status status = mmul_json_load(path, &value, err);
    if (status == MMUL_OK)
        status = unpack_json(value, path, &raw, err);
    if (status == MMUL_OK)
        status = read_set(&raw, path, set, err);
    json_decref(value);
    return status;
}

static enum mmul_status check_usable(const struct mmul_shard_set *set, const char *name,
                                     struct mmul_error *err) {
    enum mmul_status status = mmul_shard_set_check_whole(set, name, err);
    if (status != MMUL_OK)
        return status;
    if (set->dtype != MMUL_F32 && set->dtype != MMUL_F64) {
        mmul_fail(err, MMUL_ERR_DATA, "cannot use kept '%s': it is %s, expected float32 or float64",
                  name, mmul_dtype_name(set->dtype));
        mmul_hint(err, "mpimatmul join '%s' converts it to a file", name);
        return err->status;
    }
    if (set->axis == MMUL_ROWS || mmul_shape_matrices(set->shape) == 1)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "cannot use kept '%s': columns of %lld matrices, expected rows", name,
                     (long long)mmul_shape_matrices(set->shape));
}

enum mmul_status mmul_shard_set_find_path(const char *folder, const char *name, char **path,
                                          struct mmul_error *err) {
    enum mmul_status status = mmul_shard_name_check(name, err);
    if (status == MMUL_OK)
        status = mmul_shard_folder_check(folder, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_path(folder, name, path, err);
    if (status != MMUL_OK || access(*path, F_OK) == 0)
        return status;
    mmul_fail(err, MMUL_ERR_NO_INPUT, "no kept '%s' in '%s'", name, folder);
    mmul_hint(err, "mpimatmul kept lists the kept sets");
    return err->status;
}

enum mmul_status mmul_shard_set_find(const char *folder, const char *name,
                                     struct mmul_shard_set **set, uint64_t *description,
                                     struct mmul_error *err) {
    char *path = NULL;
    struct mmul_shard_set *found = NULL;
    enum mmul_status status = mmul_shard_set_find_path(folder, name, &path, err);
    if (status == MMUL_OK)
        status = mmul_shard_hash(path, description, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_load(path, &found, err);
    if (status == MMUL_OK)
        status = check_usable(found, name, err);
    mmul_free(path);
    if (status == MMUL_OK)
        *set = found;
    else
        mmul_shard_set_destroy(found);
    return status;
}
