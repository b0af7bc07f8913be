# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# A Slurm of two nodes on this machine, started by the test that uses it: munged, slurmctld and two
# slurmd in the foreground, with configuration, key, socket, ports and state of their own below a
# temporary folder. A Slurm of the machine itself is not touched. Each node has a host name of its
# own and this machine's cores. As on clusters, a job gets only the cores and memory it asks for.
#
#   slurm_up     starts it; on failure SLURM_MISSING has the reason;   need_slurm   skips then
#   slurm_down   ends jobs and daemons, by the numbers they were started with

slurm_nodes=(node1 node2)

slurm_find_missing() {
    local program
    SLURM_MISSING=
    [ "$(id -u)" -eq 0 ] || SLURM_MISSING="lab: needs root"
    for program in slurmctld slurmd munged sbatch srun scancel sinfo unshare; do
        command -v $program > /dev/null || SLURM_MISSING="lab: no $program"
    done
    [ -n "$SLURM_MISSING" ] || unshare --uts true 2> /dev/null || SLURM_MISSING="lab: no host names for nodes"
    # slurmd offers all processors of the machine, whatever this process may use.
    [ -n "$SLURM_MISSING" ] || [ "$(slurm_shape CPUs)" -eq "$(count_processors)" ] ||
        SLURM_MISSING="lab: not every processor may be used"
    export SLURM_MISSING
}

need_slurm() {
    [ -z "$SLURM_MISSING" ] || skip "$SLURM_MISSING"
}

# slurm_shape NAME: CPUs, SocketsPerBoard, CoresPerSocket, ThreadsPerCore or RealMemory of this
# machine.
slurm_shape() {
    slurmd -C | grep -o -m 1 "$1=[0-9]*" | cut -d = -f 2
}

count_processors() {
    "$PYTHON" -c 'import os; print(len(os.sched_getaffinity(0)))'
}

# Three ports that are free now.
free_ports() {
    "$PYTHON" -c 'import socket
sockets = [socket.socket() for _ in range(3)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))'
}

# TmpFS: Slurm keeps a folder of each step's PMIx there, and nodes of one machine may not share it.
# A node's one GPU is only a number for Slurm: no job here opens it.
slurm_configure() {
    local host controller port1 port2
    host=$(hostname -s)
    read -r controller port1 port2 < <(free_ports)
    cat > "$SLURM_FOLDER/slurm.conf" << END
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$SLURM_FOLDER/munge.socket
StateSaveLocation=$SLURM_FOLDER/state
SlurmdSpoolDir=$SLURM_FOLDER/%n/spool
TmpFS=$SLURM_FOLDER/%n
SlurmctldPidFile=$SLURM_FOLDER/slurmctld.pid
SlurmdPidFile=$SLURM_FOLDER/%n/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SwitchType=switch/none
MpiDefault=none
GresTypes=gpu
MailProg=/bin/true
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
NodeName=DEFAULT $(slurmd -C | grep -o 'CPUs.*') Gres=gpu:1
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$port1
NodeName=node2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$port2
PartitionName=lab Nodes=node[1-2] Default=YES MaxTime=60 State=UP
END
    echo 'Name=gpu Count=1 File=/dev/null' > "$SLURM_FOLDER/gres.conf"
}

# slurm_start PROGRAM ARGUMENTS...: starts it in the background and adds its process id to the list.
slurm_start() {
    "$@" >> "$SLURM_FOLDER/${1##*/}.log" 2>&1 < /dev/null 3>&- &
    echo $! >> "$SLURM_FOLDER/pids"
}

# slurm_wait COMMAND...: repeats it until it succeeds, for 20 seconds at most.
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
    [ "$(sinfo --noheader --format '%D %T')" = "${#slurm_nodes[@]} idle" ]
}

# All jobs of an array have ended.
slurm_has_ended() {
    local states
    states=$(scontrol show job "$1" | grep -o 'JobState=[A-Z_]*')
    [ -n "$states" ] && ! grep -q -v -E '=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY)$' <<< "$states"
}

slurm_up() {
    local node
    slurm_find_missing
    [ -z "$SLURM_MISSING" ] || return 0
    SLURM_FOLDER=$(mktemp -d "$TMPDIR/slurm.XXXX")
    export SLURM_FOLDER SLURM_CONF=$SLURM_FOLDER/slurm.conf
    chmod 755 "$SLURM_FOLDER"
    mkdir "$SLURM_FOLDER/state"
    head -c 128 /dev/urandom > "$SLURM_FOLDER/key"
    chmod 600 "$SLURM_FOLDER/key"
    slurm_configure
    slurm_start munged --foreground --force --key-file="$SLURM_FOLDER/key" --socket="$SLURM_FOLDER/munge.socket" \
        --pid-file="$SLURM_FOLDER/munged.pid" --seed-file="$SLURM_FOLDER/seed" --log-file="$SLURM_FOLDER/munged.out"
    slurm_wait test -S "$SLURM_FOLDER/munge.socket" || return 1
    slurm_start slurmctld -D -c -f "$SLURM_CONF"
    for node in "${slurm_nodes[@]}"; do
        mkdir -p "$SLURM_FOLDER/$node/spool"
        slurm_start unshare --uts sh -c "hostname $node && exec slurmd -N $node -D -c -f '$SLURM_CONF'"
    done
    slurm_wait slurm_is_idle
}

# Ends the daemons in reverse order: slurmd no longer needs its controller then.
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
