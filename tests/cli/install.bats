#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The folders and files of `make install` and of the Debian package of `make deb`: they work from
# there, and removal leaves nothing. The shells themselves are asked for completions.
# shellcheck disable=SC2154 # status, output and stderr are set by bats
load helper

setup_file() {
    export ROOT=$BATS_FILE_TMPDIR/root
    make_built install DESTDIR="$ROOT"
    # One start of the program for all tests: pages and completions are compared with its own list.
    COMMANDS=$("$MPIMATMUL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | xargs)
    export COMMANDS
}
read -r -a commands <<< "${COMMANDS:-}"

# Prints all paths below a folder. A folder has a slash at its end.
list_tree() {
    (cd "$1" && find . -mindepth 1 \( -type d -printf '%P/\n' -o -printf '%P\n' \) | LC_ALL=C sort)
}

# Prints the option names of a command, from its --help.
options_of() {
    "$MPIMATMUL" "$1" --help | grep -o -E '^  (-[a-z],|   ) --[a-z-]+' | grep -o -E -- '--[a-z-]+' | sort | xargs
}

@test "uninstall removes the installed files and no others" {
    mkdir -p root/usr/local/{bin,lib/pkgconfig,lib/python3/dist-packages,include}
    mkdir -p root/usr/local/share/{doc,man/man1,man/man3,man/man5,man/man7}
    mkdir -p root/usr/local/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
    # An existing completion of a launcher stays and is not replaced.
    echo other > root/usr/local/share/bash-completion/completions/mpiexec
    touch root/usr/local/{bin/other,lib/libother.so,share/man/man1/other.1,share/fish/vendor_completions.d/other.fish}
    list_tree root > before
    make_built install DESTDIR="$PWD/root" > /dev/null
    [ "$(list_tree root | grep -c mpimatmul)" -ge 30 ]
    make_built uninstall DESTDIR="$PWD/root" > /dev/null
    list_tree root > after
    diff before after
    [ "$(< root/usr/local/share/bash-completion/completions/mpiexec)" = other ]
}

@test "uninstall leaves no file where none existed before" {
    make_built install DESTDIR="$PWD/root" PREFIX=/opt/mm > /dev/null
    make_built uninstall DESTDIR="$PWD/root" PREFIX=/opt/mm > /dev/null
    run find root -not -type d -o -name '*mpimatmul*'
    [ "$status" -eq 0 ] && [ -z "$output" ]
}

@test "the installed program runs with the files that README names beside it" {
    run "$ROOT/usr/local/bin/mpimatmul" --version
    [ "$output" = "$("$MPIMATMUL" --version)" ]
    cd "$ROOT/usr/local/share/mpimatmul"
    [ -f environment.sh ] && [ -f mpimatmul.tune ] && [ -f mpimatmul.sbatch ] && [ -f mpimatmul_report.schema.json ]
    for file in "$REPO"/hostfiles/*; do
        cmp "$file" "hostfiles/${file##*/}"
    done
}

# ------------------------------------------------------------------------------------------------ manual pages

