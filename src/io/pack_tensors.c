// SPDX-License-Identifier: MIT
// Packs outputs that were written to separate unnamed files into one .npz or .safetensors file.
#include "io/pack_tensors.h"

#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/archive.h"
#include "io/checksums.h"
#include "io/formats.h"
#include "io/safetensors.h"
#include "io/transfer.h"
#include "model/matrix.h"

enum mmul_status mmul_pack_npz(const struct mmul_output *output, int to, struct mmul_error *err) {
    struct mmul_archive_part *parts = NULL;
    int count = 0;
    for (const struct mmul_output *o = output; o != NULL; o = o->next)
        count++;
    enum mmul_status status = MMUL_ALLOCATE(parts, count, "an archive's members", err);
    if (status != MMUL_OK)
        return status;
    count = 0;
    for (const struct mmul_output *o = output; o != NULL; o = o->next)
        parts[count++] = (struct mmul_archive_part){o->fd, o->tensor};
    const struct mmul_archive_content content = {parts, count, ".npy"};
    status = mmul_archive_write(&content, to, output->name, err);
    mmul_free(parts);
    return status;
}

// Copies the elements of all outputs, one after another.
static enum mmul_status pack_elements(const struct mmul_output *output,
                                      const struct mmul_safetensors_tensor *tensors, int64_t at,
                                      int to, struct mmul_error *err) {
    int errnum = 0;
    for (const struct mmul_output *o = output; errnum == 0 && o != NULL; o = o->next, tensors++) {
        errnum = mmul_copy_file_bytes(o->fd, o->data_offset, to, at, tensors->bytes);
        at += tensors->bytes;
    }
    if (errnum == 0 && ftruncate(to, at) != 0) // cuts off reserved space
        errnum = errno;
    return errnum == 0
               ? MMUL_OK
               : mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", output->name);
}

// Merges the metadata of the first output with the checksums of all outputs.
static enum mmul_status make_metadata(const struct mmul_output *output,
                                      const struct mmul_safetensors_tensor *tensors, int count,
                                      struct json_t **metadata, struct mmul_error *err) {
    struct mmul_tensor_checksum *checked = NULL;
    enum mmul_status status = MMUL_ALLOCATE(checked, count, "checksums", err);
    const struct mmul_output *o = output;
    for (int i = 0; status == MMUL_OK && i < count; i++, o = o->next) {
        checked[i].name = tensors[i].name;
        const int errnum =
            mmul_checksum_compute(o->fd, o->data_offset, tensors[i].bytes, &checked[i].hash);
        if (errnum != 0)
            status = mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", output->name);
    }
    if (status == MMUL_OK)
        status = mmul_checksums_add(output->metadata, checked, count, metadata, err);
    mmul_free(checked);
    return status;
}

enum mmul_status mmul_pack_safetensors(const struct mmul_output *output, int to,
                                       struct mmul_error *err) {
    struct mmul_safetensors_tensor *tensors = NULL;
    struct json_t *metadata = NULL;
    unsigned char *header = NULL;
    size_t length = 0;
    int count = 0;
    for (const struct mmul_output *o = output; o != NULL; o = o->next)
        count++;
    const size_t capacity = (size_t)count * MMUL_FORMAT_HEADER_MAX;
    enum mmul_status status = MMUL_ALLOCATE_ALL("a header", err, MMUL_ARRAY(tensors, count),
                                                MMUL_ARRAY(header, (int64_t)capacity));
    count = 0;
    for (const struct mmul_output *o = output; status == MMUL_OK && o != NULL; o = o->next) {
        struct mmul_safetensors_tensor *t = &tensors[count++];
        *t = (struct mmul_safetensors_tensor){
            .name = o->tensor, .shape = o->shape, .dimensions = o->dimensions, .dtype = o->dtype};
        status = mmul_shape_bytes(o->shape, o->dtype, &t->bytes, err);
    }
    if (status == MMUL_OK)
        status = make_metadata(output, tensors, count, &metadata, err);
    if (status == MMUL_OK)
        status =
            mmul_safetensors_format(&(struct mmul_safetensors_content){tensors, count, metadata},
                                    header, capacity, &length, err);
    if (status == MMUL_OK) {
        int errnum = mmul_pwrite_all(to, header, length, 0);
        if (errnum != 0)
            status = mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", output->name);
    }
    if (status == MMUL_OK)
        status = pack_elements(output, tensors, (int64_t)length, to, err);
    json_decref(metadata);
    mmul_free(header);
    mmul_free(tensors);
    return status;
}
