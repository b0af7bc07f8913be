// SPDX-License-Identifier: MIT
// Splitting a range by weights. The one entry is mmul_split_offsets of the public header; with
// total n, P parts and weights w_i normalised to p_i its rules are:
//
//   exact:   part i gets floor(n p_i), and what is left goes one by one to the largest fractions
//            of n p_i, ties to the lowest part. 4096 at 50/25/25 is 2048, 1024, 1024.
//   hundred: n is cut into min(n, 100) pieces, the first n mod 100 of them one element longer;
//            part i takes floor(100 p_i + 1e-9) pieces in order, the last part of non-zero weight
//            takes what is left as well. 4096 at 50/25/25 is 2050, 1025, 1021.
#pragma once

#include "mpimatmul_local.h"
