"""Progress of a command: a bar in a notebook, a line that is written over on a terminal, plain lines elsewhere."""

from __future__ import annotations

import html
import sys
from typing import Any


def in_notebook() -> bool:
    """Whether outputs are shown as HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


class Html:
    """Text that a notebook shows as HTML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


class Progress:
    def __init__(self) -> None:
        self._in_notebook = in_notebook()
        self._handle: Any = None  # of the bar in a notebook
        self._live = not self._in_notebook and sys.stdout.isatty()
        self._pending = False

    def print(self, text: str) -> None:
        """Takes text that stays."""
        if self._pending:
            self._write("\r\x1b[K")
            self._pending = False
        self._write(text)

    def show(self, line: str, done: float) -> None:
        """Takes the line that replaces the last one; empty: it goes away. `done`: the share that is done."""
        if self._in_notebook:
            bar = f'<progress value="{done:.4f}" style="width: 16em"></progress>' if line else ""
            self._show_html(f"{bar} <code>{html.escape(line)}</code>" if line else "")
        elif self._live and line:
            filled = round(10 * done)
            self._write(f"\r\x1b[K[{'#' * filled}{' ' * (10 - filled)}] {line}")
            self._pending = True
        elif self._pending:
            self.print("")

    def _show_html(self, text: str) -> None:
        if self._handle is not None:
            self._handle.update(Html(text))
        elif text:
            self._handle = sys.modules["IPython"].display.display(Html(text), display_id=True)

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
