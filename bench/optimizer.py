#!/usr/bin/env python3
"""A step of AdamW over 86 million parameters, Lacuna against PyTorch's three forms.

    optimizer.py [--python PYTHON] [--bench BINARY] [--rounds 3]

PYTHON is an interpreter with torch. All run alternately, one process a measurement, nothing else running; the shortest
step of each process, medians over the rounds. `bench_optimizer` by itself prints all optimizers and the copy bandwidth.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default=ROOT / "build/release/bin/bench_optimizer")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    seconds, temporaries = {}, {"lacuna": [0]}
    for _ in range(a.rounds):
        seconds.setdefault("lacuna", []).append(float(run(a.bench, "adamw")[0]))
        for form in ("fused", "foreach", "single"):
            _, time, _, bytes_ = run(a.python, ROOT / "bench/peers/optimizer_step.py", form)
            seconds.setdefault(form, []).append(float(time))
            temporaries.setdefault(form, []).append(int(bytes_))
    own = statistics.median(seconds["lacuna"])
    print("| AdamW, 86,016,000 parameters | a step, ms | Lacuna is faster by | temporaries, MiB |")
    print("| --- | --- | --- | --- |")
    for name, times in seconds.items():
        time = statistics.median(times)
        print(f"| {name} | {1e3 * time:.1f} | {time / own:.2f} x | {statistics.median(temporaries[name]) / 2**20:.1f} |")


if __name__ == "__main__":
    main()
