// SPDX-License-Identifier: MIT
// Cost of MPI_Init and MPI_Finalize alone. The rest of a command's time belongs to the program.
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
