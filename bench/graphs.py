#!/usr/bin/env python3
"""A full-batch training step of GCN and GAT at ogbn-arxiv's size, Lacuna against PyTorch Geometric, in f32.

    graphs.py [--python PYTHON] [--rounds 1] [--json FILE] [gcn] [gat]

Three layers, 256 wide (GAT: 4 heads of 64), batch norm, dropout. PYTHON has torch and torch_geometric (bench/peers/graphs.py).
One process a measurement, by turns, nothing else running; medians over the rounds of each run's median step.
"""
import statistics
import sys

import common
from compare import LINE

PEER = common.ROOT / "bench/peers/graphs.py"
SETTINGS = {"gcn": ["model={name: gcn, library: pyg, hidden: 256, layers: 3}"],
            "gat": ["model={name: gat, library: pyg, hidden: 64, heads: 4, layers: 3}"]}


def main():
    parser = common.parser(__doc__)
    parser.add_argument("models", nargs="*", default=list(SETTINGS))
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    a = parser.parse_args()
    results = {}
    for model in a.models:
        ours, theirs = [], []
        for _ in range(a.rounds):
            got = common.json_of(a.lacuna, "bench", *SETTINGS[model], f"train.threads={a.threads}", "optimizer.name=adam",
                                 "--steps", a.steps)
            ours.append({"seconds": got["step_seconds"]["median"], "saved": got["memory"]["saved"] / 2**20,
                         "peak": got["process_peak"] / 2**20})
            _, median, kept, peak = common.printed_by(LINE, a.python, PEER, model, "--threads", a.threads, "--steps", a.steps)
            theirs.append({"seconds": 1 / median, "saved": kept, "peak": peak})
        ours, theirs = ({key: statistics.median(run[key] for run in runs) for key in runs[0]} for runs in (ours, theirs))
        print(f"{model}: seconds a step, PyG {theirs['seconds']:.2f}, Lacuna {ours['seconds']:.2f}: "
              f"{theirs['seconds'] / ours['seconds']:.2f} x; saved MiB {theirs['saved']:.0f} / {ours['saved']:.0f}; "
              f"peak MiB {theirs['peak']:.0f} / {ours['peak']:.0f}", flush=True)
        results[model] = {"lacuna": ours, "pyg": theirs}
    if a.json:
        common.write_json(a.json, results)


main()
