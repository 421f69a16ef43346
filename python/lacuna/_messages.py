"""Messages of the command in words of Python: its options are arguments here."""

from __future__ import annotations

import json
import re
import shlex

_names = {"eval": "evaluate"}
_call = re.compile(r"`lacuna (train|eval|predict|generate|export|sweep|report|plan|explain)((?: [^`]*)?)`")
_option = re.compile(r"(?<![\w`/-])--([a-z][a-z-]+)(?![\w/]|\.\w)")


def _literal(value: str) -> str:
    """A value of the command line in Python: JSON, or text."""
    try:
        return repr(json.loads(value, parse_constant=str))
    except ValueError:
        return repr(value)


def _in_python(match: re.Match[str]) -> str:
    name = _names.get(match[1], match[1])
    try:
        words = shlex.split(match[2])
    except ValueError:
        return match[0]
    if words == ["--help"]:
        return f"`help(lacuna.{name})`"
    arguments, option = [], ""
    for word in words:
        if word.startswith("--"):
            if option:
                arguments.append(f"{option}=True")
            option = word[2:].replace("-", "_")
        elif option:
            arguments.append(f"{option}={_literal(word)}")
            option = ""
        elif word.split("=")[0].isidentifier() and "=" in word:
            key, value = word.split("=", 1)
            arguments.append(f"{key}={_literal(value)}")
        elif "=" in word:
            key, value = word.split("=", 1)
            arguments.append(f"**{{{key!r}: {_literal(value)}}}")
        else:
            arguments.append(repr(word))
    if option:
        arguments.append(f"{option}=True")
    return f"`lacuna.{name}({', '.join(arguments)})`" if arguments else f"`lacuna.{name}`"


def in_python(text: str) -> str:
    """
    >>> in_python("`lacuna train --resume runs/a data.broken=skip` goes on")
    "`lacuna.train(resume='runs/a', **{'data.broken': 'skip'})` goes on"
    >>> in_python("--max-length is for texts")
    'max_length= is for texts'
    """
    text = _call.sub(_in_python, text.removeprefix("command line: "))
    return _option.sub(lambda match: match[1].replace("-", "_") + "=", text.replace("-c CONFIG", "a configuration"))
