// SPDX-License-Identifier: MIT
//
// mpimatmul: multiply matrices on whatever machines are at hand, one MPI rank per GPU or CPU.
//
//     MPI_Init_thread(...);                          // MPI_THREAD_FUNNELED is enough
//     mmul_context_create(MPI_COMM_WORLD, ...);      // finds hosts, devices, cores
//     if (rank == 0) mmul_matrix_open("A.bin", ...); // operands: root's files or memory
//     mmul_plan_create(context, &args, ...);         // assigns rows to ranks
//     mmul_run(context, &args, plan, ...);           // moves, multiplies, checks, writes
//     mmul_report_print(report, false, stdout);      // prints what happened
//
// This header is the half that works on a communicator. mpimatmul_local.h (included here) holds
// types, files and everything that needs no MPI. Root is rank 0 of the communicator.
// All ranks of the context's communicator call the "Collective" functions, in the same order. When
// one rank fails, all return the same status and the same text (the lowest failing rank's). All
// other functions are local.
#pragma once

#include <mpi.h>

#include "mpimatmul_local.h"

#ifdef __cplusplus
extern "C" {
#endif

// ----------------------------------------------------------------------------------------- context

struct mmul_context;

struct mmul_context_options {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    // The next options may differ from rank to rank.
    const char *device; // "auto" (also NULL), "cpu", "gpu", "gpu:K", "P:D", "pci:BDF", part of a
                        // device's name, "reference", "faulty:RULES:NAME", or "@FILE" on root with
                        // lines `host device[,device...] [weight]`
    int threads;        // threads of a CPU rank; 0: its share of the node's cores
    bool no_bind;       // do not change the process's core binding
    const struct mmul_probe *probe; // devices of this machine, borrowed until destroy; NULL: none
    // Seconds that the caller spent before this call on starting MPI and probing drivers; only the
    // report uses them.
    double launch_seconds;
    // Options that must agree on all ranks, as lines `name=value` that are compared at start-up.
    // NULL: none.
    const char *agreed_options;
    // Folder of sets of shards (mmul_program_keep); may differ from rank to rank. NULL:
    // mmul_shard_folder's.
    const char *shard_folder;
};

// Collective over `comm`, which is duplicated. Finds nodes, cores and devices. Assigns each rank
// its device and cores, and binds the calling process unless no_bind is set or the user bound it.
// Checks that all ranks have the same version of this library and of MPI, the same byte order and
// the same options.
// Fails: MMUL_ERR_SYSTEM (versions, byte order), MMUL_ERR_USAGE (options that must agree differ,
// malformed device), MMUL_ERR_UNAVAILABLE (a device requested by name is absent).
MMUL_API enum mmul_status mmul_context_create(MPI_Comm comm,
                                              const struct mmul_context_options *options,
                                              struct mmul_context **context,
                                              struct mmul_error *err);

// Collective (frees the duplicated communicator). Call it before MPI_Finalize.
MMUL_API void mmul_context_destroy(struct mmul_context *context);

// Collective over `comm`. If any rank calls it with err->status != MMUL_OK, all ranks get the error
// of the lowest such rank and return its status. Meant for work that an application does on root
// alone between collective calls, such as opening files.
MMUL_API enum mmul_status mmul_agree(MPI_Comm comm, struct mmul_error *err);

// Returns the number of this process in the context's communicator. Local.
MMUL_API int mmul_context_rank(const struct mmul_context *context);

// Collective. mmul_agree over the context's communicator.
MMUL_API enum mmul_status mmul_context_agree(struct mmul_context *context, struct mmul_error *err);

// Publish a value for `mpimatmul top` and other readers of mmul_jobs_find, beside what runs publish
// by themselves: the current turn of the outermost loop of a text (NULL: none), and a printed
// number. Local; no effect on ranks other than root.
MMUL_API void mmul_context_publish_turn(struct mmul_context *context,
                                        const struct mmul_script_turn *turn);
MMUL_API void mmul_context_publish_number(struct mmul_context *context, const char *name,
                                          double value);

// Collective. Copies root's `bytes` bytes at `data` to `data` on all ranks: for sizes and other
// data that an application has read on root alone. Fails with MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_context_broadcast(struct mmul_context *context, void *data,
                                                 int64_t bytes, struct mmul_error *err);

