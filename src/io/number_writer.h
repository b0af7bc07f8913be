// SPDX-License-Identifier: MIT
//
// Numbers to text: whole numbers with all their digits, float64 with 17, all else with 9, which is enough to have the
// same value again.
#pragma once

#include <locale.h>

#include "io/output_file.h"

struct mmul_number_writer {
    int fd;           // borrowed
    const char *name; // borrowed, for errors
    enum mmul_dtype dtype;
    char *buffer; // owned
    size_t filled;
    int64_t offset;         // of the buffer in the file
    locale_t plain, before; // of this thread: now, and what it was
};

// Writes from the beginning of `fd`. Released with mmul_number_writer_fini by the same thread, whatever follows. Fails
// with MMUL_ERR_SYSTEM.
enum mmul_status mmul_number_writer_init(struct mmul_number_writer *writer, int fd,
                                         const char *name, enum mmul_dtype dtype,
                                         struct mmul_error *err);
void mmul_number_writer_fini(struct mmul_number_writer *writer);

// Element `index` of `elements`, and a character behind it. Fails with MMUL_ERR_IO.
enum mmul_status mmul_number_writer_put(struct mmul_number_writer *writer, const void *elements,
                                        int64_t index, char behind, struct mmul_error *err);

// A text of at most 256 bytes. Fails with MMUL_ERR_IO.
enum mmul_status mmul_number_writer_put_text(struct mmul_number_writer *writer, const char *text,
                                             struct mmul_error *err);

// What is not in the file yet. Fails with MMUL_ERR_IO.
enum mmul_status mmul_number_writer_end(struct mmul_number_writer *writer, struct mmul_error *err);

// The elements of an output that is to be packed, mapped to be read. Fails with MMUL_ERR_IO and MMUL_ERR_SYSTEM.
// Released with mmul_elements_unmap.
struct mmul_elements {
    const void *all; // in C order
    int64_t bytes;
};
enum mmul_status mmul_elements_map(const struct mmul_output *output, struct mmul_elements *elements,
                                   struct mmul_error *err);
void mmul_elements_unmap(struct mmul_elements *elements);
