// SPDX-License-Identifier: MIT
// Queues and events: ensures that operations on the same buffer happen in the order in which they
// were begun. Every holder of an event retains it: the ring of operations in flight and the uses of
// buffers. Knows no matrices and starts no operation itself.
#include "device/opencl_queues.h"

#include <assert.h>

cl_int mmul_opencl_queues_init(struct mmul_opencl_queues *order, cl_context context,
                               cl_device_id device) {
    for (int i = 0; i < MMUL_QUEUE_COUNT; i++) {
        cl_int code = CL_SUCCESS;
        cl_command_queue made = clCreateCommandQueue(context, device, 0, &code);
        if (code != CL_SUCCESS)
            return code;
        order->queues[i] = made;
    }
    return CL_SUCCESS;
}

// Waits for all operations, failed or not. clFinish alone is not enough: Mesa's rusticl (22.3)
// waits only for work that was not flushed before, and everything in the ring was flushed. Events
// are waited for one by one, because a driver may abandon a list at the first failed event.
// clFinish covers work without an event in the ring, such as the first rows of a transfer whose
// next row was rejected.
static cl_int wait_for_all(const struct mmul_opencl_queues *order) {
    cl_int first = CL_SUCCESS;
    for (int i = 0; i < MMUL_OPENCL_IN_FLIGHT_MAX; i++) {
        cl_int code = order->begun[i] != NULL ? clWaitForEvents(1, &order->begun[i]) : CL_SUCCESS;
        first = first == CL_SUCCESS ? code : first;
    }
    for (int i = 0; i < MMUL_QUEUE_COUNT; i++) {
        cl_int code = order->queues[i] != NULL ? clFinish(order->queues[i]) : CL_SUCCESS;
        first = first == CL_SUCCESS ? code : first;
    }
    return first;
}

void mmul_opencl_queues_fini(struct mmul_opencl_queues *order) {
    (void)wait_for_all(order); // transfers in flight use the caller's host memory
    for (int i = 0; i < MMUL_OPENCL_IN_FLIGHT_MAX; i++)
        if (order->begun[i] != NULL)
            clReleaseEvent(order->begun[i]);
    for (int i = 0; i < MMUL_QUEUE_COUNT; i++)
        if (order->queues[i] != NULL)
            clReleaseCommandQueue(order->queues[i]);
}

// ------------------------------------------------------------------------------------------- uses

static void add_wait(struct mmul_opencl_dependencies *waits, cl_event event) {
    for (cl_uint i = 0; i < waits->count; i++)
        if (waits->events[i] == event)
            return;
    assert(waits->count < sizeof waits->events / sizeof waits->events[0]);
    waits->events[waits->count++] = event;
}

void mmul_opencl_add_read_dependencies(struct mmul_opencl_dependencies *waits,
                                       const struct mmul_opencl_buffer_events *use,
                                       enum mmul_opencl_queue queue) {
    if (use->write != NULL && use->write_queue != queue)
        add_wait(waits, use->write);
}

void mmul_opencl_add_write_dependencies(struct mmul_opencl_dependencies *waits,
                                        const struct mmul_opencl_buffer_events *use,
                                        enum mmul_opencl_queue queue) {
    mmul_opencl_add_read_dependencies(waits, use, queue);
    for (int i = 0; i < MMUL_QUEUE_COUNT; i++)
        if (use->reads[i] != NULL && i != (int)queue)
            add_wait(waits, use->reads[i]);
}

const cl_event *mmul_opencl_dependency_list(const struct mmul_opencl_dependencies *waits) {
    return waits->count > 0 ? waits->events : NULL;
}

static void replace_event(cl_event *place, cl_event event) {
    if (event != NULL)
        clRetainEvent(event);
    if (*place != NULL)
        clReleaseEvent(*place);
    *place = event;
}

// The later one of two reads on an in-order queue ends last, so that one event suffices.
void mmul_opencl_record_read(struct mmul_opencl_buffer_events *use, enum mmul_opencl_queue queue,
                             cl_event event) {
    replace_event(&use->reads[queue], event);
}

// The write has waited for all reads, so that waiting for the write covers them.
void mmul_opencl_record_write(struct mmul_opencl_buffer_events *use, enum mmul_opencl_queue queue,
                              cl_event event) {
    for (int i = 0; i < MMUL_QUEUE_COUNT; i++)
        replace_event(&use->reads[i], NULL);
    replace_event(&use->write, event);
    use->write_queue = queue;
}

void mmul_opencl_buffer_events_fini(struct mmul_opencl_buffer_events *use) {
    mmul_opencl_record_write(use, MMUL_QUEUE_UPLOAD, NULL);
}

// ------------------------------------------------------------------------------------------ begun

// Drops ended operations, the oldest first. Returns the first failure among them, else `wait_code`:
// the failed operation says more than the failed wait.
static cl_int collect_failure(struct mmul_opencl_queues *order, cl_int wait_code) {
    cl_int first = CL_SUCCESS;
    for (unsigned i = 0; i < MMUL_OPENCL_IN_FLIGHT_MAX; i++) {
        cl_event *place = &order->begun[(order->next + i) % MMUL_OPENCL_IN_FLIGHT_MAX];
        cl_int state = CL_COMPLETE; // negative: failed
        if (*place == NULL)
            continue;
        cl_int code =
            clGetEventInfo(*place, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (code != CL_SUCCESS || state <= CL_COMPLETE)
            replace_event(place, NULL);
        if (code == CL_SUCCESS && state < CL_COMPLETE)
            code = state;
        first = first == CL_SUCCESS ? code : first;
    }
    return first != CL_SUCCESS ? first : wait_code;
}

cl_int mmul_opencl_submit(struct mmul_opencl_queues *order, enum mmul_opencl_queue queue,
                          cl_event event) {
    cl_event *place = &order->begun[order->next];
    cl_int code = clFlush(order->queues[queue]); // other queues may wait for it
    if (code == CL_SUCCESS && *place != NULL)
        code = collect_failure(order, clWaitForEvents(1, place));
    replace_event(place, NULL);
    *place = event;
    order->next = (order->next + 1) % MMUL_OPENCL_IN_FLIGHT_MAX;
    return code;
}

cl_int mmul_opencl_wait_all(struct mmul_opencl_queues *order) {
    return collect_failure(order, wait_for_all(order));
}

cl_int mmul_opencl_wait_buffer(struct mmul_opencl_queues *order,
                               const struct mmul_opencl_buffer_events *use) {
    struct mmul_opencl_dependencies all = {.count = 0};
    mmul_opencl_add_write_dependencies(&all, use, MMUL_QUEUE_COUNT);
    return collect_failure(order,
                           all.count > 0 ? clWaitForEvents(all.count, all.events) : CL_SUCCESS);
}
