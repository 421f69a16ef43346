#!/usr/bin/env python3
"""The largest batch, depth, width and resolution that a budget allows, by policy: GACT, table 4 (Liu et al. 2022).

    largest.py [--budget 16] [--batch 64] [--precision f32] [--optimizer sgd] [--threads 2] [MODEL ...]
    largest.py --budget 7.66825 --batch 128 --precision bf16 --optimizer adamw deit_base_patch16_224     Mesa, table 9

By `lacuna plan`: the peak of a whole training step, parameters, gradients and the optimizer's state included. MODEL: resnet50,
resnet152, bert_large (128 tokens), or a ViT. One number is raised while all others stay. Depth of a ResNet: layers, by blocks of the third stage; width: of the bottleneck
(`base_width`, 64 as published). Width of a ViT: in heads of 64.
"""
import os

import common

# One processor's scratch memory on every machine, as in the sweeps' tests: one without products of bf16 needs the most.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"

POLICIES = {"`keep`": "{policy: keep}", "`exact`": "{policy: exact}", "`mesa`": "{policy: mesa}",
            "4 bits": "{policy: fixed, bits: 4}", "`adaptive`, 2.5": "{policy: adaptive, bits: 2.5}",
            "4 bits, blocks recomputed": "{policy: fixed, bits: 4, recompute: [\"REGIONS\"]}"}
STAGES = {"resnet50": [3, 4, 6, 3], "resnet152": [3, 8, 36, 3]}


def dimensions(model, batch):
    """Name to (overrides of a value, step of the value, what is shown of it)."""
    usual = [f"train.batch_size={batch}"]
    if model in STAGES:
        first, second, _, last = STAGES[model]
        return {"batch": (lambda n: [f"train.batch_size={n}"], 1, lambda n: n),
                "depth": (lambda n: usual + [f"model.layers=[{first}, {second}, {n}, {last}]"], 1,
                          lambda n: 3 * (first + second + n + last) + 2),
                "width": (lambda n: usual + [f"model.base_width={n}"], 4, lambda n: n),
                "resolution": (lambda n: usual + [f"model.image_size={n}", f"data.image_size={n}"], 4, lambda n: n)}
    if model.startswith("bert"):
        return {"batch": (lambda n: [f"train.batch_size={n}"], 1, lambda n: n),
                "depth": (lambda n: usual + [f"model.num_hidden_layers={n}"], 1, lambda n: n),
                "width": (lambda n: usual + [f"model.hidden_size={n}", f"model.num_attention_heads={n // 64}",
                                             f"model.intermediate_size={4 * n}"], 64, lambda n: n)}
    return {"batch": (lambda n: [f"train.batch_size={n}"], 1, lambda n: n),
            "depth": (lambda n: usual + [f"model.depth={n}"], 1, lambda n: n),
            "width": (lambda n: usual + [f"model.embed_dim={n}", f"model.num_heads={n // 64}"], 64, lambda n: n),
            "resolution": (lambda n: usual + [f"model.image_size={n}", f"data.image_size={n}"], 16, lambda n: n)}


def fits(a, model, memory, overrides):
    is_text = model.startswith("bert")
    given = ([f"model={{name: {model}, num_classes: 2}}", "data={name: random_tokens, length: 128}"] if is_text else
             [f"model={{name: {model}, num_classes: 1000}}", "data.name=shapes"])
    regions = "layer?.*" if model in STAGES else "bert.encoder.layer.*" if is_text else "blocks.*"
    plan = common.json_of(a.lacuna, "plan", "-c", common.ROOT / f"configs/{'bert_base' if is_text else 'resnet50'}.yaml",
                          *given,
                          f"optimizer={{name: {a.optimizer}, lr: 1e-3}}", f"train.precision={a.precision}",
                          f"train.threads={a.threads}",
                          "memory=" + memory.replace("REGIONS", regions), *overrides)
    return plan["memory"]["peak"] <= a.bytes


def largest(a, model, memory, overrides, step):
    high = 1
    while fits(a, model, memory, overrides(high * step)):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if fits(a, model, memory, overrides(middle * step)):
            low = middle
        else:
            high = middle
    return low * step


def main():
    parser = common.parser(__doc__)
    parser.add_argument("models", nargs="*", default=["resnet50", "resnet152", "vit_base_patch16_224"])
    parser.add_argument("--budget", type=float, default=16, help="GiB")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--threads", type=int, default=2, help="each has memory of its own, which counts")
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    a = parser.parse_args()
    a.bytes = a.budget * 2**30
    print("| model | | " + " | ".join(POLICIES) + " |\n| --- | --- |" + " --- |" * len(POLICIES))
    for model in a.models:
        for name, (overrides, step, shown) in dimensions(model, a.batch).items():
            found = [largest(a, model, memory, overrides, step) for memory in POLICIES.values()]
            print(f"| {model} | {name} | " + " | ".join(f"{shown(n):,}" if n else "none" for n in found) + " |", flush=True)


if __name__ == "__main__":
    main()
