// SPDX-License-Identifier: MIT
// Reads the files of jobs with a live process. Removes the files of killed jobs on the way.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/job_file.h"

struct mmul_jobs {
    struct entry {
        struct mmul_job_state job; // owns its ranks
        json_t *json;              // owned: as it is printed
    } * entries;                   // owned
    int count;
};

// ----------------------------------------------------------------------------------------- reading

static double get_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void get_text(const json_t *object, const char *key, char *text, size_t capacity) {
    mmul_text_copy(text, capacity, mmul_json_get_text(object, key));
    mmul_make_printable(text);
}

static void read_rank(const json_t *json, struct mmul_job_rank *rank) {
    get_text(json, "host", rank->host, sizeof rank->host);
    get_text(json, "device", rank->device, sizeof rank->device);
    get_text(json, "device_name", rank->device_name, sizeof rank->device_name);
    get_text(json, "computes", rank->computes, sizeof rank->computes);
    rank->share = get_number(json, "share");
    rank->done = get_number(json, "done");
    rank->flops_per_second = get_number(json, "flops_per_second");
    rank->memory_bytes = get_number(json, "memory_bytes");
    rank->celsius = get_number(json, "celsius");
    rank->watts = get_number(json, "watts");
}

static enum mmul_status read_ranks(const json_t *json, struct mmul_job_state *job,
                                   struct mmul_error *err) {
    const json_t *ranks = json_object_get(json, "ranks");
    const size_t count = json_array_size(ranks);
    enum mmul_status status = MMUL_ALLOCATE(job->ranks, (int64_t)count, "ranks of a job", err);
    for (size_t i = 0; status == MMUL_OK && i < count; i++)
        read_rank(json_array_get(ranks, i), &job->ranks[i]);
    job->rank_count = status == MMUL_OK ? (int)count : 0;
    return status;
}

static void read_numbers(const json_t *json, struct mmul_job_state *job) {
    const json_t *numbers = json_object_get(json, "numbers"),
                 *curve = json_object_get(json, "curve"),
                 *points = json_object_get(curve, "points");
    for (size_t i = 0; i < json_array_size(numbers) && i < MMUL_JOB_NUMBERS; i++) {
        struct mmul_job_number *number = &job->numbers[job->number_count++];
        get_text(json_array_get(numbers, i), "name", number->name, sizeof number->name);
        number->value = get_number(json_array_get(numbers, i), "value");
    }
    get_text(curve, "name", job->curve_name, sizeof job->curve_name);
    for (size_t i = 0; i < json_array_size(points) && i < MMUL_JOB_POINTS; i++) {
        const json_t *point = json_array_get(points, i);
        job->curve_turns[job->curve_count] = json_number_value(json_array_get(point, 0));
        const json_t *value = json_array_get(point, 1);
        job->curve_values[job->curve_count++] =
            json_is_number(value) ? json_number_value(value) : NAN;
    }
}

// Converts a job file to a state. Times in the file become elapsed seconds.
static enum mmul_status read_job(json_t *json, double now, struct mmul_job_state *job,
                                 struct mmul_error *err) {
    const json_t *process = json_object_get(json, "process"), *loop = json_object_get(json, "loop");
    get_text(json, "id", job->id, sizeof job->id);
    get_text(json, "command", job->command, sizeof job->command);
    get_text(json, "phase", job->phase, sizeof job->phase);
    job->elapsed_seconds = fmax(now - get_number(process, "begin"), 0);
    job->silent_seconds = fmax(now - get_number(process, "told"), 0);
    json_object_set_new(json, "elapsed_seconds", json_real(job->elapsed_seconds));
    json_object_set_new(json, "silent_seconds", json_real(job->silent_seconds));
    json_object_del(json, "process");
    job->share = get_number(json, "share");
    job->left_seconds = get_number(json, "left_seconds");
    job->flops_per_second = get_number(json, "flops_per_second");
    job->turn = json_integer_value(json_object_get(loop, "at"));
    job->end_turn = json_integer_value(json_object_get(loop, "end"));
    job->turns_per_second = get_number(loop, "turns_per_second");
    job->windows_per_second = get_number(loop, "windows_per_second");
    read_numbers(json, job);
    return read_ranks(json, job, err);
}

// Returns true if the file's process still exists and has this version.
static bool is_alive(const json_t *json) {
    const json_t *process = json_object_get(json, "process");
    const char *version = json_string_value(json_object_get(process, "version"));
    const int64_t started = json_integer_value(json_object_get(process, "started"));
    return version != NULL && strcmp(version, MMUL_VERSION) == 0 && started > 0 &&
           started == mmul_process_started(json_integer_value(json_object_get(process, "pid")));
}

