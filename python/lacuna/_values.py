"""Results of the functions. Notebooks show them as tables and as the pages of `lacuna report`."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from typing import Any


def bytes_text(count: float) -> str:
    """As `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def html_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(titles, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def html_page(page: str) -> str:
    """A page within a notebook's output, as high as it is up to a screen."""
    fit = "this.style.height = Math.min(this.contentDocument.documentElement.scrollHeight + 8, 1200) + 'px'"
    style = "width: 100%; height: 600px; border: 0"
    return f'<iframe srcdoc="{html.escape(page)}" style="{style}" onload="{fit}"></iframe>'


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class _Figures(dict[str, Any]):
    """Figures by name; as text they are what the command prints."""

    def __init__(self, figures: dict[str, Any], text: str) -> None:
        super().__init__(figures)
        self._text = text

    def __str__(self) -> str:
        return self._text


class Plan(_Figures):
    """The memory of training, in bytes by purpose, as items and as attributes. Each purpose is at its own highest;
    `peak` is their highest sum in a step.

    `json` holds all that `lacuna plan --json` writes, as `saved_by_path` and `peak_in_training`, which counts
    evaluations and batches that are prepared ahead.
    """

    parameters: int
    gradients: int
    optimizer: int
    saved: int
    transient: int
    workspace: int
    data: int
    peak: int

    def __init__(self, json: dict[str, Any], text: str, page: str = "") -> None:
        super().__init__(json["memory"], text)
        self.json, self._page = json, page

    def __getattr__(self, name: str) -> int:
        if name not in self:
            raise AttributeError(f"a plan has {', '.join(self)} and json, got {name}")
        bytes_: int = self[name]
        return bytes_

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    @property
    def title(self) -> str:
        """The policy, with its bits or budget where plans are compared."""
        return str(self.json.get("choice", self.json["policy"]))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={bytes_text(count)}" for name, count in self.items())
        return f"Plan({self.json['model']}, {self.title}: {inside})"

    def _repr_html_(self) -> str:
        return _html_of_plans([self], self._page)


class Plans(list[Plan]):
    """Plans under several policies, side by side."""

    def __init__(self, plans: Sequence[Plan], text: str, page: str = "") -> None:
        super().__init__(plans)
        self._text, self._page = text, page

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return _html_of_plans(self, self._page)


def _html_of_plans(plans: Sequence[Plan], page: str) -> str:
    titles = [f"{plans[0].json['model']}, batch {plans[0].json['batch_size']}", *(plan.title for plan in plans)]
    rows = [[name, *(bytes_text(plan[name]) for plan in plans)] for name in plans[0]]
    return html_table(titles, rows) + (html_page(page) if page else "")


class Explanation(_Figures):
    """The tensors that backward needs: `slots` is a list of dictionaries with `path`, `op`, `shape`, `bytes`, how the
    tensor is `held`, and its `users`; `saved` is their sum in bytes."""

    def __repr__(self) -> str:
        return f"Explanation({self['model']}, {self['policy']}: {bytes_text(self['saved'])} saved)"

    def _repr_html_(self) -> str:
        rows = [
            (slot["path"], slot["slot"], slot["shape"], bytes_text(slot["bytes"]), slot["held"],
             "; ".join(f"{user['op']} {user['path']} ({user['need']})" for user in slot["users"]))
            for slot in self["slots"]
        ]  # fmt: skip
        table = html_table(("module", "tensor", "shape", "bytes", "held", "read in backward by"), rows)
        return f"{html.escape(repr(self))}<div style='max-height: 40em; overflow: auto'>{table}</div>"


class Evaluation(_Figures):
    """Figures of an evaluation: `val_loss`, metrics as `val_accuracy`, `samples`, `samples_per_second`, bytes at the
    peak (`evaluation_peak`)."""

    def __repr__(self) -> str:
        figures = ", ".join(f"{key}={value:.4g}" for key, value in self.items() if key.startswith("val_"))
        return f"Evaluation({self['model']}: {figures})"

    def _repr_html_(self) -> str:
        shown = [(key, value) for key, value in self.items() if key.startswith("val_") or key == "samples"]
        rows = [(key, f"{value:.6g}") for key, value in shown]
        rows.append(("evaluation_peak", bytes_text(self["evaluation_peak"])))
        return (
            html_table((self["model"], self["weights"]), rows)
            + f"<details><summary>as text</summary><pre>{html.escape(str(self))}</pre></details>"
        )


class Run:
    """A training run in a folder. Where a function expects a model or a run, it takes this too."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)

    def __fspath__(self) -> str:
        return self.folder

    @property
    def metrics(self) -> dict[str, Any]:
        """The figures of the whole run (summary.json); empty while it trains."""
        try:
            figures: dict[str, Any] = json.loads(_read(os.path.join(self.folder, "summary.json")))
        except FileNotFoundError:
            return {}
        return figures

    @property
    def history(self) -> list[dict[str, Any]]:
        """A dictionary for each step and, with `val_loss`, for each evaluation (metrics.jsonl). Raises
        FileNotFoundError where the folder holds no run."""
        lines = _read(os.path.join(self.folder, "metrics.jsonl")).split("\n")
        return [json.loads(line) for line in lines if line]

    @property
    def best(self) -> dict[str, Any] | None:
        """The `metric`, its `value`, and whether `higher_is_better`; None before an evaluation. The weights are in
        `folder/best`."""
        return self.metrics.get("best")

    def __repr__(self) -> str:
        best = self.best
        return f"Run({self.folder!r}" + (f", best {best['metric']} {best['value']:.4g})" if best else ")")

    def _repr_html_(self) -> str:
        from ._commands import page_of_runs

        if not os.path.exists(os.path.join(self.folder, "metrics.jsonl")):
            return html.escape(repr(self))
        evaluations = [line for line in self.history if "val_loss" in line]
        last = evaluations[-1] if evaluations else {}
        titles = [key for key, value in last.items() if isinstance(value, (int, float))]
        cells = [[f"{line[key]:.6g}" if key in line else "" for key in titles] for line in evaluations]
        table = html_table(titles, cells) if evaluations else ""
        return html.escape(repr(self)) + table + html_page(page_of_runs([self]))


class Sweep(_Figures):
    """The results of a sweep: `cases`, each with `overrides`, `status` and `result`, and `best` where a metric tells.
    `folder` holds sweep.html, sweep.csv and the runs."""

    def __init__(self, figures: dict[str, Any], text: str, folder: str) -> None:
        super().__init__(figures, text)
        self.folder = folder

    def __repr__(self) -> str:
        return f"Sweep({self['command']}, {len(self['cases'])} cases)"

    def _repr_html_(self) -> str:
        return html_page(_read(os.path.join(self.folder, "sweep.html")))


class Report:
    """A page with curves, memory and tables of runs; a notebook shows it. `path`: its file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Report({self.path!r})"

    def _repr_html_(self) -> str:
        return html_page(_read(self.path))
