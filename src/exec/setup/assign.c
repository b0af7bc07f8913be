// SPDX-License-Identifier: MIT
// Assigns devices first (named ones, then automatic ones), cores second, and parses the text of
// `--device @FILE`. Opens no device. Only the hint for a missing GPU reads the machine's PCI bus.
// The device file is parsed again for each rank, because such files have tens of lines.
#include "exec/setup/assign.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "base/text.h"
#include "device/device.h"
#include "host/cards.h"

struct assigning {
    const struct mmul_topology *topology;
    const struct mmul_device_info *devices;
    int device_count;
    const struct mmul_assign_request *requests;
    struct mmul_assignment *out;
    int ranks;
};

static bool is_taken(const struct assigning *s, int device) {
    for (int i = 0; i < s->ranks; i++)
        if (s->out[i].device_index == device)
            return true;
    return false;
}

// Orders devices by PCI address. Devices without an address come last, in the probe's order.
static bool comes_before(const struct assigning *s, int a, int b) {
    const char *left = s->devices[a].pci, *right = s->devices[b].pci;
    if ((left[0] == '\0') != (right[0] == '\0'))
        return left[0] != '\0';
    int order = strcmp(left, right);
    return order != 0 ? order < 0 : a < b;
}

// Returns the k-th usable GPU in PCI order, or -1 if there are fewer.
static int find_gpu(const struct assigning *s, int k) {
    for (int i = 0; i < s->device_count; i++) {
        int before = 0;
        if (!s->devices[i].usable)
            continue;
        for (int j = 0; j < s->device_count; j++)
            before += s->devices[j].usable && comes_before(s, j, i);
        if (before == k)
            return i;
    }
    return -1;
}

static int find_free_gpu(const struct assigning *s) {
    for (int k = 0;; k++) {
        int device = find_gpu(s, k);
        if (device < 0 || !is_taken(s, device))
            return device;
    }
}

static bool contains_text(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; *text != '\0'; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return false;
}

// Finds a device by id "P:D", by "pci:BDF", else by a part of its name. Usable devices come first.
static int find_named(const struct assigning *s, const char *name) {
    for (int i = 0; i < s->device_count; i++)
        if (strcmp(s->devices[i].id, name) == 0 ||
            (strncmp(name, "pci:", 4) == 0 && name[4] != '\0' &&
             strcasecmp(s->devices[i].pci, name + 4) == 0))
            return i;
    for (int usable = 1; usable >= 0; usable--)
        for (int i = 0; i < s->device_count; i++)
            if (s->devices[i].usable == usable && contains_text(s->devices[i].name, name))
                return i;
    return -1;
}

static bool has_gpu(const struct assigning *s) {
    for (int d = 0; d < s->device_count; d++)
        if (s->devices[d].type == MMUL_DEVICE_GPU)
            return true;
    return false;
}

static bool is_gpu_name(const char *name) {
    return strcmp(name, "gpu") == 0 || strncmp(name, "gpu:", 4) == 0;
}

// Translates a name that other programs use: "cuda:1" becomes "gpu:1". A name that begins the
// reason for which a device is left alone ("pocl") gives that device's id. Returns "" if no name is
// near. The result is `text`, a literal, or borrowed from the devices.
static const char *suggest_name(const struct assigning *s, const char *name, char text[static 64]) {
    static const char *const gpus[] = {"cuda", "nvidia", "hip", "rocm", "amd", "opencl"};
    static const char *const words[] = {"auto", "cpu", "gpu", "reference", NULL};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        size_t length = strlen(gpus[i]);
        if (strncasecmp(name, gpus[i], length) == 0 && (!name[length] || name[length] == ':')) {
            snprintf(text, 64, "gpu%.40s", name + length);
            return text;
        }
    }
    for (int d = 0; strlen(name) >= 4 && d < s->device_count; d++)
        if (strncasecmp(s->devices[d].reason, name, strlen(name)) == 0)
            return s->devices[d].id;
    const char *found = mmul_nearest(name, words);
    return found != NULL ? found : "";
}

// Adds a hint: the card has no driver, or the machine has no card.
static void hint_at_driver(struct mmul_error *err) {
    struct mmul_card card;
    if (mmul_cards_find("/sys/bus/pci/devices", &card, 1) > 0)
        mmul_hint(err, "the %s card at %s has no OpenCL driver: sudo apt-get install %s",
                  card.vendor, card.address, card.package);
    else
        mmul_hint(err,
                  "no graphics card was found on the PCI bus; install its OpenCL driver (ICD) "
                  "nvidia-opencl-icd, mesa-opencl-icd (AMD) or intel-opencl-icd if there is one");
}

