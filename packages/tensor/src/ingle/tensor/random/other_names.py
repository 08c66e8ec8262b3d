"""What `numpy.random` and PyTorch call what is here."""

from ..other_names import answering, table

OTHERS = table("""
rand random: it.random.uniform(shape)
randn standard_normal: it.random.normal(shape)
integers: it.random.randint(low, high, shape)
randperm: it.random.permutation(n)
choice: it.take(x, it.random.randint(0, n, (count,)), axis=0)
shuffle: it.take(x, it.random.permutation(n), axis=0)
manual_seed: it.random.seed(0)
""")

answering("ingle.tensor.random", OTHERS)
