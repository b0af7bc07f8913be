// SPDX-License-Identifier: MIT
//
// mpimatmul: the local half of the public interface.
//
// Everything here is plain data or works on one process alone: no MPI, no rank, no collective call.
// mpimatmul.h includes this header and adds the half that runs on a communicator.
//
// Conventions of all functions and structs:
//   * Matrices are row-major. C is m x n, A is m x k, B is k x n.
//   * Dimensions and counts are int64_t and count elements; byte sizes are size_t and say `_bytes`.
//   * Ranges are half-open; P parts have P+1 offsets.
//   * A function that can fail returns enum mmul_status and fills the struct mmul_error it is given
//     last (never NULL); its outputs are written only on success.
//   * The creator of an object destroys it. Every destroy or close accepts NULL.
//   * Structs of options, which callers fill, begin with struct_bytes. A program compiled with the
//     header of the library it runs with leaves it 0. One that may meet a newer library (a binding
//     of another language, say) sets it to the size of the struct as it knows it. Later versions
//     add fields at the end only, beyond earlier padding, and 0 in such a field means the behaviour
//     of the version without it. A size larger than the library's is MMUL_ERR_USAGE, and nothing
//     is read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MMUL_VERSION "0.1.0"

#define MMUL_API __attribute__((visibility("default")))

// Least number of elements behind a pointer that is given as an array. C++ has no such notation.
#ifdef __cplusplus
#define MMUL_AT_LEAST(count) count
#else
#define MMUL_AT_LEAST(count) static count
#endif

// ------------------------------------------------------------------------------------------ status

// The values are the exit codes of the program (from sysexits.h where it has a fitting one).
enum mmul_status {
    MMUL_OK = 0,
    MMUL_ERR_USAGE = 64,       // malformed or contradicting request
    MMUL_ERR_DATA = 65,        // a file is not a valid matrix, or shapes do not fit
    MMUL_ERR_NO_INPUT = 66,    // input missing, unreadable, a directory or a FIFO
    MMUL_ERR_UNAVAILABLE = 69, // a device asked for by name is absent or failed
    MMUL_ERR_INTERNAL = 70,    // a bug of the library
    MMUL_ERR_SYSTEM = 71,      // memory, system or MPI failure; versions that differ between ranks
    MMUL_ERR_CREATE = 73,      // output cannot be created, or is one of the inputs
    MMUL_ERR_IO = 74,          // write, space or sync error
    MMUL_ERR_STOPPED = 75,     // stopped part-way
    MMUL_ERR_CONFIG = 78,      // the machine needs fixing first
    MMUL_ERR_WRONG = 79,       // the result is wrong, or two matrices differ
};

// One failure: the operation that failed, with its subject quoted, and the remedy.
struct mmul_error {
    enum mmul_status status;
    char text[1024]; // lower case, no full stop, one line
    char hint[256];  // "" or a plain remedy, one line
};

// ------------------------------------------------------------------------------------------ shapes

// Types of whole numbers occur in files only: they are read as float32, exact below 2^24.
enum mmul_dtype {
    MMUL_F32,
    MMUL_F16,
    MMUL_BF16,
    MMUL_F64,
    MMUL_I32,
    MMUL_I64,
    MMUL_U8,
    MMUL_I8,
    MMUL_I16,
    MMUL_U16,
    MMUL_U32,
    MMUL_BOOL, // 0 and 1, a byte each
};

// A stack of batch * depth matrices of rows x cols, C order (cols fastest).
struct mmul_shape {
    int64_t batch, depth, rows, cols;
};

// Returns "float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "int8", "int16",
// "uint16", "uint32" or "bool".
MMUL_API const char *mmul_dtype_name(enum mmul_dtype dtype);

// Parses the names above and f32, f16, bf16, f64, i32, i64, u8, i8, i16, u16, u32. Fails with
// MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_dtype_parse(const char *text, enum mmul_dtype *dtype,
                                           struct mmul_error *err);

// Returns the bytes of one element: 4, 2, 2, 8, 4, 8, 1, 1, 2, 2, 4, 1.
MMUL_API size_t mmul_dtype_bytes(enum mmul_dtype dtype);

// Returns the number of matrices in a stack: batch * depth.
MMUL_API int64_t mmul_shape_matrices(struct mmul_shape shape);

// Formats "3 x 2 x 4096 x 1024"; leading sizes of 1 are omitted ("4096 x 1024"). Returns `text`.
MMUL_API char *mmul_shape_format(struct mmul_shape shape, char text[MMUL_AT_LEAST(96)]);

// Parses "RxC", "DxRxC" or "BxDxRxC"; every size in [1, 2^31). Fails with MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_shape_parse(const char *text, struct mmul_shape *shape,
                                           struct mmul_error *err);

// Convert the whole of a text to a number and check its range; `what` names the subject in the
// error. Sizes accept the suffixes K M G T and KiB MiB GiB TiB (all powers of 1024). Fail with
// MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_parse_int64(const char *text, const char *what, int64_t least,
                                           int64_t most, int64_t *value, struct mmul_error *err);
MMUL_API enum mmul_status mmul_parse_double(const char *text, const char *what, double *value,
                                            struct mmul_error *err);
MMUL_API enum mmul_status mmul_parse_size(const char *text, const char *what, int64_t *bytes,
                                          struct mmul_error *err);

// Formats "1.5 GiB", "20 B". Returns `text`.
MMUL_API char *mmul_bytes_format(int64_t bytes, char text[MMUL_AT_LEAST(32)]);

// Returns the bytes of the UTF-8 character at `text`; 0: not a valid one.
MMUL_API int mmul_utf8_length(const char *text);

// Replaces control characters in `text` (C0, DEL, C1 in UTF-8) and bytes that are not UTF-8 by '?'.
// A name from a file, a host or a device then stays on its line and cannot control a terminal.
// Returns `text`.
MMUL_API char *mmul_make_printable(char *text);

// Returns the candidate nearest to `word` by edit distance, or NULL if more than a third of the
// letters of each differ. Borrowed from `candidates`, which ends with NULL.
MMUL_API const char *mmul_nearest(const char *word, const char *const *candidates);

// ---------------------------------------------------------------------------------------- matrices

// Formats of files. For an output, 0 chooses the format by the name's ending, .bin without one.
// MEMORY stands for matrices that are not in a file.
enum mmul_format {
    MMUL_FORMAT_BY_ENDING,
    MMUL_FORMAT_BIN,
    MMUL_FORMAT_NPY,
    MMUL_FORMAT_NPZ,
    MMUL_FORMAT_SAFETENSORS,
    MMUL_FORMAT_CSV,
    MMUL_FORMAT_TSV,
    MMUL_FORMAT_MTX,
    MMUL_FORMAT_PT,
    MMUL_FORMAT_GGUF,
    MMUL_FORMAT_MEMORY,
};

// Returns "bin", "npy", "npz", "safetensors", "csv", "tsv", "mtx", "pt", "gguf" or "memory".
MMUL_API const char *mmul_format_name(enum mmul_format format);

// Returns false for formats of other programs, which are only read.
MMUL_API bool mmul_format_is_written(enum mmul_format format);

// Returns the file name ending of a format: ".bin", ".npy".
MMUL_API const char *mmul_format_ending(enum mmul_format format);

// Parses the names above, of formats that are written. Fails with MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_format_parse(const char *text, enum mmul_format *format,
                                            struct mmul_error *err);

// Returns the element type in which a writable format stores elements of type `dtype`: float32 if
// the format does not have that type.
MMUL_API enum mmul_dtype mmul_format_holds(enum mmul_format format, enum mmul_dtype dtype);

// Determines the format of an output with this name: `asked`, or by its ending. Fails with
// MMUL_ERR_USAGE (an ending of no writable format).
MMUL_API enum mmul_status mmul_output_format(const char *path, enum mmul_format asked,
                                             enum mmul_format *format, struct mmul_error *err);

// A rectangle of one matrix of a stack, in stored orientation.
struct mmul_region {
    int64_t matrix; // b * depth + d
    int64_t row_begin, row_end;
    int64_t col_begin, col_end;
};

// A matrix stack that can be read: a file or the caller's memory.
struct mmul_matrix;

struct mmul_matrix_info {
    struct mmul_shape shape;
    enum mmul_dtype stored; // in the file or memory
    // type that reads deliver: `stored`, but float32 for float64 and whole numbers
    enum mmul_dtype delivered;
    enum mmul_format format;
    int version;          // .bin 1 or 2, .npy major version, else 0
    bool one_dimensional; // the file has one dimension; the matrix is a row
    bool fortran_order;   // .npy; reads deliver C order all the same
    bool big_endian;
    bool has_header;    // .csv, .tsv: the first line names the columns and is no row
    int64_t file_bytes; // for a tensor in a file the bytes of its elements alone
    // dimensions in the file, at least 2; without a file, leading sizes of 1 are not counted
    int dimensions;
};

// Returns true if the name is standard input: "-" or "/dev/stdin".
MMUL_API bool mmul_path_is_stdin(const char *path);

// Returns the part of a name "kept:..." behind the colon; NULL: no such name, or a file is called
// so.
MMUL_API const char *mmul_kept_name(const char *path);

// Opens a .bin, .npy, .npz, .safetensors, .csv, .tsv, .mtx, .pt or .gguf file and checks its header
// and exact length. The first bytes of the file determine its format. A .npy in Fortran order is
// read into memory at once. A temporary file receives the unpacked tensor of an .npz or .pt, packed
// elements of a .gguf as float32, and decoded numbers of a text format (float64; other types for
// integers and patterns of a .mtx). "-" is standard input, which is read to its end.
//
// If no file has this name, "FILE:TENSOR" is one of the tensors in FILE, and "FILE:TENSOR[a:b]" the
// part [a, b) of its first axis, as in numpy. No other elements of the file are read. A file with a
// single tensor needs no tensor name.
//
// "kept:NAME" or "kept:FOLDER/NAME" is a set of shards (mmul_split, mmul_program_keep), all of
// which must be on this machine. It is assembled in a temporary file and checked against its
// checksums. The default folder is $MPIMATMUL_SHARD_DIR, else mmul_shard_folder. Programs use such
// sets in place (mmul_program_load_kept).
//
// Fails: MMUL_ERR_NO_INPUT (missing, unreadable, directory, FIFO), MMUL_ERR_DATA (not a valid
// matrix; the text has expected and found sizes, or the actual format), MMUL_ERR_IO (no room for
// unpacked elements), MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_matrix_open(const char *path, struct mmul_matrix **matrix,
                                           struct mmul_error *err);

// Input files of one job. Each file is opened once, so all matrices and lists opened through the
// set see the same version of it, even if another file takes its name meanwhile (a training
// replaces its checkpoint, say). Paths are compared as spelled and with links resolved. Matrices
// and lists may outlive the set. Not thread-safe.
struct mmul_inputs;
MMUL_API enum mmul_status mmul_inputs_create(struct mmul_inputs **inputs, struct mmul_error *err);
MMUL_API void mmul_inputs_destroy(struct mmul_inputs *inputs); // accepts NULL

// For text tables opened from now on: is_nan reads empty cells, NA and N/A as NaN. Otherwise
// opening such a table fails.
MMUL_API void mmul_inputs_set_missing(struct mmul_inputs *inputs, bool is_nan);

// Open a file of the set as mmul_matrix_open and mmul_tensors_open do, with the same failures.
// inputs NULL: open the file anew.
struct mmul_tensors;
MMUL_API enum mmul_status mmul_inputs_open_matrix(struct mmul_inputs *inputs, const char *path,
                                                  struct mmul_matrix **matrix,
                                                  struct mmul_error *err);
MMUL_API enum mmul_status mmul_inputs_open_tensors(struct mmul_inputs *inputs, const char *path,
                                                   struct mmul_tensors **tensors,
                                                   struct mmul_error *err);

// Sets *fd to the open, non-empty file at `path`; borrowed from the set. Fails with
// MMUL_ERR_NO_INPUT and MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_inputs_open_file(struct mmul_inputs *inputs, const char *path,
                                                int *fd, struct mmul_error *err);