static enum mmul_status fail_without_device(const struct assigning *s, int i, const char *what,
                                            struct mmul_error *err) {
    char text[64];
    struct mmul_text known = {0};
    mmul_fail(err, MMUL_ERR_UNAVAILABLE, "rank %d on %s: no device '%s'", s->requests[i].rank,
              s->topology->host, what);
    if (is_gpu_name(what) && !has_gpu(s)) {
        hint_at_driver(err);
        return MMUL_ERR_UNAVAILABLE;
    }
    const char *nearest = is_gpu_name(what) ? "" : suggest_name(s, what, text);
    if (nearest[0] != '\0')
        mmul_text_add(&known, "did you mean '%s'? ", nearest);
    mmul_text_add(&known, "devices of this machine: cpu");
    for (int d = 0; d < s->device_count; d++)
        mmul_text_add(&known, ", %s (%s)", s->devices[d].id, s->devices[d].name);
    mmul_hint(err, "%.250s", mmul_text_get(&known));
    mmul_text_fini(&known);
    return MMUL_ERR_UNAVAILABLE;
}

static void set_device(struct assigning *s, int i, int device) {
    s->out[i].device_index = device;
    mmul_text_copy(s->out[i].device, sizeof s->out[i].device,
                   device < 0 ? "cpu" : s->devices[device].id);
}

// Assigns "gpu" (the next free one) or "gpu:K".
static enum mmul_status assign_gpu(struct assigning *s, int i, const char *name,
                                   struct mmul_error *err) {
    int64_t k;
    int device;
    if (name[3] == '\0') {
        device = find_free_gpu(s);
    } else {
        enum mmul_status status = mmul_parse_int64(name + 4, "--device gpu:K", 0, 4095, &k, err);
        if (status != MMUL_OK)
            return status;
        device = find_gpu(s, (int)k);
    }
    if (device < 0)
        return fail_without_device(s, i, name, err);
    set_device(s, i, device);
    return MMUL_OK;
}

// Assigns a device that wraps another one. The innermost device must exist. The name is kept whole.
static enum mmul_status assign_wrapped(struct assigning *s, int i, const char *inner,
                                       struct mmul_error *err) {
    const char *text = s->requests[i].device;
    enum mmul_status status = mmul_device_check_name(text, err);
    if (status != MMUL_OK)
        return status;
    for (const char *deeper; (deeper = mmul_device_inner_name(inner)) != NULL;)
        inner = deeper;
    int device = mmul_device_needs_no_probe(inner) ? -1 : find_named(s, inner);
    if (device < 0 && !mmul_device_needs_no_probe(inner))
        return fail_without_device(s, i, inner, err);
    s->out[i].device_index = device;
    mmul_text_copy(s->out[i].device, sizeof s->out[i].device, text);
    return MMUL_OK;
}

static enum mmul_status assign_named(struct assigning *s, int i, struct mmul_error *err) {
    const char *name = s->requests[i].device;
    if (name[0] == '\0')
        return mmul_fail(err, MMUL_ERR_USAGE, "--device: '' is not a device");
    const char *inner = mmul_device_inner_name(name);
    if (inner != NULL)
        return assign_wrapped(s, i, inner, err);
    if (mmul_device_needs_no_probe(name)) {
        mmul_text_copy(s->out[i].device, sizeof s->out[i].device, name);
        return MMUL_OK;
    }
    if (is_gpu_name(name))
        return assign_gpu(s, i, name, err);
    int device = find_named(s, name);
    if (device < 0)
        return fail_without_device(s, i, name, err);
    set_device(s, i, device);
    return MMUL_OK;
}

static enum mmul_status assign_devices(struct assigning *s, struct mmul_error *err) {
    for (int i = 0; i < s->ranks; i++)
        s->out[i] = (struct mmul_assignment){.device_index = -1,
                                             .chosen = strcmp(s->requests[i].device, "auto") == 0};
    for (int i = 0; i < s->ranks; i++) {
        enum mmul_status status = s->out[i].chosen ? MMUL_OK : assign_named(s, i, err);
        if (status != MMUL_OK)
            return status;
    }
    for (int i = 0; i < s->ranks; i++)
        if (s->out[i].chosen)
            set_device(s, i, find_free_gpu(s));
    return MMUL_OK;
}

