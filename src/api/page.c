// SPDX-License-Identifier: MIT
// A run as one HTML file: the frame of api/page with its style and scripts, and the run's texts as
// data, from which the scripts draw everything.
#include <string.h>

#include "api/run_file.h"
#include "api/texts.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "page_parts.h"

struct mmul_page {
    char *texts[MMUL_RUN_FILE_KINDS]; // owned; NULL: none
};

enum mmul_status mmul_page_create(struct mmul_page **page, struct mmul_error *err) {
    return MMUL_ALLOCATE(*page, 1, "a page", err);
}

void mmul_page_destroy(struct mmul_page *page) {
    for (int i = 0; page != NULL && i < MMUL_RUN_FILE_KINDS; i++)
        mmul_free(page->texts[i]);
    mmul_free(page);
}

// Takes ownership of `text`.
static void replace_text(struct mmul_page *page, enum mmul_run_file_kind kind, char *text) {
    mmul_free(page->texts[kind]);
    page->texts[kind] = text;
}

enum mmul_status mmul_page_add_report(struct mmul_page *page, const struct mmul_report *report,
                                      struct mmul_error *err) {
    struct mmul_text trace = {0};
    char *text = NULL;
    enum mmul_status status = mmul_report_json(report, &text, err);
    if (status != MMUL_OK)
        return status;
    replace_text(page, MMUL_RUN_FILE_REPORT, text);
    if (report->traces == NULL)
        return MMUL_OK;
    status = mmul_traces_format(report, &trace, err);
    if (status == MMUL_OK)
        replace_text(page, MMUL_RUN_FILE_TRACE, trace.data);
    else
        mmul_text_fini(&trace);
    return status;
}

enum mmul_status mmul_page_add_metrics(struct mmul_page *page, const char *lines,
                                       struct mmul_error *err) {
    char *copy = NULL;
    enum mmul_status status = mmul_copy_text(lines, &copy, err);
    if (status == MMUL_OK)
        replace_text(page, MMUL_RUN_FILE_METRICS, copy);
    return status;
}

enum mmul_status mmul_page_add_comparison(struct mmul_page *page,
                                          const struct mmul_comparison *comparison,
                                          struct mmul_error *err) {
    char *text = NULL;
    enum mmul_status status = mmul_comparison_json(comparison, &text, err);
    if (status == MMUL_OK)
        replace_text(page, MMUL_RUN_FILE_COMPARE, text);
    return status;
}

enum mmul_status mmul_page_add_file(struct mmul_page *page, const char *path,
                                    struct mmul_error *err) {
    struct mmul_run_file file;
    enum mmul_status status = mmul_run_file_load(path, &file, err);
    if (status != MMUL_OK)
        return status;
    if (page->texts[file.kind] == NULL) {
        replace_text(page, file.kind, file.text);
        file.text = NULL;
    } else {
        status = mmul_fail(err, MMUL_ERR_DATA, "'%s' is %s, and the page already has one", path,
                           mmul_run_file_name(file.kind));
    }
    mmul_run_file_fini(&file);
    return status;
}

// -------------------------------------------------------------------------------------------- text

// Adds JSON as a data script: `<` occurs in strings only and is escaped, since `</script` would end
// the script.
static void add_data(struct mmul_text *text, const char *id, const char *json, bool is_lines) {
    mmul_text_add(text, "<script type=\"application/json\" id=\"%s\">%s", id, is_lines ? "[" : "");
    for (const char *at = json; *at != '\0';) {
        const size_t length = strcspn(at, is_lines ? "<\n" : "<");
        mmul_text_add(text, "%.*s", (int)length, at);
        at += length;
        if (*at == '<')
            mmul_text_add(text, "\\u003c");
        else if (*at == '\n' && at[strspn(at, "\n")] != '\0') // another line follows
            mmul_text_add(text, ",\n");
        at += *at == '\n' ? strspn(at, "\n") : *at != '\0';
    }
    mmul_text_add(text, "%s</script>\n", is_lines ? "]" : "");
}

static void add_script(struct mmul_text *text) {
    const char *const parts[] = {mmul_page_data, mmul_page_draw, mmul_page_charts,
                                 mmul_page_timeline, mmul_page_sections};
    mmul_text_add(text, "<script>\n\"use strict\";\n");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mmul_text_add(text, "%s", parts[i]);
    mmul_text_add(text, "</script>\n");
}

enum mmul_status mmul_page_text(const struct mmul_page *page, char **text, struct mmul_error *err) {
    static const char *const ids[MMUL_RUN_FILE_KINDS] = {
        [MMUL_RUN_FILE_REPORT] = "report",      [MMUL_RUN_FILE_RUN] = "run",
        [MMUL_RUN_FILE_TRACE] = "trace",        [MMUL_RUN_FILE_METRICS] = "metrics",
        [MMUL_RUN_FILE_COMPARE] = "comparison",
    };
    static const char style[] = "/* style */", body[] = "<!-- data and scripts -->";
    const char *at_style = strstr(mmul_page_frame, style), *at_body = strstr(at_style, body);
    struct mmul_text made = {0};
    mmul_text_add(&made, "%.*s%s%.*s", (int)(at_style - mmul_page_frame), mmul_page_frame,
                  mmul_page_style, (int)(at_body - at_style - (long)strlen(style)),
                  at_style + strlen(style));
    for (int i = 0; i < MMUL_RUN_FILE_KINDS; i++)
        if (page->texts[i] != NULL)
            add_data(&made, ids[i], page->texts[i], i == MMUL_RUN_FILE_METRICS);
    add_script(&made);
    mmul_text_add(&made, "%s", at_body + strlen(body));
    if (made.failed) {
        mmul_text_fini(&made);
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate the page");
    }
    *text = made.data; // ownership passes to the caller
    return MMUL_OK;
}

enum mmul_status mmul_page_store(const struct mmul_page *page, const char *path,
                                 struct mmul_error *err) {
    char *text = NULL;
    enum mmul_status status = mmul_page_text(page, &text, err);
    if (status == MMUL_OK)
        status = mmul_text_store(path, text, err);
    mmul_free(text);
    return status;
}
