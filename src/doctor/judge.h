// SPDX-License-Identifier: MIT
//
// From what a visit saw to what must be mended: pure, no system calls. A finding is something that
// keeps a job from starting, makes it hang, or makes it much slower than it has to be; it says what
// was expected and found, and the command that mends it.
#pragma once

#include "doctor/mpirun.h"
#include "doctor/visit.h"

struct mmul_judgement {
    const struct mmul_visit *visit;
    const struct mmul_settings *settings;
    const char *hostfile;                    // NULL: none
    const struct mmul_hostfile *lines;       // of it; NULL: none
    const struct mmul_mpirun_answer *mpirun; // NULL: not asked
    double limit_seconds;                    // that machines had to answer
    json_t *findings;                        // array of {machine, what, fix}; owned
    json_t *notes; // array of {machine, what}: what could not be found out; owned
};

// Fills judgement->findings and ->notes; the other fields are given. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_judge(struct mmul_judgement *judgement, struct mmul_error *err);

// The parts of it: what mpirun says and the hostfile, machine by machine, and what lies between them.
void mmul_judge_hostfile(struct mmul_judgement *judgement);
void mmul_judge_machine(struct mmul_judgement *judgement, const struct mmul_machine *machine);
void mmul_judge_network(struct mmul_judgement *judgement);

// Adds a finding about a machine (NULL: about all of them); mmul_judge_fix says how to mend it.
void mmul_judge_find(struct mmul_judgement *judgement, const struct mmul_machine *machine,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));
void mmul_judge_fix(struct mmul_judgement *judgement, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Mends the last finding: the machine shall have so many slots, in one line of the hostfile.
void mmul_judge_fix_slots(struct mmul_judgement *judgement, const struct mmul_machine *machine,
                          int slots);

// How a command is run on a machine: "ssh node2 ", and "" on the first one. Returns `text`.
char *mmul_judge_on(const struct mmul_judgement *judgement, const struct mmul_machine *machine,
                    char text[static 1024]);

// The median rate of the links that were measured over a network ("10.0.0.0/24"); 0: none.
double mmul_judge_network_rate(const struct mmul_visit *visit, const char *network);
