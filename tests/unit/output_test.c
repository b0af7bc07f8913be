// SPDX-License-Identifier: MIT
// Writing: exact bytes of every format, names and previous contents, every refusal with its text,
// conversions and generated files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "folder.h"
#include "io/output_file.h"
#include "model/dtype.h"
#include "model/matrix.h"

static const struct mmul_shape shape = {1, 2, 3, 5};
enum { COUNT = 30 };

static enum mmul_status create(const char *path, enum mmul_dtype dtype, struct mmul_output **output,
                               struct mmul_error *err) {
    const struct mmul_output_request request = {.path = path, .shape = shape, .dtype = dtype};
    return mmul_output_create(&request, output, err);
}

// Element e gets the value e, in pieces that begin and end inside rows, columns first.
static void write_values(struct mmul_output *output) {
    struct mmul_error err;
    for (int64_t m = 0; m < 2; m++) {
        for (int half = 0; half < 2; half++) {
            struct mmul_region r = mmul_region_whole(shape, m);
            r.col_begin = half == 0 ? 2 : 0;
            r.col_end = half == 0 ? 5 : 2;
            int64_t width = r.col_end - r.col_begin, count = 3 * width;
            float values[15];
            for (int64_t p = 0; p < count; p++)
                values[p] = (float)((m * 3 + p / width) * 5 + r.col_begin + p % width);
            assert_int_equal(mmul_output_write_float(output, r, 0, 4, values, &err), MMUL_OK);
            assert_int_equal(mmul_output_write_float(output, r, 4, 4, NULL, &err), MMUL_OK);
            assert_int_equal(mmul_output_write_float(output, r, 4, count, values + 4, &err), 0);
        }
    }
}

static void each_format_has_its_exact_bytes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum mmul_dtype asked, dtype;
        bool version2;
        int32_t first; // 0: .npy
    } cases[] = {
        {"C.bin", MMUL_F32, MMUL_F32, false, 4},   {"C.bin", MMUL_F32, MMUL_F32, true, -1},
        {"C.bin", MMUL_F16, MMUL_F16, false, -2},  {"C.bin", MMUL_BF16, MMUL_BF16, false, -3},
        {"C.bin", MMUL_BF16, MMUL_BF16, true, -3}, {"C.bin", MMUL_F64, MMUL_F32, false, 4},
        {"C.npy", MMUL_F32, MMUL_F32, false, 0},   {"C.npy", MMUL_F16, MMUL_F16, false, 0},
        {"C.npy", MMUL_BF16, MMUL_F32, false, 0},  {"noending", MMUL_F32, MMUL_F32, false, 4},
    };
    struct folder folder;
    folder_create(&folder);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_output *output;
        const char *path = folder_path(&folder, cases[c].name);
        const struct mmul_output_request request = {
            .path = path,
            .shape = shape,
            .dtype = cases[c].asked,
            .bin_version = cases[c].version2 ? 2 : 0,
        };
        assert_int_equal(mmul_output_create(&request, &output, &err), MMUL_OK);
        assert_int_equal(mmul_output_dtype(output), cases[c].dtype);
        write_values(output);
        assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);

        float values[COUNT];
        unsigned char expected[COUNT * 4];
        for (int e = 0; e < COUNT; e++)
            values[e] = (float)e;
        mmul_dtype_narrow(cases[c].dtype, values, COUNT, expected);
        size_t count, data = COUNT * mmul_dtype_bytes(cases[c].dtype);
        unsigned char *bytes = file_load(path, &count);
        if (cases[c].first != 0) {
            int32_t header[] = {cases[c].first, 1, 2, 3, 5};
            assert_int_equal(count, 20 + data);
            assert_memory_equal(bytes, header, 20);
        } else {
            assert_int_equal(count, 128 + data);
        }
        assert_memory_equal(bytes + count - data, expected, data);
        free(bytes);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(folder_count(&folder), 0);
    }
    folder_destroy(&folder);
}