// Prints or formats every rank (host, slot, bound cores, device, driver, memory) and every unused
// device of every node, with the reason. `verbose`: wider, with full vendors and names. Local; the
// same on all ranks.
MMUL_API void mmul_context_print(const struct mmul_context *context, bool verbose, FILE *stream);
MMUL_API enum mmul_status mmul_context_json(const struct mmul_context *context, char **text,
                                            struct mmul_error *err);

// Returns the number of warning lines of all ranks: those of the context's creation (drivers,
// devices, shared cores), or those found by the last update. The lines are borrowed until the next
// update. On root only.
MMUL_API int mmul_context_warnings(const struct mmul_context *context,
                                   const char *const **warnings);

// Collective. Makes mmul_context_warnings return the warnings since creation or the last update. A
// report takes warnings too; no warning appears in both.
MMUL_API enum mmul_status mmul_context_update_warnings(struct mmul_context *context,
                                                       struct mmul_error *err);

// ------------------------------------------------------------------------------------------- tests

// Collective. Tests every device for correct results and measures its speed. Each rank tests its
// own device. On a node without a named device, the first rank also tests unused devices that
// `auto` could choose, and those that failed before.
// Correctness: products of odd sizes, with all transposes, with 16-bit inputs, in rectangles and
// two at once must equal plain loops element by element. Speed: products of 1024 to 8192 rows, as
// far as one is expected to take at most a second, and transfers.
// Results are stored beside those of mmul_context_calibrate. From then on `auto` does not choose a
// device that failed or ended the process in its test, until it passes or has another driver
// version.
// device_timeout_seconds: limit of one device call, after which the device counts as hung; 0: 60.
// failed, tested: numbers of devices over all ranks.
// A device that fails its test is a result, not a failure. Fails: MMUL_ERR_CREATE or MMUL_ERR_IO
// (cannot store; before any test), MMUL_ERR_SYSTEM.
MMUL_API enum mmul_status mmul_context_test(struct mmul_context *context,
                                            double device_timeout_seconds, int *failed, int *tested,
                                            struct mmul_error *err);

// Prints or formats the results of mmul_context_test, as a table or as JSON. Local; the same on all
// ranks.
MMUL_API void mmul_context_print_tests(const struct mmul_context *context, FILE *stream);
MMUL_API enum mmul_status mmul_context_tests_json(const struct mmul_context *context, char **text,
                                                  struct mmul_error *err);

// ------------------------------------------------------------------------------------- calibration

// Collective. Measures every device (products of 256 to 4096 rows on all ranks at once, transfers,
// warm-up) and the links between nodes. Takes seconds. Stores the results of each node in a file of
// its own, $XDG_CACHE_HOME/mpimatmul/HOST.json, else ~/.cache/mpimatmul/HOST.json. Plans made
// later, by any process, use the stored results for the same host, device, driver, version and
// threads. Without stored results a plan measures briefly and stores nothing.
// A device that fails is replaced by the CPU, with a warning.
// Fails: MMUL_ERR_CREATE (cannot make or write to a folder; before any measurement), MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_context_calibrate(struct mmul_context *context,
                                                 struct mmul_error *err);

// Prints or formats the known speeds of devices and links, as tables or as JSON, and the places
// where they are stored. Local; the same on all ranks.
MMUL_API void mmul_context_print_speeds(const struct mmul_context *context, FILE *stream);
MMUL_API enum mmul_status mmul_context_speeds_json(const struct mmul_context *context, char **text,
                                                   struct mmul_error *err);

// Formats the origin of a plan's speeds: "stored profiles, measured 2026-01-31T12:00:00Z",
// "measured now" or "not measured". On several nodes the text says the same of the links. Local.
// Returns `text`.
MMUL_API char *mmul_context_speed_origin(const struct mmul_context *context,
                                         char text[MMUL_AT_LEAST(96)]);

// Returns the reason for not using the stored speed of a rank's device: "measured with kernels
// Haswell, now SkylakeX". "" if it was used or none is stored, NULL if there is no such rank.
// Local; the context owns the text.
MMUL_API const char *mmul_context_speed_unused(const struct mmul_context *context, int rank);

// ------------------------------------------------------------------------------------ plan and run

