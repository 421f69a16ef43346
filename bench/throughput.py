#!/usr/bin/env python3
"""Speed over the batch size within a fixed memory, by policy: GACT, figure 4 (Liu et al. 2022).

    throughput.py [--budget 4] [--largest 512] [--steps 3] [--threads 2] [--json FILE] [resnet50 vit_base bert_base ...]

Samples/s of `lacuna bench`, one process a number, with nothing else running. Each process may hold as much data as the
budget says (ulimit -d), code and libraries besides; a policy's line ends where the command refuses the batch or runs out
of memory. Batches double.
"""
import resource
import subprocess

import common

POLICIES = {"`keep`": "policy: keep", "`exact`": "policy: exact", "`mesa`": "policy: mesa",
            "4 bits": "policy: fixed, bits: 4", "`adaptive`, 2.5": "policy: adaptive, bits: 2.5",
            "`exact`, blocks recomputed": "policy: exact, recompute: [\"{regions}\"]",
            "4 bits, blocks recomputed": "policy: fixed, bits: 4, recompute: [\"{regions}\"]"}


def samples_per_second(a, model, batch, memory):
    """None where a step does not fit."""
    preset = [f"model={{name: {model.preset}}}"] if model.preset else []
    command = [a.lacuna, "bench", *common.configured(model.configuration, batch, a.threads), *preset,
               f"memory={{{memory.replace('{regions}', model.regions)}}}", "--steps", a.steps, "--json", "-"]
    limit = int(a.budget * 2**30)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    if done.returncode != 0 and "out of memory" in done.stderr:
        return None
    return common.json.loads(common.output_of(done))["samples_per_second"]


def main():
    parser = common.parser(__doc__)
    parser.add_argument("models", nargs="*", default=["resnet50", "vit_base", "bert_base"])
    parser.add_argument("--budget", type=float, default=4, help="GiB")
    parser.add_argument("--largest", type=int, default=512, help="batch to stop at")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="the same numbers in a file")
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    a = parser.parse_args()
    batches = [2**i for i in range(a.largest.bit_length())]
    found = {}
    for name in a.models:
        print(f"\n| {name}, samples/s at batch | " + " | ".join(map(str, batches)) + " |\n| --- |" + " --- |" * len(batches))
        for title, memory in POLICIES.items():
            speeds = []
            for batch in batches:
                speed = samples_per_second(a, common.MODELS[name], batch, memory)
                if speed is None:
                    break
                speeds.append(speed)
            found.setdefault(name, {})[title] = dict(zip(batches, speeds))
            print(f"| {title} | " + " | ".join(f"{speed:.2f}" for speed in speeds) + " |" * (len(batches) - len(speeds) + 1),
                  flush=True)
    if a.json:
        common.write_json(a.json, found)


if __name__ == "__main__":
    main()
