// SPDX-License-Identifier: MIT
// doctor: checks if a job can run on these machines, even if MPI cannot start. With --probe it is
// the remote side, started on every machine by the doctor on the first one.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/failure.h"
#include "cli/launcher.h"
#include "cli/print.h"

static enum mmul_status diagnose(const struct call *call, const char *folder,
                                 struct mmul_diagnosis **diagnosis, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    char path[PATH_MAX], program[PATH_MAX];
    if (realpath(folder, path) == NULL)
        return mmul_cli_fail(err, MMUL_ERR_CREATE, "no folder '%s': %s", folder, strerror(errno));
    if (strchr(path, '\n') != NULL)
        return mmul_cli_fail(err, MMUL_ERR_USAGE,
                             "doctor: the name of the folder has a line break");
    const struct mmul_doctor_options options = {
        .program = mmul_launcher_program_name(program),
        .hostfile = values[OPT_HOSTFILE].text,
        .tune = values[OPT_MPI_TUNE].text,
        .folder = path,
        .limit_seconds = values[OPT_TIMEOUT].real,
    };
    return mmul_diagnosis_create(&options, diagnosis, err);
}

static enum mmul_status print_diagnosis(const struct call *call,
                                        const struct mmul_diagnosis *diagnosis,
                                        struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    int count = mmul_diagnosis_findings(diagnosis);
    char *text = NULL;
    if (values[OPT_JSON].number != 0) {
        if (mmul_print_owned_text(mmul_diagnosis_json(diagnosis, &text, err), &text, stdout) !=
            MMUL_OK)
            return err->status;
    } else if (values[OPT_QUIET].number == 0) {
        mmul_diagnosis_print(diagnosis, values[OPT_VERBOSE].number != 0, stdout);
    }
    if (count > 0)
        return mmul_cli_fail(err, MMUL_ERR_CONFIG, "not ready: %d problem%s to fix", count,
                             count == 1 ? "" : "s");
    return MMUL_OK;
}

static enum mmul_status run_doctor(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    const char *folder = values[OPT_FOLDER].text;
    struct mmul_diagnosis *diagnosis = NULL;
    if (values[OPT_PROBE].number != 0)
        return mmul_doctor_answer(err);
    if (mmul_launcher_find().is_one_of_several && values[OPT_HOSTFILE].text == NULL)
        mmul_print_remark(call,
                          "this checks only the machine of the first process: to check all, run "
                          "'mpimatmul doctor --hostfile FILE' without mpirun");
    enum mmul_status status = diagnose(call, folder != NULL ? folder : ".", &diagnosis, err);
    if (status == MMUL_OK)
        status = print_diagnosis(call, diagnosis, err);
    mmul_diagnosis_destroy(diagnosis);
    return status;
}

static const enum option_id options[] = {
    OPT_HOSTFILE, OPT_FOLDER, OPT_MPI_TUNE, OPT_TIMEOUT, OPT_PROBE,
    OPT_JSON,     OPT_QUIET,  OPT_VERBOSE,  OPT_HELP,    OPT_END,
};

const struct command mmul_command_doctor = {
    .name = "doctor",
    .operands = "",
    .operands_min = 0,
    .operands_max = 0,
    .summary = "check if a job can run on these machines, even without MPI",
    .notes =
        "It reaches machines as mpirun does: by ssh, or by what OMPI_MCA_plm_rsh_agent names\n"
        "(a program that is called with HOST COMMAND). It ends with READY, or with what is to\n"
        "be mended and how (exit code 78). --verbose lists every connection.\n"
        "A line of the hostfile that mpirun refuses is named: mpirun prepares a job on it, and\n"
        "launches nothing.\n"
        "\n"
        "Where OPENBLAS_CORETYPE or OPENBLAS_L2_SIZE is set, or OpenBLAS has chosen kernels of\n"
        "narrower vectors than the processor has, it times others, on one core: kernels that\n"
        "lose more than a tenth of the speed are to be mended. On a machine that is too busy for\n"
        "that a note says so, and the end is READY, except for facts that could not be measured.\n",
    .options = options,
    .run = run_doctor,
};
