"""Systems of equations and decompositions of many small matrices, a matrix in each lane."""
