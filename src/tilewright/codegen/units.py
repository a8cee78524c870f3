"""Micro-kernels apart from the kernel that calls them, so that each is compiled once.

What a micro-kernel does is in its text alone: other kernels with the same one get the same object.
"""

from __future__ import annotations

import re

LEAST_LINES = 64
"""An object of its own costs as much time as some forty lines; shorter functions stay."""

MICRO_KERNEL = re.compile(
    r"^define internal (?P<head>fastcc \S+ (?P<name>@[\w.]+)\((?P<parameters>[^\n]*)\) #1) \{\n"
    r"(?P<body>.*?)^\}\n",
    re.MULTILINE | re.DOTALL,
)
OTHERS = re.compile(r"@(?!llvm\.)")
NAME = re.compile(r" %[\w.]+")


def split_units(text: str) -> tuple[str, list[str]]:
    """The text of a module without its long micro-kernels, and the text of each of those.

    A micro-kernel is a helper (attributes #1) that calls no other function of the module.
    """
    units: list[str] = []
    tail = text[text.find("\nattributes #0") :]

    def replace(match: re.Match[str]) -> str:
        if match["body"].count("\n") < LEAST_LINES or OTHERS.search(match["body"]):
            return match[0]
        units.append(f"define hidden {match['head']} {{\n{match['body']}}}\n{tail}")
        kinds = NAME.sub("", match["parameters"])
        return f"declare hidden {match['head'].replace(match['parameters'], kinds)}\n"

    return MICRO_KERNEL.sub(replace, text), units
