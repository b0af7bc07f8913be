// SPDX-License-Identifier: MIT
//
// mpimatmul: multiply matrices on whatever machines are at hand, one MPI rank per GPU or CPU.
//
//     MPI_Init_thread(...);                          // MPI_THREAD_FUNNELED is enough
//     mmul_context_create(MPI_COMM_WORLD, ...);      // who is there: hosts, devices, cores
//     if (rank == 0) mmul_matrix_open("A.bin", ...); // operands: root's files or memory
//     mmul_plan_create(context, &args, ...);         // who computes which rows
//     mmul_run(context, &args, plan, ...);           // move, multiply, check, write
//     mmul_report_print(report, false, stdout);      // what happened
//
// This header is the half that works on a communicator; mpimatmul_local.h (included here) holds
// types, files and everything that needs no MPI. Root is rank 0 of the communicator.
// "Collective" functions are called by all ranks of the context's communicator, in the same order;
// when one rank fails, all return the same status and the same text (the lowest failing rank's).
#pragma once

#include <mpi.h>

#include "mpimatmul_local.h"

#ifdef __cplusplus
extern "C" {
#endif

// --------------------------------------------------------------------------------------- context

struct mmul_context;

struct mmul_context_options {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    // These may differ from rank to rank:
    const char *device; // "auto" (also NULL), "cpu", "gpu", "gpu:K", "P:D", "pci:BDF", part of a
                        // device's name, "reference", "faulty:RULES:NAME", or "@FILE" on root with
                        // lines `host device[,device...] [weight]`
    int threads;        // of a CPU rank; 0: its share of the node's cores
    bool no_bind;       // leave the process's cores as they are
    const struct mmul_probe *probe; // devices of this machine, borrowed until destroy;
                                    // NULL: none
    double
        launch_seconds; // what the caller took before this call, to start MPI and look at drivers:
                        // for the report
    // Must agree on all ranks: lines `name=value` compared at start-up; NULL: none.
    const char *agreed_options;
    // May differ from rank to rank: folder of sets of shards (mmul_program_keep); NULL: mmul_shard_folder's.
    const char *shard_folder;
};

// Collective over `comm`, which is duplicated. Finds nodes, cores and devices, gives each rank its
// device and cores (binding the calling process unless no_bind or the user bound it), and checks
// that all ranks run the same version of this library and of MPI, on the same byte order, with
// the same options.
// Fails: MMUL_ERR_SYSTEM (versions, byte order), MMUL_ERR_USAGE (options that must agree differ,
// malformed device), MMUL_ERR_UNAVAILABLE (a device asked for by name is absent).
MMUL_API enum mmul_status mmul_context_create(MPI_Comm comm,
                                              const struct mmul_context_options *options,
                                              struct mmul_context **context,
                                              struct mmul_error *err);

// Collective (frees the duplicated communicator): call before MPI_Finalize.
MMUL_API void mmul_context_destroy(struct mmul_context *context);

// Collective over `comm`: when any rank comes with err->status != MMUL_OK, the lowest such rank's
// error becomes everybody's and its status is returned. For what an application does on root
// alone between collective calls (opening files, say).
MMUL_API enum mmul_status mmul_agree(MPI_Comm comm, struct mmul_error *err);

// For `mpimatmul top` and its like (mmul_jobs_find), beside what runs tell by themselves. Local; nothing on other ranks
// than root. Which turn of its outermost loop a text is at; NULL: of none. A number that was printed.
MMUL_API void mmul_context_tell_turn(struct mmul_context *context,
                                     const struct mmul_script_turn *turn);
MMUL_API void mmul_context_tell_number(struct mmul_context *context, const char *name,
                                       double value);

// Collective. Root's bytes at `data` to the same place on all ranks: for what an application has read on
// root alone, sizes say. Fails with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_context_broadcast(struct mmul_context *context, void *data,
                                                 int64_t bytes, struct mmul_error *err);

// Every rank: host, slot, cores bound, device, driver, memory; every device of every node that is
// not used, with the reason; `verbose`: wider, with vendors and names in full. Local; the same on all ranks.
MMUL_API void mmul_context_print(const struct mmul_context *context, bool verbose, FILE *stream);
MMUL_API enum mmul_status mmul_context_json(const struct mmul_context *context, char **text,
                                            struct mmul_error *err);

