#!/usr/bin/env python3
"""What `auto` chooses against plans made by hand within the same budget: bytes, speed, and the error of the gradient.

    alternatives.py [--part 0.11] [--rounds 3] [--steps 6] [--draws 6] [--json FILE]

deit_small at batch 8, f32, 2 threads. The budget is a part of what PyTorch keeps of it, as in budget.py. A plan by hand that
takes more is left out. Speeds: one process a measurement, by turns, nothing else running, medians over the rounds of each run's
median step. Errors: bench_gradient_error after 5 steps on drawn images.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = 454.2 * 2**20  # by PyTorch
BATCH = 8
BY_HAND = {
    "`exact`, all blocks recomputed": '{policy: exact, recompute: ["blocks.*"]}',
    "`exact`, 11 of 12 blocks recomputed": '{policy: exact, recompute: ["blocks.?", "blocks.10"]}',
    "`fixed`, 8 bits, 3 of 12 blocks recomputed": '{policy: fixed, bits: 8, recompute: ["blocks.[0-2]"]}',
    "`fixed`, 8 bits, 6 of 12 blocks recomputed": '{policy: fixed, bits: 8, recompute: ["blocks.[0-5]"]}',
    "`fixed`, 5 bits": "{policy: fixed, bits: 5}",
    "`fixed`, 4 bits": "{policy: fixed, bits: 4}",
    "`adaptive`, 5.5 bits": "{policy: adaptive, bits: 5.5}",
    "`fixed`, 4 bits, 6 of 12 blocks recomputed": '{policy: fixed, bits: 4, recompute: ["blocks.[0-5]"]}',
    "`fixed`, 3 bits, 4 of 12 blocks recomputed": '{policy: fixed, bits: 3, recompute: ["blocks.[0-3]"]}',
    "`adaptive`, 2.5 bits": "{policy: adaptive, bits: 2.5}",
    "`fixed`, 2 bits": "{policy: fixed, bits: 2}",
}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def lacuna(a, command, memory, *options):
    return json.loads(run(a.lacuna, command, "-c", ROOT / "configs/deit_small.yaml", f"train.batch_size={BATCH}",
                          "train.precision=f32", "train.threads=2", f"memory={memory}", "--json", "-", *options))


def error(a, memory):
    """Of the gradient as a whole, and by row; relative."""
    out = run(a.errors, ROOT / "configs/deit_small.yaml", 5, a.draws, f"train.batch_size={BATCH}", "train.precision=f32",
              "train.threads=2", "data={name: shapes}", f"memory={memory}")
    cells = re.search(r"^\| as configured \|(.*)\|$", out, re.MULTILINE)[1].split("|")
    return float(cells[2]), float(cells[4])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=float, default=0.11, help="of what PyTorch keeps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--lacuna", default=str(ROOT / "build/release/bin/lacuna"))
    parser.add_argument("--errors", default=str(ROOT / "build/release/bin/bench_gradient_error"))
    parser.add_argument("--json")
    a = parser.parse_args()
    budget = int(a.part * KEPT)
    plans = {"`auto`": f"{{policy: auto, budget: {budget}B, budget_of: saved}}",
             "`auto`, exact means alone": f"{{policy: auto, budget: {budget}B, budget_of: saved, codes: false}}", **BY_HAND}
    saved = {name: lacuna(a, "plan", memory)["memory"]["saved"] for name, memory in plans.items()}
    plans = {name: memory for name, memory in plans.items() if saved[name] <= budget}
    seconds = {name: [] for name in plans}
    for _ in range(a.rounds):
        for name, memory in plans.items():
            seconds[name].append(lacuna(a, "bench", memory, "--steps", a.steps)["step_seconds"]["median"])
    print(f"budget {budget / 2**20:.1f} MiB\n\n| plan | saved, MiB | samples/s | error of the gradient | by row |\n"
          "| --- | --- | --- | --- | --- |")
    rows = {}
    for name, memory in plans.items():
        whole, by_row = error(a, memory)
        rows[name] = {"saved": saved[name], "samples_per_second": BATCH / statistics.median(seconds[name]),
                      "error": whole, "error_by_row": by_row, "seconds": seconds[name]}
        print(f"| {name} | {saved[name] / 2**20:.1f} | {rows[name]['samples_per_second']:.2f} | {whole:.4f} | "
              f"{by_row:.4f} |", flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"budget": budget, "plans": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
