# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2016 # scripts are written in quotes
#
# Several hosts on one machine. Each host is a network namespace with a host name, a TMPDIR and a
# core of its own. One more namespace, the launcher, holds the bridge between them and mpirun, and
# carries no rank. Ranks on different hosts see different nodes, so all traffic between nodes goes
# through real TCP.
#
#   lab_up 3         hosts node1, node2, node3; on failure LAB_MISSING has the reason
#   lab_begin_test   begins a test in an empty folder; skips it without a lab
#   lab_mpirun node1:2,node2:2 ARGUMENTS...    mpirun from the launcher, with its arguments behind the host list
#   lab_rate 200mbit shapes every cable in both directions;   lab_cut node2   unplugs a host
#   lab_down         ends all processes on the hosts and removes the hosts
#
# lab_up and lab_down belong into setup_file and teardown_file, lab_begin_test into setup: bats 1.8
# cannot skip a file. The machine's own network is not touched: bridge and cables exist only in the
# namespaces mmul-PID-*. `ip netns pids` lists the processes of a namespace, so leftovers of a
# killed run (daemons of mpirun) are ended by number, and no other process is.

lab_find_missing() {
    local probe=mmul-$$-probe
    if [ "$(id -u)" -ne 0 ]; then
        LAB_MISSING="lab: needs root"
    elif ! command -v ip > /dev/null || ! ip netns add "$probe" 2> /dev/null; then
        LAB_MISSING="lab: cannot make network namespaces"
    else
        ip -n "$probe" link add bridge type bridge 2> /dev/null &&
            ip netns exec "$probe" unshare --uts true 2> /dev/null ||
            LAB_MISSING="lab: cannot make network namespaces"
        ip netns del "$probe"
    fi
    export LAB_MISSING
}

# PMIx's hash store does not deliver all data between ranks of several hosts, so PMIx chooses itself
# (tests/environment.sh).
unset PMIX_MCA_gds

need_lab() {
    [ -z "$LAB_MISSING" ] || skip "$LAB_MISSING"
}

# Begins a test of the lab in an empty folder.
lab_begin_test() {
    need_lab
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return 1
}

# The script that mpirun calls instead of ssh: HOST COMMAND...
lab_write_agent() {
    cat > "$LAB_FOLDER/agent" << 'END'
#!/usr/bin/env bash
host=$1
shift
read -r core < "$LAB_FOLDER/$host/core"
export TMPDIR=$LAB_FOLDER/$host/tmp LAB_HOST=$host LAB_COMMAND="$*"
exec taskset -c "$core" ip netns exec "$LAB_NAME-$host" unshare --uts \
    sh -c 'hostname "$LAB_HOST" && exec sh -c "$LAB_COMMAND"'
END
    chmod 755 "$LAB_FOLDER/agent"
}

# The script `rank`, which stands between mpirun and the program where a test counts lines. mpirun
# may drop the ranks' output while it ends a job, so each rank's stderr is a file.
lab_write_rank() {
    printf '%s\n' '#!/bin/sh' 'exec "$@" 2> "err.$OMPI_COMM_WORLD_RANK"' > "$LAB_FOLDER/rank"
    chmod 755 "$LAB_FOLDER/rank"
}

# lab_plug HOST NUMBER: makes the namespace, its cable to the bridge, its address, core and folder.
lab_plug() {
    local host=$1 number=$2 space=$LAB_NAME-$1
    mkdir -p "$LAB_FOLDER/$host/tmp"
    echo $(((number - 1) % $(nproc))) > "$LAB_FOLDER/$host/core"
    ip netns add "$space" &&
        ip link add "$host" netns "$LAB_NAME-launcher" type veth peer name eth0 netns "$space" &&
        ip -n "$LAB_NAME-launcher" link set "$host" master bridge up &&
        ip -n "$space" link set lo up &&
        ip -n "$space" address add "10.77.0.$number/24" dev eth0 &&
        ip -n "$space" link set eth0 up
}