// --------------------------------------------------------------------------------------- cores

// Returns true if the rank computes on the CPU, directly or through OpenCL.
static bool computes_on_cpu(const struct assigning *s, int i) {
    int device = s->out[i].device_index;
    return device < 0 || s->devices[device].type == MMUL_DEVICE_CPU;
}

// Sets the range [begin, end) of cores for part `index` of `parts`. If there are more parts than
// cores, parts share cores.
static void split_cores(int cores, int parts, int index, int *begin, int *end) {
    if (parts > cores) {
        *begin = index % cores;
        *end = *begin + 1;
        return;
    }
    *begin = (int)((int64_t)cores * index / parts);
    *end = (int)((int64_t)cores * (index + 1) / parts);
}

static void give_cores(struct mmul_assignment *to, const int *cores, int begin, int end) {
    for (int c = begin; c < end; c++)
        mmul_cpuset_add(&to->cores, cores[c]);
    to->threads = end - begin;
    to->bind = true;
}

// Limits the threads to the cgroup's quota. A quota grants time, not cores, so the rank is not
// bound: binding would only slow it down.
static void apply_quota(const struct assigning *s, struct mmul_assignment *to, int cores) {
    double quota = s->topology->cpu_quota;
    if (!(quota > 0) || quota >= cores)
        return;
    int granted = (int)ceil(quota * to->threads / cores);
    to->threads = granted > 1 ? granted : 1;
    to->bind = false;
}

// Keeps a CPU mask that the user chose. Ranks with an equal mask divide its cores among them.
static void keep_user_mask(const struct assigning *s, int i) {
    int same = 0, cores = 0;
    for (int j = 0; j < s->ranks; j++)
        same +=
            computes_on_cpu(s, j) && mmul_cpuset_equal(&s->requests[i].own, &s->requests[j].own);
    for (int unit = 0; unit < MMUL_CORES_MAX; unit++)
        cores += mmul_cpuset_has(&s->requests[i].own, unit) &&
                 mmul_cpuset_has(&s->topology->core_first_units, unit);
    if (cores == 0)
        cores = mmul_cpuset_count(&s->requests[i].own);
    s->out[i].cores = s->requests[i].own;
    s->out[i].threads = cores / (same > 0 ? same : 1);
    s->out[i].bind = false;
}

// Applies the user's requests, which override the computed assignment.
static void apply_requests(const struct assigning *s, int i) {
    const struct mmul_assign_request *request = &s->requests[i];
    struct mmul_assignment *to = &s->out[i];
    if (request->user_binding)
        keep_user_mask(s, i);
    if (request->threads > 0) {
        to->bind = to->bind && request->threads <= to->threads;
        to->threads = request->threads;
    }
    to->bind = to->bind && !request->no_bind;
    to->threads = to->threads > 0 ? to->threads : 1;
}

// Sets the cores for a fallback to the CPU. A CPU rank keeps its cores. Any other rank gets its
// share as if all ranks of the node computed on the CPU.
static void assign_fallback(const struct assigning *s, int i, const int *cores, int count) {
    struct mmul_assignment *to = &s->out[i];
    const struct mmul_assign_request *request = &s->requests[i];
    int begin, end;
    to->fallback_cores = to->cores;
    to->fallback_threads = to->threads;
    if (computes_on_cpu(s, i) || request->user_binding || request->threads > 0)
        return;
    split_cores(count, s->ranks, i, &begin, &end);
    struct mmul_assignment share = {.bind = false};
    give_cores(&share, cores, begin, end);
    apply_quota(s, &share, count);
    to->fallback_cores = share.cores;
    to->fallback_threads = share.threads;
}

static void assign_cores(struct assigning *s) {
    int cores[MMUL_CORES_MAX]; // assignable cores
    int count = 0, cpu_ranks = 0, next_cpu = 0, next_gpu = 0;
    for (int unit = 0; unit < MMUL_CORES_MAX; unit++)
        if (mmul_cpuset_has(&s->topology->core_first_units, unit))
            cores[count++] = unit;
    for (int i = 0; i < s->ranks; i++)
        cpu_ranks += computes_on_cpu(s, i);
    int gpu_ranks = s->ranks - cpu_ranks;
    int reserved = count >= cpu_ranks + gpu_ranks ? gpu_ranks : 0;
    for (int i = 0; i < s->ranks; i++) {
        int begin, end;
        if (computes_on_cpu(s, i))
            split_cores(count - reserved, cpu_ranks, next_cpu++, &begin, &end);
        else if (reserved > 0)
            begin = count - reserved + next_gpu++, end = begin + 1;
        else
            begin = 0, end = count;
        give_cores(&s->out[i], cores, begin, end);
        apply_quota(s, &s->out[i], count);
        apply_requests(s, i);
        assign_fallback(s, i, cores, count);
    }
}

