// SPDX-License-Identifier: MIT
// Splits a matrix file into shards, and joins shards into a file. Both walk over the parts of a
// shard set and copy one rectangle each. A set without its JSON is first described from its shards.
// Every shard is a file of its own that is either complete or absent. The JSON is written last.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "io/file_stat.h"
#include "io/formats.h"
#include "io/matrix_copy.h"
#include "io/matrix_file.h"
#include "io/output_file.h"
#include "io/shard_folder.h"
#include "io/shard_set.h"
#include "model/matrix.h"

// --------------------------------------------------------------------------------------- splitting

static enum mmul_status choose_offsets(const struct mmul_split_options *options,
                                       struct mmul_shard_set *set, struct mmul_error *err) {
    int64_t length = mmul_shard_axis_length(set->shape, set->axis);
    if (options->weights != NULL) {
        return mmul_split_offsets(length, options->parts, options->weights, options->rule,
                                  set->offsets, err);
    }
    double *equal = mmul_allocate(options->parts, sizeof *equal, "weights", err);
    if (equal == NULL)
        return err->status;
    for (int i = 0; i < options->parts; i++)
        equal[i] = 1;
    enum mmul_status status =
        mmul_split_offsets(length, options->parts, equal, options->rule, set->offsets, err);
    mmul_free(equal);
    return status;
}

static enum mmul_status write_shard(struct mmul_matrix *matrix, const struct mmul_shard_set *set,
                                    int part, const char *path, struct mmul_error *err) {
    struct mmul_output_request request = {
        .path = path,
        .format = mmul_shard_format(set->dtype),
        .shape = mmul_shard_shape(set, part),
        .dtype = set->dtype,
        .empty_allowed = true,
        .inputs = &matrix,
        .input_count = 1,
    };
    struct mmul_output *output = NULL;
    enum mmul_status status = mmul_output_create(&request, &output, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_copy copy = {
        .in = matrix,
        .in_row = set->axis == MMUL_ROWS ? set->offsets[part] : 0,
        .in_col = set->axis == MMUL_COLS ? set->offsets[part] : 0,
        .out = output,
        .rows = request.shape.rows,
        .cols = request.shape.cols,
    };
    status = mmul_copy_rows(&copy, err);
    if (status == MMUL_OK)
        return mmul_output_commit(output, err);
    mmul_output_destroy(output);
    return status;
}

static enum mmul_status write_shards(struct mmul_matrix *matrix, struct mmul_shard_set *set,
                                     const char *folder, const char *name, struct mmul_error *err) {
    for (int part = 0; part < set->parts; part++) {
        char *path = NULL;
        enum mmul_status status =
            mmul_shard_path(folder, name, part, mmul_shard_format(set->dtype), &path, err);
        if (status == MMUL_OK)
            status = write_shard(matrix, set, part, path, err);
        if (status == MMUL_OK)
            status = mmul_shard_hash(path, &set->hashes[part], err);
        mmul_free(path);
        if (status != MMUL_OK)
            return status;
    }
    return mmul_shard_set_store(set, folder, name, err);
}

enum mmul_status mmul_split(struct mmul_matrix *matrix, const struct mmul_split_options *options,
                            struct mmul_error *err) {
    char name[256];
    struct mmul_shard_set *set = NULL;
    struct mmul_split_options taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_split_options, options, &taken, err);
    if (status != MMUL_OK)
        return status;
    options = &taken;
    mmul_base_name(matrix->name, name);
    status = mmul_shard_name_check(name, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_create(options->parts, &set, err);
    if (status != MMUL_OK)
        return status;
    set->axis = options->axis;
    set->shape = matrix->info.shape;
    set->dtype = matrix->info.stored;
    status = choose_offsets(options, set, err);
    if (status == MMUL_OK)
        status = mmul_shard_folder_create(options->folder, err);
    if (status == MMUL_OK)
        status = write_shards(matrix, set, options->folder, name, err);
    mmul_shard_set_destroy(set);
    return status;
}

// ----------------------------------------------------------------------------------------- joining

static int64_t stack_rows(const struct mmul_matrix *matrix) {
    return mmul_shard_axis_length(matrix->info.shape, MMUL_ROWS);
}

// Folder, name and format of a set's shards.
struct source {
    const char *folder, *name;
    enum mmul_format format;
};

static enum mmul_status open_shard(const struct source *source, int part,
                                   struct mmul_matrix **shard, struct mmul_error *err) {
    char *path = NULL;
    enum mmul_status status =
        mmul_shard_path(source->folder, source->name, part, source->format, &path, err);
    if (status == MMUL_OK)
        status = mmul_matrix_open_shard(path, shard, err);
    mmul_free(path);
    return status;
}

// Returns the number in "<name>_shard_<i>.bin" or .npy; -1 for other files.
static int shard_number(const char *file, const char *name, enum mmul_format *format) {
    static const enum mmul_format formats[] = {MMUL_FORMAT_BIN, MMUL_FORMAT_NPY};
    size_t length = strlen(name);
    int number = -1, end = 0;
    if (strncmp(file, name, length) != 0 ||
        sscanf(file + length, "_shard_%9d%n", &number, &end) != 1)
        return -1;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(file + length + (size_t)end, mmul_format_ending(formats[i])) == 0) {
            *format = formats[i];
            return number;
        }
    return -1;
}