// Warning lines of all ranks: of the context's creation (drivers, devices, shared cores), or those
// that the last update found; borrowed until the next update, on root only.
MMUL_API int mmul_context_warnings(const struct mmul_context *context,
                                   const char *const **warnings);

// Collective. Lets mmul_context_warnings give the warnings since creation or the last update. A
// report takes warnings too; none is in both.
MMUL_API enum mmul_status mmul_context_update_warnings(struct mmul_context *context,
                                                       struct mmul_error *err);

// ------------------------------------------------------------------------------------------ tests

// Collective. Is every device right, and how fast? Each rank tests its own device; where the device
// was not named, the first rank of a node also tests those that `auto` could take but no rank has,
// and those that failed before. Products of odd sizes, with all transposes, 16-bit inputs, in
// rectangles and two at once must be equal, element by element, to plain loops; then products of
// 1024 to 8192 rows are timed, as far as one is expected to take no more than a second, and transfers.
// What was found is stored beside what mmul_context_calibrate stores. From then on, until it passes or has another
// driver version, `auto` leaves a device that failed alone; so it does with one whose test ended the
// process.
// device_timeout_seconds: of one call of a device, then it hangs; 0: 60. failed, tested: of all ranks.
// A device that fails is a result, not a failure. Fails: MMUL_ERR_CREATE or MMUL_ERR_IO (cannot
// store: before anything is tested), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_context_test(struct mmul_context *context,
                                            double device_timeout_seconds, int *failed, int *tested,
                                            struct mmul_error *err);

// What mmul_context_test found, as a table or JSON. Local; the same on all ranks.
MMUL_API void mmul_context_print_tests(const struct mmul_context *context, FILE *stream);
MMUL_API enum mmul_status mmul_context_tests_json(const struct mmul_context *context, char **text,
                                                  struct mmul_error *err);

// ----------------------------------------------------------------------------------- calibration

// Collective. Measures every device (products of 256 to 4096 rows on all ranks at once, transfers,
// warm-up) and the links between nodes, and stores them: each node's in a file of its own,
// $XDG_CACHE_HOME/mpimatmul/HOST.json, else ~/.cache/mpimatmul/HOST.json. It takes seconds. Plans
// made later, by any process, use what is stored for the same host, device, driver, version and
// threads, instead of a brief measurement that is stored nowhere.
// A device that fails is replaced by the CPU, with a warning.
// Fails: MMUL_ERR_CREATE (a folder cannot be made or written to: before anything is measured),
// MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_context_calibrate(struct mmul_context *context,
                                                 struct mmul_error *err);

// What is known of speeds: tables, or JSON, of devices and links, and where they were stored.
// Local; the same on all ranks.
MMUL_API void mmul_context_print_speeds(const struct mmul_context *context, FILE *stream);
MMUL_API enum mmul_status mmul_context_speeds_json(const struct mmul_context *context, char **text,
                                                   struct mmul_error *err);

// Where a plan's speeds come from: "stored profiles, measured 2026-01-31T12:00:00Z", "measured
// now" or "not measured", of several nodes with the same for links. Local. Returns `text`.
MMUL_API char *mmul_context_speed_origin(const struct mmul_context *context, char text[static 96]);

// Why the speed that is stored for a rank's device was not used: "measured with kernels Haswell, now SkylakeX"; "" when
// it was, or none is. NULL: no such rank. Local; the text is the context's.
MMUL_API const char *mmul_context_speed_unused(const struct mmul_context *context, int rank);

// ---------------------------------------------------------------------------------- plan and run

// Collective. Reads shapes on root, takes stored speeds of devices and links (see
// mmul_context_calibrate) or, when weights are automatic, measures them briefly, computes the plan on
// root and sends it to all. What a context has measured it does not measure again.
// Fails: MMUL_ERR_DATA (shapes), MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM (does not fit in
// memory; the numbers are in the text).
MMUL_API enum mmul_status mmul_plan_create(struct mmul_context *context,
                                           const struct mmul_matmul *args, struct mmul_plan **plan,
                                           struct mmul_error *err);
