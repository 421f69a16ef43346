#!/usr/bin/env python3
"""A step of AdamW over 86 million parameters, Lacuna against PyTorch's three forms.

    optimizer.py [--python PYTHON] [--bench BINARY] [--rounds 3]

PYTHON is an interpreter with torch. All run alternately, one process a measurement, nothing else running; the shortest
step of each process, medians over the rounds. `bench_optimizer` by itself prints all optimizers and the copy bandwidth.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


LINE = re.compile(r"adamw +([\d.]+) ms .* ([\d.]+) x copy  temporaries (\d+) B")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default=ROOT / "build/release/bin/bench_optimizer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    seconds, temporaries, copies = {}, {}, []
    for _ in range(a.rounds):
        time, copy, bytes_ = LINE.search(run(a.bench, "adamw", a.threads)).groups()
        seconds.setdefault("Lacuna", []).append(float(time) / 1e3)
        temporaries.setdefault("Lacuna", []).append(int(bytes_))
        copies.append(float(copy))
        for form in ("fused", "foreach", "single"):
            words = run(a.python, ROOT / "bench/peers/optimizer_step.py", form, "--threads", a.threads).split()
            seconds.setdefault(f"PyTorch {form}", []).append(float(words[1]))
            temporaries.setdefault(f"PyTorch {form}", []).append(int(words[3]))
    own = statistics.median(seconds["Lacuna"])
    print("| AdamW, 86,016,000 parameters | a step, ms | Lacuna's speed, by this | temporaries, MiB |")
    print("| --- | --- | --- | --- |")
    for name, times in seconds.items():
        time = statistics.median(times)
        print(f"| {name} | {1e3 * time:.1f} | {time / own:.2f} x | {statistics.median(temporaries[name]) / 2**20:.1f} |")
    print(f"\nLacuna's bytes a second, by a copy of the same run: {statistics.median(copies):.2f} x")


if __name__ == "__main__":
    main()