static void memory_is_an_output(void **state) {
    (void)state;
    static const enum mmul_dtype dtypes[] = {MMUL_F32, MMUL_F16, MMUL_BF16, MMUL_F64};
    for (size_t d = 0; d < 4; d++) {
        struct mmul_error err;
        struct mmul_output *output;
        double memory[COUNT];
        float values[COUNT];
        assert_int_equal(mmul_output_borrow(memory, shape, dtypes[d], &output, &err), MMUL_OK);
        assert_int_equal(mmul_output_dtype(output), dtypes[d]);
        write_values(output);
        assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
        mmul_dtype_widen(dtypes[d], memory, COUNT, values);
        for (int e = 0; e < COUNT; e++)
            assert_true(values[e] == (float)e);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void values_beyond_the_range_of_whole_numbers_are_refused(void **state) {
    (void)state;
    static const struct {
        enum mmul_dtype dtype;
        double least, most;
        const char *name;
    } types[] = {{MMUL_I8, -128, 127, "int8"},
                 {MMUL_U8, 0, 255, "uint8"},
                 {MMUL_I16, -32768, 32767, "int16"},
                 {MMUL_U16, 0, 65535, "uint16"},
                 {MMUL_I32, -0x1p31, 0x1p31 - 1, "int32"},
                 {MMUL_U32, 0, 0x1p32 - 1, "uint32"},
                 {MMUL_BOOL, 0, 1, "bool"},
                 {MMUL_I64, -0x1p63, 0x1p63 - 1024, "int64"}};
    const struct mmul_shape row = {1, 1, 1, 2};
    const struct mmul_region whole = {.row_end = 1, .col_end = 2};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const double step = types[t].dtype == MMUL_I64 ? 2048 : 0.75;
        const double refused[] = {types[t].least - step, types[t].most + step, (double)NAN,
                                  (double)INFINITY};
        const double fits[] = {types[t].least, types[t].most};
        struct mmul_error err;
        struct mmul_output *output;
        int64_t memory[2];
        char expected[200];
        assert_int_equal(mmul_output_borrow(memory, row, types[t].dtype, &output, &err), MMUL_OK);
        assert_int_equal(mmul_output_write_double(output, whole, 0, 2, fits, &err), MMUL_OK);
        for (int e = 0; e < 2; e++)
            assert_true((double)mmul_dtype_get_integer(types[t].dtype, memory, e) == fits[e]);
        for (size_t r = 0; r < sizeof refused / sizeof *refused; r++) {
            const double pair[] = {0, refused[r]};
            const float floats[] = {0, (float)refused[r]};
            snprintf(expected, sizeof expected, "cannot write 'memory': %.17g is not a valid %s",
                     refused[r], types[t].name);
            assert_int_equal(mmul_output_write_double(output, whole, 0, 2, pair, &err),
                             MMUL_ERR_DATA);
            assert_string_equal(err.text, expected);
            if (mmul_dtype_bytes(types[t].dtype) < 4 || !isfinite(refused[r]))
                assert_int_equal(mmul_output_write_float(output, whole, 0, 2, floats, &err),
                                 MMUL_ERR_DATA);
        }
        mmul_output_destroy(output);
    }
    assert_int_equal(mmul_live_bytes(), 0);
}

static void files_appear_complete_or_not_at_all(void **state) {
    (void)state;
    static const char left_behind[200] = "by a killed run, longer than the result will be";
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    struct stat found;
    char part[600];
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.bin");
    snprintf(part, sizeof part, "%s.part", path);
    mode_t mask = umask(027);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
    umask(mask);
    assert_int_equal(stat(part, &found), 0);
    assert_int_equal(found.st_size, 140);
    assert_int_equal(found.st_mode & 0777, 0640);
    mmul_output_destroy(output);
    assert_int_equal(folder_count(&folder), 0);
    file_store(path, "old", 3);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 3); // the old one is still there
    mmul_output_destroy(output);
    mmul_output_destroy(NULL);
    assert_int_equal(folder_count(&folder), 1);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 3);
    file_store(part, left_behind, sizeof left_behind);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
    write_values(output);
    assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
    assert_int_equal(folder_count(&folder), 1);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 140);
    folder_destroy(&folder);
}

static void a_second_writer_of_a_file_is_refused(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *first, *second = NULL;
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.bin");
    assert_int_equal(create(path, MMUL_F32, &first, &err), MMUL_OK);
    enum mmul_status status = create(path, MMUL_F32, &second, &err);
    char text[64];
    snprintf(text, sizeof text, "process %lld on ", (long long)getpid());
    assert_failure(status, MMUL_ERR_CREATE, err, text);
    assert_non_null(strstr(err.text, "output_test) is writing it ("));
    write_values(first);
    assert_int_equal(mmul_output_commit(first, &err), MMUL_OK);
    assert_int_equal(create(path, MMUL_F32, &second, &err), MMUL_OK);
    mmul_output_destroy(second);
    assert_int_equal(folder_count(&folder), 1);
    folder_destroy(&folder);
}