// --------------------------------------------------------------------------------------- notes

// Notes the other ranks that compute on the same device as rank i.
static void note_sharing(struct assigning *s, int i) {
    struct mmul_text others = {0};
    int device = s->out[i].device_index;
    for (int j = 0; j < s->ranks; j++) {
        bool same = device >= 0 ? s->out[j].device_index == device
                                : computes_on_cpu(s, i) && computes_on_cpu(s, j);
        if (j != i && same)
            mmul_text_add(&others, "%s%d", others.length > 0 ? ", " : "", s->requests[j].rank);
    }
    if (others.length > 0)
        snprintf(s->out[i].note, sizeof s->out[i].note, "shares %.16s with rank %.80s",
                 device >= 0 ? s->devices[device].id : "the CPU", mmul_text_get(&others));
    mmul_text_fini(&others);
}

enum mmul_status mmul_assign_devices(const struct mmul_assign_node *node,
                                     struct mmul_assignment *assignments, struct mmul_error *err) {
    struct assigning s = {node->topology, node->devices, node->device_count,
                          node->requests, assignments,   node->ranks};
    enum mmul_status status = assign_devices(&s, err);
    if (status != MMUL_OK)
        return status;
    assign_cores(&s);
    for (int i = 0; i < node->ranks; i++)
        note_sharing(&s, i);
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------------ a file

enum { LINE_BYTES = 1024 };

struct line {
    char host[64], devices[LINE_BYTES];
    double weight; // negative: none given
};

static enum mmul_status fail_malformed(const char *path, int number, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' line %d is not 'host device[,device...] [weight]'",
                     path, number);
}

// Splits one line. An empty line gives an empty host.
static enum mmul_status parse_line(const char *path, int number, char *text, struct line *line,
                                   struct mmul_error *err) {
    char *words[4] = {NULL}, *rest = NULL;
    int count = 0;
    text[strcspn(text, "#")] = '\0';
    for (char *word = strtok_r(text, " \t\r", &rest); word != NULL && count < 4;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    *line = (struct line){.weight = -1};
    if (count == 0)
        return MMUL_OK;
    if (count == 1 || count > 3)
        return fail_malformed(path, number, err);
    mmul_text_copy(line->host, sizeof line->host, words[0]);
    mmul_text_copy(line->devices, sizeof line->devices, words[1]);
    struct mmul_error ignored;
    if (count == 3 && (mmul_parse_double(words[2], "weight", &line->weight, &ignored) != MMUL_OK ||
                       line->weight < 0))
        return fail_malformed(path, number, err);
    return MMUL_OK;
}

// Returns the index-th device of the comma-separated list, or NULL. Decrements `index` by the
// devices that were skipped.
static const char *pick_device(char *devices, int *index) {
    char *rest = NULL;
    for (char *one = strtok_r(devices, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        if ((*index)-- == 0)
            return one;
    return NULL;
}

enum mmul_status mmul_device_file_find(const char *text, const char *path, const char *host,
                                       int node_rank, struct mmul_device_file_entry *line,
                                       struct mmul_error *err) {
    char copy[LINE_BYTES];
    struct line parsed;
    int index = node_rank;
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        if (length >= sizeof copy)
            return fail_malformed(path, number, err);
        memcpy(copy, text, length);
        copy[length] = '\0';
        text += length + (text[length] == '\n');
        enum mmul_status status = parse_line(path, number, copy, &parsed, err);
        if (status != MMUL_OK)
            return status;
        const char *found =
            strcmp(parsed.host, host) == 0 ? pick_device(parsed.devices, &index) : NULL;
        if (found == NULL)
            continue;
        mmul_text_copy(line->device, sizeof line->device, found);
        line->weight = parsed.weight;
        return MMUL_OK;
    }
    mmul_fail(err, MMUL_ERR_DATA, "'%s' has no device for rank %d of host '%s'", path, node_rank,
              host);
    mmul_hint(err,
              "list one device per rank for each host, with host names as `hostname` prints them");
    return MMUL_ERR_DATA;
}