// Collective. Reads shapes on root, computes the plan there and sends it to all ranks. Uses stored
// speeds of devices and links (see mmul_context_calibrate). If none are stored and weights are
// automatic, measures them briefly; a context measures each speed only once.
// Fails: MMUL_ERR_DATA (shapes), MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM (does not fit in memory;
// the numbers are in the text).
MMUL_API enum mmul_status mmul_plan_create(struct mmul_context *context,
                                           const struct mmul_matmul *args, struct mmul_plan **plan,
                                           struct mmul_error *err);
// Collective. Carries the plan out; args are those the plan was made from. The report is complete
// on root; other ranks get one without warnings and totals.
// Fails: MMUL_ERR_WRONG (a block stayed wrong after it was recomputed), MMUL_ERR_UNAVAILABLE (a
// device failed and no_fallback is set), MMUL_ERR_IO, MMUL_ERR_DATA, MMUL_ERR_SYSTEM. After a
// failure there is no output.
MMUL_API enum mmul_status mmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                                   const struct mmul_plan *plan, struct mmul_report **report,
                                   struct mmul_error *err);

// ---------------------------------------------------------------------------------------- programs

// Options for planning and running a program. Only root's are read, and `notice` on all ranks.
struct mmul_program_options {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    // Shares by which values are split: "auto" (also NULL): stored or measured speeds; "equal";
    // "0.5,0.25,0.25"; "@FILE".
    const char *weights;
    // Every value can be read after the run. Without it only values that the program makes and does
    // not read can be. Then a value that is loaded for one product alone, or made by one and saved
    // at once, exists in its file only: its bytes travel while the product is computed. Memory is
    // reused after its value has been read for the last time.
    bool keep_values;
    enum mmul_io io; // readers of the values loaded for one product alone; root reads all others
    bool no_verify;
    bool no_fallback;              // a device failure ends the run
    double device_timeout_seconds; // as in struct mmul_matmul
    uint64_t verify_seed;          // 0: fresh
    // As in struct mmul_matmul.
    void (*notice)(void *notice_context, const char *text);
    void *notice_context;
    // Called on root after the computation and before outputs are committed. A failure discards the
    // outputs. NULL: none.
    enum mmul_status (*accept)(void *accept_context, struct mmul_error *err);
    void *accept_context;
    bool record;                // record a timeline of every rank: mmul_report_store_log and _trace
    int64_t memory_limit_bytes; // per node; 0: what the system has available
    int64_t device_memory_limit_bytes; // per device; 0: what the device has
    enum mmul_tail tail;               // as in struct mmul_matmul; applies to products
    double tail_share;
    bool reproducible; // same bits in every run on the same ranks, devices and stored speeds
    // Called on root, on the calling thread, during the run: the output has received all of its
    // value. Calls come in the order of the save operations. No call follows a failure of the run.
    // NULL: none.
    void (*arrived)(void *arrived_context, const struct mmul_output *output);
    void *arrived_context;
    // As in struct mmul_matmul, with notice_context.
    void (*progress)(void *notice_context, const struct mmul_progress *progress);
    // As in struct mmul_matmul, for products with all of their matrices in files.
    enum mmul_split_choice split;
    enum mmul_split_rule split_rule;
    bool only_planned; // no run follows: speeds are measured for the prediction alone, too
    // Root alone may plan and run the program, if the other ranks would cost more than they gain.
    // They then get NULL for the plan and the values, which only mmul_program_run,
    // mmul_program_plan_product and the destroy functions accept. Values that such a program holds
    // are root's alone until a program of all ranks reads them. Small programs that read them run
    // on root alone, too, with or without this option. Programs with weights, kept sets,
    // placements, keep_values, record or reproducible run on all ranks.
    bool may_run_on_root;
    // An output with a journal (mmul_matmul_resume): finished work is recorded at most this often,
    // in seconds. 0: never.
    double journal_seconds;
};

// Collective. Sends root's program to all ranks and plans it identically on each. The plan has a
// copy of the program; `program` is ignored on other ranks. options: NULL is all defaults.
// Fails: MMUL_ERR_USAGE (weights, an empty program), MMUL_ERR_SYSTEM (values do not fit in the
// memory of a node; the numbers are in the text).
MMUL_API enum mmul_status mmul_program_plan_create(struct mmul_context *context,
                                                   const struct mmul_program *program,
                                                   const struct mmul_program_options *options,
                                                   struct mmul_program_plan **plan,
                                                   struct mmul_error *err);

