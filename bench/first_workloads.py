"""Workloads of the first calls of a process, in which a system compiles or plans."""

from __future__ import annotations

from dataclasses import replace

from model_workloads import gpt_shapes, mlp_step
from nets import convnet_shapes, unet_shapes
from workload import Workload, labelled, normal, tokens, weights

LENGTHS = 50
"""Batches of different lengths in a row."""


def first_calls() -> list[Workload]:
    """The first step, and the first three: some systems compile again, or later, in those. And
    fifty steps whose batches have another length each."""
    mlp = replace(mlp_step("first-call", 128), kind="first-call", flops=0.0, nbytes=0.0)
    lengths = {**mlp.options, "cache": "warm", "steps": LENGTHS, "shorter": 1}
    calls = [
        replace(
            mlp, name=f"first-call/{cache}" + (f"/{steps}-steps" if steps > 1 else ""),
            options={**mlp.options, "cache": cache, "steps": steps},
        )
        for steps in (1, 3)
        for cache in ("cold", "warm")
    ]  # fmt: skip
    calls.append(replace(mlp, name=f"first-call/{LENGTHS}-lengths", options=lengths))
    for layers in (8, 16, 32):
        gpt = replace(_small_gpt(layers), kind="first-call")
        calls += [
            replace(
                gpt, name=f"first-call/gpt-{layers}/{cache}",
                options={**gpt.options, "cache": cache, "steps": 3},
            )
            for cache in ("cold", "warm")
        ]  # fmt: skip
    return calls


def _small_gpt(layers: int) -> Workload:
    """One that takes longer to prepare than to run."""
    shapes = gpt_shapes(layers, 64, 256, 32)
    return Workload(
        f"gpt-{layers}", "train", "gpt", tokens(2, 32, 256), {"layers": layers, "heads": 4},
        weights(shapes),
    )  # fmt: skip


def stalls() -> list[Workload]:
    """The first six steps: plans are made in one of them."""
    convnet = Workload(
        "convnet", "train", "convnet", labelled(8, (3, 16, 16), 10), {"layers": 10},
        weights(convnet_shapes(10, 16)),
    )  # fmt: skip
    unet = Workload(
        "unet", "train", "unet", normal((8, 1, 16, 16), (8, 32), (8, 1, 16, 16)), {},
        weights(unet_shapes(16, 32)),
    )  # fmt: skip
    return [
        replace(
            w, name=f"stall/{name}", kind="stall", flops=0.0, nbytes=0.0,
            options={**w.options, "cache": "warm", "steps": 6},
        )
        for name, w in (
            ("mlp", mlp_step("mlp", 128)), ("gpt", _small_gpt(8)), ("unet", unet),
            ("convnet", convnet),
        )
    ]  # fmt: skip
