// SPDX-License-Identifier: MIT
//
// The device table: everything the rest of the library asks of a CPU or a GPU.
//
// A device holds buffers, each of elements of one dtype (float32, some float64), and multiplies them. It never sees a
// rank, a file or a plan.
// Calls on one device come one at a time. Uploads, downloads and gemm may return before they are
// done. Those on the same buffer happen in the order they were begun; those on different buffers may
// overlap, in any order. mmul_device_wait ends them all and reports what failed since the last wait;
// host memory given to them is borrowed until then, or until a mmul_device_wait_buffer on the buffer.
// (So what a download writes must not be uploaded from before a wait.)
// Every call says what dtype it means; where that is not the buffer's it is refused before the device
// hears of it, which is not lost by that.
// After a failure a device is lost: buffers may be destroyed and it may be closed (neither makes a
// driver call that could hang); every other call fails at once with MMUL_ERR_UNAVAILABLE.
//
// `reference` is the written specification: every other device passes the same tests
// (tests/device).
#pragma once

#include <stdatomic.h>

#include "mpimatmul_local.h"

struct mmul_tuned_kernel; // device/tuning.h
struct mmul_map;          // device/map.h
struct mmul_project;      // device/project.h

// What the struct mmul_buffer of every device begins with; set when the buffer has been made.
struct mmul_buffer_head {
    enum mmul_dtype dtype;
    int64_t count; // elements
};

struct mmul_buffer; // defined by each device

// A matrix in a buffer: element (r, c) is at offset + r * ld + c.
struct mmul_operand {
    struct mmul_buffer *buffer;
    int64_t offset, ld; // elements
};

// C := alpha op(A) op(B) + beta C, row-major; accumulation in the operands' type or better.
struct mmul_gemm {
    enum mmul_dtype dtype; // of all three
    bool transpose_a, transpose_b;
    int64_t m, n, k; // all >= 1
    double
        alpha; // finite, not 0 (decided above the device); of float32's values where that is the type
    struct mmul_operand a; // (m, k), lda >= k; when transposed (k, m), lda >= m
    struct mmul_operand b; // (k, n), ldb >= n; when transposed (n, k), ldb >= k
    double beta;           // likewise; 0: C is not read (NaN in it does not matter)
    struct mmul_operand c; // (m, n), ldc >= n; no overlap with A or B
};

// From host memory into a rectangle of a device buffer; 16-bit elements are widened to float32 there.
struct mmul_upload {
    struct mmul_operand to;
    int64_t rows, cols;
    const void *host; // (rows, cols), row-major, host_ld elements between rows
    int64_t host_ld;
    enum mmul_dtype dtype; // of `host`: the buffer's, or float16 or bfloat16 into float32
};

// The way back, as it is.
struct mmul_download {
    struct mmul_operand from;
    int64_t rows, cols;
    void *host; // (rows, cols), row-major, host_ld elements between rows
    int64_t host_ld;
    enum mmul_dtype dtype; // of `host`: the buffer's
};

// What a kind of device can be asked; NULL marks an optional entry.
struct mmul_device_table {
    const char *kind;  // "cpu", "opencl", "reference", "faulty"
    const char *names; // how they are written, for hints: "faulty:RULES:NAME"
    const char *next;  // name of the device that takes over from one of this kind; NULL: none does

    // What every device of this kind is, and others go by; one around another device is none of it.
    // Plain: computes by plain loops, as the specification says, right and slow.
    // Trusted: makes operations but products by loops of this library in host memory; nobody makes samples of them.
    // Shares its lack: where it fails with MMUL_ERR_SYSTEM its successor would, too, for the process lacks something.
    bool is_plain, is_trusted, shares_lack;

    // Whether `text` has the form of this kind's names. No other kind says yes to it.
    bool (*is_name)(const char *text);

    // Checks more than that without opening anything; fails with MMUL_ERR_USAGE. NULL: the form is all.
    enum mmul_status (*check_name)(const char *text, struct mmul_error *err);

    // Of a device around another one: that one's name, in `text`; "" where it has none. NULL: is alone.
    const char *(*inner_name)(const char *text);

    // In place of `next`, where that is not the same for all names. Returns `next` or NULL.
    const char *(*next_name)(const char *text, char next[static 128]);

    // Adds the devices of this kind that the machine has (device/probe.h), without opening one, and
    // what is to be warned of. Options: as mmul_probe_create's. NULL: every machine has what there is.
    // Fails with MMUL_ERR_SYSTEM; a driver that is broken is a warning.
    enum mmul_status (*probe)(const struct mmul_probe_options *options, struct mmul_probe *probe,
                              struct mmul_error *err);

    // Opens the device of this name.
    enum mmul_status (*open)(const char *text, void **self, struct mmul_error *err);
    void (*close)(void *self, bool lost);