// Counts the shards of a set without JSON, as the highest number plus one. A shard missing in
// between fails when it is opened.
static enum mmul_status count_shards(struct source *source, int *parts, struct mmul_error *err) {
    const char *folder = source->folder, *name = source->name;
    int highest = -1;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "no shards of '%s': '%s'", name,
                               folder);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        enum mmul_format format = MMUL_FORMAT_BIN;
        int number = shard_number(entry->d_name, name, &format);
        if (number <= highest)
            continue;
        highest = number;
        source->format = format;
    }
    closedir(listing);
    if (highest < 0)
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "no shards of '%s' in '%s'", name, folder);
    *parts = highest + 1;
    return MMUL_OK;
}

// Adds one shard of a set without JSON to the description: its rows follow those before.
static enum mmul_status describe_shard(struct mmul_shard_set *set, int part,
                                       const struct mmul_matrix *shard, struct mmul_error *err) {
    if (part == 0) {
        set->shape = (struct mmul_shape){.batch = 1, .depth = 1, .cols = shard->info.shape.cols};
        set->dtype = shard->info.stored;
    }
    if (shard->info.shape.cols != set->shape.cols || shard->info.stored != set->dtype) {
        return mmul_fail(
            err, MMUL_ERR_DATA, "cannot join '%s': %lld columns of %s, but shard 0 has %lld of %s",
            shard->name, (long long)shard->info.shape.cols, mmul_dtype_name(shard->info.stored),
            (long long)set->shape.cols, mmul_dtype_name(set->dtype));
    }
    if (__builtin_add_overflow(set->shape.rows, stack_rows(shard), &set->shape.rows))
        return mmul_fail(err, MMUL_ERR_DATA, "cannot join '%s': too many rows", shard->name);
    set->offsets[part + 1] = set->shape.rows;
    return MMUL_OK;
}

