// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: one call fails. The caller is the project's own code, or a small library for it.
// Calls by MPI and by drivers pass. tests/fail_calls.py is the driver.
//
// Environment variables choose the call:
//   MMUL_FAIL=KIND:N:VALUE   The N-th call of this kind: memory, thread, file, mpi or opencl.
//                            N of 0: no call fails.
//                            VALUE: errno or the returned code. "short": read or write one byte.
//   MMUL_FAIL_RANK=R         On this rank alone.
//   MMUL_FAIL_LOG=FILE       Appends a line for the failed call, or with N of 0 for each call.
//                            The line has number, function and return addresses.
//
// Children of the process are left alone. Without MMUL_FAIL nothing changes.
//
// A wrapper passes on fourteen words, because all arguments are integers or pointers. Words behind
// the last argument are ignored. No header therefore declares the functions.
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRAMES = 16, MAP_PRIVATE_MEMORY = 0x20 };

// Ways to report a failure: NULL or -1 and errno, a code, or NULL and a code at an address that is
// an argument.
enum way { BY_NULL, BY_MINUS_ONE, BY_CODE, BY_CODE_AT };

struct call {
    const char *kind, *name;
    enum way way;
    int place; // argument with the code's address; 3: with the bytes of which `short` moves one
    void *next;
};

static struct {
    bool is_on, is_short, is_set_up;
    char kind[16];
    long number;
    int value;
    const char *log;
} chosen;

static _Atomic long seen;

__attribute__((constructor)) static void set_up(void) {
    const char *text = getenv("MMUL_FAIL"), *rank = getenv("MMUL_FAIL_RANK");
    const char *own_rank = getenv("OMPI_COMM_WORLD_RANK"), *owner = getenv("MMUL_FAIL_OWNER");
    char value[16] = "", pid[16];
    void *frames[1];
    if (chosen.is_set_up)
        return;
    chosen.is_set_up = true;
    if (text == NULL || owner != NULL ||
        (rank != NULL && own_rank != NULL && atoi(rank) != atoi(own_rank)))
        return;
    if (sscanf(text, "%15[a-z]:%ld:%15s", chosen.kind, &chosen.number, value) != 3)
        return;
    chosen.is_short = strcmp(value, "short") == 0;
    chosen.value = atoi(value);
    chosen.log = getenv("MMUL_FAIL_LOG");
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("MMUL_FAIL_OWNER", pid, 1);
    backtrace(frames, 1); // loads libgcc, which allocates
    chosen.is_on = true;
}

// Libraries that only the project calls count as its own code.
static bool is_own(const void *address) {
    static const char *const names[] = {"mpimatmul", "libjansson", "libzip", "libyaml"};
    Dl_info found;
    if (dladdr(address, &found) == 0 || found.dli_fname == NULL)
        return false;
    const char *slash = strrchr(found.dli_fname, '/');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(slash != NULL ? slash : found.dli_fname, names[i]) != NULL)
            return true;
    return false;
}