// Fails with MMUL_ERR_DATA if the set's file was written to in place since it was opened
// (mmul_matrix_was_written).
MMUL_API enum mmul_status mmul_inputs_check_file(const struct mmul_inputs *inputs, const char *path,
                                                 struct mmul_error *err);

// Reads all elements of an open matrix into memory and lets go of the file, so later changes of the
// file do not affect the matrix. Fails with MMUL_ERR_DATA (the file was written to since it was
// opened), MMUL_ERR_NO_INPUT and MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_matrix_detach(struct mmul_matrix *matrix, struct mmul_error *err);

// Wraps `data` (shape's elements of dtype, C order), borrowed until close.
MMUL_API enum mmul_status mmul_matrix_borrow(const void *data, struct mmul_shape shape,
                                             enum mmul_dtype dtype, const char *name,
                                             struct mmul_matrix **matrix, struct mmul_error *err);

// The tensors of a file that may hold several, in file order.
enum { MMUL_TENSOR_DIMENSIONS = 8 };
struct mmul_tensors_info {
    enum mmul_format format;
    int64_t count, file_bytes;
};
struct mmul_tensor {
    const char *name;
    const char *type; // as in mmul_dtype_name, or the file's own word for an unsupported type
    bool is_readable; // the library reads this type
    int dimensions;   // 0 to MMUL_TENSOR_DIMENSIONS
    int64_t sizes[MMUL_TENSOR_DIMENSIONS];
    int64_t bytes; // bytes of the elements
};

// Opens the list of tensors of a file. *tensors is NULL if `path` is a single matrix: a format that
// holds only one, or an address "FILE:TENSOR". Only mmul_matrix_open then checks that matrix. Fails
// as mmul_matrix_open.
MMUL_API enum mmul_status mmul_tensors_open(const char *path, struct mmul_tensors **tensors,
                                            struct mmul_error *err);
MMUL_API void mmul_tensors_close(struct mmul_tensors *tensors);
MMUL_API struct mmul_tensors_info mmul_tensors_info(const struct mmul_tensors *tensors);
MMUL_API struct mmul_tensor mmul_tensors_get(const struct mmul_tensors *tensors, int64_t index);
// Returns true if mmul_matrix_open can read the tensor: a supported type, 1 to 4 dimensions, no
// size of 0.
MMUL_API bool mmul_tensor_is_matrix(const struct mmul_tensor *tensor);

// Opens the tensor with this index as a matrix, from the version of the file that the list has
// open. Fails as mmul_matrix_open.
MMUL_API enum mmul_status mmul_tensors_open_matrix(const struct mmul_tensors *tensors,
                                                   int64_t index, struct mmul_matrix **matrix,
                                                   struct mmul_error *err);

// Lists the classes of objects without tensors in a PyTorch file, most objects first. Owned by the
// list. Returns their number.
struct mmul_tensors_skipped {
    const char *name; // "argparse.Namespace", at most 201 bytes, perhaps with control characters
    int64_t count;    // objects
};
MMUL_API int64_t mmul_tensors_skipped(const struct mmul_tensors *tensors,
                                      const struct mmul_tensors_skipped **classes);
// Returns a text of the file's __metadata__ (.safetensors), owned by the list; NULL: no such text.
MMUL_API const char *mmul_tensors_metadata(const struct mmul_tensors *tensors, const char *name);

// Reads all elements of the list's file and compares them with the checksums in its metadata. This
// library writes them into files of several tensors: "xxh3" and "xxh3:NAME", XXH3 with 64 bits as
// 16 hexadecimal digits. A file without checksums passes.
// In a .npz, members of unsupported types are compared with the archive's checksums, because a
// damaged header can name such a type, too.
// Fails with MMUL_ERR_DATA (elements differ, or come from several versions of the file) and
// MMUL_ERR_NO_INPUT.
MMUL_API enum mmul_status mmul_tensors_check(const struct mmul_tensors *tensors,
                                             struct mmul_error *err);

MMUL_API void mmul_matrix_close(struct mmul_matrix *matrix);
MMUL_API struct mmul_matrix_info mmul_matrix_info(const struct mmul_matrix *matrix);

// Returns the path or name it was opened with; lives as long as the matrix.
MMUL_API const char *mmul_matrix_name(const struct mmul_matrix *matrix);

// Reads the elements [begin, end) of `region`, counted in the region's own C order (element r *
// (col_end - col_begin) + c), into dst as `delivered` dtype. The region lies inside the shape.
// Fails with MMUL_ERR_DATA if the file has become shorter or a whole number is not exact in float32
// (beyond 2^24; value and place are in the text), and with MMUL_ERR_NO_INPUT if the file cannot be
// read.
MMUL_API enum mmul_status mmul_matrix_read(struct mmul_matrix *matrix, struct mmul_region region,
                                           int64_t begin, int64_t end, void *dst,
                                           struct mmul_error *err);

// Reads as mmul_matrix_read, widened to float32 whatever the dtype.
MMUL_API enum mmul_status mmul_matrix_read_float(struct mmul_matrix *matrix,
                                                 struct mmul_region region, int64_t begin,
                                                 int64_t end, float *dst, struct mmul_error *err);

// Reads as mmul_matrix_read, in double, without loss, also from float64. Fails on whole numbers
// beyond 2^53.
MMUL_API enum mmul_status mmul_matrix_read_double(struct mmul_matrix *matrix,
                                                  struct mmul_region region, int64_t begin,
                                                  int64_t end, double *dst, struct mmul_error *err);

// Returns the number of finite float64 values that became infinite so far because reads delivered
// float32. Repeated reads count again.
MMUL_API int64_t mmul_matrix_overflows(const struct mmul_matrix *matrix);

// Returns true if the file may have been written to in place since it was opened: its size or time
// differs. For a file opened within 20 ms of an earlier write, samples of its contents are
// compared, too. Returns false for memory and for decoded elements.
MMUL_API bool mmul_matrix_was_written(const struct mmul_matrix *matrix);

// A matrix stack being written: a file under a temporary name, or the caller's memory.
struct mmul_output;

// Properties of a new output.
struct mmul_output_request {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    // "-" or "/dev/stdout" is standard output, written at the commit. FILE:TENSOR, where FILE ends
    // in .npz or .safetensors, names the file's one tensor, which is "data" otherwise.
    const char *path;
    enum mmul_format format; // MMUL_FORMAT_BY_ENDING: by the name
    struct mmul_shape shape;
    // Types that the format does not have become float32: bfloat16 in .npy; all but float32 and
    // 16-bit types in .bin. Text formats write all types.
    enum mmul_dtype dtype;
    int bin_version;    // for .bin: 0 (1 for float32, 2 for 16-bit types), 1 (float32 only) or 2
    bool empty_allowed; // allow rows and cols of 0: a shard of a part without rows
    // Matrices that are refused as the output file; borrowed, input_count of them.
    struct mmul_matrix *const *inputs;
    int input_count;
    // Dimensions of the file, 1 (a row) to 4: the last ones of shape; not for .bin. 0: without
    // leading sizes of 1.
    int dimensions;
    // Another output of the same .npz or .safetensors file, with another tensor name; NULL: none.
    // The file appears when all of its outputs have been committed, and never if one was destroyed.
    // Create all outputs of a file before writing elements to any of them.
    struct mmul_output *beside;
    // Texts for the __metadata__ of a .safetensors file, given with the file's first output: name,
    // text, name, text, ..., NULL. Copied. NULL: none.
    const char *const *metadata;
    // Name (any text) of the tensor in a .npz or .safetensors file; `path` is then the file alone.
    // Copied. NULL: `path` decides.
    const char *tensor;
    // Folder of the output's journal, NAME.journal (mmul_matmul_resume); "": beside the output. If
    // the journal exists, `path.part` is not replaced but continued. A failed run then keeps both,
    // a commit removes the journal. Not for standard output, formats that are packed (.npz and
    // text), and with beside or metadata. NULL: no journal.
    const char *journal;
};

// Returns the length of FILE in an output path FILE:TENSOR. several: the file may have more
// tensors. *tensor is then the name of this one ("data" by default), else "".
MMUL_API size_t mmul_output_file_length(const char *path, bool *several, const char **tensor);

// Returns the open descriptor that an output's path names: "-", "/dev/stdout", "/dev/stderr",
// "/dev/fd/N" or "/proc/self/fd/N"; -1: the path names a file. Such outputs are written through the
// descriptor, after everything written there before.
MMUL_API int mmul_path_descriptor(const char *path);

// Returns true if both paths name one file, by any of its names (hard links, symbolic links, ./,
// ..), even if the file does not exist yet.
MMUL_API bool mmul_paths_are_same(const char *x, const char *y);

// Returns true if the output is standard output. Tables then belong elsewhere.
MMUL_API bool mmul_path_is_stdout(const char *path);

// Creates `path.part` in the same folder, locked against a second writer, with its whole space
// reserved. Inputs are recognised by device and inode. A `path.part` left by a killed run of this
// user is removed; any other is an error. The output takes over the permissions of an existing file
// at `path`.
// Fails: MMUL_ERR_USAGE (an unknown ending, an unsuitable bin_version), MMUL_ERR_CREATE (folder
// missing or not writable, path is a folder, path is an input, another run writes it, `path.part`
// is another user's, has several links or is no file), MMUL_ERR_IO (no space), MMUL_ERR_DATA (a
// size beyond int32 in .bin). A journal that was left beside `path.part` is removed with it.
MMUL_API enum mmul_status mmul_output_create(const struct mmul_output_request *request,
                                             struct mmul_output **output, struct mmul_error *err);

// Creates an output in the caller's memory (shape's elements of dtype, C order), borrowed until
// destroy. data NULL is for plans alone, which then assume a file that is written in place; writing
// fails with MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_output_borrow(void *data, struct mmul_shape shape,
                                             enum mmul_dtype dtype, struct mmul_output **output,
                                             struct mmul_error *err);

// Writes elements [begin, end) of `region` (counted as in mmul_matrix_read) from float32 values,
// narrowed to the output's dtype (round to nearest even). Fails with MMUL_ERR_DATA on values beyond
// the range of an output of whole numbers, NaN among them.
MMUL_API enum mmul_status mmul_output_write_float(struct mmul_output *output,
                                                  struct mmul_region region, int64_t begin,
                                                  int64_t end, const float *src,
                                                  struct mmul_error *err);

// Writes as mmul_output_write_float, from float64 values.
MMUL_API enum mmul_status mmul_output_write_double(struct mmul_output *output,
                                                   struct mmul_region region, int64_t begin,
                                                   int64_t end, const double *src,
                                                   struct mmul_error *err);

// Writes bytes unchanged: src has the output's own dtype (NaN payloads are kept).
MMUL_API enum mmul_status mmul_output_write(struct mmul_output *output, struct mmul_region region,
                                            int64_t begin, int64_t end, const void *src,
                                            struct mmul_error *err);

// Returns the number of finite values that became infinite so far because the output's dtype is
// narrower.
MMUL_API int64_t mmul_output_overflows(const struct mmul_output *output);

MMUL_API enum mmul_dtype mmul_output_dtype(const struct mmul_output *output);
MMUL_API struct mmul_shape mmul_output_shape(const struct mmul_output *output);

// Determines if mmul_output_commit waits until the file and its name are on the disk; the default
// is true. Without it, a power failure or a system crash may leave the name without the contents. A
// failure of the program alone never does.
MMUL_API void mmul_output_set_sync(struct mmul_output *output, bool sync);

// Calls fsync, renames onto the final name, and calls fsync on the folder. The output is destroyed
// either way.
MMUL_API enum mmul_status mmul_output_commit(struct mmul_output *output, struct mmul_error *err);

// Discards the output: removes the temporary file and leaves an existing file of the final name
// unchanged.
MMUL_API void mmul_output_destroy(struct mmul_output *output);

// Removes the temporary files of all outputs of the process, for a signal handler that is about to
// end it. None of them can be committed afterwards (MMUL_ERR_STOPPED). Async-signal-safe.
enum mmul_abandoned {
    MMUL_ABANDONED_NONE,     // no output exists, and none has been committed
    MMUL_ABANDONED_SOME,     // at least one output is lost, and none has been committed
    MMUL_ABANDONED_REST,     // at least one output is lost, others have been committed
    MMUL_ABANDONED_FINISHED, // no output is lost: all have been committed or are being renamed
};
MMUL_API enum mmul_abandoned mmul_outputs_abandon(void);

