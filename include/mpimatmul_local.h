// SPDX-License-Identifier: MIT
//
// mpimatmul: the local half of the public interface.
//
// Everything here is plain data or works on one process alone: no MPI, no rank, no collective call.
// mpimatmul.h includes this header and adds the half that runs on a communicator.
//
// Conventions, everywhere:
//   * Matrices are row-major. C is m x n, A is m x k, B is k x n.
//   * Dimensions and counts are int64_t and count elements; byte sizes are size_t and say `_bytes`.
//   * Ranges are half-open; P parts have P+1 offsets.
//   * A function that can fail returns enum mmul_status and fills the struct mmul_error it is given
//     last (never NULL); its outputs are written only on success.
//   * Who creates destroys. Every destroy or close accepts NULL.
//   * Structs of options, which callers fill, begin with struct_bytes. A program that is compiled with
//     the header of the library it runs with leaves it 0. One that may meet a newer library (a binding
//     of another language, say) sets it to the size of the struct as it knows it: later versions add
//     fields at the end only, beyond what was padding, and 0 in a field that was not there means what
//     was done without it. A size larger than the library's is MMUL_ERR_USAGE; nothing is read then.
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

// ---------------------------------------------------------------------------------------- status

// The values are the exit codes of the program (sysexits.h where it has a word for them).
enum mmul_status {
    MMUL_OK = 0,
    MMUL_ERR_USAGE = 64,       // malformed or contradicting request
    MMUL_ERR_DATA = 65,        // a file is not a valid matrix, or shapes do not fit
    MMUL_ERR_NO_INPUT = 66,    // input missing, unreadable, a directory or a FIFO
    MMUL_ERR_UNAVAILABLE = 69, // a device asked for by name is absent or failed
    MMUL_ERR_INTERNAL = 70,    // our bug
    MMUL_ERR_SYSTEM = 71,      // memory, system or MPI failure; versions that differ between ranks
    MMUL_ERR_CREATE = 73,      // output cannot be created, or is one of the inputs
    MMUL_ERR_IO = 74,          // write, space or sync error
    MMUL_ERR_STOPPED = 75,     // stopped part-way
    MMUL_ERR_CONFIG = 78,      // the machine needs fixing first
    MMUL_ERR_WRONG = 79,       // the result is wrong, or two matrices differ
};

// One failure: what failed with the subject quoted, and what to do about it.
struct mmul_error {
    enum mmul_status status;
    char text[1024]; // lower case, no full stop, one line
    char hint[256];  // "" or a plain remedy, one line
};

// ---------------------------------------------------------------------------------------- shapes

// The whole numbers are types of files: they are read as float32, exact below 2^24.
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

// "float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "int8", "int16", "uint16", "uint32", "bool".
MMUL_API const char *mmul_dtype_name(enum mmul_dtype dtype);

// Accepts the names above and f32, f16, bf16, f64, i32, i64, u8, i8, i16, u16, u32. Fails with MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_dtype_parse(const char *text, enum mmul_dtype *dtype,
                                           struct mmul_error *err);

// 4, 2, 2, 8, 4, 8, 1, 1, 2, 2, 4, 1.
MMUL_API size_t mmul_dtype_bytes(enum mmul_dtype dtype);

// Number of matrices in a stack: batch * depth.
MMUL_API int64_t mmul_shape_matrices(struct mmul_shape shape);

// "3 x 2 x 4096 x 1024", leading sizes of 1 left out ("4096 x 1024"). Returns `text`.
MMUL_API char *mmul_shape_format(struct mmul_shape shape, char text[static 96]);

// "RxC", "DxRxC" or "BxDxRxC"; every size in [1, 2^31). Fails with MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_shape_parse(const char *text, struct mmul_shape *shape,
                                           struct mmul_error *err);

// Text to number, whole string, range-checked; `what` names the subject in the error.
// Sizes take K M G T and KiB MiB GiB TiB (all powers of 1024). Fail with MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_parse_int64(const char *text, const char *what, int64_t least,
                                           int64_t most, int64_t *value, struct mmul_error *err);
MMUL_API enum mmul_status mmul_parse_double(const char *text, const char *what, double *value,
                                            struct mmul_error *err);
MMUL_API enum mmul_status mmul_parse_size(const char *text, const char *what, int64_t *bytes,
                                          struct mmul_error *err);

// "1.5 GiB", "20 B". Returns `text`.
MMUL_API char *mmul_bytes_format(int64_t bytes, char text[static 32]);

// Length of the UTF-8 character at `text`; 0: there is none.
MMUL_API int mmul_utf8_length(const char *text);

// Control characters in `text` (C0, DEL, C1 in UTF-8) and bytes that are not UTF-8 become '?', so
// that a name from a file, a host or a device stays on its line and drives no terminal. Returns
// `text`.
MMUL_API char *mmul_make_printable(char *text);

// The candidate nearest to `word` by edit distance, or NULL when none is near (more than a third
// of its letters differ). Borrowed from `candidates`, which ends with NULL.
MMUL_API const char *mmul_nearest(const char *word, const char *const *candidates);

// -------------------------------------------------------------------------------------- matrices

// Of an output 0 is what its name says: its ending, .bin without one. MEMORY is no file.
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

// "bin", "npy", "npz", "safetensors", "csv", "tsv", "mtx", "pt", "gguf"; "memory".
MMUL_API const char *mmul_format_name(enum mmul_format format);

// Formats of other programs may only be read.
MMUL_API bool mmul_format_is_written(enum mmul_format format);

// ".bin", ".npy": what the names of such files end in.
MMUL_API const char *mmul_format_ending(enum mmul_format format);

// The names above, of formats that are written. Fails with MMUL_ERR_USAGE.
MMUL_API enum mmul_status mmul_format_parse(const char *text, enum mmul_format *format,
                                            struct mmul_error *err);

// The element type in which a format that is written holds what is to be stored as `dtype`: float32 where
// it has not that type.
MMUL_API enum mmul_dtype mmul_format_holds(enum mmul_format format, enum mmul_dtype dtype);

// The format that an output of this name gets: `asked`, or by its ending. Fails with MMUL_ERR_USAGE:
// an ending of no format that is written.
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
    enum mmul_dtype stored;    // in the file or memory
    enum mmul_dtype delivered; // by reads: `stored`, but float32 of float64 and whole numbers
    enum mmul_format format;
    int version;          // .bin 1 or 2, .npy major version, else 0
    bool one_dimensional; // in the file, and counts as a row
    bool fortran_order;   // .npy; reads deliver C order all the same
    bool big_endian;
    bool has_header;    // .csv, .tsv: the first line names the columns and is no row
    int64_t file_bytes; // of a tensor in a file its elements alone
    int dimensions;     // as its file counts them, at least 2; else without leading sizes of 1
};

// "-" or "/dev/stdin": does this name standard input?
MMUL_API bool mmul_path_is_stdin(const char *path);

// What follows "kept:" in such a name, unless a file is called so; NULL: it is none.
MMUL_API const char *mmul_kept_name(const char *path);

// Opens a .bin, .npy, .npz, .safetensors, .csv, .tsv, .mtx, .pt or .gguf file, told apart by its first bytes, and
// checks header and exact length. A Fortran order .npy is read into memory whole at once; a tensor of an .npz or .pt is
// unpacked, packed elements of a .gguf become float32, and numbers that are text are decoded, to float64 but for
// integers and patterns of a .mtx, into a temporary file; "-" is standard input, read to its end.
//
// Where no file has this name, "FILE:TENSOR" is one of the tensors that FILE holds, "FILE:TENSOR[a:b]"
// the part [a, b) of its first axis, as numpy has it; of the file no other elements are read. A file
// with a single tensor needs no name behind it.
//
// "kept:NAME", or "kept:FOLDER/NAME", is a set of shards of which this machine has all (mmul_split, mmul_program_keep),
// put together in a temporary file and checked by its checksums. Without a folder it is $MPIMATMUL_SHARD_DIR's, else
// mmul_shard_folder. Programs use such sets where they lie (mmul_program_load_kept).
//
// Fails: MMUL_ERR_NO_INPUT (missing, unreadable, directory, FIFO), MMUL_ERR_DATA (not a valid
// matrix; expected and found sizes, or the format it is of, in the text), MMUL_ERR_IO (no room for what is unpacked),
// MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_matrix_open(const char *path, struct mmul_matrix **matrix,
                                           struct mmul_error *err);

// Input files of one job, each of which is opened once: all matrices and lists that are opened through the set are of
// one version of a file, although another file may take its name meanwhile (a training replaces its checkpoint, say).
// Paths are compared as they are spelled and without links. Matrices and lists may outlive the set. For one thread.
struct mmul_inputs;
MMUL_API enum mmul_status mmul_inputs_create(struct mmul_inputs **inputs, struct mmul_error *err);
MMUL_API void mmul_inputs_destroy(struct mmul_inputs *inputs); // NULL is legal

// Of matrices that are opened from now on, tables as text: empty cells, NA and N/A are NaN. Else they are refused.
MMUL_API void mmul_inputs_set_missing(struct mmul_inputs *inputs, bool is_nan);

// mmul_matrix_open and mmul_tensors_open, of a file of the set. NULL: of a file that is opened anew. Fail as those.
struct mmul_tensors;
MMUL_API enum mmul_status mmul_inputs_open_matrix(struct mmul_inputs *inputs, const char *path,
                                                  struct mmul_matrix **matrix,
                                                  struct mmul_error *err);
MMUL_API enum mmul_status mmul_inputs_open_tensors(struct mmul_inputs *inputs, const char *path,
                                                   struct mmul_tensors **tensors,
                                                   struct mmul_error *err);

// *fd: the open file at `path`, which is not empty; borrowed from the set. Fails with MMUL_ERR_NO_INPUT and
// MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_inputs_open_file(struct mmul_inputs *inputs, const char *path,
                                                int *fd, struct mmul_error *err);

// Fails with MMUL_ERR_DATA: the file of the set was written to in place since it was opened (mmul_matrix_was_written).
MMUL_API enum mmul_status mmul_inputs_check_file(const struct mmul_inputs *inputs, const char *path,
                                                 struct mmul_error *err);

// Reads all elements of an open matrix into memory and leaves the file: later changes of it are none of the matrix.
// Fails with MMUL_ERR_DATA (the file was written to since it was opened), MMUL_ERR_NO_INPUT and MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_matrix_detach(struct mmul_matrix *matrix, struct mmul_error *err);

// Wraps `data` (shape's elements of dtype, C order), borrowed until close.
MMUL_API enum mmul_status mmul_matrix_borrow(const void *data, struct mmul_shape shape,
                                             enum mmul_dtype dtype, const char *name,
                                             struct mmul_matrix **matrix, struct mmul_error *err);

