"""Which sizes of a graph vary, and which follow from others."""

from __future__ import annotations

import pytest

from ingle.fusion.ir.graph import Graph
from ingle.fusion.symbolic.form import form_of
from ingle.fusion.symbolic.generalization import generalized
from ingle.fusion.symbolic.inquiry import Inquiry
from ingle.fusion.symbolic.relations import symbols_for
from ingle.fusion.symbolic.samples import Samples
from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import float32
from ingle.tensor.operation import OPERATIONS

STEPS = {"stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
SIZES = ((16, 11), (23, 22))


def gradient(height, width, features=8):
    """Of images by a convolution in steps of two."""
    graph = Graph()
    out = (height - 1) // 2 + 1, (width - 1) // 2 + 1
    op = OPERATIONS["conv_input_gradient"].op(size=(height, width), **STEPS)
    shapes = (1, features, *out), (features, 4, 3, 3)
    graph.outputs = graph.node(op, [graph.input(Aval(shape, float32)) for shape in shapes])
    return graph


def test_quotients_that_are_equal_are_one():
    inquiry = Inquiry([17])
    (size,) = inquiry.symbols
    for one, other in (
        ((size - 2) // 2 + 1, size // 2),
        ((3 * size + 7) // 3, size + 2),
        ((5 * size - 1) // 4, size + (size + 3) // 4 - 1),
        ((-size) // 2 - 1, (-size - 2) // 2),
    ):
        assert one == other
    assert [line for line in inquiry.program(()).lines if "None" in line] == [
        "if not (a0 >= 1): return None"
    ]


def test_what_shape_rules_say_is_no_symbol():
    graphs = [gradient(*size) for size in SIZES]
    numbers = [form_of(graph).numbers for graph in graphs]
    general = generalized(graphs[-1], numbers, apart=True)
    assert len(general.symbols) == 2
    answers = general.answers().function()
    for size in ((7, 9), (24, 25), (101, 3)):
        assert answers(form_of(gradient(*size)).numbers) is not None, size


@pytest.mark.parametrize("related", [False, True])
def test_two_sizes_of_images_are_not_related_by_chance(related):
    examples = [[*size, 3 * size[0]] for size in ((16, 11), (23, 67))]
    _, sizes, chosen = symbols_for(examples, related=related)
    assert len(chosen) == (2 if related else 3)
    assert not related or sizes[2] == 3 * sizes[0]


def test_layers_of_other_sizes_have_other_forms():
    one, other = form_of(gradient(9, 9)), form_of(gradient(30, 12))
    assert one.skeleton == other.skeleton
    assert one.skeleton != form_of(gradient(9, 9, features=16)).skeleton


def test_two_sizes_of_a_layer_are_examples_enough():
    samples = Samples[int]()
    assert not samples.alike((5, 7), 0, least=2)
    assert [numbers for numbers, _ in samples.alike((6, 7), 1, least=2)] == [(5, 7), (6, 7)]
