"""The part of the stub that shares the cells of a loop among threads.

A launch publishes its loop under a new epoch, then everybody, the caller included, takes chunks of
cells from one word, `ticket`, that holds epoch and next cell together: a worker that wakes up late
can take nothing from a later launch by mistake. A chunk is a part of what is left: few are taken,
and the last ones are small, so that all threads end at about the same time. The caller returns when
every cell is done, not when every worker is, so a sleeping worker delays nobody. Chunks are handed
out in order, and a failing chunk ends the handing out; so the failure with the lowest cell is
always found, and it is the one reported.
"""

from __future__ import annotations

from tilewright.abi import CTX, FAULT_VALUES
from tilewright.runtime.assembler import Flag, Function, Label, Module, Word
from tilewright.runtime.records import MAX_CELLS, POOL

_SYS_FUTEX, _FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 202, 128, 129
_EVERYBODY = 0x7FFF_FFFF
_CELL_BITS = (1 << 32) - 1
_PARTS_PER_THREAD = 2
"""Of what is left; a chunk is one of them."""
_MOST_PER_THREAD = 32
"""Parts of all cells; a chunk is one of them at least."""
_PATIENCE = 4096  # pauses before the waiting caller offers its processor to others


def write_pool(module: Module) -> None:
    """Add `tilewright_parallel`, `tilewright_worker` and `tilewright_stop` to the module."""
    take = _write_take(module, _write_record(module))
    _write_parallel(module, take)
    _write_worker(module, take)
    _write_stop(module)


def _write_parallel(module: Module, take: Function) -> None:
    """parallel(context, body, env, cells): the status of the cells [0, cells) of a loop."""
    f = module.function("tilewright_parallel", 4, result="i32")
    context, body, env, cells = f.parameters
    serial = f.label("serial")
    pool = f.load(context, CTX["pool"].offset)
    f.require((pool != 0) & (cells > 1) & (cells < MAX_CELLS), serial)
    workers = f.atomic_load(pool, POOL["workers"])
    f.require(workers > 0, serial)
    f.require(f.compare_swap(pool, 0, 1, POOL["busy"]), serial)
    _publish(f, pool, context, workers)
    epoch = f.atomic_load(pool, POOL["epoch"]) + 1
    f.atomic_store(pool, epoch << 32, POOL["ticket"])
    f.atomic_swap(pool, epoch, POOL["epoch"])
    with f.when(f.atomic_add(pool, 0, POOL["sleepers"]) > 0):
        _wake(f, pool)
    f.call_function(take, pool, context, epoch)
    _wait_for_cells(f, pool, context, cells)
    status = f.atomic_load(pool, POOL["status"])
    with f.when(status != 0):
        _copy_fault(f, pool, POOL["fault"], context, CTX["fault_code"].offset)
    f.atomic_store(pool, 0, POOL["busy"])
    f.ret(status)
    f.place(serial)
    f.ret(f.call_pointer(body, env, context, 0, cells, result="i32"))


