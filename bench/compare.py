#!/usr/bin/env python3
"""One training step, Lacuna against PyTorch: speed, bytes saved for backward, peak of the process.

    compare.py --peer PEER.py [--python PYTHON] [--lacuna BINARY] [--rounds 3] [--json FILE] [CASE ...]

PEER.py is PyTorch's side: `PEER.py MODEL BATCH [--compile] --threads N --steps N` prints one line that holds
`X samples/s best, Y median; kept K MiB; peak RSS P MiB`. PYTHON is an interpreter with torch and timm. All programs run
alternately, one process a measurement, nothing else running; medians over the rounds of each run's median step.
Lacuna's speed is compared with the better of PyTorch eager and compiled, saved bytes and peak with eager.
"""
import argparse
import json
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: (the peer's model, batch, Lacuna's configuration, least speed, most saved, most peak)
CASES = {
    "deit_tiny": ("deit_tiny_patch16_224", 16, "deit_tiny.yaml", 1.2, 0.63, 0.7),
    "deit_small": ("deit_small_patch16_224", 8, "deit_small.yaml", 1.15, 0.63, 0.7),
    "vit_cifar": ("vit_cifar", 128, "cifar10_vit.yaml", 1.2, 0.63, 0.7),
    "resnet18_cifar": ("resnet18_cifar", 128, "cifar10_resnet18.yaml", 1.2, 0.74, 0.8),
    "resnet50": ("resnet50", 16, "resnet50.yaml", 1.25, 0.80, 0.8),
}
LINE = re.compile(r"([\d.]+) samples/s best, ([\d.]+) median; kept ([\d.]+) MiB; peak RSS ([\d.]+) MiB")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def pytorch(a, model, batch, compiled):
    command = [a.python, a.peer, model, batch, "--threads", a.threads, "--steps", a.steps]
    found = LINE.search(run([*map(str, command), *(["--compile"] if compiled else [])]))
    if not found:
        raise SystemExit(f"{a.peer} did not print the expected line")
    best, median, kept, peak = map(float, found.groups())
    return {"samples_per_second": median, "best": best, "saved": kept * 2**20, "process_peak": peak * 2**20}


def lacuna(a, config, batch, policy):
    out = run([a.lacuna, "bench", "-c", ROOT / "configs" / config, f"train.batch_size={batch}", "train.precision=f32",
               f"train.threads={a.threads}", "optimizer={name: adamw, lr: 1e-4}", f"memory.policy={policy}",
               "--steps", str(a.steps), "--json", "-"])
    result = json.loads(out)
    return {"samples_per_second": batch / result["step_seconds"]["median"],
            "best": batch / result["step_seconds"]["min"],
            "saved": result["memory"]["saved"], "ledger_peak": result["memory"]["peak"],
            "process_peak": result["process_peak"]}


def middle(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    isa = next((name for name in ("amx_tile", "avx512f", "avx2") if f" {name}" in flags), "baseline")
    return {"cpu": cpu, "instruction_set": isa, "system": platform.platform()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lacuna", default=str(ROOT / "build/release/bin/lacuna"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--policy", default="exact")
    parser.add_argument("--json")
    a = parser.parse_args()
    results = {}
    print(f"{'case':<15} {'eager/s':>8} {'compiled/s':>10} {'Lacuna/s':>9} {'speed':>6} {'goal':>5}  "
          f"{'saved MiB':>15} {'ratio':>6} {'goal':>5}  {'peak MiB':>13} {'ratio':>6} {'goal':>5}")
    for name in a.case or CASES:
        model, batch, config, speed, saved, peak = CASES[name]
        runs = {"eager": [], "compiled": [], "lacuna": []}
        for _ in range(a.rounds):
            runs["eager"].append(pytorch(a, model, batch, False))
            runs["lacuna"].append(lacuna(a, config, batch, a.policy))
            runs["compiled"].append(pytorch(a, model, batch, True))
        eager, compiled, ours = (middle(runs[key]) for key in ("eager", "compiled", "lacuna"))
        ratios = {
            "speed": ours["samples_per_second"] / max(eager["samples_per_second"], compiled["samples_per_second"]),
            "saved": ours["saved"] / eager["saved"],
            "peak": ours["process_peak"] / eager["process_peak"],
        }
        results[name] = {"batch_size": batch, "eager": eager, "compiled": compiled, "lacuna": ours, "ratios": ratios,
                         "goals": {"speed": speed, "saved": saved, "peak": peak}, "runs": runs}
        print(f"{name:<15} {eager['samples_per_second']:8.2f} {compiled['samples_per_second']:10.2f} "
              f"{ours['samples_per_second']:9.2f} {ratios['speed']:6.3f} {speed:5.2f}  "
              f"{ours['saved'] / 2**20:7.1f}/{eager['saved'] / 2**20:7.1f} {ratios['saved']:6.3f} {saved:5.2f}  "
              f"{ours['process_peak'] / 2**20:6.0f}/{eager['process_peak'] / 2**20:6.0f} {ratios['peak']:6.3f} {peak:5.2f}",
              flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"machine": machine(), "threads": a.threads, "rounds": a.rounds,
                                                    "cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
