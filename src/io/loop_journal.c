// SPDX-License-Identifier: MIT
// Names, records, checks and removes the states of loops. Knows nothing of what is in them.
#include "io/loop_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/transfer.h"

enum { FIELDS_MOST = 16, BLOCK_BYTES = 256 << 10 };

// A recorded state. Its file is there unless it was removed as superseded.
struct state {
    int64_t loop, serial;
    uint64_t hash;
    const char *text; // in the journal; NULL: recorded by this run
    bool has_file;
};

struct mmul_loop_journal {
    struct mmul_journal *journal;
    char *path, *name;
    struct state *states; // owned; ascending serial numbers
    int64_t count, capacity;
    struct mmul_text file; // name of a state's file
};

static const char *name_file(struct mmul_loop_journal *journal, int64_t serial) {
    mmul_text_fini(&journal->file);
    mmul_text_add(&journal->file, "%s.%lld.safetensors", journal->path, (long long)serial);
    return mmul_text_get(&journal->file);
}

// Returns false if the file cannot be read, or memory is missing.
static bool hash_file(const char *path, uint64_t *hash) {
    struct mmul_hasher *hasher = NULL;
    struct mmul_error ignored;
    unsigned char *block = mmul_allocate_raw(BLOCK_BYTES, 1, "a block", &ignored);
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool is_read = fd >= 0 && block != NULL && mmul_hasher_create(&hasher, &ignored) == MMUL_OK;
    size_t got = BLOCK_BYTES;
    for (int64_t at = 0; is_read && got == BLOCK_BYTES; at += BLOCK_BYTES) {
        is_read = mmul_pread_all(fd, block, BLOCK_BYTES, at, &got) == 0;
        if (is_read)
            mmul_hasher_add(hasher, block, got);
    }
    if (is_read)
        *hash = mmul_hasher_value(hasher);
    if (hasher != NULL)
        mmul_hasher_destroy(hasher);
    if (fd >= 0)
        close(fd);
    mmul_free(block);
    return is_read;
}

// ---------------------------------------------------------------------------------------- opening

static enum mmul_status add_state(struct mmul_loop_journal *journal, const struct state *state,
                                  struct mmul_error *err) {
    if (journal->count == journal->capacity) {
        struct state *more = NULL;
        const int64_t capacity = 2 * journal->capacity + 16;
        if (MMUL_ALLOCATE(more, capacity, "states of a journal", err) != MMUL_OK)
            return err->status;
        if (journal->count > 0)
            memcpy(more, journal->states, (size_t)journal->count * sizeof *more);
        mmul_free(journal->states);
        journal->states = more;
        journal->capacity = capacity;
    }
    journal->states[journal->count++] = *state;
    return MMUL_OK;
}

static enum mmul_status read_states(struct mmul_loop_journal *journal, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    const int64_t count = mmul_journal_count(journal->journal);
    for (int64_t i = 0; status == MMUL_OK && i < count; i++) {
        const char *entry = mmul_journal_entry(journal->journal, i);
        struct state state = {.has_file = true};
        char hash[24];
        int length = 0;
        const int found = sscanf(entry, "loop %" SCNd64 " state %" SCNd64 " %23s %n", &state.loop,
                                 &state.serial, hash, &length);
        const int64_t last = journal->count > 0 ? journal->states[journal->count - 1].serial : 0;
        if (found != 3 || length == 0 || state.loop < 1 || state.serial <= last ||
            (strcmp(hash, "-") != 0 && sscanf(hash, "%16" SCNx64, &state.hash) != 1))
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot resume '%s': entry %lld of '%s' is no state of a loop",
                             journal->name, (long long)i + 1, journal->path);
        state.has_file = strcmp(hash, "-") != 0;
        state.text = entry + length;
        status = add_state(journal, &state, err);
    }
    return status;
}

