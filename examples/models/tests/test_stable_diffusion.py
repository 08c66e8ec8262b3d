"""Stable Diffusion beside diffusers: its parts, their gradients, samplers, and whole pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.autoencoder import Autoencoder
from models.clip_text import CLIPText, clip_tokenizer, padded_tokens
from models.samplers import DDIM, PLMS, SAMPLERS, Euler, schedule
from models.stable_diffusion import StableDiffusion, main
from models.unet import UNet

import ingle.tensor as it
from ingle.importer import UnsupportedError, WeightsError
from ingle.tensor.errors import ArgumentError

SCHEDULE = {
    "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000, "steps_offset": 1, "set_alpha_to_one": False, "clip_sample": False,
}  # fmt: skip


@pytest.fixture
def diffusers(hf: Any) -> Any:
    """The library, silent."""
    library = pytest.importorskip("diffusers")
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    return library


def written_tokenizer(folder: Path) -> None:
    """A vocabulary of letters and few merges, as CLIP's files are written."""
    folder.mkdir(parents=True, exist_ok=True)
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    merges = [("f", "o"), ("fo", "x</w>"), ("t", "h"), ("th", "e</w>"), ("a", "n")]
    words = [*letters, *(f"{c}</w>" for c in letters), *("".join(m) for m in merges),
             "<|startoftext|>", "<|endoftext|>"]  # fmt: skip
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}), "utf-8")
    lines = ["#version: 0.2", *(" ".join(m) for m in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), "utf-8")


def shaken(model: Any) -> Any:
    """The model with weights that are not nearly zero."""
    import torch

    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    return model.eval()


def text_encoder(hf: Any) -> Any:
    config = hf.CLIPTextConfig(
        vocab_size=519, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=20, bos_token_id=517, eos_token_id=518,
        hidden_act="quick_gelu",
    )  # fmt: skip
    return shaken(hf.CLIPTextModel(config))


def unet(diffusers: Any) -> Any:
    return shaken(diffusers.UNet2DConditionModel(
        sample_size=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), block_out_channels=(16, 32),
        layers_per_block=2, cross_attention_dim=32, attention_head_dim=4, norm_num_groups=8,
    ))  # fmt: skip


def vae(diffusers: Any) -> Any:
    return shaken(diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
    ))  # fmt: skip


@pytest.mark.slow
def test_the_text_encoder(hf: Any, saved: Any, agree: Any) -> None:
    import torch

    theirs = text_encoder(hf)
    ours = CLIPText.from_pretrained(saved(theirs))
    tokens = np.random.default_rng(0).integers(0, 500, (2, 20))
    tokens[:, -1] = 518
    want = theirs(torch.tensor(tokens)).last_hidden_state
    agree(ours, theirs, ours(it.asarray(tokens)), want)


@pytest.mark.slow
def test_the_unet(diffusers: Any, saved: Any, agree: Any) -> None:
    import torch

    theirs = unet(diffusers)
    ours = UNet.from_pretrained(saved(theirs))
    rng = np.random.default_rng(0)
    x, text = (rng.normal(size=s).astype(np.float32) for s in ((2, 4, 8, 6), (2, 5, 32)))
    steps = np.int64([3, 981])
    want = theirs(torch.tensor(x), torch.tensor(steps), torch.tensor(text)).sample
    agree(ours, theirs, ours(*map(it.asarray, (x, steps, text))), want)


@pytest.mark.slow
def test_the_autoencoder(diffusers: Any, saved: Any, agree: Any) -> None:
    import torch

    theirs = vae(diffusers)
    ours = Autoencoder.from_pretrained(saved(theirs))
    x = np.random.default_rng(0).normal(size=(2, 3, 12, 8)).astype(np.float32)
    want = theirs(torch.tensor(x)).sample
    agree(ours, theirs, ours(it.asarray(x)), want)
    means = theirs.encode(torch.tensor(x)).latent_dist.mean.detach().numpy() * 0.18215
    np.testing.assert_allclose(ours.encode(it.asarray(x)).numpy(), means, atol=1e-4)


def test_names_of_older_autoencoders() -> None:
    old = "decoder.mid_block.attentions.0.proj_attn.weight"
    assert Autoencoder.rename(old) == "decoder.mid_block.attentions.0.to_out.0.weight"
    assert Autoencoder.rename("encoder.conv_in.bias") == "encoder.conv_in.bias"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of diffusers
@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers(diffusers: Any, name: str, count: int) -> None:
    import torch

    kinds = {"ddim": "DDIM", "plms": "PNDM", "euler": "EulerDiscrete"}
    kind = getattr(diffusers, f"{kinds[name]}Scheduler")
    config = {k: v for k, v in SCHEDULE.items() if k in kind().config or k == "steps_offset"}
    theirs = kind(**config, **({"skip_prk_steps": True} if name == "plms" else {}))
    theirs.set_timesteps(count)
    ours = SAMPLERS[name].from_config(count, {**SCHEDULE, "skip_prk_steps": True})
    assert len(ours.steps) == len(theirs.timesteps)
    np.testing.assert_allclose(ours.steps, theirs.timesteps.numpy(), rtol=1e-6)
    np.testing.assert_allclose(ours.scale, float(theirs.init_noise_sigma), rtol=1e-4)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 4, 2, 2)).astype(np.float32) * np.float32(ours.scale)
    mine, other = it.asarray(x), torch.tensor(x)
    for i, step in enumerate(theirs.timesteps):
        noise = rng.normal(size=x.shape).astype(np.float32)
        shown = theirs.scale_model_input(other, step)
        np.testing.assert_allclose(ours.seen(mine, i).numpy(), shown.numpy(), rtol=1e-3, atol=1e-4)
        mine = ours.step(mine, it.asarray(noise), i)
        other = theirs.step(torch.tensor(noise), step, other).prev_sample
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-3, atol=1e-4)


