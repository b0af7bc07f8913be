// SPDX-License-Identifier: MIT
// Shards: split and join reproduce the file for both axes, all types and any weights. Intermediate
// files, refusals, and names.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/shard_folder.h"
#include "io/shard_set.h"
#include "model/matrix.h"

static const struct mmul_shape shape = {2, 3, 7, 11};

struct bench {
    struct folder folder;
    char in[600], shards[600], out[600];
    struct mmul_error err;
};

static void bench_create(struct bench *bench, enum mmul_dtype dtype) {
    folder_create(&bench->folder);
    snprintf(bench->in, sizeof bench->in, "%s", folder_path(&bench->folder, "A.bin"));
    snprintf(bench->shards, sizeof bench->shards, "%s", folder_path(&bench->folder, "shards"));
    snprintf(bench->out, sizeof bench->out, "%s", folder_path(&bench->folder, "C.bin"));
    assert_int_equal(file_generate(bench->in, MMUL_GENERATE_NORMAL, 9, shape, dtype, &bench->err),
                     0);
}

static const char *shard_path(struct bench *bench, const char *name) {
    char inner[128];
    snprintf(inner, sizeof inner, "shards/%s", name);
    return folder_path(&bench->folder, inner);
}

static enum mmul_status split(struct bench *bench, enum mmul_axis axis, int parts,
                              const double *weights) {
    struct mmul_split_options options = {
        .axis = axis,
        .rule = MMUL_SPLIT_EXACT,
        .parts = parts,
        .weights = weights,
        .folder = bench->shards,
    };
    struct mmul_matrix *matrix = NULL;
    enum mmul_status status = mmul_matrix_open(bench->in, &matrix, &bench->err);
    if (status == MMUL_OK)
        status = mmul_split(matrix, &options, &bench->err);
    mmul_matrix_close(matrix);
    return status;
}

static void split_and_join_reproduce_the_file(void **state) {
    (void)state;
    static const struct {
        enum mmul_axis axis;
        int parts;
        bool equal;
        double weights[4];
        int64_t sizes[4];
    } cases[] = {
        {MMUL_ROWS, 3, true, {0}, {14, 14, 14}},
        {MMUL_ROWS, 4, false, {1, 0, 5, 0.5}, {7, 0, 32, 3}}, // the third shard spans two matrices
        {MMUL_COLS, 3, true, {0}, {4, 4, 3}},
        {MMUL_COLS, 4, false, {0, 1, 9, 1}, {0, 1, 9, 1}},
        {MMUL_ROWS, 1, true, {0}, {42}},
    };
    static const enum mmul_dtype dtypes[] = {MMUL_F32, MMUL_F16, MMUL_BF16};
    for (int c = 0; c < 5 * 3; c++) {
        struct bench bench;
        struct stat found;
        int parts = cases[c / 3].parts;
        bench_create(&bench, dtypes[c % 3]);
        const double *weights = cases[c / 3].equal ? NULL : cases[c / 3].weights;
        assert_int_equal(split(&bench, cases[c / 3].axis, parts, weights), MMUL_OK);
        assert_int_equal(stat(bench.shards, &found), 0);
        assert_int_equal(found.st_mode & 0777, 0700);
        for (int part = 0; part < parts; part++) {
            char name[64];
            int64_t other = cases[c / 3].axis == MMUL_ROWS ? 11 : 42;
            int64_t bytes = cases[c / 3].sizes[part] * other * (c % 3 == 0 ? 4 : 2) + 20;
            snprintf(name, sizeof name, "A_shard_%d.bin", part);
            assert_int_equal(stat(shard_path(&bench, name), &found), 0);
            assert_int_equal(found.st_size, bytes);
        }
        assert_int_equal(mmul_join("A", bench.shards, bench.out, 0, &bench.err), MMUL_OK);
        assert_same_files(bench.in, bench.out);
        folder_destroy(&bench.folder);
    }
}

static void the_json_describes_the_shards(void **state) {
    (void)state;
    static const double weights[] = {1, 2, 1};
    struct bench bench;
    struct mmul_shard_set *set;
    bench_create(&bench, MMUL_BF16);
    assert_int_equal(split(&bench, MMUL_COLS, 3, weights), MMUL_OK);
    assert_int_equal(mmul_shard_set_load(shard_path(&bench, "A_shards.json"), &set, &bench.err), 0);
    assert_int_equal(set->axis, MMUL_COLS);
    assert_int_equal(set->parts, 3);
    assert_int_equal(set->dtype, MMUL_BF16);
    assert_memory_equal(&set->shape, &shape, sizeof shape);
    assert_int_equal(set->offsets[1], 3);
    assert_int_equal(set->offsets[2], 8);
    assert_int_equal(set->offsets[3], 11);
    uint64_t hash;
    assert_int_equal(mmul_shard_hash(shard_path(&bench, "A_shard_1.bin"), &hash, &bench.err), 0);
    assert_true(set->hashes[1] == hash);
    mmul_shard_set_destroy(set);
    mmul_shard_set_destroy(NULL);
    folder_destroy(&bench.folder);
}

