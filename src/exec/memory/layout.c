// SPDX-License-Identifier: MIT
// Arithmetic on the plan's lanes and slots, each of which begins on a page.
#include "exec/memory/layout.h"

#include "base/memory.h"
#include "plan/lists/footprint.h"

enum mmul_status mmul_layout_init(struct mmul_layout *layout, const struct mmul_schedule *schedule,
                                  int node, struct mmul_error *err) {
    const struct mmul_schedule_node *n = &mmul_schedule_nodes(schedule)[node];
    int64_t *slot_of_panel = NULL;
    *layout = (struct mmul_layout){.schedule = schedule,
                                   .node = n,
                                   .node_index = node,
                                   .passes = mmul_schedule_passes(schedule),
                                   .panels = mmul_schedule_panels(schedule)};
    layout->lane_bytes =
        mmul_page_ceiling(n->piece_lane_bytes) + mmul_page_ceiling(n->c_in_lane_bytes);
    layout->slots = n->piece_lanes * layout->lane_bytes;
    layout->slot_bytes = mmul_page_ceiling(n->whole_slot_bytes);
    layout->results = layout->slots + n->whole_slots * layout->slot_bytes;
    layout->bytes = mmul_schedule_lanes_bytes(n);
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("the schedule", err, MMUL_ARRAY(layout->slot, layout->passes),
                          MMUL_ARRAY(slot_of_panel, layout->panels));
    if (status != MMUL_OK) {
        mmul_layout_fini(layout);
        return status;
    }
    for (int64_t i = 0; i < layout->panels; i++)
        slot_of_panel[i] = -1;
    for (int64_t i = 0, loaded = 0; i < layout->passes; i++) {
        if (mmul_schedule_loads(schedule, node, mmul_schedule_pass(schedule, i)))
            slot_of_panel[i % layout->panels] = loaded++ % n->whole_slots;
        // Later rounds find the panels of the first one.
        layout->slot[i] = slot_of_panel[i % layout->panels];
    }
    mmul_free(slot_of_panel);
    return MMUL_OK;
}

void mmul_layout_fini(struct mmul_layout *layout) {
    mmul_free(layout->slot);
    *layout = (struct mmul_layout){0};
}

int64_t mmul_layout_pieces(const struct mmul_layout *layout, int64_t round) {
    return round % layout->node->piece_lanes * layout->lane_bytes;
}

int64_t mmul_layout_c_in(const struct mmul_layout *layout, int64_t round) {
    return mmul_layout_pieces(layout, round) + mmul_page_ceiling(layout->node->piece_lane_bytes);
}

int64_t mmul_layout_panel(const struct mmul_layout *layout, int64_t pass) {
    return layout->slots + layout->slot[pass] * layout->slot_bytes;
}

int64_t mmul_layout_result(const struct mmul_layout *layout, int64_t pass) {
    return layout->results +
           pass % layout->node->result_slots * mmul_page_ceiling(layout->node->result_slot_bytes);
}

int64_t mmul_layout_units_before(const struct mmul_layout *layout, int rank, int64_t round) {
    int64_t units = 0;
    for (int i = 0; i < rank; i++) {
        struct mmul_range part = mmul_schedule_part(layout->schedule, i, round);
        if (mmul_schedule_ranks(layout->schedule)[i].node == layout->node_index)
            units += part.end - part.begin;
    }
    return units;
}

int64_t mmul_layout_pass_units_before(const struct mmul_layout *layout, int rank,
                                      struct mmul_pass pass) {
    int64_t units = 0;
    for (int i = 0; i < rank; i++)
        if (mmul_schedule_ranks(layout->schedule)[i].node == layout->node_index)
            units += mmul_schedule_units(layout->schedule, i, pass);
    return units;
}
