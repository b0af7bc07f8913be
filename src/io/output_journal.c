// SPDX-License-Identifier: MIT
// Entries of an output's journal: "done MATRIX ROW ROW COLUMN COLUMN XXH3", half-open ranges in the
// stored stack.
#include "io/output_journal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/region_runs.h"
#include "io/selection.h"
#include "io/transfer.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { BUFFER_BYTES = 256 << 10, ENTRY_BYTES = 160 };

enum mmul_status mmul_output_set_journal(struct mmul_output *output, struct mmul_journal *journal,
                                         struct mmul_error *err) {
    int64_t bytes = 0;
    output->journal = journal;
    enum mmul_status status = mmul_shape_bytes(output->shape, output->dtype, &bytes, err);
    if (status == MMUL_OK && ftruncate(output->fd, output->data_offset + bytes) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->part);
    return status;
}

// Hashes a contiguous run of elements. Bytes beyond the end of the file do not count.
static enum mmul_status hash_run(const struct mmul_output *output, struct mmul_run run,
                                 char *buffer, struct mmul_hasher *hasher, struct mmul_error *err) {
    const int64_t each = (int64_t)mmul_dtype_bytes(output->dtype);
    const int64_t begin = output->data_offset + run.element * each, end = begin + run.count * each;
    for (int64_t at = begin; at < end; at += BUFFER_BYTES) {
        size_t got = 0;
        const int errnum =
            mmul_pread_all(output->fd, buffer, (size_t)mmul_min(BUFFER_BYTES, end - at), at, &got);
        if (errnum != 0)
            return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot read '%s'", output->part);
        mmul_hasher_add(hasher, buffer, got);
    }
    return MMUL_OK;
}

static enum mmul_status hash_region(const struct mmul_output *output, struct mmul_region region,
                                    uint64_t *hash, struct mmul_error *err) {
    const struct mmul_shape stored = mmul_output_stored_shape(output);
    const int64_t end = mmul_region_count(region);
    struct mmul_hasher *hasher = NULL;
    char *buffer = NULL;
    enum mmul_status status = mmul_hasher_create(&hasher, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(buffer, BUFFER_BYTES, "a checksum", err);
    for (int64_t p = 0; status == MMUL_OK && p < end;) {
        const struct mmul_run run = mmul_region_run_at(stored, region, p, end);
        status = hash_run(output, run, buffer, hasher, err);
        p += run.count;
    }
    if (status == MMUL_OK)
        *hash = mmul_hasher_value(hasher);
    mmul_hasher_destroy(hasher);
    mmul_free(buffer);
    return status;
}

static bool parse_entry(const char *text, struct mmul_region *r, uint64_t *hash) {
    int length = 0;
    return sscanf(text,
                  "done %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNx64 "%n",
                  &r->matrix, &r->row_begin, &r->row_end, &r->col_begin, &r->col_end, hash,
                  &length) == 6 &&
           text[length] == '\0';
}

enum mmul_status mmul_output_recall(const struct mmul_output *output,
                                    struct mmul_recorded *recorded, struct mmul_error *err) {
    const int64_t count = mmul_journal_count(output->journal);
    struct mmul_recorded found = {.regions = NULL};
    enum mmul_status status = MMUL_ALLOCATE(found.regions, count, "a journal", err);
    for (int64_t i = 0; status == MMUL_OK && i < count; i++) {
        struct mmul_region *region = &found.regions[found.count];
        uint64_t expected, hash = 0;
        if (!parse_entry(mmul_journal_entry(output->journal, i), region, &expected) ||
            !mmul_region_fits(mmul_output_stored_shape(output), *region, 0, 0)) {
            status = mmul_fail(err, MMUL_ERR_DATA, "cannot resume '%s': '%s' in '%s' is no entry",
                               output->name, mmul_journal_entry(output->journal, i),
                               output->journal_path);
            mmul_hint(err, "remove '%s' to start again, or leave out --resume",
                      output->journal_path);
            break;
        }
        status = hash_region(output, *region, &hash, err);
        if (hash == expected)
            found.count++;
        else
            found.dropped_elements += mmul_region_count(*region);
    }
    if (status == MMUL_OK)
        *recorded = found;
    else
        mmul_free(found.regions);
    return status;
}

static enum mmul_status record_stored(struct mmul_output *output, struct mmul_region r,
                                      bool (*is_final)(void *), void *context,
                                      struct mmul_error *err) {
    char entry[ENTRY_BYTES];
    uint64_t hash = 0;
    enum mmul_status status = hash_region(output, r, &hash, err);
    if (status != MMUL_OK || !is_final(context))
        return status;
    snprintf(entry, sizeof entry,
             "done %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %016" PRIx64,
             r.matrix, r.row_begin, r.row_end, r.col_begin, r.col_end, hash);
    return mmul_journal_add(output->journal, entry, err);
}

// Cuts the region where the selection does: along its segments. Whole lines are recorded together,
// so a selection of columns is walked in one row only.
enum mmul_status mmul_output_record(struct mmul_output *output, struct mmul_region region,
                                    bool (*is_final)(void *context), void *context,
                                    struct mmul_error *err) {
    const int64_t width = region.col_end - region.col_begin;
    enum mmul_status status = MMUL_OK;
    for (int64_t p = 0; status == MMUL_OK && p < mmul_region_count(region);) {
        struct mmul_selected_piece piece =
            mmul_selection_piece_at(output->selection, region, p, mmul_region_count(region));
        struct mmul_region stored = piece.region;
        const int64_t piece_width = stored.col_end - stored.col_begin;
        if (piece_width < width) { // columns that lie apart
            stored.row_begin = region.row_begin;
            stored.row_end = region.row_end;
        }
        status = record_stored(output, stored, is_final, context, err);
        p += piece.end - piece.begin;
        if (piece_width < width && p == width)
            break;
    }
    return status;
}
