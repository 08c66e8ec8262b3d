"""What a program for PyTorch does first, and what the errors tell it to write."""

import copy
import pickle

import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile
from ingle.optim import schedule
from ingle.tensor.errors import ArgumentError, OperandError

MODEL = nn.Linear(2, 1)
SCHEDULES = [
    schedule.Step(0.1, 3), schedule.Cosine(0.1, 10), schedule.Lambda(0.1, float),
    schedule.Plateau(0.1), schedule.Chain(0.1, [float]), schedule.Composed([0.1, 0.2]),
]  # fmt: skip


def test_modules_in_a_list() -> None:
    model = nn.Linear(2, 2)
    for given in ([model], [{"params": [model, model]}]):
        with pytest.raises(
            OperandError, match=r"got Linear; give the module itself, or \[\*a\.par"
        ):
            optim.SGD(given, lr=0.1)
    with pytest.raises(OperandError, match=r"got Tensor; wrap a tensor in ingle\.nn\.Parameter"):
        optim.SGD([model.weight.value], lr=0.1)


def test_a_method_that_was_not_called() -> None:
    with pytest.raises(OperandError, match=r"got method; call it: parameters\(\)"):
        optim.SGD(nn.Linear(1, 1).parameters, lr=0.1)


def test_a_step_without_gradients():
    for optimizer in (optim.SGD(MODEL, lr=0.1), optim.AdamW(MODEL)):
        with pytest.raises(OperandError, match=r"got nothing; write optimizer\.step\("):
            optimizer.step()
        with pytest.raises(OperandError, match="got Tensor; write"):
            optimizer.step(it.ones(2))


def test_what_is_no_gradients():
    grads = (MODEL(it.ones((1, 2))) ** 2.0).sum().backward()
    scaler = optim.LossScaler()
    sgd = optim.SGD(MODEL, lr=0.1)
    clipped = optim.clip_grad_norm(grads, 1.0)
    for call, written in (
        (sgd.step, r"optimizer\.step\(grads\)"),
        (scaler.unscale, r"scaler\.unscale\(grads\)"),
        (lambda g: optim.clip_grad_value(g, 1.0), r"clip_grad_value\(grads, max_value\)"),
    ):
        with pytest.raises(OperandError, match=rf"got tuple; clip_grad_norm returns .*{written}"):
            call(clipped)
    for given in (MODEL, MODEL.weight, MODEL.parameters(), list(MODEL.parameters())):
        with pytest.raises(OperandError, match=r"no gradients here.*norm = clip_grad_norm\(loss"):
            optim.clip_grad_norm(given, 1.0)


def test_a_schedule_made_of_an_optimizer():
    made = optim.SGD(MODEL, lr=0.1)
    for kind in (schedule.Step, schedule.OneCycle, schedule.Plateau, schedule.CosineAnnealing):
        with pytest.raises(ArgumentError, match=rf"lr=optim\.schedule\.{kind.__name__}"):
            kind(made, 10)
        with pytest.raises(ArgumentError, match="is given to the optimizer"):
            kind(optimizer=made)


@pytest.mark.parametrize("made", SCHEDULES, ids=lambda made: type(made).__name__)
def test_a_schedule_that_is_stepped(made):
    with pytest.raises(AttributeError, match="here: leave it out; the optimizer counts its steps"):
        made.step()
    with pytest.raises(AttributeError, match=r"here: optimizer\.lr"):
        made.get_last_lr()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        made.nothing  # noqa: B018


@pytest.mark.parametrize("made", SCHEDULES, ids=lambda made: type(made).__name__)
def test_schedules_are_copied_and_pickled(made):
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert [again(i) for i in range(5)] == [made(i) for i in range(5)]


KINDS = [
    k for k in vars(optim).values()
    if isinstance(k, type) and issubclass(k, optim.Optimizer) and k is not optim.Optimizer
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_that_is_misspelled_is_no_option(kind) -> None:
    model = nn.Linear(4, 4, bias=False)
    with pytest.raises((ArgumentError, TypeError), match=r"(option|argument) 'frobnicate'"):
        kind(model, lr=0.1, frobnicate=3)
    assert kind(model, lr=0.1, **({} if kind is optim.LBFGS else {"max_grad_norm": 1.0}))


def test_a_misspelled_option_says_what_was_meant() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(ArgumentError, match=r"SGD: .*'momentom'; did you mean 'momentum'"):
        optim.SGD(model, lr=0.1, momentom=0.9)
    with pytest.raises(
        ArgumentError, match=r"AdamW: .*'weight_decai'; did you mean 'weight_decay'"
    ):
        optim.AdamW(model, lr=0.1, weight_decai=0.1)


def test_an_optimizer_of_ones_own_has_any_options() -> None:
    class Own(optim.Optimizer):
        def __init__(self, params, lr, **options):
            super().__init__(params, lr, **options)

    class Plain(optim.Optimizer):
        pass

    class More(optim.SGD):
        def __init__(self, params, lr, more):
            super().__init__(params, lr, more=more)

    model = nn.Linear(2, 2)
    for made in (Own(model, 0.1, more=1), Plain(model, 0.1, more=1), More(model, 0.1, more=1)):
        assert made.groups[0].options["more"] == 1


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda m: optim.Adam(m, betas=0.9), "Adam: betas must be several numbers, got 0.9"),
        (lambda m: optim.AdamW(m, betas=None), "AdamW: betas must be several"),
        (lambda m: optim.Lion(m, betas=0.9), "Lion: betas must be several"),
        (lambda m: optim.Rprop(m, etas=1.0), "Rprop: etas must be several"),
        (lambda m: optim.Adam(m, eps=None), r"Adam: eps must be a number such as 1e-08.*None"),
        (lambda m: optim.SGD(m, momentum="0.9"), r"momentum must be a number.*'0\.9'"),
        (lambda m: optim.SGD([{"params": m, "weight_decay": None}]), "weight_decay must be a"),
        (
            lambda m: optim.SGD(nn.Linear(1, 1)).add_param_group({"params": m, "momentum": None}),
            "SGD: momentum must be a number",
        ),
    ],
)
def test_options_that_are_no_numbers(make, told) -> None:
    with pytest.raises(ArgumentError, match=told):
        make(nn.Linear(2, 2))


