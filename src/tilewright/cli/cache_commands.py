"""`tilewright cache`: what is on disk, why something was compiled again, and tidying up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from tilewright.cache import Entry, Store, current_config
from tilewright.jit import __main__ as warming
from tilewright.jit.cache import Key
from tilewright.jit.explaining import describe_changes

app = typer.Typer(no_args_is_help=True)
Root = Annotated[Path | None, typer.Option("--root", help="Default: the one in use.")]

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DAY = 86_400.0


def _store(root: Path | None, *, readonly: bool = True) -> Store:
    try:
        return Store(root or current_config().directory, readonly=readonly)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _age(seconds: float) -> str:
    for size, unit in ((_DAY, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


@app.command(name="ls")
def list_entries(root: Root = None) -> None:
    """List the entries: kernel, state, size, age, key."""
    store = _store(root)
    entries = list(store.entries())
    if not entries:
        typer.echo(f"no entries under {store.root}")
    for path, entry in entries:
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        size, age = status.st_size, _age(time.time() - status.st_mtime)
        kernel, state = (entry.kernel, entry.state.value) if entry else ("?", "damaged")
        typer.echo(f"{kernel:<24} {state:<9} {size:>9} B {age:>7}  {path.stem[:12]}")


@app.command()
def stats(root: Root = None) -> None:
    """Count the entries and their bytes."""
    for name, value in warming.stat_root(_store(root).root).items():
        typer.echo(f"{name:<10} {value}")


@app.command()
def why(kernel: str, root: Root = None) -> None:
    """Explain why a kernel has several entries: the parts of the key that differ, in time."""
    entries = [e for _, e in _store(root).entries() if e is not None and e.kernel == kernel]
    if not entries:
        typer.echo(f"why: no entry is of kernel {kernel!r}", err=True)
        raise typer.Exit(1)
    ordered = sorted(entries, key=lambda entry: entry.created)
    typer.echo(f"{ordered[0].digest[:12]}  first")
    for before, after in pairwise(ordered):
        typer.echo(f"{after.digest[:12]}  {_difference(before, after)}")


def _difference(before: Entry, after: Entry) -> str:
    changes = describe_changes(_key(before), _key(after))
    return "; ".join(changes) if changes else f"the same key, {after.state.value}"


def _key(entry: Entry) -> Key:
    return Key(entry.parts, entry.details)


@app.command()
def prune(
    max_size: Annotated[str, typer.Option(help="Bytes to keep, such as 512M.")] = "",
    max_age: Annotated[float | None, typer.Option(help="Days since the last use.")] = None,
    root: Root = None,
) -> None:
    """Remove the entries that were not used for longest."""
    limit = _bytes(max_size) if max_size else None
    seconds = None if max_age is None else max_age * _DAY
    removed = _store(root, readonly=False).prune(max_bytes=limit, max_age=seconds)
    typer.echo(f"{len(removed)} removed")


def _bytes(text: str) -> int:
    number, unit = text.rstrip("bB"), 1
    if number and number[-1].lower() in _UNITS:
        unit = _UNITS[number[-1].lower()]
        number = number[:-1]
    try:
        return int(float(number) * unit)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number of bytes such as 512M") from None


@app.command()
def verify(
    root: Root = None,
    fix: Annotated[bool, typer.Option("--fix", help="Remove damaged entries.")] = False,
) -> None:
    """Check every entry."""
    damaged = [path for path, entry in _store(root).entries() if entry is None]
    for path in damaged:
        typer.echo(f"damaged: {path}")
    left = [path for path in damaged if not (fix and _is_removed(path))]
    typer.echo(f"{len(damaged)} damaged")
    raise typer.Exit(1 if left else 0)


def _is_removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        typer.echo(f"not removed: {path} ({error.strerror})", err=True)
        return False
    return True


@app.command()
def warm(
    module: Annotated[str, typer.Option(help="The module that holds the kernels.")],
    config: Annotated[Path, typer.Option(help="The JSON file that lists the requests.")],
) -> None:
    """Compile the kernels that a file lists."""
    arguments = ["warm", "--module", module, "--config", str(config)]
    raise typer.Exit(warming.main(arguments, tracked))


def tracked(plans: Sequence[warming.Plan]) -> Iterable[warming.Plan]:
    """The plans one by one, with a bar on the terminal, if there is one."""
    console = Console(stderr=True)
    return track(plans, "compiling", console=console, disable=not console.is_terminal)
