"""Says which digit a picture shows: `python predict.py --checkpoint model.safetensors image.png`.

Needs ingle-tensor, ingle-nn, a backend and Pillow, and nothing of training.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from model import MODELS
from photo import PhotoError, read_digit

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import IngleError


def main() -> None:
    options = parse()
    try:
        with it.device(options.device or it.default_device()):
            model = load_model(options.checkpoint)
            for path in options.images:
                show(path, classify(model, read_digit(path)))
    except (PhotoError, IngleError) as error:
        sys.exit(f"error: {error}")


def load_model(path: Path) -> nn.Module:
    """The model that `train.py` wrote."""
    checkpoint = nn.load(path)
    name = checkpoint.metadata.get("model")
    if name not in MODELS:
        sys.exit(
            f"error: {path}: this checkpoint does not say which of {', '.join(MODELS)} it holds; "
            "give the model.safetensors that train.py wrote into its --out folder"
        )
    model = MODELS[name]()
    model.load_state_dict(checkpoint)
    return model.eval()


def classify(model: nn.Module, image: np.ndarray) -> np.ndarray:
    """The probability of each digit."""
    scores = model(it.asarray(image[None, None]))
    return np.asarray(it.softmax(scores, axis=-1)[0])


def show(path: Path, probabilities: np.ndarray) -> None:
    """Prints the digit, and how probable each is."""
    best = int(probabilities.argmax())
    print(f"{path}: {best} ({probabilities[best]:.1%})")
    for digit, probability in enumerate(probabilities):
        bar = "█" * round(40 * float(probability))
        print(f"  {digit}  {probability:6.1%}  {bar}".rstrip())


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Say which digit a picture shows.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="train.py's model")
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("images", type=Path, nargs="+", metavar="image", help="PNG, JPEG, …")
    return parser.parse_args()


if __name__ == "__main__":
    main()
