"""Names of PyTorch, Lightning and torchmetrics are answered with what to write here."""

import ast
import re

import pytest

import ingle.autodiff as autodiff
import ingle.dataset as dataset
import ingle.tensor as it
import ingle.train as train
from ingle import nn, optim
from ingle.fusion import compile
from ingle.nn.utils import parametrize, rnn
from ingle.optim import pytorch_names as of_optim
from ingle.optim import schedule

PLACES = {
    nn: nn.pytorch_names.NN,
    nn.init: nn.pytorch_names.INIT,
    nn.utils: nn.pytorch_names.UTILS,
    rnn: nn.pytorch_names.RNN,
    parametrize: nn.pytorch_names.PARAMETRIZE,
    optim: of_optim.OPTIM | of_optim.AMP | of_optim.SCHEDULES,
    schedule: of_optim.SCHEDULES,
    it.random: it.random.other_names.OTHERS,
    train: train.other_names.OTHERS,
    dataset: dataset.other_names.OTHERS,
}


@pytest.mark.parametrize("module", PLACES, ids=lambda module: module.__name__)
def test_errors_say_what_to_write(module):
    for name, told in PLACES[module].items():
        with pytest.raises(AttributeError, match=re.escape(f"{name!r}, as PyTorch's has; here: ")):
            getattr(module, name)
        assert told
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_like_it'$") as caught:
        module.nothing_like_it  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("nothing_like_it", module)
    assert not hasattr(module, "__nothing__")


SPACES = {"nn": nn, "optim": optim, "it": it, "autodiff": autodiff}


@pytest.mark.parametrize("module", PLACES, ids=lambda module: module.__name__)
def test_what_they_say_is_there(module):
    """Each name of a call or a path in an answer that begins here."""
    for told in PLACES[module].values():
        for path in re.findall(r"\b((?:nn|optim|it|autodiff)(?:\.\w+)+)", told):
            first, *steps = path.split(".")
            found = SPACES[first]
            for step in steps:
                assert hasattr(found, step), f"{path} in {told!r}"
                found = getattr(found, step)
        called = re.match(r"(\w+)\(", told)
        if called and module in (train, dataset):
            assert hasattr(module, called[1]), told


def test_functions_of_layers_by_pytorchs_name():
    import ingle.nn.functional as F  # noqa: N812
    from ingle.nn import functional

    assert F is functional
    assert functional is nn.functional
    x = it.asarray([-1.0, 2.0])
    assert compile(lambda x: F.relu(x) * 2.0)(x).tolist() == [0.0, 4.0]
    with pytest.raises(AttributeError, match=r"write it\.concat"):
        F.cat  # noqa: B018


def test_weights_that_are_filled_are_named():
    layer = nn.Linear(2, 2)
    with pytest.raises(it.errors.OperandError, match=r"write layer\.weight, not"):
        nn.init.normal_(layer.weight.data)


def test_answers_are_code_where_they_look_like_it():
    for answers in PLACES.values():
        for told in answers.values():
            if re.fullmatch(r"[\w.]+\([^;]*\)", told) and "..." not in told:
                ast.parse(told)


BASES = [nn.Module, nn.Sequential, optim.SGD, schedule.Step, train.Learner]


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_what_a_property_of_ones_own_lacks_is_named(base: type) -> None:
    """Not the property, which is there."""

    class Own(base):
        @property
        def size(self) -> int:
            return self.lenght

    with pytest.raises(AttributeError, match="no attribute 'lenght'"):
        Own.__new__(Own).size  # noqa: B018
