// SPDX-License-Identifier: MIT
// The table of formats and the queries on it. The rows' functions here connect headers as bytes
// (npy.c, bin_header.c, safetensors.c) with open files. Elements are not read or written here.
#include "io/formats.h"

#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/address.h"
#include "io/archive.h"
#include "io/bin_header.h"
#include "io/csv.h"
#include "io/format_probes.h"
#include "io/gguf.h"
#include "io/matrix_file.h"
#include "io/mtx.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/pack_tensors.h"
#include "io/pt.h"
#include "io/safetensors.h"
#include "io/tensors.h"
#include "io/transfer.h"
#include "model/matrix.h"

static enum mmul_status load_bin(struct mmul_matrix *matrix, const unsigned char *start,
                                 size_t count, bool empty_allowed, struct mmul_error *err) {
    struct mmul_bin_header header;
    enum mmul_status status =
        mmul_bin_header_parse(start, count, matrix->name, empty_allowed, &header, err);
    if (status != MMUL_OK)
        return status;
    matrix->info.shape = header.shape;
    matrix->info.stored = header.dtype;
    matrix->info.version = header.version;
    matrix->data_offset = header.header_bytes;
    return mmul_matrix_check_length(matrix, err);
}

static enum mmul_status header_bin(const struct mmul_output_request *request, enum mmul_dtype dtype,
                                   unsigned char bytes[static MMUL_FORMAT_HEADER_MAX],
                                   size_t *length, struct mmul_error *err) {
    int version = request->bin_version;
    if (version == 1 && dtype != MMUL_F32) {
        mmul_fail(err, MMUL_ERR_USAGE, "cannot write '%s' as version 1: it holds float32, not %s",
                  request->path, mmul_dtype_name(dtype));
        mmul_hint(err, "give --bin-version 2, or leave it out");
        return err->status;
    }
    if (version == 0)
        version = dtype == MMUL_F32 ? 1 : 2;
    *length = MMUL_BIN_HEADER_BYTES;
    return mmul_bin_header_format(request->shape, dtype, version, request->path, bytes, err);
}

static enum mmul_status load_npy(struct mmul_matrix *matrix, const unsigned char *start,
                                 size_t count, bool empty_allowed, struct mmul_error *err) {
    struct mmul_npy_header header;
    size_t header_bytes = 0, got = 0;
    enum mmul_status status = mmul_npy_header_bytes(start, count, matrix->name, &header_bytes, err);
    if (status != MMUL_OK)
        return status;
    unsigned char *bytes = mmul_allocate_raw((int64_t)header_bytes, 1, "a .npy header", err);
    if (bytes == NULL)
        return err->status;
    int errnum = mmul_pread_all(matrix->fd, bytes, header_bytes, 0, &got);
    if (errnum != 0) {
        status = mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", matrix->name);
    } else if (got < header_bytes) {
        status = mmul_fail(err, MMUL_ERR_DATA,
                           "'%s' is not a valid .npy file: %zu bytes, but its header alone takes "
                           "%zu",
                           matrix->name, got, header_bytes);
    } else {
        status = mmul_npy_parse(bytes, header_bytes, matrix->name, empty_allowed, &header, err);
    }
    mmul_free(bytes);
    if (status != MMUL_OK)
        return status;
    matrix->info.shape = header.shape;
    matrix->info.stored = header.dtype;
    matrix->info.version = header.version;
    matrix->info.one_dimensional = header.dimensions == 1;
    matrix->info.dimensions = header.dimensions;
    matrix->info.fortran_order = header.fortran_order;
    matrix->info.big_endian = header.big_endian;
    matrix->data_offset = (int64_t)header_bytes;
    return mmul_matrix_check_length(matrix, err);
}

static enum mmul_status refuse_version(const struct mmul_output_request *request,
                                       struct mmul_error *err) {
    if (request->bin_version == 0)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_USAGE,
                     "cannot write '%s' as version %d: only .bin files have versions",
                     request->path, request->bin_version);
}

static enum mmul_status header_npy(const struct mmul_output_request *request, enum mmul_dtype dtype,
                                   unsigned char bytes[static MMUL_FORMAT_HEADER_MAX],
                                   size_t *length, struct mmul_error *err) {
    enum mmul_status status = refuse_version(request, err);
    if (status == MMUL_OK)
        *length = mmul_npy_format(request->shape, request->dimensions, dtype, bytes);
    return status;
}

