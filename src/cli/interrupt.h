// SPDX-License-Identifier: MIT
// Handling of SIGINT, SIGTERM and SIGHUP: prints one line, leaves no temporary file, exits with 75.
// A run with a journal records what is complete first. After SIGINT a job of one rank also finishes
// the work in flight, unless a second signal comes.
#pragma once

#include <stdbool.h>

// Installs the handlers. Ignored signals stay ignored. is_first: this process prints the message;
// if it is one of several, it exits 0.5 seconds later. The other processes exit after two seconds,
// unless the job has ended by then. A result that already has its final name is kept, and the
// process may end normally.
void mmul_interrupt_install(bool is_first, bool is_one_of_several);

// Tells the handlers if more outputs will follow, as in a loop. The finished outputs are then not
// all.
void mmul_interrupt_expect_more(bool does);

// Marks the end of the program's own output. A signal after that leaves the process two seconds to
// end.
void mmul_interrupt_finish(void);