// Installs a handler for signal `number`, which ends the process. The handler calls
// mmul_outputs_abandon and then does the previous action: the default, or a handler that a driver's
// library has installed. An ignored signal stays ignored. A child of the process inherits the
// handler, but does not remove the files.
MMUL_API void mmul_outputs_abandon_on_signal(int number);

// Makes every later commit of an output of the process fail (MMUL_ERR_STOPPED), also of outputs
// that are created later, and every later store of a report. Async-signal-safe.
MMUL_API void mmul_outputs_end(void);

// Explanation that a run in progress gives for its own end: the ranks that no longer respond, and
// the remedy.
struct mmul_ending_note {
    char text[256], hint[256];
};

// Returns the explanation on root, about 0.4 seconds after mmul_outputs_end on all ranks; NULL:
// none. Async-signal-safe.
MMUL_API const struct mmul_ending_note *mmul_ending_explanation(void);

// Returns the last checkpoint of a stopped program, "FILE holds turn N", or how to continue a
// product; "": none. Async-signal-safe.
MMUL_API const char *mmul_ending_kept(void);

// Asks a run with a journal to record at once what is complete. MMUL_ENDING_RECORD: it goes on
// meanwhile. MMUL_ENDING_FINISH, for a job of one rank: it ends after the work in flight
// (MMUL_ERR_STOPPED). Returns false if there is no such run in this process. Async-signal-safe.
enum mmul_ending_wish { MMUL_ENDING_NONE, MMUL_ENDING_RECORD, MMUL_ENDING_FINISH };
MMUL_API bool mmul_ending_request(enum mmul_ending_wish wished);

// Ends this process, a rank, once the launcher that started it has ended or was killed: mpirun, its
// daemon on this host, slurmstepd. All outputs are abandoned first, and none is committed after the
// launcher's death. Scripts between launcher and rank do not count as launchers; without a launcher
// there is no effect. Call it once, before MPI_Init. Needs Linux 5.3; on older systems Open MPI
// ends the ranks a second later.
MMUL_API void mmul_process_end_with_launcher(void);

// Ends the process with 75 and one line if it, or during a run another rank, makes no progress for
// `seconds`: a read or write of a file does not return, a task takes far longer than predicted, or
// a rank sends no heartbeat. A rank that waits for others is not stalled. 0: never.
MMUL_API void mmul_process_watch_stalls(double seconds);

// Returns true if this process itself was stopped that long until a moment ago. Another rank has
// then reported it. Async-signal-safe.
MMUL_API bool mmul_process_was_stopped(void);

// ----------------------------------------------------------------------------- operations on files

enum mmul_generator {
    MMUL_GENERATE_UNIFORM,  // [-1, 1), multiples of 2^-23
    MMUL_GENERATE_NORMAL,   // mean 0, standard deviation 1
    MMUL_GENERATE_INTEGER,  // -4 .. 4, uniform
    MMUL_GENERATE_IDENTITY, // 1 where row = column
    MMUL_GENERATE_ZEROS,
    MMUL_GENERATE_ONES,
    MMUL_GENERATE_RAND, // [0, 1), multiples of 2^-24
};

// Generates elements [begin, end). Element e (index in C order over the whole stack) depends on
// (seed, e) alone, so any rank can generate any part. Source: SplitMix64 (Steele, Lea, Flood 2014);
// normal by Box-Muller.
MMUL_API void mmul_generate(enum mmul_generator kind, uint64_t seed, struct mmul_shape shape,
                            int64_t begin, int64_t end, float *dst);

MMUL_API enum mmul_status mmul_generator_parse(const char *text, enum mmul_generator *kind,
                                               struct mmul_error *err);

// Writes a generated matrix. Fails as mmul_output_create, and with MMUL_ERR_USAGE if the format
// cannot hold the request's dtype (float64 in .bin; bfloat16 in .npy).
MMUL_API enum mmul_status mmul_generate_file(enum mmul_generator kind, uint64_t seed,
                                             const struct mmul_output_request *request,
                                             struct mmul_error *err);

struct mmul_convert_options {
    size_t struct_bytes;     // size of this struct in the caller's header; 0: as in this one
    enum mmul_format format; // as in struct mmul_output_request
    // false: keep the dtype; a dtype that the format does not have becomes float32
    bool has_dtype;
    enum mmul_dtype dtype;
    int bin_version; // 0: 1 for float32, 2 for 16-bit types; or 1, 2 explicitly
};

// Writes all of `in` to `out`. overflows: number of finite elements that became infinite because
// the written dtype is narrower.
MMUL_API enum mmul_status mmul_convert(struct mmul_matrix *in, const char *out,
                                       const struct mmul_convert_options *options,
                                       int64_t *overflows, struct mmul_error *err);

// Writes the tensors of a file to `out`, an .npz or .safetensors file, with their names and
// dimensions. Leaves out tensors that cannot be read as a matrix (mmul_tensor_is_matrix). The file
// appears when all are written. Fails as mmul_convert, and with MMUL_ERR_DATA if no tensor is left.
MMUL_API enum mmul_status mmul_convert_tensors(const struct mmul_tensors *tensors, const char *out,
                                               const struct mmul_convert_options *options,
                                               int64_t *overflows, struct mmul_error *err);

struct mmul_statistics {
    int64_t count, nan_count, inf_count;
    double min, max, mean; // over finite elements; NaN when there is none
};

MMUL_API enum mmul_status mmul_statistics(struct mmul_matrix *matrix,
                                          struct mmul_statistics *statistics,
                                          struct mmul_error *err);

struct mmul_difference {
    bool same_shape;
    int64_t count; // elements compared
    // elements with |x - y| > tolerance + relative |x|, or of different classes (NaN, +Inf, -Inf,
    // finite)
    int64_t outside;
    double max_absolute;   // over pairs of finite elements
    double mean_absolute;  // over pairs of finite elements
    double max_relative;   // max |x - y| / |x|, over pairs of finite elements with x != 0
    int64_t first_outside; // index in C order, -1 when none
    double max_reference;  // max |x| over finite elements of the first matrix
};

// Compares two stacks element by element, in double. Different shapes are a result, not a failure.
MMUL_API enum mmul_status mmul_diff(struct mmul_matrix *x, struct mmul_matrix *y, double tolerance,
                                    double relative, struct mmul_difference *difference,
                                    struct mmul_error *err);

// --------------------------------------------------------------------------------------- splitting

enum mmul_split_rule {
    MMUL_SPLIT_EXACT,  // largest remainder, ties to the lowest part
    MMUL_SPLIT_HUNDRED // 100 base pieces; the rule of the original files (mpimatmul-files(5))
};

enum mmul_axis { MMUL_ROWS, MMUL_COLS };

// Axis of C that is split among ranks; auto: by bytes moved.
enum mmul_split_choice { MMUL_SPLIT_AUTO, MMUL_SPLIT_ROWS, MMUL_SPLIT_COLS };

// Splits [0, total) into `parts` by weights (positive or zero, finite, sum > 0): writes parts + 1
// offsets. A zero weight gives an empty part. Fails with MMUL_ERR_USAGE on unusable weights.
MMUL_API enum mmul_status mmul_split_offsets(int64_t total, int parts, const double *weights,
                                             enum mmul_split_rule rule, int64_t *offsets,
                                             struct mmul_error *err);

// Parses "0.5,0.25,0.25" or "@FILE" (numbers separated by white space or commas, # comments) into
// weights on the heap, which the caller frees with mmul_free. Checks that each is finite, none
// negative, and not all zero. Fails with MMUL_ERR_USAGE, for a malformed file MMUL_ERR_DATA,
// missing MMUL_ERR_NO_INPUT.
MMUL_API enum mmul_status mmul_weights_parse(const char *text, double **weights, int *count,
                                             struct mmul_error *err);

struct mmul_split_options {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    enum mmul_axis axis;
    enum mmul_split_rule rule;
    int parts;
    const double *weights; // borrowed; NULL: equal
    const char *folder;    // folder of the shards; created with mode 0700 if missing
};

// Formats the default folder of shards: "/dev/shm/mpimatmul-<uid>". Returns `text`.
MMUL_API char *mmul_shard_folder(char text[MMUL_AT_LEAST(64)]);

// Splits an open matrix: writes <name>_shard_<i>.bin (.npy for float64 and whole numbers) for each
// part, and <name>_shards.json beside them. Rows (or columns) of all matrices of the stack form one
// range, which is split. A shard that crosses matrices is stored as [1,1,rows,cols] of its part of
// that range. An empty part is a header-only file. Fails with MMUL_ERR_CREATE if the folder is a
// symbolic link or another user can write to it.
MMUL_API enum mmul_status mmul_split(struct mmul_matrix *matrix,
                                     const struct mmul_split_options *options,
                                     struct mmul_error *err);

// Reverses mmul_split: writes the shards of <name> in the folder to `out`, in `format` (as in
// struct mmul_output_request). With a JSON beside the shards, axis, shape and hashes come from it
// and are checked; without it, shards 0, 1, ... are joined by rows. Fails with MMUL_ERR_USAGE if a
// format cannot hold the type.
MMUL_API enum mmul_status mmul_join(const char *name, const char *folder, const char *out,
                                    enum mmul_format format, struct mmul_error *err);

// Determines the format that stores the shards without loss, their own: .bin or .npy. Fails as
// mmul_join.
MMUL_API enum mmul_status mmul_join_format(const char *name, const char *folder,
                                           enum mmul_format *format, struct mmul_error *err);

// Derives the base name from a path: removes folder, "_shard_<i>" and the ending of a format. For a
// tensor in a file it is the tensor's name, with '_' for '/'. Returns `name`.
MMUL_API char *mmul_base_name(const char *path, char name[MMUL_AT_LEAST(256)]);

// ----------------------------------------------------------------------------------------- devices

enum mmul_device_type { MMUL_DEVICE_CPU, MMUL_DEVICE_GPU, MMUL_DEVICE_ACCELERATOR };

// One device as shown to users. Plain data: may be sent as bytes between machines of the same kind.
struct mmul_device_info {
    char id[16]; // "cpu", "reference", or "P:D" with the numbers of clinfo, ...
    char name[128];
    char vendor[64];
    char platform[64];
    char driver[64];
    char pci[16]; // "0000:65:00.0", or "" when unknown
    enum mmul_device_type type;
    bool probed;     // found by a probe of the machine; otherwise every machine has it
    bool usable;     // `auto` may choose it
    bool has_double; // multiplies in float64, too
    int compute_units;
    int64_t memory_bytes;
    int64_t max_allocation_bytes;
    char reason[128]; // reason why `auto` does not choose it; "" when usable
    // For a CPU, else "": the set of kernels in force in its library ("SkylakeX"), the environment
    // variables that choose it ("OPENBLAS_CORETYPE=Haswell"; "": none), and the vectors of the
    // processor that these kernels do not use ("AVX-512"; "": none).
    char kernels[32], kernels_setting[96], kernels_unused_vectors[16];
};

// Checks that the process's address space is large enough for the library and for the threads that
// OpenBLAS begins to start when it is loaded. If it is too small, the threads wait for ever. Fails
// with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_process_check(struct mmul_error *err);

// Checks that the file size limit (ulimit -f) of this process, a rank, is large enough for the
// memory that Open MPI shares between ranks. If it is too small, MPI_Init does not return, so check
// before. A process without a launcher shares no memory. Fails with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_process_check_files(struct mmul_error *err);

// Returns true if a thread of this process is stuck in a device call that hangs. Exit handlers of
// the driver would then free memory that the thread still uses, so end the program with _exit.
MMUL_API bool mmul_process_has_abandoned_threads(void);

// Returns true if MPI has refused a collective call on one rank of this process's job. All ranks
// then have failed with the same error. MPI_Finalize may not return any more, so end the program
// with _exit. *is_own: the call was refused on this rank. The message for the other ranks may not
// have reached root, so this rank waits a few seconds and then prints the error itself.
MMUL_API bool mmul_process_has_lost_mpi(bool *is_own);

// The devices of this machine, as found by a probe.
struct mmul_probe;

