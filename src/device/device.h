// SPDX-License-Identifier: MIT
//
// The device table: every operation that the library requests of a CPU or a GPU.
//
// A device holds buffers, each of elements of one dtype (float32, on some devices float64), and
// multiplies them. It never sees a rank, a file or a plan. Calls on one device are not concurrent,
// except as noted at mmul_device_map, mmul_device_call_seconds and mmul_device_abandon.
//
// Uploads, downloads and gemm may return before they are done. Operations on the same buffer happen
// in the order of their calls; those on different buffers may overlap, in any order.
// mmul_device_wait ends them all and reports failures since the last wait. Host memory given to
// them is borrowed until then, or until mmul_device_wait_buffer on the buffer. (Memory that a
// download writes must not be uploaded from before a wait.)
//
// Every call states its dtype. If that is not the buffer's, the call is rejected before it reaches
// the device, which is not lost by that. After any other failure a device is lost: its buffers may
// be destroyed and it may be closed (neither makes a driver call that could hang), and every other
// call fails at once with MMUL_ERR_UNAVAILABLE.
//
// `reference` is the specification: every other device passes the same tests (tests/device).
//
// To ask devices for something new, such as a counter of their energy: an entry of the table, and
// in device.c the answer of kinds without it. faulty_device.c passes it on. Then come the kinds,
// and the caller, usually in exec/worker. Facts that the machine knows, and not the device, belong
// to host/.
#pragma once

#include <stdatomic.h>

#include "mpimatmul_local.h"

struct mmul_tuned_kernel; // device/tuning.h
struct mmul_map;          // device/map.h
struct mmul_matrix_sums;  // device/matrix_sums.h

// The beginning of every device's struct mmul_buffer; set after the buffer has been created.
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
    enum mmul_dtype dtype; // same for all three
    bool transpose_a, transpose_b;
    int64_t m, n, k; // all >= 1
    // finite, not 0 (zero is handled above the device); for float32 products a float32 value
    double alpha;
    struct mmul_operand a; // (m, k), lda >= k; when transposed (k, m), lda >= m
    struct mmul_operand b; // (k, n), ldb >= n; when transposed (n, k), ldb >= k
    double beta; // like alpha, but may be 0: C is not read then (NaN in it does not matter)
    struct mmul_operand c; // (m, n), ldc >= n; no overlap with A or B
};

// Host memory to a rectangle of a device buffer; 16-bit elements are widened to float32 there.
struct mmul_upload {
    struct mmul_operand to;
    int64_t rows, cols;
    const void *host; // (rows, cols), row-major, host_ld elements between rows
    int64_t host_ld;
    enum mmul_dtype dtype; // type of `host`: the buffer's, or float16 or bfloat16 into float32
};

// A rectangle of a device buffer to host memory, without conversion.
struct mmul_download {
    struct mmul_operand from;
    int64_t rows, cols;
    void *host; // (rows, cols), row-major, host_ld elements between rows
    int64_t host_ld;
    enum mmul_dtype dtype; // type of `host`: the buffer's
};

// Operations of a kind of device; NULL marks a missing optional entry.
struct mmul_device_table {
    const char *kind;  // "cpu", "opencl", "reference", "faulty"
    const char *names; // form of the names, for hints: "faulty:RULES:NAME"
    const char *next;  // name of the fallback device for this kind; NULL: none

    // Properties of all devices of this kind; a wrapper around another device has none of them.
    // Plain: computes by plain loops as specified, right and slow. Trusted: computes operations
    // other than products by loops of this library in host memory, so that no samples of them are
    // checked. Shares its lack: if it fails with MMUL_ERR_SYSTEM, the fallback device would fail,
    // too, because the process lacks a resource.
    bool is_plain, is_trusted, fails_like_fallback;

    // Returns true if `text` has the form of this kind's names. Forms of different kinds are
    // disjoint.
    bool (*is_name)(const char *text);

    // Checks a name beyond its form without opening anything; fails with MMUL_ERR_USAGE. NULL: the
    // form suffices.
    enum mmul_status (*check_name)(const char *text, struct mmul_error *err);

    // Returns the name of the inner device of a wrapper, within `text`; "" if it is missing. NULL:
    // no wrapper.
    const char *(*inner_name)(const char *text);

    // Replaces `next` if the fallback depends on the name. Returns `next` or NULL.
    const char *(*fallback_name)(const char *text, char next[static 128]);

