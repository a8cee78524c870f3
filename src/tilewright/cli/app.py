"""The commands and their options."""

from __future__ import annotations

import importlib.metadata
import os
import runpy
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import cache_commands, doctoring, pages, show
from tilewright.errors.authored import text_for_author
from tilewright.errors.terminal import install_excepthook

app = typer.Typer(
    help="Tile kernels in Python, compiled natively.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cache_commands.app, name="cache", help="Look at the kernels kept on disk.")
Source = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="A Python file.")
]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {importlib.metadata.version('tilewright')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Tile kernels in Python, compiled natively."""
    del version


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    file: Source,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run the interpreter beside compiled kernels.")
    ] = False,
) -> None:
    """Run a Python file, with the arguments that follow it.

    Errors of its kernels are shown at the author's lines. With --compare every launch is run by the
    interpreter, too; the first operation that differs is shown.
    """
    install_excepthook()
    if compare:
        os.environ["TILEWRIGHT_COMPARE"] = "1"
    sys.argv = [str(file), *context.args]
    sys.path.insert(0, str(file.parent.absolute()))
    with _authors_errors():
        runpy.run_path(str(file), run_name="__main__")


@app.command(name="show")
def show_command(
    file: Source,
    kernel: Annotated[str, typer.Option(help="Only what has this name.")] = "",
    after: Annotated[str, typer.Option(help="The program as this pass gives it.")] = "",
    level: Annotated[str, typer.Option(help="'tile' or 'loop'.")] = "tile",
    llvm: Annotated[bool, typer.Option("--llvm", help="The text LLVM compiles.")] = False,
    assembly: Annotated[bool, typer.Option("--asm", help="The machine code.")] = False,
    source: Annotated[bool, typer.Option("--source", help="The specialized source.")] = False,
    timings: Annotated[bool, typer.Option("--timings", help="Where compile time goes.")] = False,
    fit: Annotated[str, typer.Option(help="What the tiles take of this device's memories.")] = "",
) -> None:
    """Show the programs of a file at one station of their journey."""
    wish = show.Wish(after, level, llvm, assembly, source, timings, fit)
    with _authors_errors():
        try:
            for text in show.shown_programs(file, kernel, wish):
                show.write_code(text, "llvm" if llvm else "text" if fit else "python")
        except show.NothingToShow as reason:
            typer.echo(f"show: {reason}", err=True)
            raise typer.Exit(1) from None


@app.command()
def ops(name: Annotated[str, typer.Argument(help="A name, or a part of one.")] = "") -> None:
    """List operations, or show the page of one."""
    _echo_found("ops", name, pages.find_pages(name))


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="A class or code, or a part of one.")] = "",
) -> None:
    """List errors, or show the page of one: its cause, a bad and a good kernel."""
    _echo_found("explain", name, pages.find_errors(name))


@app.command()
def doctor() -> None:
    """Say what this machine can do and which settings are in force."""
    healthy = True
    for finding in doctoring.examine():
        healthy = healthy and finding.is_fine
        typer.echo(str(finding))
    raise typer.Exit(0 if healthy else 1)


def _echo_found(command: str, name: str, lines: list[str]) -> None:
    if not lines:
        typer.echo(f"{command}: nothing is called {name!r}", err=True)
        raise typer.Exit(1)
    for line in lines:
        typer.echo(line)


@contextmanager
def _authors_errors() -> Generator[None]:
    """Shows what goes wrong while a file runs as its author would see it."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as error:
        typer.echo(text_for_author(error), err=True)
        raise typer.Exit(1) from None
