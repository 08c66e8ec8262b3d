"""Metrics of images that need a trained net: its features say more of likeness than pixels do."""

from .afine import AFINE as AFINE
from .afine import AFINENet as AFINENet
from .dists import DISTS as DISTS
from .dists import DISTSNet as DISTSNet
from .frechet import FID as FID
from .inception import InceptionFeatures as InceptionFeatures
from .lpips import LPIPS as LPIPS
from .lpips import LPIPSNet as LPIPSNet
