#!/usr/bin/env python3
"""Speed against saved bytes: the policy `auto` and PyTorch's planner (torch.compile with an activation memory budget).

    budget.py --peer PEER.py [--python PYTHON] [--rounds 3] [--json FILE] [--svg FILE]

PEER.py, run by PYTHON (which has torch and timm), is PyTorch's side. `PEER.py BUDGET` trains timm's deit_small_patch16_224 at
batch 8 under torch.compile, in f32, on 2 threads, with BUDGET, from 0 to 1, as the activation memory budget, and prints one
line with `kept X MiB, Y samples/s` in it: X the storages that autograd holds between forward and backward, each once,
parameters and buffers left out, the batch not; Y by the fastest step. At each part Lacuna gets as many bytes as that part of
PyTorch's whole (`budget_of: saved`), the batch included on both sides; once with exact means alone (deriving, recomputing)
and once with codes. One process a measurement, by turns, nothing else running; samples/s of the fastest step, medians over
the rounds.
"""
import json
import pathlib
import statistics
import sys

import common

PARTS = [1.0, 0.57, 0.30, 0.11, 0.05]
MODEL = common.MODELS["deit_small"]


def peer(a, part):
    kept, speed = common.printed_by(r"kept ([\d.]+) MiB, ([\d.]+) samples/s", a.python, a.peer, part)
    return {"saved": kept * 2**20, "speed": speed}


def own(a, budget, codes):
    """None where no plan fits."""
    memory = f"{{policy: auto, budget: {int(budget)}B, budget_of: saved, codes: {'true' if codes else 'false'}}}"
    done = common.attempt(a.lacuna, "bench", *common.configured(MODEL.configuration, MODEL.batch, a.threads),
                          f"memory={memory}", "--steps", a.steps, "--json", "-")
    if done.returncode == 2 and "do not suffice" in done.stderr:
        return None
    result = json.loads(common.output_of(done))
    return {"saved": result["memory"]["saved"], "speed": MODEL.batch / result["step_seconds"]["min"]}


def median(runs):
    runs = [one for one in runs if one is not None]
    return {key: statistics.median(one[key] for one in runs) for key in runs[0]} if runs else None


COLOURS = {"PyTorch's planner": "#888888", "Lacuna, exact": "#1f5fa8", "Lacuna, codes": "#c0392b"}


def svg(curves):
    """Samples/s over saved MiB, a line a curve."""
    width, height, left, bottom = 640, 400, 60, 50
    points = [point for curve in curves.values() for point in curve if point]
    most = max(point["saved"] for point in points) / 2**20 * 1.05
    fastest = max(point["speed"] for point in points) * 1.1

    def place(point):
        x = left + (width - left - 20) * point["saved"] / 2**20 / most
        return x, height - bottom - (height - bottom - 20) * point["speed"] / fastest

    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for i in range(5):
        x, _ = place({"saved": most * i / 4 * 2**20, "speed": 0})
        _, y = place({"saved": 0, "speed": fastest * i / 4})
        text += [f'<text x="{x:.0f}" y="{height - bottom + 16}" text-anchor="middle">{most * i / 4:.0f}</text>',
                 f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{fastest * i / 4:.1f}</text>',
                 f'<line x1="{left}" x2="{width - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dddddd"/>']
    text += [f'<text x="{(width + left) / 2:.0f}" y="{height - 12}" text-anchor="middle">saved for backward, MiB</text>',
             f'<text transform="translate(14 {height / 2:.0f}) rotate(-90)" text-anchor="middle">samples/s</text>']
    for number, (name, curve) in enumerate(curves.items()):
        places = [place(point) for point in curve if point]
        text.append(f'<polyline fill="none" stroke="{COLOURS[name]}" stroke-width="2" points="'
                    + " ".join(f"{x:.1f},{y:.1f}" for x, y in places) + '"/>')
        text += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[name]}"/>' for x, y in places]
        y = height - bottom - 20 - 18 * (len(curves) - 1 - number)
        text.append(f'<circle cx="{width - 190}" cy="{y - 4}" r="3.5" fill="{COLOURS[name]}"/>'
                    f'<text x="{width - 180}" y="{y}">{name}</text>')
    return "\n".join(text + ["</svg>"]) + "\n"


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lacuna", default=common.ROOT / "build/release/bin/lacuna")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--svg")
    a = parser.parse_args()
    runs = {name: {part: [] for part in PARTS} for name in COLOURS}
    for _ in range(a.rounds):
        whole = None
        for part in PARTS:
            theirs = peer(a, part)
            whole = whole or theirs["saved"]
            for name, found in zip(COLOURS, (theirs, own(a, whole * part, False), own(a, whole * part, True))):
                runs[name][part].append(found)
    curves = {name: [median(runs[name][part]) for part in PARTS] for name in COLOURS}
    print("| part of PyTorch's bytes | " + " | ".join(f"{name}: MiB | samples/s" for name in COLOURS) + " |")
    print("| --- |" + " --- | --- |" * len(COLOURS))
    for i, part in enumerate(PARTS):
        cells = [curve[i] for curve in curves.values()]
        print(f"| {100 * part:.0f} % | "
              + " | ".join(f"{one['saved'] / 2**20:.1f} | {one['speed']:.2f}" if one else "none fits | " for one in cells)
              + " |")
    if a.json:
        common.write_json(a.json, {"rounds": a.rounds, "steps": a.steps, "parts": PARTS, "curves": curves, "runs": runs})
    if a.svg:
        pathlib.Path(a.svg).write_text(svg(curves))


if __name__ == "__main__":
    main()
