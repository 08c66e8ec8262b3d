"""Linear algebra: the extension `linalg` of the Array API standard."""

from ..habits import install as _install_habits
from ..ops.linear_algebra.cholesky import cholesky as cholesky
from ..ops.linear_algebra.cholesky import cholesky_inverse as cholesky_inverse
from ..ops.linear_algebra.cholesky import cholesky_solve as cholesky_solve
from ..ops.linear_algebra.determinants import adjugate as adjugate
from ..ops.linear_algebra.determinants import det as det
from ..ops.linear_algebra.determinants import slogdet as slogdet
from ..ops.linear_algebra.eigen import eigh as eigh
from ..ops.linear_algebra.eigen import eigvalsh as eigvalsh
from ..ops.linear_algebra.eigen_general import eig as eig
from ..ops.linear_algebra.eigen_general import eigvals as eigvals
from ..ops.linear_algebra.least_squares import cond as cond
from ..ops.linear_algebra.least_squares import lstsq as lstsq
from ..ops.linear_algebra.least_squares import multi_dot as multi_dot
from ..ops.linear_algebra.linear_systems import inv as inv
from ..ops.linear_algebra.linear_systems import solve as solve
from ..ops.linear_algebra.lu import lu as lu
from ..ops.linear_algebra.lu import lu_factor as lu_factor
from ..ops.linear_algebra.lu import lu_permutation as lu_permutation
from ..ops.linear_algebra.lu import lu_solve as lu_solve
from ..ops.linear_algebra.matrix_exponential import matrix_exp as matrix_exp
from ..ops.linear_algebra.matrix_products import cross as cross
from ..ops.linear_algebra.matrix_products import matrix_power as matrix_power
from ..ops.linear_algebra.matrix_products import trace as trace
from ..ops.linear_algebra.norms import matrix_norm as matrix_norm
from ..ops.linear_algebra.norms import vector_norm as vector_norm
from ..ops.linear_algebra.products import matmul as matmul
from ..ops.linear_algebra.products import matrix_transpose as matrix_transpose
from ..ops.linear_algebra.products import outer as outer
from ..ops.linear_algebra.products import tensordot as tensordot
from ..ops.linear_algebra.products import vecdot as vecdot
from ..ops.linear_algebra.pseudo_inverse import matrix_rank as matrix_rank
from ..ops.linear_algebra.pseudo_inverse import pinv as pinv
from ..ops.linear_algebra.qr import qr as qr
from ..ops.linear_algebra.singular_values import svd as svd
from ..ops.linear_algebra.singular_values import svdvals as svdvals
from ..ops.linear_algebra.triangular_systems import solve_triangular as solve_triangular
from ..ops.movement.triangular import diagonal as diagonal
from . import other_names as _other_names

_install_habits(globals(), __name__)
