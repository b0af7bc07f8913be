# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# A Slurm of one node, started by the test that uses it: munged, slurmctld and slurmd in the foreground, with
# configuration, key, socket, ports and state of their own below a temporary folder. What the machine may run
# itself is not touched.
#
#   slurm_up     starts it; where that is not possible, SLURM_MISSING says why;   need_slurm   skips then
#   slurm_down   ends jobs and daemons, by the numbers they were started with

slurm_find_missing() {
    local program
    SLURM_MISSING=
    [ "$(id -u)" -eq 0 ] || SLURM_MISSING="lab: needs root"
    for program in slurmctld slurmd munged sbatch scancel sinfo; do
        command -v $program > /dev/null || SLURM_MISSING="lab: no $program"
    done
    export SLURM_MISSING
}

need_slurm() {
    [ -z "$SLURM_MISSING" ] || skip "$SLURM_MISSING"
}

# Two ports that are free now.
free_ports() {
    "$PYTHON" -c 'import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))'
}

# More processors than there may be: jobs here are small.
slurm_configure() {
    local host controller node
    host=$(hostname -s)
    read -r controller node < <(free_ports)
    cat > "$SLURM_FOLDER/slurm.conf" << END
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmdPort=$node
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$SLURM_FOLDER/munge.socket
StateSaveLocation=$SLURM_FOLDER/state
SlurmdSpoolDir=$SLURM_FOLDER/spool
SlurmctldPidFile=$SLURM_FOLDER/slurmctld.pid
SlurmdPidFile=$SLURM_FOLDER/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SwitchType=switch/none
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=lab Nodes=$host Default=YES MaxTime=5 State=UP
END
}

# slurm_start PROGRAM ARGUMENTS...: in the background, its number into the list.
slurm_start() {
    "$@" >> "$SLURM_FOLDER/${1##*/}.log" 2>&1 < /dev/null 3>&- &
    echo $! >> "$SLURM_FOLDER/pids"
}

# slurm_wait COMMAND...: until it succeeds, 20 seconds at most.
slurm_wait() {
    local i
    for ((i = 0; i < 100; i++)); do
        ! "$@" > /dev/null 2>&1 || return 0
        sleep 0.2
    done
    echo "not within 20 s: $*"
    tail -n 5 "$SLURM_FOLDER"/*.log
    return 1
}

slurm_is_idle() {
    [ "$(sinfo --noheader --format %T)" = idle ]
}

slurm_up() {
    slurm_find_missing
    [ -z "$SLURM_MISSING" ] || return 0
    SLURM_FOLDER=$(mktemp -d "$TMPDIR/slurm.XXXX")
    export SLURM_FOLDER SLURM_CONF=$SLURM_FOLDER/slurm.conf
    chmod 755 "$SLURM_FOLDER"
    mkdir "$SLURM_FOLDER/state" "$SLURM_FOLDER/spool"
    head -c 128 /dev/urandom > "$SLURM_FOLDER/key"
    chmod 600 "$SLURM_FOLDER/key"
    slurm_configure
    slurm_start munged --foreground --force --key-file="$SLURM_FOLDER/key" --socket="$SLURM_FOLDER/munge.socket" \
        --pid-file="$SLURM_FOLDER/munged.pid" --seed-file="$SLURM_FOLDER/seed" --log-file="$SLURM_FOLDER/munged.out"
    slurm_wait test -S "$SLURM_FOLDER/munge.socket" || return 1
    slurm_start slurmctld -D -c -f "$SLURM_CONF"
    slurm_start slurmd -D -c -f "$SLURM_CONF"
    slurm_wait slurm_is_idle
}

# The last one started goes first: slurmd needs its controller no more then.
slurm_down() {
    [ -n "${SLURM_FOLDER:-}" ] || return 0
    local pid
    scancel --state=RUNNING --full > /dev/null 2>&1 || true
    for pid in $(tac "$SLURM_FOLDER/pids"); do
        kill "$pid" 2> /dev/null || true
        slurm_wait slurm_is_gone "$pid" || kill -KILL "$pid"
    done
    rm -rf "$SLURM_FOLDER"
    unset SLURM_FOLDER
}

slurm_is_gone() {
    ! kill -0 "$1"
}
