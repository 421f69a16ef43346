#!/usr/bin/env python3
"""Saved bytes and step times of the memory policies, in alternation.

    policies.py [--lacuna BINARY] [--rounds 3] [--steps 6] [--batch N] [--peer PEER.py] [--json FILE] [CASE ...]

Each round runs every policy once, one process a measurement, nothing else running, and `exact` before and after each:
"of `exact`" is the median over the rounds of a run's time over the mean of its two neighbours', so that a clock that
drifts cancels. Times are medians over the rounds of each run's median step. A policy that measures sensitivities does so every so many steps: what such a step takes is
found by a run in which every step measures, and is shared out. Bytes are compared with what PyTorch keeps in f32,
which stands below; `PEER.py MODEL BATCH` (a line with `saved X MiB`) finds it anew for models of timm. Both counts have
the batch in them, or what codes hold of it.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: (configuration, batch, MiB that PyTorch keeps at this batch, its name in timm or none, regions to recompute)
CASES = {
    "deit_small": ("deit_small.yaml", 8, 453.2, "deit_small_patch16_224", "blocks.*"),
    "vit_cifar": ("cifar10_vit.yaml", 128, 893.3, None, "blocks.*"),
    "resnet50": ("resnet50.yaml", 16, 1311.1, "resnet50", "layer?.*"),
    "resnet18_cifar": ("cifar10_resnet18.yaml", 128, 573.8, None, "layer?.*"),
}
MEASURE_EVERY = 200  # the policy's own default
POLICIES = {
    "mesa": "policy: mesa",
    "fixed 4": "policy: fixed, bits: 4",
    "adaptive 2.5": "policy: adaptive, bits: 2.5",
    "adaptive 2.5, recompute": "policy: adaptive, bits: 2.5, recompute: [\"{regions}\"]",
}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def bench(a, config, batch, memory):
    return json.loads(run([a.lacuna, "bench", "-c", ROOT / "configs" / config, f"train.batch_size={batch}",
                           "train.precision=f32", f"train.threads={a.threads}", f"memory={{{memory}}}",
                           "--steps", a.steps, "--json", "-"]))


def measure(a, config, batch, memory):
    """Saved bytes, the ledger's peak, and the seconds of a step, measuring included."""
    result = bench(a, config, batch, memory)
    seconds = result["step_seconds"]["median"]
    found = {"saved": result["memory"]["saved"], "peak": result["memory"]["peak"], "plain_seconds": seconds}
    if "adaptive" in memory:
        found["measured_seconds"] = bench(a, config, batch, memory + ", measure_every: 1")["step_seconds"]["median"]
        seconds += (found["measured_seconds"] - seconds) / MEASURE_EVERY
    return {**found, "seconds": seconds}


def kept_by_pytorch(a, case, batch):
    """Bytes; of a batch that is not the case's own, in proportion."""
    _, usual, kept, model, _ = CASES[case]
    if a.peer and model:
        found = re.search(r"saved ([\d.]+) MiB", run([a.python, a.peer, model, batch]))
        if not found:
            raise SystemExit(f"{a.peer} did not print `saved X MiB`")
        return float(found.group(1)) * 2**20
    return kept * 2**20 * batch / usual


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--lacuna", default=str(ROOT / "build/release/bin/lacuna"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, help="instead of each case's own")
    parser.add_argument("--peer", help="the program that tells what PyTorch keeps")
    parser.add_argument("--python", default=sys.executable, help="its interpreter")
    parser.add_argument("--json")
    a = parser.parse_args()
    results = {}
    for case in a.case or CASES:
        config, usual, _, _, regions = CASES[case]
        batch = a.batch or usual
        kept = kept_by_pytorch(a, case, batch)
        runs = {title: [] for title in ("exact", *POLICIES)}
        for _ in range(a.rounds):
            before = measure(a, config, batch, "policy: exact")
            for title, memory in POLICIES.items():
                one = measure(a, config, batch, memory.replace("{regions}", regions))
                after = measure(a, config, batch, "policy: exact")
                runs[title].append({**one, "of_exact": 2 * one["seconds"] / (before["seconds"] + after["seconds"])})
                runs["exact"].append({**before, "of_exact": 1})
                before = after
        found = {title: {key: statistics.median(one[key] for one in all_of) for key in all_of[0]}
                 for title, all_of in runs.items()}
        print(f"\n{case}, batch {batch}: PyTorch keeps {kept / 2**20:.1f} MiB\n\n"
              "| policy | saved, MiB | of PyTorch's | peak, MiB | ms a step | of `exact` | ms where it measures |\n"
              "| --- | --- | --- | --- | --- | --- | --- |")
        for title, one in found.items():
            measured = f"{1e3 * one['measured_seconds']:.0f}" if "measured_seconds" in one else ""
            print(f"| {title} | {one['saved'] / 2**20:.2f} | 1/{kept / one['saved']:.2f} | {one['peak'] / 2**20:.1f} | "
                  f"{1e3 * one['seconds']:.0f} | {one['of_exact']:.3f} × | {measured} |",
                  flush=True)
        results[case] = {"batch_size": batch, "kept_by_pytorch": kept, "policies": found, "runs": runs}
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"threads": a.threads, "rounds": a.rounds, "steps": a.steps,
                                                    "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