// Without JSON shards are joined by rows, whatever batch they came from.
static void shards_without_json_are_joined_by_rows(void **state) {
    (void)state;
    static const double weights[] = {0, 3, 1};
    struct bench bench;
    bench_create(&bench, MMUL_F16);
    assert_int_equal(split(&bench, MMUL_ROWS, 3, weights), MMUL_OK);
    assert_int_equal(unlink(shard_path(&bench, "A_shards.json")), 0);
    assert_int_equal(mmul_join("A", bench.shards, bench.out, 0, &bench.err), MMUL_OK);
    size_t in_count, out_count;
    unsigned char *in = file_load(bench.in, &in_count), *out = file_load(bench.out, &out_count);
    static const int32_t header[] = {-2, 1, 1, 42, 11};
    assert_int_equal(in_count, out_count);
    assert_memory_equal(out, header, 20);
    assert_memory_equal(out + 20, in + 20, in_count - 20);
    free(in);
    free(out);
    char moved[512];
    snprintf(moved, sizeof moved, "%s", shard_path(&bench, "elsewhere"));
    assert_int_equal(rename(shard_path(&bench, "A_shard_1.bin"), moved), 0);
    enum mmul_status missing = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(missing, MMUL_ERR_NO_INPUT, bench.err, "A_shard_1.bin");
    assert_int_equal(rename(moved, shard_path(&bench, "A_shard_1.bin")), 0);
    static const int32_t other_cols[] = {-2, 1, 1, 0, 12};
    file_store(shard_path(&bench, "A_shard_2.bin"), other_cols, sizeof other_cols);
    enum mmul_status status = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(status, MMUL_ERR_DATA, bench.err, "12 columns of float16, but shard 0 has 11");
    assert_int_equal(unlink(bench.folder.file), 0);
    assert_int_equal(unlink(shard_path(&bench, "A_shard_1.bin")), 0);
    status = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(status, MMUL_ERR_DATA, bench.err, "at least 1");
    folder_destroy(&bench.folder);
}

static void flip_last_byte(const char *path) {
    size_t count;
    unsigned char *bytes = file_load(path, &count);
    bytes[count - 1] ^= 1;
    file_store(path, bytes, count);
    free(bytes);
}

static void damaged_shards_are_refused(void **state) {
    (void)state;
    struct bench bench;
    bench_create(&bench, MMUL_F32);
    assert_int_equal(split(&bench, MMUL_ROWS, 3, NULL), MMUL_OK);
    flip_last_byte(shard_path(&bench, "A_shard_1.bin"));
    enum mmul_status status = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(status, MMUL_ERR_DATA, bench.err, "has changed");
    assert_int_equal(folder_count(&bench.folder), 2); // no output, no temporary file
    static const int32_t header[] = {4, 1, 1, 0, 11};
    file_store(shard_path(&bench, "A_shard_1.bin"), header, sizeof header);
    status = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(status, MMUL_ERR_DATA, bench.err, "is 0 x 11 float32, but its set says 14 x 11");
    assert_int_equal(unlink(shard_path(&bench, "A_shard_1.bin")), 0);
    status = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(status, MMUL_ERR_NO_INPUT, bench.err, "A_shard_1.bin");
    // The output must not be a shard, and a failed join must not change it.
    assert_int_equal(split(&bench, MMUL_ROWS, 3, NULL), MMUL_OK);
    status = mmul_join("A", bench.shards, shard_path(&bench, "A_shard_2.bin"), 0, &bench.err);
    assert_failure(status, MMUL_ERR_CREATE, bench.err, "it is one of the shards");
    assert_int_equal(mmul_join("A", bench.shards, bench.out, 0, &bench.err), MMUL_OK);
    assert_same_files(bench.in, bench.out);
    folder_destroy(&bench.folder);
}

#define SET(axis, shape, dtype, offsets, hashes)                                               \
    "{\"format\": \"mpimatmul shards\", \"version\": 1, \"axis\": " axis ", \"shape\": " shape \
    ", \"dtype\": " dtype ", \"offsets\": " offsets ", \"xxh3\": " hashes "}"
#define HASHES "[\"0123456789abcdef\", \"0123456789abcdef\"]"

static void invalid_json_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", "does not describe"},
        {"{}", "does not describe"},
        {SET("\"both\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 2, 4]", HASHES), "neither rows"},
        {SET("\"rows\"", "[1, 1, 4]", "\"float32\"", "[0, 2, 4]", HASHES), "does not describe"},
        {SET("\"rows\"", "[1, 1, 0, 4]", "\"float32\"", "[0, 2, 4]", HASHES), "impossible sizes"},
        {SET("\"rows\"", "[4294967296, 4294967296, 4, 4]", "\"float32\"", "[0, 2, 4]", HASHES),
         "impossible sizes"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"complex64\"", "[0, 2, 4]", HASHES), "element type"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 2, 5]", HASHES), "do not end"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[1, 2, 4]", HASHES), "do not increase"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 5, 4]", HASHES), "do not increase"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 2.5, 4]", HASHES), "do not increase"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0]", "[]"), "number of offsets"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "7", HASHES), "number of offsets"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 2, 4]", "[]"), "one checksum"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 4]", "[\"0123456789ABCDEF\"]"),
         "hexadecimal"},
        {SET("\"rows\"", "[1, 1, 4, 4]", "\"float32\"", "[0, 4]", "[3]"), "hexadecimal"},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_shard_set *set = NULL;
        const char *path = folder_path(&folder, "A_shards.json");
        file_store(path, cases[c].json, strlen(cases[c].json));
        enum mmul_status status = mmul_shard_set_load(path, &set, &err);
        assert_failure(status, MMUL_ERR_DATA, err, cases[c].text);
        assert_null(set);
        assert_int_equal(mmul_live_bytes(), 0);
    }
    folder_destroy(&folder);
}

