// SPDX-License-Identifier: MIT
//
// What registry.c must know of each kind of device: its table, and for kinds whose names have an
// inner form the functions that read it. Nothing outside this folder includes this header.
#pragma once

#include "device/device.h"

// Longest device name: leaves room for "reference" in place of "cpu" in a name of 128 characters.
enum { MMUL_DEVICE_NAME_MAX = 120 };

extern const struct mmul_device_table mmul_reference_table;
extern const struct mmul_device_table mmul_cpu_table;
extern const struct mmul_device_table mmul_opencl_table; // opencl_device.c or opencl_absent.c
extern const struct mmul_device_table mmul_faulty_table;

// Checks the rules of "faulty:RULE[,RULE...]:NAME" and, through the registry, NAME itself.
// Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_faulty_check_name(const char *text, struct mmul_error *err);

// The faulty part of mmul_device_next_name; `text` has passed mmul_faulty_check_name.
const char *mmul_faulty_next_name(const char *text, char next[static 128]);
