"""The commands and their options."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import cache_commands, doctoring, pages, show
from tilewright.errors import TilewrightError, render
from tilewright.errors.terminal import install_excepthook, wants_color

app = typer.Typer(
    help="Tile kernels in Python, compiled natively.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cache_commands.app, name="cache", help="Look at the kernels kept on disk.")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(context: typer.Context, file: Path) -> None:
    """Run a Python file; errors of its kernels are shown at the author's lines."""
    install_excepthook()
    sys.argv = [str(file), *context.args]
    sys.path.insert(0, str(file.parent.absolute()))
    try:
        runpy.run_path(str(file), run_name="__main__")
    except TilewrightError as error:
        _fail(error)


@app.command(name="show")
def show_command(
    file: Path,
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
    try:
        for text in show.shown_programs(file, kernel, wish):
            show.write_code(text, "llvm" if llvm else "text" if fit else "python")
    except show.NothingToShow as reason:
        typer.echo(f"show: {reason}", err=True)
        raise typer.Exit(1) from None
    except TilewrightError as error:
        _fail(error)


@app.command()
def ops(name: Annotated[str, typer.Argument(help="A name, or a part of one.")] = "") -> None:
    """List operations, or show the page of one."""
    lines = pages.find_pages(name)
    if not lines:
        typer.echo(f"ops: nothing is called {name!r}", err=True)
        raise typer.Exit(1)
    for line in lines:
        typer.echo(line)


@app.command()
def doctor() -> None:
    """Say what this machine can do and which settings are in force."""
    healthy = True
    for finding in doctoring.examine():
        healthy = healthy and finding.is_fine
        typer.echo(str(finding))
    raise typer.Exit(0 if healthy else 1)


def _fail(error: TilewrightError) -> None:
    typer.echo(render(error, color=wants_color(sys.stderr)), err=True)
    raise typer.Exit(1)