// Starts a process that holds the temporary file for `seconds`, or until it is killed.
static pid_t hold_temporary_file(const char *part, double seconds) {
    int ready[2];
    char word;
    assert_int_equal(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(part, O_WRONLY | O_CREAT, 0600);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        mmul_clock_sleep(seconds);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return holder;
}

static void a_writer_about_to_end_is_waited_for(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    char part[700], text[64];
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.bin");
    snprintf(part, sizeof part, "%s.part", path);
    pid_t holder = hold_temporary_file(part, 0.3);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
    mmul_output_destroy(output);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    holder = hold_temporary_file(part, 60);
    snprintf(text, sizeof text, "process %lld on ", (long long)holder);
    assert_failure(create(path, MMUL_F32, &output, &err), MMUL_ERR_CREATE, err, text);
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    folder_destroy(&folder);
}

// Calls the function of the SIGTERM handler before, during and after the life of an output.
static void a_signal_abandons_uncommitted_outputs(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *first, *second;
    folder_create(&folder);
    struct mmul_output *many[300];
    char name[32];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%d.bin", i);
        assert_int_equal(create(folder_path(&folder, name), MMUL_F32, &many[i], &err), MMUL_OK);
        if (i == 40) // reuses a slot in the middle
            mmul_output_destroy(many[7]);
    }
    assert_int_equal(folder_count(&folder), 299);
    assert_int_equal(mmul_outputs_abandon(), MMUL_ABANDONED_SOME);
    assert_int_equal(folder_count(&folder), 0);
    for (int i = 0; i < 300; i++)
        mmul_output_destroy(i != 7 ? many[i] : NULL);
    assert_int_equal(create(folder_path(&folder, "A.bin"), MMUL_F32, &first, &err), MMUL_OK);
    assert_int_equal(create(folder_path(&folder, "B.bin"), MMUL_F32, &second, &err), MMUL_OK);
    assert_int_equal(folder_count(&folder), 2);
    assert_int_equal(mmul_outputs_abandon(), MMUL_ABANDONED_SOME);
    assert_int_equal(folder_count(&folder), 0);
    file_store(folder_path(&folder, "B.bin.part"), "another run's", 13);
    mmul_output_destroy(second);
    assert_int_equal(folder_count(&folder), 1); // another run's file stays
    assert_failure(mmul_output_commit(first, &err), MMUL_ERR_STOPPED, err, "A.bin' is not written");
    assert_int_equal(folder_count(&folder), 1);
    assert_int_equal(create(folder_path(&folder, "A.bin"), MMUL_F32, &first, &err), MMUL_OK);
    assert_int_equal(mmul_output_commit(first, &err), MMUL_OK);
    assert_int_equal(mmul_outputs_abandon(), MMUL_ABANDONED_FINISHED);
    assert_int_equal(folder_count(&folder), 2);
    assert_int_equal(create(folder_path(&folder, "C.bin"), MMUL_F32, &first, &err), MMUL_OK);
    assert_int_equal(mmul_outputs_abandon(), MMUL_ABANDONED_REST);
    mmul_output_destroy(first);
    assert_int_equal(folder_count(&folder), 2);
    folder_destroy(&folder);
}

static void links_are_followed(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    struct stat found;
    folder_create(&folder);
    file_store(folder_path(&folder, "target.bin"), "old", 3);
    const char *path = folder_path(&folder, "C.bin");
    assert_int_equal(symlink("target.bin", path), 0);
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_OK);
    write_values(output);
    assert_int_equal(mmul_output_commit(output, &err), MMUL_OK);
    assert_int_equal(lstat(path, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 140);
    assert_int_equal(unlink(folder_path(&folder, "target.bin")), 0);
    path = folder_path(&folder, "C.bin");
    assert_failure(create(path, MMUL_F32, &output, &err), MMUL_ERR_CREATE, err,
                   "a symbolic link to a missing file");
    assert_int_equal(unlink(path), 0);
    // A link in the place of the temporary file is not followed.
    assert_int_equal(symlink("C.bin", folder_path(&folder, "D.bin.part")), 0);
    path = folder_path(&folder, "D.bin");
    assert_int_equal(create(path, MMUL_F32, &output, &err), MMUL_ERR_CREATE);
    assert_int_equal(folder_count(&folder), 1);
    folder_destroy(&folder);
}