// The tensors of a file that may hold several, in the order in which they lie there.
enum { MMUL_TENSOR_DIMENSIONS = 8 };
struct mmul_tensors_info {
    enum mmul_format format;
    int64_t count, file_bytes;
};
struct mmul_tensor {
    const char *name;
    const char *type; // as mmul_dtype_name has it, or the file's own word for one that is not read
    bool is_readable; // the type is read
    int dimensions;   // 0 to MMUL_TENSOR_DIMENSIONS
    int64_t sizes[MMUL_TENSOR_DIMENSIONS];
    int64_t bytes; // of its elements
};

// *tensors NULL: `path` is one matrix (a format that holds no more, an address "FILE:TENSOR"),
// and mmul_matrix_open says whether a valid one. Fails as that does.
MMUL_API enum mmul_status mmul_tensors_open(const char *path, struct mmul_tensors **tensors,
                                            struct mmul_error *err);
MMUL_API void mmul_tensors_close(struct mmul_tensors *tensors);
MMUL_API struct mmul_tensors_info mmul_tensors_info(const struct mmul_tensors *tensors);
MMUL_API struct mmul_tensor mmul_tensors_get(const struct mmul_tensors *tensors, int64_t index);
// True if mmul_matrix_open reads it: a type that is read, 1 to 4 dimensions, no size of 0.
MMUL_API bool mmul_tensor_is_matrix(const struct mmul_tensor *tensor);

// Opens the tensor with this index as a matrix, of the file as the list found it. Fails as mmul_matrix_open.
MMUL_API enum mmul_status mmul_tensors_open_matrix(const struct mmul_tensors *tensors,
                                                   int64_t index, struct mmul_matrix **matrix,
                                                   struct mmul_error *err);

// Classes of objects of a PyTorch file in which there is no tensor, most objects first; the list's. Returns how many
// there are.
struct mmul_tensors_skipped {
    const char *name; // "argparse.Namespace", at most 201 bytes, perhaps with control characters
    int64_t count;    // objects
};
MMUL_API int64_t mmul_tensors_skipped(const struct mmul_tensors *tensors,
                                      const struct mmul_tensors_skipped **classes);
// A text of the file's __metadata__ (.safetensors), the list's; NULL: there is none.
MMUL_API const char *mmul_tensors_metadata(const struct mmul_tensors *tensors, const char *name);

// Reads all elements of the list's file and compares them with the checksums that files of several tensors, as this
// library writes them, have in their metadata ("xxh3" and "xxh3:NAME": XXH3, 64 bits, 16 hexadecimal digits). A file
// without checksums passes. Of a .npz the members of types that are not read are compared with the archive's checksums:
// a damaged header names such a type, too. Fails with MMUL_ERR_DATA (elements differ, or are of several versions of the
// file) and MMUL_ERR_NO_INPUT.
MMUL_API enum mmul_status mmul_tensors_check(const struct mmul_tensors *tensors,
                                             struct mmul_error *err);

MMUL_API void mmul_matrix_close(struct mmul_matrix *matrix);
MMUL_API struct mmul_matrix_info mmul_matrix_info(const struct mmul_matrix *matrix);

// The path or name it was opened with; lives as long as the matrix.
MMUL_API const char *mmul_matrix_name(const struct mmul_matrix *matrix);

// Reads the elements [begin, end) of `region`, counted in the region's own C order (element
// r * (col_end - col_begin) + c), into dst as `delivered` dtype. The region lies inside the shape.
// Fails with MMUL_ERR_DATA when the file has become shorter, or a whole number has no float32 of its own (beyond
// 2^24; its value and place are in the text), MMUL_ERR_NO_INPUT when it cannot be read.
MMUL_API enum mmul_status mmul_matrix_read(struct mmul_matrix *matrix, struct mmul_region region,
                                           int64_t begin, int64_t end, void *dst,
                                           struct mmul_error *err);

// Same, widened to float32 whatever the dtype.
MMUL_API enum mmul_status mmul_matrix_read_float(struct mmul_matrix *matrix,
                                                 struct mmul_region region, int64_t begin,
                                                 int64_t end, float *dst, struct mmul_error *err);

// Same, in double: nothing is lost, not of float64 either. Whole numbers beyond 2^53 are refused.
MMUL_API enum mmul_status mmul_matrix_read_double(struct mmul_matrix *matrix,
                                                  struct mmul_region region, int64_t begin,
                                                  int64_t end, double *dst, struct mmul_error *err);

// How many finite float64 values became infinite so far because reads delivered float32; what is
// read twice counts twice.
MMUL_API int64_t mmul_matrix_overflows(const struct mmul_matrix *matrix);

// True if the file may have been written to in place since it was opened: its size or time differs, or, where it was
// opened within 20 ms of an earlier write, samples of it do. False for memory and for elements that were decoded.
MMUL_API bool mmul_matrix_was_written(const struct mmul_matrix *matrix);

// A matrix stack being written: a file under a temporary name, or the caller's memory.
struct mmul_output;

// What an output is to be.
struct mmul_output_request {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const char *path;    // "-" or "/dev/stdout": standard output, when all is there; FILE:TENSOR
                         // where FILE's ending is .npz or .safetensors names its one tensor, which
                         // is "data" else
    enum mmul_format format; // MMUL_FORMAT_BY_ENDING: as the name says
    struct mmul_shape shape;
    enum mmul_dtype
        dtype;       // what the format has not becomes float32: bfloat16 in .npy, all but float32
                     // and 16-bit types in .bin; as text all are written
    int bin_version; // .bin; 0: 1 for float32, 2 for 16-bit types; 1 (float32 only) or 2
    bool empty_allowed;                // rows and cols of 0: a shard of a part without rows
    struct mmul_matrix *const *inputs; // borrowed, input_count of them: refused as output
    int input_count;
    // 1 (a row) to 4; of all but .bin: the last ones of shape; 0: without leading sizes of 1
    int dimensions;
    // Another output of the same file, which is a .npz or .safetensors, under another tensor's name. The file appears
    // when all of its outputs have been committed, and not at all when one was destroyed. All outputs of a file are
    // created before elements are written to one of them. NULL: none is.
    struct mmul_output *beside;
    // Of a file's first output: texts that stand in it, name after text after name, NULL at the end; .safetensors (its
    // __metadata__) or none. Copied. NULL: none.
    const char *const *metadata;
    // Of a .npz or .safetensors file the name of its tensor, any text, where `path` is the file's alone. Copied. NULL:
    // as `path` says.
    const char *tensor;
};

// Of an output FILE:TENSOR the length of FILE. several: may it have more tensors? Then *tensor is the name of this one
// ("data" where none is given), else "".
MMUL_API size_t mmul_output_file_length(const char *path, bool *several, const char **tensor);

// The open descriptor that an output's path names: "-", "/dev/stdout", "/dev/stderr", "/dev/fd/N" or
// "/proc/self/fd/N"; -1: the path names a file. Such outputs are written through the descriptor, behind what was
// written there before.
MMUL_API int mmul_path_descriptor(const char *path);

// True if both paths stand for one file, by any of its names (hard links, symbolic ones, ./, ..), also where it is not
// there yet.
MMUL_API bool mmul_paths_are_same(const char *x, const char *y);

// True if the output is standard output. Tables then belong elsewhere.
MMUL_API bool mmul_path_is_stdout(const char *path);

// Starts `path` as `path.part` in the same folder, locked against a second writer, its whole space
// reserved. Inputs are told by device and inode. A `path.part` that a killed run of this user's has left goes; any
// other is refused. A file that stands under `path` leaves its permissions to the output.
// Fails: MMUL_ERR_USAGE (an ending that nobody knows, a bin_version that does not fit),
// MMUL_ERR_CREATE (folder missing or not writable, path is a folder, path is an input, another run
// writes it, `path.part` is another user's, has several links or is no file),
// MMUL_ERR_IO (no space), MMUL_ERR_DATA (a size beyond int32 in .bin).
MMUL_API enum mmul_status mmul_output_create(const struct mmul_output_request *request,
                                             struct mmul_output **output, struct mmul_error *err);

// Writes into caller's memory (shape's elements of dtype, C order), borrowed until destroy. NULL: for plans alone,
// which expect a file that is written where it lies; writing fails with MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_output_borrow(void *data, struct mmul_shape shape,
                                             enum mmul_dtype dtype, struct mmul_output **output,
                                             struct mmul_error *err);

// Writes elements [begin, end) of `region` (counted as in mmul_matrix_read) from float32 values,
// narrowed to the output's dtype (round to nearest even).
MMUL_API enum mmul_status mmul_output_write_float(struct mmul_output *output,
                                                  struct mmul_region region, int64_t begin,
                                                  int64_t end, const float *src,
                                                  struct mmul_error *err);

// Same, from float64 values; what an output of whole numbers has not is refused (MMUL_ERR_DATA).
MMUL_API enum mmul_status mmul_output_write_double(struct mmul_output *output,
                                                   struct mmul_region region, int64_t begin,
                                                   int64_t end, const double *src,
                                                   struct mmul_error *err);

// Same, bytes as they are: src is of the output's own dtype (NaN payloads are kept).
MMUL_API enum mmul_status mmul_output_write(struct mmul_output *output, struct mmul_region region,
                                            int64_t begin, int64_t end, const void *src,
                                            struct mmul_error *err);

// How many finite values became infinite so far because the output's dtype is narrower.
MMUL_API int64_t mmul_output_overflows(const struct mmul_output *output);

MMUL_API enum mmul_dtype mmul_output_dtype(const struct mmul_output *output);
MMUL_API struct mmul_shape mmul_output_shape(const struct mmul_output *output);

// Whether mmul_output_commit waits until the file and its name are on the disk; it does unless told.
// Without that a result that is cut short by a power failure or a crash of the system may have its
// name and not its contents; the failure of a program alone never shows.
MMUL_API void mmul_output_set_sync(struct mmul_output *output, bool sync);

// fsync, rename onto the final name, fsync of the folder. The output is destroyed either way.
MMUL_API enum mmul_status mmul_output_commit(struct mmul_output *output, struct mmul_error *err);

// Discards: the temporary file is removed, an existing file of the final name stays untouched.
MMUL_API void mmul_output_destroy(struct mmul_output *output);

// For a signal handler that is about to end the process: removes the temporary files of all outputs
// of the process; none of them can be committed afterwards (MMUL_ERR_STOPPED). Async-signal-safe.
enum mmul_abandoned {
    MMUL_ABANDONED_NONE,     // there was no output, and none has been committed
    MMUL_ABANDONED_SOME,     // at least one is lost, and none has been committed
    MMUL_ABANDONED_REST,     // at least one is lost, others have been committed
    MMUL_ABANDONED_FINISHED, // none: what there was has been committed, or is being put in its place
};
MMUL_API enum mmul_abandoned mmul_outputs_abandon(void);

