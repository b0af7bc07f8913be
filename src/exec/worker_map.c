// SPDX-License-Identifier: MIT
// Operands are borrowed where they lie by the rank's device, or by the CPU where that has memory of its own.
#include "exec/worker_map.h"

// What a device in host memory may touch of an operand.
static enum mmul_status borrow(struct mmul_device *device, const struct mmul_host_operand *from,
                               struct mmul_map_operand *to, struct mmul_error *err) {
    *to = (struct mmul_map_operand){.number = from->number,
                                    .row_step = from->row_step,
                                    .col_step = from->col_step,
                                    .rows = from->rows,
                                    .cols = from->cols};
    if (from->at == NULL)
        return MMUL_OK;
    int64_t count = (from->rows - 1) * from->row_step + (from->cols - 1) * from->col_step + 1;
    return mmul_device_buffer_borrow(device, MMUL_F32, (float *)(uintptr_t)from->at, count,
                                     &to->buffer, err);
}

static enum mmul_status find_device(struct mmul_worker *worker, struct mmul_device **device,
                                    struct mmul_error *err) {
    if (mmul_device_can_borrow(worker->context->device)) {
        *device = worker->context->device;
        return MMUL_OK;
    }
    enum mmul_status status = MMUL_OK;
    if (worker->host == NULL)
        status = mmul_device_open("cpu", &worker->host, err);
    *device = worker->host;
    return status;
}

enum mmul_status mmul_worker_map(struct mmul_worker *worker, const struct mmul_host_map *host,
                                 struct mmul_error *err) {
    struct mmul_map map = host->map;
    struct mmul_device *device = NULL;
    enum mmul_status status = find_device(worker, &device, err);
    map.result = (struct mmul_operand){NULL, 0, host->ld};
    for (int i = 0; i < map.operand_count; i++)
        map.operands[i].buffer = NULL;
    for (int i = 0; status == MMUL_OK && i < map.operand_count; i++)
        status = borrow(device, &host->operands[i], &map.operands[i], err);
    if (status == MMUL_OK)
        status = mmul_device_buffer_borrow(device, MMUL_F32, host->result,
                                           (map.rows - 1) * host->ld + map.cols, &map.result.buffer,
                                           err);
    if (status == MMUL_OK)
        status = mmul_device_map(device, &map, err);
    if (device != NULL) {
        for (int i = 0; i < map.operand_count; i++)
            mmul_device_buffer_destroy(device, map.operands[i].buffer);
        mmul_device_buffer_destroy(device, map.result.buffer);
    }
    return status;
}
