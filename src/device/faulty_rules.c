// SPDX-License-Identifier: MIT
// Parses the rules in a faulty device's name, with one table row per rule. faulty_device.c applies
// them.
#include "device/faulty_rules.h"

#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

enum rule_form { FORM_TIME, FORM_COUNT, FORM_CALL, FORM_FLAG };

struct rule {
    const char *name;
    enum rule_form form;
    size_t offset; // offset of its field in struct mmul_faulty_rules
};

#define RULE(name, form, field) \
    { name, form, offsetof(struct mmul_faulty_rules, field) }

static const struct rule rules_known[] = {
    RULE("delay", FORM_TIME, delay_seconds),
    RULE("clock", FORM_TIME, clock_seconds),
    RULE("repeat", FORM_COUNT, repeat),
    RULE("from", FORM_COUNT, from),
    RULE("fail", FORM_CALL, fail),
    RULE("fail-open", FORM_FLAG, fail_open),
    RULE("fail-alloc", FORM_CALL, fail_alloc),
    RULE("fail-upload", FORM_CALL, fail_upload),
    RULE("fail-download", FORM_CALL, fail_download),
    RULE("hang", FORM_CALL, hang),
    RULE("wake", FORM_TIME, wake_seconds),
    RULE("corrupt", FORM_CALL, corrupt),
    RULE("garble", FORM_CALL, garble),
    RULE("lie", FORM_CALL, lie),
    RULE("spoil-upload", FORM_CALL, spoil_upload),
    RULE("spoil-download", FORM_CALL, spoil_download),
    RULE("no-float64", FORM_FLAG, no_float64),
    RULE("everywhere", FORM_FLAG, everywhere),
};

static const struct rule *find_rule(const char *name) {
    for (size_t i = 0; i < sizeof rules_known / sizeof rules_known[0]; i++)
        if (strcmp(rules_known[i].name, name) == 0)
            return &rules_known[i];
    return NULL;
}

// Parses "5ms", "200us", "1.5s".
static enum mmul_status parse_seconds(char *text, const char *name, double *seconds,
                                      struct mmul_error *err) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}; // "s" last: the others end with it
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t length = strlen(text), tail = strlen(units[i].unit);
        if (length <= tail || strcmp(text + length - tail, units[i].unit) != 0)
            continue;
        text[length - tail] = '\0';
        double value = 0.0;
        enum mmul_status status = mmul_parse_double(text, name, &value, err);
        if (status != MMUL_OK)
            return status;
        if (!(value >= 0.0 && value * units[i].seconds <= 3600.0))
            break;
        *seconds = value * units[i].seconds;
        return MMUL_OK;
    }
    return mmul_fail(err, MMUL_ERR_USAGE, "%s: '%s' is not a time from 0s to 3600s such as 5ms",
                     name, text);
}

// Parses one "name" or "name=value" and modifies the text.
static enum mmul_status parse_rule(char *text, struct mmul_faulty_rules *rules,
                                   struct mmul_error *err) {
    char *value = strchr(text, '=');
    if (value != NULL)
        *value++ = '\0';
    const struct rule *rule = find_rule(text);
    if (rule == NULL) {
        mmul_fail(err, MMUL_ERR_USAGE, "unknown faulty rule '%s'", text);
        mmul_hint(err,
                  "rules are delay, clock, repeat, from, fail, fail-open, fail-alloc, fail-upload, "
                  "fail-download, hang, wake, corrupt, garble, lie, spoil-upload, spoil-download, "
                  "no-float64, everywhere");
        return MMUL_ERR_USAGE;
    }
    if ((value == NULL) != (rule->form == FORM_FLAG)) {
        return mmul_fail(err, MMUL_ERR_USAGE, "faulty rule '%s' %s", text,
                         value == NULL ? "needs a value" : "takes no value");
    }
    char what[64] = "faulty rule ";
    mmul_text_copy(what + strlen(what), sizeof what - strlen(what), text);
    void *field = (char *)rules + rule->offset;
    switch (rule->form) {
    case FORM_TIME:
        return parse_seconds(value, what, field, err);
    case FORM_COUNT:
        return mmul_parse_int64(value, what, 1, 1000000, field, err);
    case FORM_CALL:
        if (strcmp(value, "*") != 0)
            return mmul_parse_int64(value, what, 1, INT64_MAX, field, err);
        *(int64_t *)field = MMUL_FAULTY_EVERY;
        return MMUL_OK;
    case FORM_FLAG:
        *(bool *)field = true;
        return MMUL_OK;
    }
    return mmul_fail(err, MMUL_ERR_INTERNAL, "faulty rule '%s' has no kind of value", text);
}

enum mmul_status mmul_faulty_rules_parse(const char *text, struct mmul_faulty_rules *rules,
                                         const char **inner, struct mmul_error *err) {
    const char *begin = text + strlen("faulty:");
    const char *colon = strchr(begin, ':');
    char list[256];
    if (colon == NULL || colon == begin || (size_t)(colon - begin) >= sizeof list)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s' is not of the form faulty:RULES:NAME", text);
    mmul_text_copy(list, (size_t)(colon - begin) + 1, begin);
    struct mmul_faulty_rules read = {.repeat = 1, .from = 1};
    char *rest = list;
    while (rest != NULL) {
        char *rule = strsep(&rest, ",");
        enum mmul_status status = parse_rule(rule, &read, err);
        if (status != MMUL_OK)
            return status;
    }
    *rules = read;
    *inner = colon + 1;
    return MMUL_OK;
}
