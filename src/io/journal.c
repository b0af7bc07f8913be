// SPDX-License-Identifier: MIT
// Reads a whole journal at once, checks it line by line, and appends lines. Knows nothing of what
// the entries mean.
#include "io/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/output_path.h"
#include "io/transfer.h"

static const char FIRST_LINE[] = "mpimatmul journal 1", HEADER_END[] = ".";

enum { CHECKSUM_DIGITS = 8, PATH_MOST = 200 };

struct mmul_journal {
    char *path;
    int fd;
    char *text;           // owned: the file, with a NUL in place of each tab
    const char **entries; // owned: into text
    int64_t count, entries_read;
    int64_t bytes; // length of the file
};

static uint32_t checksum_of(const char *content) {
    return (uint32_t)mmul_hash(content, strlen(content));
}

// Shortens a name or a value for a message.
static const char *shorten(const char *text, char shortened[static PATH_MOST]) {
    mmul_text_copy_shortened(shortened, PATH_MOST, text);
    return shortened;
}

static enum mmul_status hint_fresh(const struct mmul_journal *journal, struct mmul_error *err) {
    char name[PATH_MOST];
    mmul_hint(err, "remove '%s' to start again, or leave out --resume",
              shorten(journal->path, name));
    return err->status;
}

static enum mmul_status fail_damaged(const struct mmul_journal *journal, const char *output,
                                     int64_t line, struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_DATA, "cannot resume '%s': line %lld of '%s' is damaged", output,
              (long long)line, journal->path);
    return hint_fresh(journal, err);
}

// --------------------------------------------------------------------------------------- reading

// Locks the file, waiting for a rank that outlives its killed mpirun for a moment. Returns false if
// another job still has it.
static bool lock_file(int fd) {
    const double deadline = mmul_clock_now() + MMUL_OUTPUT_WAIT_SECONDS;
    bool is_locked = mmul_output_try_lock(fd);
    while (!is_locked && mmul_clock_now() < deadline) {
        mmul_clock_sleep(0.05);
        is_locked = mmul_output_try_lock(fd);
    }
    return is_locked;
}