@test "the program and each command have a manual page with every option" {
    cd "$ROOT/usr/local/share/man/man1"
    [ "$(echo ./*.1 | wc -w)" -eq $((${#commands[@]} + 1)) ]
    for command in "${commands[@]}"; do
        grep -q -F "mpimatmul\\-$command (1)" mpimatmul.1
        [ "$(sed -n -e 's/\\//g' -e 's/^\.B .*--\([a-z-]*\).*/--\1/p' "mpimatmul-$command.1" | sort | xargs)" = \
            "$(options_of "$command")" ]
    done
    grep -q -F ' 79  the result or a device is wrong' mpimatmul.1
}

@test "the manual pages format without a warning" {
    command -v groff > /dev/null || skip "groff is not installed"
    pages=0
    for page in "$ROOT"/usr/local/share/man/man*/*; do
        run --separate-stderr groff -t -man -Tutf8 -ww "$page"
        expect_quiet_success || { echo "$page"; return 1; }
        [[ "$output" == *"mpimatmul"* && "$output" != *"\\-"* ]]
        pages=$((pages + 1))
    done
    [ $pages -eq $((${#commands[@]} + 7)) ]
}

# ------------------------------------------------------------------------------------------------- completions

sorted() {
    printf '%s\n' "$@" | sort | xargs
}

# complete_in_bash WORD...: prints bash's completions of the last word, sorted, on one line.
complete_in_bash() {
    # shellcheck disable=SC2016 # for the bash that runs it
    bash --norc -c '
        source "$1" || exit
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        complete -p mpimatmul > registered && grep -q -F -e "-F _mpimatmul mpimatmul" registered || exit
        _mpimatmul
        printf "%s\n" "${COMPREPLY[@]}"' bash "$ROOT/usr/local/share/bash-completion/completions/mpimatmul" "$@" |
        sort | xargs
}

@test "bash completes commands, options and values" {
    [ "$(complete_in_bash mpimatmul '')" = "$(sorted "${commands[@]}" --help --version)" ]
    [ "$(complete_in_bash mpimatmul d)" = "$(printf '%s\n' "${commands[@]}" | grep '^d' | sort | xargs)" ]
    [ "$(complete_in_bash mpimatmul help '')" = "$(sorted "${commands[@]}")" ]
    for command in "${commands[@]}"; do
        [ "$(complete_in_bash mpimatmul "$command" -)" = "$(options_of "$command")" ]
    done
    [ "$(complete_in_bash mpimatmul mul A.bin --split)" = "--split --split-rule" ]
    [ "$(complete_in_bash mpimatmul mul --split '')" = "auto cols rows" ]
    [ "$(complete_in_bash mpimatmul mul --split = ro)" = "rows" ]
    [ "$(complete_in_bash mpimatmul mul --split =)" = "auto cols rows" ]
    [ "$(complete_in_bash mpimatmul mul --tail '')" = "auto off" ]
    [ "$(complete_in_bash mpimatmul gen --dtype b)" = "bfloat16" ]
    [ -z "$(complete_in_bash mpimatmul mul --alpha '')" ]
}

# launched_in_bash WORD...: the same for the line of a launcher, by the completion of its first
# word.
launched_in_bash() {
    # shellcheck disable=SC2016 # for the bash that runs it
    bash --norc -c '
        source "$1" || exit
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        read -r -a registered <<< "$(complete -p "$1")"
        "${registered[-2]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$ROOT/usr/local/share/bash-completion/completions/mpimatmul" "$@" |
        sort | xargs
}

@test "bash completes behind a launcher" {
    for link in bash-completion/completions/mpi{run,exec} fish/vendor_completions.d/mpi{run,exec}.fish; do
        [ -s "$ROOT/usr/local/share/$link" ]
    done
    [ "$(launched_in_bash mpirun -n 4 mpimatmul mul --)" = "$(options_of mul)" ]
    [ "$(launched_in_bash mpiexec -q -n 2 /usr/bin/mpimatmul mul A.bin --split '')" = "auto cols rows" ]
    [ "$(launched_in_bash mpirun mpimatmul '')" = "$(sorted "${commands[@]}" --help --version)" ]
    [[ " $(launched_in_bash mpirun -n 4 tru) " == *" true "* ]]
}

@test "bash completes names of files and folders as readline expects" {
    touch 'left matrix.bin' right.bin
    mkdir rights
    cat > ask.py << 'END'
import os, pty, re, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
def read_until(pattern):
    text, end = "", time.monotonic() + 20
    while not re.search(pattern, text) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536).decode()
    return text
os.write(terminal, f"source {sys.argv[1]}; echo rea''dy\n".encode())
read_until("ready\r\n")
for line in sys.argv[2:]:
    os.write(terminal, line.replace("<tab>", "\t").encode() + b"\x01echo got: \x05; echo do''ne\n")
    print(re.search("^got: ([^\r\n]*)", read_until("done\r\n"), re.M)[1])
END
    run "$PYTHON" ask.py "$ROOT/usr/local/share/bash-completion/completions/mpimatmul" \
        'mpimatmul mul le<tab>right.<tab>--output C.bin --spl<tab>-r<tab>ex<tab>' \
        'mpimatmul split --shard-dir ri<tab>' 'mpimatmul mul --alpha le<tab>' 'mpimatmul mul --report=le<tab>'
    expect_line 'mpimatmul mul left matrix.bin right.bin --output C.bin --split-rule exact'
    expect_line 'mpimatmul split --shard-dir rights/'
    expect_line 'mpimatmul mul --alpha le'
    expect_line 'mpimatmul mul --report=left matrix.bin'
}

@test "zsh completes commands, options and values" {
    command -v zsh > /dev/null || skip "zsh is not installed"
    zsh -n "$ROOT/usr/local/share/zsh/site-functions/_mpimatmul"
    # Each Tab goes to an interactive zsh in which compadd prints its completions.
    cat > ask.zsh << 'END'
zmodload zsh/zpty
zpty ask zsh -f -i
ask() {
    local line out=
    zpty -w ask "$1"
    while zpty -r ask line; do
        out+=$line
        [[ $line == *"$2"* ]] && break
    done
    print -r -- "$out"
}
ask "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -d $PWD/dump; echo rea''dy" ready > /dev/null
ask 'compadd() {
    local -a words
    builtin compadd -O words "$@"
    print -rl -- ${words/#/offer:}
    builtin compadd "$@"
}
show() { zle complete-word; print -r -- offe""red; zle kill-buffer }
zle -N show; bindkey "^I" show; echo s""et' set > /dev/null
for line in "${@:2}"; do
    zpty -w -n ask "$line"$'\t'
    out=
    while zpty -r ask part; do
        out+=$part
        [[ $part == *offered* ]] && break
    done
    print -r -- "$line: $(print -r -- "$out" | tr -d '\r' | sed -n 's/.*offer:\([^ ]*\).*/\1/p' | sort -u | xargs)"
done
zpty -d ask
END
    run timeout 60 zsh -f ask.zsh "$ROOT/usr/local/share/zsh/site-functions" \
        "mpimatmul " "mpimatmul mul --split" "mpimatmul mul --split=" "mpimatmul diff --" \
        "mpirun -n 4 mpimatmul mul --split"
    expect_line "mpimatmul : $(sorted "${commands[@]}" --help --version)"
    expect_line 'mpimatmul mul --split: --split --split-rule'
    expect_line 'mpimatmul mul --split=: auto cols rows'
    expect_line "mpimatmul diff --: $(options_of diff)"
    expect_line 'mpirun -n 4 mpimatmul mul --split: --split --split-rule'
}

@test "fish completes commands, options and values" {
    command -v fish > /dev/null || skip "fish is not installed"
    cat > ask.fish << 'END'
source $argv[1]
for line in $argv[2..]
    echo "$line:" (complete -C $line | string split -f 1 \t | sort)
end
END
    mkdir home
    HOME=$PWD/home run --separate-stderr fish --no-config ask.fish \
        "$ROOT/usr/local/share/fish/vendor_completions.d/mpimatmul.fish" \
        "mpimatmul " "mpimatmul mul --split" "mpimatmul mul --split " "mpimatmul gen --dtype=" "mpimatmul diff --" \
        "mpirun -n 4 mpimatmul mul --split"
    expect_quiet_success
    expect_line 'mpirun -n 4 mpimatmul mul --split: --split --split-rule'
    expect_line "mpimatmul : $(sorted "${commands[@]}")"
    expect_line 'mpimatmul mul --split: --split --split-rule'
    expect_line 'mpimatmul mul --split : auto cols rows'
    expect_line 'mpimatmul gen --dtype=: --dtype=bfloat16 --dtype=float16 --dtype=float32'
    expect_line "mpimatmul diff --: $(options_of diff)"
}

# ---------------------------------------------------------------------------------------------- Debian package

@test "the package installs, works and is removed, with its dependencies met by this machine's packages" {
    command -v dpkg-shlibdeps > /dev/null || skip "dpkg-dev is not installed"
    [ "$(id -u)" -eq 0 ] || skip "lab: dpkg needs root"
    package=$(make_built deb | tail -n 1)
    # A root of its own, below a copy of this machine's dpkg database, so that dpkg checks the
    # dependencies.
    mkdir -p root admin/info admin/updates admin/triggers
    cp /var/lib/dpkg/status admin/
    : > admin/available
    dpkg=(dpkg --instdir="$PWD/root" --admindir="$PWD/admin" --no-triggers --log=/dev/null)
    "${dpkg[@]}" --install "$package" > log 2>&1 || { grep -v 'files list file' log; false; }
    [ "$(dpkg-query --admindir="$PWD/admin" --show --showformat='${Status} ${Version}' mpimatmul)" = \
        "install ok installed $("$MPIMATMUL" --version | cut -d ' ' -f 2)" ]

    # The package has every file of `make install`, none below /usr/local, and works without a path
    # of the build tree.
    libraries=$(dirname root/usr/lib/*/libmpimatmul.so)
    find "$ROOT" \( -type f -o -type l \) -printf '%f\n' | sort > installed
    find root \( -type f -o -type l \) -printf '%f\n' | sed -e 's/\.\([1357]\)\.gz$/.\1/' -e /^copyright$/d |
        sort > packaged
    diff installed packaged
    ! objdump -p root/usr/bin/mpimatmul | grep -E 'RPATH|RUNPATH' || false
    # Links of the documents lead to files of the package.
    links=0
    while read -r document; do
        while read -r link; do
            [ -e "$(dirname "$document")/$link" ] || { echo "$document: $link"; false; }
            links=$((links + 1))
        done < <(grep -o -E '\]\([^)#: ]+' "$document" | cut -c 3-)
    done < <(find root/usr/share/doc -name '*.md')
    [ "$links" -ge 10 ]
    export LD_LIBRARY_PATH=$PWD/$libraries
    ldd root/usr/bin/mpimatmul | grep -F "libmpimatmul.so.0 => $PWD/root/usr/lib"
    [ "$(root/usr/bin/mpimatmul --version)" = "$("$MPIMATMUL" --version)" ]
    for command in "${commands[@]}"; do
        gunzip --stdout "root/usr/share/man/man1/mpimatmul-$command.1.gz" | grep -q -F "mpimatmul $command"
    done
    root/usr/bin/mpimatmul gen A.bin --dims 5x5 --kind identity
    # In a stripped program the sanitizer cannot separate its own leaks from those of Open MPI.
    ASAN_OPTIONS=detect_leaks=0 root/usr/bin/mpimatmul mul A.bin A.bin -o C.bin --quiet
    root/usr/bin/mpimatmul diff A.bin C.bin --quiet
    unset LD_LIBRARY_PATH

    "${dpkg[@]}" --purge mpimatmul > log 2>&1 || { grep -v 'files list file' log; false; }
    [ -z "$(find root -not -type d)" ] && [ -z "$(find root -name '*mpimatmul*')" ]
}