static void unusable_names_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name; // "" is the folder itself
        struct mmul_shape shape;
        enum mmul_dtype dtype;
        int bin_version;
        enum mmul_status status;
        const char *text;
    } cases[] = {
        {"", {1, 1, 2, 2}, MMUL_F32, 0, MMUL_ERR_CREATE, "it is a folder"},
        {"no/C.bin", {1, 1, 2, 2}, MMUL_F32, 0, MMUL_ERR_CREATE, "No such file or directory"},
        {"fifo", {1, 1, 2, 2}, MMUL_F32, 0, MMUL_ERR_CREATE, "not a regular file"},
        {"fifo2", {1, 1, 2, 2}, MMUL_F32, 0, MMUL_ERR_CREATE, "cannot create"},
        {"C.bin", {1, 1, INT64_C(1) << 31, 1}, MMUL_F32, 0, MMUL_ERR_DATA, "2147483648 x 1"},
        {"C.bin", {1, 1, 0, 2}, MMUL_F32, 0, MMUL_ERR_DATA, "at least 1"},
        {"C.bin", {65536, 65536, 65536, 65536}, MMUL_F32, 0, MMUL_ERR_DATA, "too large"},
        {"C.bin", {1, 1, 2, 2}, MMUL_F16, 1, MMUL_ERR_USAGE, "holds float32, not float16"},
        {"C.npy", {1, 1, 2, 2}, MMUL_F32, 2, MMUL_ERR_USAGE, "only .bin files have versions"},
        {"C.bin", {1, 1, INT32_MAX, INT32_MAX}, MMUL_F32, 0, MMUL_ERR_DATA, "too large"},
        {"C.bin",
         {1, 1, 1 << 24, INT32_MAX},
         MMUL_F16,
         0,
         MMUL_ERR_IO,
         "72057594004373524 bytes (64.0 PiB) needed"},
    };
    struct folder folder;
    folder_create(&folder);
    assert_int_equal(mkfifo(folder_path(&folder, "fifo"), 0600), 0);
    assert_int_equal(mkfifo(folder_path(&folder, "fifo2.part"), 0600), 0);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        struct mmul_output *output = NULL;
        struct mmul_output_request request = {
            .path = folder_path(&folder, cases[c].name),
            .shape = cases[c].shape,
            .dtype = cases[c].dtype,
            .bin_version = cases[c].bin_version,
        };
        enum mmul_status status = mmul_output_create(&request, &output, &err);
        assert_failure(status, cases[c].status, err, cases[c].text);
        assert_null(output);
        assert_int_equal(folder_count(&folder), 2);
        assert_int_equal(mmul_live_bytes(), 0);
    }
    struct mmul_error err;
    struct mmul_output *output;
    assert_failure(create("", MMUL_F32, &output, &err), MMUL_ERR_CREATE, err, "no file name");
    folder_destroy(&folder);
}

static void inputs_are_not_overwritten(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_error err;
    struct mmul_output *output;
    char input[600];
    folder_create(&folder);
    snprintf(input, sizeof input, "%s", folder_path(&folder, "A.bin.part"));
    const struct mmul_output_request source = {
        .path = input, .format = MMUL_FORMAT_BIN, .shape = shape};
    assert_int_equal(mmul_generate_file(MMUL_GENERATE_INTEGER, 1, &source, &err), 0);
    assert_int_equal(link(input, folder_path(&folder, "B.bin")), 0);
    assert_int_equal(symlink("B.bin", folder_path(&folder, "C.bin")), 0);
    // The file itself, another name of it, a link to it, and its name in the temporary file's
    // place.
    static const char *const names[] = {"A.bin.part", "B.bin", "C.bin", "A.bin"};
    for (size_t n = 0; n < 4; n++) {
        struct mmul_matrix *matrix;
        assert_int_equal(mmul_matrix_open(input, &matrix, &err), MMUL_OK);
        const char *path = folder_path(&folder, names[n]);
        const struct mmul_output_request request = {.path = path,
                                                    .format = MMUL_FORMAT_BIN,
                                                    .shape = shape,
                                                    .inputs = &matrix,
                                                    .input_count = 1};
        enum mmul_status status = mmul_output_create(&request, &output, &err);
        assert_failure(status, MMUL_ERR_CREATE, err, "it is one of the inputs");
        mmul_matrix_close(matrix);
        struct stat found;
        assert_int_equal(stat(input, &found), 0);
        assert_int_equal(found.st_size, 140);
        assert_int_equal(folder_count(&folder), 3);
    }
    folder_destroy(&folder);
}

