"""Calls as Keras, Lightning and Trainer write them: what to write here for their arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from ingle.tensor.errors import ArgumentError
from ingle.tensor.other_names import table

P = ParamSpec("P")
R = TypeVar("R")

FIT = table("""
y: Loader(ArrayDataset(x, y), 32, shuffle=True), which goes by position
batch_size shuffle: it is the loader's: fit(Loader(data, 32, shuffle=True), epochs=3)
validation_data val_dataloaders eval_dataset: valid=Loader(data, 32)
validation_split: train, valid = dataset.split(data, 0.8, 0.2), and a Loader of each
train_dataloaders dataloader: it goes by position: fit(loader, epochs=3)
max_epochs n_epochs num_epochs num_train_epochs: epochs=3
initial_epoch ckpt_path resume_from_checkpoint: resume=True, or the path of a checkpoint
callbacks: Learner(model, optimizer, loss, callbacks=[...])
verbose: Learner(model, optimizer, loss, progress=False), or True for a bar
steps_per_epoch max_steps: a callback that calls learner.stop("enough", now=True)
class_weight: the loss's: nn.CrossEntropyLoss(weight=...)
sample_weight: Loader(data, 32, weights=...), or a loss of your own
validation_freq check_val_every_n_epoch val_check_interval: valid_every=500, in steps
""")
EVALUATE = table("""
y batch_size: it is the loader's: evaluate(Loader(ArrayDataset(x, y), 32))
dataloaders: it goes by position: evaluate(loader)
verbose: leave it out
""")
LEARNER = table("""
loss_fn loss_func criterion: loss=
optimizers: optimizer=
max_epochs num_train_epochs: fit(batches, epochs=3)
train_dataset train_dataloader: fit(Loader(data, 32, shuffle=True), epochs=3)
eval_dataset eval_dataloader: fit(batches, epochs=3, valid=Loader(data, 32))
lr learning_rate: the optimizer's: optim.Adam(model, lr=1e-3)
gradient_clip_val max_norm clipnorm: max_grad_norm=1.0
accumulate_grad_batches gradient_accumulation_steps: accumulate=4
fp16 bf16 amp: precision="bfloat16", or "float16"
logger report_to: loggers={"tensorboard": "runs/first"}
default_root_dir output_dir: checkpoints="runs/first"
accelerator device: model.to("cuda"), or with it.device("cuda"): around the program
""")

METRIC = table("""
task: leave it out; targets of class numbers or of labels say which it is
num_classes num_labels: leave it out; they are the last axis of the outputs
top_k: TopKAccuracy(k)
ignore_index: cut these out: metric.update(outputs[kept], targets[kept], loss)
from_logits: leave it out; scores are compared with one another, or with threshold=
""")
METHODS = table("""
predict: model.eval()(x), under autodiff.no_grad()
compile: leave it out; the optimizer, the loss and metrics are arguments of Learner
validate test score: learner.evaluate(batches)
train: learner.fit(batches, epochs=3)
save save_model save_checkpoint: nn.save(path, model), or Learner(..., checkpoints=folder)
load load_model load_checkpoint: nn.load(path, into=model), or fit(..., resume=path)
summary: nn.summary(model)
""")


def missing(name: str) -> AttributeError:
    """The error for an attribute that learners lack."""
    said = f"Learner has no attribute {name!r}"
    return AttributeError(f"{said}; write {METHODS[name]}" if name in METHODS else said, name=name)


def check_metric(kind: type, args: tuple[object, ...], options: Mapping[str, object]) -> None:
    """Raises in the name of a metric, where Python names the base that it has `__init__` from."""
    written = () if kind.__init__ is object.__init__ else _behind_self(kind.__init__)  # type: ignore[misc]
    takes = inspect.Signature(written)
    try:
        takes.bind(*args, **options)
    except TypeError as error:
        said = [f"instead of {name}=: {METRIC[name]}" for name in options if name in METRIC]
        told = "; ".join([f"{error}; it is {kind.__name__}{takes}", *said])
        raise ArgumentError(f"{kind.__name__}: {told}") from None


def _behind_self(method: Callable[..., object]) -> list[inspect.Parameter]:
    """What a method takes behind its object, without types."""
    _, *others = inspect.signature(method).parameters.values()
    return [p.replace(annotation=p.empty) for p in others]


def explained(
    options: Mapping[str, str], arrays: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A method whose error for arguments that it does not take says what to write.

    Args:
        options: what to write for those of others, by name.
        arrays: whether a second argument by position means targets beside inputs.
    """

    def wrapped(method: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(method)
        name = method.__qualname__.removesuffix(".__init__").split(".")[-1]
        placed = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]

        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError:
                if arrays and len(args) > len(placed):
                    raise ArgumentError(
                        f"{name}: batches are asked for, got {len(args) - 1} arguments; arrays "
                        f"become batches in {name}(Loader(ArrayDataset(x, y), 32), ...)"
                    ) from None
                for option in kwargs:
                    if option in options and option not in signature.parameters:
                        raise ArgumentError(
                            f"{name}: there is no {option}=; here: {options[option]}"
                        ) from None
                raise
            return method(*args, **kwargs)

        return call

    return wrapped