struct mmul_probe_options {
    size_t struct_bytes;  // size of this struct in the caller's header; 0: as in this one
    double limit_seconds; // time limit of the drivers, for each query
    bool ask_again;       // query the drivers again, even if an earlier answer is cached
    // Requested devices, as in struct mmul_context_options; NULL: all. Drivers that cannot have
    // them are not queried: none for "cpu", and none for "auto" if PoCL, a CPU, is the only driver
    // and no card has a device node.
    const char *device;
    // Called once when an answer takes more than 2 s, with the pending operation ("OpenCL drivers
    // to list their devices (libx.so)"). NULL: none.
    void (*waiting)(void *context, const char *what);
    void *context; // argument of waiting
};

// Lists devices of all kinds in a child process. A driver that crashes or hangs then costs only a
// warning that names it, not the caller. A good answer is cached in the user's cache folder for
// later processes. It expires when the program's version, a driver's files, its environment or the
// machine's device nodes change, or the machine is restarted.
// Call it before MPI_Init and before starting threads: it forks, and it takes a bad driver out of
// this process by setting OCL_ICD_VENDORS / OCL_ICD_FILENAMES.
// Without any driver the probe has no devices. Fails with MMUL_ERR_SYSTEM (fork, memory) only.
MMUL_API enum mmul_status mmul_probe_create(const struct mmul_probe_options *options,
                                            struct mmul_probe **probe, struct mmul_error *err);
MMUL_API void mmul_probe_destroy(struct mmul_probe *probe);

// Lists devices in clinfo's order; borrowed. Returns their number.
MMUL_API int mmul_probe_devices(const struct mmul_probe *probe,
                                const struct mmul_device_info **devices);

// Lists warning lines; borrowed. Returns their number.
MMUL_API int mmul_probe_warnings(const struct mmul_probe *probe, const char *const **warnings);

// Options for tuning CLBlast on an OpenCL device of this machine: mmul_tune finds its fastest
// parameters and keeps them for all later runs, in one file per device (below the user's cache
// folder).
struct mmul_tune_options {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    const char *device;  // "P:D"
    // results of CLBlast's tuners, borrowed; NULL: run the tuners, found on PATH
    const char *const *files;
    int file_count;
    double limit_seconds; // time limit of one tuner; earlier results count; 0: an hour
    int64_t size; // side of the measured matrices; 0: the tuner's default, and 1024 for the product
    // denominator of the fraction of settings that are measured; 0: the tuner's default
    int64_t fraction;
    bool force; // keep the parameters even if a product is slower with them
    void (*progress)(void *context, const char *line); // NULL: none
    void *progress_context;
};

struct mmul_tune_result {
    struct mmul_device_info device;
    int kernels;         // tuned kernels
    int64_t side;        // side of the timed product
    double flops_before; // speed with CLBlast's own parameters
    double flops_after;  // speed with the tuned ones
    bool stored;         // false: the tuned ones are slower, nothing was changed
    char path[512];      // path of the file
};

// Tunes a device. First tries the parameters in a child process: products of odd sizes must be
// correct with them. Call it before this process has used OpenCL. Takes minutes to hours when it
// runs the tuners; a tuner that crashes is left out.
// Fails: MMUL_ERR_UNAVAILABLE (no such device, no tuners), MMUL_ERR_DATA or MMUL_ERR_NO_INPUT
// (files), MMUL_ERR_WRONG (wrong products: not kept), MMUL_ERR_CREATE or MMUL_ERR_IO (the file
// cannot be written).
MMUL_API enum mmul_status mmul_tune(const struct mmul_tune_options *options,
                                    struct mmul_tune_result *result, struct mmul_error *err);

// ------------------------------------------------------------------------------------------ doctor

// Options for diagnosing the machines of a job before it starts: MPI is not started and need not
// work. Every machine of a hostfile is reached the way mpirun would reach it (ssh, or the agent in
// Open MPI's parameter plm_rsh_agent) and runs `program doctor --probe` for a moment. The machines
// connect to each other.
struct mmul_doctor_options {
    size_t struct_bytes;  // size of this struct in the caller's header; 0: as in this one
    const char *program;  // the program on other machines: a path, or a name on their PATH
    const char *hostfile; // Open MPI's; NULL: this machine alone
    const char *tune;     // a file for mpirun --tune; NULL: none
    const char *folder;   // absolute folder of the job's results
    double limit_seconds; // time limit for a machine to answer
};

struct mmul_diagnosis;

// Diagnoses the machines. Takes seconds; a machine that does not answer costs the limit. The caller
// must ignore SIGPIPE. Fails: MMUL_ERR_NO_INPUT or MMUL_ERR_DATA (hostfile, tune), MMUL_ERR_SYSTEM.
// A fault of a machine is a finding, not a failure.
MMUL_API enum mmul_status mmul_diagnosis_create(const struct mmul_doctor_options *options,
                                                struct mmul_diagnosis **diagnosis,
                                                struct mmul_error *err);
MMUL_API void mmul_diagnosis_destroy(struct mmul_diagnosis *diagnosis);

// Returns the number of faults to fix; 0: a job can start.
MMUL_API int mmul_diagnosis_findings(const struct mmul_diagnosis *diagnosis);

// Prints tables of machines, devices and networks (and of every connection), then "READY" or the
// numbered findings, each with the command that fixes it.
MMUL_API void mmul_diagnosis_print(const struct mmul_diagnosis *diagnosis, bool with_connections,
                                   FILE *stream);
MMUL_API enum mmul_status mmul_diagnosis_json(const struct mmul_diagnosis *diagnosis, char **text,
                                              struct mmul_error *err);

// A command that starts mpirun, for another try, without the hosts that do not answer.
struct mmul_remaining_command;

// Asks the hosts that `words` (up to NULL) give to mpirun with --hostfile, --machinefile or --host.
// Each is asked like a machine of mmul_diagnosis_create, with the same `program` and
// `limit_seconds`. Takes seconds. The caller must ignore SIGPIPE. Fails: MMUL_ERR_NO_INPUT or
// MMUL_ERR_DATA (hosts, tune), MMUL_ERR_CREATE (a temporary hostfile), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_remaining_command_create(const char *const *words,
                                                        const char *program, double limit_seconds,
                                                        struct mmul_remaining_command **remaining,
                                                        struct mmul_error *err);
// Also removes its temporary hostfiles. NULL is legal.
MMUL_API void mmul_remaining_command_destroy(struct mmul_remaining_command *remaining);

// Returns the hosts that do not answer, "node2, node3", their number and that of the others. All
// are 0 if the command names no hosts.
MMUL_API const char *mmul_remaining_command_silent(const struct mmul_remaining_command *remaining,
                                                   int *silent_count, int *host_count);

// Returns the words of the command without the hosts that do not answer, up to NULL; NULL if no
// host is left, or the command names none.
MMUL_API char *const *mmul_remaining_command_words(const struct mmul_remaining_command *remaining);

// Runs the remote side on each of these machines: answers questions from stdin on stdout until
// stdin ends. The process exits after two minutes without a question.
MMUL_API enum mmul_status mmul_doctor_answer(struct mmul_error *err);

// ------------------------------------------------------------------------------------------ matmul

// Nodes that read the input files. Root's node uses them in place, as far as their type allows.
enum mmul_io {
    MMUL_IO_AUTO,   // every node that sees the same files; the others receive their parts
    MMUL_IO_ROOT,   // root's node alone
    MMUL_IO_SHARED, // every node: a node without the files ends the job (MMUL_ERR_NO_INPUT)
};

// Part of a rank's block that is cut off for work stealing: idle ranks of its node compute pieces
// that it has not begun. Ranks of root's node do so for those of other nodes, too, panel by panel,
// if A, B and C are used in place there.
enum mmul_tail {
    // The plan's choice. Nothing if weights are given (also by a device file): every rank then
    // computes exactly its share.
    MMUL_TAIL_AUTO,
    MMUL_TAIL_OFF, // no rank computes another's lines
    // The fraction tail_share is cut off in parts, also if weights are given. If a rank falls
    // behind, the rest of its first part can be stolen, too.
    MMUL_TAIL_SHARE
};

// Type of the arithmetic of a product, and of C before it is written. float64 is the dgemm of
// OpenBLAS or of a device, and the result is checked to double's precision. Devices without doubles
// are then not used.
enum mmul_compute {
    // float64 if an input is float64 and all others are float64 or whole numbers, else float32
    MMUL_COMPUTE_AUTO,
    MMUL_COMPUTE_F32,
    MMUL_COMPUTE_F64, // inputs of other types are converted
};

// Progress of a run, from predictions and observations; never decreases.
struct mmul_progress {
    const char *phase;               // "multiply", or for programs "plan", "run"
    double share;                    // completed fraction of the phase, 0 to 1
    int64_t done_bytes, total_bytes; // bytes of the results; 0: no results in this phase
    double flops_per_second;         // mean until now; 0: not known
    double left_seconds;             // predicted; negative: not known
};

// Arguments of C = alpha op(A) op(B) + beta C_in for every matrix of the stacks; a batch or depth
// of 1 in A or B repeats. Fields marked (root) are read on root only; the others must agree on all
// ranks.
struct mmul_matmul {
    size_t struct_bytes;   // size of this struct in the caller's header; 0: as in this one
    struct mmul_matrix *a; // (root) borrowed; (m, k), or (k, m) when transposed
    struct mmul_matrix *b; // (root) borrowed; (k, n), or (n, k) when transposed
    // (root) borrowed; (m, n) like C; a size of 1 repeats; NULL: none, beta must be 0
    struct mmul_matrix *c_in;
    // (root) Consumed by mmul_run: committed on success, else discarded. Stays the caller's if
    // mmul_run is not reached.
    struct mmul_output *output;
    // (root) Without an output, for a plan alone: assume one that root's node computes in place,
    // a .bin or .npy file of the type of the arithmetic.
    bool output_in_place;
    bool transpose_a, transpose_b;
    float alpha, beta; // finite; alpha 0: A and B are not read; beta 0: C_in is not read

    // (root) "auto" (also NULL): measured speeds; "equal"; "0.5,0.25,0.25"; "@FILE": one per rank
    const char *weights;
    enum mmul_split_choice split;
    enum mmul_split_rule split_rule;
    enum mmul_io io;
    int64_t memory_limit_bytes;        // per node; 0: what the system has available
    int64_t device_memory_limit_bytes; // per device; 0: what the device has
    enum mmul_tail tail;
    double tail_share; // MMUL_TAIL_SHARE: 0.001 to 0.9
    // Use stored or equal weights, never measured ones, and no work stealing: a result has the same
    // bits in every run on the same devices.
    bool reproducible;
    bool no_verify;
    bool no_fallback; // a device failure ends the run; wrong rows are still recomputed
    // Time limit for one product on a device with memory of its own, or for one call while it is
    // measured. A slower device counts as hung and is replaced; memory that it was given is never
    // unmapped. 0: 20 times the expected time, at least 30; 60 while it is measured.
    double device_timeout_seconds;
    uint64_t verify_seed; // (root, when the plan is made) 0: fresh

    // Called on root at intervals during a run; NULL: none.
    void (*progress)(void *progress_context, const struct mmul_progress *progress);
    void *progress_context;
    // Called with a message during a run, such as a line about a rank that makes no progress. Runs
    // on root's main thread or, for messages about root, on rank 1's. NULL: none.
    void (*notice)(void *progress_context, const char *text);

    // Record a timeline of every rank for mmul_report_store_trace: some MiB per rank, not counted
    // in memory_limit_bytes. The same on all ranks.
    bool trace;

    enum mmul_compute compute;
    double exact_alpha, exact_beta; // alpha and beta of a product in float64; 0: those above
};

// Determines the shape and natural dtype of the result: the common 16-bit type if all inputs have
// it, else the type of the arithmetic. Local. Fails with MMUL_ERR_DATA if shapes do not fit (the
// text names files and sizes).
MMUL_API enum mmul_status mmul_matmul_result(const struct mmul_matmul *args,
                                             struct mmul_shape *shape, enum mmul_dtype *dtype,
                                             struct mmul_error *err);