// NaN payloads, -0 and all other bit patterns survive a round trip.
static void store_patterns(const char *path, int32_t first, int bytes_each) {
    unsigned char bytes[20 + COUNT * 4];
    int32_t header[] = {first, 1, 2, 3, 5};
    memcpy(bytes, header, 20);
    for (int e = 0; e < COUNT; e++) {
        uint32_t f32 = e % 3 == 0 ? 0x7F800001U + (uint32_t)e : 0x80000000U + (uint32_t)e * 77777;
        uint16_t f16 = (uint16_t)(e % 3 == 0 ? 0x7C01 + e : 0x8000 + e * 1777);
        memcpy(bytes + 20 + e * bytes_each, bytes_each == 4 ? (void *)&f32 : (void *)&f16,
               (size_t)bytes_each);
    }
    file_store(path, bytes, 20 + (size_t)(COUNT * bytes_each));
}

static void conversions_keep_every_bit(void **state) {
    (void)state;
    static const struct {
        int32_t first;
        int bytes_each;
        const char *middle;
        bool version2;
    } cases[] = {
        {4, 4, "B.npy", false}, {4, 4, "B.bin", false},  {-1, 4, "B.npy", true},
        {4, 4, "B.bin", true},  {-2, 2, "B.npy", false}, {-3, 2, "B.bin", false},
    };
    struct folder folder;
    char in[600], middle[600], out[600];
    folder_create(&folder);
    snprintf(in, sizeof in, "%s", folder_path(&folder, "A.bin"));
    snprintf(out, sizeof out, "%s", folder_path(&folder, "C.bin"));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mmul_error err;
        int64_t overflows = -1;
        snprintf(middle, sizeof middle, "%s", folder_path(&folder, cases[c].middle));
        store_patterns(in, cases[c].first, cases[c].bytes_each);
        bool to_version2 = cases[c].version2 && strstr(middle, ".npy") == NULL;
        struct mmul_convert_options there = {.bin_version = to_version2 ? 2 : 0};
        struct mmul_convert_options back = {.bin_version = cases[c].first == -1 ? 2 : 0};
        assert_int_equal(file_convert(in, middle, &there, &overflows, &err), MMUL_OK);
        assert_int_equal(file_convert(middle, out, &back, &overflows, &err), MMUL_OK);
        assert_same_files(in, out);
        assert_int_equal(overflows, 0);
    }
    folder_destroy(&folder);
}

