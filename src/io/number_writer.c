// SPDX-License-Identifier: MIT
// Formats numbers into a buffer, in the C locale regardless of the caller's.
#include "io/number_writer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/transfer.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { BUFFER_BYTES = 1 << 20, TEXT_MAX = 256 };

enum mmul_status mmul_number_writer_init(struct mmul_number_writer *writer, int fd,
                                         const char *name, enum mmul_dtype dtype,
                                         struct mmul_error *err) {
    *writer = (struct mmul_number_writer){.fd = fd, .name = name, .dtype = dtype};
    writer->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    writer->before = uselocale(writer->plain);
    return MMUL_ALLOCATE_RAW(writer->buffer, BUFFER_BYTES, "a buffer for text", err);
}

void mmul_number_writer_fini(struct mmul_number_writer *writer) {
    uselocale(writer->before);
    freelocale(writer->plain);
    mmul_free(writer->buffer);
}

enum mmul_status mmul_number_writer_flush(struct mmul_number_writer *writer,
                                          struct mmul_error *err) {
    int errnum = mmul_pwrite_all(writer->fd, writer->buffer, writer->filled, writer->offset);
    writer->offset += (int64_t)writer->filled;
    writer->filled = 0;
    return errnum == 0
               ? MMUL_OK
               : mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", writer->name);
}

static int format_element(enum mmul_dtype dtype, const void *elements, int64_t index, char *text,
                          size_t room) {
    float narrow;
    if (mmul_dtype_is_integer(dtype))
        return snprintf(text, room, "%lld",
                        (long long)mmul_dtype_get_integer(dtype, elements, index));
    if (dtype == MMUL_F64)
        return snprintf(text, room, "%.17g", ((const double *)elements)[index]);
    mmul_dtype_widen(dtype, mmul_dtype_advance(dtype, elements, index), 1, &narrow);
    return snprintf(text, room, "%.9g", (double)narrow);
}

enum mmul_status mmul_number_writer_put(struct mmul_number_writer *writer, const void *elements,
                                        int64_t index, char behind, struct mmul_error *err) {
    char *at = writer->buffer + writer->filled;
    const int length = format_element(writer->dtype, elements, index, at, TEXT_MAX);
    at[length] = behind;
    writer->filled += (size_t)length + 1;
    return writer->filled + TEXT_MAX < BUFFER_BYTES ? MMUL_OK
                                                    : mmul_number_writer_flush(writer, err);
}

enum mmul_status mmul_number_writer_put_text(struct mmul_number_writer *writer, const char *text,
                                             struct mmul_error *err) {
    const size_t length = strnlen(text, TEXT_MAX);
    memcpy(writer->buffer + writer->filled, text, length);
    writer->filled += length;
    return writer->filled + TEXT_MAX < BUFFER_BYTES ? MMUL_OK
                                                    : mmul_number_writer_flush(writer, err);
}

enum mmul_status mmul_elements_map(const struct mmul_output *output, struct mmul_elements *elements,
                                   struct mmul_error *err) {
    enum mmul_status status = mmul_shape_bytes(output->shape, output->dtype, &elements->bytes, err);
    if (status != MMUL_OK)
        return status;
    void *mapped =
        mmap(NULL, (size_t)elements->bytes, PROT_READ, MAP_SHARED, output->fd, output->data_offset);
    if (mapped == MAP_FAILED)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot map the elements of '%s'",
                               output->name);
    elements->all = mapped;
    return MMUL_OK;
}

void mmul_elements_unmap(struct mmul_elements *elements) {
    munmap((void *)(uintptr_t)elements->all, (size_t)elements->bytes);
}