// Work of an earlier run of a product. `lines` names the unit of both counts: "rows",
// "columns" or "matrices".
struct mmul_resumed {
    const char *lines;
    int64_t complete, total;
    int64_t dropped;              // lines that were recorded, but have other bytes by now
    enum mmul_split_choice split; // axis for the options of the run
};

// Creates the output of a product, and continues an earlier run if its journal is there. The
// matrices of `args` and the output then stand for the part that is missing, at least one line: a
// program built of them is an ordinary, smaller product. args->output is set. request: with a
// journal, and the shape of the whole result. journal_seconds of mmul_program_options makes the run
// record its work. Local, root only. Fails as mmul_output_create; with MMUL_ERR_DATA (a journal
// that is damaged, or of other inputs, another operation or version) and MMUL_ERR_USAGE (an input
// that is no file).
MMUL_API enum mmul_status mmul_matmul_resume(struct mmul_matmul *args,
                                             const struct mmul_output_request *request,
                                             struct mmul_resumed *resumed, struct mmul_error *err);

// The journal of a program's loops: states of loops, each with a text and, if it has matrices, a
// .safetensors file beside the journal. A later job with the same fields finds them. Local, root
// only, not thread-safe.
struct mmul_loop_journal;

// Opens the journal at `path`, or creates it, and locks it against a second job. `name` names the
// program in messages. fields: name, value, name, value, ..., NULL tell the job; at most 16 pairs,
// one line each. Fails with MMUL_ERR_DATA (damaged, or of another job: the text names the first
// field that differs), MMUL_ERR_CREATE (cannot be created, belongs to another user or is in use)
// and MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_loop_journal_open(const char *path, const char *name,
                                                 const char *const *fields,
                                                 struct mmul_loop_journal **journal,
                                                 struct mmul_error *err);
// Closes the journal, and removes it if it has no states. NULL is legal.
MMUL_API void mmul_loop_journal_close(struct mmul_loop_journal *journal);

// Finds the latest state of a loop (numbers from 1) that an earlier job has recorded. *file is NULL
// for a state without matrices, and lives until the next call with this journal. is_damaged: a
// later state was passed over, because its file is missing or has other bytes. Returns false if
// there is none.
MMUL_API bool mmul_loop_journal_find(struct mmul_loop_journal *journal, int64_t loop,
                                     const char **file, const char **text, bool *is_damaged);

// Returns the path of the file for the matrices of the next state. Valid until the next call with
// this journal.
MMUL_API const char *mmul_loop_journal_file(struct mmul_loop_journal *journal);

// Records the next state, after its file was committed. text: one line without tabs. Reads the
// file, does not wait for the disk, and removes files of older states of the loop. Fails with
// MMUL_ERR_IO and MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_loop_journal_add(struct mmul_loop_journal *journal, int64_t loop,
                                                bool has_file, const char *text,
                                                struct mmul_error *err);

// Removes the journal and its files. It stays valid.
MMUL_API void mmul_loop_journal_remove(struct mmul_loop_journal *journal);

// Write what tells a version of an open file, or of a matrix's file: its bytes, the time of its
// last change and a checksum of samples. Fail with MMUL_ERR_NO_INPUT, MMUL_ERR_USAGE (a matrix
// without a file) and MMUL_ERR_SYSTEM (memory).
enum { MMUL_IDENTITY_BYTES = 80 };
MMUL_API enum mmul_status mmul_file_identity(int fd, const char *name,
                                             char identity[MMUL_AT_LEAST(MMUL_IDENTITY_BYTES)],
                                             struct mmul_error *err);
MMUL_API enum mmul_status mmul_matrix_identity(const struct mmul_matrix *matrix,
                                               char identity[MMUL_AT_LEAST(MMUL_IDENTITY_BYTES)],
                                               struct mmul_error *err);

// A plan: the assignment of rows to ranks (made by mmul_plan_create in mpimatmul.h).
struct mmul_plan;
MMUL_API void mmul_plan_destroy(struct mmul_plan *plan);

// Prints the rows of each rank, tiles, bytes to each node, memory and predicted seconds. Local.
MMUL_API void mmul_plan_print(const struct mmul_plan *plan, FILE *stream);
// Prints the transfers of each node in order, with the counters that each waits for and raises.
// Local.
MMUL_API void mmul_plan_print_steps(const struct mmul_plan *plan, FILE *stream);
MMUL_API enum mmul_status mmul_plan_json(const struct mmul_plan *plan, char **text,
                                         struct mmul_error *err);

// Plans a job on machines that need not exist, described in a JSON file (format:
// src/plan/simulate/cluster_file.h). Predicts the gain, and other algorithms for comparison. Uses
// weights, split, split_rule and both memory limits of `args`; NULL: defaults. Local.
// Fails: MMUL_ERR_NO_INPUT, MMUL_ERR_DATA (the file), MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM
// (does not fit in memory).
struct mmul_simulation;
MMUL_API enum mmul_status mmul_simulation_create(const char *path, const struct mmul_matmul *args,
                                                 struct mmul_simulation **simulation,
                                                 struct mmul_error *err);
MMUL_API void mmul_simulation_destroy(struct mmul_simulation *simulation);
MMUL_API void mmul_simulation_print(const struct mmul_simulation *simulation, FILE *stream);
// Returns the simulated plan; lives as long as the simulation.
MMUL_API const struct mmul_plan *mmul_simulation_plan(const struct mmul_simulation *simulation);
MMUL_API enum mmul_status mmul_simulation_json(const struct mmul_simulation *simulation,
                                               char **text, struct mmul_error *err);

// The report of a run, of one product (made by mmul_run in mpimatmul.h) or of a program
// (mmul_values_report); complete on root only.
struct mmul_report;
MMUL_API void mmul_report_destroy(struct mmul_report *report);

// Prints, for one product, a table per rank, then totals; for a program of several operations, a
// line. `verbose`: also that table, threads, memory, checked lines and unused devices. Local, root.
MMUL_API void mmul_report_print(const struct mmul_report *report, bool verbose, FILE *stream);

// Formats the report; the schema is in mpimatmul_report.schema.json beside this header.
MMUL_API enum mmul_status mmul_report_json(const struct mmul_report *report, char **text,
                                           struct mmul_error *err);

// Writes the JSON to a file by way of a temporary name. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_report_store(const struct mmul_report *report, const char *path,
                                            struct mmul_error *err);

// (root) Writes the timeline of every rank, as Chrome trace events (chrome://tracing,
// ui.perfetto.dev), by way of a temporary name. Each rank is a process with threads for its
// operations, its device, its copies, its links and root's files. Times are microseconds on root's
// clock since the start of wall_seconds. Fails as mmul_report_store, and with MMUL_ERR_USAGE if the
// job recorded no trace.
MMUL_API enum mmul_status mmul_report_store_trace(const struct mmul_report *report,
                                                  const char *path, struct mmul_error *err);

// (root) Writes a line, with tabs, for each operation, rank and phase (wait, compute or copy,
// check), with its seconds on the same clock and its sizes. Fails as mmul_report_store_trace.
MMUL_API enum mmul_status mmul_report_store_log(const struct mmul_report *report, const char *path,
                                                struct mmul_error *err);

// Compares two runs: files written by --report or mul --json, or two written by `run --json`. Shows
// differing settings and, for the whole, ranks and operations, the numbers of both and the ratio of
// second to first. Local. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA (damaged, not of one kind).
struct mmul_comparison;
MMUL_API enum mmul_status mmul_comparison_create(const char *a, const char *b,
                                                 struct mmul_comparison **comparison,
                                                 struct mmul_error *err);
MMUL_API void mmul_comparison_destroy(struct mmul_comparison *comparison);
// Print tables (`verbose`: all operations, not only those that differ most), or format JSON
// (release the text with mmul_free; schema: mpimatmul_compare.schema.json beside this header).
MMUL_API void mmul_comparison_print(const struct mmul_comparison *comparison, bool verbose,
                                    FILE *stream);
MMUL_API enum mmul_status mmul_comparison_json(const struct mmul_comparison *comparison,
                                               char **text, struct mmul_error *err);

// A run as one HTML file for people, which needs no network: timeline, bars and tables of the work
// and speed of every rank. Made from the run's reports. Local, root.
struct mmul_page;
MMUL_API enum mmul_status mmul_page_create(struct mmul_page **page, struct mmul_error *err);
MMUL_API void mmul_page_destroy(struct mmul_page *page);
// Add a report, with its trace if the job recorded one, or lines written by --metrics. A report
// replaces an earlier one. Copied. Fail with MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_page_add_report(struct mmul_page *page,
                                               const struct mmul_report *report,
                                               struct mmul_error *err);
MMUL_API enum mmul_status mmul_page_add_metrics(struct mmul_page *page, const char *lines,
                                                struct mmul_error *err);
// Adds a comparison of two runs. Copied. Fails with MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_page_add_comparison(struct mmul_page *page,
                                                   const struct mmul_comparison *comparison,
                                                   struct mmul_error *err);
// Adds a file written by --report, --trace, --metrics, `run --json` or `compare --json`; the
// content determines the kind. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA (damaged, none of
// these, or the page already has one of its kind).
MMUL_API enum mmul_status mmul_page_add_file(struct mmul_page *page, const char *path,
                                             struct mmul_error *err);
// Return the page as text, released with mmul_free, or store it by way of a temporary name. Storing
// fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_page_text(const struct mmul_page *page, char **text,
                                         struct mmul_error *err);
MMUL_API enum mmul_status mmul_page_store(const struct mmul_page *page, const char *path,
                                          struct mmul_error *err);

// (root) Returns the number of events that did not fit in the trace.
MMUL_API int64_t mmul_report_dropped_events(const struct mmul_report *report);

// Lists warning lines of the run, all ranks; borrowed. Returns their number. Local, root.
MMUL_API int mmul_report_warnings(const struct mmul_report *report, const char *const **warnings);

// Returns the number of finite elements of the outputs that became infinite because their dtype is
// narrower. Local, root.
MMUL_API int64_t mmul_report_overflows(const struct mmul_report *report);

// Returns the wall seconds of the run. Local, root.
MMUL_API double mmul_report_seconds(const struct mmul_report *report);

// Breakdown of the seconds of a run: work and waiting times of the rank that ended last, as in the
// report's JSON. They add up to wall_seconds.
struct mmul_phases {
    double wall_seconds;
    double setup_seconds;   // shared memory, mapped files, work space
    double scatter_seconds; // waiting for operands
    double compute_seconds, verify_seconds;
    double gather_seconds; // waiting for results to leave
    double idle_seconds;   // waiting for the other ranks to end
    double commit_seconds; // committing the output file
};

// Returns the breakdown. Local, root.
MMUL_API struct mmul_phases mmul_report_phases(const struct mmul_report *report);

// Size and repetitions of a product that one machine's BLAS computes alone, for comparison
// (mmul_baseline_measure in mpimatmul.h).
struct mmul_baseline {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    int64_t m, n, k;     // all >= 1
    int warmup;          // multiplications that are not timed
    int runs;            // timed multiplications, >= 1
};

struct mmul_verdict {
    int64_t rows_checked, rows_wrong;
    int64_t first_wrong_matrix, first_wrong_row; // -1 when none
};

// Checks C = alpha op(A) op(B) + beta C_in in O(n^2) per matrix, in double, independent of BLAS.
// Local.
MMUL_API enum mmul_status mmul_verify(const struct mmul_matmul *args, struct mmul_matrix *c,
                                      struct mmul_verdict *verdict, struct mmul_error *err);

// ---------------------------------------------------------------------------------------- programs
//
// Several operations on values that stay where they were computed (mmul_program_run in
// mpimatmul.h). A program is built on root alone. Values are float32 or float64, are made once, and
// are numbered 0, 1, ... in the order in which they were added.

