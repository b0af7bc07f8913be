// SPDX-License-Identifier: MIT
// Creates, commits and discards outputs. A file grows under a temporary name and appears under its
// own in one step: no reader ever sees half a result, and an older file survives every failure.
// output_write.c writes the elements, output_path.c handles names, lock and space.
#include "io/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "io/formats.h"
#include "io/journal.h"
#include "io/output_path.h"
#include "io/selection.h"
#include "io/standard_stream.h"
#include "io/transfer.h"
#include "io/unfinished_files.h"
#include "model/matrix.h"

static enum mmul_status check_shape(const struct mmul_output_request *request,
                                    struct mmul_error *err) {
    struct mmul_shape shape = request->shape;
    int64_t least = request->empty_allowed ? 0 : 1;
    char text[96];
    if (shape.batch < 1 || shape.depth < 1 || shape.rows < least || shape.cols < least) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "cannot write '%s': sizes %s, expected at least 1 each", request->path,
                         mmul_shape_format(shape, text));
    }
    return MMUL_OK;
}

static enum mmul_status create_unpacked_file(struct mmul_output *output,
                                             const struct mmul_format_row *row,
                                             struct mmul_error *err) {
    int fd = -1;
    enum mmul_status status = mmul_unnamed_file_create(&fd, err);
    if (status != MMUL_OK)
        return status;
    output->packed = row;
    output->locked = output->fd;
    output->fd = fd;
    return MMUL_OK;
}

// Makes this output the owner of a file with several outputs. All of them are packed at the end, so
// the owner's elements go to an unnamed file from now on instead of their final position.
static enum mmul_status make_owner(struct mmul_output *output, const struct mmul_format_row *row,
                                   struct mmul_error *err) {
    int64_t bytes = 0;
    if (output->owner != NULL)
        return MMUL_OK;
    enum mmul_status status = mmul_shape_bytes(output->shape, output->dtype, &bytes, err);
    if (status == MMUL_OK && output->packed == NULL) {
        status = create_unpacked_file(output, row, err);
        if (status == MMUL_OK)
            status = mmul_output_reserve(output, output->data_offset + bytes, err);
    }
    if (status != MMUL_OK)
        return status;
    output->owner = output;
    output->open_count = 1;
    return MMUL_OK;
}

