"""Trains one head of attention by hand-written kernels: `python examples/custom_kernel/copying.py`.

The task is to copy: each position is to give the vector that stands at the position its query
names. --device says where; without a kernel for that device's language the body runs.
"""

import argparse

import numpy as np
from flash import flash_attention

import ingle.tensor as it
from ingle import nn, optim
from ingle.fusion import compile


class Copier(nn.Module):
    """Looks a row up by attention."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)

    def forward(self, asked: it.Tensor, names: it.Tensor, values: it.Tensor) -> it.Tensor:
        return flash_attention(self.query(asked), self.key(names), values)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", help="such as opencl or numpy; the best installed if not given")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    it.random.seed(0)
    rng = np.random.default_rng(0)
    names = np.eye(16, dtype=np.float32)[None].repeat(8, axis=0)
    with it.device(options.device or it.default_device()):
        model = Copier(16)
        optimizer = optim.Adam(model, lr=0.05)

        def step(asked: it.Tensor, values: it.Tensor, wanted: it.Tensor) -> it.Tensor:
            loss = it.mean((model(asked, it.asarray(names), values) - wanted) ** 2)
            optimizer.step(loss.backward())
            return loss

        quick = compile(step)
        for number in range(1, options.steps + 1):
            places = rng.integers(0, 16, (8, 24))
            values = rng.normal(size=(8, 16, 16)).astype(np.float32)
            wanted = np.take_along_axis(values, places[..., None], axis=1)
            asked = np.eye(16, dtype=np.float32)[places]
            loss = quick(*[it.asarray(x) for x in (asked, values, wanted)])
            if number == 1 or number % 50 == 0:
                print(f"step {number:4}  loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