static enum mmul_status open_file(struct mmul_journal *journal, struct mmul_error *err) {
    struct stat found;
    journal->fd = open(journal->path,
                       O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (journal->fd < 0 || fstat(journal->fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create '%s'", journal->path);
    if (!S_ISREG(found.st_mode) || found.st_uid != geteuid() || found.st_nlink != 1)
        return mmul_fail(err, MMUL_ERR_CREATE,
                         "cannot use '%s': it is not a regular file of this user with one name",
                         journal->path);
    // Results of the same name in two folders may have one folder for their journals.
    if (!lock_file(journal->fd)) {
        mmul_fail(err, MMUL_ERR_CREATE, "cannot use '%s': another job is writing it",
                  journal->path);
        mmul_hint(err, "wait for the other job, or give another --journal");
        return err->status;
    }
    journal->text = mmul_allocate_raw(found.st_size + 1, 1, "a journal", err);
    if (journal->text == NULL)
        return err->status;
    size_t got = 0;
    const int errnum = mmul_pread_all(journal->fd, journal->text, (size_t)found.st_size, 0, &got);
    journal->text[got] = '\0';
    journal->bytes = (int64_t)got;
    return errnum == 0
               ? MMUL_OK
               : mmul_fail_errno(err, MMUL_ERR_CREATE, errnum, "cannot read '%s'", journal->path);
}

// Ends the line's content with a NUL. Returns false if its checksum is not right.
static bool check_line(char *line, size_t length) {
    char *tab = strrchr(line, '\t'), digits[CHECKSUM_DIGITS + 1];
    if (strlen(line) != length || tab == NULL || strlen(tab + 1) != CHECKSUM_DIGITS)
        return false;
    *tab = '\0';
    snprintf(digits, sizeof digits, "%0*" PRIx32, CHECKSUM_DIGITS, checksum_of(line));
    return strcmp(digits, tab + 1) == 0;
}

// Collects the contents of all lines and cuts a torn last line off the file.
static enum mmul_status read_lines(struct mmul_journal *journal, const char *output,
                                   struct mmul_error *err) {
    int64_t lines = 0, number = 0;
    for (int64_t i = 0; i < journal->bytes; i++)
        lines += journal->text[i] == '\n';
    enum mmul_status status = MMUL_ALLOCATE(journal->entries, lines + 1, "a journal", err);
    if (status != MMUL_OK)
        return status;
    char *line = journal->text;
    while (number < lines) {
        char *end = memchr(line, '\n', (size_t)(journal->text + journal->bytes - line));
        *end = '\0';
        const bool is_right = check_line(line, (size_t)(end - line));
        if (!is_right && number + 1 < lines)
            return fail_damaged(journal, output, number + 1, err);
        if (!is_right)
            break;
        journal->entries[number++] = line;
        line = end + 1;
    }
    journal->entries_read = number;
    journal->bytes = line - journal->text;
    if (ftruncate(journal->fd, journal->bytes) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", journal->path);
    return MMUL_OK;
}

// ---------------------------------------------------------------------------------------- header

// Appends whole lines. Cuts off again what a full disk has taken of them.
static enum mmul_status write_text(struct mmul_journal *journal, const struct mmul_text *text,
                                   struct mmul_error *err) {
    if (text->failed)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a journal's line");
    const ssize_t written = write(journal->fd, text->data, text->length);
    const int errnum = written < 0 ? errno : ENOSPC;
    if (written == (ssize_t)text->length) {
        journal->bytes += written;
        return MMUL_OK;
    }
    const bool is_cut = ftruncate(journal->fd, journal->bytes) == 0;
    return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'%s", journal->path,
                           is_cut ? "" : " (its last line is torn)");
}

static void add_line(struct mmul_text *text, const char *content) {
    mmul_text_add(text, "%s\t%0*" PRIx32 "\n", content, CHECKSUM_DIGITS, checksum_of(content));
}

static void add_field(struct mmul_text *text, const struct mmul_journal_field *field) {
    struct mmul_text line = {0};
    mmul_text_add(&line, "%s: %s", field->name, field->value);
    add_line(text, mmul_text_get(&line));
    text->failed |= line.failed;
    mmul_text_fini(&line);
}

static enum mmul_status write_header(struct mmul_journal *journal,
                                     const struct mmul_journal_field *fields, int field_count,
                                     struct mmul_error *err) {
    struct mmul_text text = {0};
    add_line(&text, FIRST_LINE);
    for (int i = 0; i < field_count; i++)
        add_field(&text, &fields[i]);
    add_line(&text, HEADER_END);
    journal->bytes = 0;
    enum mmul_status status =
        ftruncate(journal->fd, 0) == 0
            ? write_text(journal, &text, err)
            : mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", journal->path);
    mmul_text_fini(&text);
    journal->entries_read = 0;
    return status;
}

// Compares a line of the header with the field that belongs there.
static enum mmul_status compare_field(const struct mmul_journal *journal, const char *output,
                                      const char *line, const struct mmul_journal_field *field,
                                      struct mmul_error *err) {
    const size_t length = strlen(field->name);
    char found[PATH_MOST], expected[PATH_MOST];
    const bool has_name =
        strncmp(line, field->name, length) == 0 && strncmp(line + length, ": ", 2) == 0;
    if (has_name && strcmp(line + length + 2, field->value) == 0)
        return MMUL_OK;
    if (has_name)
        mmul_fail(err, MMUL_ERR_DATA,
                  "cannot resume '%s': its journal has another %s: %s, this job has %s", output,
                  field->name, shorten(line + length + 2, found), shorten(field->value, expected));
    else
        mmul_fail(err, MMUL_ERR_DATA, "cannot resume '%s': its journal has '%s', this job has %s",
                  output, shorten(line, found), field->name);
    return hint_fresh(journal, err);
}

// Compares the header and leaves only the entries. *is_unused: the header is not complete, or no
// entry is there.
static enum mmul_status check_header(struct mmul_journal *journal, const char *output,
                                     const struct mmul_journal_field *fields, int field_count,
                                     bool *is_unused, struct mmul_error *err) {
    const char **lines = journal->entries;
    int64_t end = 0;
    while (end < journal->entries_read && strcmp(lines[end], HEADER_END) != 0)
        end++;
    *is_unused = end + 1 >= journal->entries_read;
    if (*is_unused)
        return MMUL_OK;
    if (strcmp(lines[0], FIRST_LINE) != 0) {
        char found[PATH_MOST];
        mmul_fail(err, MMUL_ERR_DATA, "cannot resume '%s': '%s' begins with '%s', expected '%s'",
                  output, journal->path, shorten(lines[0], found), FIRST_LINE);
        return hint_fresh(journal, err);
    }
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < field_count; i++)
        status = compare_field(journal, output, i + 1 < end ? lines[i + 1] : "", &fields[i], err);
    if (status == MMUL_OK && end > field_count + 1) {
        const struct mmul_journal_field none = {"nothing more", ""};
        status = compare_field(journal, output, lines[field_count + 1], &none, err);
    }
    if (status != MMUL_OK)
        return status;
    journal->entries_read -= end + 1;
    memmove(lines, lines + end + 1, (size_t)journal->entries_read * sizeof *lines);
    return MMUL_OK;
}

// --------------------------------------------------------------------------------------- entries

enum mmul_status mmul_journal_open(const char *path, const char *output,
                                   const struct mmul_journal_field *fields, int field_count,
                                   struct mmul_journal **journal, struct mmul_error *err) {
    struct mmul_journal *opened = NULL;
    bool is_unused = true;
    enum mmul_status status = MMUL_ALLOCATE(opened, 1, "a journal", err);
    if (status != MMUL_OK)
        return status;
    opened->fd = -1;
    status = mmul_copy_text(path, &opened->path, err);
    if (status == MMUL_OK)
        status = open_file(opened, err);
    if (status == MMUL_OK)
        status = read_lines(opened, output, err);
    if (status == MMUL_OK)
        status = check_header(opened, output, fields, field_count, &is_unused, err);
    if (status == MMUL_OK && is_unused)
        status = write_header(opened, fields, field_count, err);
    opened->count = opened->entries_read;
    if (status == MMUL_OK)
        *journal = opened;
    else
        mmul_journal_close(opened);
    return status;
}

int64_t mmul_journal_count(const struct mmul_journal *journal) {
    return journal->count;
}

const char *mmul_journal_entry(const struct mmul_journal *journal, int64_t index) {
    return index < journal->entries_read ? journal->entries[index] : NULL;
}

enum mmul_status mmul_journal_add(struct mmul_journal *journal, const char *content,
                                  struct mmul_error *err) {
    struct mmul_text text = {0};
    add_line(&text, content);
    enum mmul_status status = write_text(journal, &text, err);
    mmul_text_fini(&text);
    journal->count += status == MMUL_OK;
    return status;
}

void mmul_journal_remove(struct mmul_journal *journal) {
    (void)unlink(journal->path);
}

void mmul_journal_close(struct mmul_journal *journal) {
    if (journal == NULL)
        return;
    if (journal->fd >= 0)
        close(journal->fd);
    MMUL_FREE_ALL(journal->path, journal->text, journal->entries, journal);
}
