"""`python -m tilewright.jit warm --module M --config F` and `stat --root D`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from tilewright.cache import CacheConfig, Store, cache_stats
from tilewright.dtypes import DType
from tilewright.jit._specialize_types import TensorMeta
from tilewright.jit.decorator import JITFunction
from tilewright.runtime.config import (
    BackendType,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    RunConfig,
    RuntimeKind,
)

SCHEMA_VERSION = 1
_ENUMS = {
    "backend_type": BackendType,
    "arch": BackendType,
    "execution_mode": ExecutionMode,
    "memory_planner": MemoryPlanner,
    "strategy": OptimizationStrategy,
    "runtime": RuntimeKind,
}


class BadWarmup(Exception):
    """A warm-up file that cannot be obeyed; the message says which part."""


Plan = tuple[JITFunction, RunConfig, dict[str, Any]]
Track = Callable[[Sequence[Plan]], Iterable[Plan]]


def main(arguments: Sequence[str] | None = None, track: Track = iter) -> int:
    """Runs one command; gives its exit status. `track` may show how far `warm` has come."""
    parser = argparse.ArgumentParser(prog="tilewright.jit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    warm = commands.add_parser("warm", help="compile the kernels that a file lists")
    warm.add_argument("--module", required=True)
    warm.add_argument("--config", required=True, type=Path)
    stat = commands.add_parser("stat", help="count the entries of a cache")
    stat.add_argument("--root", required=True, type=Path)
    given = parser.parse_args(arguments)
    if given.command == "stat":
        print(json.dumps(stat_root(given.root), indent=1))
        return 0
    try:
        report = warm_module(given.module, given.config, track)
    except Exception as error:
        print(f"warm: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report, indent=1))
    return 0


def stat_root(root: Path) -> dict[str, Any]:
    """Counts and bytes of the entries under a root."""
    counts = dict.fromkeys(("ready", "generated", "invalid", "bytes"), 0)
    report: dict[str, Any] = {"root": str(root), **counts}
    for path, entry in Store(root, readonly=True).entries():
        with suppress(FileNotFoundError):  # removed by another process just now
            report["bytes"] += path.stat().st_size
            report["invalid" if entry is None else entry.state.value] += 1
    return report


def warm_module(module: str, path: Path, track: Track = iter) -> dict[str, Any]:
    """Compiles every request of a warm-up file; the whole file is checked before any of it.

    Raises BadWarmup, and what compiling raises.
    """
    sys.path.insert(0, "")
    data = _read_json(path)
    plans = read_plans(_import(module), data)
    for kernel, config, samples in track(plans):
        kernel.warmup(config=config, **samples)
    counts = cache_stats()
    return {
        "requests": len(plans),
        "ready_hits": counts.ready_hits,
        "misses": counts.misses,
        "binary_builds": counts.binary_builds,
    }


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadWarmup(f"{path} is not JSON: {error}") from None


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise BadWarmup(
            f"{module!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def read_plans(module: Any, data: Any) -> list[Plan]:
    """The requests of a warm-up file; raises BadWarmup naming the first wrong one."""
    file = _record("the file", data, ("schema_version", "cache", "requests"))
    version = file.get("schema_version")
    if version != SCHEMA_VERSION:
        raise BadWarmup(f"schema_version must be {SCHEMA_VERSION}, not {version}")
    cache = _policy(file.get("cache", {}))
    plans: list[Plan] = []
    requests = file.get("requests", [])
    if not isinstance(requests, list):
        raise BadWarmup(f"requests is {requests!r}, not a list")
    for number, request in enumerate(cast("list[Any]", requests)):
        try:
            plans.append(_plan(module, request, cache))
        except KeyError as error:
            raise BadWarmup(f"request {number}: {error} is missing or unknown") from error
        except (TypeError, ValueError, BadWarmup) as error:
            raise BadWarmup(f"request {number}: {error}") from error
    return plans


def _policy(given: Any) -> CacheConfig:
    record = _record("cache", given, [field.name for field in fields(CacheConfig)])
    chosen: dict[str, Any] = {"enabled": True, **record}
    policy = CacheConfig(**chosen)
    if not isinstance(policy.root, str | None):
        raise BadWarmup(f"cache: root is {policy.root!r}, not a path")
    return policy


def _record(what: str, given: Any, names: Sequence[str] = ()) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise BadWarmup(f"{what} is {given!r}, not an object with names")
    record = cast("Mapping[str, Any]", given)
    for name in record if names else ():
        if name not in names:
            raise BadWarmup(f"{what} has an unknown name {name!r}; known are {', '.join(names)}")
    return record


def _part(request: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _record(name, request.get(name, {}))


def _plan(module: Any, given: Any, cache: CacheConfig) -> Plan:
    request = _record("it", given, ("kernel", "run_config", "tensors", "scalars"))
    kernel = getattr(module, request["kernel"], None)
    if not isinstance(kernel, JITFunction):
        raise ValueError(f"{module.__name__} has no kernel '{request['kernel']}'")
    names = [field.name for field in fields(RunConfig) if field.name != "cache_config"]
    chosen = _record("run_config", request.get("run_config", {}), names)
    options = {name: _option(name, value) for name, value in chosen.items()}
    config = RunConfig(**options, cache_config=cache)
    tensors = _part(request, "tensors").items()
    samples = {name: _meta(_record(name, spec)) for name, spec in tensors}
    arguments = {**samples, **_part(request, "scalars")}
    kernel.key(config=config, **arguments)
    return kernel, config, arguments


def _option(name: str, value: Any) -> Any:
    if name not in _ENUMS or not isinstance(value, str):
        return value
    members = _ENUMS[name].__members__
    if value not in members:
        raise BadWarmup(f"run_config: {name} is {value!r}; {', '.join(members)} are accepted")
    return members[value]


def _meta(spec: Mapping[str, Any]) -> TensorMeta:
    name, shape = str(spec["dtype"]), tuple(spec["shape"])
    try:
        return TensorMeta(shape, DType.from_library_name(name))
    except KeyError:
        raise ValueError(f"{name!r} is no element type of the language") from None


if __name__ == "__main__":
    sys.exit(main())
