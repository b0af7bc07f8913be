// SPDX-License-Identifier: MIT
// Writes numbers as text: whole numbers with all digits, float64 with 17, other floats with 9. So
// many digits suffice to read back the same value.
#pragma once

#include <locale.h>

#include "io/output_file.h"

struct mmul_number_writer {
    int fd;           // borrowed
    const char *name; // borrowed, for errors
    enum mmul_dtype dtype;
    char *buffer; // owned
    size_t filled;
    int64_t offset;         // position of the buffer in the file
    locale_t plain, before; // locales of this thread: the C locale, and the one to restore
};

// Starts writing at the beginning of `fd`. Released with mmul_number_writer_fini by the same
// thread, after failure too. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_number_writer_init(struct mmul_number_writer *writer, int fd,
                                         const char *name, enum mmul_dtype dtype,
                                         struct mmul_error *err);
void mmul_number_writer_fini(struct mmul_number_writer *writer);

// Writes element `index` of `elements` and the character `behind`. Fails with MMUL_ERR_IO.
enum mmul_status mmul_number_writer_put(struct mmul_number_writer *writer, const void *elements,
                                        int64_t index, char behind, struct mmul_error *err);

// Writes a text of at most 256 bytes. Fails with MMUL_ERR_IO.
enum mmul_status mmul_number_writer_put_text(struct mmul_number_writer *writer, const char *text,
                                             struct mmul_error *err);

// Writes the rest of the buffer to the file. Fails with MMUL_ERR_IO.
enum mmul_status mmul_number_writer_flush(struct mmul_number_writer *writer,
                                          struct mmul_error *err);

// Maps the elements of an output for reading, so that they can be packed. Released with
// mmul_elements_unmap. Fails with MMUL_ERR_IO and MMUL_ERR_SYSTEM.
struct mmul_elements {
    const void *all; // in C order
    int64_t bytes;
};
enum mmul_status mmul_elements_map(const struct mmul_output *output, struct mmul_elements *elements,
                                   struct mmul_error *err);
void mmul_elements_unmap(struct mmul_elements *elements);