def _publish(f: Function, pool: Word, context: Word, workers: Word) -> None:
    _, body, env, cells = f.parameters
    threads = workers + 1
    for name, value in (
        ("body", body),
        ("env", env),
        ("cells", cells),
        ("parts", threads * _PARTS_PER_THREAD),
        ("least", cells // (threads * _MOST_PER_THREAD) + 1),
        ("caller", context),
        ("done", 0),
        ("status", 0),
        ("first", MAX_CELLS),
    ):
        f.atomic_store(pool, value, POOL[name])


def _wake(f: Function, pool: Word) -> None:
    f.call("syscall", _SYS_FUTEX, pool, _FUTEX_WAKE_PRIVATE, _EVERYBODY, 0, 0, 0)


def _wait_for_cells(f: Function, pool: Word, context: Word, cells: Word) -> None:
    attend = f.load(context, CTX["attend"].offset)
    waited = f.variable(0)
    with f.forever() as leave:
        _leave_if(f, f.atomic_load(pool, POOL["done"]) == cells, leave)
        f.pause()
        waited.set(waited.get() + 1)
        with f.when((waited.get() & (_PATIENCE - 1)) == 0):
            f.call("sched_yield", result="i32")
            f.call_pointer(attend, context, result="i32")


def _leave_if(f: Function, condition: Flag, leave: Label) -> None:
    with f.when(condition):
        f.jump(leave)


def _write_take(module: Module, record: Function) -> Function:
    """take(pool, context, epoch): run chunks of this epoch until there are none."""
    f = module.function("tilewright_take", 3, result="void", exported=False)
    pool, context, epoch = f.parameters
    body, env = f.atomic_load(pool, POOL["body"]), f.atomic_load(pool, POOL["env"])
    cells, parts = f.atomic_load(pool, POOL["cells"]), f.atomic_load(pool, POOL["parts"])
    least = f.atomic_load(pool, POOL["least"])
    caller = f.atomic_load(pool, POOL["caller"])
    with f.forever() as leave:
        ticket = f.atomic_load(pool, POOL["ticket"])
        low, retry = ticket & _CELL_BITS, f.label("retry")
        _leave_if(f, ((ticket - low) != (epoch << 32)) | (low >= cells), leave)
        part = f.variable((cells - low) // parts)
        with f.when(part.get() < least):
            part.set(least)
        high = f.variable(low + part.get())
        with f.when(high.get() > cells):
            high.set(cells)
        f.require(f.compare_swap(pool, ticket, (epoch << 32) | high.get(), POOL["ticket"]), retry)
        with f.when(context != caller):
            _adopt(f, context, caller)
        status = f.call_pointer(body, env, context, low, high.get(), result="i32")
        with f.when(status != 0):
            f.call_function(record, pool, context, status, low)
            _give_up_rest(f, pool, epoch, cells)
        f.atomic_add(pool, high.get() - low, POOL["done"])
        f.place(retry)
    f.ret()
    return f


def _adopt(f: Function, context: Word, caller: Word) -> None:
    """Work for the caller: its cancel word, its printing, its communicator."""
    for name in ("cancel", "print_ring", "comm"):
        f.store(context, f.load(caller, CTX[name].offset), CTX[name].offset)


def _give_up_rest(f: Function, pool: Word, epoch: Word, cells: Word) -> None:
    """Take every cell that is left, and do none."""
    with f.forever() as leave:
        ticket = f.atomic_load(pool, POOL["ticket"])
        low = ticket & _CELL_BITS
        _leave_if(f, low >= cells, leave)
        with f.when(f.compare_swap(pool, ticket, (epoch << 32) | cells, POOL["ticket"])):
            f.atomic_add(pool, cells - low, POOL["done"])
            f.jump(leave)


def _write_record(module: Module) -> Function:
    """record(pool, context, status, low): keep the failure with the lowest cell."""
    f = module.function("tilewright_record", 4, result="void", exported=False)
    pool, context, status, low = f.parameters
    with f.forever() as leave:
        _leave_if(f, f.compare_swap(pool, 0, 1, POOL["lock"]), leave)
        f.pause()
    with f.when(low < f.atomic_load(pool, POOL["first"])):
        f.atomic_store(pool, low, POOL["first"])
        f.atomic_store(pool, status, POOL["status"])
        _copy_fault(f, context, CTX["fault_code"].offset, pool, POOL["fault"])
    f.atomic_store(pool, 0, POOL["lock"])
    f.ret()
    return f


def _copy_fault(f: Function, source: Word, start: int, target: Word, to: int) -> None:
    """Copy a fault record: code and op id in one word, then the values."""
    for word in range(1 + FAULT_VALUES):
        f.store(target, f.load(source, start + 8 * word), to + 8 * word)


def _write_worker(module: Module, take: Function) -> None:
    """worker(pool, index): serve until the pool stops."""
    f = module.function("tilewright_worker", 2)
    pool, index = f.parameters
    context = f.load(f.load(pool, POOL["contexts"]) + (index << 3))
    seen = f.variable(f.atomic_load(pool, POOL["epoch"]))
    with f.forever() as leave:
        epoch = _wait_for_epoch(f, pool, seen.get())
        _leave_if(f, f.atomic_load(pool, POOL["stop"]) != 0, leave)
        seen.set(epoch)
        caller = f.atomic_load(pool, POOL["caller"])
        with f.when(caller != 0):
            size = f.load(caller, CTX["arena_bytes"].offset)
            with f.when(f.load(context, CTX["arena_bytes"].offset) >= size):
                f.call_function(take, pool, context, epoch)
    f.ret(0)


def _wait_for_epoch(f: Function, pool: Word, seen: Word) -> Word:
    """Spin for a while, then sleep, until the epoch is another one or the pool stops."""
    spins, found = f.variable(f.load(pool, POOL["spin"])), f.variable(0)
    with f.forever() as leave:
        found.set(f.atomic_load(pool, POOL["epoch"]))
        stopped = f.atomic_load(pool, POOL["stop"]) != 0
        _leave_if(f, (found.get() != seen) | stopped, leave)
        f.pause()
        spins.set(spins.get() - 1)
        with f.when(spins.get() <= 0):
            f.atomic_add(pool, 1, POOL["sleepers"])
            low = seen & _CELL_BITS
            f.call("syscall", _SYS_FUTEX, pool, _FUTEX_WAIT_PRIVATE, low, 0, 0, 0)
            f.atomic_add(pool, -1, POOL["sleepers"])
    return found.get()


def _write_stop(module: Module) -> None:
    """stop(pool): let every worker return."""
    f = module.function("tilewright_stop", 1)
    (pool,) = f.parameters
    f.atomic_store(pool, 1, POOL["stop"])
    f.atomic_add(pool, 1, POOL["epoch"])
    _wake(f, pool)
    f.ret(0)
