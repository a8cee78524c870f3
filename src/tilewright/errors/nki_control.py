"""Named errors of the traced style: control flow, scopes, parameters, launches."""

from __future__ import annotations

from tilewright.errors.nki import (
    NKIIndexError,
    NKINotImplementedError,
    NKIRuntimeError,
    NKISyntaxError,
    NKITypeError,
    NKIValueError,
    page,
)

DYNAMIC_CONTROL_FLOW = page(
    "dynamic_control_flow_not_supported",
    NKISyntaxError,
    "dynamic control flow depending on {what} is not supported "
    "(err_dynamic_control_flow_not_supported)",
    """A Python branch or loop is decided while the kernel is traced, so its condition cannot be a
    tensor, or a comparison of a program id or loop variable.

    Bad::

        if nl.load(flag):
            t = t + 1.0

    Good::

        t = nl.where(nl.load(flag) > 0, t + 1.0, t)
    """,
    "select with mask=, nl.where or nisa.tensor_copy_predicated instead of branching",
)
CONDITION_ON_ARANGE = page(
    "control_flow_condition_depending_on_arange",
    NKISyntaxError,
    "Condition should be bool: the condition depends on nl.arange or nl.mgrid",
    """A comparison of index ranges is a mask, not a truth value.

    Bad::

        if j * 512 + nl.arange(512)[None, :] > 2048:
            nl.store(out, t)

    Good::

        nl.store(out[i, f], t, mask=(j * 512 + f <= 2048))
    """,
    "pass the comparison as mask= to the operation",
)
CONDITION_NOT_BOOL = page(
    "condition_should_be_bool",
    NKISyntaxError,
    "Condition should be bool: {what} has no truth value while the kernel is traced",
    """The value of a program id or of a loop variable is not known during the trace.

    Bad::

        if nl.program_id(0):
            t = t + 1.0

    Good::

        nl.store(out, t + 1.0, mask=nl.program_id(0) > 0)
    """,
    "compare it and pass the comparison as mask=, or loop with nl.static_range",
)
WHILE_NEEDS_UNCONDITIONAL_ENTRY = page(
    "while_loop_requires_unconditional_entry",
    NKIValueError,
    "a dynamic while loop must be entered unconditionally: its first condition is {what}",
    """A loop whose condition is computed on the device runs its body at least once.

    Bad::

        cond = scalar(flag_tile)
        while cond:
            cond = scalar(step(t)) < 10

    Good::

        cond = scalar(True)
        while cond:
            cond = scalar(step(t)) < 10
    """,
    "start with `cond = scalar(True)`",
)
WHILE_LOOP = page(
    "while_loop_condition",
    NKIValueError,
    "nl.while_loop goes on while a register or a scalar of the run is not 0, not by {given}",
    """What decides the loop is a register, a scalar, or a comparison of them.

    Bad::

        nl.while_loop(tile, lambda: tile)

    Good::

        again = nisa.register_alloc(1)

        def body():
            nisa.register_load(again, step(tile))
            return again

        nl.while_loop(again, body)
    """,
    "load the tile into a register: nisa.register_load(register, tile)",
)
LOGIC_OR = page(
    "logic_or_not_supported",
    NKIValueError,
    "logical or is not supported for {what}",
    """Masks are conjunctions of affine comparisons.

    Bad::

        nl.store(out[i, f], t, mask=(f < 3) or (f > 7))

    Good::

        nl.store(out[i, f], t, mask=f < 3)
        nl.store(out[i, f], t, mask=f > 7)
    """,
    "issue one masked operation for each alternative",
)
AMBIGUOUS_TRUTH = page(
    "ambiguous_tensor_truth_value",
    NKIValueError,
    "the truth value of a tensor with several elements is ambiguous{what}",
    """`not`, `and`, `or` and `bool()` ask for one truth value; a tensor has one per element.

    Bad::

        t = not (x > 0)

    Good::

        t = ~(x > 0)
    """,
    "use the element-wise operators ~, & and |, or `is not None`",
)
OUTSIDE_KERNEL = page(
    "nki_api_outside_of_nki_kernel",
    NKIRuntimeError,
    "calling NKI API outside of NKI kernels is not supported.",
    """Language functions build the kernel that is being traced; outside a kernel there is none.

    Bad::

        t = nl.zeros((4, 8), dtype=nl.float32)

    Good::

        @nki.jit
        def kernel(x):
            t = nl.zeros((4, 8), dtype=nl.float32)
            ...
    """,
    "call it from the body of an @nki.jit function",
)
OUT_OF_SCOPE = page(
    "local_variable_used_out_of_scope",
    NKISyntaxError,
    "local variable '{name}' is used outside of the scope that made it ({scope})",
    """A tensor made inside a device loop or a guarded branch ends with it.

    Bad::

        for i in nl.affine_range(4):
            t = nl.load(x[i])
        nl.store(out, t)

    Good::

        t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        for i in nl.affine_range(4):
            t[...] = nl.load(x[i])
        nl.store(out, t)
    """,
    "make the tensor before the block and update it inside with `t[...] = `",
)
SHARED_HBM_LEVEL = page(
    "shared_hbm_must_in_kernel_level",
    NKIRuntimeError,
    "shared_hbm tensors must be made at the top level of the kernel, not in {scope}",
    """An output belongs to the whole launch, not to an iteration, a branch or a helper.

    Bad::

        for i in nl.affine_range(4):
            out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)

    Good::

        out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            ...
    """,
)
IMMUTABLE_PARAMETER = page(
    "cannot_update_immutable_parameter",
    NKITypeError,
    "cannot update immutable parameter '{name}'",
    """Tensor parameters are inputs unless their annotation says otherwise.

    Bad::

        def kernel(x):
            nl.store(x, value=t)

    Good::

        def kernel(x: nt.mutable_tensor):
            nl.store(x, value=t)
            return x
    """,
    "annotate the parameter with nt.mutable_tensor and return it, or store to a new tensor",
)
MUTABLE_NOT_RETURNED = page(
    "mutable_parameter_not_returned",
    NKISyntaxError,
    "mutable parameter '{name}' is not returned by the kernel",
    """A parameter that is updated is an output as well, and a kernel that returns outputs returns
    all of them.

    Bad::

        def kernel(x: nt.mutable_tensor):
            nl.store(x, value=t)
            return out

    Good::

        def kernel(x: nt.mutable_tensor):
            nl.store(x, value=t)
            return out, x
    """,
    "return it",
)
OUTPUT_NOT_WRITTEN = page(
    "tensor_output_not_written_to",
    NKIValueError,
    "output tensor '{name}' is never written to",
    """An output that no store reaches would hand garbage to the caller; a store in a loop that
    never runs does not count.

    Bad::

        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(0):
            nl.store(out, t)
        return out

    Good::

        nl.store(out, t)
        return out
    """,
    "store to it before returning it",
)
UNEXPECTED_OUTPUT_DEPENDENCY = page(
    "unexpected_output_dependencies",
    NKISyntaxError,
    "unexpected output dependencies: '{name}' is written in every iteration of the affine loop "
    "over {loop}, and {loop} is missing in the indices of the destination",
    """Iterations of an affine loop are independent, so they must not write the same place.

    Bad::

        for i in nl.affine_range(4):
            nl.store(out[0], t)

    Good::

        for i in nl.affine_range(4):
            nl.store(out[i], t)
    """,
    "use the loop index in the destination, or nl.sequential_range",
)
NESTED_GRID = page(
    "nested_kernel_with_spmd_grid",
    NKISyntaxError,
    "kernel '{name}' is called with a grid inside another kernel",
    """The grid belongs to the launch; a kernel called by another runs in its instances.

    Bad::

        @nki.jit
        def outer(x):
            return inner[4, 4](x)

    Good::

        @nki.jit
        def outer(x):
            return inner(x)
    """,
    "call it without a grid",
)
PROGRAM_ID_AXIS = page(
    "program_id_axis_out_of_bounds",
    NKIIndexError,
    "program_id axis {axis} is out of bounds for a launch grid of {ndim} dimensions",
    """The axis must be one of the launch grid's.

    Bad::

        @nki.jit
        def kernel(x):
            i = nl.program_id(3)
            ...
        kernel[4](x)

    Good::

        i = nl.program_id(0)
    """,
)
PARAM_NOT_HASHABLE = page(
    "nki_param_not_hashable",
    NKIValueError,
    "parameter '{name}' is of type {type}, which is not hashable",
    """Arguments that are not tensors are part of what the kernel is specialized for.

    Bad::

        kernel(x, [1, 2, 3])

    Good::

        kernel(x, (1, 2, 3))
    """,
    "pass a tuple, or another immutable value",
)
MULTI_CORES = page(
    "multi_cores_spmd_not_supported",
    NKIRuntimeError,
    "grids over several physical cores (nl.nc) are not available on {target}",
    """Only targets with logical cores can spread one launch over physical cores.

    Bad::

        kernel[nl.nc(2)](x)         # with platform_target="trn1"

    Good::

        kernel[2](x)
    """,
)
REPLICA_GROUP = page(
    "replica_group_not_supported",
    NKINotImplementedError,
    "{op}: a traced kernel is rank 0 alone, and the replica group has the ranks {given}",
    """Traced kernels run on one rank; what ranks do together is written in the parsed style.

    Bad::

        nki.collectives.all_reduce([a], [b], ((0, 1),), nl.add)

    Good::

        nki.collectives.all_reduce([a], [b], ((0,),), nl.add)
    """,
    "let ranks work together with tilewright.language.distributed",
)
METADATA_LAYOUT = page(
    "metadata_layout_unknown",
    NKINotImplementedError,
    "{op}: the layout of metadata_tensor is documented nowhere, so its counts cannot be read",
    """Collectives of parts of unequal length take their lengths from a tensor of no known layout.

    Bad::

        nki.collectives.all_gather_v([a], [b], ((0,),), lengths)

    Good::

        nki.collectives.all_gather([a], [b], ((0,),), collective_dim=0)
    """,
    "use the collective of equal parts: all_gather, all_to_all",
)
EXPECTED_CONSTANT = page(
    "expected_constant_value",
    NKISyntaxError,
    "{what} must be known while the kernel is traced, got {given}",
    """Shapes, axes and bounds of unrolled loops are compile-time values.

    Bad::

        nl.zeros((128, nl.program_id(0)), dtype=nl.float32)

    Good::

        nl.zeros((128, 512), dtype=nl.float32)
    """,
)
DEVICE_LOOP_EXIT = page(
    "device_loop_cannot_be_left",
    NKISyntaxError,
    "a loop that runs on the device cannot be left with {what}",
    """The body of a device loop is traced once, whatever iteration it stands for.

    Bad::

        for i in nl.affine_range(4):
            break

    Good::

        for i in nl.static_range(4):
            break
    """,
    "use nl.static_range, which is unrolled while the kernel is traced",
)
TOP_LEVEL_RETURN = page(
    "returning_value_from_top_level",
    NKISyntaxError,
    "Returning value from top level nki kernel is not supported: got {what}",
    """The results of a kernel are HBM tensors; Python values and on-chip tiles cannot leave it.

    Bad::

        @nki.jit
        def kernel(x):
            return nl.load(x)

    Good::

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, value=nl.load(x))
            return out
    """,
    "return tensors made with buffer=nl.shared_hbm",
)
LOOP_INDICES = page(
    "loop_reduce_indices",
    NKISyntaxError,
    "loop_reduce: loop_indices are not variables of device loops around it",
    """A reduction across iterations needs the loops that it runs across.

    Bad::

        r = nl.loop_reduce(t, op=np.add, loop_indices=[0])

    Good::

        for i in nl.affine_range(4):
            r = nl.loop_reduce(nl.load(x[i]), op=np.add, loop_indices=[i])
    """,
)
PROGRAM_STATE = page(
    "all_reduce_of_state",
    NKISyntaxError,
    "all_reduce: the operand depends on '{name}', which earlier iterations of a loop have updated",
    """What is reduced over programs is computed by every program in the same way, without state
    that a surrounding loop carries.

    Bad::

        for i in nl.sequential_range(4):
            acc[...] = acc + nl.load(x[i])
            total = nl.all_reduce(acc, op=np.add, program_axes=[0])

    Good::

        for i in nl.sequential_range(4):
            acc[...] = acc + nl.load(x[i])
        total = nl.all_reduce(acc, op=np.add, program_axes=[0])
    """,
    "reduce after the loop",
)
SEVERAL_DIRECTIVES = page(
    "several_multi_buffer_directives",
    NKIValueError,
    "a loop has {count} multi_buffer directives; one is accepted",
    """A loop keeps one number of generations of its tensors.

    Bad::

        for i in nl.affine_range(8, directives=[ncc.multi_buffer(2), ncc.multi_buffer(4)]):
            t = nl.load(x[i])

    Good::

        for i in nl.affine_range(8, directives=[ncc.multi_buffer(4)]):
            t = nl.load(x[i])
    """,
)
