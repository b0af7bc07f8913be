# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# The output of mpimatmul --help as tables: the one source of manual pages and completions. Fields
# are separated by $unit, which no text contains and which `read`, unlike a tab, does not collapse.
unit=$'\x1f'

# list_commands PROGRAM: prints their names, one a line.
list_commands() {
    "$1" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# The following functions read the text of one command's --help from stdin.
print_usage() {
    sed -n '1s/^Usage: //p'
}

print_operands() {
    sed -n '1s/^Usage: mpimatmul [a-z]* *\(.*\)\[options\]$/\1/p'
}

print_summary() {
    sed -n 3p
}

print_notes() {
    sed -e '1,/^Options:/d' | sed -e '1,/^$/d'
}

# Prints LETTER NAME ARGUMENT HELP DEFAULT of each option; letter and argument may be empty.
list_options() {
    awk -v OFS="$unit" '/^  (-[A-Za-z],|   ) --/ {
        letter = substr($0, 3, 1) == "-" ? substr($0, 4, 1) : ""
        text = substr($0, 9)
        gap = index(text, "  ")
        left = substr(text, 1, gap - 1)
        text = substr(text, gap)
        start = index(text, "[default: ")
        help = substr(text, 1, start - 1)
        gsub(/^ +| +$/, "", help)
        blank = index(left " ", " ")
        print letter, substr(left, 1, blank - 1), substr(left, blank + 1), help, \
            substr(text, start + 10, length(text) - start - 10)
    }'
}