// For a process that signal `number` ends: it does that first, and then what it does now, by its default action or
// by a handler that a driver's library has left. An ignored signal stays ignored. A child of the process has the
// handler, too, and leaves the files alone.
MMUL_API void mmul_outputs_abandon_at(int number);

// From here on no output of the process can be committed (MMUL_ERR_STOPPED), also one that is created later, and no
// report stored. Async-signal-safe.
MMUL_API void mmul_outputs_end(void);

// What a run knows about its end while that goes on: the ranks that do not answer any more, and what to do about it.
struct mmul_ending_note {
    char text[256], hint[256];
};

// Root, about 0.4 seconds after mmul_outputs_end on all ranks. NULL: nothing is known. Async-signal-safe.
MMUL_API const struct mmul_ending_note *mmul_ending_explanation(void);

// What stays behind a program that is stopped: its last checkpoint, "FILE holds turn N". "": none. Async-signal-safe.
MMUL_API const char *mmul_ending_kept(void);

// Ends this process, a rank, once the launcher that has started it has ended, also when that was killed: mpirun, its
// daemon on this host, slurmstepd. All outputs are abandoned before, and none is committed after the launcher's death.
// Scripts between launcher and rank do not count as launchers, and a process without a launcher is left alone. Call it
// once, before MPI_Init. Needs Linux 5.3: before, Open MPI ends the ranks a second later.
MMUL_API void mmul_process_end_with_launcher(void);

// ------------------------------------------------------------------------- operations on files

enum mmul_generator {
    MMUL_GENERATE_UNIFORM,  // [-1, 1), multiples of 2^-23
    MMUL_GENERATE_NORMAL,   // mean 0, standard deviation 1
    MMUL_GENERATE_INTEGER,  // -4 .. 4, uniform
    MMUL_GENERATE_IDENTITY, // 1 where row = column
    MMUL_GENERATE_ZEROS,
    MMUL_GENERATE_ONES,
    MMUL_GENERATE_RAND, // [0, 1), multiples of 2^-24
};

// Element e (index in C order over the whole stack) depends on (seed, e) alone, so any part can
// be made anywhere. Source: SplitMix64 (Steele, Lea, Flood 2014); normal by Box-Muller.
MMUL_API void mmul_generate(enum mmul_generator kind, uint64_t seed, struct mmul_shape shape,
                            int64_t begin, int64_t end, float *dst);

MMUL_API enum mmul_status mmul_generator_parse(const char *text, enum mmul_generator *kind,
                                               struct mmul_error *err);

// Writes a generated matrix. Fails as mmul_output_create does, and with MMUL_ERR_USAGE when the
// format cannot hold the request's dtype (float64 in .bin; bfloat16 in .npy).
MMUL_API enum mmul_status mmul_generate_file(enum mmul_generator kind, uint64_t seed,
                                             const struct mmul_output_request *request,
                                             struct mmul_error *err);

struct mmul_convert_options {
    size_t struct_bytes;     // of this struct as the caller knows it; 0: as it is here
    enum mmul_format format; // as in struct mmul_output_request
    bool
        has_dtype; // false: keep the dtype as far as the format can: what it has not becomes float32
    enum mmul_dtype dtype;
    int bin_version; // 0: 1 for float32, 2 for 16-bit; or 1, 2 forced
};

// Writes all of `in` as `out`. overflows: how many finite elements became infinite because the
// dtype that was written is narrower.
MMUL_API enum mmul_status mmul_convert(struct mmul_matrix *in, const char *out,
                                       const struct mmul_convert_options *options,
                                       int64_t *overflows, struct mmul_error *err);

// Writes the tensors of a file as `out`, an .npz or .safetensors file, under their names and with as many axes; those
// that no matrix is (mmul_tensor_is_matrix) are left out. The file appears when all are written. Fails as mmul_convert,
// and with MMUL_ERR_DATA where all are left out.
MMUL_API enum mmul_status mmul_convert_tensors(const struct mmul_tensors *tensors, const char *out,
                                               const struct mmul_convert_options *options,
                                               int64_t *overflows, struct mmul_error *err);

struct mmul_statistics {
    int64_t count, nan_count, inf_count;
    double min, max, mean; // of the finite elements; NaN when there is none
};

MMUL_API enum mmul_status mmul_statistics(struct mmul_matrix *matrix,
                                          struct mmul_statistics *statistics,
                                          struct mmul_error *err);

struct mmul_difference {
    bool same_shape;
    int64_t count; // elements compared
    int64_t
        outside; // |x - y| > tolerance + relative |x|, or classes (NaN, +Inf, -Inf, finite) differ
    double max_absolute;   // over pairs of finite elements
    double mean_absolute;  // over pairs of finite elements
    double max_relative;   // of |x - y| / |x|, over pairs of finite elements where x is not 0
    int64_t first_outside; // index in C order, -1 when none
    double max_reference;  // max |x| over finite elements of the first matrix
};

// Compares two stacks element by element, in double; different shapes are a result, not a failure.
MMUL_API enum mmul_status mmul_diff(struct mmul_matrix *x, struct mmul_matrix *y, double tolerance,
                                    double relative, struct mmul_difference *difference,
                                    struct mmul_error *err);

// ------------------------------------------------------------------------------------- splitting

enum mmul_split_rule {
    MMUL_SPLIT_EXACT,  // largest remainder, ties to the lowest part
    MMUL_SPLIT_HUNDRED // 100 base pieces; the rule of the original files (mpimatmul-files(5))
};

enum mmul_axis { MMUL_ROWS, MMUL_COLS };

// Which axis of C is split among ranks; auto: by bytes moved.
enum mmul_split_choice { MMUL_SPLIT_AUTO, MMUL_SPLIT_ROWS, MMUL_SPLIT_COLS };

// Splits [0, total) into `parts` by weights (positive or zero, finite, sum > 0): writes parts + 1
// offsets. Zero weight means an empty part. Fails with MMUL_ERR_USAGE on unusable weights.
MMUL_API enum mmul_status mmul_split_offsets(int64_t total, int parts, const double *weights,
                                             enum mmul_split_rule rule, int64_t *offsets,
                                             struct mmul_error *err);

// "0.5,0.25,0.25" or "@FILE" (numbers separated by white space or commas, # comments) -> weights,
// heap-allocated, freed by the caller with mmul_free. Checks that each is finite, none negative,
// not all zero. Fails with MMUL_ERR_USAGE, for a malformed file MMUL_ERR_DATA, missing MMUL_ERR_NO_INPUT.
MMUL_API enum mmul_status mmul_weights_parse(const char *text, double **weights, int *count,
                                             struct mmul_error *err);

struct mmul_split_options {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    enum mmul_axis axis;
    enum mmul_split_rule rule;
    int parts;
    const double *weights; // borrowed; NULL: equal
    const char *folder;    // where the shards go; created with mode 0700 when it is missing
};

// "/dev/shm/mpimatmul-<uid>": where shards are when nobody says so. Returns `text`.
MMUL_API char *mmul_shard_folder(char text[static 64]);

// Of an open matrix: writes <name>_shard_<i>.bin (.npy of float64 and whole numbers) for each part and
// <name>_shards.json beside them. Rows (or columns)
// of all matrices of the stack form one range that is split; a shard that crosses matrices is
// stored as [1,1,rows,cols] of its part of that range. An empty part is a header-only file.
// Fails with MMUL_ERR_CREATE when the folder is a symbolic link or another user can write to it.
MMUL_API enum mmul_status mmul_split(struct mmul_matrix *matrix,
                                     const struct mmul_split_options *options,
                                     struct mmul_error *err);

// The reverse: the shards of <name> in the folder -> out, in `format` (as in struct mmul_output_request).
// With a JSON beside the shards, axis, shape and hashes come from it and are checked; without,
// shards 0, 1, ... are joined by rows. Fails with MMUL_ERR_USAGE where a format cannot hold the type.
MMUL_API enum mmul_status mmul_join(const char *name, const char *folder, const char *out,
                                    enum mmul_format format, struct mmul_error *err);

// The format that the shards have, which loses nothing of them: .bin or .npy. Fails as mmul_join does.
MMUL_API enum mmul_status mmul_join_format(const char *name, const char *folder,
                                           enum mmul_format *format, struct mmul_error *err);

// The name rules: removes folder, "_shard_<i>" and the ending of a format from a path; of a tensor in a file
// its name is the name, '/' being '_' then. Returns `name`.
MMUL_API char *mmul_base_name(const char *path, char name[static 256]);

// --------------------------------------------------------------------------------------- devices

enum mmul_device_type { MMUL_DEVICE_CPU, MMUL_DEVICE_GPU, MMUL_DEVICE_ACCELERATOR };

// One device as a user sees it. Plain data: may be sent as bytes between like machines.
struct mmul_device_info {
    char id[16]; // "cpu", "reference", or "P:D" with the numbers of clinfo, ...
    char name[128];
    char vendor[64];
    char platform[64];
    char driver[64];
    char pci[16]; // "0000:65:00.0", or "" when unknown
    enum mmul_device_type type;
    bool probed;     // a look at the machine finds it; else every machine has it
    bool usable;     // `auto` may choose it
    bool has_double; // it multiplies in float64 too
    int compute_units;
    int64_t memory_bytes;
    int64_t max_allocation_bytes;
    char reason[128]; // why `auto` does not choose it; "" when usable
    // Of a CPU ("" of others): the set of its library's kernels that is in force ("SkylakeX"), variables of the
    // environment that decide on it ("OPENBLAS_CORETYPE=Haswell"; "": none), and the vectors that the processor has
    // and these kernels have not ("AVX-512"; "": none).
    char kernels[32], kernels_setting[96], kernels_lack[16];
};

// Is the process's address space large enough for the library and the threads that OpenBLAS has begun
// to start when it was loaded? Where it is not they wait for ever. Fails with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_process_check(struct mmul_error *err);

// Is the limit on the size of files (ulimit -f) of this process, a rank, large enough for the memory that Open MPI
// shares between ranks? Where it is not MPI_Init does not return, so ask before. A process without a launcher shares
// none. Fails with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_process_check_files(struct mmul_error *err);

// Has a thread of this process been left behind in a call of a device that hangs? What the driver registered to be
// called at exit would take away what that thread still works with: a program ends with _exit then.
MMUL_API bool mmul_process_has_abandoned_threads(void);

// What a look at the machine's devices found.
struct mmul_probe;