    // Its description; plain data.
    void (*describe)(const void *self, struct mmul_device_info *info);

    // Takes parameters of one of its kernels for everything it multiplies from now on. They stay in
    // this process, for this device however often it is opened. NULL: has none.
    enum mmul_status (*tune)(void *self, const struct mmul_tuned_kernel *kernel,
                             struct mmul_error *err);

    // Builds kernels and the like for products in the type, of m n k at most (INFINITY: of any size): everything that
    // must not be counted as work. NULL: nothing to do.
    enum mmul_status (*warm_up)(void *self, enum mmul_dtype dtype, double most,
                                struct mmul_error *err);

    // Bytes of device memory beside the operands: what one gemm of this size needs for itself in the
    // worst case, and what uploads need. NULL: none.
    int64_t (*gemm_temporary_bytes)(const void *self, enum mmul_dtype dtype, int64_t m, int64_t n,
                                    int64_t k);

    // Has it buffers of these elements? NULL: of float32 alone.
    bool (*has_dtype)(const void *self, enum mmul_dtype dtype);

    // `count` elements on the device, contents undefined.
    enum mmul_status (*buffer_create)(void *self, enum mmul_dtype dtype, int64_t count,
                                      struct mmul_buffer **buffer, struct mmul_error *err);
    void (*buffer_destroy)(void *self, struct mmul_buffer *buffer, bool lost);

    // A buffer that is the caller's memory (count elements), borrowed until buffer_destroy.
    // NULL: the device cannot work in host memory; buffer_create and upload instead.
    enum mmul_status (*buffer_borrow)(void *self, enum mmul_dtype dtype, void *memory,
                                      int64_t count, struct mmul_buffer **buffer,
                                      struct mmul_error *err);

    // Whether buffer_borrow may be called. NULL: whenever it is there.
    bool (*can_borrow)(const void *self);

    // Begin a transfer; host memory stays as it is until `wait` or `wait_buffer`.
    enum mmul_status (*upload)(void *self, const struct mmul_upload *u, struct mmul_error *err);
    enum mmul_status (*download)(void *self, const struct mmul_download *d, struct mmul_error *err);

    enum mmul_status (*gemm)(void *self, const struct mmul_gemm *args, struct mmul_error *err);

    // Does gemm choose kernels by where elements lie in a product, so that what it got wrong may be right when the
    // product is cut elsewhere? Then it works in host memory. NULL: no.
    bool (*recuts)(const void *self);

    // One operation but a product on a block of its result (device/map.h). NULL: the reference's, where
    // the device works in host memory; else it is not asked for.
    enum mmul_status (*map)(void *self, const struct mmul_map *args, struct mmul_error *err);

    // Up to MMUL_MAPS_TOGETHER of them, of operations on elements of the same rows and columns of one matrix, in one
    // type, of which later ones read, of what earlier ones make, the element that they make themselves: piece by piece
    // through all of them. NULL: one after the other.
    enum mmul_status (*map_together)(void *self, const struct mmul_map *maps, int count,
                                     struct mmul_error *err);

    // Sums of a matrix in a buffer (device/project.h). NULL: it is downloaded, and the host sums.
    enum mmul_status (*project)(void *self, const struct mmul_project *args,
                                struct mmul_error *err);

    // Ends everything begun. NULL: every call above was done when it returned.
    enum mmul_status (*wait)(void *self, struct mmul_error *err);

    // Ends what was begun on one buffer, and whatever that depends on; the rest goes on. NULL: wait.
    enum mmul_status (*wait_buffer)(void *self, struct mmul_buffer *buffer, struct mmul_error *err);

    // Seconds on a clock of its own, never behind the monotonic one's. NULL: goes by that.
    double (*now)(const void *self);

    // Threads the device may use from now on. NULL: has none to set.
    void (*set_threads)(void *self, int threads);
};

struct mmul_device {
    const struct mmul_device_table *table;
    void *self;
    bool lost;                // set by any failure
    _Atomic int call;         // enum mmul_device_call
    _Atomic int64_t begin_ns; // of the call, by the monotonic clock
    struct mmul_device_traffic {
        int64_t uploaded, downloaded;
    } traffic; // bytes between it and host memory since it was opened
};

// Where the thread that uses a device is.
enum mmul_device_call { MMUL_CALL_NONE, MMUL_CALL_UNDER_WAY, MMUL_CALL_ABANDONED };

// Opens a device by name: "cpu", "reference", "P:D", "faulty:RULE[,RULE...]:NAME", or what else the
// registry has.
// Fails: MMUL_ERR_USAGE (not a device name), MMUL_ERR_UNAVAILABLE (absent or does not open).
enum mmul_status mmul_device_open(const char *text, struct mmul_device **device,
                                  struct mmul_error *err);

