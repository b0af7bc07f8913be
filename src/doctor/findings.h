// SPDX-License-Identifier: MIT
// Derives findings from a visit. Pure, no system calls. A finding keeps a job from starting, makes
// it hang, or makes it much slower than necessary. It states the expected and the found value, and
// the command that corrects it.
#pragma once

#include "doctor/mpirun.h"
#include "doctor/survey.h"

struct mmul_findings {
    const struct mmul_survey *visit;
    const struct mmul_settings *settings;
    const char *hostfile;                    // NULL: none
    const struct mmul_hostfile *lines;       // lines of the hostfile; NULL: none
    const struct mmul_mpirun_result *mpirun; // NULL: not asked
    double limit_seconds;                    // time limit for a machine's answer
    json_t *findings;                        // array of {machine, what, fix}; owned
    json_t *notes; // array of {machine, what}: facts that could not be measured; owned
};

// Fills judgement->findings and ->notes from the other fields. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_findings_derive(struct mmul_findings *judgement, struct mmul_error *err);

// The parts of mmul_findings_derive: mpirun's verdict and the hostfile, one machine, and the
// networks.
void mmul_findings_derive_hostfile(struct mmul_findings *judgement);
void mmul_findings_derive_machine(struct mmul_findings *judgement,
                                  const struct mmul_machine *machine);
void mmul_findings_derive_network(struct mmul_findings *judgement);

// mmul_findings_add adds a finding about a machine (NULL: all of them). mmul_findings_add_fix adds
// the command that corrects it.
void mmul_findings_add(struct mmul_findings *judgement, const struct mmul_machine *machine,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));
void mmul_findings_add_fix(struct mmul_findings *judgement, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Adds the fix for the last finding: a command that gives the machine this number of slots, in one
// line of the hostfile.
void mmul_findings_add_slots_fix(struct mmul_findings *judgement,
                                 const struct mmul_machine *machine, int slots);

// Makes the prefix that runs a command on a machine: "ssh node2 ", or "" on the first. Returns
// `text`.
char *mmul_findings_command_prefix(const struct mmul_findings *judgement,
                                   const struct mmul_machine *machine, char text[static 1024]);

// Returns the median rate of the links measured over a network ("10.0.0.0/24"). 0: none.
double mmul_survey_network_rate(const struct mmul_survey *visit, const char *network);

// Returns true if a link before links[at] uses the network.
bool mmul_survey_network_is_repeated(const struct mmul_survey *visit, int at, const char *network);