struct mmul_probe_options {
    size_t struct_bytes;  // of this struct as the caller knows it; 0: as it is here
    double limit_seconds; // the drivers answer within, each time they are asked
    bool ask_again;       // the drivers, whatever is kept of an earlier answer
    // What is wanted, as in struct mmul_context_options: drivers that cannot have it are not asked,
    // none for "cpu", and none for "auto" where PoCL, a CPU, is the only one and there is no device
    // node of a card. NULL: all devices.
    const char *device;
    // Called once when an answer takes more than 2 s, with what is being waited for ("OpenCL drivers to
    // list their devices (libx.so)"); NULL: nobody listens.
    void (*waiting)(void *context, const char *what);
    void *context; // of waiting
};

// Lists devices of all kinds in a child process, so that a driver that crashes or hangs costs a warning
// that names it and not the caller. A good answer is kept in the user's cache folder for later
// processes, until the program's version, a driver's files, its environment or the machine's device
// nodes change, or the machine is started again.
// Call it before MPI_Init and before starting threads: it forks, and it takes a bad driver out of
// this process by setting OCL_ICD_VENDORS / OCL_ICD_FILENAMES.
// No driver at all is a probe with no devices. Fails with MMUL_ERR_SYSTEM (fork, memory) only.
MMUL_API enum mmul_status mmul_probe_create(const struct mmul_probe_options *options,
                                            struct mmul_probe **probe, struct mmul_error *err);
MMUL_API void mmul_probe_destroy(struct mmul_probe *probe);

// Devices in clinfo's order; borrowed.
MMUL_API int mmul_probe_devices(const struct mmul_probe *probe,
                                const struct mmul_device_info **devices);

// Warning lines; borrowed.
MMUL_API int mmul_probe_warnings(const struct mmul_probe *probe, const char *const **warnings);

// Looks for the parameters with which CLBlast multiplies fastest on an OpenCL device of this machine
// and keeps them for all later runs on it, in one file per device (below the user's cache folder).
struct mmul_tune_options {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const char *device;  // "P:D"
    const char *const
        *files; // results of CLBlast's tuners, borrowed; NULL: run these, found on PATH
    int file_count;
    double limit_seconds; // of one tuner; what it found until then counts; 0: an hour
    int64_t size;     // side of what is measured; 0: what the tuner takes, and 1024 for the product
    int64_t fraction; // one of so many of its settings is measured; 0: what the tuner takes
    bool force;       // keep the parameters even when a product is slower with them
    void (*progress)(void *context, const char *line); // NULL: none
    void *progress_context;
};

struct mmul_tune_result {
    struct mmul_device_info device;
    int kernels;         // tuned
    int64_t side;        // of the product that was timed:
    double flops_before; // with CLBlast's own parameters,
    double flops_after;  // and with the tuned ones
    bool stored;         // false: slower, nothing was changed
    char path[512];      // of the file
};

// The parameters are tried in a child process first: products of odd sizes must be right with them.
// To be called before this process has used OpenCL. Takes minutes to hours when it runs the tuners;
// one that crashes is left out. Fails: MMUL_ERR_UNAVAILABLE (no such device, no tuners),
// MMUL_ERR_DATA or MMUL_ERR_NO_INPUT (files), MMUL_ERR_WRONG (wrong products: not kept),
// MMUL_ERR_CREATE or MMUL_ERR_IO (the file cannot be written).
MMUL_API enum mmul_status mmul_tune(const struct mmul_tune_options *options,
                                    struct mmul_tune_result *result, struct mmul_error *err);

// ---------------------------------------------------------------------------------------- doctor

// A look at the machines of a job before there is one: MPI is not started and need not work. Every
// machine of a hostfile is reached the way mpirun would reach it (ssh, or what Open MPI's parameter
// plm_rsh_agent names), runs `program doctor --probe` there for a moment, and the machines connect to
// each other.
struct mmul_doctor_options {
    size_t struct_bytes;  // of this struct as the caller knows it; 0: as it is here
    const char *program;  // how it is called on other machines: a path, or a name on their PATH
    const char *hostfile; // Open MPI's; NULL: this machine alone
    const char *tune;     // a file for mpirun --tune; NULL: none
    const char *folder;   // where results will be written, absolute
    double limit_seconds; // for a machine to answer
};

struct mmul_diagnosis;

// Takes seconds; a machine that does not answer costs the limit. SIGPIPE is to be ignored.
// Fails: MMUL_ERR_NO_INPUT or MMUL_ERR_DATA (hostfile, tune), MMUL_ERR_SYSTEM. What is wrong with the
// machines is no failure but a finding.
MMUL_API enum mmul_status mmul_diagnosis_create(const struct mmul_doctor_options *options,
                                                struct mmul_diagnosis **diagnosis,
                                                struct mmul_error *err);
MMUL_API void mmul_diagnosis_destroy(struct mmul_diagnosis *diagnosis);

// How many things are to be mended; 0: a job can start.
MMUL_API int mmul_diagnosis_findings(const struct mmul_diagnosis *diagnosis);

// Tables of machines, devices and networks (and of every connection), then "READY" or the numbered
// findings, each with the command that mends it.
MMUL_API void mmul_diagnosis_print(const struct mmul_diagnosis *diagnosis, bool with_connections,
                                   FILE *stream);
MMUL_API enum mmul_status mmul_diagnosis_json(const struct mmul_diagnosis *diagnosis, char **text,
                                              struct mmul_error *err);

// What runs on each of these machines: answers questions from stdin on stdout until stdin ends. The
// process does not outlive two minutes without a question.
MMUL_API enum mmul_status mmul_doctor_answer(struct mmul_error *err);

// ---------------------------------------------------------------------------------------- matmul

// Who reads the input files. Root's node uses them where they lie, as far as their type allows.
enum mmul_io {
    MMUL_IO_AUTO,   // every node that sees the same files; the others are sent what they need
    MMUL_IO_ROOT,   // root's node alone
    MMUL_IO_SHARED, // every node: one that does not see them ends the job (MMUL_ERR_NO_INPUT)
};

// How a rank's block is cut for other ranks of its node, which compute what it has not begun when they
// have nothing left to do. So do ranks of root's node for those of other nodes, panel by panel, where
// A, B and C are used where they lie there.
enum mmul_tail {
    MMUL_TAIL_AUTO, // the plan's choice, and nothing where weights are given (those of a device file
                    // included), which are then exactly what every rank gets
    MMUL_TAIL_OFF,  // nobody computes another's lines
    MMUL_TAIL_SHARE // tail_share of it is cut off in parts, also where weights are given; of a rank
                    // that falls behind, what is left of the first part may be claimed, too
};

// What a product is computed in, and C is before it is written: float64 is OpenBLAS's or a device's
// dgemm, whose result is checked to double's precision. Devices without doubles are left out then.
enum mmul_compute {
    MMUL_COMPUTE_AUTO, // float64 where an input is float64 and all others are that or whole numbers,
                       // else float32
    MMUL_COMPUTE_F32,
    MMUL_COMPUTE_F64, // inputs of other types are converted
};

// How far a run is, by what was predicted and what has been seen since; it never goes back.
struct mmul_progress {
    const char *phase;               // "multiply", or of programs "plan", "run"
    double share;                    // of the phase that is over, 0 to 1
    int64_t done_bytes, total_bytes; // of the results; 0: there are none in this phase
    double flops_per_second;         // until now; 0: nothing is known
    double left_seconds;             // predicted; negative: nothing is known
};

// C = alpha op(A) op(B) + beta C_in for every matrix of the stacks; a batch or depth of 1 in A or
// B is repeated. Fields marked (root) are read on root only, the rest must agree on all ranks.
struct mmul_matmul {
    size_t struct_bytes;        // of this struct as the caller knows it; 0: as it is here
    struct mmul_matrix *a;      // (root) borrowed; (m, k), or (k, m) when transposed
    struct mmul_matrix *b;      // (root) borrowed; (k, n), or (n, k) when transposed
    struct mmul_matrix *c_in;   // (root) borrowed; (m, n) like C, or 1 in any of
                                // its sizes, which repeats; NULL: none, beta must be 0
    struct mmul_output *output; // (root) consumed by mmul_run: committed when all is right, else
                                // discarded; stays the caller's when mmul_run is not reached
    bool output_in_place; // (root) without an output, for a plan alone: expect one that root's
        // node computes where it lies, a .bin or .npy file of the type computed in
    bool transpose_a, transpose_b;
    float alpha, beta; // finite; alpha 0: A and B are not read; beta 0: C_in is not read

    const char *weights; // (root) "auto" (also NULL): measured speeds; "equal"; "0.5,0.25,0.25";
                         // "@FILE": one per rank
    enum mmul_split_choice split;
    enum mmul_split_rule split_rule;
    enum mmul_io io;
    int64_t memory_limit_bytes;        // per node; 0: what the system has available
    int64_t device_memory_limit_bytes; // per device; 0: what the device has
    enum mmul_tail tail;
    double tail_share; // MMUL_TAIL_SHARE: 0.001 to 0.9
    bool reproducible; // weights are stored or equal, never measured now, and nothing is claimed: a
                       // result has the same bits in every run on the same devices
    bool no_verify;
    bool no_fallback; // a device that fails ends the run; wrong rows are recomputed all the same
    double device_timeout_seconds; // a device with memory of its own that takes longer for one
                                   // product, or for one call while it is measured, counts as hung
                                   // and is replaced; 0: 20 times what is expected, at least 30; 60
                                   // while it is measured. What it was given is not unmapped later
    uint64_t verify_seed;          // (root, when the plan is made) 0: fresh

    // Called on root now and then during a run; NULL: not at all.
    void (*progress)(void *progress_context, const struct mmul_progress *progress);
    void *progress_context;
    // What a run wants to say while it is under way: a line about a rank that does not move. On root's
    // main thread and, about root, on rank 1's; NULL: nobody listens.
    void (*notice)(void *progress_context, const char *text);

    bool trace; // record what every rank does when, for mmul_report_store_trace: some MiB per rank,
                // beside memory_limit_bytes. The same on all ranks

    enum mmul_compute compute;
    double exact_alpha, exact_beta; // alpha and beta of a product in float64; 0: those above
};

// Shape and natural dtype of the result (the common 16-bit type when all inputs have it, else the one
// it is computed in). Local. Fails with MMUL_ERR_DATA when shapes do not fit (the text names files and sizes).
MMUL_API enum mmul_status mmul_matmul_result(const struct mmul_matmul *args,
                                             struct mmul_shape *shape, enum mmul_dtype *dtype,
                                             struct mmul_error *err);

