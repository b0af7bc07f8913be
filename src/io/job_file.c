// SPDX-License-Identifier: MIT
// Folder, name and JSON of a job file. jobs.c reads such files. They are never synced: their
// content matters only at the moment.
#include "io/job_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

// ----------------------------------------------------------------------------------------- folders

// Returns false for a folder of another user, one that is open to others, or no folder.
static bool is_private_folder(const struct stat *found) {
    return S_ISDIR(found->st_mode) && found->st_uid == geteuid() && (found->st_mode & 077) == 0;
}

bool mmul_job_folder_path(int index, char path[static MMUL_JOB_PATH_BYTES]) {
    const char *given = getenv("XDG_RUNTIME_DIR");
    struct stat found;
    const bool has_given = given != NULL && given[0] == '/' && lstat(given, &found) == 0 &&
                           is_private_folder(&found) && strlen(given) < MMUL_JOB_PATH_BYTES - 64;
    if (index == 0 && has_given)
        snprintf(path, MMUL_JOB_PATH_BYTES, "%s/mpimatmul", given);
    else
        snprintf(path, MMUL_JOB_PATH_BYTES, "/tmp/mpimatmul-%lu", (unsigned long)geteuid());
    return index == 0 || (index == 1 && has_given);
}

enum mmul_status mmul_job_folder_check(const char *path, bool *is_there, struct mmul_error *err) {
    struct stat found;
    *is_there = lstat(path, &found) == 0;
    if (!*is_there || is_private_folder(&found))
        return MMUL_OK;
    if (S_ISLNK(found.st_mode) || !S_ISDIR(found.st_mode))
        return mmul_fail(err, MMUL_ERR_CREATE, "'%s' is not a folder: not used for jobs", path);
    if (found.st_uid != geteuid())
        return mmul_fail(err, MMUL_ERR_CREATE,
                         "folder '%s' belongs to user %lu, not to user %lu: not used for jobs",
                         path, (unsigned long)found.st_uid, (unsigned long)geteuid());
    mmul_fail(err, MMUL_ERR_CREATE, "folder '%s' is open to other users: not used for jobs", path);
    mmul_hint(err, "chmod 700 '%s'", path);
    return err->status;
}

// ------------------------------------------------------------------------------------------- names

int64_t mmul_process_started(int64_t pid) {
    char path[64], line[1024];
    long long started = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    const char *at = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    fclose(file);
    // Field 22. Field 2, in parentheses, may contain anything.
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, " %lld", &started) == 1 ? started : 0;
}

enum mmul_status mmul_job_file_choose_path(struct mmul_job_file *file, double begin,
                                           struct mmul_error *err) {
    static _Atomic int count; // jobs of this process so far
    char folder[MMUL_JOB_PATH_BYTES];
    bool is_there;
    (void)mmul_job_folder_path(0, folder);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno, "cannot create folder '%s'", folder);
    if (mmul_job_folder_check(folder, &is_there, err) != MMUL_OK)
        return err->status;
    const int index = atomic_fetch_add(&count, 1) + 1;
    int length = snprintf(file->id, sizeof file->id, "%ld", (long)getpid());
    if (index > 1)
        snprintf(file->id + length, sizeof file->id - (size_t)length, ".%d", index);
    file->started = mmul_process_started(getpid());
    file->begin = begin;
    if (snprintf(file->path, sizeof file->path, "%s/%s.json", folder, file->id) <
        (int)sizeof file->path - 8)
        return MMUL_OK;
    file->path[0] = '\0';
    return mmul_fail(err, MMUL_ERR_CREATE, "the path of a job is too long");
}

// -------------------------------------------------------------------------------------------- JSON

// Digits of a number: readers need no more, and more take longer to write.
enum { DIGITS = 9 };

