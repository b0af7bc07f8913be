// SPDX-License-Identifier: MIT
// Converts options to values and back to text. getopt_long only finds the words. Values are checked
// afterwards in one place, for the command line, the environment and the defaults alike.
#include "cli/options.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/failure.h"

char *mmul_option_environment(const struct option_row *row, char text[static 64]) {
    int length = snprintf(text, 64, "MPIMATMUL_%s", row->name);
    assert(length > 0 && length < 64);
    for (char *letter = text; *letter != '\0'; letter++)
        *letter = *letter == '-' ? '_' : (char)toupper((unsigned char)*letter);
    return text;
}

// ---------------------------------------------------------------------------------- text to value

static enum mmul_status parse_flag(const char *text, const char *what, int64_t *number,
                                   struct mmul_error *err) {
    static const char *const words[] = {"off", "on", "no", "yes", "0", "1", "false", "true"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        if (strcmp(text, words[w]) == 0) {
            *number = (int64_t)(w % 2);
            return MMUL_OK;
        }
    }
    return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: '%s' is not on or off", what, text);
}

// Finds the index of `text` in "one|two|three".
static enum mmul_status parse_choice(const struct option_row *row, const char *text,
                                     const char *what, int64_t *number, struct mmul_error *err) {
    size_t length = strlen(text);
    const char *word = row->argument;
    for (int64_t place = 0; *word != '\0'; place++) {
        size_t word_length = strcspn(word, "|");
        if (word_length == length && memcmp(word, text, length) == 0) {
            *number = place;
            return MMUL_OK;
        }
        word += word_length + (word[word_length] == '|');
    }
    return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: '%s' is invalid, expected one of %s", what, text,
                         row->argument);
}

static enum mmul_status parse_real(const struct option_row *row, const char *text, const char *what,
                                   double *real, struct mmul_error *err) {
    double parsed = 0;
    enum mmul_status status = mmul_parse_double(text, what, &parsed, err);
    if (status != MMUL_OK)
        return status;
    if (!(parsed >= row->least && parsed <= row->most))
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: '%s' is out of range, expected %g to %g",
                             what, text, row->least, row->most);
    *real = parsed;
    return MMUL_OK;
}

// auto becomes 0 and off becomes -1.
static enum mmul_status parse_share(const struct option_row *row, const char *text,
                                    const char *what, double *real, struct mmul_error *err) {
    *real = strcmp(text, "off") == 0 ? -1 : 0;
    if (*real != 0 || strcmp(text, "auto") == 0)
        return MMUL_OK;
    return parse_real(row, text, what, real, err);
}

static enum mmul_status parse_size(const char *text, const char *what, int64_t *number,
                                   struct mmul_error *err) {
    int64_t bytes = 0;
    enum mmul_status status = mmul_parse_size(text, what, &bytes, err);
    if (status != MMUL_OK)
        return status;
    if (bytes < 1)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: '%s' must be at least one byte", what, text);
    *number = bytes;
    return MMUL_OK;
}

static enum mmul_status parse_dtype(const char *text, const char *what, bool is_file,
                                    int64_t *number, struct mmul_error *err) {
    enum mmul_dtype dtype;
    struct mmul_error ignored = {0};
    enum mmul_dtype last = is_file ? MMUL_F64 : MMUL_BF16; // integer types follow these
    if (mmul_dtype_parse(text, &dtype, &ignored) != MMUL_OK || dtype > last)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: '%s' is not float32, float16%s bfloat16%s",
                             what, text, is_file ? "," : " or", is_file ? " or float64" : "");
    *number = (int64_t)dtype;
    return MMUL_OK;
}

static enum mmul_status parse_format(const char *text, const char *what, int64_t *number,
                                     struct mmul_error *err) {
    enum mmul_format format;
    struct mmul_error reason = {0};
    if (mmul_format_parse(text, &format, &reason) != MMUL_OK)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: %s", what, reason.text);
    *number = (int64_t)format;
    return MMUL_OK;
}

// Checks a list of weights. A file of weights is read later, by the process that uses it. The
// library's error starts with "weights: ", which is replaced by the option's name.
static enum mmul_status check_weights(const char *text, const char *what, struct mmul_error *err) {
    static const char subject[] = "weights: ";
    if (strcmp(text, "auto") == 0 || strcmp(text, "equal") == 0 || text[0] == '@')
        return MMUL_OK;
    double *weights = NULL;
    int count = 0;
    struct mmul_error reason = {0};
    enum mmul_status status = mmul_weights_parse(text, &weights, &count, &reason);
    mmul_free(weights);
    if (status == MMUL_OK)
        return MMUL_OK;
    bool has_subject = strncmp(reason.text, subject, sizeof subject - 1) == 0;
    return mmul_cli_fail(err, status, "%s: %s", what,
                         reason.text + (has_subject ? sizeof subject - 1 : 0));
}

