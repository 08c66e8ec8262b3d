"""What kernels ask of tensor cores, in CUDA C++ with PTX: products of small matrices of half types
among the threads of a warp (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions").

A thread has pairs of neighbouring elements in registers. With `g = lane / 4` and `t = lane % 4`, of
a left matrix of 16 rows and 16 columns it has rows g and g + 8, columns 2t and 2t + 1, then the
same 8 columns further; of a right matrix of 16 rows and 8 columns rows 2t and 2t + 1 of column g,
then 8 rows further; of the sums, 16 rows and 8 columns, rows g and g + 8, columns 2t and 2t + 1.
"""

from __future__ import annotations

from functools import lru_cache

FIRST_ARCHITECTURE = 80
"""Of GPUs that have all of these instructions."""
NAMES = {"float16": "f16", "bfloat16": "bf16"}
"""Of the half types in instructions."""


def has_tensor_cores(architecture: str) -> bool:
    """Whether a GPU has these instructions.

    >>> has_tensor_cores("sm_75"), has_tensor_cores("sm_90a")
    (False, True)
    """
    number = architecture.removeprefix("sm_").rstrip("af")
    return architecture.startswith("sm_") and int(number) >= FIRST_ARCHITECTURE


@lru_cache(maxsize=8)
def core_source(dtype: str) -> str:
    """The functions that hold these instructions.

    `add_product` adds the product of a left and a right matrix to sums. `load_four` loads four
    matrices of 8 by 8 from shared memory, each of whose rows lies where one of eight threads says;
    `load_four_turned` exchanges rows and columns of each. `copy_line` begins to copy 16 bytes into
    shared memory, or zeros; `end_copies` ends a group of such copies, and `wait_for_copies` waits
    for all groups but the last ones, and lets matrix instructions of warpgroups see what a thread
    wrote. `pair` rounds two numbers, and `power_of_two` is what its name says, within 2 ulp.
    """
    name = NAMES[dtype]
    return f"""\
static void add_product(float *sum, const uint32_t *left, uint32_t right0, uint32_t right1)
{{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 "
        "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}}
static void load_four(uint32_t *found, const uint16_t *row)
{{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0, %1, %2, %3}}, [%4];"
        : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
        : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}}
static void load_four_turned(uint32_t *found, const uint16_t *row)
{{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%0, %1, %2, %3}}, [%4];"
        : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
        : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}}
static void copy_line(uint16_t *to, const uint16_t *of, bool there)
{{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(of), "r"(there ? 16 : 0) : "memory");
}}
static void end_copies() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}
template <int LAST> static void wait_for_copies()
{{
    asm volatile("cp.async.wait_group %0;" :: "n"(LAST) : "memory");
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}}
static uint32_t pair(float low, float high)
{{
    uint32_t found;
    asm("cvt.rn.{name}x2.f32 %0, %1, %2;" : "=r"(found) : "f"(high), "f"(low));
    return found;
}}
static float power_of_two(float x)
{{
    float found;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
}}"""