// Placement of a value. Parts are uneven; the rows (or columns) of all matrices of a stack form one
// range. Grids are a mesh of ranks: rank (i, j) is responsible for rows i and columns j of the
// value. Cyclic values are dealt in blocks of columns, from the last block to the first: each goes
// to the rank that would finish its blocks first with it, by the ranks' speeds. So every range of
// last columns is balanced, such as the rest of a matrix in a factorisation.
enum mmul_placement_kind {
    MMUL_PLACE_FILE,      // whole, on root: loaded values
    MMUL_PLACE_ROWS,      // each rank has some rows
    MMUL_PLACE_COLS,      // each rank has some columns
    MMUL_PLACE_GRID,      // each rank has a block
    MMUL_PLACE_REPLICATE, // whole, once on each node
    MMUL_PLACE_PARTIAL,   // each rank has a summand of the whole value
    MMUL_PLACE_GRID_ROWS, // ranks (i, ...) have rows i of a grid whole: one copy per node
    MMUL_PLACE_GRID_COLS, // ranks (..., j) have columns j whole
    MMUL_PLACE_CYCLIC,    // each rank has some blocks of columns of every matrix
};

struct mmul_program;
MMUL_API enum mmul_status mmul_program_create(struct mmul_program **program,
                                              struct mmul_error *err);
MMUL_API void mmul_program_destroy(struct mmul_program *program);

// The next functions add one operation each. `name` of the result is copied, for tables and errors;
// NULL: "value 3". value: the result. All fail with MMUL_ERR_DATA (shapes that do not fit, with
// names and sizes), MMUL_ERR_USAGE (no such value) and MMUL_ERR_SYSTEM (memory), and then leave the
// program unchanged. Local.

// Loads a matrix of root's, borrowed until the program has run; its name is the value's.
MMUL_API enum mmul_status mmul_program_load(struct mmul_program *program,
                                            struct mmul_matrix *matrix, int *value,
                                            struct mmul_error *err);

// A matrix that its owners generate in place, as mmul_generate does.
struct mmul_generated {
    enum mmul_generator kind;
    uint64_t seed;
    struct mmul_shape shape; // sizes >= 1
};
MMUL_API enum mmul_status mmul_program_generate(struct mmul_program *program,
                                                struct mmul_generated generated, const char *name,
                                                int *value, struct mmul_error *err);

// Adds an operation by its name. The table has the operation, the number of operands (n: a number
// may replace a value), parameters and the result. Formulas and their sources:
// src/device/reference_map.c. Axes count from the end: -1 columns, -2 rows.
//
//   matmul, transpose                 as below
//   exp, relu and other functions     1: element by element; sizes of x: all that
//                                     mmul_elements_get lists with one operand, such as neg log
//                                     tanh gelu gelu_tanh erf sign. round goes half to even; isnan
//                                     gives 1 for NaN
//   add subtract multiply divide      2 n: element by element; sizes of 1 repeat. As numpy's
//   floor_divide remainder power      functions of these names; comparisons give 0 and 1
//   maximum minimum equal not_equal
//   less less_equal greater
//   greater_equal
//   where                             3 n: y where x is not 0, else z
//   softmax                           1, causal, axis (0: -1): of every row; causal: of row i the
//                                     first i + 1 + cols - rows elements alone
//   normalize                         1: rows scaled to length 1
//   rms_norm, layer_norm              1 to 2, 1 to 3, epsilon: times the second (1 x cols), plus
//                                     the third
//   topk                              1, count: (.., rows, 2 count), the largest elements of every
//                                     row, falling, then their columns
//   argmax, argmin                    1, axis (0: -1): that size becomes 1: the index of the
//                                     largest, smallest element
//   sort, argsort                     1, axis (0: -1), descending: the sorted elements of every
//                                     row, their columns; stable, NaN last
//   rope                              1, base, interleaved: row i is at position i; scale below 0
//                                     rotates in the other direction
//   sum mean max min var std          1, axis -4 to -1: that size becomes 1; 0: all do, or those
//   prod all any                      with an entry of axes (batch first) other than 0, if any.
//                                     var and std have ddof 0 (numpy's); all and any give 0 and 1
//   cumsum                            1, axis -4 to -1: sums of all elements up to this one
//   slice                             1, begin, end and step (0: 1) of the four sizes; with a step
//                                     below 0 from begin down to end + 1, where end may be -1
//   reshape                           1, shape: the same elements in C order
//   permute                           1, axes: size i of the result is size axes[i] of x
//   concat                            2, axis -1 to -4
//   tile                              1, shape: repetitions of the whole along each size
//   repeat                            1, axis -4 to -1, count: repetitions of each element
//   triu, tril                        1, count: zeros below, above diagonal k (k columns to the
//                                     right of the main one)
//   diag, diagonal                    1, count: a matrix with a row on diagonal k; diagonal k as a
//                                     row
//   outer                             2: products of all pairs of elements, a row for each of the
//                                     first
//   einsum                            2, begin, end, axes: labels above 0 of the sizes of x, y and
//                                     the result (0: the size is 1): sums of products over equal
//                                     labels
//   take                              2: rows of a matrix x by whole numbers y; for y (1, n) the
//                                     result is (n, cols), for (.., m, n) (.., m, n, cols)
//   add_at                            3: table x with rows z added at its rows y, an index for each
//   one_hot                           1, count: of (m, n) (m, n, count), of (d, m, n)
//                                     (d, m, n, count): 1 at the index, 0 elsewhere; numbers other
//                                     than 0 to count - 1 fail at run time (MMUL_ERR_DATA)
//   cross_entropy                     2: of logits (.., n, v) and indices (.., n) or (.., n, 1) the
//                                     mean of -log softmax at the index (torch's)
//   mse, binary_cross_entropy         2: means over all elements; of logits and numbers from 0 to 1
//                                     (torch's with logits)
//   norm, logsumexp                   1, axis, axes as sum: the root of the sum of squares,
//                                     log(sum(exp(x))); intermediate results do not overflow
//   scale_for_squares                 1: of the largest absolute value of an element, or several:
//                                     1, or a power of two that keeps squares of scaled elements
//                                     from overflow and underflow
//   clip                              1 and two numbers, which may be infinite: lower, upper bound
//   stop_gradient                     1: x, which passes no gradient on
//   dropout                           1 and three numbers, p, seed, turn: 0 with probability p
//                                     (below 1), else x / (1 - p); seed, turn and position
//                                     determine the zeros
//   attention                         3 to 4, causal, scale: softmax(scale q k^T + mask) v of q
//                                     (batch, heads, rows, d), k, v (batch, heads / g, keys, ..).
//                                     In a mask of bools (mmul_program_is_bool) 1 lets the query
//                                     attend to the key and 0 does not; a mask of other whole
//                                     numbers fails (MMUL_ERR_DATA)
//   attention_sums                    4 to 5, causal, scale: of q, k, the result, its gradient, the
//                                     mask (.., rows, 2): log(sum(exp)) of every row of scores, and
//                                     the inner product of each row of the result with that row of
//                                     its gradient
//   attention_backward_q _k _v _mask  5 to 6, causal, scale: of q, k, v, the result's gradient,
//                                     these sums, the mask: the gradient with respect to each; for
//                                     k and v one per head of q
enum { MMUL_OPERANDS = 6, MMUL_NUMBER = -2147483647 };

struct mmul_parameters {
    double numbers[MMUL_OPERANDS]; // numbers in place of the operands that are MMUL_NUMBER
    double epsilon, scale, base;
    bool causal, interleaved, descending;
    int axis;
    int64_t count;
    int64_t begin[4], end[4], step[4]; // batch, depth, rows, cols
    int axes[4];
    struct mmul_shape shape;
};

// An elementwise operation of mmul_program_apply; those of gradients (names end in _backward) are
// among them. The texts are the library's and live as long.
struct mmul_element_info {
    const char *name;
    const char *help; // "The sine" (of every element); NULL if it has more than one operand
    int operands;
    bool has_gradient;
};

// Describes the operation with this number, from 0. Returns false if there are fewer. Local.
MMUL_API bool mmul_elements_get(int number, struct mmul_element_info *info);

// Returns an elementwise operation of one operand of a plain number, in double; NaN if there is no
// such operation. Local.
MMUL_API double mmul_elements_compute(const char *name, double x);

struct mmul_call {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    const char *operation;
    int operands[MMUL_OPERANDS]; // values, or MMUL_NUMBER
    int operand_count;
    struct mmul_parameters with; // parameters that the operation does not name are ignored
    // Source position such as "attention.py:3:9", which precedes run-time errors about the
    // operation's data; copied. NULL: none.
    const char *origin;
};
MMUL_API enum mmul_status mmul_program_apply(struct mmul_program *program,
                                             const struct mmul_call *call, const char *name,
                                             int *value, struct mmul_error *err);

// Adds the operations that compute gradients of y, which has one element, by `count` of the
// program's values. gradients[i] has the sizes and the type of xs[i]. If several elements are
// equally the maximum they share its gradient; relu and abs have 0 at 0. If the gradient of a
// result is exactly 0, so are those of its operands, even if a slope there is infinite or NaN.
// Fails with MMUL_ERR_DATA (y has more elements; one of xs holds whole numbers, or y does not
// depend on it; an operation without derivative, by its name), MMUL_ERR_USAGE (no such value),
// MMUL_ERR_SYSTEM (memory), and then leaves the program unchanged. Local.
struct mmul_gradient_request {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    int y;
    const int *xs;
    int count;
    const char *origin; // as in struct mmul_call
};
MMUL_API enum mmul_status mmul_program_gradients(struct mmul_program *program,
                                                 const struct mmul_gradient_request *request,
                                                 int *gradients, struct mmul_error *err);

// Returns the shape of a value of the program. integers (may be NULL): its elements are whole
// numbers, indices below 2^24.
MMUL_API struct mmul_shape mmul_program_value_shape(const struct mmul_program *program, int value,
                                                    bool *integers);

// Returns true if the elements are True and False, as 1 and 0: results of comparisons and of
// one_hot, and matrices loaded as bool. Operations that pick and move elements keep this property
// (slices, transposes, take, concat, where, maximum, ...), and so do products of such values and
// 1 - x. As a mask of attention, the value marks the keys that a query may attend to.
MMUL_API bool mmul_program_is_bool(const struct mmul_program *program, int value);

// Returns the value's current type: float64 if it is made of float64 alone. A value made of whole
// numbers and generated matrices alone says float32 and is computed in the type of its readers. An
// operation with operands of both types converts to float32; mmul_program_is_rounded returns true
// for a float64 value that lost precision by this.
MMUL_API enum mmul_dtype mmul_program_value_dtype(const struct mmul_program *program, int value);
MMUL_API bool mmul_program_is_rounded(const struct mmul_program *program, int value);

// Makes all values loaded from now on float32, whatever the type in their file.
MMUL_API void mmul_program_use_float32(struct mmul_program *program);

// Adds a @ b: (.., m, k) by (.., k, n); batch and depth of 1 repeat. Checked like every product.
MMUL_API enum mmul_status mmul_program_matmul(struct mmul_program *program, int a, int b,
                                              const char *name, int *value, struct mmul_error *err);

// Adds C = alpha op(A) op(B) + beta C_in of root's matrices, and their loads. Local. Reads only
// these members of args, and `compute`. The matrices are borrowed until the program has run. C goes
// to a file as it is computed: the program may save it, and must have no other operations. Fails
// with MMUL_ERR_DATA (shapes), MMUL_ERR_USAGE (a factor that is not finite), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_program_product(struct mmul_program *program,
                                               const struct mmul_matmul *args, int *value,
                                               struct mmul_error *err);

// Swaps the last two axes; moves and copies nothing.
MMUL_API enum mmul_status mmul_program_transpose(struct mmul_program *program, int x,
                                                 const char *name, int *value,
                                                 struct mmul_error *err);

// Adds x + y; sizes of 1 repeat.
MMUL_API enum mmul_status mmul_program_add(struct mmul_program *program, int x, int y,
                                           const char *name, int *value, struct mmul_error *err);

// Adds max(x, 0); NaN stays NaN.
MMUL_API enum mmul_status mmul_program_relu(struct mmul_program *program, int x, const char *name,
                                            int *value, struct mmul_error *err);

// Requests a placement for x, which the plan obeys; without a request it chooses. Not
// MMUL_PLACE_FILE (MMUL_ERR_USAGE).
MMUL_API enum mmul_status mmul_program_place(struct mmul_program *program, int x,
                                             enum mmul_placement_kind kind, const char *name,
                                             int *value, struct mmul_error *err);

