#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# mpimatmul doctor --hostfile over emulated hosts: READY on healthy hosts, and for each fault its
# line and the command that repairs it. The lab's agent replaces ssh under the name that Open MPI is
# told.
# shellcheck disable=SC2154,SC2016 # status, output and stderr are set by bats; scripts are written in quotes
load ../cli/helper
load hosts

setup_file() {
    mend_kernels
    lab_up 2
}

teardown_file() {
    lab_down
}

setup() {
    lab_begin_test || return 1
    agent=$LAB_FOLDER/agent
    export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_plm_rsh_agent=$agent
    printf '%s slots=1\n' node1 node2 > hosts
}

# doctor ARGUMENTS...: runs on the launcher, where a user would call mpirun. The timeout per host is
# longer than usual, because entering a namespace may take long on a busy machine.
doctor() {
    TMPDIR=$LAB_FOLDER/launcher/tmp run --separate-stderr timeout 60 ip netns exec "$LAB_NAME-launcher" \
        "${program:-$MPIMATMUL}" doctor --hostfile hosts --timeout "${limit:-30}" "$@" < /dev/null
}

# Writes an agent that changes the command for node2. SCRIPT sets the words of that command.
agent_for_node2() {
    agent=$BATS_TEST_TMPDIR/agent
    printf '#!/bin/sh\nhost=$1; shift\n[ "$host" != node2 ] || %s\nexec "$LAB_FOLDER/agent" "$host" "$@"\n' "$1" \
        > "$agent"
    chmod 755 "$agent"
    export OMPI_MCA_plm_rsh_agent=$agent
    package="scp mpimatmul_0.1.0_*.deb node2:/tmp && $agent node2 sudo apt-get install --yes --allow-downgrades \
/tmp/mpimatmul_0.1.0_*.deb   # the package of 'make deb', or build it there, at the same path as here"
}