static void only_safe_folders_are_accepted(void **state) {
    (void)state;
    struct bench bench;
    bench_create(&bench, MMUL_F32);
    assert_int_equal(mkdir(bench.shards, 0700), 0);
    static const mode_t modes[] = {0770, 0702, 01777};
    for (size_t m = 0; m < 3; m++) {
        assert_int_equal(chmod(bench.shards, modes[m]), 0);
        enum mmul_status status = split(&bench, MMUL_ROWS, 2, NULL);
        assert_failure(status, MMUL_ERR_CREATE, bench.err, "can be written to by other users");
        assert_int_equal(strncmp(bench.err.hint, "chmod go-w '", 12), 0);
    }
    assert_int_equal(chmod(bench.shards, 0755), 0);
    assert_int_equal(split(&bench, MMUL_ROWS, 2, NULL), MMUL_OK);
    const char *link = folder_path(&bench.folder, "link");
    assert_int_equal(symlink("shards", link), 0);
    enum mmul_status status = mmul_shard_folder_create(link, &bench.err);
    assert_failure(status, MMUL_ERR_CREATE, bench.err, "is a symbolic link");
    status = mmul_shard_folder_create(folder_path(&bench.folder, "link//"), &bench.err);
    assert_failure(status, MMUL_ERR_CREATE, bench.err, "is a symbolic link");
    assert_failure(mmul_shard_folder_create(bench.in, &bench.err), MMUL_ERR_CREATE, bench.err,
                   "is not a folder");
    status = mmul_shard_folder_create(folder_path(&bench.folder, "no/shards"), &bench.err);
    assert_failure(status, MMUL_ERR_CREATE, bench.err, "No such file or directory");
    folder_destroy(&bench.folder);
}

static void impossible_requests_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"", ".", "..", "a/b", "/A", "../A"};
    static const double zeros[] = {0, 0};
    struct bench bench;
    bench_create(&bench, MMUL_F32);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        enum mmul_status status = mmul_join(names[n], bench.shards, bench.out, 0, &bench.err);
        assert_failure(status, MMUL_ERR_USAGE, bench.err, "cannot name a set of shards");
    }
    enum mmul_status status = mmul_join("A", bench.shards, bench.out, 0, &bench.err);
    assert_failure(status, MMUL_ERR_NO_INPUT, bench.err, "no shards of 'A'");
    assert_failure(split(&bench, MMUL_ROWS, 0, NULL), MMUL_ERR_USAGE, bench.err, "0 shards");
    status = split(&bench, MMUL_ROWS, 2, zeros);
    assert_failure(status, MMUL_ERR_USAGE, bench.err, "all weights are zero");
    assert_int_equal(folder_count(&bench.folder), 1); // no shard folder was created
    folder_destroy(&bench.folder);
}

static void base_names_are_derived_from_paths(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"A.bin", "A"},
        {"/x/y.z/A.npy", "A"},
        {"x/m.safetensors", "m"},
        {"x/m.safetensors:layer.0.weight", "layer.0.weight"},
        {"x/M.SafeTensors:a/b[1:2]", "a_b"},
        {"A:b.npy", "A:b"},
        {"A_shard_12.bin", "A"},
        {"A_shard_0", "A"},
        {"A_shard_.bin", "A_shard_"},
        {"A_shard_1x.bin", "A_shard_1x"},
        {"A.bin.bin", "A.bin"},
        {"A7.bin", "A7"},
        {"d/A", "A"},
        {"_shard_3.bin", ""},
        {"A.txt", "A.txt"},
        {"", ""},
        {"d/", ""},
    };
    char name[256], longest[401];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        assert_string_equal(mmul_base_name(cases[c][0], name), cases[c][1]);
    memset(longest, 'x', 400);
    longest[400] = '\0';
    assert_int_equal(strlen(mmul_base_name(longest, name)), 255);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_and_join_reproduce_the_file),
        cmocka_unit_test(the_json_describes_the_shards),
        cmocka_unit_test(shards_without_json_are_joined_by_rows),
        cmocka_unit_test(damaged_shards_are_refused),
        cmocka_unit_test(invalid_json_is_refused),
        cmocka_unit_test(only_safe_folders_are_accepted),
        cmocka_unit_test(impossible_requests_are_refused),
        cmocka_unit_test(base_names_are_derived_from_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