// A plan: who computes which rows (made by mmul_plan_create in mpimatmul.h).
struct mmul_plan;
MMUL_API void mmul_plan_destroy(struct mmul_plan *plan);

// Who computes which rows, tiles, bytes to each node, memory, predicted seconds. Local.
MMUL_API void mmul_plan_print(const struct mmul_plan *plan, FILE *stream);
// What moves to and from each node, in order: what each transfer waits for and which counters it
// raises. Local.
MMUL_API void mmul_plan_print_steps(const struct mmul_plan *plan, FILE *stream);
MMUL_API enum mmul_status mmul_plan_json(const struct mmul_plan *plan, char **text,
                                         struct mmul_error *err);

// The plan of a job on machines that need not exist, described in a JSON file (format:
// src/plan/simulate/cluster_file.h), with the gain it predicts and other algorithms for comparison. Of `args`
// weights, split, split_rule and both memory limits are used; NULL: defaults. Local.
// Fails: MMUL_ERR_NO_INPUT, MMUL_ERR_DATA (the file), MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM
// (does not fit in memory).
struct mmul_simulation;
MMUL_API enum mmul_status mmul_simulation_create(const char *path, const struct mmul_matmul *args,
                                                 struct mmul_simulation **simulation,
                                                 struct mmul_error *err);
MMUL_API void mmul_simulation_destroy(struct mmul_simulation *simulation);
MMUL_API void mmul_simulation_print(const struct mmul_simulation *simulation, FILE *stream);
// The plan it is about, for as long as the simulation lives.
MMUL_API const struct mmul_plan *mmul_simulation_plan(const struct mmul_simulation *simulation);
MMUL_API enum mmul_status mmul_simulation_json(const struct mmul_simulation *simulation,
                                               char **text, struct mmul_error *err);

// What happened in a run, of one product (made by mmul_run in mpimatmul.h) or of a program (mmul_values_report);
// complete on root only.
struct mmul_report;
MMUL_API void mmul_report_destroy(struct mmul_report *report);

// Of one product a table per rank, then totals; of a program of several operations a line. `verbose`: also that table,
// threads, memory, lines checked and devices that nobody used. Local, root.
MMUL_API void mmul_report_print(const struct mmul_report *report, bool verbose, FILE *stream);

// The schema is in mpimatmul_report.schema.json beside this header.
MMUL_API enum mmul_status mmul_report_json(const struct mmul_report *report, char **text,
                                           struct mmul_error *err);

// The same into a file, by way of a temporary name. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_report_store(const struct mmul_report *report, const char *path,
                                            struct mmul_error *err);

// (root) What every rank did when, as Chrome trace events (chrome://tracing, ui.perfetto.dev), in the
// same way: a process per rank with a thread for its operations, its device, its copies, its links and root's files;
// microseconds on root's clock from the moment that wall_seconds counts from. Fails with MMUL_ERR_USAGE,
// too: the job asked for no trace.
MMUL_API enum mmul_status mmul_report_store_trace(const struct mmul_report *report,
                                                  const char *path, struct mmul_error *err);

// (root) A line, with tabs, for each operation, rank and phase (wait, compute or copy, check), with its seconds on the
// same clock and its sizes. Fails the same way.
MMUL_API enum mmul_status mmul_report_store_log(const struct mmul_report *report, const char *path,
                                                struct mmul_error *err);

// Two runs side by side: files that --report or mul --json wrote, or two that `run --json` wrote. What differs in their
// setting, numbers of both and the second over the first, of the whole, of ranks and operations. Local. Fails with
// MMUL_ERR_NO_INPUT or MMUL_ERR_DATA (damaged, not of one kind).
struct mmul_comparison;
MMUL_API enum mmul_status mmul_comparison_create(const char *a, const char *b,
                                                 struct mmul_comparison **comparison,
                                                 struct mmul_error *err);
MMUL_API void mmul_comparison_destroy(struct mmul_comparison *comparison);
// As tables; `verbose`: all operations, and not only those that differ most. As JSON (text released with mmul_free),
// whose schema is in mpimatmul_compare.schema.json beside this header.
MMUL_API void mmul_comparison_print(const struct mmul_comparison *comparison, bool verbose,
                                    FILE *stream);
MMUL_API enum mmul_status mmul_comparison_json(const struct mmul_comparison *comparison,
                                               char **text, struct mmul_error *err);

// A run as one HTML file that needs no network, for people: who did what, when and how fast, with bars, a time line,
// tables. Made of what the run has left behind. Local, root.
struct mmul_page;
MMUL_API enum mmul_status mmul_page_create(struct mmul_page **page, struct mmul_error *err);
MMUL_API void mmul_page_destroy(struct mmul_page *page);
// A report, in the place of one that is there already, with its trace where the job recorded one; lines that --metrics
// writes. Copied. Fail with MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_page_add_report(struct mmul_page *page,
                                               const struct mmul_report *report,
                                               struct mmul_error *err);
MMUL_API enum mmul_status mmul_page_add_metrics(struct mmul_page *page, const char *lines,
                                                struct mmul_error *err);
// Two runs side by side. Copied. Fails with MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_page_add_comparison(struct mmul_page *page,
                                                   const struct mmul_comparison *comparison,
                                                   struct mmul_error *err);
// A file of those that --report, --trace, --metrics, `run --json` and `compare --json` write: its content says which.
// Fails with
// MMUL_ERR_NO_INPUT or MMUL_ERR_DATA (damaged, none of these, or the page has one of its kind).
MMUL_API enum mmul_status mmul_page_add_file(struct mmul_page *page, const char *path,
                                             struct mmul_error *err);
// The page; released with mmul_free. Into a file, by way of a temporary name: fails with MMUL_ERR_CREATE or
// MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_page_text(const struct mmul_page *page, char **text,
                                         struct mmul_error *err);
MMUL_API enum mmul_status mmul_page_store(const struct mmul_page *page, const char *path,
                                          struct mmul_error *err);

// (root) Events that found no room in the trace.
MMUL_API int64_t mmul_report_dropped_events(const struct mmul_report *report);

// Warning lines of the run, all ranks; borrowed. Local, root.
MMUL_API int mmul_report_warnings(const struct mmul_report *report, const char *const **warnings);

// How many finite elements of the outputs became infinite because their dtype is narrower. Local, root.
MMUL_API int64_t mmul_report_overflows(const struct mmul_report *report);

// Wall seconds of the run. Local, root.
MMUL_API double mmul_report_seconds(const struct mmul_report *report);

// Where the seconds of a run went: what the rank that ended last did or waited for, as in the
// report's JSON. They add up to wall_seconds.
struct mmul_phases {
    double wall_seconds;
    double setup_seconds;   // shared memory, mapped files, work space
    double scatter_seconds; // waiting for operands
    double compute_seconds, verify_seconds;
    double gather_seconds; // waiting for results to leave
    double idle_seconds;   // waiting for the other ranks to end
    double commit_seconds; // of the output file
};

// Local, root.
MMUL_API struct mmul_phases mmul_report_phases(const struct mmul_report *report);

// A product as one machine's BLAS computes it alone, for comparison (mmul_baseline_measure in mpimatmul.h).
struct mmul_baseline {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    int64_t m, n, k;     // all >= 1
    int warmup;          // multiplications that are not counted
    int runs;            // counted ones, >= 1
};

struct mmul_verdict {
    int64_t rows_checked, rows_wrong;
    int64_t first_wrong_matrix, first_wrong_row; // -1 when none
};

// Is C = alpha op(A) op(B)? O(n^2) per matrix, in double, independent of BLAS. Local.
MMUL_API enum mmul_status mmul_verify(const struct mmul_matmul *args, struct mmul_matrix *c,
                                      struct mmul_verdict *verdict, struct mmul_error *err);

// -------------------------------------------------------------------------------------- programs
//
// Several operations on values that stay where they were computed (mmul_program_run in mpimatmul.h).
// A program is built on root alone. Values are float32 or float64, are made once, and are numbered 0, 1, ... in
// the order in which they were added.

// Where a value is. Parts are uneven; of a stack the rows (or columns) of all matrices are one range.
// Grids are a mesh of ranks: rank (i, j) of it has to do with rows i and columns j of the value.
enum mmul_placement_kind {
    MMUL_PLACE_FILE,      // whole, with root: what is loaded
    MMUL_PLACE_ROWS,      // each rank has some rows
    MMUL_PLACE_COLS,      // each rank has some columns
    MMUL_PLACE_GRID,      // each rank has a block
    MMUL_PLACE_REPLICATE, // whole, once on each node
    MMUL_PLACE_PARTIAL,   // each rank has a summand of all of it
    MMUL_PLACE_GRID_ROWS, // ranks (i, ...) have rows i of a grid whole: copies, one on each node
    MMUL_PLACE_GRID_COLS, // ranks (..., j) have columns j whole
};

struct mmul_program;
MMUL_API enum mmul_status mmul_program_create(struct mmul_program **program,
                                              struct mmul_error *err);
MMUL_API void mmul_program_destroy(struct mmul_program *program);

// Each adds one operation. `name` of the result is copied, for tables and errors; NULL: "value 3".
// value: the result. All fail with MMUL_ERR_DATA (shapes that do not fit, with names and sizes),
// MMUL_ERR_USAGE (no such value) and MMUL_ERR_SYSTEM (memory); the program is as before then. Local.

// A matrix of root's, borrowed until the program has run; its name is the value's.
MMUL_API enum mmul_status mmul_program_load(struct mmul_program *program,
                                            struct mmul_matrix *matrix, int *value,
                                            struct mmul_error *err);

// Made in place by whoever holds it, as mmul_generate does.
struct mmul_generated {
    enum mmul_generator kind;
    uint64_t seed;
    struct mmul_shape shape; // sizes >= 1
};
MMUL_API enum mmul_status mmul_program_generate(struct mmul_program *program,
                                                struct mmul_generated generated, const char *name,
                                                int *value, struct mmul_error *err);