// Collective. Carries the plan out: args are those the plan was made from. The report is complete
// on root; other ranks get one without warnings and totals.
// Fails: MMUL_ERR_WRONG (a block stayed wrong after it was recomputed), MMUL_ERR_UNAVAILABLE (a
// device failed and no_fallback), MMUL_ERR_IO, MMUL_ERR_DATA, MMUL_ERR_SYSTEM. No output then.
MMUL_API enum mmul_status mmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                                   const struct mmul_plan *plan, struct mmul_report **report,
                                   struct mmul_error *err);

// ---------------------------------------------------------------------------------------- programs

// How a program is planned and run; all root's, other ranks' are not looked at.
struct mmul_program_options {
    size_t struct_bytes; // of this struct as the caller knows it; 0: as it is here
    const char *weights; // "auto" (also NULL): stored or measured speeds; "equal"; "0.5,0.25,0.25";
                         // "@FILE". Values are split by these
    // Every value can be had after the run. Without it only those that the program makes and does not read:
    // what is loaded for one product alone, or made by one and saved at once, is in its file and nowhere
    // else (its bytes travel while the product is computed), and the memory of what was read for the last
    // time is used for other values.
    bool keep_values;
    enum mmul_io io; // who reads what is loaded for one product alone; all else is read by root
    bool no_verify;
    bool no_fallback;              // a device that fails ends the run
    double device_timeout_seconds; // as in struct mmul_matmul
    uint64_t verify_seed;          // 0: fresh
    // As in struct mmul_matmul, but on root alone.
    void (*notice)(void *notice_context, const char *text);
    void *notice_context;
    // On root, when all is computed and before outputs are committed: a failure discards them. NULL: none.
    enum mmul_status (*accept)(void *accept_context, struct mmul_error *err);
    void *accept_context;
    bool record;                       // what every rank did when: mmul_report_store_log and _trace
    int64_t memory_limit_bytes;        // per node; 0: what the system has available
    int64_t device_memory_limit_bytes; // per device; 0: what the device has
    enum mmul_tail tail;               // of products, as in struct mmul_matmul
    double tail_share;
    bool reproducible; // the same bits in every run on the same ranks, devices and stored speeds
    // On root, on the calling thread while the program runs: all of a value is in its output, in the order in which
    // operations save them; none when the run has failed by then. NULL: nobody asks.
    void (*arrived)(void *arrived_context, const struct mmul_output *output);
    void *arrived_context;
    // As in struct mmul_matmul, with notice_context.
    void (*progress)(void *notice_context, const struct mmul_progress *progress);
};

// Collective. Sends root's program (`program` is not looked at elsewhere), of which the plan has a
// copy, and plans it on all ranks alike. options: NULL is all defaults.
// Fails: MMUL_ERR_USAGE (weights, an empty program), MMUL_ERR_SYSTEM (values do not fit in the
// memory of a node; the numbers are in the text).
MMUL_API enum mmul_status mmul_program_plan_create(struct mmul_context *context,
                                                   const struct mmul_program *program,
                                                   const struct mmul_program_options *options,
                                                   struct mmul_program_plan **plan,
                                                   struct mmul_error *err);

// Collective. Carries the plan out; outputs are committed when all is right, else discarded, so a
// plan that saves runs once. The plan must outlive the values.
// Fails: MMUL_ERR_WRONG (a block stayed wrong after it was recomputed), MMUL_ERR_UNAVAILABLE (a
// device failed and no_fallback), MMUL_ERR_IO, MMUL_ERR_DATA, MMUL_ERR_USAGE (a plan for other ranks,
// or one whose outputs have been written), MMUL_ERR_SYSTEM. No values then; the program's outputs are
// used up either way. Files and kept sets of a program are one list: all of them are complete and on their
// disks before the first gets its name, so what can run out, such as space, leaves all as they were. Names
// come in the order kept sets, standard output, files. What fails there, a rename say, ends it: the hint says
// what is written then and what is not.
MMUL_API enum mmul_status mmul_program_run(struct mmul_context *context,
                                           struct mmul_program_plan *plan,
                                           struct mmul_values **values, struct mmul_error *err);