// A placement request with a choice of ranks, which are then the only ones that hold any part of
// the value (not for MMUL_PLACE_GRID and its rows and columns). An operation on such a value runs
// on its ranks: by priority those of an operand with an explicit request, of the largest operand,
// of the newest one. A gradient is computed on the ranks of the operation that it belongs to.
// Pipeline stages are thus values on different ranks.
struct mmul_placement_request {
    enum mmul_placement_kind kind;
    const int *ranks; // rank_count of them, borrowed; NULL: the ranks of its operand
    int rank_count;
    bool on_all; // with ranks NULL: all ranks, regardless of its operand's
    // Ranks on which gradients pass through the operation that makes x; backward_count of them,
    // borrowed; NULL: the ranks of that operation.
    const int *backward_ranks;
    int backward_count;
    const char *pattern; // from mmul_placements_find, borrowed
    // MMUL_PLACE_CYCLIC: columns of a block, one number for all values of a program; 0: 64.
    int64_t block_cols;
};

// Adds x with a placement request. Fails with MMUL_ERR_USAGE (as mmul_program_place; no ranks, or
// above 1023; blocks of an invalid or a second size), MMUL_ERR_SYSTEM (memory). Ranks that the job
// does not have are an error at planning.
MMUL_API enum mmul_status mmul_program_place_as(
    struct mmul_program *program, int x, const struct mmul_placement_request *requested_placement,
    const char *name, int *value, struct mmul_error *err);

// Placement requests by the names of values, from a YAML file of one mapping. An entry is one of
//     NAME: rows                                            (cols, cyclic, replicate, grid)
//     NAME: {shard: cols, ranks: [0, 1]}                    (or replicated: true)
//     NAME: {shard: {axis: 0, workers: [0, 1]}, backward: OTHER}
//     NAME: {shard: cyclic, block: 32}                      (columns of a block)
// Axis 0 is rows and 1 columns. ranks (of MPI) and workers are synonyms (null: all). A value that
// is not split is whole on each of the ranks. Gradients pass through the operation that makes the
// value on the ranks of the entry OTHER, or on the value's own ranks if no entry OTHER has ranks.
// Files of the framework GT are accepted unchanged: `replicated` may stand in the shard, and
// `compile` is ignored. NAME may contain * ? [..] as file names in a shell; the first entry that
// matches counts. Local; not thread-safe.
struct mmul_placements;

// Fails with MMUL_ERR_NO_INPUT, MMUL_ERR_DATA (FILE:LINE:COLUMN and the fault there),
// MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_placements_read(const char *path,
                                               struct mmul_placements **placements,
                                               struct mmul_error *err);
MMUL_API void mmul_placements_destroy(struct mmul_placements *placements);

// Returns false if no entry matches the name, or the entry requests no placement.
MMUL_API bool mmul_placements_find(struct mmul_placements *placements, const char *name,
                                   struct mmul_placement_request *requested_placement);

// Returns an unsupported setting of the file for a notice, index 0, 1, ...; NULL: no more.
// Borrowed.
MMUL_API const char *mmul_placements_notice(const struct mmul_placements *placements, int index);

// Returns an entry that has matched no name so far, index 0, 1, ...; NULL: no more. Borrowed.
MMUL_API const char *mmul_placements_unused(const struct mmul_placements *placements, int index);

// Writes x to an output of root's of the same shape (MMUL_ERR_DATA). mmul_program_run consumes the
// output; it stays the caller's if that is not reached. An output is for one value
// (MMUL_ERR_USAGE). output NULL: for a plan alone, which cannot run and
// assumes a file that root writes itself.
MMUL_API enum mmul_status mmul_program_save(struct mmul_program *program, int x,
                                            struct mmul_output *output, struct mmul_error *err);

// Kept values: sets of shards that a job leaves on its ranks, for later jobs of the same ranks on
// the same machines. Each shard is a rank's part of a value (rows or columns). Shard i and the
// description of the set lie in the folder of rank i (shard_folder of its context), in the format
// of mmul_split; mmul_join reads them if one machine has all.
// A set is used in place; if the plan needs the value elsewhere, it moves between the ranks.
// Without given weights, the plan takes the shares of the largest set that it reads. Given weights
// that differ from a set's shares are an error.
// mmul_program_plan_create fails if a set does not match its description: MMUL_ERR_NO_INPUT
// (missing on a rank), MMUL_ERR_DATA (half-written, of other ranks, hosts or another job, shorter,
// changed), MMUL_ERR_USAGE (weights).

// Loads a kept value. folder: root's, borrowed; NULL: mmul_shard_folder. The value has the name
// "kept:" `name`.
MMUL_API enum mmul_status mmul_program_load_kept(struct mmul_program *program, const char *folder,
                                                 const char *name, int *value,
                                                 struct mmul_error *err);

// Returns the checksum of the description of the set that the value was loaded from, which differs
// from set to set. 0: the value is not from mmul_program_load_kept.
MMUL_API uint64_t mmul_program_kept_version(const struct mmul_program *program, int value);

// Keeps x as the set `name` when all of the program has run, replacing an earlier set of this name,
// which stays intact if anything fails before. no_sync: as mmul_output_set_sync. Fails with
// MMUL_ERR_USAGE (an invalid name, a second value of that name).
MMUL_API enum mmul_status mmul_program_keep(struct mmul_program *program, int x, const char *name,
                                            bool no_sync, struct mmul_error *err);

struct mmul_context; // defined by mpimatmul.h

// Holds a value beyond its program. When the program has run, x stays in place in the memory of the
// ranks until it is released. Programs planned later in the same context read it by the number
// *held (root's; ignored on other ranks). *held before the call: 0, or the number of another node's
// value with the same role (mmul_apart_run). Nothing is copied or moved. Local to root; fails as
// the functions that add operations.
MMUL_API enum mmul_status mmul_program_hold(struct mmul_program *program, int x, int64_t *held,
                                            struct mmul_error *err);

// Loads the value held under a number by an earlier program that has run in this context. Local to
// root. Fails with MMUL_ERR_USAGE (no such value), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_program_load_held(struct mmul_program *program,
                                                 const struct mmul_context *context, int64_t held,
                                                 const char *name, int *value,
                                                 struct mmul_error *err);

// Releases a held value. Local to root: all ranks drop it when the next program is planned. Its
// memory becomes free when all values held by the same program are released. A plan that reads it
// can no longer run (MMUL_ERR_USAGE). Unknown numbers are ignored. The context releases all values
// at its end.
MMUL_API void mmul_context_release(struct mmul_context *context, int64_t held);

// Changes of a built program for its next run. Values are those of the program.
struct mmul_number_change {
    // value: result of the operation; operand: index of the operand that is a number
    int value, operand;
    double number;
};
struct mmul_draw_change {
    int value; // result of dropout
    double seed, turn;
};
struct mmul_matrix_change {
    int value; // from mmul_program_load
    struct mmul_matrix *matrix;
};
struct mmul_held_change {
    int value; // from mmul_program_load_held
    int64_t held;
};
struct mmul_program_changes {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    const struct mmul_number_change *numbers;
    const struct mmul_draw_change *draws;
    const struct mmul_matrix_change *matrices;
    const struct mmul_held_change *held;
    int number_count, draw_count, matrix_count, held_count, hold_count;
    // Written: hold_count new numbers of the values held by mmul_program_hold, in the order of its
    // calls.
    int64_t *holds;
};

// Changes leaves and numbers of a program that has run and saves nothing; mmul_program_plan_create
// then finds the plan of the previous run. The caller keeps the matrices open until the next change
// and run, as for mmul_program_load. Local to root.
// *is_done is false, with nothing changed, if a leaf has another shape, type or place than the
// program was built with, a held value does not exist, or the program does not hold hold_count
// values. The program must then be built anew. Fails with MMUL_ERR_USAGE (struct_bytes).
// The caller must not change numbers that determine the operations themselves (bounds of clip, 0
// and 1 as bools of where).
MMUL_API enum mmul_status mmul_program_change(struct mmul_program *program,
                                              const struct mmul_context *context,
                                              const struct mmul_program_changes *changes,
                                              bool *is_done, struct mmul_error *err);

// A rank's part of a matrix, for mmul_keep_part (mpimatmul.h): (rows, cols), row-major,
// row_step >= cols elements from row to row; either size may be 0. float32 or float64, the same on
// all ranks. axis rows: the ranks have consecutive rows, beginning with rank 0, and all have the
// same columns; axis columns: the other way round.
struct mmul_local_part {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    const void *data;    // borrowed for the call; NULL if a size is 0
    int64_t rows, cols, row_step;
    enum mmul_dtype dtype;
    enum mmul_axis axis;
};

// Prints a line per operation: result, operands, shape. Without `verbose` it keeps to 120 columns
// and prints a repeated block of operations, such as the layers of a model, once with its count.
// Local.
MMUL_API void mmul_program_print(const struct mmul_program *program, bool verbose, FILE *stream);

// Prints the rule of every operation, the moves with their bytes and predicted seconds, and the
// memory during each step on the node that needs most. Then prints the peak of every rank and
// device, and the step of the peak. Without `verbose` it keeps to 120 columns and prints a repeated
// block of steps once, with bytes and seconds of all of them. The JSON also has the memory of every
// rank in every step (mpimatmul_program_plan.schema.json). Free it with mmul_free; it fails with
// MMUL_ERR_SYSTEM. Plans are made by mmul_program_plan_create in mpimatmul.h.
struct mmul_program_plan;
MMUL_API void mmul_program_plan_destroy(struct mmul_program_plan *plan);
MMUL_API void mmul_program_plan_print(const struct mmul_program_plan *plan, bool verbose,
                                      FILE *stream);
// Computes the predicted seconds and network bytes of the operations that make values
// begin .. end - 1, and of moves for these.
MMUL_API void mmul_program_plan_cost(const struct mmul_program_plan *plan, int begin, int end,
                                     double *seconds, double *network_bytes);
// Returns the part of those seconds that remains if the nodes compute apart, with nothing sent
// between nodes.
MMUL_API double mmul_program_plan_apart_seconds(const struct mmul_program_plan *plan, int begin,
                                                int end);
// Computes the cost of averaging a value of that size over nodes that compute apart: seconds and
// network bytes.
MMUL_API void mmul_program_plan_mean_cost(const struct mmul_program_plan *plan, int value,
                                          double *seconds, double *network_bytes);
MMUL_API enum mmul_status mmul_program_plan_json(const struct mmul_program_plan *plan, char **text,
                                                 struct mmul_error *err);

// Returns the placement of a value while it is needed: "rows 0 2050 4096"; `text` is room for that.
// A loaded value has the destination of its first move, else its file. Local; the same on all
// ranks.
MMUL_API const char *mmul_program_plan_placement(const struct mmul_program_plan *plan, int value,
                                                 enum mmul_placement_kind *kind,
                                                 char text[MMUL_AT_LEAST(96)]);

// The values that a run leaves on the ranks, where they were computed (made by mmul_program_run in
// mpimatmul.h).
struct mmul_values;
MMUL_API void mmul_values_destroy(struct mmul_values *values);

// Returns the placement of a value that exists or existed, in the same form.
MMUL_API const char *mmul_values_placement(const struct mmul_values *values, int value,
                                           enum mmul_placement_kind *kind,
                                           char text[MMUL_AT_LEAST(96)]);

// Summary of a run, the same on all ranks except for its seconds; root's last until the outputs
// were committed. Local.
struct mmul_values_summary {
    double wall_seconds;    // from warm devices on
    double startup_seconds; // before that, as far as no earlier run of the context included them
    double flops;           // copies and look-ups count none
    int ranks, step_count;
    bool verified;                                               // checking of results was enabled
    int64_t lines_checked, blocks_recomputed, fallback_products; // over all ranks
    // sum over all ranks' devices, each counted once; NAN: one of them is not measured
    double joules;
};
MMUL_API struct mmul_values_summary mmul_values_summary(const struct mmul_values *values);

// Totals of several programs that ran one after the other.
struct mmul_programs_summary {
    int64_t programs, steps;
    double wall_seconds, flops;
    int64_t lines_checked, blocks_recomputed, fallback_products;
    double joules; // NAN: not measured in one of them
};
MMUL_API void mmul_programs_add(struct mmul_programs_summary *all,
                                const struct mmul_values *values);