// ----------------------------------------------------------------------------------------- finding

static enum mmul_status add_job(struct mmul_jobs *jobs, const char *path, double now,
                                struct mmul_error *err) {
    struct mmul_error gone; // the file may have disappeared since the folder was read
    struct entry *more = NULL;
    json_t *json = NULL;
    if (mmul_json_load(path, &json, &gone) != MMUL_OK)
        return MMUL_OK;
    if (!is_alive(json)) {
        json_decref(json);
        return MMUL_OK;
    }
    if (MMUL_ALLOCATE(more, jobs->count + 1, "jobs", err) != MMUL_OK) {
        json_decref(json);
        return err->status;
    }
    if (jobs->count > 0)
        memcpy(more, jobs->entries, (size_t)jobs->count * sizeof *more);
    mmul_free(jobs->entries);
    jobs->entries = more;
    more[jobs->count].json = json;
    return read_job(json, now, &more[jobs->count++].job, err);
}

// Returns true if the process in the file's name no longer exists, or its number belongs to another
// process now.
static bool is_leftover(const char *path, const char *name) {
    char *end;
    const int64_t pid = strtoll(name, &end, 10), started = mmul_process_started(pid);
    struct mmul_error ignored;
    json_t *json = NULL;
    if (pid <= 0 || *end != '.')
        return false; // not one of ours
    if (started == 0)
        return true;
    if (mmul_json_load(path, &json, &ignored) != MMUL_OK)
        return false; // the file is being written
    const json_t *of = json_object_get(json_object_get(json, "process"), "started");
    const bool is_another = json_is_integer(of) && json_integer_value(of) != started;
    json_decref(json);
    return is_another;
}

static enum mmul_status find_in_folder(struct mmul_jobs *jobs, const char *folder, double now,
                                       struct mmul_error *err) {
    bool is_there;
    const struct dirent *found;
    enum mmul_status status = mmul_job_folder_check(folder, &is_there, err);
    DIR *list = status == MMUL_OK && is_there ? opendir(folder) : NULL;
    while (status == MMUL_OK && list != NULL && (found = readdir(list)) != NULL) {
        char path[MMUL_JOB_PATH_BYTES + 260];
        const char *ending = strstr(found->d_name, ".json");
        if (ending == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, found->d_name);
        if (is_leftover(path, found->d_name))
            unlink(path);
        else if (strcmp(ending, ".json") == 0)
            status = add_job(jobs, path, now, err);
    }
    if (list != NULL)
        closedir(list);
    return status;
}

static int compare_ages(const void *x, const void *y) {
    const struct mmul_job_state *a = &((const struct entry *)x)->job,
                                *b = &((const struct entry *)y)->job;
    return (a->elapsed_seconds < b->elapsed_seconds) - (a->elapsed_seconds > b->elapsed_seconds);
}

enum mmul_status mmul_jobs_find(struct mmul_jobs **jobs, struct mmul_error *err) {
    char folder[MMUL_JOB_PATH_BYTES];
    struct mmul_jobs *made = NULL;
    const double now = mmul_clock_now();
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "jobs", err);
    for (int i = 0; status == MMUL_OK && mmul_job_folder_path(i, folder); i++)
        status = find_in_folder(made, folder, now, err);
    if (status != MMUL_OK) {
        mmul_jobs_destroy(made);
        return status;
    }
    if (made->count > 1)
        qsort(made->entries, (size_t)made->count, sizeof *made->entries, compare_ages);
    *jobs = made;
    return MMUL_OK;
}

int mmul_jobs_count(const struct mmul_jobs *jobs) {
    return jobs->count;
}

const struct mmul_job_state *mmul_jobs_get(const struct mmul_jobs *jobs, int index) {
    return &jobs->entries[index].job;
}

enum mmul_status mmul_jobs_json(const struct mmul_jobs *jobs, const char *id, char **text,
                                struct mmul_error *err) {
    json_t *list = json_array();
    for (int i = 0; i < jobs->count; i++)
        if (id == NULL || strcmp(id, jobs->entries[i].job.id) == 0)
            json_array_append(list, jobs->entries[i].json);
    json_t *all =
        json_pack("{ss si so}", "schema", "mpimatmul-top", "schema_version", 1, "jobs", list);
    const enum mmul_status status = mmul_json_format(all, text, err);
    json_decref(all);
    return status;
}

void mmul_jobs_destroy(struct mmul_jobs *jobs) {
    if (jobs == NULL)
        return;
    for (int i = 0; i < jobs->count; i++) {
        mmul_free(jobs->entries[i].job.ranks);
        json_decref(jobs->entries[i].json);
    }
    mmul_free(jobs->entries);
    mmul_free(jobs);
}
