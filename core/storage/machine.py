"""What numba cannot say by itself: one unaligned load and store of a vector register."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def copy16(_context: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    """Copies `data[at:at + 16]` to `out[to:to + 16]`; no bound is checked."""
    signature = types.void(out, to, data, at)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        out_type, _, data_type, _ = signature.args
        target = context.make_array(out_type)(context, builder, values[0]).data
        source = context.make_array(data_type)(context, builder, values[2]).data
        register = ir.VectorType(ir.IntType(8), 16).as_pointer()
        source = builder.bitcast(builder.gep(source, [values[3]]), register)
        target = builder.bitcast(builder.gep(target, [values[1]]), register)
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return signature, generate