# lab_up COUNT: sets LAB_NAME, LAB_FOLDER and LAB_HOSTS, or LAB_MISSING.
lab_up() {
    local number
    export LAB_NAME=mmul-$$ LAB_HOSTS='' LAB_MISSING=''
    lab_find_missing
    [ -z "$LAB_MISSING" ] || return 0
    LAB_FOLDER=$(mktemp -d "$TMPDIR/lab.XXXX")  # short: mpirun's daemons make sockets below it
    export LAB_FOLDER
    mkdir -p "$LAB_FOLDER/launcher/tmp"
    lab_write_agent
    lab_write_rank
    ip netns add "$LAB_NAME-launcher" || return 1
    ip -n "$LAB_NAME-launcher" link set lo up &&
        ip -n "$LAB_NAME-launcher" link add bridge type bridge &&
        ip -n "$LAB_NAME-launcher" address add 10.77.0.254/24 dev bridge &&
        ip -n "$LAB_NAME-launcher" link set bridge up || return 1
    # A switch has no firewall, so frames in the launcher's namespace bypass iptables.
    ip netns exec "$LAB_NAME-launcher" sh -c 'echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables' \
        2> /dev/null || true
    for ((number = 1; number <= $1; number++)); do
        LAB_HOSTS+=" node$number"
        lab_plug "node$number" "$number" || return 1
    done
}

lab_pids() {
    local host
    for host in launcher $LAB_HOSTS; do
        ip netns pids "$LAB_NAME-$host" 2> /dev/null || true
    done
}

# Ends the processes on the hosts and prints their number.
lab_clear() {
    local pids
    mapfile -t pids < <(lab_pids)
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2> /dev/null || true
    echo ${#pids[@]}
}

lab_down() {
    local host
    [ -n "${LAB_FOLDER:-}" ] || return 0
    lab_clear > /dev/null
    for host in launcher $LAB_HOSTS; do
        ip netns del "$LAB_NAME-$host" 2> /dev/null || true
    done
    rm -rf "$LAB_FOLDER"
    unset LAB_FOLDER
}

# lab_rate RATE: sets both ends of every cable; `none` removes the limit. TCP hands over up to 64
# KiB and headers at once, and the burst must hold that. Otherwise the shaper cuts the data into
# frames, which network cards do themselves and which costs a host 5 ns of CPU per byte here.
lab_rate() {
    local host shape=(replace dev eth0 root tbf rate "$1" burst 128k latency 50ms)
    [ "$1" != none ] || shape=(del dev eth0 root)
    for host in $LAB_HOSTS; do
        tc -n "$LAB_NAME-$host" qdisc "${shape[@]}" &&
            tc -n "$LAB_NAME-launcher" qdisc "${shape[@]/eth0/$host}" || return 1
    done
}

lab_cut() {
    ip -n "$LAB_NAME-launcher" link set "$1" nomaster
}

lab_mend() {
    ip -n "$LAB_NAME-launcher" link set "$1" master bridge
}

# lab_mpirun HOSTS ARGUMENTS...: runs LAB_SECONDS at most (124 then) and ends with mpirun's exit
# code. Without --bind-to none a daemon binds its ranks to cores of the launcher. On a busy machine
# mpirun may print a harmless warning before the program's first line: its child existed before
# mpirun gave it a process group.
lab_mpirun() {
    local hosts=$1 status=0 errors
    errors=$(mktemp "$LAB_FOLDER/errors.XXXX")
    shift
    TMPDIR=$LAB_FOLDER/launcher/tmp timeout "${LAB_SECONDS:-60}" ip netns exec "$LAB_NAME-launcher" \
        mpirun -q --bind-to none --mca plm_rsh_agent "$LAB_FOLDER/agent" -H "$hosts" "$@" < /dev/null \
        2> "$errors" || status=$?
    sed -E 's/^\[[^]]*\] plm:rsh: Warning: setpgid\([0-9]+,[0-9]+\) failed in parent with errno=[^()]*\([0-9]+\)//
        T
        /^$/d' "$errors" >&2
    rm -f "$errors"
    return $status
}

# Prints the processes of the program on a host.
lab_program_pids() {
    local pid
    for pid in $(ip netns pids "$LAB_NAME-$1"); do
        [ "$(cat "/proc/$pid/comm" 2> /dev/null)" != mpimatmul ] || echo "$pid"
    done
}