// Checks the form of a name without opening anything (`text` as above). Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_device_check_name(const char *text, struct mmul_error *err);

// Whether every machine has this device, or the one inside of it: nothing needs to be probed for it.
bool mmul_device_is_everywhere(const char *text);

// The name of the device inside of a "faulty:RULES:NAME", in `text`; "" where it has none. NULL: it
// is no such device.
const char *mmul_device_inner_name(const char *text);

// What its kind is, by the table.
bool mmul_device_is_plain(const struct mmul_device *device);
bool mmul_device_is_trusted(const struct mmul_device *device);
bool mmul_device_shares_lack(const struct mmul_device *device);

// One that was abandoned is left as it is.
void mmul_device_close(struct mmul_device *device);
void mmul_device_describe(const struct mmul_device *device, struct mmul_device_info *info);

// Gives the device parameters before its first multiplication. Fails with MMUL_ERR_UNAVAILABLE (it
// has none to set) or MMUL_ERR_DATA (not what its kernels need); it is not lost by that.
enum mmul_status mmul_device_tune(struct mmul_device *device,
                                  const struct mmul_tuned_kernel *kernel, struct mmul_error *err);

// The table's entries, with the fallbacks of the optional ones, and `lost` kept. Refused, without a
// loss: MMUL_ERR_UNAVAILABLE (a buffer of a dtype that the device has none of), MMUL_ERR_DATA (a
// transfer or product of another dtype than the buffers').
enum mmul_status mmul_device_warm_up(struct mmul_device *device, enum mmul_dtype dtype, double most,
                                     struct mmul_error *err);
int64_t mmul_device_gemm_temporary_bytes(const struct mmul_device *device, enum mmul_dtype dtype,
                                         int64_t m, int64_t n, int64_t k);
bool mmul_device_can_borrow(const struct mmul_device *device);
bool mmul_device_has_dtype(const struct mmul_device *device, enum mmul_dtype dtype);
enum mmul_status mmul_device_buffer_create(struct mmul_device *device, enum mmul_dtype dtype,
                                           int64_t count, struct mmul_buffer **buffer,
                                           struct mmul_error *err);
enum mmul_status mmul_device_buffer_borrow(struct mmul_device *device, enum mmul_dtype dtype,
                                           void *memory, int64_t count, struct mmul_buffer **buffer,
                                           struct mmul_error *err);
void mmul_device_buffer_destroy(struct mmul_device *device, struct mmul_buffer *buffer);
enum mmul_status mmul_device_upload(struct mmul_device *device, const struct mmul_upload *u,
                                    struct mmul_error *err);
enum mmul_status mmul_device_download(struct mmul_device *device, const struct mmul_download *d,
                                      struct mmul_error *err);
enum mmul_status mmul_device_gemm(struct mmul_device *device, const struct mmul_gemm *args,
                                  struct mmul_error *err);
bool mmul_device_recuts(const struct mmul_device *device);
bool mmul_device_can_map(const struct mmul_device *device);
// By several threads at once where the device can borrow and is trusted.
enum mmul_status mmul_device_map(struct mmul_device *device, const struct mmul_map *args,
                                 struct mmul_error *err);
enum mmul_status mmul_device_map_together(struct mmul_device *device, const struct mmul_map *maps,
                                          int count, struct mmul_error *err);
enum mmul_status mmul_device_project(struct mmul_device *device, const struct mmul_project *args,
                                     struct mmul_error *err);
enum mmul_status mmul_device_wait(struct mmul_device *device, struct mmul_error *err);
enum mmul_status mmul_device_wait_buffer(struct mmul_device *device, struct mmul_buffer *buffer,
                                         struct mmul_error *err);
void mmul_device_set_threads(struct mmul_device *device, int threads);

// Seconds by which what the device does is measured.
double mmul_device_now(const struct mmul_device *device);

// From another thread: for how long a call has been under way; 0: none is.
double mmul_device_call_seconds(const struct mmul_device *device);

// For a device that hangs, from another thread: if a call is under way it will never return, whatever
// the driver does later, and true is returned. The device is lost then; closing it does nothing, and
// its thread stays behind in the call. False for a device that works in host memory: nothing would keep
// it from writing there later, and a CPU does not hang, it is slow.
bool mmul_device_abandon(struct mmul_device *device);

// Name of the device that takes over when this one fails or errs: anything but the CPU -> "cpu",
// the CPU -> "reference", "reference" -> NULL. A faulty device with the rule `everywhere` is
// followed by the same rules around the next one; without it by the next one alone.
// Returns `next` or NULL.
const char *mmul_device_next_name(const char *text, char next[static 128]);
