// SPDX-License-Identifier: MIT
// Predicts the seconds of a pass as a line through a few knots, so that the balance can invert it.
// Links and waiting are in cost.c.
#include "plan/cost/pass_cost.h"

#include <math.h>

enum { SMALLEST_SIDE = 64 }; // memory is the limit below

bool mmul_product_is_measured(const struct mmul_rank_info *rank, enum mmul_dtype dtype) {
    bool measured = mmul_rank_flops(rank, dtype) > 0;
    for (int i = 0; i < MMUL_SPEED_POINTS; i++)
        measured = measured || mmul_speed_rates(&rank->speed, dtype)[i] > 0;
    return measured;
}

// Returns the speed at a point of the curve: measured there, else at the next smaller point, else
// at the next larger one, else the one speed of all sizes.
static double curve_at(const struct mmul_rank_info *rank, enum mmul_dtype dtype, double assumed,
                       int point) {
    const double *flops = mmul_speed_rates(&rank->speed, dtype);
    for (int i = point; i >= 0; i--)
        if (flops[i] > 0)
            return flops[i];
    for (int i = point; i < MMUL_SPEED_POINTS; i++)
        if (flops[i] > 0)
            return flops[i];
    return mmul_rank_flops(rank, dtype) > 0 ? mmul_rank_flops(rank, dtype) : assumed;
}

double mmul_product_rate(const struct mmul_rank_info *rank, enum mmul_dtype dtype, double assumed,
                         double m, double n, double k) {
    double side = 3 / (1 / m + 1 / n + 1 / k);
    double first = curve_at(rank, dtype, assumed, 0);
    if (side <= MMUL_SPEED_SMALLEST)
        return side < SMALLEST_SIDE ? first * side / SMALLEST_SIDE : first;
    double place = log2(side / MMUL_SPEED_SMALLEST);
    if (place >= MMUL_SPEED_POINTS - 1)
        return curve_at(rank, dtype, assumed, MMUL_SPEED_POINTS - 1);
    int point = (int)place;
    double low = curve_at(rank, dtype, assumed, point),
           high = curve_at(rank, dtype, assumed, point + 1);
    return low + (high - low) * (place - point);
}

double mmul_check_bytes_per_second(const struct mmul_rank_info *rank) {
    const double measured = rank->speed.check_bytes_per_second;
    return measured > 0 ? measured : MMUL_CHECK_BYTES_PER_SECOND;
}

// ------------------------------------------------------------------------------------- one request

// Terms of the formula that are linear in x, and the shape of the gemm.
struct line {
    const struct mmul_pass_request *request;
    double height;      // most units of one gemm: units of a matrix
    double mean, width; // width of a panel: for operations per unit, and of one gemm
    double k, most;     // most: units of a round, over all ranks
    double fixed, slope;
};

// Returns the seconds per byte to and from the device; 0 in host memory or if not measured.
static double transfer_seconds_per_byte(const struct mmul_rank_info *rank,
                                        double bytes_per_second) {
    return rank->host_memory || !(bytes_per_second > 0) ? 0 : 1 / bytes_per_second;
}

static struct line make_line(const struct mmul_pass_request *r) {
    const struct mmul_problem *p = r->problem;
    const struct mmul_speed *speed = &r->rank->speed;
    double panels = (double)r->cut->panels;
    double width = (double)mmul_problem_result_width(p, r->axis);
    double matrices = (double)mmul_problem_whole_matrices(p, r->axis);
    double cuts = ceil(width / (double)r->cut->panel_units); // panels of a matrix
    double per_matrix =
        ceil(width / (double)mmul_panels_units_at_once(p, r->axis, r->cut->panel_units, r->maps));
    struct line line = {.request = r,
                        .height = (double)mmul_problem_units(p, r->axis),
                        .mean = width / panels,
                        .width = width / per_matrix,
                        .k = p->alpha == 0 ? 0 : (double)p->k,
                        .most = (double)mmul_problem_total(p, r->axis) / (double)r->cut->rounds};
    double panel = matrices * width / panels * (double)mmul_problem_whole_unit_bytes(p, r->axis);
    double piece = (double)mmul_problem_split_unit_bytes(p, r->axis) / panels;
    double block = (double)mmul_problem_result_each(p) * line.mean;
    double up = transfer_seconds_per_byte(r->rank, speed->upload_bytes_per_second);
    double down = transfer_seconds_per_byte(r->rank, speed->download_bytes_per_second);
    const double check = mmul_check_bytes_per_second(r->rank);
    line.fixed = MMUL_PASS_SECONDS * per_matrix / cuts + panel * (up + 1 / check);
    line.slope = piece * up + block * down + (p->beta != 0 ? block * up : 0) +
                 (piece * per_matrix + block) / check;
    if (r->maps & ~r->value_maps & MMUL_MAPS_C)
        line.slope += block * MMUL_FIRST_TOUCH_SECONDS_PER_BYTE;
    // A unit meets only the panels of its own matrix.
    if (matrices > 1) {
        line.slope += line.fixed / line.most;
        line.fixed = 0;
    }
    return line;
}

