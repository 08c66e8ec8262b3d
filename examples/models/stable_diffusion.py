"""Stable Diffusion, version 1; Rombach et al.: High-resolution image synthesis (2022).

`python -m models.stable_diffusion --weights FOLDER "a fox in the snow" --out fox.png`, where FOLDER
has the published folders `text_encoder`, `unet`, `vae`, `tokenizer` and `scheduler`, or is the URL
of such a folder. The licence of the published weights says what they may be used for.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

import ingle.nn as nn
import ingle.tensor as it
from ingle import importer
from ingle.autodiff import no_grad
from ingle.fusion import compile
from ingle.tensor import Tensor
from ingle.tensor.errors import ArgumentError

from .autoencoder import Autoencoder
from .clip_text import CLIPText, clip_tokenizer, padded_tokens
from .samplers import SAMPLERS, Sampler, noise
from .unet import UNet

PARTS = "text_encoder", "unet", "vae"
FILES = {
    "tokenizer": ("tokenizer.json", "vocab.json", "merges.txt"),
    "scheduler": ("scheduler_config.json",),
}
"""What is fetched of folders without weights."""


class StableDiffusion:
    """Pictures of texts.

    Args:
        tokenizer: CLIP's.
        text: its text encoder.
        unet: finds the noise in a picture.
        vae: makes pictures of what the U-Net works on.
        schedule: settings of the noise, as in a published `scheduler_config.json`.
    """

    def __init__(
        self, tokenizer: Tokenizer, text: CLIPText, unet: UNet, vae: Autoencoder,
        schedule: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.tokenizer, self.text, self.unet, self.vae = tokenizer, text, unet, vae
        self.schedule = dict(schedule)
        self._noise: Callable[[Tensor, Tensor, Tensor], Tensor] = compile(unet)

    @classmethod
    def from_pretrained(
        cls, source: str | os.PathLike[str], *, dtype: object = None, device: Any = None,
        checksums: Mapping[str, str] | None = None, progress: bool = True,
    ) -> StableDiffusion:  # fmt: skip
        """The models of a folder or URL.

        Args:
            source: of the folder with a folder for each part.
            dtype, device: of the models.
            checksums: SHA-256 by name, as `unet/diffusion_pytorch_model.safetensors`.
            progress: whether to show bars on a terminal.
        """
        folders = dict(_folders(source, checksums or {}, progress))
        options: Any = {"dtype": dtype, "device": device}
        return cls(
            clip_tokenizer(folders["tokenizer"]),
            CLIPText.from_pretrained(folders["text_encoder"], **options),
            UNet.from_pretrained(folders["unet"], **options),
            Autoencoder.from_pretrained(folders["vae"], **options),
            importer.read_config(folders["scheduler"], "scheduler_config.json"),
        )

    def __call__(self, prompts: Sequence[str], **options: Any) -> np.ndarray:
        """Pictures as (batch, height, width, channels) of bytes; takes what `steps` does."""
        *_, latents = self.steps(prompts, **options)
        with no_grad():
            found = self.vae.decode(latents).astype("float32").numpy()
        return np.round(np.clip(found / 2 + 0.5, 0, 1) * 255).astype(np.uint8).transpose(0, 2, 3, 1)

    def steps(
        self, prompts: Sequence[str], *, without: str = "", count: int = 50, guidance: float = 7.5,
        size: tuple[int, int] = (512, 512), sampler: str = "plms", seed: int | None = None,
        latents: np.ndarray | None = None,
    ) -> Iterator[Tensor]:  # fmt: skip
        """What becomes the pictures, after each step: (batch, channels, height / 8, width / 8).

        Args:
            prompts: a text for each picture.
            without: what shall not be seen.
            count: steps; PLMS takes one more.
            guidance: how much more than without the text; 1 takes the model at its word; Ho and
                Salimans: Classifier-free diffusion guidance (2022).
            size: height and width in pixels, multiples of 8.
            sampler: `ddim`, `plms` or `euler`.
            seed: of the noise that they begin with; another each time if None.
            latents: the noise itself.

        Raises:
            ArgumentError: a size, a count or a sampler that cannot be.
        """
        way = self._way(sampler, count)
        shape = self._shape(len(prompts), size)
        place = self.unet.conv_in.weight.raw
        x = noise(shape, seed) if latents is None else it.asarray(latents.astype(np.float32))
        if tuple(x.shape) != shape:
            raise ArgumentError(f"StableDiffusion: latents must be {shape}, got {tuple(x.shape)}")
        guided = guidance > 1
        with no_grad():
            text = self.read([*[without] * (len(prompts) * guided), *prompts])
            x = x.to_device(place.device).astype(place.dtype) * way.scale
            for i, number in enumerate(way.steps):
                shown = way.seen(x, i)
                shown = it.concat([shown, shown]) if guided else shown
                steps = it.full((shown.shape[0],), number, dtype="float32", device=place.device)
                seen = self._noise(shown, steps, text)
                if guided:
                    plain, told = it.chunk(seen, 2)
                    seen = plain + guidance * (told - plain)
                x = way.step(x, seen, i)
                yield x

    def read(self, texts: Sequence[str]) -> Tensor:
        """The vectors of texts, (batch, words, width)."""
        rows = [padded_tokens(self.tokenizer, text, self.text.length) for text in texts]
        device = self.unet.conv_in.weight.raw.device
        found: Tensor = self.text(it.asarray(np.array(rows, np.int32), device=device))
        return found

    def _way(self, name: str, count: int) -> Sampler:
        if name not in SAMPLERS:
            raise ArgumentError(
                f"StableDiffusion: sampler {name!r} is none of {', '.join(SAMPLERS)}"
            )
        return SAMPLERS[name].from_config(count, self.schedule)

    def _shape(self, batch: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
        factor = self.vae.factor
        # The U-Net halves it at each level but the last, and meets the halves again.
        least = factor << len(self.unet.down_blocks) - 1
        if not batch or any(n < least or n % least for n in size):
            raise ArgumentError(
                f"StableDiffusion: {batch} pictures of {size[0]} x {size[1]} pixels; give a prompt "
                f"at least, and multiples of {least}"
            )
        return batch, self.vae.latents, size[0] // factor, size[1] // factor


def _folders(
    source: str | os.PathLike[str], checksums: Mapping[str, str], progress: bool
) -> Iterator[tuple[str, Path]]:
    """The folder of each part on this machine, fetched if `source` is a URL."""
    for part in (*PARTS, *FILES):
        known = {
            name.removeprefix(f"{part}/"): digits
            for name, digits in checksums.items()
            if name.startswith(f"{part}/")
        }
        if isinstance(source, str) and source.startswith(("http://", "https://")):
            place: str | Path = f"{source.rstrip('/')}/{part}"
        else:
            place = Path(source) / part
        more: Any = {"files": FILES[part], "weights": False} if part in FILES else {}
        yield part, importer.fetch_pretrained(place, checksums=known, progress=progress, **more)


def save_picture(path: str | os.PathLike[str], pixels: np.ndarray) -> None:
    """Writes a picture of bytes, (height, width, 3), in the format of the path's suffix."""
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(pixels).save(data, format=Path(path).suffix[1:].upper().replace("JPG", "JPEG"))
    with nn.atomic_write(path) as file:
        file.write(data.getvalue())