// Any operation, by its name: how many operands (n: number allowed in place of a value), parameters, result.
// Formulas and their sources: src/device/reference_map.c. Axes count from the end: -1 columns, -2 rows.
//
//     matmul, transpose                        as below
//     neg exp log log1p sqrt rsqrt abs relu    1: element by element; sizes of x
//     sigmoid tanh silu gelu gelu_tanh
//     softplus sin cos erf arctan expm1
//     floor ceil round (half to even) sign
//     isnan (1 where it is NaN)
//     add subtract multiply divide             2 n: element by element; sizes of 1 repeat. As numpy's
//     floor_divide remainder power             functions of these names; comparisons give 0 and 1
//     maximum minimum equal not_equal less
//     less_equal greater greater_equal
//     where                                    3 n: y where x is not 0, else z
//     softmax                                  1, causal, axis (0: -1): of every row; of row i the first i + 1 + cols -
//                                              rows elements alone
//     normalize                                1: rows of length 1
//     rms_norm, layer_norm                     1 to 2, 1 to 3, epsilon: times the second (1 x cols), plus
//                                              the third
//     topk                                     1, count: (.., rows, 2 count), the largest elements of every
//                                              row, falling, then their columns
//     argmax, argmin                           1, axis (0: -1): that size becomes 1: the place of the largest,
//                                              smallest element
//     sort, argsort                            1, axis (0: -1), descending: of every row the elements in order, their
//                                              columns; equal ones in theirs, NaN behind all
//     rope                                     1, base, interleaved: row i is at position i; scale below 0: turned
//                                              the other way
//     sum mean max min var std                 1, axis -4 to -1: that size becomes 1; 0: all do. var and std
//                                              have ddof 0 (numpy's)
//     prod all any                             1, axis -4 to -1, 0: all. all and any give 0 and 1
//     cumsum                                   1, axis -4 to -1: sums of all elements up to this one
//     slice                                    1, begin, end and step (0: 1) of the four sizes; with a step below 0
//                                              from begin down to end + 1, where end may be -1
//     reshape                                  1, shape: the same elements in C order
//     permute                                  1, axes: size i of the result is size axes[i] of x
//     concat                                   2, axis -1 to -4
//     tile                                     1, shape: how often each of the sizes, as a whole
//     repeat                                   1, axis -4 to -1, count: each element so often
//     triu, tril                               1, count: zeros below, above diagonal k (so many columns to the right)
//     diag, diagonal                           1, count: a matrix with a row on diagonal k; diagonal k as a row
//     outer                                    2: products of all pairs of elements, a row for each of the first
//     einsum                                   2, begin, end, axes: labels above 0 of the sizes of x, y and the result
//                                              (0: the size is 1): sums of products of what has equal ones
//     take                                     2: rows of a matrix x by whole numbers y; of y (1, n) (n, cols),
//                                              of (.., m, n) (.., m, n, cols)
//     add_at                                   3: table x with rows z added at its rows y, an index for each
//     one_hot                                  1, count: of (m, n) (m, n, count), of (d, m, n) (d, m, n, count):
//                                              1 at the index, 0 elsewhere; other numbers than 0 to count - 1 are
//                                              refused when it runs (MMUL_ERR_DATA)
//     cross_entropy                            2: of logits (.., n, v) and indices (.., n) or (.., n, 1) the mean
//                                              of -log softmax at the index (torch's)
//     mse, binary_cross_entropy                2: means over all elements; of logits and numbers from 0 to 1
//                                              (torch's with logits)
//     norm, logsumexp                          1, axis (0: all): the root of the sum of squares, log(sum(exp(x)));
//                                              neither overflows on the way
//     scale_for_squares                        1: of the largest size of an element, or several: 1, or a power of two
//                                              with which squares of such elements neither overflow nor vanish
//     clip                                     1 and two numbers, which may be infinite: no less, no more
//     stop_gradient                            1: x, through which no gradient goes
//     dropout                                  1 and three numbers, p, seed, turn: 0 with probability p (below 1), else
//                                              x / (1 - p); which elements follows from seed, turn and position
//     attention                                3 to 4, causal, scale: softmax(scale q k^T + mask) v of q
//                                              (batch, heads, rows, d), k, v (batch, heads / g, keys, ..); of a mask
//                                              of bools (mmul_program_is_bool) 1: the query may attend to the key,
//                                              0: it may not; a mask of other whole numbers is refused
//                                              (MMUL_ERR_DATA)
//     attention_sums                           4 to 5, causal, scale: of q, k, the result, its gradient, the mask
//                                              (.., rows, 2): log(sum(exp)) of every row of scores, and what a
//                                              row of the result and that of its gradient have as inner product
//     attention_backward_q _k _v _mask         5 to 6, causal, scale: of q, k, v, the result's gradient, these
//                                              sums, the mask: the gradient by each; by k and v of every head of q
enum { MMUL_OPERANDS = 6, MMUL_NUMBER = -2147483647 };

struct mmul_parameters {
    double numbers[MMUL_OPERANDS]; // in place of the operands that are MMUL_NUMBER
    double epsilon, scale, base;
    bool causal, interleaved, descending;
    int axis;
    int64_t count;
    int64_t begin[4], end[4], step[4]; // batch, depth, rows, cols
    int axes[4];
    struct mmul_shape shape;
};

struct mmul_call {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const char *operation;
    int operands[MMUL_OPERANDS]; // values, or MMUL_NUMBER
    int operand_count;
    struct mmul_parameters with; // what the operation does not name is not looked at
    const char
        *origin; // what asks for it, as "attention.py:3:9": stands in front of what is wrong with
                 // its data when it runs; copied. NULL: nothing
};
MMUL_API enum mmul_status mmul_program_apply(struct mmul_program *program,
                                             const struct mmul_call *call, const char *name,
                                             int *value, struct mmul_error *err);

// Gradients of y, which has one element, by `count` of the program's values: gradients[i] has the sizes and the type
// of xs[i]. Adds the operations that make them. Where several elements are as large as a maximum they share; relu and
// abs have 0 at 0. Where the gradient of a result is exactly 0, so are those of its operands, also if a slope there is
// infinite or NaN. Fails with MMUL_ERR_DATA (y has more elements; one of xs holds whole numbers, or y does not depend
// on it; an operation that has no derivative, by its name), MMUL_ERR_USAGE (no such value), MMUL_ERR_SYSTEM (memory);
// the program is as before then. Local.
struct mmul_gradient_request {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    int y;
    const int *xs;
    int count;
    const char *origin; // as in struct mmul_call
};
MMUL_API enum mmul_status mmul_program_gradients(struct mmul_program *program,
                                                 const struct mmul_gradient_request *request,
                                                 int *gradients, struct mmul_error *err);

// Of a value of the program. integers (may be NULL): its elements are whole numbers, indices below 2^24.
MMUL_API struct mmul_shape mmul_program_value_shape(const struct mmul_program *program, int value,
                                                    bool *integers);

// Its elements are True and False, as 1 and 0: those of a comparison, of one_hot, and of what was loaded as bool. What
// picks and moves them keeps that (slices, transposes, take, concat, where, maximum, ...), so do their products and
// 1 - x. As a mask of attention the value says where a query may attend.
MMUL_API bool mmul_program_is_bool(const struct mmul_program *program, int value);

// Its type, as it is now: float64 where it is made of float64 alone. What is made of whole numbers and generated
// matrices alone says float32 and is computed in the type of what reads it. Where an operation has operands of both
// types it needs float32; mmul_program_is_rounded: that made something of this float64 value less exact.
MMUL_API enum mmul_dtype mmul_program_value_dtype(const struct mmul_program *program, int value);
MMUL_API bool mmul_program_is_rounded(const struct mmul_program *program, int value);

// What is loaded from now on is float32, whatever it is in its file.
MMUL_API void mmul_program_use_float32(struct mmul_program *program);

// a @ b: (.., m, k) by (.., k, n); batch and depth of 1 repeat. Checked like every product.
MMUL_API enum mmul_status mmul_program_matmul(struct mmul_program *program, int a, int b,
                                              const char *name, int *value, struct mmul_error *err);

// The last two axes swapped; moves and copies nothing.
MMUL_API enum mmul_status mmul_program_transpose(struct mmul_program *program, int x,
                                                 const char *name, int *value,
                                                 struct mmul_error *err);

// x + y; sizes of 1 repeat.
MMUL_API enum mmul_status mmul_program_add(struct mmul_program *program, int x, int y,
                                           const char *name, int *value, struct mmul_error *err);

// max(x, 0); NaN stays NaN.
MMUL_API enum mmul_status mmul_program_relu(struct mmul_program *program, int x, const char *name,
                                            int *value, struct mmul_error *err);

// x, placed so: a wish that the plan obeys; without one it chooses. Not MMUL_PLACE_FILE
// (MMUL_ERR_USAGE).
MMUL_API enum mmul_status mmul_program_place(struct mmul_program *program, int x,
                                             enum mmul_placement_kind kind, const char *name,
                                             int *value, struct mmul_error *err);

// A wish with more in it: over some of the ranks, which are then the only ones that have anything of the value (not
// MMUL_PLACE_GRID, nor what goes with it). What is computed with such a value is computed there: where that was asked
// for, else with the largest operand, else with the newest one; a gradient where the operation is that it belongs to.
// So stages of a pipeline are values on different ranks.
struct mmul_placement_wish {
    enum mmul_placement_kind kind;
    const int *ranks; // rank_count of them, borrowed; NULL: where its operand is
    int rank_count;
    bool on_all; // ranks NULL: on all, wherever its operand is
    // Gradients go through what makes x on these, backward_count of them; borrowed; NULL: where that is.
    const int *backward_ranks;
    int backward_count;
    const char *pattern; // of mmul_placements_find, borrowed
};

// Fails with MMUL_ERR_USAGE (as mmul_program_place; no ranks, or above 1023), MMUL_ERR_SYSTEM (memory); a rank that the
// job does not have is refused when the program is planned.
MMUL_API enum mmul_status mmul_program_place_as(struct mmul_program *program, int x,
                                                const struct mmul_placement_wish *wish,
                                                const char *name, int *value,
                                                struct mmul_error *err);

// Wishes by the names of values, from a YAML file of one mapping. An entry is one of
//     NAME: rows                                            (cols, replicate, grid)
//     NAME: {shard: cols, ranks: [0, 1]}                    (or replicated: true)
//     NAME: {shard: {axis: 0, workers: [0, 1]}, backward: OTHER}
// where axis 0 is rows and 1 columns, ranks (of MPI) and workers are the same (null: all), what is not split is whole
// on each of them, and gradients go through what makes the value on the ranks of the entry OTHER, or where it is, if
// there is no such entry with ranks. Files of the framework GT are read as they are: `replicated` may stand in the
// shard, and `compile` means nothing. NAME may have * ? [..] as file names in a shell; of several that fit the first
// one counts. Local; not for several threads at once.
struct mmul_placements;

// Fails with MMUL_ERR_NO_INPUT, MMUL_ERR_DATA (FILE:LINE:COLUMN and what is wrong there), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_placements_read(const char *path,
                                               struct mmul_placements **placements,
                                               struct mmul_error *err);
MMUL_API void mmul_placements_destroy(struct mmul_placements *placements);

// False: no entry fits the name, or it says nothing of a place.
MMUL_API bool mmul_placements_find(struct mmul_placements *placements, const char *name,
                                   struct mmul_placement_wish *wish);