// Returns the plan of a program that is one product from files to a file (mmul_program_product), as
// mmul_plan_print and mmul_plan_json take it. Returns NULL for any other program, and for plan
// NULL. Lives as long as the program's plan. Local.
MMUL_API const struct mmul_plan *mmul_program_plan_product(struct mmul_program_plan *plan);

// Collective. Carries the plan out. Outputs are committed if everything succeeded and discarded
// otherwise, so a plan that saves runs once. The plan must outlive the values. plan: NULL on ranks
// that got none; *values is then NULL, too.
// Fails: MMUL_ERR_WRONG (a block stayed wrong after it was recomputed), MMUL_ERR_UNAVAILABLE (a
// device failed and no_fallback is set), MMUL_ERR_IO, MMUL_ERR_DATA, MMUL_ERR_USAGE (a plan for
// other ranks, or one with outputs that are already written), MMUL_ERR_SYSTEM. After a failure
// there are no values; the program's outputs are consumed either way.
// Files and kept sets of a program are committed together. All of them are complete and on disk
// before the first gets its name, so running out of space leaves all old files unchanged. Names are
// given in the order kept sets, standard output, files. A failure at that point (of a rename, for
// example) stops the sequence; the hint lists what has been written and what has not.
MMUL_API enum mmul_status mmul_program_run(struct mmul_context *context,
                                           struct mmul_program_plan *plan,
                                           struct mmul_values **values, struct mmul_error *err);

// Apart runs (local SGD): each node carries out its own program on its own ranks, with its own
// shares. Meanwhile only root's programs, and matrices in root's memory that they load, travel
// between nodes.
// A value that such a program reads from elsewhere is a held one: held by an earlier apart run, or
// by the whole context if it is placed as MMUL_PLACE_REPLICATE. A value that it holds must be
// placed as MMUL_PLACE_REPLICATE, too, and have the same number on all nodes (mmul_program_hold).
// In a program of the whole context, mmul_program_load_held gives the sum over all ranks of the
// values that their nodes hold. The sum is the mean over nodes if each program has multiplied its
// value by the node's share and divided it by the node's rank count.

// Returns the number of nodes. Local.
MMUL_API int mmul_context_nodes(const struct mmul_context *context);

// Collective; call it before the first mmul_apart_run. Determines each node's share of the total
// speed from options->weights, a device file, or speeds, which are measured briefly if unknown.
// options: weights, no_fallback, device_timeout_seconds and reproducible (which measures nothing)
// count. nodes: on root a zeroed array of mmul_context_nodes entries; may be NULL elsewhere. Fails
// as mmul_program_plan_create.
MMUL_API enum mmul_status mmul_apart_begin(struct mmul_context *context,
                                           const struct mmul_program_options *options,
                                           struct mmul_apart_node *nodes, struct mmul_error *err);

// Returns the context for building a node's programs (mmul_program_load_held). Borrowed; NULL
// before mmul_apart_begin.
MMUL_API const struct mmul_context *mmul_context_of_node(const struct mmul_context *context);

// Collective. Runs one program per node and returns when all nodes have finished. programs: root's,
// one per node, which root may destroy afterwards. They load and save no files (MMUL_ERR_USAGE) and
// keep no sets. options: the same on all ranks; weights and callbacks are ignored. Fails as
// mmul_program_plan_create and mmul_program_run.
MMUL_API enum mmul_status mmul_apart_run(struct mmul_context *context,
                                         const struct mmul_program *const *programs,
                                         const struct mmul_program_options *options,
                                         struct mmul_error *err);

// Collective. Keeps a value that lies in the memory of all ranks: copies each rank's part into a
// shard of the set `name` in the rank's folder (shard_folder of the context; in RAM by default).
// mmul_program_load_kept reads it in place until mmul_context_remove_kept removes it. Nothing
// crosses the network. An earlier set with this name stays intact if anything fails.
// Fails: MMUL_ERR_USAGE (no valid name, unsupported type), MMUL_ERR_DATA (parts that do not fit
// together, no elements at all), MMUL_ERR_CREATE, MMUL_ERR_IO (no space).
MMUL_API enum mmul_status mmul_keep_part(struct mmul_context *context, const char *name,
                                         const struct mmul_local_part *part,
                                         struct mmul_error *err);

