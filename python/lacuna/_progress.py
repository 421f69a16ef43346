"""Progress of a command: a bar in a notebook, a line that is written over on a terminal, plain lines elsewhere."""

from __future__ import annotations

import html
import sys
from typing import Any


def _notebook_display() -> Any:
    """IPython's `display` in a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


class Progress:
    def __init__(self) -> None:
        self._display = _notebook_display()
        self._handle: Any = None
        self._live = self._display is None and sys.stdout.isatty()
        self._pending = False

    def print(self, text: str) -> None:
        """Takes text that stays."""
        self._clear()
        sys.stdout.write(text)
        sys.stdout.flush()

    def show(self, line: str, done: float) -> None:
        """Takes the line that replaces the last one; empty: it goes away. `done`: the share that is done."""
        if not line:
            return self._clear()
        if self._display:
            bar = f'<progress value="{done:.4f}" style="width: 16em"></progress>'
            shown = _Html(f"{bar} <code>{html.escape(line)}</code>")
            if self._handle is None:
                self._handle = self._display(shown, display_id=True)
            else:
                self._handle.update(shown)
        elif self._live:
            filled = round(10 * done)
            sys.stdout.write(f"\r\x1b[K[{'#' * filled}{' ' * (10 - filled)}] {line}")
            sys.stdout.flush()
            self._pending = True

    def _clear(self) -> None:
        if self._pending:
            sys.stdout.write("\r\x1b[K")
        self._pending = False


class _Html:
    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text