def test_a_sampler_finds_a_picture_that_is_known() -> None:
    picture = it.asarray(np.float32([0.5, -1.0, 2.0]))
    alphas = schedule()
    for kind in (DDIM, PLMS, Euler):
        sampler = kind(25, alphas, end=1.0)
        x = it.asarray(np.float32([0.3, -0.2, 1.1]) * np.float32(sampler.scale))
        for i, number in enumerate(sampler.steps):
            left = float(alphas[int(number)])
            if kind is Euler:  # its pictures are not made smaller
                noise = (x - picture) / sampler.sizes[i]  # type: ignore[attr-defined]
            else:
                noise = (x - left**0.5 * picture) / (1 - left) ** 0.5
            x = sampler.step(x, noise, i)
        np.testing.assert_allclose(x.numpy(), picture.numpy(), atol=0.02)
    with pytest.raises(ArgumentError, match="0 steps of 1000"):
        DDIM(0, alphas)
    with pytest.raises(UnsupportedError, match="prediction_type='v_prediction'"):
        DDIM.from_config(5, {**SCHEDULE, "prediction_type": "v_prediction"})


@pytest.mark.slow
def test_tokens_are_those_of_transformers(hf: Any, tmp_path: Path) -> None:
    written_tokenizer(tmp_path)
    ours = clip_tokenizer(tmp_path)
    theirs = hf.CLIPTokenizer.from_pretrained(tmp_path)
    for text in ["the fox", "  The  FOX's 12 ants!?", "Ünter ßtraßen… 東京", "", "x" * 100]:
        want = theirs(text, padding="max_length", max_length=20, truncation=True).input_ids
        assert padded_tokens(ours, text, 20) == want


@pytest.fixture
def published(hf: Any, diffusers: Any, tmp_path: Path) -> Any:
    """A small pipeline of diffusers, and the folder that it was saved to."""
    folder = tmp_path / "published"
    written_tokenizer(folder / "tokenizer")
    pipe = diffusers.StableDiffusionPipeline(
        vae=vae(diffusers), text_encoder=text_encoder(hf), unet=unet(diffusers),
        tokenizer=hf.CLIPTokenizer.from_pretrained(folder / "tokenizer", model_max_length=20),
        scheduler=diffusers.PNDMScheduler(
            **{k: v for k, v in SCHEDULE.items() if k != "clip_sample"}, skip_prk_steps=True
        ),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    pipe.set_progress_bar_config(disable=True)
    pipe.save_pretrained(folder)
    written_tokenizer(folder / "tokenizer")
    return pipe, folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_pictures(published: Any) -> None:
    import torch

    pipe, folder = published
    ours = StableDiffusion.from_pretrained(folder)
    latents = np.random.default_rng(0).normal(size=(2, 4, 8, 8)).astype(np.float32)
    prompts = ["the fox", "an ant"]
    want = pipe(
        prompts, negative_prompt=["snow"] * 2, num_inference_steps=5, guidance_scale=5.0,
        latents=torch.tensor(latents), height=16, width=16, output_type="np",
    ).images  # fmt: skip
    got = ours(prompts, without="snow", count=5, guidance=5.0, size=(16, 16), latents=latents)
    assert got.shape == (2, 16, 16, 3)
    assert np.abs(got[0].astype(int) - got[1]).max() > 3
    np.testing.assert_allclose(got / 255, want, atol=1.5 / 255)


@pytest.mark.slow
def test_the_command(published: Any, tmp_path: Path, capsys: Any) -> None:
    from PIL import Image

    _, folder = published
    out = tmp_path / "fox.png"
    arguments = ["--weights", str(folder), "--steps", "2", "--size", "16", "20", "--seed", "3"]
    paths = main([*arguments, "--sampler", "euler", "--out", str(out), "the fox", "the ant"])
    assert [p.name for p in paths] == ["fox.png", "fox-1.png"]
    assert capsys.readouterr().out.split() == [str(p) for p in paths]
    with Image.open(out) as picture:
        assert picture.size == (20, 16)
    model = StableDiffusion.from_pretrained(folder)
    same = model(["the fox", "the ant"], count=2, size=(16, 20), sampler="euler", seed=3)
    with Image.open(paths[1]) as picture:
        np.testing.assert_array_equal(np.asarray(picture), same[1])
    for options, message in [
        ({"size": (10, 16)}, "multiples of 4"), ({"sampler": "dpm"}, "none of ddim, plms, euler"),
        ({"latents": np.zeros((1, 4, 2, 2)), "size": (16, 16)}, "latents must be"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            model(["x"], **options)
    with pytest.raises(WeightsError, match="tokenizer"):
        clip_tokenizer(tmp_path)