def main(argv: Sequence[str] | None = None) -> list[Path]:
    """The command: writes a picture for each prompt, and returns the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompts", nargs="+", metavar="PROMPT")
    parser.add_argument("--weights", required=True, help="a folder, or the URL of one")
    parser.add_argument("--out", default="picture.png", help="later pictures get -1, -2, …")
    parser.add_argument("--without", default="", help="what shall not be seen")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--guidance", type=float, default=7.5)
    parser.add_argument(
        "--size", type=int, nargs=2, default=(512, 512), metavar=("HEIGHT", "WIDTH")
    )
    parser.add_argument("--sampler", choices=list(SAMPLERS), default="plms")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--device", help="such as numpy or cpu; the best installed if not given")
    parser.add_argument("--dtype", default="float32", help="what the weights are computed in")
    given = parser.parse_args(argv)
    with it.device(given.device or it.default_device()):
        model = StableDiffusion.from_pretrained(given.weights, dtype=given.dtype)
        pictures = model(
            given.prompts, without=given.without, count=given.steps, guidance=given.guidance,
            size=tuple(given.size), sampler=given.sampler, seed=given.seed,
        )  # fmt: skip
    out = Path(given.out)
    paths = [out.with_stem(f"{out.stem}-{i}") if i else out for i in range(len(pictures))]
    for path, pixels in zip(paths, pictures, strict=True):
        save_picture(path, pixels)
        print(path)
    return paths


if __name__ == "__main__":
    main()
