#!/usr/bin/env python3
"""Saved bytes and step times of the memory policies.

    cmake --build --preset release --target lacuna_command bench_policy_times
    policies.py [--build FOLDER] [--steps 9] [--batch N] [--peer PEER.py] [--python PYTHON] [--json FILE] [CASE ...]

Bytes are those of `lacuna bench`, one process a policy, and are compared with what PyTorch keeps in f32, which stands
below. PEER.py, run by PYTHON (which has torch and timm), finds it anew for models of timm: `PEER.py MODEL BATCH` prints
one line with `saved X MiB` in it, X the storages that autograd holds in f32 between forward and backward of timm's MODEL,
each once, parameters and buffers left out. Both counts have the batch in them, or what codes hold of it. Times are those
of `bench_policy_times`: each step of a policy between two of `exact`. Beside the median stand those of the steps in which
the threads shared a last-level cache and of those in which they did not, with their numbers: on two caches what threads hand
to each other costs more, under `exact` too.
A policy that measures sensitivities does so every so many steps: what such a step takes is found by a training in which
every step measures, and is shared out.
"""
import pathlib
import statistics
import sys

import common

# MiB, at the batch of common.MODELS
KEPT_BY_PYTORCH = {
    "deit_small": 453.2,
    "vit_cifar": 893.3,
    "resnet50": 1311.1,
    "resnet18_cifar": 573.8,
}
MEASURE_EVERY = 200  # the policy's own default
POLICIES = {
    "mesa": "policy: mesa",
    "fixed 4": "policy: fixed, bits: 4",
    "adaptive 2.5": "policy: adaptive, bits: 2.5",
    "adaptive 2.5, recompute": "policy: adaptive, bits: 2.5, recompute: [\"{regions}\"]",
    "adaptive 4, recompute": "policy: adaptive, bits: 4, recompute: [\"{regions}\"]",
}


def measure_bytes(a, config, batch, memory):
    """Saved, and the ledger's peak."""
    result = common.json_of(a.build / "bin/lacuna", "bench", *common.configured(config, batch, a.threads),
                            f"memory={{{memory}}}", "--steps", 1)
    return {"saved": result["memory"]["saved"], "peak": result["memory"]["peak"]}


def measure_times(a, config, batch, memories, steps):
    """Of each: seconds of a step, of `exact` beside it, and their ratio; steps on one cache and their ratio; on two."""
    lines = common.run(a.build / "bin/bench_policy_times", common.ROOT / "configs" / config, steps,
                       *common.overrides(batch, a.threads), *(f"memory={{{memory}}}" for memory in memories)).splitlines()
    return [tuple(map(float, line.split())) for line in lines]


def measure(a, config, batch, policies):
    """By title: bytes, seconds and the ratios to `exact`, measuring included."""
    times = measure_times(a, config, batch, policies.values(), a.steps)
    found = {"exact": {**measure_bytes(a, config, batch, "policy: exact"),
                       "seconds": statistics.median(line[1] for line in times), "of_exact": 1}}
    for (title, memory), (seconds, _, ratio, near, near_ratio, far, far_ratio) in zip(policies.items(), times):
        one = found[title] = {**measure_bytes(a, config, batch, memory), "seconds": seconds, "of_exact": ratio,
                              "steps_on_one_cache": near, "of_exact_on_one_cache": near_ratio,
                              "steps_on_two": far, "of_exact_on_two": far_ratio}
        if "adaptive" in memory:
            (measured, _, measured_ratio, *_), = measure_times(a, config, batch, [memory + ", measure_every: 1"],
                                                               max(3, a.steps // 3))
            one["measured_seconds"] = measured
            one["seconds"] += (measured - seconds) / MEASURE_EVERY
            for key in [key for key in one if key.startswith("of_exact") and one[key] > 0]:
                one[key] += (measured_ratio - ratio) / MEASURE_EVERY
    return found


def kept_by_pytorch(a, case, batch):
    """Bytes; of a batch that is not the case's own, in proportion."""
    model = common.MODELS[case]
    if a.peer and not model.peer.endswith("_cifar"):
        kept, = common.printed_by(r"saved ([\d.]+) MiB", a.python, a.peer, model.peer, batch)
        return kept * 2**20
    return KEPT_BY_PYTORCH[case] * 2**20 * batch / model.batch


def main():
    parser = common.parser(__doc__)
    parser.add_argument("case", nargs="*", help=f"of {', '.join(KEPT_BY_PYTORCH)}; all by default")
    parser.add_argument("--build", type=pathlib.Path, default=common.ROOT / "build/release")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, help="instead of each case's own")
    parser.add_argument("--peer", help="the program that tells what PyTorch keeps")
    parser.add_argument("--python", default=sys.executable, help="its interpreter")
    parser.add_argument("--json")
    a = parser.parse_args()
    results = {}
    for case in a.case or KEPT_BY_PYTORCH:
        model = common.MODELS[case]
        batch = a.batch or model.batch
        kept = kept_by_pytorch(a, case, batch)
        found = measure(a, model.configuration, batch,
                        {title: memory.replace("{regions}", model.regions) for title, memory in POLICIES.items()})
        print(f"\n{case}, batch {batch}: PyTorch keeps {kept / 2**20:.1f} MiB\n\n"
              "| policy | saved, MiB | of PyTorch's | peak, MiB | ms a step | of `exact` | on one cache | on two | "
              "ms where it measures |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for title, one in found.items():
            on_one, on_two = (f"{one[ratio]:.3f} × ({one[steps]:.0f})" if one.get(steps) else "" for ratio, steps in
                              [("of_exact_on_one_cache", "steps_on_one_cache"), ("of_exact_on_two", "steps_on_two")])
            measured = f"{1e3 * one['measured_seconds']:.0f}" if "measured_seconds" in one else ""
            print(f"| {title} | {one['saved'] / 2**20:.2f} | 1/{kept / one['saved']:.2f} | {one['peak'] / 2**20:.1f} | "
                  f"{1e3 * one['seconds']:.0f} | {one['of_exact']:.3f} × | {on_one} | {on_two} | {measured} |",
                  flush=True)
        results[case] = {"batch_size": batch, "kept_by_pytorch": kept, "policies": found}
    if a.json:
        common.write_json(a.json, {"threads": a.threads, "steps": a.steps, "cases": results})


if __name__ == "__main__":
    main()