    // Adds the devices of this kind on this machine (device/probe.h) without opening one, and
    // warnings. Options as in mmul_probe_create. NULL: every machine has the kind's devices. Fails
    // with MMUL_ERR_SYSTEM; a broken driver is a warning.
    enum mmul_status (*probe)(const struct mmul_probe_options *options, struct mmul_probe *probe,
                              struct mmul_error *err);

    // Opens the device of this name.
    enum mmul_status (*open)(const char *text, void **self, struct mmul_error *err);
    void (*close)(void *self, bool lost);

    // Describes the device as plain data.
    void (*describe)(const void *self, struct mmul_device_info *info);

    // Sets parameters of one of its kernels for all later products. They stay in this process, even
    // if the device is closed and opened again. NULL: has none.
    enum mmul_status (*tune)(void *self, const struct mmul_tuned_kernel *kernel,
                             struct mmul_error *err);

    // Builds kernels and the like for products of this type with at most `most` = m n k (INFINITY:
    // any size): all work that must not be counted as computing. NULL: nothing to do.
    enum mmul_status (*warm_up)(void *self, enum mmul_dtype dtype, double most,
                                struct mmul_error *err);

    // Returns the bytes of device memory besides the operands: the worst case that one gemm of this
    // size needs, plus the needs of uploads. NULL: none.
    int64_t (*gemm_temporary_bytes)(const void *self, enum mmul_dtype dtype, int64_t m, int64_t n,
                                    int64_t k);

    // Returns true if the device supports buffers of this type. NULL: float32 only.
    bool (*has_dtype)(const void *self, enum mmul_dtype dtype);

    // Creates a buffer of `count` elements with undefined contents on the device.
    enum mmul_status (*buffer_create)(void *self, enum mmul_dtype dtype, int64_t count,
                                      struct mmul_buffer **buffer, struct mmul_error *err);
    void (*buffer_destroy)(void *self, struct mmul_buffer *buffer, bool lost);

    // Makes a buffer of the caller's memory (count elements), borrowed until buffer_destroy. NULL:
    // the device cannot work in host memory; use buffer_create and upload instead.
    enum mmul_status (*buffer_borrow)(void *self, enum mmul_dtype dtype, void *memory,
                                      int64_t count, struct mmul_buffer **buffer,
                                      struct mmul_error *err);

    // Returns true if buffer_borrow may be called. NULL: yes, if buffer_borrow exists.
    bool (*can_borrow)(const void *self);

    // Begin a transfer. The caller leaves the host memory unchanged until `wait` or `wait_buffer`.
    enum mmul_status (*upload)(void *self, const struct mmul_upload *u, struct mmul_error *err);
    enum mmul_status (*download)(void *self, const struct mmul_download *d, struct mmul_error *err);

    enum mmul_status (*gemm)(void *self, const struct mmul_gemm *args, struct mmul_error *err);

    // Returns true if gemm chooses kernels by the position of elements in a product. A wrong result
    // may then be right if the product is cut elsewhere. Such a device works in host memory. NULL:
    // false.
    bool (*gemm_depends_on_cut)(const void *self);

    // Computes one operation other than a product on a block of its result (device/map.h). NULL:
    // the reference's implementation if the device works in host memory; otherwise never called.
    enum mmul_status (*map)(void *self, const struct mmul_map *args, struct mmul_error *err);

    // Computes up to MMUL_FUSED_MAPS_MAX element-wise operations piece by piece. All have the same
    // rows and columns of one matrix and the same type. A later operation reads of an earlier one's
    // result only the element at its own position. NULL: one after the other.
    enum mmul_status (*map_fused)(void *self, const struct mmul_map *maps, int count,
                                  struct mmul_error *err);

    // Computes sums of a matrix in a buffer (device/matrix_sums.h). NULL: the host sums a
    // downloaded copy.
    enum mmul_status (*project)(void *self, const struct mmul_matrix_sums *args,
                                struct mmul_error *err);

    // Waits for all operations. NULL: every call above is complete when it returns.
    enum mmul_status (*wait)(void *self, struct mmul_error *err);

    // Waits for the operations on one buffer and for their dependencies, while others continue.
    // NULL: same as wait.
    enum mmul_status (*wait_buffer)(void *self, struct mmul_buffer *buffer, struct mmul_error *err);

    // Returns seconds of its own clock, never behind the monotonic clock. NULL: the monotonic
    // clock.
    double (*now)(const void *self);