enum mmul_status mmul_loop_journal_open(const char *path, const char *name,
                                        const char *const *fields,
                                        struct mmul_loop_journal **journal,
                                        struct mmul_error *err) {
    struct mmul_journal_field header[FIELDS_MOST];
    struct mmul_loop_journal *opened = NULL;
    int count = 0;
    for (; fields[2 * count] != NULL && count < FIELDS_MOST; count++)
        header[count] = (struct mmul_journal_field){fields[2 * count], fields[2 * count + 1]};
    enum mmul_status status = MMUL_ALLOCATE(opened, 1, "a journal", err);
    if (status != MMUL_OK)
        return status;
    status = mmul_copy_text(path, &opened->path, err);
    if (status == MMUL_OK)
        status = mmul_copy_text(name, &opened->name, err);
    if (status == MMUL_OK)
        status = mmul_journal_open(path, name, header, count, &opened->journal, err);
    if (status == MMUL_OK)
        status = read_states(opened, err);
    if (status == MMUL_OK)
        *journal = opened;
    else
        mmul_loop_journal_close(opened);
    return status;
}

void mmul_loop_journal_close(struct mmul_loop_journal *journal) {
    if (journal == NULL)
        return;
    if (journal->journal != NULL && mmul_journal_count(journal->journal) == 0)
        mmul_journal_remove(journal->journal);
    mmul_journal_close(journal->journal);
    mmul_text_fini(&journal->file);
    MMUL_FREE_ALL(journal->path, journal->name, journal->states, journal);
}

void mmul_loop_journal_remove(struct mmul_loop_journal *journal) {
    for (int64_t i = 0; i < journal->count; i++)
        if (journal->states[i].has_file)
            (void)unlink(name_file(journal, journal->states[i].serial));
    mmul_journal_remove(journal->journal);
}

// ----------------------------------------------------------------------------------------- states

bool mmul_loop_journal_find(struct mmul_loop_journal *journal, int64_t loop, const char **file,
                            const char **text, bool *is_damaged) {
    *is_damaged = false;
    for (int64_t i = journal->count - 1; i >= 0; i--) {
        const struct state *state = &journal->states[i];
        uint64_t hash = 0;
        if (state->loop != loop || state->text == NULL)
            continue;
        *file = state->has_file ? name_file(journal, state->serial) : NULL;
        *text = state->text;
        if (*file == NULL || (hash_file(*file, &hash) && hash == state->hash))
            return true;
        *is_damaged = true;
    }
    return false;
}

static int64_t next_serial(const struct mmul_loop_journal *journal) {
    return journal->count > 0 ? journal->states[journal->count - 1].serial + 1 : 1;
}

const char *mmul_loop_journal_file(struct mmul_loop_journal *journal) {
    return name_file(journal, next_serial(journal));
}

// Removes the files of the loop's states except for the last two.
static void remove_superseded(struct mmul_loop_journal *journal, int64_t loop) {
    int left = 2;
    for (int64_t i = journal->count - 1; i >= 0; i--) {
        struct state *state = &journal->states[i];
        if (state->loop != loop || !state->has_file || left-- > 0)
            continue;
        (void)unlink(name_file(journal, state->serial));
        state->has_file = false;
    }
}

enum mmul_status mmul_loop_journal_add(struct mmul_loop_journal *journal, int64_t loop,
                                       bool has_file, const char *text, struct mmul_error *err) {
    struct state state = {.loop = loop, .serial = next_serial(journal), .has_file = has_file};
    struct mmul_text entry = {0};
    char hash[24] = "-";
    const char *file = mmul_loop_journal_file(journal);
    if (has_file && !hash_file(file, &state.hash))
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot read '%s'", file);
    if (has_file)
        snprintf(hash, sizeof hash, "%016" PRIx64, state.hash);
    mmul_text_add(&entry, "loop %lld state %lld %s %s", (long long)loop, (long long)state.serial,
                  hash, text);
    enum mmul_status status = entry.failed
                                  ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate an entry")
                                  : mmul_journal_add(journal->journal, mmul_text_get(&entry), err);
    mmul_text_fini(&entry);
    if (status == MMUL_OK)
        status = add_state(journal, &state, err);
    if (status == MMUL_OK)
        remove_superseded(journal, loop);
    return status;
}