static enum mmul_status list_safetensors(int fd, const char *name, int64_t file_bytes,
                                         struct mmul_tensors **tensors, struct mmul_error *err) {
    unsigned char prefix[MMUL_SAFETENSORS_PREFIX_BYTES];
    size_t json_bytes = 0, got = 0;
    int errnum = mmul_pread_all(fd, prefix, sizeof prefix, 0, &got);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", name);
    enum mmul_status status =
        mmul_safetensors_json_bytes(prefix, got, file_bytes, name, &json_bytes, err);
    if (status != MMUL_OK)
        return status;
    char *json = mmul_allocate_raw((int64_t)json_bytes, 1, "a .safetensors header", err);
    if (json == NULL)
        return err->status;
    errnum = mmul_pread_all(fd, json, json_bytes, sizeof prefix, &got);
    if (errnum != 0)
        status = mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", name);
    else
        status = mmul_safetensors_parse(json, got, file_bytes, name, tensors, err);
    mmul_free(json);
    return status;
}

static enum mmul_status header_safetensors(const struct mmul_output_request *request,
                                           enum mmul_dtype dtype,
                                           unsigned char bytes[static MMUL_FORMAT_HEADER_MAX],
                                           size_t *length, struct mmul_error *err) {
    struct mmul_safetensors_tensor tensor = {
        .shape = request->shape, .dimensions = request->dimensions, .dtype = dtype};
    enum mmul_status status = refuse_version(request, err);
    if (status == MMUL_OK)
        status = mmul_shape_bytes(request->shape, dtype, &tensor.bytes, err);
    if (status != MMUL_OK)
        return status;
    mmul_format_file_length(mmul_format_row(MMUL_FORMAT_SAFETENSORS), request->path, &tensor.name);
    if (request->tensor != NULL)
        tensor.name = request->tensor;
    return mmul_safetensors_format(&(struct mmul_safetensors_content){&tensor, 1, NULL}, bytes,
                                   MMUL_FORMAT_HEADER_MAX, length, err);
}

// Unpacks a member and replaces the matrix's file by it: from then on the matrix is a .npy file.
static enum mmul_status unpack_member(struct mmul_matrix *matrix, struct mmul_archive *archive,
                                      const struct mmul_tensor_entry *entry,
                                      struct mmul_error *err) {
    struct mmul_decoded decoded;
    enum mmul_status status = mmul_decoded_init(&decoded, matrix->name, err);
    if (status == MMUL_OK)
        status = mmul_npz_unpack(archive, matrix->name, entry, &decoded, err);
    if (status == MMUL_OK)
        status = mmul_decoded_attach(&decoded, matrix, err);
    mmul_decoded_fini(&decoded);
    return status;
}

static enum mmul_status take_npz(struct mmul_matrix *matrix, const struct mmul_tensors *tensors,
                                 const struct mmul_tensor_entry *entry, struct mmul_error *err) {
    unsigned char member_start[MMUL_NPY_PREFIX_BYTES];
    size_t got = 0;
    enum mmul_status status = unpack_member(matrix, tensors->archive, entry, err);
    if (status != MMUL_OK)
        return status;
    int errnum = mmul_pread_all(matrix->fd, member_start, sizeof member_start, 0, &got);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", matrix->name);
    status = load_npy(matrix, member_start, got, false, err);
    if (status == MMUL_OK)
        matrix->info.file_bytes -= matrix->data_offset;
    return status;
}

// Tells PyTorch files and .npz archives by any member. If the list of members is missing, say
// because the file was cut, the first member decides.
static enum mmul_format detect_zip_content(int fd, const unsigned char *start, size_t count) {
    struct mmul_archive *archive = NULL;
    struct mmul_error ignored;
    const bool is_whole = mmul_archive_open(fd, "", "", &archive, &ignored) == MMUL_OK;
    const bool is_pytorch =
        is_whole ? mmul_pt_has_pickle(archive) : mmul_is_pytorch_zip(start, count);
    const bool is_npz =
        !is_pytorch && (is_whole ? mmul_npz_has_arrays(archive) : mmul_is_npz(start, count));
    mmul_archive_close(archive);
    return is_pytorch ? MMUL_FORMAT_PT : is_npz ? MMUL_FORMAT_NPZ : MMUL_FORMAT_BY_ENDING;
}

