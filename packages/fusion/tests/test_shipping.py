"""Functions, modules and tensors that go to other processes: joblib, Ray, Dask and Spark do so."""

import copy
import pickle
import subprocess
import sys
import types

import pytest

import ingle.tensor as it
from ingle import autodiff, fusion, nn, optim
from ingle.fusion import compile

try:
    import cloudpickle
except ImportError:
    cloudpickle = pytest.importorskip("joblib.externals.cloudpickle")


@compile
def doubled(x):
    return x * 2


def test_the_module_is_itself_again():
    assert pickle.loads(pickle.dumps(it)) is it
    assert copy.deepcopy(it) is it
    assert copy.copy(it) is it
    assert pickle.loads(cloudpickle.dumps(it)) is it
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps({"it": it}, protocol))["it"] is it


@pytest.mark.parametrize("module", [it, it.linalg, it.fft, it.random, nn, optim, autodiff, fusion])
def test_every_public_name_can_be_shipped(module):
    for name in dir(module):
        thing = getattr(module, name)
        if name.startswith("_") or isinstance(thing, types.ModuleType):
            continue
        for dumps in (pickle.dumps, cloudpickle.dumps):
            assert pickle.loads(dumps(thing)) is thing or not callable(thing), name


PROGRAM = """
import sys
try:
    import cloudpickle
except ImportError:
    from joblib.externals import cloudpickle
import ingle.tensor as it
from ingle import nn
from ingle.autodiff import grad
from ingle.fusion import compile

model = nn.Linear(2, 1)
model.weight.value = it.asarray([[2.0, 3.0]])
model.bias.value = it.asarray([1.0])

def predict(x):
    return model(it.asarray(x)).tolist()

@compile
def step(x):
    return it.sum(model(x) ** 2)

slope = grad(lambda x: x ** 3)
step(it.ones((1, 2)))
data = cloudpickle.dumps((predict, step, slope))
sys.stdout.buffer.write(data)
"""
WORKER = """
import pickle, sys
predict, step, slope = pickle.load(sys.stdin.buffer)
import ingle.tensor as it
print(predict([[1.0, 1.0]]), *[step(it.ones((1, 2))).item() for _ in range(3)])
print(slope(it.asarray(2.0)).item())
"""


@pytest.mark.slow
def test_a_program_ships_its_functions_to_a_worker():
    """Functions of `__main__` go by value, with the modules that they name."""
    data = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True).stdout
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], input=data, capture_output=True, check=True
    )
    assert worker.stdout.decode().split() == ["[[6.0]]", "36.0", "36.0", "36.0", "12.0"]


def test_a_compiled_function_of_a_module_goes_by_its_name():
    x = it.ones(3)
    doubled(x)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled


def test_a_compiled_function_is_compiled_anew_where_it_arrives():
    model = nn.Linear(2, 2)
    run = compile(model)
    x = it.ones((1, 2))
    expected = [run(x).tolist() for _ in range(3)][-1]
    for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
        assert other.recordings == 0
        assert other.function is not model
        assert [other(x).tolist() for _ in range(3)][-1] == expected
        other.function.bias.value = other.function.bias + 1
        assert other(x).tolist()[0] == pytest.approx([e + 1 for e in expected[0]], rel=1e-5)
        assert run(x).tolist() == expected
