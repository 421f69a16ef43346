#!/usr/bin/env python3
"""Saved bytes and step times of the memory policies.

    cmake --build --preset release --target lacuna_command bench_policy_times
    policies.py [--build FOLDER] [--steps 9] [--batch N] [--peer PEER.py] [--json FILE] [CASE ...]

Bytes are those of `lacuna bench`, one process a policy, and are compared with what PyTorch keeps in f32, which stands
below; `PEER.py MODEL BATCH` (a line with `saved X MiB`) finds it anew for models of timm. Both counts have the batch in
them, or what codes hold of it. Times are those of `bench_policy_times`: each step of a policy between two of `exact`.
Beside them stands what a number takes from one thread to the other and back: where a guest's processors share no cache,
it is several times as long, and what threads hand to each other costs more.
A policy that measures sensitivities does so every so many steps: what such a step takes is found by a training in which
every step measures, and is shared out.
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
    "adaptive 4, recompute": "policy: adaptive, bits: 4, recompute: [\"{regions}\"]",
}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def overrides(a, batch):
    return [f"train.batch_size={batch}", "train.precision=f32", f"train.threads={a.threads}"]


def measure_bytes(a, config, batch, memory):
    """Saved, and the ledger's peak."""
    result = json.loads(run([a.build / "bin/lacuna", "bench", "-c", config, *overrides(a, batch),
                             f"memory={{{memory}}}", "--steps", 1, "--json", "-"]))
    return {"saved": result["memory"]["saved"], "peak": result["memory"]["peak"]}


def measure_times(a, config, batch, memories, steps):
    """(seconds of a step, those of `exact` beside it, their ratio, nanoseconds between threads) of each."""
    lines = run([a.build / "bin/bench_policy_times", config, steps, *overrides(a, batch),
                 *(f"memory={{{memory}}}" for memory in memories)]).splitlines()
    return [tuple(map(float, line.split())) for line in lines]


def measure(a, config, batch, policies):
    """By title: bytes, seconds and the ratio to `exact`, measuring included."""
    times = measure_times(a, config, batch, policies.values(), a.steps)
    found = {"exact": {**measure_bytes(a, config, batch, "policy: exact"),
                       "seconds": statistics.median(exact for _, exact, _, _ in times), "of_exact": 1}}
    for (title, memory), (seconds, _, ratio, trip) in zip(policies.items(), times):
        found[title] = {**measure_bytes(a, config, batch, memory), "seconds": seconds, "of_exact": ratio,
                        "round_trip_ns": trip}
        if "adaptive" in memory:
            (measured, _, measured_ratio, _), = measure_times(a, config, batch, [memory + ", measure_every: 1"],
                                                           max(3, a.steps // 3))
            found[title]["measured_seconds"] = measured
            found[title]["seconds"] += (measured - seconds) / MEASURE_EVERY
            found[title]["of_exact"] += (measured_ratio - ratio) / MEASURE_EVERY
    return found


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
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--steps", type=int, default=9)
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
        found = measure(a, ROOT / "configs" / config, batch,
                        {title: memory.replace("{regions}", regions) for title, memory in POLICIES.items()})
        print(f"\n{case}, batch {batch}: PyTorch keeps {kept / 2**20:.1f} MiB\n\n"
              "| policy | saved, MiB | of PyTorch's | peak, MiB | ms a step | of `exact` | between threads, ns | "
              "ms where it measures |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
        for title, one in found.items():
            trip = f"{one['round_trip_ns']:.0f}" if "round_trip_ns" in one else ""
            measured = f"{1e3 * one['measured_seconds']:.0f}" if "measured_seconds" in one else ""
            print(f"| {title} | {one['saved'] / 2**20:.2f} | 1/{kept / one['saved']:.2f} | {one['peak'] / 2**20:.1f} | "
                  f"{1e3 * one['seconds']:.0f} | {one['of_exact']:.3f} × | {trip} | {measured} |",
                  flush=True)
        results[case] = {"batch_size": batch, "kept_by_pytorch": kept, "policies": found}
    if a.json:
        written = {"threads": a.threads, "steps": a.steps, "cases": results}
        pathlib.Path(a.json).write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
