// SPDX-License-Identifier: MIT
// What starting and ending MPI costs by itself: what remains of a command's time is the program's.
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
