// SPDX-License-Identifier: MIT
//
// Commands that may overlap: `overlap_test NAME`. This program puts itself between the library and
// OpenCL and records every command with its wait list, so that the commands a device may run
// concurrently are known exactly. Actual overlap is printed, from the events' own clocks, but not
// tested. The program also counts the references to events that the library and CLBlast take and
// release. OpenCL's own reference counts are of no use for that, because drivers take references,
// too: PoCL's buffers keep the event of the last command that used them, and one of them is the
// device's temporary buffer.
#include <dlfcn.h>

#include "tap.h"

enum { SIDE = 768, ELEMENTS = SIDE * SIDE };

#if MMUL_WITH_OPENCL
#include <CL/cl.h>

// ------------------------------------------------------------------------------- keeping commands

enum { COMMANDS = 1000, WAITS = 8 };

struct command {
    char kind; // U upload, G gemm, D download, B barrier
    cl_command_queue queue;
    cl_event event; // owned
    int shares;     // references to it that the library and CLBlast hold
    cl_event waits[WAITS];
    cl_uint wait_count;
};

static struct command commands[COMMANDS];
static int command_count;

// Returns the function that a definition of the same name in this file hides.
static void *hidden_function(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        printf("Bail out! no %s\n", name);
        exit(1);
    }
    return function;
}

static cl_int call_hidden(const char *name, cl_event event) {
    cl_int (*change)(cl_event);
    *(void **)&change = hidden_function(name);
    return change(event);
}

static void count_share(cl_event event, int difference) {
    for (int i = 0; i < command_count; i++)
        if (commands[i].event == event)
            commands[i].shares += difference;
}

cl_int clRetainEvent(cl_event event) {
    count_share(event, 1);
    return call_hidden("clRetainEvent", event);
}

cl_int clReleaseEvent(cl_event event) {
    count_share(event, -1);
    return call_hidden("clReleaseEvent", event);
}

// Records a command. A caller that asked for the event gets a reference of its own.
static void record_command(char kind, cl_command_queue queue, cl_uint wait_count,
                           const cl_event *waits, cl_event event, bool is_shared) {
    if (command_count == COMMANDS || wait_count > WAITS) {
        printf("Bail out! more commands than are kept\n");
        exit(1);
    }
    struct command *command = &commands[command_count++];
    *command =
        (struct command){.kind = kind, .queue = queue, .event = event, .wait_count = wait_count};
    for (cl_uint i = 0; i < wait_count; i++) {
        command->waits[i] = waits[i];
        call_hidden("clRetainEvent", waits[i]);
    }
    if (is_shared)
        clRetainEvent(event);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *code) {
    cl_command_queue (*create)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
    *(void **)&create = hidden_function("clCreateCommandQueue");
    return create(context, device, properties | CL_QUEUE_PROFILING_ENABLE, code);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                            size_t bytes, const void *from, cl_uint wait_count,
                            const cl_event *waits, cl_event *event) {
    cl_int (*begin)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint,
                    const cl_event *, cl_event *);
    *(void **)&begin = hidden_function("clEnqueueWriteBuffer");
    cl_event mine = NULL, *place = event != NULL ? event : &mine;
    cl_int code = begin(queue, memory, blocking, offset, bytes, from, wait_count, waits, place);
    if (code == CL_SUCCESS)
        record_command('U', queue, wait_count, waits, *place, event != NULL);
    return code;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                           size_t bytes, void *to, cl_uint wait_count, const cl_event *waits,
                           cl_event *event) {
    cl_int (*begin)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                    const cl_event *, cl_event *);
    *(void **)&begin = hidden_function("clEnqueueReadBuffer");
    cl_event mine = NULL, *place = event != NULL ? event : &mine;
    cl_int code = begin(queue, memory, blocking, offset, bytes, to, wait_count, waits, place);
    if (code == CL_SUCCESS)
        record_command('D', queue, wait_count, waits, *place, event != NULL);
    return code;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint wait_count, const cl_event *waits, cl_event *event) {
    cl_int (*begin)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                    const size_t *, cl_uint, const cl_event *, cl_event *);
    *(void **)&begin = hidden_function("clEnqueueNDRangeKernel");
    cl_event mine = NULL, *place = event != NULL ? event : &mine;
    cl_int code = begin(queue, kernel, dimensions, offset, global, local, wait_count, waits, place);
    if (code == CL_SUCCESS)
        record_command('G', queue, wait_count, waits, *place, event != NULL);
    return code;
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint wait_count,
                                    const cl_event *waits, cl_event *event) {
    cl_int (*begin)(cl_command_queue, cl_uint, const cl_event *, cl_event *);
    *(void **)&begin = hidden_function("clEnqueueBarrierWithWaitList");
    cl_event mine = NULL, *place = event != NULL ? event : &mine;
    cl_int code = begin(queue, wait_count, waits, place);
    if (code == CL_SUCCESS)
        record_command('B', queue, wait_count, waits, *place, event != NULL);
    return code;
}

