# SPDX-License-Identifier: MIT
"""This build and, with --against, an older one: the same commands by both, turn by turn.

A disturbance of the machine in a turn affects both builds, so a row's ratio is the median of the
turns' ratios and not the ratio of medians. The first build changes from turn to turn.
"""
from dataclasses import dataclass
from typing import Callable

from harness.measure import Failed, in_seconds
from harness.tables import row, side


@dataclass
class Figure:
    """A side of a comparison: `once` makes a sample (by bench.program for the project's own),
    `value` is its figure."""
    counted: str
    once: Callable
    value: Callable = in_seconds
    unit: str = "s"
    is_ours: bool = True

    def values(self, samples):
        return [self.value(sample) for sample in samples]

    def side(self, samples, counted=None):
        return side(counted or self.counted, samples, values=self.values(samples))


class Turns:
    """Samples of figures by name and, for the project's own, by build. The old build may lack an
    option of the new one. Then it is left out, and `refused` has the reason."""

    def __init__(self, bench, figures):
        self.bench, self.figures = bench, figures
        self.refused = ""
        self.samples = {(name, build): [] for name in figures for build in (*bench.builds, None)}
        for turn in range(bench.warmup + bench.runs):
            for name, figure in figures.items():
                builds = bench.builds if turn % 2 == 0 else bench.builds[::-1]
                for build in builds if figure.is_ours else (None,):
                    self.measure(name, build, turn >= bench.warmup)

    def measure(self, name, build, counts):
        if build == "old" and self.refused:
            return
        figure = self.figures[name]
        try:
            with self.bench.by(build or "new"):
                sample = figure.once()
        except Failed as reason:
            if build != "old":
                raise
            self.refused = f"old build: {reason}"
            self.bench.say(self.refused)
            return
        build_text = f" ({build})" if build and len(self.bench.builds) > 1 else ""
        self.bench.say(f"{name}{build_text}: {figure.value(sample):.3f} {figure.unit}{'' if counts else ' (warm-up)'}")
        if counts:
            self.samples[name, build].append(sample)

    def of(self, name, build):
        return self.samples[name, build if self.figures[name].is_ours else None]

    def pairs(self, name, build, other, other_build):
        values = (self.figures[name].values(self.of(name, build)),
                  self.figures[other].values(self.of(other, other_build)))
        return [ours / theirs for ours, theirs in zip(*values)]

    def row_of_builds(self, label, name, asked, note=""):
        """Returns new / old of one figure."""
        figure, new, old = self.figures[name], self.of(name, "new"), self.of(name, "old")
        label = f"{label} new / old".strip()
        if self.refused:
            return row(label, figure.side(new), unit=figure.unit, asked=asked, note=f"{note} {self.refused}".strip())
        return row(label, figure.side(new), figure.side(old, "the same by the old build"), unit=figure.unit,
                   asked=asked, note=note, pairs=self.pairs(name, "new", name, "old"))


def measure_both(bench, label, figure, note=""):
    """The row of one figure, new / old."""
    name = label or bench.case
    return Turns(bench, {name: figure}).row_of_builds(label, name, bench.asked(f"{bench.case} new / old"), note)


def measure_against(bench, label, figure, reference, parts=lambda sample: {}, note=""):
    """Rows of one figure of the program against a reference measured in the same turns. With two
    builds the old one has its row too, and one row compares the two. `parts` are of the last sample
    of the reference."""
    turns = Turns(bench, {"mul": figure, "reference": reference})
    rows = []
    for build in bench.builds if not turns.refused else ("new",):
        theirs = turns.of("reference", build)
        rows.append(row(f"{label}{', old build' if build == 'old' else ''}", figure.side(turns.of("mul", build)),
                        reference.side(theirs), unit=figure.unit, asked=bench.asked(f"{bench.case} {label}"),
                        pairs=turns.pairs("mul", build, "reference", build), parts=parts(theirs[-1]), note=note))
    if len(bench.builds) > 1:
        rows.append(turns.row_of_builds(label, "mul", bench.asked(f"{bench.case} new / old")))
    return rows