static double seconds_at(const struct line *line, double x) {
    const struct mmul_pass_request *r = line->request;
    double gemm = 0;
    if (line->k > 0)
        gemm = 2 * x * line->mean * line->k /
               mmul_product_rate(r->rank, mmul_problem_result_dtype(r->problem), r->assumed_flops,
                                 x < line->height ? x : line->height, line->width, line->k);
    return line->fixed + line->slope * x + gemm;
}

// Returns the units at which the pass equals a cube of `side`; 0: no number of units does.
static double units_of_side(const struct line *line, double side) {
    double rest = 3 / side - 1 / line->width - 1 / line->k;
    return rest > 0 ? 1 / rest : 0;
}

static void add_knot(const struct line *line, struct mmul_pass_cost *cost, double x) {
    double seconds = seconds_at(line, x);
    if (cost->knots > 0 && x <= cost->units[cost->knots - 1])
        return;
    // A measured curve may fall; the cost must rise.
    if (cost->knots > 0 && seconds <= cost->seconds[cost->knots - 1])
        seconds = cost->seconds[cost->knots - 1] * (1 + 1e-9);
    cost->units[cost->knots] = x;
    cost->seconds[cost->knots++] = seconds;
}

struct mmul_pass_cost mmul_pass_cost(const struct mmul_pass_request *request) {
    static const double least = 1e-3; // units: stands for the limit towards none
    struct mmul_pass_cost cost = {0};
    if (!mmul_product_is_measured(request->rank, mmul_problem_result_dtype(request->problem)) &&
        !(request->assumed_flops > 0))
        return cost;
    struct line line = make_line(request);
    double most = line.most > 1 ? line.most : 1;
    double height = line.height < most ? line.height : most;
    add_knot(&line, &cost, least);
    for (int side = SMALLEST_SIDE; side <= MMUL_SPEED_SMALLEST << (MMUL_SPEED_POINTS - 1);
         side *= 2) {
        double x = line.k > 0 ? units_of_side(&line, side) : 0;
        if (x > least && x < height)
            add_knot(&line, &cost, x);
    }
    add_knot(&line, &cost, height);
    add_knot(&line, &cost, most);
    return cost;
}

double mmul_pass_rate(const struct mmul_pass_cost *cost) {
    const int last = cost->knots - 1;
    return last >= 0 ? cost->units[last] / cost->seconds[last] : 0;
}

// Returns the interval [i - 1, i] of knots that holds `value`; the last one beyond all knots.
static int find_interval(const double *knots, int count, double value) {
    int i = 1;
    while (i < count - 1 && value > knots[i])
        i++;
    return i;
}

double mmul_pass_seconds(const struct mmul_pass_cost *cost, double units) {
    if (cost->knots == 0)
        return 0;
    int i = find_interval(cost->units, cost->knots, units);
    double slope =
        (cost->seconds[i] - cost->seconds[i - 1]) / (cost->units[i] - cost->units[i - 1]);
    return cost->seconds[i - 1] + slope * (units - cost->units[i - 1]);
}

double mmul_pass_units(const struct mmul_pass_cost *cost, double seconds) {
    if (cost->knots == 0 || seconds <= cost->seconds[0])
        return 0;
    int i = find_interval(cost->seconds, cost->knots, seconds);
    double slope =
        (cost->units[i] - cost->units[i - 1]) / (cost->seconds[i] - cost->seconds[i - 1]);
    return cost->units[i - 1] + slope * (seconds - cost->seconds[i - 1]);
}