    // Sets the number of threads that the device may use from now on. NULL: not supported.
    void (*set_threads)(void *self, int threads);
};

struct mmul_device {
    const struct mmul_device_table *table;
    void *self;
    bool lost;                // set by any failure
    _Atomic int call;         // enum mmul_device_call
    _Atomic int64_t begin_ns; // start of the call, by the monotonic clock
    struct mmul_device_traffic {
        int64_t uploaded, downloaded;
    } traffic; // bytes between device and host memory since it was opened
};

// State of the thread that uses a device.
enum mmul_device_call { MMUL_CALL_NONE, MMUL_CALL_IN_PROGRESS, MMUL_CALL_ABANDONED };

// Opens a device by name: "cpu", "reference", "P:D", "faulty:RULE[,RULE...]:NAME", or another name
// of the registry. Fails with MMUL_ERR_USAGE (not a device name) or MMUL_ERR_UNAVAILABLE (absent or
// does not open).
enum mmul_status mmul_device_open(const char *text, struct mmul_device **device,
                                  struct mmul_error *err);

// Checks the form of a name without opening anything (`text` as above). Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_device_check_name(const char *text, struct mmul_error *err);

// Returns true if every machine has this device, or its inner device: it needs no probe.
bool mmul_device_needs_no_probe(const char *text);

// Returns the name of the inner device of "faulty:RULES:NAME", within `text`; "" if it is missing.
// NULL: not such a device.
const char *mmul_device_inner_name(const char *text);

// Return properties of the device's kind, from the table.
bool mmul_device_is_plain(const struct mmul_device *device);
bool mmul_device_is_trusted(const struct mmul_device *device);
bool mmul_device_fails_like_fallback(const struct mmul_device *device);

// Closes a device. An abandoned device is left as it is.
void mmul_device_close(struct mmul_device *device);
void mmul_device_describe(const struct mmul_device *device, struct mmul_device_info *info);

// Sets kernel parameters before the first multiplication. Fails with MMUL_ERR_UNAVAILABLE (no
// parameters to set) or MMUL_ERR_DATA (not what its kernels need); the device is not lost by that.
enum mmul_status mmul_device_tune(struct mmul_device *device,
                                  const struct mmul_tuned_kernel *kernel, struct mmul_error *err);

// The table's entries, with fallbacks for optional ones; they maintain `lost`. Rejected calls do
// not lose the device: MMUL_ERR_UNAVAILABLE (a buffer of an unsupported dtype), MMUL_ERR_DATA (a
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
bool mmul_device_gemm_depends_on_cut(const struct mmul_device *device);
bool mmul_device_can_map(const struct mmul_device *device);
// Several threads may call it at once if the device can borrow and is trusted.
enum mmul_status mmul_device_map(struct mmul_device *device, const struct mmul_map *args,
                                 struct mmul_error *err);
enum mmul_status mmul_device_map_fused(struct mmul_device *device, const struct mmul_map *maps,
                                       int count, struct mmul_error *err);
enum mmul_status mmul_device_sum_matrix(struct mmul_device *device,
                                        const struct mmul_matrix_sums *args,
                                        struct mmul_error *err);
enum mmul_status mmul_device_wait(struct mmul_device *device, struct mmul_error *err);
enum mmul_status mmul_device_wait_buffer(struct mmul_device *device, struct mmul_buffer *buffer,
                                         struct mmul_error *err);
void mmul_device_set_threads(struct mmul_device *device, int threads);

// Returns seconds of the clock that measures the device's work.
double mmul_device_now(const struct mmul_device *device);

// Returns the seconds since the current call began, or 0 without one. Callable from another thread.
double mmul_device_call_seconds(const struct mmul_device *device);

// Abandons a device that hangs, from another thread. If a call is in progress, returns true: the
// call will never return, whatever the driver does later. The device is then lost, closing it does
// nothing, and its thread stays in the call. Returns false for a device in host memory: it could
// still write there later, and a CPU does not hang, it is slow.
bool mmul_device_abandon(struct mmul_device *device);

// Returns the name of the fallback device: "cpu" for all but the CPU, "reference" for the CPU, NULL
// for "reference". A faulty device with the rule `everywhere` is followed by the same rules around
// the next device; without that rule, by the next device alone. Returns `next` or NULL.
const char *mmul_device_fallback_name(const char *text, char next[static 128]);
