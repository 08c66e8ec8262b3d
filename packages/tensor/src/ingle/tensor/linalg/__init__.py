"""Linear algebra: the extension `linalg` of the Array API standard."""

from ..ops.cholesky import cholesky as cholesky
from ..ops.determinants import adjugate as adjugate
from ..ops.determinants import det as det
from ..ops.determinants import slogdet as slogdet
from ..ops.eigen import eigh as eigh
from ..ops.eigen import eigvalsh as eigvalsh
from ..ops.linear_algebra import matmul as matmul
from ..ops.linear_algebra import matrix_transpose as matrix_transpose
from ..ops.linear_algebra import outer as outer
from ..ops.linear_algebra import tensordot as tensordot
from ..ops.linear_algebra import vecdot as vecdot
from ..ops.linear_systems import inv as inv
from ..ops.linear_systems import solve as solve
from ..ops.matrix_products import cross as cross
from ..ops.matrix_products import matrix_power as matrix_power
from ..ops.matrix_products import trace as trace
from ..ops.norms import matrix_norm as matrix_norm
from ..ops.norms import vector_norm as vector_norm
from ..ops.pseudo_inverse import matrix_rank as matrix_rank
from ..ops.pseudo_inverse import pinv as pinv
from ..ops.qr import qr as qr
from ..ops.singular_values import svd as svd
from ..ops.singular_values import svdvals as svdvals
from ..ops.triangular import diagonal as diagonal