static void forget_commands(void) {
    for (int i = 0; i < command_count; i++) {
        for (cl_uint w = 0; w < commands[i].wait_count; w++)
            call_hidden("clReleaseEvent", commands[i].waits[w]);
        call_hidden("clReleaseEvent", commands[i].event);
    }
    command_count = 0;
}

// ------------------------------------------------------------------------------ permitted overlap

// Returns true if command x cannot begin before y has ended.
static bool must_wait_for(int x, int y) {
    for (int i = x - 1; i >= y; i--) {
        bool is_behind = commands[i].queue == commands[x].queue;
        for (cl_uint w = 0; w < commands[x].wait_count; w++)
            is_behind = is_behind || commands[x].waits[w] == commands[i].event;
        if (is_behind && (i == y || must_wait_for(i, y)))
            return true;
    }
    return false;
}

static double read_clock(int x, cl_profiling_info which) {
    cl_ulong nanoseconds = 0;
    clGetEventProfilingInfo(commands[x].event, which, sizeof nanoseconds, &nanoseconds, NULL);
    return (double)nanoseconds * 1e-6;
}

// Returns the milliseconds during which transfers and products were both in flight.
static double measure_overlap(double *transfers, double *products) {
    double both = 0;
    *transfers = *products = 0;
    for (int x = 0; x < command_count; x++) {
        double begin = read_clock(x, CL_PROFILING_COMMAND_START);
        double end = read_clock(x, CL_PROFILING_COMMAND_END);
        *(commands[x].kind == 'G' ? products : transfers) +=
            commands[x].kind == 'B' ? 0 : end - begin;
        for (int y = 0; commands[x].kind == 'G' && y < command_count; y++) {
            if (commands[y].kind == 'G' || commands[y].kind == 'B')
                continue;
            double common = fmin(end, read_clock(y, CL_PROFILING_COMMAND_END)) -
                            fmax(begin, read_clock(y, CL_PROFILING_COMMAND_START));
            both += common > 0 ? common : 0;
        }
    }
    return both;
}
#endif

// Call after all waits, when the buffers are gone.
static void test_releases(void) {
#if MMUL_WITH_OPENCL
    int balanced = 0;
    for (int i = 0; i < command_count; i++)
        balanced += commands[i].shares == 0;
    report_point(command_count > 0 && balanced == command_count, "every event is released once",
                 "some are not, or more than once");
#endif
}

// ------------------------------------------------------------------------------------ the sequence

// Three tiles: two alternating buffers each for A and C, one buffer for B.
struct turns {
    struct mmul_buffer *a[2], *b, *c[2];
    float *ones, *found;
    int up[3], gemm_begin[3], gemm_end[3], down[3]; // indices of commands
};

static int count_commands(void) {
#if MMUL_WITH_OPENCL
    return command_count;
#else
    return 0;
#endif
}

static void run_turns(struct mmul_device *device, struct turns *t) {
    struct mmul_error err;
    for (int tile = 0; tile < 4; tile++) {
        if (tile < 3) {
            struct mmul_operand a = {t->a[tile % 2], 0, SIDE}, c = {t->c[tile % 2], 0, SIDE};
            t->up[tile] = count_commands();
            must_succeed(
                mmul_device_upload(
                    device, &(struct mmul_upload){a, SIDE, SIDE, t->ones, SIDE, MMUL_F32}, &err),
                &err);
            const struct mmul_gemm args = {.m = SIDE,
                                           .n = SIDE,
                                           .k = SIDE,
                                           .alpha = (float)(tile + 1),
                                           .a = a,
                                           .b = {t->b, 0, SIDE},
                                           .c = c};
            t->gemm_begin[tile] = count_commands();
            must_succeed(mmul_device_gemm(device, &args, &err), &err);
            t->gemm_end[tile] = count_commands() - 1;
        }
        if (tile > 0) {
            struct mmul_operand done = {t->c[(tile - 1) % 2], 0, SIDE};
            float *to = t->found + (tile - 1) * ELEMENTS;
            t->down[tile - 1] = count_commands();
            must_succeed(
                mmul_device_download(
                    device, &(struct mmul_download){done, SIDE, SIDE, to, SIDE, MMUL_F32}, &err),
                &err);
        }
    }
    must_succeed(mmul_device_wait(device, &err), &err);
}