static enum mmul_status describe_set(struct source *source, struct mmul_shard_set **set,
                                     struct mmul_error *err) {
    int parts = 0;
    struct mmul_shard_set *made = NULL;
    enum mmul_status status = count_shards(source, &parts, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_create(parts, &made, err);
    for (int part = 0; part < parts && status == MMUL_OK; part++) {
        struct mmul_matrix *shard = NULL;
        status = open_shard(source, part, &shard, err);
        if (status == MMUL_OK)
            status = describe_shard(made, part, shard, err);
        mmul_matrix_close(shard);
    }
    if (status != MMUL_OK) {
        mmul_shard_set_destroy(made);
        return status;
    }
    *set = made;
    return MMUL_OK;
}

static enum mmul_status find_set(struct source *source, struct mmul_shard_set **set,
                                 struct mmul_error *err) {
    char *path = NULL;
    enum mmul_status status = mmul_shard_set_path(source->folder, source->name, &path, err);
    if (status != MMUL_OK)
        return status;
    if (access(path, F_OK) == 0)
        status = mmul_shard_set_load(path, set, err);
    else
        status = describe_set(source, set, err);
    if (status == MMUL_OK)
        status = mmul_shard_set_check_whole(*set, source->name, err);
    if (status == MMUL_OK)
        source->format = mmul_shard_format((*set)->dtype);
    mmul_free(path);
    return status;
}

static enum mmul_status check_shard(const struct mmul_shard_set *set, int part,
                                    const struct mmul_matrix *shard, struct mmul_error *err) {
    struct mmul_shape expected = mmul_shard_shape(set, part);
    char found_text[96], expected_text[96];
    uint64_t hash = 0;
    if (stack_rows(shard) != expected.rows || shard->info.shape.cols != expected.cols ||
        shard->info.stored != set->dtype) {
        return mmul_fail(err, MMUL_ERR_DATA, "shard '%s' is %s %s, but its set says %s %s",
                         shard->name, mmul_shape_format(shard->info.shape, found_text),
                         mmul_dtype_name(shard->info.stored),
                         mmul_shape_format(expected, expected_text), mmul_dtype_name(set->dtype));
    }
    if (!set->has_hashes)
        return MMUL_OK;
    enum mmul_status status = mmul_shard_hash(shard->name, &hash, err);
    if (status != MMUL_OK || hash == set->hashes[part])
        return status;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "shard '%s' has changed: its XXH3 is %016llx, its set says %016llx",
                     shard->name, (unsigned long long)hash, (unsigned long long)set->hashes[part]);
}

static enum mmul_status copy_shard(const struct mmul_shard_set *set, int part,
                                   struct mmul_matrix *shard, struct mmul_output *output,
                                   struct mmul_error *err) {
    struct mmul_shape shape = mmul_shard_shape(set, part);
    struct mmul_copy copy = {
        .in = shard,
        .out = output,
        .out_row = set->axis == MMUL_ROWS ? set->offsets[part] : 0,
        .out_col = set->axis == MMUL_COLS ? set->offsets[part] : 0,
        .rows = shape.rows,
        .cols = shape.cols,
    };
    if (mmul_output_would_replace(output, shard)) {
        return mmul_fail(err, MMUL_ERR_CREATE, "cannot create '%s': it is one of the shards",
                         output->name);
    }
    return mmul_copy_rows(&copy, err);
}

