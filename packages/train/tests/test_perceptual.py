"""Metrics with a net, with random weights beside their reference implementations."""

import json

import numpy as np
import pytest
from metric_batches import gathered

import ingle.tensor as it
from ingle import nn
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.train import AFINE, DISTS, FID, LPIPS
from ingle.train.metrics.perceptual import AFINENet, DISTSNet, InceptionFeatures, LPIPSNet
from ingle.train.metrics.perceptual.frechet import frechet_distance

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(size=(2, 5, 3, 64, 48)).astype(np.float32)


def torch_state(module):
    return {name: it.asarray(value.numpy()) for name, value in module.state_dict().items()}


def alexnet(torch, net):
    """LPIPS on AlexNet in PyTorch's functions, with the weights of `net`."""
    f = torch.nn.functional
    state = {
        k: torch.from_numpy(np.array(it.asarray(v).numpy())) for k, v in net.state_dict().items()
    }

    def features(x):
        shift, scale = (
            torch.tensor(v).reshape(1, 3, 1, 1)
            for v in ([-0.03, -0.088, -0.188], [0.458, 0.448, 0.45])
        )
        x, found = (x - shift) / scale, []
        for slice_, layer, stride, padding, pool in (
            (1, 0, 4, 2, 0),
            (2, 3, 1, 2, 1),
            (3, 6, 1, 1, 1),
            (4, 8, 1, 1, 0),
            (5, 10, 1, 1, 0),
        ):
            x = f.max_pool2d(x, 3, 2) if pool else x
            name = f"net.slice{slice_}.{layer}"
            x = f.relu(f.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], stride, padding))
            found.append(x / (x.norm(dim=1, keepdim=True) + 1e-10))
        return found

    def distance(x, y):
        return sum(
            ((a - b) ** 2 * state[f"lin{i}.model.1.weight"]).sum(1).mean((1, 2))
            for i, (a, b) in enumerate(zip(features(x), features(y), strict=True))
        )

    return distance


@pytest.mark.slow
def test_lpips_is_that_of_its_formula():
    torch = pytest.importorskip("torch")
    net = LPIPSNet("alex")
    wanted = alexnet(torch, net)(2 * torch.from_numpy(X) - 1, 2 * torch.from_numpy(Y) - 1)
    found = gathered(LPIPS(net), X, Y, parts=(0, 1, None))
    assert found == pytest.approx(float(wanted.mean()), rel=1e-4)
    moved = gathered(LPIPS(net, low=-1, high=1), 2 * X - 1, 2 * Y - 1, parts=(0, None))
    assert moved == pytest.approx(found, rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trunk", ["alex", "squeeze", "vgg"])
def test_lpips_is_that_of_its_package(trunk):
    torch = pytest.importorskip("torch")
    lpips = pytest.importorskip("lpips", exc_type=ImportError)
    theirs = lpips.LPIPS(net=trunk, pretrained=False, pnet_rand=True, verbose=False)
    net = LPIPSNet(trunk)
    passed = net.load_state_dict(torch_state(theirs), strict=False)
    assert not passed.missing_keys
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(X), torch.from_numpy(Y), normalize=True).mean()
    assert gathered(LPIPS(net), X, Y, parts=(0, None)) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.slow