// Nodes that compute apart: each carries out a program of its own on its own ranks, with its own shares, and nothing
// travels between nodes meanwhile but root's programs and the matrices in root's memory that they load. What such a
// program reads of others is held: by the nodes apart, or (placed as MMUL_PLACE_REPLICATE) by the whole context. What
// it holds has to be placed so, and to have one number on all nodes (mmul_program_hold). In a program of the whole
// context mmul_program_load_held gives the sum over all ranks of what their nodes hold: the nodes' mean, where each
// program has multiplied it by the node's part and divided it by the node's ranks.

// How many nodes there are. Local.
MMUL_API int mmul_context_nodes(const struct mmul_context *context);

// Collective; before the first mmul_apart_run. What each node can do of all: by options->weights, a device file, or
// speeds, which are measured in a moment where nobody knows them. options: of which weights, no_fallback,
// device_timeout_seconds and reproducible (which measures nothing) count. nodes: root's, zeroed, mmul_context_nodes of
// them; may be NULL elsewhere. Fails as mmul_program_plan_create.
MMUL_API enum mmul_status mmul_apart_begin(struct mmul_context *context,
                                           const struct mmul_program_options *options,
                                           struct mmul_apart_node *nodes, struct mmul_error *err);

// The context that a node's programs are built with (mmul_program_load_held); borrowed, NULL before mmul_apart_begin.
MMUL_API const struct mmul_context *mmul_context_of_node(const struct mmul_context *context);

// Collective. programs: root's, one per node, which it may destroy afterwards; they load and save no files
// (MMUL_ERR_USAGE) and keep no sets. options: the same on all ranks; weights and calls do not count. Returns when all
// nodes have carried theirs out. Fails as mmul_program_plan_create and mmul_program_run.
MMUL_API enum mmul_status mmul_apart_run(struct mmul_context *context,
                                         const struct mmul_program *const *programs,
                                         const struct mmul_program_options *options,
                                         struct mmul_error *err);

// Collective. A value from the memory of all ranks: copies each one's part into a shard of the set `name`, in the
// folders of the ranks (shard_folder of the context; in RAM by default), which mmul_program_load_kept reads
// where it lies until mmul_context_remove_kept removes it. Nothing of it crosses the network. An earlier set of the
// name stays whole when anything fails. Fails with MMUL_ERR_USAGE (no name, another type), MMUL_ERR_DATA (parts that do
// not fit together, nothing at all), MMUL_ERR_CREATE, MMUL_ERR_IO (no space).
MMUL_API enum mmul_status mmul_keep_part(struct mmul_context *context, const char *name,
                                         const struct mmul_local_part *part,
                                         struct mmul_error *err);

// Collective. Sets of shards (mmul_program_keep, mmul_split) in the folders of all ranks, of these names, or of all
// where count is 0. text (root): headings, then a line with tabs for each set and folder, or (json) an object for
// each in the array "sets"; released with mmul_free. Fails with MMUL_ERR_NO_INPUT (nobody has it), MMUL_ERR_CREATE (a
// folder that is not to be trusted).
MMUL_API enum mmul_status mmul_context_list_kept(struct mmul_context *context,
                                                 const char *const *names, int count, bool json,
                                                 char **text, struct mmul_error *err);

// Collective. Removes sets from the folders of all ranks, with what stopped jobs have left of them. Fails as above, and
// with MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_context_remove_kept(struct mmul_context *context,
                                                   const char *const *names, int count,
                                                   struct mmul_error *err);

// ---------------------------------------------------------------------------------------- baseline

// Collective. Times multiplications of random float32 matrices by OpenBLAS on every core
// that the job may use on root's node: operands in memory, nothing read, checked or written. It
// happens in a process of its own, which has its memory and its binding to itself; the ranks wait.
// seconds (root): baseline->runs results, in order. threads (root): how many it used.
// Fails: MMUL_ERR_SYSTEM (memory, with the numbers in the text; the process could not be started).
MMUL_API enum mmul_status mmul_baseline_measure(struct mmul_context *context,
                                                const struct mmul_baseline *baseline,
                                                double *seconds, int *threads,
                                                struct mmul_error *err);

#ifdef __cplusplus
}
#endif