static enum mmul_status parse_value(const struct option_row *row, const char *text,
                                    const char *what, struct option_value *value,
                                    struct mmul_error *err) {
    if (text[0] == '\0')
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: the value is empty", what);
    value->text = text;
    switch (row->kind) {
    case OPTION_FLAG:
        return parse_flag(text, what, &value->number, err);
    case OPTION_TEXT:
        return MMUL_OK;
    case OPTION_CHOICE:
        return parse_choice(row, text, what, &value->number, err);
    case OPTION_INTEGER:
        return mmul_parse_int64(text, what, (int64_t)row->least, (int64_t)row->most, &value->number,
                                err);
    case OPTION_REAL:
        return parse_real(row, text, what, &value->real, err);
    case OPTION_SHARE:
        return parse_share(row, text, what, &value->real, err);
    case OPTION_SIZE:
        return parse_size(text, what, &value->number, err);
    case OPTION_DTYPE:
        return parse_dtype(text, what, false, &value->number, err);
    case OPTION_FILE_DTYPE:
        return parse_dtype(text, what, true, &value->number, err);
    case OPTION_FORMAT:
        return parse_format(text, what, &value->number, err);
    case OPTION_WEIGHTS:
        return check_weights(text, what, err);
    }
    return MMUL_OK;
}

// -------------------------------------------------------------------------------- finding options

struct getopt_tables {
    struct option names[OPT_COUNT];
    char letters[2 * OPT_COUNT + 2];
};

// Long and short forms both return the option's id.
static void fill_getopt_tables(const enum option_id *accepted, struct getopt_tables *tables) {
    char *letter = tables->letters;
    *letter++ = ':'; // reports a missing value separately from an unknown option
    int count = 0;
    for (; *accepted != OPT_END; accepted++) {
        const struct option_row *row = mmul_option_row(*accepted);
        bool is_flag = row->kind == OPTION_FLAG;
        tables->names[count++] = (struct option){
            .name = row->name,
            .has_arg = is_flag ? optional_argument : required_argument,
            .val = 256 + (int)*accepted,
        };
        if (row->letter != 0)
            *letter++ = row->letter;
        if (row->letter != 0 && !is_flag)
            *letter++ = ':';
    }
    tables->names[count] = (struct option){0};
    *letter = '\0';
}

static enum option_id id_of_letter(const enum option_id *accepted, int letter) {
    while (*accepted != OPT_END && mmul_option_row(*accepted)->letter != letter)
        accepted++;
    return *accepted;
}

// The unknown word is "--wieghts", "--wieghts=1" (letter 0) or one letter of "-xyz".
static enum mmul_status fail_unknown(const char *command, const char *word, int letter,
                                     const enum option_id *accepted, struct mmul_error *err) {
    char name[64];
    bool is_long = letter == 0;
    if (is_long)
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    else
        snprintf(name, sizeof name, "%c", letter);
    const char *names[OPT_COUNT + 1] = {NULL};
    for (int i = 0; accepted[i] != OPT_END; i++)
        names[i] = mmul_option_row(accepted[i])->name;
    const char *nearest = is_long ? mmul_nearest(name, names) : NULL;
    const char *dashes = is_long ? "--" : "-";
    if (nearest != NULL)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: unknown option '%s%s', did you mean '--%s'?",
                             command, dashes, name, nearest);
    mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: unknown option '%s%s'", command, dashes, name);
    return mmul_cli_hint(err, "mpimatmul %s --help lists the options", command);
}

static enum mmul_status fail_without_value(const char *command, int found,
                                           const enum option_id *accepted, struct mmul_error *err) {
    enum option_id id = found > 256 ? (enum option_id)(found - 256) : id_of_letter(accepted, found);
    const struct option_row *row = mmul_option_row(id);
    return mmul_cli_fail(err, MMUL_ERR_USAGE, "%s: --%s is missing its value: --%s %s", command,
                         row->name, row->name, row->argument);
}

// Stores text and source of the options in argv; the last of a repeated option counts.
static enum mmul_status read_command_line(struct options *options, int argc, char **argv,
                                          struct mmul_error *err) {
    struct getopt_tables tables;
    fill_getopt_tables(options->accepted, &tables);
    opterr = 0;
    optind = 0;
    for (;;) {
        int found = getopt_long(argc, argv, tables.letters, tables.names, NULL);
        if (found == -1)
            return MMUL_OK;
        if (found == ':')
            return fail_without_value(argv[0], optopt, options->accepted, err);
        if (found == '?')
            return fail_unknown(argv[0], argv[optind - 1], optopt, options->accepted, err);
        enum option_id id =
            found > 256 ? (enum option_id)(found - 256) : id_of_letter(options->accepted, found);
        options->values[id].source = OPTION_FROM_COMMAND_LINE;
        options->values[id].text = optarg != NULL ? optarg : "on";
    }
}