def test_dists_is_that_of_its_formula():
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    net = DISTSNet()
    state = {
        k: torch.from_numpy(np.array(it.asarray(v).numpy())) for k, v in net.state_dict().items()
    }
    edge = np.array([0.5, 1.0, 0.5]) / 2
    window = torch.from_numpy(np.outer(edge, edge).astype(np.float32))

    def features(x):
        found = [x]
        x = (x - state["mean"]) / state["std"]
        layer = 0
        for stage, count in enumerate((2, 2, 3, 3, 3), 1):
            if stage > 1:
                channels = x.shape[1]
                each = window.expand(channels, 1, 3, 3)
                x = (f.conv2d(x**2, each, stride=2, padding=1, groups=channels) + 1e-12).sqrt()
                layer += 1
            for _ in range(count):
                name = f"stage{stage}.{layer}"
                x = f.relu(f.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], padding=1))
                layer += 2
            found.append(x)
        return found

    like, start = 0.0, 0
    whole = state["alpha"].sum() + state["beta"].sum()
    for a, b in zip(*(features(torch.from_numpy(part[:2])) for part in (X, Y)), strict=True):
        end = start + a.shape[1]
        alpha, beta = (state[k][0, start:end, 0, 0] / whole for k in ("alpha", "beta"))
        start = end
        mean_a, mean_b = a.mean((2, 3)), b.mean((2, 3))
        var_a, var_b = a.var((2, 3), correction=0), b.var((2, 3), correction=0)
        both = ((a - mean_a[..., None, None]) * (b - mean_b[..., None, None])).mean((2, 3))
        like = like + (alpha * (2 * mean_a * mean_b + 1e-6) / (mean_a**2 + mean_b**2 + 1e-6)).sum(1)
        like = like + (beta * (2 * both + 1e-6) / (var_a + var_b + 1e-6)).sum(1)
    found = gathered(DISTS(net), X[:2], Y[:2], parts=(0, 1, None))
    assert found == pytest.approx(float((1 - like).mean()), rel=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dists_is_that_of_its_package(monkeypatch):
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torchvision.models", exc_type=ImportError)
    reference = pytest.importorskip("DISTS_pytorch", exc_type=ImportError)
    vgg16 = models.vgg16
    monkeypatch.setattr(models, "vgg16", lambda **options: vgg16(weights=None))
    theirs = reference.DISTS(load_weights=False)
    net = DISTSNet()
    net.load_state_dict(torch_state(theirs))
    wanted = theirs(torch.from_numpy(X), torch.from_numpy(Y), batch_average=True)
    found = gathered(DISTS(net), X, Y, parts=(0, 2, None))
    assert found == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_inception_is_that_of_piq(monkeypatch):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("piq.feature_extractors.fid_inception", exc_type=ImportError)
    made = []

    def state(*args, **options):
        return made[0].state_dict()

    original = theirs.models.inception_v3

    def random(**options):
        known = {k: v for k, v in options.items() if k in ("num_classes", "aux_logits")}
        return original(weights=None, init_weights=False, **known)

    monkeypatch.setattr(theirs.models, "inception_v3", random)
    first = original(weights=None, init_weights=False, num_classes=1008, aux_logits=False)
    for module in first.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    made.append(first)
    monkeypatch.setattr(theirs, "load_state_dict_from_url", state)
    wanted_net = theirs.InceptionV3(resize_input=True, normalize_input=True).eval()
    net = InceptionFeatures().eval()
    passed = net.load_state_dict(torch_state(first), strict=False)
    assert not passed.missing_keys
    with torch.no_grad():
        wanted = wanted_net(torch.from_numpy(X[:2]))[0].squeeze(-1).squeeze(-1).numpy()
    found = net(it.asarray(X[:2])).numpy()
    assert wanted.shape == (2, 2048)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4 * np.abs(wanted).max())


def test_the_frechet_distance_is_that_of_matrix_roots():
    linalg = pytest.importorskip("scipy.linalg")
    for width in (1, 5, 20):
        a, b = RNG.normal(size=(2, 3 * width, width)) @ RNG.normal(size=(width, width))
        b = b + 1
        cov_a, cov_b = (np.cov(x.T).reshape(width, width) for x in (a, b))
        root = np.real(linalg.sqrtm(cov_a @ cov_b))
        wanted = ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(cov_a + cov_b - 2 * root)
        found = frechet_distance(a.mean(0), cov_a, b.mean(0), cov_b)
        assert found == pytest.approx(wanted, rel=1e-6)


class Pixels(nn.Module):
    """Two colors of the first pixel, as features."""

    def forward(self, x):
        return x[:, :2, 0, 0]


def test_fid_gathers_means_and_covariances():
    drawn, true = RNG.normal(size=(50, 3, 2, 2)), 1 + 2 * RNG.normal(size=(50, 3, 2, 2))
    found = gathered(FID(Pixels()), drawn, true)
    a, b = drawn[:, :2, 0, 0], true[:, :2, 0, 0]
    wanted = frechet_distance(a.mean(0), np.cov(a.T), b.mean(0), np.cov(b.T))
    assert found == pytest.approx(wanted, rel=1e-9)
    metric = FID(Pixels())
    metric.update(it.asarray(drawn), it.asarray(true[:20]), 0.0)
    assert json.loads(json.dumps(metric.state()))["true"]["count"] == 20
    assert metric.fresh().drawn.count == 0


def test_the_net_is_as_before():
    class Noted(nn.Module):
        def __init__(self):
            self.modes = []

        def forward(self, x):
            self.modes.append(self.training)
            return x[:, :, 0, 0]

    net = Noted().train()
    FID(net).update(it.ones((2, 3, 2, 2)), it.ones((2, 3, 2, 2)), 0.0)
    assert net.modes == [False, False]
    assert net.training


def test_mistakes_are_explained():
    grey = it.ones((2, 1, 64, 64))
    with pytest.raises(ShapeError, match=r"LPIPS: images must have shape .* grey"):
        LPIPS(LPIPSNet("squeeze")).update(grey, grey, 0.0)
    with pytest.raises(ShapeError, match=r"FID: images must have shape .* grey"):
        FID(Pixels()).update(grey, grey, 0.0)
    with pytest.raises(
        ShapeError, match=r"FID: the net must give features of shape \(2, features\)"
    ):
        FID(nn.Identity()).update(it.ones((2, 3, 4, 4)), it.ones((2, 3, 4, 4)), 0.0)
    with pytest.raises(ArgumentError, match="at least 2 drawn images, got 0"):
        FID(Pixels()).compute()
    with pytest.raises(ArgumentError, match="trunk must be"):
        LPIPSNet("resnet")
    with pytest.raises(ArgumentError, match="low must be below high"):
        LPIPS(LPIPSNet("squeeze"), low=1, high=0)


