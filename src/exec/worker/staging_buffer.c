// SPDX-License-Identifier: MIT
// Double buffering of downloads: while one piece is copied to its destination, the next is in
// flight. Knows nothing of products.
#include "exec/worker/staging_buffer.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/rows.h"

enum mmul_status mmul_staging_buffer_reserve(struct mmul_staging_buffer *staging, int64_t bytes,
                                             struct mmul_error *err) {
    bytes = mmul_min(bytes, MMUL_STAGING_BUFFER_BYTES);
    if (staging->capacity >= bytes)
        return MMUL_OK;
    mmul_staging_buffer_fini(staging);
    staging->capacity = bytes;
    for (int i = 0; i < 2; i++) {
        staging->memory[i] = mmul_allocate_raw(bytes, 1, "downloads", err);
        if (staging->memory[i] == NULL) {
            mmul_staging_buffer_fini(staging);
            return err->status;
        }
    }
    return MMUL_OK;
}

void mmul_staging_buffer_fini(struct mmul_staging_buffer *staging) {
    for (int i = 0; i < 2; i++)
        (staging->is_under_way ? mmul_abandon : mmul_free)(staging->memory[i]);
    *staging = (struct mmul_staging_buffer){0};
}

// A part of the result. Pieces follow each other by rows, then by columns.
struct piece {
    int64_t row, col, rows, cols;
};

// Returns false if `piece` was the last one.
static bool next_piece(const struct piece *first, int64_t rows, int64_t cols, struct piece *piece) {
    piece->row += first->rows;
    if (piece->row >= rows) {
        piece->row = 0;
        piece->col += first->cols;
    }
    piece->rows = mmul_min(first->rows, rows - piece->row);
    piece->cols = mmul_min(first->cols, cols - piece->col);
    return piece->col < cols;
}

static enum mmul_status begin_piece(struct mmul_staging_buffer *staging, struct mmul_device *device,
                                    const struct mmul_download *d, const struct piece *piece,
                                    int turn, struct mmul_error *err) {
    struct mmul_operand from = d->from;
    from.offset += piece->row * from.ld + piece->col;
    staging->is_under_way = true;
    return mmul_device_download(device,
                                &(struct mmul_download){from, piece->rows, piece->cols,
                                                        staging->memory[turn], piece->cols,
                                                        d->dtype},
                                err);
}

enum mmul_status mmul_staging_buffer_download(struct mmul_staging_buffer *staging,
                                              struct mmul_device *device,
                                              const struct mmul_download *d,
                                              struct mmul_error *err) {
    const int64_t each = (int64_t)mmul_dtype_bytes(d->dtype);
    enum mmul_status status = mmul_staging_buffer_reserve(staging, d->rows * d->cols * each, err);
    if (status != MMUL_OK)
        return status;
    // Size of every piece, except the last in a row or column of pieces.
    const int64_t capacity = staging->capacity / each, cols = mmul_min(d->cols, capacity);
    const struct piece first = {.rows = mmul_min(d->rows, capacity / cols), .cols = cols};
    struct piece coming = first;
    int turn = 0;
    bool has_more = true;
    status = begin_piece(staging, device, d, &coming, turn, err);
    while (status == MMUL_OK && has_more) {
        struct piece here = coming;
        status = mmul_device_wait_buffer(device, d->from.buffer, err);
        staging->is_under_way = status != MMUL_OK;
        has_more = next_piece(&first, d->rows, d->cols, &coming);
        if (status == MMUL_OK && has_more)
            status = begin_piece(staging, device, d, &coming, 1 - turn, err);
        if (status == MMUL_OK)
            mmul_copy_rows(staging->memory[turn], here.cols * each,
                           (char *)d->host + (here.row * d->host_ld + here.col) * each,
                           d->host_ld * each, here.rows, here.cols * each);
        turn = 1 - turn;
    }
    return status;
}