static json_t *rank_json(const struct mmul_job_rank *r, int rank) {
    return json_pack("{si so so so so so so so so so so}", "rank", rank, "host",
                     mmul_json_from_text(r->host), "device", mmul_json_from_text(r->device),
                     "device_name", mmul_json_from_text(r->device_name), "computes",
                     mmul_json_from_text(r->computes), "share", mmul_json_from_double(r->share),
                     "done", mmul_json_from_double(r->done), "flops_per_second",
                     mmul_json_from_double(r->flops_per_second), "memory_bytes",
                     mmul_json_from_double(r->memory_bytes), "celsius",
                     mmul_json_from_double(r->celsius), "watts", mmul_json_from_double(r->watts));
}

static json_t *turn_json(const struct mmul_job_state *job) {
    if (job->end_turn == 0)
        return json_null();
    return json_pack("{sI sI so so}", "at", (json_int_t)job->turn, "end", (json_int_t)job->end_turn,
                     "turns_per_second", mmul_json_from_double(job->turns_per_second),
                     "windows_per_second", mmul_json_from_double(job->windows_per_second));
}

static json_t *numbers_json(const struct mmul_job_state *job) {
    json_t *list = json_array();
    for (int i = 0; i < job->number_count; i++)
        json_array_append_new(list, json_pack("{so so}", "name",
                                              mmul_json_from_text(job->numbers[i].name), "value",
                                              mmul_json_from_double(job->numbers[i].value)));
    return list;
}

static json_t *curve_json(const struct mmul_job_state *job) {
    if (job->curve_count == 0)
        return json_null();
    json_t *points = json_array();
    for (int i = 0; i < job->curve_count; i++)
        json_array_append_new(points, json_pack("[o o]", mmul_json_from_double(job->curve_turns[i]),
                                                mmul_json_from_double(job->curve_values[i])));
    return json_pack("{so so}", "name", mmul_json_from_text(job->curve_name), "points", points);
}

static json_t *job_json(const struct mmul_job_file *file, const struct mmul_job_state *job,
                        double now) {
    json_t *ranks = json_array();
    for (int i = 0; i < job->rank_count; i++)
        json_array_append_new(ranks, rank_json(&job->ranks[i], i));
    json_t *process =
        json_pack("{ss sI sI sf sf}", "version", MMUL_VERSION, "pid", (json_int_t)getpid(),
                  "started", (json_int_t)file->started, "begin", file->begin, "told", now);
    return json_pack("{so ss so ss so so so so so so so}", "process", process, "id", file->id,
                     "command", mmul_json_from_text(job->command), "phase", job->phase, "share",
                     mmul_json_from_double(job->share), "left_seconds",
                     mmul_json_from_double(job->left_seconds), "flops_per_second",
                     mmul_json_from_double(job->flops_per_second), "loop", turn_json(job),
                     "numbers", numbers_json(job), "curve", curve_json(job), "ranks", ranks);
}

enum mmul_status mmul_job_file_store(const struct mmul_job_file *file,
                                     const struct mmul_job_state *job, double now,
                                     struct mmul_error *err) {
    char temporary_path[MMUL_JOB_PATH_BYTES + 8];
    json_t *value = job_json(file, job, now);
    char *text =
        value != NULL ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(value);
    if (text == NULL)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot format JSON");
    snprintf(temporary_path, sizeof temporary_path, "%s.new", file->path);
    const ssize_t bytes = (ssize_t)strlen(text);
    const int fd =
        open(temporary_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool is_written = fd >= 0 && write(fd, text, (size_t)bytes) == bytes;
    free(text);
    if (fd >= 0)
        close(fd);
    if (is_written && rename(temporary_path, file->path) == 0)
        return MMUL_OK;
    if (fd >= 0)
        unlink(temporary_path);
    return mmul_fail(err, MMUL_ERR_IO, "cannot write '%s'", file->path);
}

void mmul_job_file_remove(struct mmul_job_file *file) {
    if (file->path[0] != '\0')
        unlink(file->path);
    file->path[0] = '\0';
}
