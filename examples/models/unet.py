"""The U-Net of Stable Diffusion; Rombach et al.: High-resolution image synthesis (2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import ingle.nn as nn
import ingle.tensor as it
from ingle.tensor import Tensor

from .picture_blocks import Downsample, ResnetBlock, Transformer, Upsample
from .pretrained import Pretrained, require


class _Time(nn.Module):
    """The number of a step as waves, through two layers."""

    def __init__(self, waves: int, width: int) -> None:
        self.linear_1 = nn.Linear(waves, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, steps: Tensor) -> Tensor:
        half = self.linear_1.weight.shape[1] // 2
        dtype = self.linear_1.weight.dtype
        waves = it.arange(half, dtype="float32", device=steps.device)
        rates = it.exp(waves * (-math.log(10_000) / half))
        angles = it.expand_dims(steps.astype("float32"), 1) * rates
        waves = it.concat([it.cos(angles), it.sin(angles)], axis=1).astype(dtype)
        out: Tensor = self.linear_2(it.silu(self.linear_1(waves)))
        return out


class Level(nn.Module):
    """Blocks of one size, with attention behind each or none, and what changes the size."""

    def __init__(
        self, blocks: Sequence[ResnetBlock], attentions: Sequence[Transformer],
        down: Downsample | None = None, up: Upsample | None = None,
    ) -> None:  # fmt: skip
        if attentions:
            self.attentions = nn.ModuleList(attentions)
        self.resnets = nn.ModuleList(blocks)
        if down is not None:
            self.downsamplers = nn.ModuleList([down])
        if up is not None:
            self.upsamplers = nn.ModuleList([up])

    def attended(self, i: int, x: Tensor, text: Tensor) -> Tensor:
        """A picture behind the attention of that place, if there is one."""
        held = vars(self).get("attentions")
        found: Tensor = x if held is None or i >= len(held) else held[i](x, text)
        return found

    def moved(self, x: Tensor) -> Tensor:
        """A picture of the next level's size."""
        for name in ("downsamplers", "upsamplers"):
            for layer in vars(self).get(name, ()):
                x = layer(x)
        return x


class UNet(Pretrained):
    """The noise in a picture (batch, channels, h, w) at a step, for a text.

    Args:
        inputs, outputs: channels.
        widths: channels of each level.
        layers: blocks of each level on the way down; there is one more on the way up.
        attention: whether each level has attention, on the way down.
        heads: of each level.
        context: the width of the text's vectors.
        groups, eps: of the norms.
    """

    def __init__(
        self, inputs: int = 4, outputs: int = 4, widths: Sequence[int] = (320, 640, 1280, 1280),
        layers: int = 2, attention: Sequence[bool] = (True, True, True, False),
        heads: Sequence[int] = (8, 8, 8, 8), context: int = 768, groups: int = 32,
        eps: float = 1e-5,
    ) -> None:  # fmt: skip
        time, last = 4 * widths[0], len(widths) - 1

        def block(a: int, b: int) -> ResnetBlock:
            return ResnetBlock(a, b, groups, eps, time)

        def transformers(level: int, count: int) -> list[Transformer]:
            made = range(count if attention[level] else 0)
            return [Transformer(widths[level], heads[level], context, groups) for _ in made]

        self.conv_in = nn.Conv2d(inputs, widths[0], 3, padding=1)
        self.time_embedding = _Time(widths[0], time)
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        skipped = [widths[0]]
        for i, width in enumerate(widths):
            before = [skipped[-1], *[width] * (layers - 1)]
            down = Downsample(width, both=True) if i < last else None
            blocks = [block(a, width) for a in before]
            self.down_blocks.append(Level(blocks, transformers(i, layers), down))
            skipped += [width] * (layers + (i < last))
        end = widths[-1]
        middle = [Transformer(end, heads[-1], context, groups)]
        self.mid_block = Level([block(end, end), block(end, end)], middle)
        x = end
        for i in reversed(range(len(widths))):
            blocks = []
            for _ in range(layers + 1):
                blocks.append(block(x + skipped.pop(), widths[i]))
                x = widths[i]
            up = Upsample(x) if i else None
            self.up_blocks.append(Level(blocks, transformers(i, layers + 1), None, up))
        self.conv_norm_out = nn.GroupNorm(groups, widths[0], eps)
        self.conv_out = nn.Conv2d(widths[0], outputs, 3, padding=1)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        require(
            cls.__name__, config, _class_name="UNet2DConditionModel", act_fn="silu",
            flip_sin_to_cos=True, freq_shift=0, downsample_padding=1, mid_block_scale_factor=1,
            center_input_sample=False, use_linear_projection=False, class_embed_type=None,
            only_cross_attention=False, dual_cross_attention=False, addition_embed_type=None,
            transformer_layers_per_block=1, resnet_time_scale_shift="default",
        )  # fmt: skip
        widths, levels = config["block_out_channels"], config["down_block_types"]
        require(
            cls.__name__, {f"down_block_types[{i}]": kind for i, kind in enumerate(levels)},
            **{f"down_block_types[{i}]": ("CrossAttnDownBlock2D", "DownBlock2D")
               for i in range(len(levels))},
        )  # fmt: skip
        # What the configuration calls the width of a head is how many heads there are.
        heads = config.get("num_attention_heads") or config.get("attention_head_dim", 8)
        heads = heads if isinstance(heads, list) else [heads] * len(widths)
        return cls(
            config["in_channels"], config["out_channels"], widths, config["layers_per_block"],
            [kind.startswith("CrossAttn") for kind in levels], heads,
            config["cross_attention_dim"], config.get("norm_num_groups", 32),
            config.get("norm_eps", 1e-5),
        )  # fmt: skip

    def forward(self, x: Tensor, steps: Tensor, text: Tensor) -> Tensor:
        """The noise.

        Args:
            x: (batch, channels, h, w).
            steps: (batch,), numbers of steps.
            text: (batch, words, context).
        """
        time = self.time_embedding(steps)
        x = self.conv_in(x)
        kept = [x]
        for level in self.down_blocks:
            for i, block in enumerate(level.resnets):
                x = level.attended(i, block(x, time), text)
                kept.append(x)
            if "downsamplers" in vars(level):
                x = level.moved(x)
                kept.append(x)
        first, second = self.mid_block.resnets
        x = second(self.mid_block.attended(0, first(x, time), text), time)
        for level in self.up_blocks:
            for i, block in enumerate(level.resnets):
                x = level.attended(i, block(it.concat([x, kept.pop()], axis=1), time), text)
            x = level.moved(x)
        out: Tensor = self.conv_out(it.silu(self.conv_norm_out(x)))
        return out
