"""Every published name with its parameters, in order (`*`: what follows is given by keyword)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright.ir.opdef import SPELLINGS

PUBLISHED = {
    "pl": """
        add: lhs rhs
        sub: lhs rhs
        mul: lhs rhs
        div: lhs rhs high_precision
        part_add: lhs rhs
        part_mul: lhs rhs
        part_max: lhs rhs
        part_min: lhs rhs
        fmod: lhs rhs
        fmods: lhs rhs
        maximum: lhs rhs
        minimum: lhs rhs
        exp: input
        log: input high_precision
        sin: input
        cos: input
        neg: input
        abs: input
        recip: input high_precision
        sqrt: input
        rsqrt: input high_precision
        row_expand_mul: lhs rhs
        row_expand_div: lhs rhs
        col_expand_mul: lhs rhs
        row_expand: lhs rhs
        row_expand_add: lhs rhs tmp
        row_expand_sub: lhs rhs
        col_expand: lhs rhs
        col_expand_div: lhs rhs
        col_expand_sub: lhs rhs
        col_expand_add: lhs rhs
        row_expand_max: lhs rhs
        row_expand_min: lhs rhs
        row_expand_expdif: lhs rhs
        col_expand_max: lhs rhs
        col_expand_min: lhs rhs
        col_expand_expdif: lhs rhs
        expands: target scalar
        reshape: input shape
        reinterpret_view: data dtype * shape
        transpose: input axis1 axis2
        concat: src0 src1
        slice: input shape offset valid_shape drop_dims pad_value clamp
        fillpad: value pad_value
        fillpad_expand: value shape pad_value
        matmul: lhs rhs out_dtype a_trans b_trans c_matrix_nz
        batch_matmul: lhs rhs
        matmul_acc: acc lhs rhs a_trans b_trans init_cond
        row_max: input tmp_tile
        row_sum: input tmp_tile
        row_min: input tmp_tile
        row_prod: input tmp_tile
        col_sum: input tmp_tile
        col_max: input
        col_min: input
        col_prod: input
        row_argmax: input tmp_tile
        row_argmin: input tmp_tile
        col_argmax: input tmp_tile
        col_argmin: input tmp_tile
        cast: input target_type mode
        cmp: lhs rhs cmp_type
        and_: lhs rhs
        ands: lhs rhs
        or_: lhs rhs
        ors: lhs rhs
        xor: lhs rhs tmp
        xors: lhs rhs tmp
        not_: input
        shl: lhs rhs
        shls: lhs rhs
        shr: lhs rhs
        shrs: lhs rhs
        set_validshape: input valid_rows valid_cols
        read: src offset
        write: dst offset value
        assemble: target source offset * atomic
        gather_row: dst src dst_offset src_offset shapes transpose * valid_shape
        scatter_update: input *args **kwargs
        sort32: src idx
        mrgsort: src0 src1 src2 src3 tmp * exhausted block_len
    """,
    "pl.tensor": """
        create: shape dtype layout manual_dep init_value
        read: tensor indices
        write: tensor indices value
        dim: tensor axis
        slice: tensor shape offset valid_shape drop_dims pad_value clamp
        fillpad: tensor pad_value
        fillpad_expand: tensor shape pad_value
        set_validshape: tensor valid_rows valid_cols
        full: shape dtype value
        ci: start shape dtype descending
        random: key0 key1 counter0 counter1 counter2 counter3 shape dtype rounds
        matmul: lhs rhs out_dtype a_trans b_trans c_matrix_nz
        matmul_acc: acc lhs rhs a_trans b_trans init_cond
        mul: lhs rhs
        muls: lhs rhs
        add: lhs rhs
        adds: lhs rhs
        sub: lhs rhs
        subs: lhs rhs
        div: lhs rhs high_precision
        divs: lhs rhs
        part_add: lhs rhs
        part_mul: lhs rhs
        part_max: lhs rhs
        part_min: lhs rhs
        fmod: lhs rhs
        fmods: lhs rhs
        maximum: lhs rhs
        minimum: lhs rhs
        cmp: lhs rhs cmp_type
        and_: lhs rhs
        ands: lhs rhs
        or_: lhs rhs
        ors: lhs rhs
        xor: lhs rhs
        xors: lhs rhs
        not_: input
        shl: lhs rhs
        shls: lhs rhs
        shr: lhs rhs
        shrs: lhs rhs
        row_max: input
        row_sum: input
        row_min: input
        row_prod: input
        col_sum: input
        col_max: input
        col_min: input
        col_prod: input
        row_argmax: input
        row_argmin: input
        col_argmax: input
        col_argmin: input
        row_expand: target row_vec
        row_expand_mul: tensor row_vec
        row_expand_div: tensor row_vec
        row_expand_add: tensor row_vec
        row_expand_sub: tensor row_vec
        row_expand_max: tensor row_vec
        row_expand_min: tensor row_vec
        row_expand_expdif: tensor row_vec
        col_expand_mul: tensor col_vec
        col_expand: tensor col_vec
        col_expand_sub: tensor col_vec
        col_expand_div: tensor col_vec
        col_expand_add: tensor col_vec
        col_expand_max: tensor col_vec
        col_expand_min: tensor col_vec
        col_expand_expdif: tensor col_vec
        expands: target scalar
        expand_clone: src target
        exp: input
        log: input high_precision
        sin: input
        cos: input
        neg: input
        abs: input
        recip: input high_precision
        sqrt: input
        rsqrt: input high_precision
        cast: input target_type mode
        assemble: target source offset * atomic
        concat: src0 src1
        reshape: tensor shape
        reinterpret_view: data dtype * shape
        transpose: tensor axis1 axis2
        view: tensor shape valid_shape * layout
        scatter_update: input *args **kwargs
        sort32: src idx
        mrgsort: src0 src1 src2 src3 * exhausted block_len
        gather: input dim index * mask_pattern output_dtype kvalue cmp_mode
            + out_cols offset count_dtype
        paged_gather: src indices block_table block_size size max_indices
            + * space col_off is_trans is_b_matrix
        create_l1: shape dtype transpose
        gather_row: acc src dst_offset src_offset shapes transpose * valid_shape
        scatter: input dim index src * mask_pattern dst
        get_block_idx:
        get_subblock_idx:
        get_block_num:
    """,
    "pl.tile": """
        create: shape dtype target_memory transpose * flat_layout
        read: tile indices
        write: tile indices value
        load: tensor offsets shapes valid_shape target_memory clamp
        store: tile offsets output_tensor shapes * atomic
        assemble: target source offset
        gather_row: dst src dst_offset src_offset shapes transpose * valid_shape
        extract: src index_row index_col shape * target_memory
        scatter_update: input *args **kwargs
        concat: src0 src1
        move: tile target_memory blayout slayout
        aiv_shard: x
        aic_gather: x
        full: shape dtype value
        ci: start shape dtype descending
        tri: diagonal shape valid_shape dtype upper
        random: key0 key1 counter0 counter1 counter2 counter3 shape valid_shape dtype rounds
        fillpad: tile pad_value
        fillpad_inplace: tile pad_value
        fillpad_expand: tile shape pad_value
        get_block_idx:
        get_subblock_idx:
        get_block_num:
        add: lhs rhs
        sub: lhs rhs
        mul: lhs rhs
        div: lhs rhs high_precision
        adds: lhs rhs
        subs: lhs rhs
        muls: lhs rhs
        divs: lhs rhs
        neg: tile
        exp: tile
        sin: tile
        cos: tile
        sqrt: tile
        rsqrt: tile tmp
        recip: tile high_precision
        log: tile high_precision
        abs: tile
        relu: tile
        cast: tile target_type mode
        matmul: lhs rhs
        batch_matmul: lhs rhs
        matmul_acc: acc lhs rhs init_cond
        batch_matmul_acc: acc lhs rhs
        matmul_bias: lhs rhs bias
        matmul_mx: lhs lhs_scale rhs rhs_scale
        matmul_mx_acc: acc lhs lhs_scale rhs rhs_scale
        matmul_mx_bias: lhs lhs_scale rhs rhs_scale bias
        gemv: lhs rhs acc_phase
        gemv_acc: acc lhs rhs acc_phase
        gemv_bias: lhs rhs bias acc_phase
        row_max: tile tmp_tile
        row_sum: tile tmp_tile
        row_min: tile tmp_tile
        row_prod: tile tmp_tile
        col_sum: tile tmp_tile
        col_max: tile
        col_min: tile
        col_prod: tile
        row_argmax: tile tmp_tile
        row_argmin: tile tmp_tile
        col_argmax: tile tmp_tile
        col_argmin: tile tmp_tile
        maximum: lhs rhs
        row_expand: target row_vec
        row_expand_sub: tile row_vec
        row_expand_div: tile row_vec
        row_expand_mul: tile row_vec
        row_expand_add: tile row_vec tmp
        col_expand: target col_vec
        col_expand_mul: tile col_vec
        col_expand_div: tile col_vec
        col_expand_sub: tile col_vec
        col_expand_add: tile col_vec
        row_expand_max: tile row_vec
        row_expand_min: tile row_vec
        row_expand_expdif: tile row_vec
        col_expand_max: tile col_vec
        col_expand_min: tile col_vec
        col_expand_expdif: tile col_vec
        expands: target scalar
        minimum: lhs rhs
        cmp: lhs rhs cmp_type
        cmps: lhs rhs cmp_type
        max: lhs rhs
        min: lhs rhs
        slice: tile shape offset valid_shape drop_dims pad_value
        reshape: tile shape
        reinterpret_view: data dtype * shape
        transpose: tile axis1 axis2 tmp_tile
        transpose_view: tile
        set_validshape: tile valid_rows valid_cols
        rem: lhs rhs tmp
        rems: lhs rhs tmp
        part_add: src0 src1
        part_mul: src0 src1
        part_max: src0 src1
        part_min: src0 src1
        fmod: lhs rhs
        fmods: lhs rhs
        and_: lhs rhs
        ands: lhs rhs
        or_: lhs rhs
        ors: lhs rhs
        xor: lhs rhs tmp
        xors: lhs rhs tmp
        shl: lhs rhs
        shls: lhs rhs
        shr: lhs rhs
        shrs: lhs rhs
        maximums: lhs rhs
        minimums: lhs rhs
        prelu: tile slope tmp
        not_: tile
        addc: lhs rhs rhs2
        subc: lhs rhs rhs2
        addsc: lhs rhs rhs2
        subsc: lhs rhs rhs2
        lrelu: tile slope
        sel: mask lhs rhs tmp
        sels: mask src tmp scalar
        sort32: src idx
        gather: src indices tmp
        gatherb: src offset * output_dtype
        gather_mask: src mask_pattern * output_dtype
        gather_compare: src kvalue tmp * cmp_mode offset out_cols count_dtype
        scatter: dst src indexes
        scatter_mask: dst src mask_pattern
        mscatter: src idx output_tensor
        mgather: mem idx coalesce * gather_oob target_memory scratch valid_shape
        mrgsort: src0 src1 src2 src3 tmp exhausted * block_len
    """,
    "pl.array": """
        create: extent dtype
        get_element: array index
        update_element: array index value
    """,
}


def published() -> Iterator[tuple[str, list[str]]]:
    for home, text in PUBLISHED.items():
        for line in re.sub(r"\n\s+\+", "", text).strip().splitlines():
            name, _, parameters = line.strip().partition(":")
            yield f"{home}.{name}", parameters.split()


def shown(signature: inspect.Signature) -> list[str]:
    """Parameter names, with the marks of their kinds."""
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        names.append(star.get(parameter.kind, "") + parameter.name)
    return names


def accepts(given: list[str], wanted: list[str]) -> bool:
    """All that is published, in order; more may be given by keyword."""
    return given[: len(wanted)] == wanted


@pytest.mark.parametrize(("path", "parameters"), [pytest.param(*p, id=p[0]) for p in published()])
def test_a_published_name_takes_its_parameters(path: str, parameters: list[str]) -> None:
    found = [shown(spelling.signature) for spelling in SPELLINGS[path]]
    assert any(accepts(names, parameters) for names in found), found