# expect_findings LINE...: not READY, with these findings and remedies in this order.
expect_findings() {
    local count=$(($# / 2)) things=problems
    [ "$count" -ne 1 ] || things=problem
    expect_status 78 || return 1
    if [ "$stderr" != "mpimatmul: not ready: $count $things to fix" ] || [[ "$output" == *READY* ]]; then
        echo "expected $count findings"
        show
        return 1
    fi
    diff <(printf '%s\n' "$@") <(sed -n '/^1\. /,$p' <<< "$output" | sed -E 's/^[0-9]+\. |^   fix: //') || {
        show
        return 1
    }
}

expect_ready() {
    expect_quiet_success || return 1
    [ "${lines[-1]}" = READY ] || { show; return 1; }
}

@test "two healthy hosts give READY with a summary, and no process stays on them" {
    doctor
    expect_ready
    grep -q -E '^node1 +1 +0\.1\.0 +Open MPI v4[0-9.]+ +1 of [0-9]+ ' <<< "$output"
    grep -q -E '^node2 +1 +0\.1\.0 ' <<< "$output"
    grep -q -E '^10\.77\.0\.0/24 +[a-z0-9]+ +6 of 6 +[0-9.]+ [KMG]iB/s$' <<< "$output"
    [ -z "$(lab_pids)" ]
}

@test "JSON has every machine and both directions of every connection" {
    doctor --json
    expect_quiet_success
    printf '%s' "$output" > said.json
    python << 'END'
import json
said = json.load(open("said.json"))
assert said["ready"] is True and said["findings"] == []
first, *hosts = said["machines"]
assert first["slots"] is None and first["state"] == "answered"
assert [(x["machine"], x["slots"], x["state"], x["facts"]["host"]) for x in hosts] == \
    [(name, 1, "answered", name) for name in ("node1", "node2")]
names = [x["machine"] for x in said["machines"]]
pairs = {(x["from"], x["to"]): x for x in said["connections"]}
assert sorted(pairs) == sorted((a, b) for a in names for b in names if a != b), sorted(pairs)
for link in pairs.values():
    assert link["open"] and link["network"] == "10.77.0.0/24" and link["bytes_per_second"] > 0, link
assert pairs["node1", "node2"]["address"] == "10.77.0.2" and pairs["node1", "node2"]["interface"] == "eth0"
END
}

@test "a host that does not answer is given up after the limit, and the others are examined" {
    agent_for_node2 'exec sleep 50'
    limit=2 doctor
    expect_findings "node2: no answer within 2 s" "$agent node2 true   # is it switched on, and in the network?"
    grep -q -E '^node2 +1 +-' <<< "$output"
    grep -q -E '^node1 +1 +0\.1\.0 ' <<< "$output"
}

@test "ssh's message about a host that is off or refuses is printed, without a prompt" {
    unset OMPI_MCA_plm_rsh_agent
    echo '10.77.0.1 slots=1' > hosts
    doctor
    expect_findings "10.77.0.1: cannot be reached: 'ssh 10.77.0.1' ended with code 255: ssh: connect to host \
10.77.0.1 port 22: Connection refused" \
        "ssh-copy-id 10.77.0.1   # after 'sudo apt-get install openssh-server' there"
    echo '10.77.0.99 slots=1' > hosts
    limit=1 doctor
    expect_status 78
    [[ "$output" == *"1. 10.77.0.99: cannot be reached: 'ssh 10.77.0.99' ended with code 255: ssh: connect to "* ]]
}

@test "a host without the program, or with a missing library, is found" {
    export PATH=$BUILD/bin:$PATH
    program=mpimatmul
    agent_for_node2 'set -- "PATH=/usr/bin:/bin; $*"'
    doctor
    expect_status 78
    [[ "$output" == *"1. node2: expected mpimatmul 0.1.0, found no program that starts: "*"mpimatmul"*"not found"* ]]
    expect_line "   fix: $package"
    agent_for_node2 'set -- "echo error while loading shared libraries: libmpi.so.40 >&2; exit 127"'
    doctor
    expect_findings "node2: expected mpimatmul 0.1.0, found no program that starts: error while loading shared \
libraries: libmpi.so.40" \
        "$package"
}

@test "another version of the program, or of Open MPI, is found" {
    agent_for_node2 'set -- "$* | sed -u -e s/0\\\\.1\\\\.0/0.0.9/ -e s/v4[0-9.]*/v5.0.1/"'
    mpi=$(mpirun --version | sed -n 's/^mpirun (Open MPI) \([0-9.]*\).*/\1/p')
    doctor
    expect_findings "node2: mpimatmul there is '0.0.9', here '0.1.0'" \
        "$package" \
        "node2: the MPI library there is 'Open MPI v5.0.1', here 'Open MPI v$mpi'" \
        "$agent node2 sudo apt-get install --yes openmpi-bin libopenmpi3"
    agent_for_node2 'set -- "echo mpimatmul: unknown command \\\\\"doctor\\\\\" >&2; exit 64"'
    doctor
    expect_findings "node2: expected mpimatmul 0.1.0, found one without 'doctor'" \
        "$package"
}

@test "output of a login script is not read as an answer, and its control characters do not reach the terminal" {
    agent_for_node2 'set -- "echo Welcome; echo \"mpimatmul-doctor: {\"; $*"'
    doctor
    expect_ready
    agent_for_node2 'set -- "printf \"bad\\\\033[31m\" >&2; exit 3"'
    doctor
    expect_findings "node2: cannot be reached: '$agent node2' ended with code 3: bad?[31m" \
        "$agent node2 true   # must end by itself, without a prompt or any output"
}

@test "dropped packets on the way to one host are found in both directions, with the host to blame" {
    ip -n "$LAB_NAME-node1" route add blackhole 10.77.0.2/32
    doctor
    ip -n "$LAB_NAME-node1" route del blackhole 10.77.0.2/32
    expect_findings "node1 and node2 do not reach each other: node1 to 10.77.0.2 (node2): discarded by a blackhole \
route on the connecting machine; node2 to 10.77.0.1 (node1): no answer" \
        "$agent node1 sudo ip route del blackhole 10.77.0.2   # '$agent node1 ip route' shows it"
    doctor
    expect_ready
}

@test "a host that cannot connect back to mpirun is found" {
    ip -n "$LAB_NAME-node2" route add prohibit 10.77.0.254/32
    doctor
    ip -n "$LAB_NAME-node2" route del prohibit 10.77.0.254/32
    expect_status 78
    [[ "$output" == *"1. "*" and node2 do not reach each other: "*" to 10.77.0.2 (node2): no answer; node2 to \
10.77.0.254 "*": prohibited by a route or firewall on the connecting machine"* ]]
}

# A second cable between the hosts, with a rate of its own. The launcher has none.
second_network() {
    ip -n "$LAB_NAME-node1" link add eth1 type veth peer name eth1 netns "$LAB_NAME-node2"
    local number
    for number in 1 2; do
        ip -n "$LAB_NAME-node$number" address add "10.78.0.$number/24" dev eth1
        ip -n "$LAB_NAME-node$number" link set eth1 up
        tc -n "$LAB_NAME-node$number" qdisc replace dev eth1 root tbf rate "$1" burst 128k latency 50ms
    done
}

@test "a slow second network is found, with the option that excludes it" {
    second_network 20mbit || skip "lab: no tc tbf on this machine"
    doctor
    expect_status 78
    [ "$(grep -c '^   fix: ' <<< "$output")" -eq 1 ]
    [[ "$output" == *"1. network 10.78.0.0/24 (eth1 on node2) carries "*" where 10.77.0.0/24 carries "*"/s, and Open \
MPI uses both"*"   fix: export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24" ]]
    OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 doctor
    expect_ready
    [[ "$output" != *10.78.0* ]]
    OMPI_MCA_btl_tcp_if_exclude=lo,eth1 doctor
    expect_ready
    ip -n "$LAB_NAME-node1" link del eth1
}

@test "an address that two hosts have is found to lead nowhere" {
    local number
    for number in 1 2; do
        ip -n "$LAB_NAME-node$number" link add docker0 type bridge
        ip -n "$LAB_NAME-node$number" address add 172.17.0.1/16 dev docker0
        ip -n "$LAB_NAME-node$number" link set docker0 up
    done
    doctor
    for number in 1 2; do
        ip -n "$LAB_NAME-node$number" link del docker0
    done
    expect_findings "172.17.0.1 is an address of both node1 (docker0) and node2 (docker0)" \
        "export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_oob_tcp_if_include=10.77.0.0/24"
}

@test "settings are checked: keepalive from the environment or a tune file, slots, the folder of rank 0" {
    unset OMPI_MCA_oob_tcp_keepalive_time
    doctor
    expect_findings "keepalive is not set: the loss of a machine would be noticed only after minutes \
(oob_tcp_keepalive_time is not set, expected 5)" \
        "export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=2 \
OMPI_MCA_oob_tcp_keepalive_probes=3"
    doctor --tune "$REPO/scripts/mpimatmul.tune"
    expect_ready
    # shellcheck source=scripts/environment.sh
    . "$REPO/scripts/environment.sh" 2> /dev/null
    doctor
    expect_ready
    unset "${!OMPI_MCA_oob_tcp_keepalive@}"
    printf '# two\nnode1 slots = 3 max_slots=9\nnode2\n' > hosts
    doctor --tune "$REPO/scripts/mpimatmul.tune"
    expect_findings "node1: 3 slots, but 1 core and 0 GPUs: ranks would share cores" \
        "sed -i '2s/slots *= *[0-9]*/slots=1/' 'hosts'"
    agent_for_node2 'set -- "rmdir sub; $*"'
    mkdir sub
    printf '%s slots=1\n' node2 node1 > hosts
    doctor --output sub --tune "$REPO/scripts/mpimatmul.tune"
    expect_findings "node2: rank 0 cannot write results to '$PWD/sub' there: No such file or directory" \
        "$agent node2 mkdir -p '$PWD/sub'   # or use an existing folder of your own"
}

# node_agent CASES: an agent that knows hosts by other names, as `NAME) host=node1;;` of a shell.
node_agent() {
    agent=$BATS_TEST_TMPDIR/agent
    printf '#!/bin/sh\nhost=$1; shift\ncase $host in %s esac\nexec "$LAB_FOLDER/agent" "$host" "$@"\n' "$1" > "$agent"
    chmod 755 "$agent"
    export OMPI_MCA_plm_rsh_agent=$agent
}

# The ranks of a job print the name of their host.
job() {
    TMPDIR=$LAB_FOLDER/launcher/tmp timeout 60 ip netns exec "$LAB_NAME-launcher" mpirun -q --bind-to none \
        --hostfile hosts hostname < /dev/null | sort | tr '\n' ' '
}

@test "names cut at the first dot are found: two hosts that mpirun takes for one, and hosts that need full names" {
    local unknown='"Could not resolve hostname $host: Name or service not known" >&2; exit 255'
    node_agent 'node|node.a.lan) host=node1;; node.b.lan) host=node2;;'
    printf 'node.a.lan slots=1\nnode.b.lan\n' > hosts
    [ "$(job)" = "node1 node1 " ]
    doctor
    expect_findings "'hosts' line 2: mpirun takes 'node.b.lan' for 'node.a.lan' of line 1: it drops everything after \
the first dot" \
        "export OMPI_MCA_orte_keep_fqdn_hostnames=1"
    node_agent "node1.lan) host=node1;; node2.lan) host=node2;; *) echo $unknown;;"
    printf 'node1.lan slots=1\nnode2.lan slots=1\n' > hosts
    doctor
    expect_findings "node1: cannot be reached: '$agent node1' ended with code 255: Could not resolve hostname node1: \
Name or service not known" \
        "export OMPI_MCA_orte_keep_fqdn_hostnames=1   # mpirun calls 'node1.lan' of line 1 by its first label" \
        "node2: cannot be reached: '$agent node2' ended with code 255: Could not resolve hostname node2: Name or \
service not known" \
        "export OMPI_MCA_orte_keep_fqdn_hostnames=1   # mpirun calls 'node2.lan' of line 2 by its first label"
    export OMPI_MCA_orte_keep_fqdn_hostnames=1
    [ "$(job)" = "node1 node2 " ]
    doctor
    expect_ready
}

@test "one host by its name and its address counts as two for mpirun, and lines without slots count one slot each" {
    node_agent '10.77.0.1) host=node1;;'
    printf 'node1 slots=1\n10.77.0.1 slots=1\nnode2 slots=1\n' > hosts
    doctor
    expect_findings "'hosts' line 2: '10.77.0.1' is the machine 'node1' of line 1" \
        "sed -i 2d 'hosts'   # one name, with all slots of the machine"
    printf 'node1\nnode2 slots=1\nnode1\n' > hosts
    [ "$(job)" = "node1 node1 node2 " ]
    doctor
    expect_findings "node1: 2 slots, but 1 core and 0 GPUs: ranks would share cores" \
        "sed -i '1s/[^[:space:]#]\\+/& slots=1/;3d' 'hosts'"
    eval "sed -i '1s/[^[:space:]#]\\+/& slots=1/;3d' 'hosts'"
    [ "$(job)" = "node1 node2 " ]
}
