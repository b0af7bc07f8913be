// SPDX-License-Identifier: MIT
// The journal: entries come back, a torn last line is cut off at every length, every other damaged
// byte is refused, and so is a header with another field.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "io/journal.h"

static const struct mmul_journal_field fields[] = {{"operation", "mul"}, {"alpha", "1.5"}};
static const struct mmul_journal_field other_value[] = {{"operation", "mul"}, {"alpha", "2"}};
static const struct mmul_journal_field longer[] = {
    {"operation", "mul"}, {"alpha", "1.5"}, {"beta", "0"}};
static const struct mmul_journal_field other_name[] = {{"operation", "mul"}, {"beta", "1.5"}};

static enum mmul_status open_journal(const char *path, const struct mmul_journal_field *header,
                                     int count, struct mmul_journal **journal,
                                     struct mmul_error *err) {
    *journal = NULL;
    return mmul_journal_open(path, "C.npy", header, count, journal, err);
}

static struct mmul_journal *open_right(const char *path) {
    struct mmul_journal *journal;
    struct mmul_error err = {.text = ""};
    const enum mmul_status status = open_journal(path, fields, 2, &journal, &err);
    if (status != MMUL_OK)
        fail_msg("%s", err.text);
    return journal;
}

// Makes a journal with the entries "e0", "e1", ...
static void make_journal(const char *path, int entries) {
    struct mmul_journal *journal = open_right(path);
    struct mmul_error err;
    char text[16];
    for (int i = 0; i < entries; i++) {
        snprintf(text, sizeof text, "e%d", i);
        assert_int_equal(mmul_journal_add(journal, text, &err), MMUL_OK);
    }
    assert_int_equal(mmul_journal_count(journal), entries);
    mmul_journal_close(journal);
}

static void check_entries(const char *path, int64_t expected) {
    struct mmul_journal *journal = open_right(path);
    char text[16];
    assert_int_equal(mmul_journal_count(journal), expected);
    for (int64_t i = 0; i < expected; i++) {
        snprintf(text, sizeof text, "e%d", (int)i);
        assert_string_equal(mmul_journal_entry(journal, i), text);
    }
    assert_null(mmul_journal_entry(journal, expected));
    mmul_journal_close(journal);
}

static void entries_come_back(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.npy.journal");
    make_journal(path, 3);
    check_entries(path, 3);
    struct mmul_journal *journal = open_right(path);
    struct mmul_error err;
    assert_int_equal(mmul_journal_add(journal, "e3", &err), MMUL_OK);
    mmul_journal_close(journal);
    check_entries(path, 4);
    journal = open_right(path);
    mmul_journal_remove(journal);
    mmul_journal_close(journal);
    assert_int_equal(folder_count(&folder), 0);
    folder_destroy(&folder);
}

// A file that ends anywhere is a journal with fewer entries, to which more can be added.
static void a_torn_end_is_no_damage(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.npy.journal");
    size_t count;
    make_journal(path, 3);
    unsigned char *bytes = file_load(path, &count);
    for (size_t length = 0; length <= count; length++) {
        int64_t lines = 0;
        for (size_t i = 0; i < length; i++)
            lines += bytes[i] == '\n';
        file_store(path, bytes, length);
        struct mmul_journal *journal = open_right(path);
        const int64_t entries = mmul_journal_count(journal);
        assert_int_equal(entries, lines > 4 ? lines - 4 : 0);
        char text[16];
        struct mmul_error err;
        snprintf(text, sizeof text, "e%d", (int)entries);
        assert_int_equal(mmul_journal_add(journal, text, &err), MMUL_OK);
        mmul_journal_close(journal);
        check_entries(path, entries + 1);
    }
    free(bytes);
    folder_destroy(&folder);
}

// Every byte before the last line counts; damage there loses that line. A damaged newline joins two
// lines.
static void a_damaged_byte_is_refused(void **state) {
    (void)state;
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.npy.journal");
    size_t count, last;
    make_journal(path, 3);
    unsigned char *bytes = file_load(path, &count);
    for (last = count - 1; bytes[last - 1] != '\n'; last--)
        ;
    for (size_t at = 0; at < count; at++) {
        struct mmul_journal *journal;
        struct mmul_error err = {.text = ""};
        bytes[at] ^= (unsigned char)(1 << (at % 8));
        file_store(path, bytes, count);
        bytes[at] ^= (unsigned char)(1 << (at % 8));
        const enum mmul_status status = open_journal(path, fields, 2, &journal, &err);
        if (at + 1 < last) {
            assert_failure(status, MMUL_ERR_DATA, err, "cannot resume 'C.npy': line ");
            assert_non_null(strstr(err.hint, "C.npy.journal' to start again"));
            continue;
        }
        assert_int_equal(status, MMUL_OK);
        assert_int_equal(mmul_journal_count(journal), at < last ? 1 : 2);
        mmul_journal_close(journal);
    }
    free(bytes);
    folder_destroy(&folder);
}

static void another_header_is_refused(void **state) {
    (void)state;
    static const struct {
        const struct mmul_journal_field *header;
        int count;
        const char *text;
    } cases[] = {{other_value, 2, "its journal has another alpha: 1.5, this job has 2"},
                 {other_name, 2, "its journal has 'alpha: 1.5', this job has beta"},
                 {longer, 3, "its journal has '', this job has beta"},
                 {fields, 1, "its journal has 'alpha: 1.5', this job has nothing more"}};
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.npy.journal");
    make_journal(path, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mmul_journal *journal;
        struct mmul_error err = {.text = ""};
        assert_failure(open_journal(path, cases[i].header, cases[i].count, &journal, &err),
                       MMUL_ERR_DATA, err, cases[i].text);
        check_entries(path, 2);
    }
    folder_destroy(&folder);
}

// A name that is a link, or one of several names, could lead to another user's file.
static void links_are_refused(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_journal *journal;
    struct mmul_error err = {.text = ""};
    char path[512];
    folder_create(&folder);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "C.npy.journal"));
    make_journal(path, 1);
    assert_int_equal(symlink(path, folder_path(&folder, "link")), 0);
    assert_failure(open_journal(folder_path(&folder, "link"), fields, 2, &journal, &err),
                   MMUL_ERR_CREATE, err, "cannot create");
    assert_int_equal(link(path, folder_path(&folder, "hard")), 0);
    assert_failure(open_journal(path, fields, 2, &journal, &err), MMUL_ERR_CREATE, err,
                   "it is not a regular file of this user with one name");
    folder_destroy(&folder);
}

// Results of the same name in two folders, and one folder for their journals.
static void a_journal_in_use_is_refused(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_journal *second;
    struct mmul_error err = {.text = ""};
    folder_create(&folder);
    const char *path = folder_path(&folder, "C.npy.journal");
    struct mmul_journal *first = open_right(path);
    assert_failure(open_journal(path, fields, 2, &second, &err), MMUL_ERR_CREATE, err,
                   "C.npy.journal': another job is writing it");
    mmul_journal_close(first);
    make_journal(path, 1);
    folder_destroy(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_back),         cmocka_unit_test(a_torn_end_is_no_damage),
        cmocka_unit_test(a_damaged_byte_is_refused), cmocka_unit_test(another_header_is_refused),
        cmocka_unit_test(links_are_refused),         cmocka_unit_test(a_journal_in_use_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
