// SPDX-License-Identifier: MIT
// Rates as JSON. io/profile_file reads them.
#include "model/rates.h"

json_t *mmul_rate_json(double rate) {
    return rate > 0 ? json_real(rate) : json_null();
}

json_t *mmul_rates_json(const double *flops, int count, int smallest, unsigned unstable) {
    json_t *rates = json_array();
    for (int i = 0; i < count; i++)
        if (flops[i] > 0)
            json_array_append_new(rates, json_pack("{s:i, s:f, s:b}", "size", smallest << i,
                                                   "flops_per_second", flops[i], "unstable",
                                                   (unstable & 1U << i) != 0));
    return rates;
}