def test_groups_are_no_dicts() -> None:
    group = optim.Adam(nn.Linear(2, 2), lr=0.1).groups[0]
    with pytest.raises(TypeError, match=r"as it is in PyTorch; write group\.rate = "):
        group["lr"] = 0.5
    with pytest.raises(TypeError, match=r"write group\.rate$"):
        group["lr"]
    with pytest.raises(TypeError, match=r"write group\.options\['eps'\] = "):
        group["eps"] = 0.5
    with pytest.raises(TypeError, match=r"write \[s\.parameter for s in group\.slots\]"):
        group["params"]
    with pytest.raises(TypeError, match=r"write optimizer\.add_param_group"):
        group["params"] = []
    with pytest.raises(AttributeError, match=r"write group\.rate = 0\.1, or a schedule"):
        group.lr = 0.5
    assert group.lr(0) == 0.1


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("lr", r"'lr' is none of the options; write group\.rate = "),
        ("weigth_decay", "no option 'weigth_decay'; did you mean 'weight_decay'?"),
        ("zzz", "no option 'zzz'. There are: dampening, maximize, momentum, nesterov, weight"),
    ],
)
def test_an_option_that_there_is_not_is_not_passed_over(jit, name, told) -> None:
    w = nn.Parameter(it.ones(2))
    sgd = optim.SGD([w], lr=0.1)

    def step() -> None:
        sgd.step((w * w).sum().backward())

    run = compile(step) if jit else step
    for _ in range(3):
        run()
    before = w.tolist()
    sgd.groups[0].options[name] = 0.5
    with pytest.raises(ArgumentError, match=told):
        run()
    assert w.tolist() == before
    del sgd.groups[0].options[name]
    run()
    assert w.tolist() != before
    del sgd.groups[0].options["momentum"]
    with pytest.raises(ArgumentError, match="there is no momentum any more"):
        run()


def test_gradients_are_not_changed_in_place() -> None:
    w, b = nn.Parameter(it.ones(2)), nn.Parameter(it.ones(2))
    x = it.ones(2).require_grad()
    grads = (w * b * x).sum().backward()
    with pytest.raises(TypeError, match=r"never change.*Gradients\(\{\*\*grads, w: value\}\)"):
        grads[w] = it.zeros(2)
    with pytest.raises(TypeError, match=r"never change.*if k is not w"):
        del grads[w]
    # What the errors say to write, for tensors, too.
    masked = it.Gradients({**grads, w: it.zeros(2), x: grads[x] * 3.0})
    assert masked[w].tolist() == [0.0, 0.0]
    assert masked[x].tolist() == [3.0, 3.0]
    assert masked[b].tolist() == [1.0, 1.0]
    assert len(masked) == 3
    without = it.Gradients({k: g for k, g in grads.items() if k is not w})
    assert w not in without
    assert x in without
    assert set(without) == set(grads) - {w}
    assert [grads[k].tolist() for k in grads] == [[1.0, 1.0]] * 3
    for wrong in ("weight", ["w"], 0):
        with pytest.raises(OperandError, match=r"kept by cell or tensor, got .*; write grads\[w\]"):
            grads[wrong]


def test_a_loss_that_is_no_tensor() -> None:
    optimizer = optim.Adam(MODEL, lr=0.1)
    with pytest.raises(OperandError, match=r"Adam.backward_step: .*float; .*without float\(\)"):
        optimizer.backward_step(0.5)
    with pytest.raises(OperandError, match="got function; call it"):
        optimizer.backward_step(lambda: it.ones(()))


def test_rules_that_are_no_pairs() -> None:
    for rule in ("*.bias", ["bias"], ("bias",), ("bias", 0.1), True):
        with pytest.raises(
            ArgumentError, match="param_groups: rule 0 must be a pair of a selector"
        ):
            optim.param_groups(MODEL, rule)