def afine_in_pytorch(torch, net, layers):
    """A-FINE of one image beside another, by the formulas of the paper, in PyTorch and NumPy."""
    f = torch.nn.functional
    state = {k: torch.from_numpy(np.array(v.numpy())) for k, v in net.state_dict().items()}
    visual = "finetuned_clip.visual."
    mean, std = (
        torch.tensor(v).reshape(1, 3, 1, 1)
        for v in ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
    )

    def features(x):
        h = f.conv2d(x, state[visual + "conv1.weight"], stride=32).flatten(2).mT
        h = torch.cat([state[visual + "class_embedding"].expand(1, 1, -1), h], 1)
        places = state[visual + "positional_embedding"][None, None]
        places = f.interpolate(places, h.shape[1:], mode="bicubic", align_corners=False)[0]

        def norm(x, name):
            weight, bias = state[f"{visual}{name}.weight"], state[f"{visual}{name}.bias"]
            return f.layer_norm(x, weight.shape, weight, bias)

        h, found = norm(h + places, "ln_pre"), []
        for i in range(layers):
            at = f"{visual}transformer.resblocks.{i}."
            attend = torch.nn.MultiheadAttention(h.shape[-1], 1, batch_first=True)
            attend.load_state_dict(
                {k[len(at) + 5 :]: v for k, v in state.items() if k.startswith(at + "attn.")}
            )
            a = norm(h, f"transformer.resblocks.{i}.ln_1")
            h = h + attend(a, a, a)[0]
            a = norm(h, f"transformer.resblocks.{i}.ln_2")
            a = f.linear(a, state[at + "mlp.c_fc.weight"], state[at + "mlp.c_fc.bias"])
            a = a / (1 + torch.exp(-1.702 * a))
            h = h + f.linear(a, state[at + "mlp.c_proj.weight"], state[at + "mlp.c_proj.bias"])
            found.append(f.relu(h[0, 1:]))
        return [(x * std + mean)[0].flatten(1).T, *found]

    def natural(parts):
        rows = []
        for k, part in enumerate(parts):
            row = torch.cat([part.mean(0), part.var(0, correction=0)])
            if k:
                row = f.linear(row, *(state[f"natural.proj_feat.{n}"] for n in ("weight", "bias")))
            rows.append(row)
        row = torch.cat(rows)
        for n in (0, 2):
            row = f.gelu(row) if n else row
            row = f.linear(row, *(state[f"natural.proj_head.{n}.{k}"] for k in ("weight", "bias")))
        return scaled(row.item(), "natural_scale", (-np.inf, np.inf), (-np.inf, np.inf))

    def scaled(x, name, middles, widths):
        middle = np.clip(state[f"{name}.yita3"].item(), *middles)
        width = np.clip(state[f"{name}.yita4"].item(), *widths)
        return 4 / (1 + np.exp(-(x - middle) / abs(width))) - 2

    def fidelity(of_x, of_y):
        alpha, beta = (
            np.log1p(np.exp(state[f"fidelity.{n}"].numpy()[0, 0])) for n in ("alpha", "beta")
        )
        like = []
        for a, b in zip(of_x, of_y, strict=True):
            a, b = a.detach().double().numpy(), b.detach().double().numpy()
            means = (2 * a.mean(0) * b.mean(0) + 1e-10) / (a.mean(0) ** 2 + b.mean(0) ** 2 + 1e-10)
            both = ((a - a.mean(0)) * (b - b.mean(0))).mean(0)
            like.append((means, (2 * both + 1e-10) / (a.var(0) + b.var(0) + 1e-10)))
        means, varied = (np.concatenate(part) for part in zip(*like, strict=True))
        like = (alpha * means + beta * varied).sum() / (alpha.sum() + beta.sum())
        return scaled(1 - like, "fidelity_scale", (0.05, 0.95), (0.01, 0.70))

    def score(x, y):
        sides = [-(-side // 32) * 32 for side in x.shape[1:]]
        parts = [
            features(f.interpolate((one[None] - mean) / std, sides, mode="bicubic"))
            for one in (x, y)
        ]
        mine, other = map(natural, parts)
        k = np.log1p(np.exp(state["adapter.k"].item()))
        joined = np.exp(k * (other - mine)) * mine + fidelity(*parts)
        return 100 / (1 + np.exp(-(joined + 1.971) / 2.3734))

    return score


@pytest.mark.slow
def test_afine_is_that_of_its_formula():
    torch = pytest.importorskip("torch")
    it.random.seed(0)
    net = AFINENet(64, 2)
    net.fidelity_scale.yita3.value = it.asarray(2.0)  # beyond what it is kept between
    score = afine_in_pytorch(torch, net, 2)
    x, y = X[:3, :, :50], Y[:3, :, :50]
    wanted = [score(torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    found = net(it.asarray(x), it.asarray(y)).tolist()
    assert found == pytest.approx(wanted, rel=1e-4)
    assert gathered(AFINE(net), x, y, parts=(0, 1, None)) == pytest.approx(
        np.mean(wanted), rel=1e-4
    )
    assert net(it.asarray(y), it.asarray(x)).tolist() != pytest.approx(found, rel=1e-3)
    with pytest.raises(ShapeError, match="AFINE"):
        AFINE(net).update(it.asarray(x), it.asarray(x[:, :1]), 0.0)