// Sets the totals of the preceding programs, for the report of the last one. Root.
MMUL_API void mmul_values_set_before(struct mmul_values *values,
                                     const struct mmul_programs_summary *before);

// Sets the name of the text, for the report. Root.
MMUL_API void mmul_values_set_text_name(struct mmul_values *values, const char *name);

// Returns the run's report, borrowed from the values; complete on root only.
MMUL_API const struct mmul_report *mmul_values_report(const struct mmul_values *values);

// This rank's part of a value: a rectangle in each of some matrices; of a cyclic value one for each
// of its blocks. Element (i, j) of the matrix is data[(i - region.row_begin) * row_step + (j -
// region.col_begin) * col_step], or that of doubles; borrowed until the values are destroyed. For a
// value that is whole on the node (replicate) it is all of it, for a sum (partial) this rank's
// summand. A value that could not be kept has no parts (keep_values, mpimatmul.h). Local.
struct mmul_value_part {
    struct mmul_region region;
    union {
        const float *data;
        const double *doubles;
    };
    int64_t row_step, col_step; // elements
    enum mmul_dtype dtype;      // float32: data; float64: doubles
};
MMUL_API int64_t mmul_values_part_count(const struct mmul_values *values, int value);
MMUL_API struct mmul_value_part mmul_values_part(const struct mmul_values *values, int value,
                                                 int64_t index);

// ------------------------------------------------------------------------------- texts of programs
//
// A program as a text: a small part of Python (mpimatmul-programs(7)). The text is read on root,
// into a program as above; files are opened when it loads and saves them. mmul_script_run of
// mpimatmul.h runs it.

struct mmul_script;

// Share and ranks of a node that computes apart (mmul_apart_run of mpimatmul.h).
struct mmul_apart_node {
    double share; // the node's part of the total speed, which is 1
    int ranks;
};

struct mmul_script_request {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    // path of the text, for errors too; "-": standard input; NULL: errors give no place
    const char *path;
    // The text itself, text_bytes long, must live as long as the script; NULL: read from `path`.
    const char *text;
    size_t text_bytes;
    // "NAME=VALUE", setting_count of them: VALUE replaces the literal in the first line
    // `NAME = literal` at the top of the text.
    const char *const *settings;
    int setting_count;
    bool only_checked; // create no outputs: the program is to be planned, not run
    bool no_sync;      // for outputs, as mmul_output_set_sync
    bool use_float32;  // as mmul_program_use_float32
    // Save values in the 16-bit type that all files loaded before have, if there is one. Otherwise,
    // and by default, save them in the type of their arithmetic.
    bool common_types;
    // Root's folder of kept sets ("kept:NAME"), must live as long as the script; NULL:
    // mmul_shard_folder.
    const char *shard_folder;
    // MMUL_F16, MMUL_BF16: type in files of values computed in float32; MMUL_F32: unchanged
    enum mmul_dtype narrow;
    // an optimiser skips its step if a gradient is not finite; otherwise the run fails
    bool skips_nan;
    // Placement requests for the names that the text assigns; "NAME.0", "NAME.1.3" for tuples.
    // Borrowed; must live as long as the script.
    struct mmul_placements *placements;
    bool missing_is_nan; // as mmul_inputs_set_missing
    // Folder of the journal NAME.journal, in which states of loops are recorded at most every
    // journal_seconds; "": beside the text. A run continues from the journal of an earlier one that
    // died, and removes it in the end. NULL: none. Needs a `path` of a file.
    const char *journal;
    double journal_seconds;
};

// Reads a text without running it. Without only_checked a text with loops is refused.
// Fails with MMUL_ERR_DATA (FILE:LINE:COLUMN and the fault there), MMUL_ERR_USAGE (settings),
// MMUL_ERR_NO_INPUT (the text, or a file it loads), and as mmul_matrix_open and mmul_output_create.
// Local.
MMUL_API enum mmul_status mmul_script_create(const struct mmul_script_request *request,
                                             struct mmul_script **script, struct mmul_error *err);
MMUL_API void mmul_script_destroy(struct mmul_script *script);

// Returns the program for mmul_program_plan_create; it and its files live as long as the script.
MMUL_API const struct mmul_program *mmul_script_program(const struct mmul_script *script);

// Returns true if nothing is left to run: the rest behind a loop, in a turn, or the whole text has
// at most lines to print. They are printed without a plan.
MMUL_API bool mmul_script_is_over(const struct mmul_script *script);

// Turn of the outermost loop that the current program belongs to. Returns false if it belongs to
// none. Local, root.
struct mmul_script_turn {
    int64_t at, first, end; // first <= at < end
    int64_t windows;        // windows of texts, or rows of tables, that batches have taken so far
    bool may_break;         // any turn may be the last one
};
MMUL_API bool mmul_script_turn(const struct mmul_script *script, struct mmul_script_turn *turn);

// Returns true if one of its outputs is standard output.
MMUL_API bool mmul_script_writes_stdout(const struct mmul_script *script);

// Returns a loaded matrix, index 0, 1, ...; NULL: no more. Borrowed. is_rounded (may be NULL): its
// mmul_program_is_rounded.
MMUL_API const struct mmul_matrix *mmul_script_input(const struct mmul_script *script, int index,
                                                     bool *is_rounded);

// Returns a line about a value that a loop carries on and that changes its type there, index 0, 1,
// ... ("'x' is float64 and becomes float32 in the loop of line 3"). NULL: no more. Borrowed.
MMUL_API const char *mmul_script_note(const struct mmul_script *script, int index);

// Returns true if `path` is the text, or a file that it loads or saves.
MMUL_API bool mmul_script_uses(const struct mmul_script *script, const char *path);

// After the program has run: formats a line about an optimiser that skipped its step, index 0, 1,
// ... False: no more. Local, root.
MMUL_API bool mmul_script_skipped(const struct mmul_script *script, int index,
                                  char line[MMUL_AT_LEAST(256)]);

// Gives the next warning about the text, "FILE:LINE:COLUMN: ..."; at most one per place. The line
// lives as long as the script. False: no more so far. Local, root.
MMUL_API bool mmul_script_warning(struct mmul_script *script, const char **line);

// Gives a line for the user about the checkpoint that the text has restored: its file and turn. The
// line lives as long as the script. False: nothing was restored, or the line was already given.
// Local, root.
MMUL_API bool mmul_script_restored(struct mmul_script *script, const char **line);

// Prints the next lines of the text's output, up to the first line with a value that has not
// arrived: words, numbers, and for matrices shapes, placements, corners, statistics.
// has_open_line: the last printed line continues (print(x, end="")).
// metrics receives a line of JSON for each value among them: turn (null: none), line of the text,
// name, value (for a larger matrix shape, min, max, mean; null: NaN or infinite), and seconds since
// the script was begun. stream or metrics NULL: not written; mmul_script_json has the lines that no
// stream received.
MMUL_API bool mmul_script_has_open_line(const struct mmul_script *script);
MMUL_API void mmul_script_print(struct mmul_script *script, const struct mmul_program_plan *plan,
                                FILE *stream, FILE *metrics);

// After the program has run: prints seconds, speed and the check's verdict in a line, and the saved
// values with their shapes.
MMUL_API void mmul_script_print_outcome(const struct mmul_script *script,
                                        const struct mmul_values *values, bool verbose,
                                        FILE *stream);

// For a text that is only checked (only_checked): prints a line for each loop that runs, with its
// turns, predicted seconds and network bytes of one turn, from the plan of the program, and the
// values carried from turn to turn. A second line covers the work that nodes do apart. If the
// gradients of its optimisers travel between nodes instead, that line predicts the savings of
// computing apart.
MMUL_API void mmul_script_print_loops(const struct mmul_script *script,
                                      const struct mmul_program_plan *plan, FILE *stream);

// After the program has run: formats all of that as JSON (mpimatmul_run.schema.json); free it with
// mmul_free. values: NULL if nothing was to be run. before: totals of the preceding programs. Fails
// with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_script_json(struct mmul_script *script,
                                           const struct mmul_program_plan *plan,
                                           const struct mmul_values *values,
                                           const struct mmul_programs_summary *before, char **text,
                                           struct mmul_error *err);

// A file or persistent set that a program has saved. The JSON has the last `axes` sizes.
struct mmul_saved {
    const char *path; // "kept:NAME" for a set
    struct mmul_shape shape;
    int axes;
};

// Formats a run without a text in the same way; free it with mmul_free. Local, root. Fails with
// MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_saved_json(const struct mmul_values *values,
                                          const struct mmul_saved *saved, int count, char **text,
                                          struct mmul_error *err);

// ---------------------------------------------------------------------------------- jobs under way

// State of a running job of this user. Its first process (root, of one context) writes it twice a
// second to a file in a folder that is private to the user: $XDG_RUNTIME_DIR/mpimatmul if it is
// such a folder, else /tmp/mpimatmul-<uid>. A job of less than half a second writes nothing. NAN:
// not known, or not available from the system.
struct mmul_job_rank {
    char host[64], device[128], device_name[128]; // "cpu"; "Intel Xeon ..."
    char computes[160];                           // current operation: "matmul + gelu"; "": none
    double share;                                 // planned fraction of the work, 0 to 1
    double done;             // completed fraction of its part of the current run, 0 to 1
    double flops_per_second; // over the last seconds
    // resident; memory shared by the ranks of a machine counts for each of them
    double memory_bytes;
    // sensors of its device; for a CPU of the packages that contain its cores
    double celsius, watts;
};

enum { MMUL_JOB_NUMBERS = 8, MMUL_JOB_POINTS = 128 };
struct mmul_job_number {
    char name[64]; // name in the text's output
    double value;
};

struct mmul_job_state {
    char id[24];       // process id, "4711"; for a process with several contexts also "4711.2"
    char command[256]; // command line
    char phase[16];    // "set up", "plan", "run", "multiply"
    double elapsed_seconds, silent_seconds; // since the start; since the last update
    double share;            // completed fraction of its loop or else of the current run, 0 to 1
    double left_seconds;     // predicted
    double flops_per_second; // sum over all ranks, over the last seconds
    int64_t turn, end_turn;  // turns of the outermost loop; end 0: no loop is running
    double turns_per_second;
    double windows_per_second; // input of batches: windows of texts, rows of tables
    // The latest printed numbers, each name once. One of them is also a curve: the first with
    // "loss" in its name, else the first one. The curve has its turns (outside of loops, the number
    // of earlier values) and values, thinned out.
    struct mmul_job_number numbers[MMUL_JOB_NUMBERS];
    int number_count;
    char curve_name[64];
    double curve_turns[MMUL_JOB_POINTS], curve_values[MMUL_JOB_POINTS];
    int curve_count;
    struct mmul_job_rank *ranks; // owned by the list
    int rank_count;
};

struct mmul_jobs; // all jobs at one moment

// Finds the jobs of both folders, longest-running first. Removes files of processes that have
// ended; skips those of another version. Local; needs no MPI. Fails with MMUL_ERR_CREATE (a folder
// of another user, or open to others), MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_jobs_find(struct mmul_jobs **jobs, struct mmul_error *err);
MMUL_API int mmul_jobs_count(const struct mmul_jobs *jobs);
MMUL_API const struct mmul_job_state *mmul_jobs_get(const struct mmul_jobs *jobs, int index);

// Formats the jobs as JSON of share/mpimatmul/mpimatmul_top.schema.json; only the one with this id,
// NULL: all. Release it with mmul_free.
MMUL_API enum mmul_status mmul_jobs_json(const struct mmul_jobs *jobs, const char *id, char **text,
                                         struct mmul_error *err);
MMUL_API void mmul_jobs_destroy(struct mmul_jobs *jobs);

// ------------------------------------------------------------------------------------------- texts

// Writes a text file by way of a temporary name. An existing path that is no plain file (/dev/null,
// a FIFO) is written to directly. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_text_store(const char *path, const char *text,
                                          struct mmul_error *err);

// ------------------------------------------------------------------------------------------ memory

// Frees memory that the library allocated for the caller.
MMUL_API void mmul_free(void *memory);

// Returns the bytes that the library holds now: zero when everything was destroyed.
MMUL_API int64_t mmul_live_bytes(void);

#ifdef __cplusplus
}
#endif