// What of the file is not done, for a notice, index 0, 1, ...; NULL: no more. Borrowed.
MMUL_API const char *mmul_placements_notice(const struct mmul_placements *placements, int index);

// Entries that have fitted no name so far, index 0, 1, ...; NULL: no more. Borrowed.
MMUL_API const char *mmul_placements_unused(const struct mmul_placements *placements, int index);

// Writes x to an output of root's of the same shape (MMUL_ERR_DATA), which mmul_program_run
// consumes; it stays the caller's when that is not reached. An output is for one value (MMUL_ERR_USAGE).
MMUL_API enum mmul_status mmul_program_save(struct mmul_program *program, int x,
                                            struct mmul_output *output, struct mmul_error *err);

// Kept values: sets of shards that a job leaves on its ranks, each its part of a value (rows, or columns), for later
// jobs of the same ranks on the same machines. Shard i and the description of the set lie in the folder of rank i
// (shard_folder of its context), as mmul_split would write them, and mmul_join reads them where one machine has all.
// A set is used where it lies; where the plan wants the value elsewhere it moves between the ranks. The plan takes
// the shares of the largest set that it reads, unless weights are given: other ones than the set's are refused.
// mmul_program_plan_create fails where a set is not what its description says: MMUL_ERR_NO_INPUT (missing on a rank),
// MMUL_ERR_DATA (half-written, of other ranks, hosts or another job, shorter, changed), MMUL_ERR_USAGE (weights).

// root's folder, borrowed; NULL: mmul_shard_folder. The value has the name "kept:" `name`.
MMUL_API enum mmul_status mmul_program_load_kept(struct mmul_program *program, const char *folder,
                                                 const char *name, int *value,
                                                 struct mmul_error *err);

// The checksum of the description of the set that the value was loaded from, which differs from set to set. 0: the
// value is none of mmul_program_load_kept.
MMUL_API uint64_t mmul_program_kept_version(const struct mmul_program *program, int value);

// Leaves x as the set `name` when all of the program has run, in place of one that has this name: an earlier one
// stays whole when anything fails before. no_sync: as mmul_output_set_sync. Fails with MMUL_ERR_USAGE (a name that
// is none, a second value of that name).
MMUL_API enum mmul_status mmul_program_keep(struct mmul_program *program, int x, const char *name,
                                            bool no_sync, struct mmul_error *err);

struct mmul_context; // of mpimatmul.h

// Values that outlive their program: x stays where it lies, in memory of the ranks, when the program has run, under the
// number *held (root's; of other ranks no matter) for programs that are planned after that in the same context, until
// it is released. *held before: 0, or the number of what another node holds in its place (mmul_apart_run). Nothing of
// it is copied or moved for that. Local to root; fails as the builders of operations do.
MMUL_API enum mmul_status mmul_program_hold(struct mmul_program *program, int x, int64_t *held,
                                            struct mmul_error *err);

// The value that is held under a number, of an earlier program in this context that has run. Local to root. Fails with
// MMUL_ERR_USAGE (nothing is), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_program_load_held(struct mmul_program *program,
                                                 const struct mmul_context *context, int64_t held,
                                                 const char *name, int *value,
                                                 struct mmul_error *err);

// Root's: gone on all ranks when the next program is planned; its memory when all that the same program has made to be
// held is released. A plan that reads it can be run no more (MMUL_ERR_USAGE). Numbers of nothing are passed by; what is
// held at the end goes with the context.
MMUL_API void mmul_context_release(struct mmul_context *context, int64_t held);

// What of a built program is another thing when it runs again. Values are those of the program.
struct mmul_number_change {
    int value, operand; // a number in place of an operand of the operation that makes the value
    double number;
};
struct mmul_draw_change {
    int value; // a result of dropout
    double seed, turn;
};
struct mmul_matrix_change {
    int value; // of mmul_program_load
    struct mmul_matrix *matrix;
};
struct mmul_held_change {
    int value; // of mmul_program_load_held
    int64_t held;
};
struct mmul_program_changes {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const struct mmul_number_change *numbers;
    const struct mmul_draw_change *draws;
    const struct mmul_matrix_change *matrices;
    const struct mmul_held_change *held;
    int number_count, draw_count, matrix_count, held_count, hold_count;
    int64_t *
        holds; // hold_count: written, the new numbers of what mmul_program_hold holds, in the order of its calls
};

// Gives a program that has run, and that saves nothing, other leaves and numbers; mmul_program_plan_create finds the
// plan of the run before for it then. Matrices are read until the next change and run: the caller keeps them open, as
// for mmul_program_load. Local to root. *is_done false: a leaf is of another shape, type or place than the one that the
// program was built with, a held value is not there, or holds are not hold_count; nothing is changed then, and the
// program has to be built anew. Fails with MMUL_ERR_USAGE (struct_bytes). The caller vouches for numbers that choose
// the operations themselves (bounds of clip, 0 and 1 as bools of where): those it does not change.
MMUL_API enum mmul_status mmul_program_change(struct mmul_program *program,
                                              const struct mmul_context *context,
                                              const struct mmul_program_changes *changes,
                                              bool *is_done, struct mmul_error *err);

// For mmul_keep_part (mpimatmul.h): what one rank has of a matrix, (rows, cols), row-major, row_step >= cols elements
// from row to row; either size may be 0. Float32 or float64, on all ranks the same. axis: rows, of which rank 0 has the
// first and all have as many columns; or columns.
struct mmul_local_part {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const void *data;    // borrowed for the call; NULL where a size is 0
    int64_t rows, cols, row_step;
    enum mmul_dtype dtype;
    enum mmul_axis axis;
};

// A line per operation: result, operands, shape. Without `verbose` in 120 columns, and blocks of operations that are
// alike, as layers of a model are, once under a line that says how often. Local.
MMUL_API void mmul_program_print(const struct mmul_program *program, bool verbose, FILE *stream);

// Which rule every operation follows, what moves from where to where, bytes, predicted seconds, and memory while each
// step goes on, of the node that has most then; then what every rank and device has at most, and in which step (made
// by mmul_program_plan_create in mpimatmul.h). Without `verbose` in 120 columns, and blocks of alike steps once, with
// bytes and seconds of all of them. json: the same, with memory of every rank in every step
// (mpimatmul_program_plan.schema.json); to be freed with mmul_free; fails with MMUL_ERR_SYSTEM.
struct mmul_program_plan;
MMUL_API void mmul_program_plan_destroy(struct mmul_program_plan *plan);
MMUL_API void mmul_program_plan_print(const struct mmul_program_plan *plan, bool verbose,
                                      FILE *stream);
// Predicted seconds, and bytes over the network, of the operations that make values begin .. end - 1, and of moves for
// these.
MMUL_API void mmul_program_plan_cost(const struct mmul_program_plan *plan, int begin, int end,
                                     double *seconds, double *network_bytes);
// What of those seconds is left where every node does its part of them apart, so that nothing goes between nodes.
MMUL_API double mmul_program_plan_apart_seconds(const struct mmul_program_plan *plan, int begin,
                                                int end);
// The mean of what nodes have apart of a value of that size, on all of them: seconds, and bytes over the network.
MMUL_API void mmul_program_plan_mean_cost(const struct mmul_program_plan *plan, int value,
                                          double *seconds, double *network_bytes);
MMUL_API enum mmul_status mmul_program_plan_json(const struct mmul_program_plan *plan, char **text,
                                                 struct mmul_error *err);

// Where a value will be, while it is needed: "rows 0 2050 4096"; `text` is room for that. A loaded value is where it
// is moved to first, else in its file. Local; the same on all ranks.
MMUL_API const char *mmul_program_plan_placement(const struct mmul_program_plan *plan, int value,
                                                 enum mmul_placement_kind *kind,
                                                 char text[static 96]);

// What a run leaves on the ranks: the values, where they were computed (made by mmul_program_run in
// mpimatmul.h).
struct mmul_values;
MMUL_API void mmul_values_destroy(struct mmul_values *values);

// The same of a value that is there, or was.
MMUL_API const char *mmul_values_placement(const struct mmul_values *values, int value,
                                           enum mmul_placement_kind *kind, char text[static 96]);

// What a run was, the same on all ranks but for its seconds, of which root's are until the outputs stood. Local.
struct mmul_values_summary {
    double wall_seconds;    // from warm devices on
    double startup_seconds; // before that, as far as no earlier run of the context had them
    double flops;           // of what is calculated: copies and look-ups have none
    int ranks, step_count;
    bool verified;                                               // results were to be checked
    int64_t lines_checked, blocks_recomputed, fallback_products; // of all ranks
    double joules; // of all ranks' devices, each counted once; NAN: not measured of one of them
};
MMUL_API struct mmul_values_summary mmul_values_summary(const struct mmul_values *values);

// Several programs, one after the other.
struct mmul_programs_summary {
    int64_t programs, steps;
    double wall_seconds, flops;
    int64_t lines_checked, blocks_recomputed, fallback_products;
    double joules; // NAN: not measured in one of them
};
MMUL_API void mmul_programs_add(struct mmul_programs_summary *all,
                                const struct mmul_values *values);
// For the report of the last one: those before it. Root.
MMUL_API void mmul_values_set_before(struct mmul_values *values,
                                     const struct mmul_programs_summary *before);

// The name of the text, for the report. Root.
MMUL_API void mmul_values_set_text_name(struct mmul_values *values, const char *name);

// All that is known of it, borrowed from the values; complete on root only.
MMUL_API const struct mmul_report *mmul_values_report(const struct mmul_values *values);

// What this rank holds of a value: a rectangle of each of some matrices. Element (i, j) of the matrix
// is data[(i - region.row_begin) * row_step + (j - region.col_begin) * col_step], or of doubles; borrowed until the
// values are destroyed. Of a value that is whole on the node (replicate) it is all of it, of one that
// is a sum (partial) this rank's summand. No part is there of a value that could not be kept (keep_values,
// mpimatmul.h). Local.
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

// ------------------------------------------------------------------------------ texts of programs
//
// A program as a text: a small part of Python (mpimatmul-programs(7)). It is read on root, into a program of
// the kind above; files are opened where it loads and saves them.

struct mmul_script;

// A node, for what nodes do apart (mmul_apart_run of mpimatmul.h).
struct mmul_apart_node {
    double share; // what it can do of all, which are 1
    int ranks;
};

