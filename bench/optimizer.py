#!/usr/bin/env python3
"""A step of AdamW over 86 million parameters, Lacuna against PyTorch's three forms.

    optimizer.py [--python PYTHON] [--build FOLDER] [--rounds 6]

PYTHON is an interpreter with torch; FOLDER has the targets bench_optimizer and bench_adamw. Nothing else is to run.

The fused form and Lacuna step by turns within one process, on the same arrays (peers/optimizer_pair.py), since memory is
faster in some processes than in others by more than the two differ: the ratio is the median over all pairs of steps of
all rounds. The other forms have a process a round; the shortest step of each, medians over the rounds.
"""
import json
import pathlib
import statistics
import sys

import common

OWN = r"adamw .* ([\d.]+) x copy .* ([\d.]+) x reading .* temporaries (\d+) B"


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--build", default=common.ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()

    own, fused, ratios = [], [], []
    by_copy, by_reading, temporaries, seconds = [], [], {}, {}
    for _ in range(a.rounds):
        pair = json.loads(common.run(a.python, common.ROOT / "bench/peers/optimizer_pair.py",
                                     a.build / "lib/libbench_adamw.so", "--threads", a.threads))
        own += pair["lacuna"]
        fused += pair["pytorch"]
        ratios.append(statistics.median(theirs / ours for ours, theirs in zip(pair["lacuna"], pair["pytorch"])))
        of_copy, of_reading, held = common.printed_by(OWN, a.build / "bin/bench_optimizer", "adamw", a.threads)
        by_copy.append(of_copy)
        by_reading.append(of_reading)
        temporaries.setdefault("Lacuna", []).append(held)
        for form in ("fused", "foreach", "single"):
            words = common.run(a.python, common.ROOT / "bench/peers/optimizer_step.py", form, "--threads", a.threads).split()
            if form != "fused":
                seconds.setdefault(f"PyTorch {form}", []).append(float(words[1]))
            temporaries.setdefault(f"PyTorch {form}", []).append(int(words[3]))
    median = statistics.median(own)
    rows = {"Lacuna": (median, 1.0), "PyTorch fused": (statistics.median(fused),
                                                       statistics.median(theirs / ours for ours, theirs in zip(own, fused)))}
    for name in ("PyTorch foreach", "PyTorch single"):
        rows[name] = (statistics.median(seconds[name]), statistics.median(seconds[name]) / median)
    print("| AdamW, 86,016,000 parameters | a step, ms | Lacuna's speed, by this | temporaries, MiB |")
    print("| --- | --- | --- | --- |")
    for name, (time, ratio) in rows.items():
        print(f"| {name} | {1e3 * time:.1f} | {ratio:.2f} x | {statistics.median(temporaries[name]) / 2**20:.1f} |")
    print(f"\n{len(own)} pairs of steps in {a.rounds} processes; by process {min(ratios):.3f} to {max(ratios):.3f} x."
          f" Lacuna's bytes a second by those of a copy: {statistics.median(by_copy):.2f} x; what it reads a second by a"
          f" mere reading: {statistics.median(by_reading):.2f} x. The last two rows are medians of shortest steps.")


if __name__ == "__main__":
    main()