// Checks that the request is one matrix. Text formats with a header of their own write it together
// with the numbers (`pack`), so *length is 0.
static enum mmul_status header_text(const struct mmul_output_request *request,
                                    enum mmul_dtype dtype,
                                    unsigned char bytes[static MMUL_FORMAT_HEADER_MAX],
                                    size_t *length, struct mmul_error *err) {
    char shape[96];
    (void)dtype, (void)bytes;
    enum mmul_status status = refuse_version(request, err);
    if (status == MMUL_OK && mmul_shape_matrices(request->shape) > 1)
        status = mmul_fail(err, MMUL_ERR_DATA, "cannot write '%s': text holds one matrix, not %s",
                           request->path, mmul_shape_format(request->shape, shape));
    *length = 0;
    return status;
}

#define MAGIC(bytes) .magic = (bytes), .magic_bytes = sizeof(bytes) - 1
#define HOLDS(dtype) (1U << (dtype))
#define SAVE         "in Python: numpy.save(<npy>, "
#define NUMPY_TYPES                                                                            \
    (HOLDS(MMUL_F32) | HOLDS(MMUL_F16) | HOLDS(MMUL_F64) | HOLDS(MMUL_I32) | HOLDS(MMUL_I64) | \
     HOLDS(MMUL_U8) | HOLDS(MMUL_I8) | HOLDS(MMUL_I16) | HOLDS(MMUL_U16) | HOLDS(MMUL_U32) |   \
     HOLDS(MMUL_BOOL))
#define ALL_TYPES (NUMPY_TYPES | HOLDS(MMUL_BF16))

