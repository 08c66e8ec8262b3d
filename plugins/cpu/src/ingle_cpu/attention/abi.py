"""What the kernels of attention are given: their arguments, and their pointers in order."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")
MaskKind = Literal["none", "bool", "float"]

FORWARD_POINTERS = ("query", "keys", "values", "mask", "scratch", "out", "lse")
"""Keys and values are panels. What there is none of, mask or lse, is any other of them."""

BACKWARD_POINTERS = (
    "g", "query", "key", "value", "mask", "out", "lse", "scratch", "by_query", "by_key", "by_value",
)  # fmt: skip
"""A mask that there is none of is any other of them."""


class ForwardArgs(NamedTuple, Generic[T]):
    """The arguments of the forward kernel; strides and places are bytes.

    A unit of work is a block of queries of one head.
    """

    scale: T  # a number as bits
    score: T  # code of tiles of queries by keys
    mix: T  # of tiles of shares by values
    last_mix: T  # the last panel of values is narrower
    pack: T  # code that packs rows of queries
    queries: T
    keys: T
    features: T  # of queries and keys
    values: T  # features of values
    causal: T
    blocks: T  # of queries
    block: T  # queries in one
    key_block: T
    batch1: T
    batch2: T
    q0: T
    q1: T
    q2: T
    q_row: T
    q_column: T
    k0: T
    k1: T
    k2: T
    v0: T
    v1: T
    v2: T
    m0: T
    m1: T
    m2: T
    m_row: T
    m_column: T
    last_columns: T  # of the last panel of values
    pitch: T  # of rows of scores
    out_pitch: T  # of rows of results in the making
    keeps_lse: T
    worker_bytes: T
    packed_at: T  # places in a worker's memory
    scores_at: T
    out_at: T
    top_at: T
    total_at: T


class BackwardArgs(NamedTuple, Generic[T]):
    """The arguments of the backward kernel; strides and places are bytes.

    A unit of work is one head of keys and values, with all heads of queries that share it.
    """

    scale: T
    score: T  # code of tiles of queries by keys
    mix: T  # of scores' gradients by keys
    last_mix: T
    turned: T  # of columns of scores by queries, or by gradients
    last_by_key: T
    last_by_value: T
    pack: T
    queries: T
    keys: T
    features: T
    values: T
    causal: T
    block: T  # queries
    key_block: T
    batch1: T
    batch2: T
    shared: T  # heads of queries to a head of keys
    g0: T
    g1: T
    g2: T
    g3: T  # along heads that share
    g_row: T
    g_column: T
    q0: T
    q1: T
    q2: T
    q3: T
    q_row: T
    q_column: T
    k0: T
    k1: T
    k2: T
    k_row: T
    k_column: T
    v0: T
    v1: T
    v2: T
    v_row: T
    v_column: T
    m0: T
    m1: T
    m2: T
    m3: T
    m_row: T
    m_column: T
    o0: T
    o1: T
    o2: T
    o3: T
    o_row: T
    o_column: T
    l0: T
    l1: T
    l2: T
    l3: T
    l_row: T
    r0: T  # of the gradient by queries, whose rows are dense
    r1: T
    r2: T
    r3: T
    last_features: T  # columns of the last panel
    last_values: T
    pitch: T
    worker_bytes: T
    keys_at: T  # places in a worker's memory: columns of keys, as they are multiplied by queries
    values_at: T
    rows_at: T  # rows of keys
    query_tiles_at: T
    g_tiles_at: T
    query_rows_at: T
    g_rows_at: T
    out_rows_at: T
    scores_at: T
    flows_at: T
    by_query_at: T
    by_key_at: T
    by_value_at: T
    level_at: T
    lse_at: T
