# SPDX-License-Identifier: MIT
"""Emulated hosts for measuring: those of tests/lab/hosts.bash, with a measured cable rate and
halved cores."""
import json
import os
import subprocess
from pathlib import Path

from harness.measure import Failed, Skip, run
from harness.quota import Quota

PORT = 7077

# Receives everything, then answers with one byte.
SINK = f"""
import socket
with socket.create_server(("10.77.0.2", {PORT})) as server:
    print("ready", flush=True)
    connection = server.accept()[0]
    while connection.recv(1 << 20):
        pass
    connection.sendall(b"x")
"""

# Sends so many bytes and prints the seconds until the answer.
SOURCE = f"""
import socket, sys, time
data, left = bytes(1 << 20), int(sys.argv[1])
connection = socket.create_connection(("10.77.0.2", {PORT}))
begin = time.monotonic()
while left > 0:
    connection.sendall(data[:left])
    left -= len(data)
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
print(time.monotonic() - begin)
"""


class Lab:
    """`with Lab(bench, 2) as lab`: hosts node1, node2 ..., one core each as far as there are cores.
    """

    def __init__(self, bench, count):
        self.bench, self.count = bench, count
        self.script = bench.root / "tests" / "lab" / "hosts.bash"
        self.variables = {"TMPDIR": str(bench.folder)}
        self.quotas = []

    def words(self, function, *arguments):
        """Returns argv of a call of a function of hosts.bash."""
        return ["bash", "-c", 'source "$0"; "$@"', str(self.script), function, *map(str, arguments)]

    def call(self, function, *arguments):
        found = subprocess.run(self.words(function, *arguments), env={**os.environ, **self.variables},
                               stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if found.returncode != 0:
            raise Failed(f"{function}: {found.stderr.strip()}")
        return found.stdout

    def __enter__(self):
        names = ("LAB_NAME", "LAB_FOLDER", "LAB_HOSTS", "LAB_MISSING")
        show = "".join(f' "${{{name}:-}}"' for name in names)
        found = subprocess.run(["bash", "-c", f'source "$0"; lab_up {self.count} >&2; printf "%s\\n"{show}',
                                str(self.script)], env={**os.environ, **self.variables}, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True)
        values = dict(zip(names, found.stdout.splitlines()))
        if values.get("LAB_MISSING"):
            raise Skip(values["LAB_MISSING"])
        self.variables.update({name: values.get(name, "") for name in names[:3]})
        self.variables["LAB_SECONDS"] = "600"
        self.hosts, self.folder = self.variables["LAB_HOSTS"].split(), Path(self.variables["LAB_FOLDER"])
        if found.returncode != 0 or len(self.hosts) != self.count:
            self.__exit__()
            raise Failed(f"lab_up: {found.stderr.strip()}")
        return self

    def __exit__(self, *_):
        self.call("lab_down")
        self.lift()

    def limit(self, part, hosts=None):
        """From now on all processes that mpirun starts on one of the hosts (all) share `part` of a
        core. False: the limit cannot be set."""
        try:
            for host in hosts or self.hosts:
                self.quotas.append(Quota(f"{self.variables['LAB_NAME']}-{host}", part))
        except (OSError, TypeError):
            self.lift()
            return False
        agent = self.folder / "agent"
        agent.rename(agent.with_suffix(".host"))
        # `ip netns exec` hides the control groups. They are reachable through this process's root.
        groups = f"/proc/{os.getpid()}/root{self.quotas[0].folder.parent}/{self.variables['LAB_NAME']}"
        agent.write_text(f'#!/bin/sh -e\ncase $1 in {"|".join(hosts or self.hosts)})\n'
                         f'    echo $$ > {groups}-"$1"/cgroup.procs ;;\nesac\nexec {agent}.host "$@"\n')
        agent.chmod(0o755)
        return True

    def lift(self):
        for quota in self.quotas:
            quota.remove()
        self.quotas = []

    def rate(self, rate):
        self.call("lab_rate", rate)

    def mpirun(self, hosts=None):
        """Returns words that start one rank on each of the first hosts, under env()."""
        chosen = self.hosts[:hosts]
        return self.words("lab_mpirun", ",".join(f"{host}:1" for host in chosen), "-n", len(chosen))

    def mpirun_each(self, commands):
        """Returns mpirun with a rank on each of the first hosts, and different words for each."""
        contexts = []
        for place, command in enumerate(commands):
            hosts = f"{self.hosts[place]}:1"
            contexts += [":", "-H", hosts] if place > 0 else [hosts]
            contexts += ["-n", 1, *command]
        return self.words("lab_mpirun", *contexts)

    def pids(self, host):
        """Returns the processes of a host."""
        found = subprocess.run(["ip", "netns", "pids", f"{self.variables['LAB_NAME']}-{host}"], capture_output=True,
                               text=True, check=True)
        return [int(pid) for pid in found.stdout.split()]

    def env(self):
        return self.variables

    def traffic(self, host):
        """Returns the bytes that a host has received and sent so far."""
        found = subprocess.run(["ip", "-n", f"{self.variables['LAB_NAME']}-{host}", "-s", "-j", "link", "show", "eth0"],
                               capture_output=True, text=True, check=True)
        counted = json.loads(found.stdout)[0]["stats64"]
        return counted["rx"]["bytes"], counted["tx"]["bytes"]

    def on(self, host):
        """Returns words that run a command on a host."""
        core = (self.folder / host / "core").read_text().strip()
        return ["taskset", "-c", core, "ip", "netns", "exec", f"{self.variables['LAB_NAME']}-{host}"]

    def measure_link(self, size):
        """Returns bytes per second from node1 to node2 for a program."""
        with subprocess.Popen([*self.on("node2"), self.bench.python, "-c", SINK], stdout=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL) as sink:
            sink.stdout.readline()
            try:
                _, output = run([*self.on("node1"), self.bench.python, "-c", SOURCE, size])
            except Failed:
                sink.kill()
                raise
        return size / float(output)