// The first row that fits is taken. Specific rows precede general ones. .bin has no magic number
// and comes last, as the fallback.
static const struct mmul_format_row rows[] = {
    {.format = MMUL_FORMAT_NPY,
     .name = "npy",
     .called = "a .npy file",
     .ending = ".npy",
     MAGIC("\x93NUMPY"),
     .load = load_npy,
     .header = header_npy,
     .dtypes = NUMPY_TYPES},
    {.format = MMUL_FORMAT_NPZ,
     .name = "npz",
     .called = "an .npz archive",
     .ending = ".npz",
     MAGIC("PK\5\6"), // without members: numpy.savez of no arrays
     .list = mmul_npz_list,
     .take = take_npz,
     .header = header_npy,
     .pack = mmul_pack_npz,
     .is_packed = true,
     .dtypes = NUMPY_TYPES},
    {.format = MMUL_FORMAT_PT,
     .name = "pt",
     .called = "a PyTorch file",
     .ending = ".pt",
     .probe = mmul_is_old_pytorch, // newer ones are zip archives
     .list = mmul_pt_list,
     .take = mmul_pt_select_tensor},
    {.called = "a zip archive",
     MAGIC("PK\3\4"),
     .content = detect_zip_content,
     .hint = "unpack it first: unzip <in>"},
    {.format = MMUL_FORMAT_SAFETENSORS,
     .name = "safetensors",
     .called = "a .safetensors file",
     .ending = ".safetensors",
     .probe = mmul_is_safetensors,
     .list = list_safetensors,
     .header = header_safetensors,
     .pack = mmul_pack_safetensors,
     .dtypes = ALL_TYPES},
    {.called = "a Git LFS pointer",
     MAGIC("version https://git-lfs.github.com/spec/v1"),
     .hint = "fetch the file that it stands for: git lfs pull"},
    {.called = "an HDF5 file",
     MAGIC("\x89HDF\r\n\x1A\n"),
     .hint = SAVE "h5py.File(<in>)['NAME'][...])"},
    {.called = "a MATLAB file", MAGIC("MATLAB "), .hint = SAVE "scipy.io.loadmat(<in>)['NAME'])"},
    {.called = "a Parquet file",
     MAGIC("PAR1"),
     .hint = SAVE "pandas.read_parquet(<in>).to_numpy())"},
    {.called = "a Feather (Arrow) file",
     MAGIC("ARROW1"),
     .hint = SAVE "pandas.read_feather(<in>).to_numpy())"},
    {.called = "a Feather file",
     MAGIC("FEA1"),
     .hint = SAVE "pandas.read_feather(<in>).to_numpy())"},
    {.called = "a PNG image",
     MAGIC("\x89PNG\r\n\x1A\n"),
     .hint = SAVE "numpy.asarray(PIL.Image.open(<in>), dtype='float32'))"},
    {.called = "a JPEG image",
     MAGIC("\xFF\xD8\xFF"),
     .hint = SAVE "numpy.asarray(PIL.Image.open(<in>), dtype='float32'))"},
    {.called = "an ONNX model",
     .probe = mmul_is_onnx,
     .hint = "in Python: numpy.savez(<npz>, **{t.name: onnx.numpy_helper.to_array(t) for t in "
             "onnx.load(<in>).graph.initializer})"},
    {.format = MMUL_FORMAT_MTX,
     .name = "mtx",
     .called = "a Matrix Market file",
     .ending = ".mtx",
     .is_text = true,
     .probe = mmul_is_mtx,
     .load = mmul_mtx_load,
     .header = header_text,
     .pack = mmul_mtx_pack,
     .is_packed = true,
     .dtypes = ALL_TYPES},
    {.format = MMUL_FORMAT_GGUF,
     .name = "gguf",
     .called = "a GGUF file",
     .ending = ".gguf",
     MAGIC("GGUF"),
     .list = mmul_gguf_list,
     .take = mmul_gguf_select_tensor},
    {.called = "a gzip file", MAGIC("\x1F\x8B"), .hint = "unpack it first: gunzip <in>"},
    {.called = "a Zstandard file",
     MAGIC("\x28\xB5\x2F\xFD"),
     .hint = "unpack it first: unzstd <in>"},
    {.called = "an xz file",
     MAGIC("\xFD"
           "7zXZ"),
     .hint = "unpack it first: unxz <in>"},
    {.called = "a bzip2 file", MAGIC("BZh"), .hint = "unpack it first: bunzip2 <in>"},
    {.called = "a Python pickle",
     .probe = mmul_is_pickle,
     .hint = "load it where you trust it and write the array with numpy.save(<npy>, ...)"},
    {.called = "text in UTF-32",
     .probe = mmul_is_utf32,
     .hint = "make UTF-8 of it first: iconv -f UTF-32 -t UTF-8 <in> -o <csv>"},
    {.called = "text in UTF-32",
     .probe = mmul_is_utf32_big,
     .hint = "make UTF-8 of it first: iconv -f UTF-32BE -t UTF-8 <in> -o <csv>"},
    {.called = "text in UTF-16",
     .probe = mmul_is_utf16,
     .hint = "make UTF-8 of it first: iconv -f UTF-16 -t UTF-8 <in> -o <csv>"},
    {.called = "text in UTF-16",
     .probe = mmul_is_utf16_big,
     .hint = "make UTF-8 of it first: iconv -f UTF-16BE -t UTF-8 <in> -o <csv>"},
    {.called = "a file of JSON lines",
     .probe = mmul_is_json_lines,
     .hint = "if it holds numbers, in Python: numpy.save(<npy>, numpy.array([json.loads(line) for "
             "line in open(<in>)], dtype='float32'))"},
    {.called = "a JSON file",
     .probe = mmul_is_json,
     .hint = "if it holds numbers, in Python: numpy.save(<npy>, numpy.array(json.load(open(<in>)), "
             "dtype='float32'))"},
    {.format = MMUL_FORMAT_TSV,
     .name = "tsv",
     .called = "a .tsv file",
     .ending = ".tsv",
     .is_text = true,
     .probe = mmul_is_tsv,
     .load = mmul_csv_load,
     .header = header_text,
     .pack = mmul_csv_pack,
     .is_packed = true,
     .dtypes = ALL_TYPES},
    {.format = MMUL_FORMAT_CSV,
     .name = "csv",
     .called = "a .csv file",
     .ending = ".csv",
     .is_text = true,
     .probe = mmul_is_csv,
     .load = mmul_csv_load,
     .header = header_text,
     .pack = mmul_csv_pack,
     .is_packed = true,
     .dtypes = ALL_TYPES},
    {.called = "a text file",
     .probe = mmul_is_text,
     .hint = "if it holds numbers, in Python: numpy.save(<npy>, numpy.loadtxt(<in>, "
             "dtype='float32'))"},
    {.format = MMUL_FORMAT_BIN,
     .name = "bin",
     .called = "a .bin file",
     .ending = ".bin",
     .load = load_bin,
     .header = header_bin,
     .dtypes = HOLDS(MMUL_F32) | HOLDS(MMUL_F16) | HOLDS(MMUL_BF16)},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static bool matches_row(const struct mmul_format_row *row, const unsigned char *start,
                        size_t count) {
    if (row->magic != NULL &&
        (count < row->magic_bytes || memcmp(start, row->magic, row->magic_bytes) != 0))
        return false;
    return row->probe == NULL || row->probe(start, count);
}

// Returns the row with the reader that gives the better error. A text file with a malformed first
// line, or with control bytes, goes to the reader of its ending, which can say what is wrong with
// the line. A .mtx file that would pass as .csv goes to the reader of .mtx: its numbers are not
// rows.
static const struct mmul_format_row *choose_text_row(const char *path,
                                                     const struct mmul_format_row *found) {
    const size_t length = strlen(path);
    for (int r = 0; r < ROW_COUNT; r++) {
        const size_t ending = rows[r].is_text ? strlen(rows[r].ending) : 0;
        if (ending > 0 && length > ending &&
            strncasecmp(path + length - ending, rows[r].ending, ending) == 0 &&
            (!found->is_text || rows[r].format == MMUL_FORMAT_MTX))
            return &rows[r];
    }
    return found;
}

const struct mmul_format_row *mmul_format_detect(int fd, const char *path,
                                                 const unsigned char *start, size_t count) {
    const struct mmul_format_row *row = rows;
    while (row < rows + ROW_COUNT - 1 && !matches_row(row, start, count))
        row++;
    const bool is_unknown = row->load == load_bin && count > 0 && !mmul_is_bin(start, count);
    if (row->is_text || row->probe == mmul_is_text || is_unknown)
        return choose_text_row(path, row);
    const enum mmul_format format =
        row->content != NULL ? row->content(fd, start, count) : MMUL_FORMAT_BY_ENDING;
    return format != MMUL_FORMAT_BY_ENDING ? mmul_format_row(format) : row;
}

const struct mmul_format_row *mmul_format_row(enum mmul_format format) {
    int row = 0;
    while (row < ROW_COUNT - 1 && (rows[row].name == NULL || rows[row].format != format))
        row++;
    return &rows[row];
}

const char *mmul_format_name(enum mmul_format format) {
    return format == MMUL_FORMAT_MEMORY ? "memory" : mmul_format_row(format)->name;
}

bool mmul_format_is_written(enum mmul_format format) {
    return format == MMUL_FORMAT_MEMORY || mmul_format_row(format)->header != NULL;
}

const char *mmul_format_ending(enum mmul_format format) {
    return mmul_format_row(format)->ending;
}

// Formats "A, B or C" of the names or endings of all written formats, in the order of the enum.
static const char *list_written_formats(bool endings, char text[static 64]) {
    size_t length = 0;
    int last = MMUL_FORMAT_MEMORY - 1;
    while (mmul_format_row((enum mmul_format)last)->header == NULL)
        last--;
    for (int format = 1; format <= last; format++) {
        const struct mmul_format_row *row = mmul_format_row((enum mmul_format)format);
        const char *between = length == 0 ? "" : format == last ? " or " : ", ";
        if (row->header != NULL)
            length += (size_t)snprintf(text + length, 64 - length, "%s%s", between,
                                       endings ? row->ending : row->name);
    }
    return text;
}

enum mmul_status mmul_format_parse(const char *text, enum mmul_format *format,
                                   struct mmul_error *err) {
    char known[64];
    for (int r = 0; r < ROW_COUNT; r++) {
        if (rows[r].header != NULL && strcmp(rows[r].name, text) == 0) {
            *format = rows[r].format;
            return MMUL_OK;
        }
    }
    return mmul_fail(err, MMUL_ERR_USAGE, "unknown format '%s': expected %s", text,
                     list_written_formats(false, known));
}

// Finds the row with the ending in the first `length` bytes of `ending`. NULL: no row has it.
static const struct mmul_format_row *find_row_by_ending(const char *ending, size_t length) {
    for (int r = 0; r < ROW_COUNT; r++)
        if (rows[r].ending != NULL && strlen(rows[r].ending) == length &&
            strncasecmp(rows[r].ending, ending, length) == 0)
            return &rows[r];
    return NULL;
}

enum mmul_status mmul_format_choose_output(const char *path, enum mmul_format asked,
                                           const struct mmul_format_row **row,
                                           struct mmul_error *err) {
    char known[64];
    const char *tensor = mmul_format_tensor_name(path);
    const char *end = tensor != NULL ? tensor - 1 : path + strlen(path);
    const char *slash = memrchr(path, '/', (size_t)(end - path));
    const char *name = slash != NULL ? slash + 1 : path;
    const char *ending = memrchr(name, '.', (size_t)(end - name));
    const struct mmul_format_row *found = NULL;
    size_t stem;
    struct mmul_axis_range range;
    if (tensor != NULL && mmul_address_range(tensor, &stem, &range)) {
        mmul_fail(err, MMUL_ERR_USAGE,
                  "cannot write '%s': only a whole tensor can be written, not a range of one",
                  path);
        mmul_hint(err, "'%.*s'", (int)(tensor - path + (ptrdiff_t)stem), path);
        return err->status;
    }
    if (ending == name) // ".hidden" has no ending
        ending = NULL;
    if (asked != MMUL_FORMAT_BY_ENDING || ending == NULL)
        found = mmul_format_row(asked);
    else
        found = find_row_by_ending(ending, (size_t)(end - ending));
    if (found != NULL && found->header != NULL) {
        *row = found;
        return MMUL_OK;
    }
    mmul_fail(err, MMUL_ERR_USAGE, "cannot write '%s': %s ending '%s', expected %s", path,
              found != NULL ? "only reading is possible for the" : "unknown", ending,
              list_written_formats(true, known));
    mmul_hint(err, "--format %s writes under any name", list_written_formats(false, known));
    return err->status;
}

enum mmul_status mmul_output_format(const char *path, enum mmul_format asked,
                                    enum mmul_format *format, struct mmul_error *err) {
    const struct mmul_format_row *row;
    enum mmul_status status = mmul_format_choose_output(path, asked, &row, err);
    if (status == MMUL_OK)
        *format = row->format;
    return status;
}

enum mmul_dtype mmul_format_storable_dtype(const struct mmul_format_row *row,
                                           enum mmul_dtype dtype) {
    return row->dtypes & HOLDS(dtype) ? dtype : MMUL_F32;
}

enum mmul_status mmul_format_check_dtype(const char *out, enum mmul_format format,
                                         enum mmul_dtype dtype, struct mmul_error *err) {
    const struct mmul_format_row *row = NULL;
    enum mmul_status status = mmul_format_choose_output(out, format, &row, err);
    if (status != MMUL_OK || mmul_format_storable_dtype(row, dtype) == dtype)
        return status;
    return mmul_fail(err, MMUL_ERR_USAGE, "cannot write '%s' as %s: .%s has no such type", out,
                     mmul_dtype_name(dtype), row->name);
}

const char *mmul_format_tensor_name(const char *path) {
    const char *first = NULL;
    for (int r = 0; r < ROW_COUNT; r++) {
        size_t ending = rows[r].list != NULL ? strlen(rows[r].ending) : 0;
        for (const char *at = path; ending > 0 && (at = strchr(at, ':')) != NULL; at++)
            if ((size_t)(at - path) > ending && (first == NULL || at < first) &&
                strncasecmp(at - ending, rows[r].ending, ending) == 0)
                first = at;
    }
    return first != NULL ? first + 1 : NULL;
}

enum mmul_dtype mmul_format_holds(enum mmul_format format, enum mmul_dtype dtype) {
    return mmul_format_storable_dtype(mmul_format_row(format), dtype);
}

size_t mmul_format_file_length(const struct mmul_format_row *row, const char *path,
                               const char **tensor) {
    const char *found = row->list != NULL ? mmul_format_tensor_name(path) : NULL;
    *tensor = found != NULL && *found != '\0' ? found : "data";
    return found != NULL ? (size_t)(found - 1 - path) : strlen(path);
}

size_t mmul_output_file_length(const char *path, bool *several, const char **tensor) {
    const struct mmul_format_row *row;
    struct mmul_error ignored;
    *tensor = "";
    *several = false;
    if (mmul_format_choose_output(path, MMUL_FORMAT_BY_ENDING, &row, &ignored) != MMUL_OK)
        return strlen(path);
    *several = row->list != NULL;
    size_t length = mmul_format_file_length(row, path, tensor);
    *tensor = *several ? *tensor : "";
    return length;
}

size_t mmul_format_stem_length(const char *name, size_t length) {
    for (int r = 0; r < ROW_COUNT; r++) {
        size_t ending = rows[r].ending != NULL ? strlen(rows[r].ending) : 0;
        if (ending > 0 && length >= ending &&
            strncasecmp(name + length - ending, rows[r].ending, ending) == 0)
            return length - ending;
    }
    return length;
}