static enum mmul_status join_shards(const struct mmul_shard_set *set, const struct source *source,
                                    struct mmul_output *output, struct mmul_error *err) {
    for (int part = 0; part < set->parts; part++) {
        struct mmul_matrix *shard = NULL;
        enum mmul_status status = open_shard(source, part, &shard, err);
        if (status == MMUL_OK)
            status = check_shard(set, part, shard, err);
        if (status == MMUL_OK)
            status = copy_shard(set, part, shard, output, err);
        mmul_matrix_close(shard);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

// Refuses to overwrite the description beside the shards, which is an input, too.
static enum mmul_status refuse_description(const char *folder, const char *name, const char *out,
                                           struct mmul_error *err) {
    char *path = NULL;
    struct stat description, there;
    enum mmul_status status = mmul_shard_set_path(folder, name, &path, err);
    if (status == MMUL_OK && stat(path, &description) == 0 && stat(out, &there) == 0 &&
        mmul_stat_is_same_file(&description, &there))
        status =
            mmul_fail(err, MMUL_ERR_CREATE, "cannot create '%s': it describes the shards", out);
    mmul_free(path);
    return status;
}

static enum mmul_status find_set_by_name(const char *name, const char *folder,
                                         char base[static 256], struct source *source,
                                         struct mmul_shard_set **set, struct mmul_error *err) {
    enum mmul_status status = mmul_shard_name_check(name, err);
    if (status != MMUL_OK)
        return status;
    *source = (struct source){.folder = folder, .name = mmul_base_name(name, base)};
    return find_set(source, set, err);
}

enum mmul_status mmul_join_format(const char *name, const char *folder, enum mmul_format *format,
                                  struct mmul_error *err) {
    char base[256];
    struct source source;
    struct mmul_shard_set *set = NULL;
    enum mmul_status status = find_set_by_name(name, folder, base, &source, &set, err);
    if (status == MMUL_OK)
        *format = source.format;
    mmul_shard_set_destroy(set);
    return status;
}

// Refuses formats that cannot hold the set's type: float64 and whole numbers would lose
// information.
static enum mmul_status check_output_type(const struct mmul_shard_set *set, const char *out,
                                          enum mmul_format format, struct mmul_error *err) {
    const struct mmul_format_row *ignored;
    return mmul_shard_format(set->dtype) == MMUL_FORMAT_BIN
               ? mmul_format_choose_output(out, format, &ignored, err)
               : mmul_format_check_dtype(out, format, set->dtype, err);
}

enum mmul_status mmul_join(const char *name, const char *folder, const char *out,
                           enum mmul_format format, struct mmul_error *err) {
    char base[256];
    struct source source;
    struct mmul_shard_set *set = NULL;
    struct mmul_output *output = NULL;
    enum mmul_status status = find_set_by_name(name, folder, base, &source, &set, err);
    if (status != MMUL_OK)
        goto out;
    status = refuse_description(folder, base, out, err);
    if (status == MMUL_OK)
        status = check_output_type(set, out, format, err);
    if (status != MMUL_OK)
        goto out;
    const struct mmul_output_request request = {
        .path = out, .format = format, .shape = set->shape, .dtype = set->dtype};
    status = mmul_output_create(&request, &output, err);
    if (status != MMUL_OK)
        goto out;
    status = join_shards(set, &source, output, err);
    if (status != MMUL_OK)
        goto out;
    status = mmul_output_commit(output, err);
    output = NULL;
out:
    mmul_output_destroy(output);
    mmul_shard_set_destroy(set);
    return status;
}

// Joins the set into an output named "-": nothing reaches standard output without a commit.
static enum mmul_status join_to_file(const struct mmul_shard_set *set, const struct source *source,
                                     int *fd, struct mmul_error *err) {
    const struct mmul_output_request request = {
        .path = "-", .format = source->format, .shape = set->shape, .dtype = set->dtype};
    struct mmul_output *output = NULL;
    static const char as_output[] = "cannot write '-'";
    enum mmul_status status = mmul_output_create(&request, &output, err);
    if (status == MMUL_OK)
        status = join_shards(set, source, output, err);
    // The description gives the size, so an output that does not fit is reported as the set's
    // error.
    if (status != MMUL_OK && strncmp(err->text, as_output, strlen(as_output)) == 0)
        mmul_fail(err, status, "cannot read kept '%s'%s", source->name,
                  err->text + strlen(as_output));
    if (status == MMUL_OK && (*fd = dup(output->fd)) < 0)
        status =
            mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot read kept '%s'", source->name);
    mmul_output_destroy(output);
    return status;
}

enum mmul_status mmul_persistent_join_file(const char *kept, int *fd, struct mmul_error *err) {
    struct source source = {.format = MMUL_FORMAT_BIN};
    struct mmul_shard_set *set = NULL;
    char *folder = NULL, *path = NULL;
    enum mmul_status status = mmul_persistent_split_name(kept, &folder, &source.name, err);
    source.folder = folder;
    if (status == MMUL_OK)
        status = mmul_shard_set_find_path(folder, source.name, &path, err);
    if (status == MMUL_OK)
        status = find_set(&source, &set, err);
    if (status == MMUL_OK)
        status = join_to_file(set, &source, fd, err);
    mmul_shard_set_destroy(set);
    mmul_free(path);
    mmul_free(folder);
    return status;
}
