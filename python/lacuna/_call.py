"""Calls of commands: their words, and what they say while they run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import _core
from ._progress import Progress

command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lacuna")


def _plain(value: Any) -> Any:
    """What JSON lacks: paths, and the numbers of numpy and torch."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"expected numbers, texts, lists and dictionaries in a configuration, got {type(value).__name__}")


def word(key: str, value: Any) -> str:
    """`key=value` of the command line; JSON is YAML."""
    return f"{key}={json.dumps(value, ensure_ascii=False, default=_plain)}"


def words_of(config: Any, changes: Mapping[str, Any]) -> list[str]:
    """A configuration (a path, a dictionary or YAML text) and changes as words of the command line."""
    changed = [word(key, value) for key, value in changes.items()]
    if config is None:
        return changed
    if isinstance(config, Mapping):
        return [word(key, value) for key, value in config.items()] + changed
    if isinstance(config, str) and ("\n" in config or ": " in config):
        return _core.words_of_yaml(config) + changed
    return ["-c", os.fspath(config), *changed]


class Listener:
    """Takes what a command says. The extension calls its methods; `metrics` gets each line of metrics.jsonl."""

    def __init__(self, progress: bool = False, on_step: Callable | None = None, on_epoch: Callable | None = None):
        self.folder = ""
        self._progress = Progress() if progress else None
        self._on_step, self._on_epoch = on_step, on_epoch

    def print(self, text: str) -> None:
        if self._progress:
            self._progress.print(text)

    def warn(self, text: str) -> None:
        sys.stderr.write(text)

    def show(self, line: str, done: float) -> None:
        if self._progress:
            self._progress.show(line, done)

    def begin(self, run: str) -> None:
        self.folder = run

    def metrics(self, line: dict[str, Any]) -> None:
        callback = self._on_epoch if "val_loss" in line else self._on_step
        if callback is not None:
            callback(line)


class Given:
    """What a command gets beside its words: rows of data and a loss."""

    def __init__(self, changes: Mapping[str, Any], validation: Any, loss: Any) -> None:
        self.changes = dict(changes)
        data = self.changes.get("data")
        self.data = None
        if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (str, Mapping)):
            self.data = self.changes.pop("data")
            self.changes = {"data": {"name": "python"}, **self.changes}
        elif validation is not None:
            raise _core.Error("validation: expected a sequence as data= too")
        self.validation, self.loss = validation, loss
        if loss is not None:
            self.changes["task.name"] = "python"


def run(name: str, words: list[str], listener: Listener | None = None, given: Given | None = None) -> tuple[Any, str]:
    """Runs a command in this process. Returns what its `--json` gives, and its text."""
    listener = listener or Listener()
    if given is None:
        return _core.run([name, *words], listener, command)
    return _core.run([name, *words], listener, command, given.data, given.validation, given.loss)
