// SPDX-License-Identifier: MIT
//
// NVIDIA's management library, loaded on demand. The program needs no part of it to be built or to
// start. Source: NVML API Reference Guide, Device Queries.
#pragma once

struct mmul_nvml;

// Opens the card at a PCI address ("0000:65:00.0"). NULL: no such library, no such card, or no
// memory. Local. Takes some milliseconds, or some hundred if there are cards.
struct mmul_nvml *mmul_nvml_open(const char *library, const char *pci);

// Read the sensors. NAN: the card does not report it. Joules count from mmul_nvml_open on.
void mmul_nvml_read(const struct mmul_nvml *card, double *celsius, double *watts);
double mmul_nvml_joules(const struct mmul_nvml *card);

// NULL is legal.
void mmul_nvml_close(struct mmul_nvml *card);