static enum mmul_status join_shared_file(struct mmul_output *output, struct mmul_output *beside,
                                         const struct mmul_format_row *row,
                                         struct mmul_error *err) {
    if (row->list == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot write '%s': %s holds one matrix",
                         output->name, row->called);
    enum mmul_status status = make_owner(beside, row, err);
    if (status == MMUL_OK)
        status = mmul_unnamed_file_create(&output->fd, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_output *last = output->owner = beside->owner;
    while (last->next != NULL)
        last = last->next;
    last->next = output;
    output->owner->open_count++;
    return MMUL_OK;
}

// Refuses a journal of an output that cannot be continued, or finds out if there is one.
static enum mmul_status prepare_journal(struct mmul_output *output,
                                        const struct mmul_format_row *row,
                                        const struct mmul_output_request *request,
                                        struct mmul_error *err) {
    if (request->journal == NULL)
        return MMUL_OK;
    if (output->path == NULL || row->is_packed || request->beside != NULL ||
        output->metadata != NULL) {
        mmul_fail(err, MMUL_ERR_USAGE, "cannot resume '%s': %s", request->path,
                  output->path == NULL ? "it is not a file"
                                       : "its elements are packed when all of them are there");
        mmul_hint(err, "name the result .bin, .npy or .safetensors, or leave out --resume");
        return err->status;
    }
    struct mmul_text path = {0};
    const char *slash = strrchr(output->path, '/');
    if (*request->journal != '\0')
        mmul_text_add(&path, "%s/%s", request->journal, slash != NULL ? slash + 1 : output->path);
    char *name = path.failed ? NULL : path.data;
    path = (struct mmul_text){0};
    mmul_text_add_sibling_path(&path, name != NULL ? name : output->path, ".journal");
    if (!path.failed)
        output->is_continued = access(path.data, F_OK) == 0;
    output->journal_path = path.data; // ownership passes on
    mmul_free(name);
    return path.failed ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name") : MMUL_OK;
}

static enum mmul_status create_file(struct mmul_output *output, const struct mmul_format_row *row,
                                    const struct mmul_output_request *request,
                                    const unsigned char *header, struct mmul_error *err) {
    int64_t bytes = 0, total;
    const char *tensor;
    size_t length = mmul_format_file_length(row, request->path, &tensor);
    if (request->tensor != NULL) {
        tensor = request->tensor;
        length = strlen(request->path);
    }
    enum mmul_status status = mmul_shape_bytes(output->shape, output->dtype, &bytes, err);
    if (status != MMUL_OK)
        return mmul_fail(err, status, "cannot write '%s': %s", request->path, err->text);
    if (__builtin_add_overflow(bytes, output->data_offset, &total))
        return mmul_fail(err, MMUL_ERR_DATA, "cannot write '%s': too large", request->path);
    status = mmul_copy_text(request->path, &output->name, err);
    if (status == MMUL_OK)
        status = mmul_copy_text(tensor, &output->tensor, err);
    if (status == MMUL_OK)
        status = mmul_output_choose_paths(output, length, err);
    if (status == MMUL_OK)
        status = prepare_journal(output, row, request, err);
    if (status != MMUL_OK)
        return status;
    if (request->beside != NULL)
        status = join_shared_file(output, request->beside, row, err);
    else
        status = mmul_output_create_temporary(output, request->inputs, request->input_count, err);
    if (status == MMUL_OK && (row->is_packed || output->metadata != NULL) &&
        request->beside == NULL)
        status = create_unpacked_file(output, row, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_output_reserve(output, total, err);
    if (status != MMUL_OK)
        return status;
    int errnum = mmul_pwrite_all(output->fd, header, (size_t)output->data_offset, 0);
    if (errnum == 0)
        return MMUL_OK;
    return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", output->name);
}

static enum mmul_status allocate_output(struct mmul_shape shape, enum mmul_dtype dtype,
                                        struct mmul_output **output, struct mmul_error *err) {
    struct mmul_output *made = mmul_allocate(1, sizeof *made, "an output", err);
    if (made == NULL)
        return err->status;
    made->shape = shape;
    made->dtype = dtype;
    made->fd = made->locked = -1;
    *output = made;
    return MMUL_OK;
}

static enum mmul_status copy_metadata(struct mmul_output *output, const struct mmul_format_row *row,
                                      const struct mmul_output_request *request,
                                      struct mmul_error *err) {
    if (request->metadata == NULL)
        return MMUL_OK;
    if (row->format != MMUL_FORMAT_SAFETENSORS || request->beside != NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot write '%s': %s", request->path,
                         request->beside != NULL
                             ? "metadata texts belong to the first tensor of a file"
                             : "only .safetensors files hold metadata texts");
    output->metadata = json_object();
    for (const char *const *text = request->metadata; text[0] != NULL; text += 2) {
        if (!mmul_text_is_utf8(text[0]) || !mmul_text_is_utf8(text[1]))
            return mmul_fail(err, MMUL_ERR_USAGE, "cannot write '%s': a text is not UTF-8",
                             request->path);
        if (json_object_set_new(output->metadata, text[0], json_string(text[1])) != 0)
            return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the texts of '%s'",
                             request->path);
    }
    return MMUL_OK;
}

enum mmul_status mmul_output_create(const struct mmul_output_request *request,
                                    struct mmul_output **output, struct mmul_error *err) {
    unsigned char header[MMUL_FORMAT_HEADER_MAX];
    size_t header_bytes = 0;
    struct mmul_output *opened = NULL;
    const struct mmul_format_row *row = NULL;
    enum mmul_dtype dtype = MMUL_F32;
    struct mmul_output_request taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_output_request, request, &taken, err);
    if (status != MMUL_OK)
        return status;
    request = &taken;
    status = mmul_format_choose_output(request->path, request->format, &row, err);
    if (status == MMUL_OK)
        status = check_shape(request, err);
    if (status == MMUL_OK) {
        dtype = mmul_format_storable_dtype(row, request->dtype);
        status = row->header(request, dtype, header, &header_bytes, err);
    }
    if (status == MMUL_OK)
        status = allocate_output(request->shape, dtype, &opened, err);
    if (status != MMUL_OK)
        return status;
    opened->data_offset = (int64_t)header_bytes;
    opened->dimensions = request->dimensions;
    status = copy_metadata(opened, row, request, err);
    if (status == MMUL_OK)
        status = create_file(opened, row, request, header, err);
    if (status != MMUL_OK) {
        mmul_output_destroy(opened);
        return status;
    }
    *output = opened;
    return MMUL_OK;
}

enum mmul_status mmul_output_borrow(void *data, struct mmul_shape shape, enum mmul_dtype dtype,
                                    struct mmul_output **output, struct mmul_error *err) {
    int64_t bytes;
    enum mmul_status status = mmul_shape_bytes(shape, dtype, &bytes, err);
    if (status == MMUL_OK)
        status = allocate_output(shape, dtype, output, err);
    if (status != MMUL_OK)
        return status;
    (*output)->memory = data;
    return MMUL_OK;
}

