"""Compile every kernel for a GPU that need not be there. The interpreter accepts what the compiler refuses."""

from itertools import product

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from moca.kernels import adversary, batch_norm, descend, random, sphere, transform

HOPPER = GPUTarget("cuda", 90, 32)
TYPES = {
    **dict.fromkeys(
        ("end0", "end1", "end2", "groups", "channels", "learnt", "columns", "height", "width", "padding", "pixels"),
        "i32",
    ),
    **dict.fromkeys(("eps", "lam", "tiny", "keep", "take0", "take1", "take2"), "fp32"),
    **dict.fromkeys(("x", "y", "dy", "dz", "dx", "residual", "step", "moved"), "*bf16"),
    "old": "*i1",
    "heaviest": "*i64",
    "images": "*u8",
}


def check(kernel, constants, **types):
    """Everything that has no type is a pointer to float32."""
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else (TYPES | types).get(name, "*fp32") for name in names}
    fixed = {(names.index(name),): value for name, value in constants.items() if name in names}
    compiled = compile(ASTSource(kernel, signature, fixed), target=HOPPER)
    print(kernel.fn.__name__, len(compiled.asm["cubin"]))


tile = {"STRETCHES": 64, "TOGETHER": 8, "TILE_R": 128, "TILE_C": 32, "BLOCKS": 8}
equal = dict.fromkeys(("weights", "heaviest", "pixels"))
still = dict.fromkeys(("running_mean", "running_var", "keep", "take0", "take1", "take2"))
alone = {"residual": None}
cases = (  # each switch both ways; what they switch does not depend on each other
    (1, equal, True, (alone,)),
    (3, equal, False, ({}, alone | still)),
    (1, {}, False, (still,)),
    (1, {"pixels": 1}, True, (alone | still,)),
)
for batches, rows, relu, lists in cases:
    shape = tile | {"BATCHES": batches, "RELU": relu} | rows
    check(batch_norm._sums, {k: v for k, v in shape.items() if k not in ("RELU", "BLOCKS")})
    check(batch_norm._input_gradient, shape)
    for missing in lists:
        check(batch_norm._normalise, shape | missing)
    unmasked = {"y": None, "dz": None}  # what a residual was added to is looked up, and only for the ReLU
    for missing in ({}, unmasked) if relu else (unmasked,):
        check(batch_norm._gradient_sums, {k: v for k, v in shape.items() if k != "BLOCKS"} | missing)
for unit, missing in product((False, True), ({}, {"old": None})):
    check(sphere._displace, {"UNIT": unit, "BLOCK": 512} | missing)
    check(sphere._displace_gradient, {"UNIT": unit, "BLOCK": 512} | missing)
check(sphere._project, {"BLOCK": 512})
check(sphere._project_gradient, {"BLOCK": 512})
for digits, out in ((0, "*i64"), (23, "*fp32"), (52, "*fp64")):
    check(random._numbers, {"DIGITS": digits, "BLOCK": 256}, key="*i64", count="*i64", out=out, n="i32")
check(transform._transform, {"FLIP": True, "BLOCK": 1024}, n="i32")
check(descend._descend, {"BLOCK": 2048}, n="i32")
check(adversary._slope, {"BLOCK": 128}, y="*i64")
