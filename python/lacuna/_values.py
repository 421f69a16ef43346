"""What the functions return."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
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


class _Figures(Mapping):
    """A mapping that shows the command's text."""

    def __init__(self, figures: dict[str, Any], text: str) -> None:
        self._figures, self._text = figures, text

    def __getitem__(self, key: str) -> Any:
        return self._figures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __str__(self) -> str:
        return self._text


class Plan(_Figures):
    """The memory of training: bytes by purpose (`parameters`, `gradients`, `optimizer`, `saved`, `transient`,
    `workspace`, `data`, and their highest sum, `peak`) as items and as attributes. Each purpose has its own highest.

    `json`: all that `lacuna plan --json` writes, as `saved_by_path` and `peak_in_training`, which counts evaluations
    and batches that are prepared ahead.
    """

    def __init__(self, json: dict[str, Any], text: str) -> None:
        super().__init__(json["memory"], text)
        self.json = json

    def __getattr__(self, name: str) -> int:
        figures = self.__dict__.get("_figures", {})
        if name not in figures:
            raise AttributeError(f"a plan has {', '.join(figures)} and json; got {name}")
        return figures[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._figures]

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={bytes_text(count)}" for name, count in self.items())
        return f"Plan({self.json['model']}, {self.json['policy']}: {inside})"

    def _repr_html_(self) -> str:
        rows = [(name, bytes_text(count)) for name, count in self.items()]
        return html_table((f"{self.json['model']}, batch {self.json['batch_size']}", self.json["policy"]), rows)


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
        return html_table(("module", "tensor", "shape", "bytes", "held", "read in backward by"), rows)


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
            with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    @property
    def history(self) -> list[dict[str, Any]]:
        """A dictionary for each step and, with `val_loss`, for each evaluation (metrics.jsonl)."""
        with open(os.path.join(self.folder, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    @property
    def best(self) -> dict[str, Any] | None:
        """The `metric`, its `value`, and whether `higher_is_better`; None before an evaluation. The weights are in
        `folder/best`."""
        return self.metrics.get("best")

    def __repr__(self) -> str:
        best = self.best
        return f"Run({self.folder!r}" + (f", best {best['metric']} {best['value']:.4g})" if best else ")")

    def _repr_html_(self) -> str:
        evaluations = [line for line in self.history if "val_loss" in line]
        if not evaluations:
            return html.escape(repr(self))
        titles = [key for key, value in evaluations[-1].items() if isinstance(value, (int, float))]
        cells = [[f"{line[key]:.6g}" if key in line else "" for key in titles] for line in evaluations]
        return html_table(titles, cells) + html.escape(repr(self))


class Sweep(_Figures):
    """The results of a sweep: `cases`, each with `overrides`, `status` and `result`, and `best` where a metric
    tells."""

    def __repr__(self) -> str:
        return f"Sweep({self['command']}, {len(self['cases'])} cases)"

    def _repr_html_(self) -> str:
        lines = [line for line in self._text.strip().split("\n\n")[0].splitlines()]
        return f"<pre>{html.escape(chr(10).join(lines))}</pre>"


class Report:
    """A page with curves, memory and tables of runs; a notebook shows it. `path`: its file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Report({self.path!r})"

    def _repr_html_(self) -> str:
        with open(self.path, encoding="utf-8") as file:
            page = html.escape(file.read())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 60em; border: 0"></iframe>'
