#!/usr/bin/env python3
"""What `auto` chooses against plans made by hand within the same budget: bytes, speed, and the error of the gradient.

    alternatives.py [--part 0.11] [--rounds 3] [--steps 6] [--draws 6] [--json FILE]

deit_small at batch 8, f32, 2 threads. The budget is a part of what PyTorch keeps of it, as in budget.py. A plan by hand that
takes more is left out. Speeds: one process a measurement, by turns, nothing else running, medians over the rounds of each run's
median step. Errors: bench_gradient_error after 5 steps on drawn images.
"""
import re
import statistics

import common

KEPT = 454.2 * 2**20  # by PyTorch
MODEL = common.MODELS["deit_small"]
THREADS = 2
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


def lacuna(a, command, memory, *options):
    return common.json_of(a.lacuna, command, *common.configured(MODEL.configuration, MODEL.batch, THREADS),
                          f"memory={memory}", *options)


def error(a, memory):
    """Of the gradient as a whole, and by row; relative."""
    out = common.run(a.errors, common.ROOT / "configs" / MODEL.configuration, 5, a.draws,
                     *common.overrides(MODEL.batch, THREADS), "data={name: shapes}", f"memory={memory}")
    cells = re.search(r"^\| as configured \|(.*)\|$", out, re.MULTILINE)[1].split("|")
    return float(cells[2]), float(cells[4])


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--part", type=float, default=0.11, help="of what PyTorch keeps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    parser.add_argument("--errors", default=common.ROOT / "build/release/bin/bench_gradient_error")
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
        rows[name] = {"saved": saved[name], "samples_per_second": MODEL.batch / statistics.median(seconds[name]),
                      "error": whole, "error_by_row": by_row, "seconds": seconds[name]}
        print(f"| {name} | {saved[name] / 2**20:.1f} | {rows[name]['samples_per_second']:.2f} | {whole:.4f} | "
              f"{by_row:.4f} |", flush=True)
    if a.json:
        common.write_json(a.json, {"budget": budget, "plans": rows})


if __name__ == "__main__":
    main()
