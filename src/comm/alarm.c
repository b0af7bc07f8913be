// SPDX-License-Identifier: MIT
// Empty messages from the one to all others. Those that nobody listens for any more are left to MPI.
#include "comm/alarm.h"

#include "comm/comm.h"

enum { TAG = 9100, TRIES = 3 };

enum mmul_status mmul_alarm_begin(struct mmul_alarm *alarm, MPI_Comm leaders,
                                  struct mmul_error *err) {
    *alarm = (struct mmul_alarm){.leaders = leaders, .hearing = MPI_REQUEST_NULL};
    int code = MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG, leaders, &alarm->hearing);
    return mmul_comm_check(code, "communicator set-up", err);
}

void mmul_alarm_end(struct mmul_alarm *alarm) {
    if (alarm->hearing == MPI_REQUEST_NULL)
        return;
    MPI_Cancel(&alarm->hearing);
    MPI_Request_free(&alarm->hearing);
}

static void tell(const struct mmul_alarm *alarm, int member) {
    MPI_Request request;
    for (int i = 0; i < TRIES; i++) {
        if (MPI_Isend(NULL, 0, MPI_BYTE, member, TAG, alarm->leaders, &request) != MPI_SUCCESS)
            continue;
        MPI_Request_free(&request);
        return;
    }
}

void mmul_alarm_raise(struct mmul_alarm *alarm) {
    int rank, size;
    if (alarm == NULL || alarm->is_raised)
        return;
    alarm->is_raised = true;
    MPI_Comm_rank(alarm->leaders, &rank);
    MPI_Comm_size(alarm->leaders, &size);
    for (int member = 0; member < size; member++)
        if (member != rank)
            tell(alarm, member);
}

bool mmul_alarm_listen(struct mmul_alarm *alarm) {
    int came = 0;
    if (alarm == NULL || alarm->is_raised)
        return alarm != NULL;
    if (MPI_Test(&alarm->hearing, &came, MPI_STATUS_IGNORE) == MPI_SUCCESS && came)
        alarm->is_raised = true;
    return alarm->is_raised;
}

bool mmul_alarm_is_raised(const struct mmul_alarm *alarm) {
    return alarm != NULL && alarm->is_raised;
}
