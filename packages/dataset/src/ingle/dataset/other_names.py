"""What PyTorch, torchvision and torchaudio call what is here."""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import NoReturn

OTHERS = {
    "DataLoader": "Loader(dataset, batch_size, shuffle=True)",
    "TensorDataset": "ArrayDataset(x, y)",
    "random_split": "split(dataset, 0.8, 0.2, seed=0)",
    "default_collate": "collate(samples)",
    "WeightedRandomSampler": "Loader(..., weights=weights)",
    "DistributedSampler": "Loader(..., rank=rank, world_size=size)",
    "RandomSampler": "Loader(..., shuffle=True)",
    "SequentialSampler": "Loader(...), whose order is that of the dataset",
    "SubsetRandomSampler": "Loader(dataset.subset(indices), shuffle=True)",
    "ChainDataset": "a + b of streams",
    "MNIST": "mnist(folder)",
    "FashionMNIST": "fashion_mnist(folder)",
    "CIFAR10": "cifar10(folder)",
    "CIFAR100": "cifar100(folder)",
    "SPEECHCOMMANDS": "SpeechCommands(folder)",
    "AG_NEWS": "ag_news(folder)",
    "DBpedia": "dbpedia(folder)",
}

OPTIONS = {
    "num_workers": "write workers={value!r}",
    "collate_fn": "write collate=...",
    "pin_memory": 'write device="cuda", which sends batches ahead through such memory',
    "pin_memory_device": "write device=...",
    "persistent_workers": 'write worker_kind="processes", persistent={value!r}',
    "sampler": "write shuffle=True, weights=..., or Loader(dataset.subset(indices))",
    "batch_sampler": "write lengths=... for batches of like length",
    "generator": "write seed=..., on which each order depends",
    "prefetch_factor": "write prefetch={value!r}",
    "worker_init_fn": "leave it out; `augment` has a generator of its own for each batch",
    **dict.fromkeys(("timeout", "multiprocessing_context", "in_order"), "leave it out"),
}
"""What to write for options of PyTorch's `DataLoader`."""


def refuse(options: Mapping[str, object]) -> None:
    """Raises `TypeError` for options that a loader does not have."""
    for name, value in options.items():
        told = f"; {OPTIONS[name].format(value=value)}" if name in OPTIONS else ""
        raise TypeError(f"Loader: there is no argument {name}={value!r:.40}{told}")


class _Answering(ModuleType):
    """The class of this package, which needs none of Ingle's others."""

    def __getattr__(self, name: str) -> NoReturn:
        told = f", as PyTorch's has; here: {OTHERS[name]}" if name in OTHERS else ""
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r}{told}", name=name, obj=self
        )


sys.modules["ingle.dataset"].__class__ = _Answering