static void log_call(const struct call *call, long number) {
    void *frames[FRAMES];
    char line[2048];
    int count = backtrace(frames, FRAMES);
    size_t length = (size_t)snprintf(line, sizeof line, "%ld %s", number, call->name);
    for (int i = 0; i < count; i++) {
        Dl_info found;
        if (!is_own(frames[i]) || dladdr(frames[i], &found) == 0)
            continue;
        const char *slash = strrchr(found.dli_fname, '/');
        length += (size_t)snprintf(line + length, sizeof line - length, " %s+%lx",
                                   slash != NULL ? slash + 1 : found.dli_fname,
                                   (unsigned long)((char *)frames[i] - (char *)found.dli_fbase));
        if (length > sizeof line - 128)
            break;
    }
    line[length++] = '\n';
    long fd =
        syscall(SYS_openat, AT_FDCWD, chosen.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    syscall(SYS_write, fd, line, length);
    syscall(SYS_close, fd);
}

// Returns true if this call is to fail.
static bool is_chosen(const struct call *call, const char *kind, const void *caller) {
    if (!chosen.is_on || strcmp(kind, chosen.kind) != 0 || !is_own(caller) ||
        (chosen.is_short && (call->way != BY_MINUS_ONE || call->place == 0)))
        return false;
    const char *owner = getenv("MMUL_FAIL_OWNER");
    if (owner == NULL || atoi(owner) != (int)getpid())
        return false;
    const long number = atomic_fetch_add(&seen, 1) + 1;
    const bool fails = number == chosen.number;
    if (chosen.log != NULL && (fails || chosen.number == 0))
        log_call(call, number);
    return fails;
}

static void find_next(struct call *call) {
    if (call->next == NULL)
        call->next = dlsym(RTLD_NEXT, call->name);
}

static long fail(const struct call *call, long *arguments) {
    if (call->way == BY_CODE)
        return chosen.value;
    if (call->way == BY_CODE_AT) {
        if (arguments[call->place - 1] != 0)
            *(int *)arguments[call->place - 1] = chosen.value;
        return 0;
    }
    errno = chosen.value;
    return call->way == BY_NULL ? 0 : -1;
}

typedef long function(long, long, long, long, long, long, long, long, long, long, long, long, long,
                      long);

#define WRAP(kind, name, way, place) WRAP_AS(kind, name, way, place, kind)
// The label is the name for the linker; for the compiler the header's function is another one.
#define WRAP_AS(kind, name, way, place, kind_now)                                            \
    long fail_##name(long a, long b, long c, long d, long e, long f, long g, long h, long i, \
                     long j, long k, long l, long m, long n) __asm__(#name);                 \
    long fail_##name(long a, long b, long c, long d, long e, long f, long g, long h, long i, \
                     long j, long k, long l, long m, long n) {                               \
        static struct call call = {kind, #name, way, place, NULL};                           \
        long arguments[] = {a, b, c, d, e, f};                                               \
        find_next(&call);                                                                    \
        if (is_chosen(&call, kind_now, __builtin_return_address(0))) {                       \
            if (!chosen.is_short)                                                            \
                return fail(&call, arguments);                                               \
            c = c > 1 ? 1 : c;                                                               \
        }                                                                                    \
        return ((function *)call.next)(a, b, c, d, e, f, g, h, i, j, k, l, m, n);            \
    }

// clang-format off
WRAP("memory", malloc, BY_NULL, 0)
WRAP("memory", calloc, BY_NULL, 0)
WRAP("memory", realloc, BY_NULL, 0)
WRAP("memory", strdup, BY_NULL, 0)
WRAP("memory", open_memstream, BY_NULL, 0)
WRAP("memory", posix_memalign, BY_CODE, 0)
WRAP("memory", __asprintf_chk, BY_MINUS_ONE, 0)
WRAP("memory", __vasprintf_chk, BY_MINUS_ONE, 0)
WRAP("thread", pthread_create, BY_CODE, 0)
WRAP_AS("file", mmap, BY_MINUS_ONE, 0, (d & MAP_PRIVATE_MEMORY) != 0 ? "memory" : "file")
WRAP("file", open, BY_MINUS_ONE, 0)
WRAP("file", __open_2, BY_MINUS_ONE, 0)
WRAP("file", openat, BY_MINUS_ONE, 0)
WRAP("file", fopen, BY_NULL, 0)
WRAP("file", fdopen, BY_NULL, 0)
WRAP("file", opendir, BY_NULL, 0)
WRAP("file", mkostemp, BY_MINUS_ONE, 0)
WRAP("file", mkdir, BY_MINUS_ONE, 0)
WRAP("file", read, BY_MINUS_ONE, 3)
WRAP("file", pread, BY_MINUS_ONE, 3)
WRAP("file", write, BY_MINUS_ONE, 3)
WRAP("file", pwrite, BY_MINUS_ONE, 3)
WRAP("file", fsync, BY_MINUS_ONE, 0)
WRAP("file", rename, BY_MINUS_ONE, 0)
WRAP("file", ftruncate, BY_MINUS_ONE, 0)
WRAP("file", fallocate, BY_MINUS_ONE, 0)
WRAP("file", posix_fallocate, BY_CODE, 0)
WRAP("file", stat, BY_MINUS_ONE, 0)
WRAP("file", lstat, BY_MINUS_ONE, 0)
WRAP("file", fstat, BY_MINUS_ONE, 0)
WRAP("file", fchmod, BY_MINUS_ONE, 0)
WRAP("file", dup, BY_MINUS_ONE, 0)
WRAP("file", fclose, BY_MINUS_ONE, 0)
WRAP("file", fflush, BY_MINUS_ONE, 0)
WRAP("mpi", MPI_Comm_dup, BY_CODE, 0)
WRAP("mpi", MPI_Comm_split, BY_CODE, 0)
WRAP("mpi", MPI_Comm_split_type, BY_CODE, 0)
WRAP("mpi", MPI_Iallgather, BY_CODE, 0)
WRAP("mpi", MPI_Iallgatherv, BY_CODE, 0)
WRAP("mpi", MPI_Iallreduce, BY_CODE, 0)
WRAP("mpi", MPI_Ibarrier, BY_CODE, 0)
WRAP("mpi", MPI_Ibcast, BY_CODE, 0)
WRAP("mpi", MPI_Igather, BY_CODE, 0)
WRAP("mpi", MPI_Igatherv, BY_CODE, 0)
WRAP("mpi", MPI_Iprobe, BY_CODE, 0)
WRAP("mpi", MPI_Irecv, BY_CODE, 0)
WRAP("mpi", MPI_Iscatter, BY_CODE, 0)
WRAP("mpi", MPI_Iscatterv, BY_CODE, 0)
WRAP("mpi", MPI_Isend, BY_CODE, 0)
WRAP("mpi", MPI_Recv, BY_CODE, 0)
WRAP("opencl", clGetPlatformIDs, BY_CODE, 0)
WRAP("opencl", clGetPlatformInfo, BY_CODE, 0)
WRAP("opencl", clGetDeviceIDs, BY_CODE, 0)
WRAP("opencl", clGetDeviceInfo, BY_CODE, 0)
WRAP("opencl", clCreateContext, BY_CODE_AT, 6)
WRAP("opencl", clCreateCommandQueue, BY_CODE_AT, 4)
WRAP("opencl", clCreateBuffer, BY_CODE_AT, 5)
WRAP("opencl", clCreateProgramWithSource, BY_CODE_AT, 5)
WRAP("opencl", clBuildProgram, BY_CODE, 0)
WRAP("opencl", clGetProgramBuildInfo, BY_CODE, 0)
WRAP("opencl", clCreateKernel, BY_CODE_AT, 3)
WRAP("opencl", clSetKernelArg, BY_CODE, 0)
WRAP("opencl", clGetKernelWorkGroupInfo, BY_CODE, 0)
WRAP("opencl", clEnqueueBarrierWithWaitList, BY_CODE, 0)
WRAP("opencl", clEnqueueFillBuffer, BY_CODE, 0)
WRAP("opencl", clEnqueueNDRangeKernel, BY_CODE, 0)
WRAP("opencl", clEnqueueReadBuffer, BY_CODE, 0)
WRAP("opencl", clEnqueueReadBufferRect, BY_CODE, 0)
WRAP("opencl", clEnqueueWriteBuffer, BY_CODE, 0)
WRAP("opencl", clEnqueueWriteBufferRect, BY_CODE, 0)
WRAP("opencl", clFinish, BY_CODE, 0)
WRAP("opencl", clFlush, BY_CODE, 0)
WRAP("opencl", clGetEventInfo, BY_CODE, 0)
WRAP("opencl", clWaitForEvents, BY_CODE, 0)
// clang-format on