static void conversions_count_overflows(void **state) {
    (void)state;
    static const struct {
        const char *out;
        struct mmul_convert_options options;
        enum mmul_status status;
        enum mmul_dtype dtype;
        const char *text;
    } cases[] = {
        {"C.bin", {0, 0, true, MMUL_F16, 0}, MMUL_OK, MMUL_F16, ""},
        {"C.bin", {0, 0, true, MMUL_F32, 0}, MMUL_OK, MMUL_F32, ""},
        {"C.npy", {0, 0, true, MMUL_F16, 0}, MMUL_OK, MMUL_F16, ""},
        {"C.npy", {0, 0, false, MMUL_F32, 0}, MMUL_OK, MMUL_F32, ""}, // from bfloat16
        {"C.bin", {0, 0, false, MMUL_F32, 1}, MMUL_OK, MMUL_F32, ""},
        {"C.bin", {0, 0, false, MMUL_F32, 2}, MMUL_OK, MMUL_BF16, ""},
        {"C.npy", {0, 0, true, MMUL_BF16, 0}, MMUL_ERR_USAGE, 0, "no such type"},
        {"C.bin", {0, 0, true, MMUL_F64, 0}, MMUL_ERR_USAGE, 0, "as float64"},
        {"C.bin", {0, 0, true, MMUL_F16, 1}, MMUL_ERR_USAGE, 0, "as version 1"},
        {"C.bin", {0, 0, false, MMUL_F32, 3}, MMUL_ERR_USAGE, 0, "version 3"},
        {"C.npy", {0, 0, false, MMUL_F32, 1}, MMUL_ERR_USAGE, 0, "only .bin files have versions"},
        {"A.bin", {0, 0, false, MMUL_F32, 0}, MMUL_ERR_CREATE, 0, "one of the inputs"},
    };
    struct folder folder;
    struct mmul_error err;
    char in[600];
    folder_create(&folder);
    snprintf(in, sizeof in, "%s", folder_path(&folder, "A.bin"));
    assert_int_equal(file_generate(in, MMUL_GENERATE_INTEGER, 3, shape, MMUL_BF16, &err), 0);
    enum mmul_status refused = file_generate(in, MMUL_GENERATE_INTEGER, 3, shape, MMUL_F64, &err);
    assert_failure(refused, MMUL_ERR_USAGE, err, "as float64");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *out = folder_path(&folder, cases[c].out);
        int64_t overflows = -1;
        enum mmul_status status = file_convert(in, out, &cases[c].options, &overflows, &err);
        if (status != MMUL_OK || cases[c].status != MMUL_OK) {
            assert_failure(status, cases[c].status, err, cases[c].text);
            continue;
        }
        struct mmul_matrix *x, *y;
        struct mmul_difference found;
        assert_int_equal(mmul_matrix_open(in, &x, &err), MMUL_OK);
        assert_int_equal(mmul_matrix_open(out, &y, &err), MMUL_OK);
        assert_int_equal(mmul_matrix_info(y).stored, cases[c].dtype);
        assert_int_equal(mmul_diff(x, y, 0, 0, &found, &err), MMUL_OK);
        assert_true(found.same_shape);
        assert_int_equal(found.outside, 0); // small integers are exact in every type
        mmul_matrix_close(x);
        mmul_matrix_close(y);
    }
    folder_destroy(&folder);
}

// Larger than every buffer on the way, with rows that cross buffer ends.
static void large_files_are_written(void **state) {
    (void)state;
    static const struct mmul_shape large = {1, 2, 3, 700001};
    struct folder folder;
    struct mmul_error err;
    char bin[600], npy[600], back[600];
    int64_t overflows;
    folder_create(&folder);
    snprintf(bin, sizeof bin, "%s", folder_path(&folder, "A.bin"));
    snprintf(npy, sizeof npy, "%s", folder_path(&folder, "A.npy"));
    snprintf(back, sizeof back, "%s", folder_path(&folder, "B.bin"));
    assert_int_equal(file_generate(bin, MMUL_GENERATE_UNIFORM, 5, large, MMUL_F16, &err), 0);
    struct mmul_convert_options widened = {.has_dtype = true, .dtype = MMUL_F32};
    struct mmul_convert_options narrowed = {.has_dtype = true, .dtype = MMUL_F16};
    assert_int_equal(file_convert(bin, npy, &widened, &overflows, &err), MMUL_OK);
    assert_int_equal(file_convert(npy, back, &narrowed, &overflows, &err), MMUL_OK);
    assert_same_files(bin, back);
    float value, expected;
    struct mmul_matrix *matrix;
    int64_t last = INT64_C(6) * 700001 - 1;
    assert_int_equal(mmul_matrix_open(npy, &matrix, &err), MMUL_OK);
    struct mmul_region region = {1, 2, 3, 700000, 700001};
    assert_int_equal(mmul_matrix_read_float(matrix, region, 0, 1, &value, &err), MMUL_OK);
    mmul_matrix_close(matrix);
    mmul_generate(MMUL_GENERATE_UNIFORM, 5, large, last, last + 1, &expected);
    assert_true(fabsf(value - expected) < 0x1p-10F);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_signal_abandons_uncommitted_outputs), // must run before an output is committed
        cmocka_unit_test(each_format_has_its_exact_bytes),
        cmocka_unit_test(memory_is_an_output),
        cmocka_unit_test(values_beyond_the_range_of_whole_numbers_are_refused),
        cmocka_unit_test(files_appear_complete_or_not_at_all),
        cmocka_unit_test(a_second_writer_of_a_file_is_refused),
        cmocka_unit_test(a_writer_about_to_end_is_waited_for),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(unusable_names_are_refused),
        cmocka_unit_test(inputs_are_not_overwritten),
        cmocka_unit_test(conversions_keep_every_bit),
        cmocka_unit_test(conversions_count_overflows),
        cmocka_unit_test(large_files_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