static void test_dependencies(const struct turns *t) {
#if MMUL_WITH_OPENCL
    // A gemm starts with a barrier, which waits. Later commands wait for its last command.
    const struct {
        int later, earlier;
        bool must_wait;
        const char *name;
    } cases[] = {
        {t->gemm_end[0], t->up[0], true, "a product waits for its upload"},
        {t->down[0], t->gemm_end[0], true, "a download waits for its product"},
        {t->up[2], t->gemm_end[0], true, "an upload waits for the product that reads its buffer"},
        {t->gemm_begin[2], t->down[0], true, "a product waits for the download that reads its C"},
        {t->up[1], t->gemm_end[0], false, "the next upload waits for no product"},
        {t->up[2], t->gemm_begin[1], false,
         "the upload after it does not wait for the previous product"},
        {t->down[0], t->gemm_begin[1], false, "a download does not wait for the next product"},
        {t->down[1], t->up[2], false, "a download does not wait for the next upload"},
        {t->up[2], t->down[0], false, "an upload does not wait for a download"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool waits = must_wait_for(cases[i].later, cases[i].earlier);
        report_point(waits == cases[i].must_wait, cases[i].name,
                     waits ? "it waits" : "it does not wait");
    }
    double transfers, products, both = measure_overlap(&transfers, &products);
    printf("# transfers %.1f ms, products %.1f ms, of that %.1f ms at the same time\n", transfers,
           products, both);
#else
    (void)t;
#endif
}

// Queues more operations than the device remembers, without a wait.
static void run_many(struct mmul_device *device, struct turns *t) {
    enum { PRODUCTS = 100, SMALL = 32 };
    struct mmul_error err;
    for (int i = 0; i < PRODUCTS; i++) {
        const struct mmul_gemm args = {.m = SMALL,
                                       .n = SMALL,
                                       .k = SMALL,
                                       .alpha = 1,
                                       .a = {t->a[i % 2], 0, SIDE},
                                       .b = {t->b, 0, SIDE},
                                       .c = {t->c[i % 2], 0, SIDE}};
        must_succeed(
            mmul_device_upload(
                device, &(struct mmul_upload){args.a, 1, SMALL, t->ones, SIDE, MMUL_F32}, &err),
            &err);
        must_succeed(mmul_device_gemm(device, &args, &err), &err);
        must_succeed(
            mmul_device_download(
                device, &(struct mmul_download){args.c, 1, SMALL, t->found, SIDE, MMUL_F32}, &err),
            &err);
    }
    must_succeed(mmul_device_wait(device, &err), &err);
}

int main(int argc, char **argv) {
    struct mmul_device *device = open_device(argc, argv);
    struct mmul_buffer **buffers[5];
    struct turns t = {.ones = must_allocate(ELEMENTS, sizeof(float)),
                      .found = must_allocate(3 * ELEMENTS, sizeof(float))};
    struct mmul_error err;
    buffers[0] = &t.a[0], buffers[1] = &t.a[1], buffers[2] = &t.b;
    buffers[3] = &t.c[0], buffers[4] = &t.c[1];
    for (int e = 0; e < ELEMENTS; e++)
        t.ones[e] = 1;
    for (int i = 0; i < 5; i++) {
        must_succeed(mmul_device_buffer_create(device, MMUL_F32, ELEMENTS, buffers[i], &err), &err);
        struct mmul_operand to = {*buffers[i], 0, SIDE};
        must_succeed(
            mmul_device_upload(device,
                               &(struct mmul_upload){to, SIDE, SIDE, t.ones, SIDE, MMUL_F32}, &err),
            &err);
    }
    must_succeed(mmul_device_wait(device, &err), &err);
    bool is_opencl = strcmp(device->table->kind, "opencl") == 0;
#if MMUL_WITH_OPENCL
    forget_commands();
#endif
    run_turns(device, &t);
    if (is_opencl)
        test_dependencies(&t);
    bool ok = true;
    for (int e = 0; e < 3 * ELEMENTS; e++)
        ok = ok && t.found[e] == (float)(SIDE * (e / ELEMENTS + 1));
    report_point(ok, "three tiles in alternating buffers are right", "elements differ");
    run_many(device, &t);
    for (int i = 0; i < 5; i++)
        mmul_device_buffer_destroy(device, *buffers[i]);
    if (is_opencl)
        test_releases();
#if MMUL_WITH_OPENCL
    forget_commands();
#endif
    free(t.ones);
    free(t.found);
    return close_device(device);
}