struct mmul_script_request {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const char *path; // of the text, for errors too; "-": standard input; NULL: errors say no place
    const char
        *text; // the text itself, text_bytes of it, as long as the script; NULL: what `path` holds
    size_t text_bytes;
    const char *const
        *settings;     // "NAME=VALUE", setting_count of them: VALUE in place of the literal in the
    int setting_count; // first line `NAME = literal` at the top of the text
    bool only_checked; // outputs are not begun: the program is to be planned, not run
    bool no_sync;      // of outputs, as mmul_output_set_sync
    bool use_float32;  // as mmul_program_use_float32
    // What is saved is of the 16-bit type that all files loaded before have, if there is one. Else, and
    // without this, it is of the type that it is computed in.
    bool common_types;
    const char *
        shard_folder; // root's, of kept sets ("kept:NAME"), as long as the script; NULL: mmul_shard_folder
    enum mmul_dtype
        narrow; // MMUL_F16, MMUL_BF16: files of what is computed in float32 hold it so; MMUL_F32: not
    // A text with loops that run is several programs, one after the other. Called with each but the last one while the
    // script is created: mmul_script_program is to be planned and run, as the last one, on all ranks of the context,
    // mmul_script_hand_over before it. NULL: such a text is refused (MMUL_ERR_DATA).
    enum mmul_status (*run)(void *run_context, struct mmul_script *script, struct mmul_error *err);
    void *run_context;
    struct mmul_context *context; // where that is; borrowed
    // For programs that nodes carry out apart: mmul_apart_run with these programs, on all ranks; programs NULL:
    // mmul_apart_begin, for `nodes`. NULL: such a text is refused.
    enum mmul_status (*apart)(void *run_context, struct mmul_script *script,
                              const struct mmul_program *const *programs,
                              struct mmul_apart_node *nodes, struct mmul_error *err);
    // A number that is printed, when it is (mmul_script_print), by the name that the text has for it. NULL: not told.
    void (*measured)(void *run_context, const char *name, double value);
    bool
        skips_nan; // where a gradient is not finite its optimiser makes no step; else the run fails
    // Wishes for what the text assigns to names; of tuples "NAME.0", "NAME.1.3". Borrowed, as long as the script.
    struct mmul_placements *placements;
    bool missing_is_nan; // as mmul_inputs_set_missing
};

// Fails with MMUL_ERR_DATA (FILE:LINE:COLUMN and what is wrong there), MMUL_ERR_USAGE (settings),
// MMUL_ERR_NO_INPUT (the text, or what it loads), and as mmul_matrix_open and mmul_output_create. Local.
MMUL_API enum mmul_status mmul_script_create(const struct mmul_script_request *request,
                                             struct mmul_script **script, struct mmul_error *err);
MMUL_API void mmul_script_destroy(struct mmul_script *script);

// For mmul_program_plan_create; lives as long as the script, its files too.
MMUL_API const struct mmul_program *mmul_script_program(const struct mmul_script *script);

// Nothing is to be run: what stands behind a loop, in a turn, or in all of a text, has lines at most. They are printed
// and accepted (mmul_script_print, mmul_script_accept) without a plan.
MMUL_API bool mmul_script_is_over(const struct mmul_script *script);

// Which turn of its outermost loop the program at hand is of. False: of none. Local, root.
struct mmul_script_turn {
    int64_t at, first, end; // first <= at < end
    int64_t windows;        // that batches have taken so far: of texts, or rows of tables
    bool may_break;         // any turn may be the last one
};
MMUL_API bool mmul_script_turn(const struct mmul_script *script, struct mmul_script_turn *turn);

// Is one of its outputs standard output?
MMUL_API bool mmul_script_writes_stdout(const struct mmul_script *script);

// What it loads, index 0, 1, ...; NULL: no more. Borrowed. is_rounded (may be NULL): mmul_program_is_rounded of it.
MMUL_API const struct mmul_matrix *mmul_script_input(const struct mmul_script *script, int index,
                                                     bool *is_rounded);

// Values that a loop carries on and that get another type in it, index 0, 1, ...: a line each ("'x' is float64 and
// becomes float32 in the loop of line 3"). NULL: no other. Borrowed.
MMUL_API const char *mmul_script_note(const struct mmul_script *script, int index);

// Is `path` the text, or a file that it loads or saves?
MMUL_API bool mmul_script_uses(const struct mmul_script *script, const char *path);

// To be called before mmul_program_run, which then has the outputs.
MMUL_API void mmul_script_hand_over(struct mmul_script *script);

// For the program's options: fails with MMUL_ERR_WRONG where values that are asserted to be close are
// not, or gradients not finite. `script` is a struct mmul_script.
MMUL_API enum mmul_status mmul_script_accept(void *script, struct mmul_error *err);

// When the program has run, index 0, 1, ...: which optimiser has made no step, in a line. False: no other. Local, root.
MMUL_API bool mmul_script_skipped(const struct mmul_script *script, int index,
                                  char line[static 256]);

// The next warning about the text, "FILE:LINE:COLUMN: ..."; each place has one. As long as the script. False: no other
// so far. Local, root.
MMUL_API bool mmul_script_warning(struct mmul_script *script, const char **line);

// A line for the user about the checkpoint that the text has restored: its file and turn. As long as the script. False:
// nothing was restored, or the line has been asked for before. Local, root.
MMUL_API bool mmul_script_restored(struct mmul_script *script, const char **line);

// For the program's `arrived`: a value is in root's memory.
MMUL_API void mmul_script_arrive(struct mmul_script *script, const struct mmul_output *output);

// Prints the next lines of the text's, up to the first of which a value has not arrived: words, numbers, and of
// matrices shapes, placements, corners, statistics. is_due: there is such a line. metrics gets a line of JSON for each
// value among them: turn (null: none), line of the text, name, value (of a larger matrix shape, min, max, mean; null:
// NaN or infinite), seconds since the script was begun. NULL: not there; what no stream gets mmul_script_json has.
// has_open_line: what was printed last goes on (print(x, end="")).
MMUL_API bool mmul_script_is_due(const struct mmul_script *script);
MMUL_API bool mmul_script_has_open_line(const struct mmul_script *script);
MMUL_API void mmul_script_print(struct mmul_script *script, const struct mmul_program_plan *plan,
                                FILE *stream, FILE *metrics);

// When the program has run: seconds, speed and what the check says in a line, and what was saved, with its shape.
MMUL_API void mmul_script_print_outcome(const struct mmul_script *script,
                                        const struct mmul_values *values, bool verbose,
                                        FILE *stream);

// Of a text that is only checked (only_checked), in a line for each loop that runs: its turns, predicted seconds and
// bytes between nodes of one, as the plan of the program has it, and what is carried from turn to turn; in another one
// for what nodes do apart, or, where its optimisers' gradients go between nodes, what they would save if they did.
MMUL_API void mmul_script_print_loops(const struct mmul_script *script,
                                      const struct mmul_program_plan *plan, FILE *stream);

// When the program has run: all of that as JSON (mpimatmul_run.schema.json); to be freed with mmul_free. values: NULL
// where nothing was to be run. before: of the programs that have run before it. Fails with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_script_json(struct mmul_script *script,
                                           const struct mmul_program_plan *plan,
                                           const struct mmul_values *values,
                                           const struct mmul_programs_summary *before, char **text,
                                           struct mmul_error *err);

// --------------------------------------------------------------------------------- jobs under way

// How a job of this user's stands: what its first process (root, of one context) says twice a second in a file of a
// folder that is the user's alone: $XDG_RUNTIME_DIR/mpimatmul where that is such a folder, else /tmp/mpimatmul-<uid>.
// A job of less than half a second says nothing. NAN: not known, or not told by the system.
struct mmul_job_rank {
    char host[64], device[128], device_name[128]; // "cpu"; "Intel Xeon ..."
    char computes[160];                           // what it is at: "matmul + gelu"; "": nothing
    double share;                                 // of the work: what the plan gives it, 0 to 1
    double done;                                  // of its part of the run at hand, 0 to 1
    double flops_per_second;                      // of the last seconds
    double memory_bytes;   // resident; what ranks of a machine share is counted with each of them
    double celsius, watts; // of its device; of a CPU: of the packages that its cores are in
};

enum { MMUL_JOB_NUMBERS = 8, MMUL_JOB_POINTS = 128 };
struct mmul_job_number {
    char name[64]; // as the text prints it
    double value;
};

struct mmul_job_state {
    char id[24];       // its process, "4711"; of a process with several contexts also "4711.2"
    char command[256]; // its command line
    char phase[16];    // "set up", "plan", "run", "multiply"
    double elapsed_seconds, silent_seconds; // since it was begun; since it last said something
    double share;            // that is over, of its loop or else of the run at hand, 0 to 1
    double left_seconds;     // predicted
    double flops_per_second; // of all ranks, in the last seconds
    int64_t turn, end_turn;  // of its outermost loop; end 0: none is at hand
    double turns_per_second;
    double windows_per_second; // windows of texts, rows of tables: what its batches take
    // The numbers printed last, each name once. One of them as a curve: the first whose name has "loss" in it, or else
    // the first one; its turns (or, outside of loops, how many there were before) and values, thinned out.
    struct mmul_job_number numbers[MMUL_JOB_NUMBERS];
    int number_count;
    char curve_name[64];
    double curve_turns[MMUL_JOB_POINTS], curve_values[MMUL_JOB_POINTS];
    int curve_count;
    struct mmul_job_rank *ranks; // owned by the list
    int rank_count;
};

struct mmul_jobs; // as of one moment

// The jobs of both folders, the longest one first. A file whose process is gone is removed; of one that is another
// version's nothing is said. Local; needs no MPI. Fails with MMUL_ERR_CREATE (a folder that is somebody else's, or
// open to others), MMUL_ERR_SYSTEM (memory).
MMUL_API enum mmul_status mmul_jobs_find(struct mmul_jobs **jobs, struct mmul_error *err);
MMUL_API int mmul_jobs_count(const struct mmul_jobs *jobs);
MMUL_API const struct mmul_job_state *mmul_jobs_get(const struct mmul_jobs *jobs, int index);

// As JSON of share/mpimatmul/mpimatmul_top.schema.json; only the one with this id, NULL: all. Released with mmul_free.
MMUL_API enum mmul_status mmul_jobs_json(const struct mmul_jobs *jobs, const char *id, char **text,
                                         struct mmul_error *err);
MMUL_API void mmul_jobs_destroy(struct mmul_jobs *jobs);

// ----------------------------------------------------------------------------------------- texts

// Writes a text file by way of a temporary name; what exists and is no plain file (/dev/null, a
// FIFO) is written to directly. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_text_store(const char *path, const char *text,
                                          struct mmul_error *err);

// ---------------------------------------------------------------------------------------- memory

// Frees what the library allocated for the caller.
MMUL_API void mmul_free(void *memory);

// Bytes the library holds at this moment: zero when everything was destroyed.
MMUL_API int64_t mmul_live_bytes(void);

#ifdef __cplusplus
}
#endif