// Collective. Lists sets of shards (mmul_program_keep, mmul_split) in the folders of all ranks:
// those with the given names, or all if count is 0. text (root): a heading and a line with tabs for
// each set and folder, or (json) an object for each in the array "sets"; release it with mmul_free.
// Fails with MMUL_ERR_NO_INPUT (no rank has a named set), MMUL_ERR_CREATE (an untrusted folder).
MMUL_API enum mmul_status mmul_context_list_kept(struct mmul_context *context,
                                                 const char *const *names, int count, bool json,
                                                 char **text, struct mmul_error *err);

// Collective. Removes sets from the folders of all ranks, including the leftovers of stopped jobs.
// Fails as mmul_context_list_kept, and with MMUL_ERR_IO.
MMUL_API enum mmul_status mmul_context_remove_kept(struct mmul_context *context,
                                                   const char *const *names, int count,
                                                   struct mmul_error *err);

// ------------------------------------------------------------------------------- texts of programs

// State of mmul_script_run, for its callbacks, and its result.
struct mmul_script_state {
    struct mmul_script *script;          // root only; NULL elsewhere and if the text cannot be read
    struct mmul_program_plan *plan;      // plan of the current program; NULL before it is planned
    struct mmul_values *values;          // values of the current program; NULL before it has run
    struct mmul_programs_summary before; // totals of the programs before the current one
    bool is_last;                        // the current program is the last one of the text
};

// Callbacks of mmul_script_run, on the calling thread, on root unless noted. NULL: none. A failure
// of a callback ends the run on all ranks.
struct mmul_script_callbacks {
    size_t struct_bytes; // size of this struct in the caller's header; 0: as in this one
    void *context;       // first argument of each callback
    // Called before each program is planned, or where mmul_script_is_over before its lines are
    // printed. mmul_script_turn tells the iteration of the loop.
    enum mmul_status (*before)(void *context, const struct mmul_script_state *state,
                               struct mmul_error *err);
    // Called on all ranks once the last program is planned (or over), before it runs. It may call
    // collective functions and then returns the same status on all ranks.
    enum mmul_status (*planned)(void *context, const struct mmul_script_state *state,
                                struct mmul_error *err);
    // Called when lines of the text can be printed (mmul_script_print). NULL: mmul_script_json has
    // them.
    void (*lines)(void *context, const struct mmul_script_state *state);
    // Called after each program has run, while its values are there.
    enum mmul_status (*after)(void *context, const struct mmul_script_state *state,
                              struct mmul_error *err);
};

// Collective. Reads a text on root and runs it on all ranks. A text with loops, conditions or
// apart(...) is several programs, one after the other: values that later ones need stay on the
// ranks. With request->only_checked the text is read and planned, and nothing runs.
// request: root's, not looked at elsewhere; what it points to lives as long as the state. options:
// the same on all ranks, NULL for all defaults; accept and arrived are not used, and progress
// reports only programs outside of loops. callbacks: NULL for none.
// state: owned by the caller, who releases it with mmul_script_state_fini before the context; it
// holds the last program, after a failure too.
// err: MMUL_OK, or a failure of this rank, which ends the call on all ranks (as mmul_agree).
// Fails as mmul_script_create, mmul_program_plan_create and mmul_program_run; files saved before a
// loop iteration failed stay.
MMUL_API enum mmul_status mmul_script_run(struct mmul_context *context,
                                          const struct mmul_script_request *request,
                                          const struct mmul_program_options *options,
                                          const struct mmul_script_callbacks *callbacks,
                                          struct mmul_script_state *state, struct mmul_error *err);
MMUL_API void mmul_script_state_fini(struct mmul_script_state *state);

// ---------------------------------------------------------------------------------------- baseline

// Collective. Times multiplications of random float32 matrices by OpenBLAS on every core that the
// job may use on root's node. Operands are in memory; nothing is read, checked or written. The
// measurement runs in a process of its own, with its own memory and binding, while the ranks wait.
// seconds (root): baseline->runs results, in order. threads (root): number of threads used.
// Fails: MMUL_ERR_SYSTEM (memory, with the numbers in the text; the process could not be started).
MMUL_API enum mmul_status mmul_baseline_measure(struct mmul_context *context,
                                                const struct mmul_baseline *baseline,
                                                double *seconds, int *threads,
                                                struct mmul_error *err);

#ifdef __cplusplus
}
#endif
