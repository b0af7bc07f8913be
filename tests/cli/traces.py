# SPDX-License-Identifier: MIT
"""Checks a Chrome trace as a viewer reads it: traces.check(file, report) gives {rank: {lane:
[events]}}."""
import json


def load(path):
    """Returns {rank: {lane: events in the order of the file}}."""
    events = json.load(open(path))["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = {e["pid"]: {} for e in events if e["name"] == "process_name"}
    for event in events:
        assert event["ph"] in "MXC", event
        if event["ph"] == "X":
            found[event["pid"]].setdefault(lanes[event["pid"], event["tid"]], []).append(event)
    return found


def check_lane(lane):
    """Asserts that events of a lane are in order, and each lies beside the others or within one."""
    around = []
    for event in lane:
        begin, end = event["ts"], event["ts"] + event["dur"]
        assert event["dur"] >= 0, event
        while around and around[-1] <= begin + 1e-6:
            around.pop()
        assert not around or end <= around[-1] + 1e-6, (event, around)
        around.append(end)


def check(path, report):
    """Asserts the properties of every trace. Times lie inside the run, with the report's duration.
    """
    report, found = json.load(open(report)), load(path)
    assert list(found) == list(range(len(report["ranks"])))
    for rank, lanes in found.items():
        assert lanes, rank
        for lane in lanes.values():
            check_lane(lane)
            for event in lane:
                assert 0 <= event["ts"] + 1e-3 and event["ts"] + event["dur"] <= 1e6 * report["wall_seconds"] + 1, event
    return found, report


def names(lane):
    return [event["name"] for event in lane]