// Chooses the source of the value, then parses it.
static enum mmul_status resolve_value(const struct option_row *row, struct option_value *value,
                                      struct mmul_error *err) {
    char what[80];
    if (value->source == OPTION_DEFAULT && (row->traits & OPTION_ENVIRONMENT)) {
        const char *set = getenv(mmul_option_environment(row, what));
        if (set != NULL && set[0] != '\0')
            *value = (struct option_value){.source = OPTION_FROM_ENVIRONMENT, .text = set};
    }
    if (value->source == OPTION_DEFAULT)
        value->text = row->initial;
    if (value->text == NULL)
        return MMUL_OK;
    if (value->source == OPTION_FROM_ENVIRONMENT)
        mmul_option_environment(row, what);
    else
        snprintf(what, sizeof what, "--%s", row->name);
    return parse_value(row, value->text, what, value, err);
}

enum mmul_status mmul_options_parse(struct options *options, const enum option_id *accepted,
                                    int argc, char **argv, int *first_operand,
                                    struct mmul_error *err) {
    *options = (struct options){.accepted = accepted};
    enum mmul_status status = read_command_line(options, argc, argv, err);
    for (; status == MMUL_OK && *accepted != OPT_END; accepted++)
        status = resolve_value(mmul_option_row(*accepted), &options->values[*accepted], err);
    if (status == MMUL_OK)
        *first_operand = optind;
    return status;
}

// ---------------------------------------------------------------------------------- value to text

// Writes one spelling per value: "1.0" and "1" agree, and so do "4GiB" and "4096M".
static void print_value(const struct option_row *row, const struct option_value *value,
                        FILE *stream) {
    if (value->text == NULL)
        fputs(row->shown, stream);
    else if (row->kind == OPTION_FLAG)
        fputs(value->number != 0 ? "on" : "off", stream);
    else if (row->kind == OPTION_INTEGER || row->kind == OPTION_SIZE)
        fprintf(stream, "%lld", (long long)value->number);
    else if (row->kind == OPTION_REAL)
        fprintf(stream, "%.9g", value->real);
    else if (row->kind == OPTION_DTYPE || row->kind == OPTION_FILE_DTYPE)
        fputs(mmul_dtype_name((enum mmul_dtype)value->number), stream);
    else
        fputs(value->text, stream);
}

char *mmul_options_format_agreed(const struct options *options, const char *heading) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL)
        return NULL;
    fputs(heading, stream);
    for (const enum option_id *id = options->accepted; *id != OPT_END; id++) {
        const struct option_row *row = mmul_option_row(*id);
        if (row->traits & OPTION_PER_RANK)
            continue;
        fprintf(stream, "%s=", row->name);
        print_value(row, &options->values[*id], stream);
        fputc('\n', stream);
    }
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

void mmul_options_print(const struct options *options, FILE *stream) {
    for (const enum option_id *id = options->accepted; *id != OPT_END; id++) {
        const struct option_row *row = mmul_option_row(*id);
        const struct option_value *value = &options->values[*id];
        if (*id == OPT_HELP || *id == OPT_VERBOSE || value->source == OPTION_DEFAULT)
            continue;
        char name[64] = "command line";
        if (value->source == OPTION_FROM_ENVIRONMENT)
            mmul_option_environment(row, name);
        fprintf(stream, "mpimatmul: option --%s is ", row->name);
        print_value(row, value, stream);
        fprintf(stream, " (%s)\n", name);
    }
}

bool mmul_option_check_variable(const char *name, char nearest[static 64]) {
    // Variables of the Python package, which may be set in a job that also starts programs.
    static const char *const of_python[] = {"MPIMATMUL_LIBRARY", "MPIMATMUL_WAIT_SECONDS"};
    const size_t prefix = strlen("MPIMATMUL_"); // the common prefix would make all names similar
    char names[OPT_COUNT][64];
    const char *list[OPT_COUNT + 1] = {NULL};
    int count = 0;
    for (enum option_id id = OPT_END + 1; id < OPT_COUNT; id++) {
        if (!(mmul_option_row(id)->traits & OPTION_ENVIRONMENT))
            continue;
        list[count] = mmul_option_environment(mmul_option_row(id), names[count]) + prefix;
        if (strcmp(names[count++], name) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof of_python / sizeof *of_python; i++)
        if (strcmp(of_python[i], name) == 0)
            return true;
    const char *found = mmul_nearest(name + prefix, list);
    snprintf(nearest, 64, "%s", found != NULL ? found - prefix : "");
    return false;
}