int64_t mmul_output_overflows(const struct mmul_output *output) {
    return output->overflows;
}

enum mmul_dtype mmul_output_dtype(const struct mmul_output *output) {
    return output->dtype;
}

struct mmul_shape mmul_output_shape(const struct mmul_output *output) {
    return output->shape;
}

void mmul_output_select(struct mmul_output *output, struct mmul_selection *selection) {
    output->selection = selection;
    output->shape = mmul_selection_shape(selection);
}

struct mmul_shape mmul_output_stored_shape(const struct mmul_output *output) {
    return output->selection != NULL ? mmul_selection_stored(output->selection) : output->shape;
}

void mmul_output_set_sync(struct mmul_output *output, bool sync) {
    output->no_sync = !sync;
}

// Completes a file: everything except its final name.
static enum mmul_status finish_file(struct mmul_output *output, struct mmul_error *err) {
    if (output->is_finished)
        return MMUL_OK;
    if (output->packed != NULL) {
        enum mmul_status status = output->packed->pack(output, output->locked, err);
        if (status != MMUL_OK)
            return status;
        close(output->fd); // only read until now: nothing can be lost
        output->fd = output->locked;
        output->locked = -1;
    }
    if (output->path != NULL && !output->no_sync && fsync(output->fd) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->name);
    output->is_finished = true;
    return MMUL_OK;
}

enum mmul_status mmul_output_finish(struct mmul_output *output, struct mmul_error *err) {
    struct mmul_output *owner = output->owner;
    if (output->fd < 0)
        return MMUL_OK; // in memory
    if (owner == NULL)
        return finish_file(output, err);
    return ++owner->finished_count < owner->open_count || owner->is_void ? MMUL_OK
                                                                         : finish_file(owner, err);
}

static enum mmul_status publish_file(struct mmul_output *output, struct mmul_error *err) {
    enum mmul_status status = finish_file(output, err);
    if (status != MMUL_OK)
        return status;
    if (output->path == NULL)
        return mmul_stream_copy_file(output->fd, mmul_path_descriptor(output->name), err);
    if (!mmul_unfinished_remove(output->unfinished, true)) {
        output->has_temporary_file = false;
        return mmul_fail(err, MMUL_ERR_STOPPED, "'%s' is not written: the run was stopped",
                         output->name);
    }
    output->unfinished = NULL;
    if (output->replaces && fchmod(output->fd, output->replaced_mode) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->name);
    if (rename(output->part, output->path) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->name);
    output->has_temporary_file = false;
    if (output->journal != NULL)
        mmul_journal_remove(output->journal);
    return output->no_sync ? MMUL_OK : mmul_output_sync_folder(output, err);
}

// Returns true if a later run may continue the temporary file.
static bool is_of_use(const struct mmul_output *output) {
    return output->journal != NULL ? mmul_journal_count(output->journal) > 0 : output->is_continued;
}

static void discard_output(struct mmul_output *output) {
    if (output->has_temporary_file && !is_of_use(output)) {
        if (mmul_unfinished_remove(output->unfinished, false))
            (void)unlink(output->part); // still locked, so it is ours
        if (output->journal != NULL)
            mmul_journal_remove(output->journal);
    }
    mmul_journal_close(output->journal);
    if (output->fd >= 0)
        close(output->fd); // after fsync, or discarded: errors do not matter
    if (output->locked >= 0)
        close(output->locked);
    json_decref(output->metadata);
    mmul_selection_destroy(output->selection);
    MMUL_FREE_ALL(output->name, output->tensor, output->path, output->part, output->journal_path,
                  output);
}

// Leaves a shared file. The last output to leave publishes the file if all were committed.
static enum mmul_status leave_shared_file(struct mmul_output *output, bool is_committed,
                                          struct mmul_error *err) {
    struct mmul_output *owner = output->owner, *next;
    enum mmul_status status = MMUL_OK;
    owner->is_void |= !is_committed;
    if (--owner->open_count > 0)
        return MMUL_OK;
    if (!owner->is_void)
        status = publish_file(owner, err);
    for (output = owner; output != NULL; output = next) {
        next = output->next;
        discard_output(output);
    }
    return status;
}

enum mmul_status mmul_output_commit(struct mmul_output *output, struct mmul_error *err) {
    if (output->owner != NULL)
        return leave_shared_file(output, true, err);
    enum mmul_status status = output->fd >= 0 ? publish_file(output, err) : MMUL_OK;
    discard_output(output);
    return status;
}

void mmul_output_destroy(struct mmul_output *output) {
    struct mmul_error ignored;
    if (output != NULL && output->owner != NULL)
        (void)leave_shared_file(output, false, &ignored);
    else if (output != NULL)
        discard_output(output);
}
