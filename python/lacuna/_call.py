"""Calls of commands: their words, and what they say while they run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import _core
from ._messages import in_python
from ._progress import Progress

command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lacuna")


def _plain(value: Any) -> Any:
    """Paths, and the numbers and arrays of numpy and torch, which JSON lacks."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value).__name__
    advice = ": save the model, and give model={'from': folder}" if hasattr(value, "save") or hasattr(value, "state_dict") else ""
    raise TypeError(f"expected numbers, texts, lists and dictionaries in a configuration, got {kind}{advice}")


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

    def __init__(
        self,
        progress: bool = False,
        on_step: Callable[[dict[str, Any]], Any] | None = None,
        on_epoch: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.folder = ""
        self.takes_metrics = on_step is not None or on_epoch is not None
        self._progress = Progress() if progress else None
        self._on_step, self._on_epoch = on_step, on_epoch

    def print(self, text: str) -> None:
        if self._progress:
            self._progress.print(in_python(text))

    def warn(self, text: str) -> None:
        sys.stderr.write(in_python(text))

    def show(self, line: str, done: float) -> None:
        if self._progress:
            self._progress.show(line, done)

    def end(self) -> None:
        if self._progress:
            self._progress.show("", 1)

    def begin(self, run: str) -> None:
        self.folder = run

    def metrics(self, line: dict[str, Any]) -> None:
        callback = self._on_epoch if "val_loss" in line else self._on_step
        if callback is not None:
            callback(line)


def _is_key(data: Any) -> bool:
    return data is None or isinstance(data, (str, os.PathLike, Mapping))


class Given:
    """A configuration with changes, and what a command gets beside words: rows of data and a loss."""

    def __init__(self, config: Any, changes: Mapping[str, Any], validation: Any, loss: Any) -> None:
        self.changes, self.config = dict(changes), config
        self.data, self.validation, self.loss = None, validation, loss
        if isinstance(config, Mapping) and not _is_key(config.get("data")):
            self.config = {key: value for key, value in config.items() if key != "data"}
            self.changes.setdefault("data", config["data"])
        if not _is_key(self.changes.get("data")):
            self.data = self.changes.pop("data")
            self.changes = {"data": {"name": "python"}, **self.changes}
            for name, rows in (("data", self.data), ("validation", validation)):
                if rows is not None and not (hasattr(rows, "__getitem__") and hasattr(rows, "__len__")):
                    kind = type(rows).__name__
                    raise _core.Error(
                        f"{name}: expected a sequence of samples, with a length and an item at each index, got {kind}"
                    )
        elif validation is not None:
            raise _core.Error("validation: expected a sequence as data= too")
        if loss is not None:
            if not callable(loss):
                raise _core.Error(f"loss: expected a function of outputs and targets, got {type(loss).__name__}")
            task = self.changes.get("task", {})
            named = self.changes.get("task.name", task.get("name") if isinstance(task, Mapping) else task)
            if named not in (None, "python"):
                raise _core.Error(f"loss: expected no task beside it, got task.name={named}")
            self.changes["task.name"] = "python"

    def words(self) -> list[str]:
        return words_of(self.config, self.changes)


def run(name: str, words: list[str], listener: Listener | None = None, given: Given | None = None) -> tuple[Any, str]:
    """Runs a command in this process. Returns what its `--json` gives, and its text."""
    listener = listener or Listener()
    try:
        if given is None:
            return _core.run([name, *words], listener, command)
        return _core.run([name, *words], listener, command, given.data, given.validation, given.loss)
    except _core.Error as error:
        raise _core.Error(in_python(str(error))) from None
    finally:
        listener.end()
