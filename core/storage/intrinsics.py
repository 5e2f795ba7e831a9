"""What numba cannot say by itself: instructions of the machine, as LLVM names them."""

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


@intrinsic
def first_byte(_context: Any, word: Any) -> Any:
    """The place of the lowest byte that is not 0, of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = builder.cttz(values[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(zeros.type, 3))

    return types.int64(word), generate


@intrinsic
def last_byte(_context: Any, word: Any) -> Any:
    """The place of the highest byte that is not 0, of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = builder.ctlz(values[0], ir.Constant(ir.IntType(1), 1))
        place = builder.lshr(zeros, ir.Constant(zeros.type, 3))
        return builder.sub(ir.Constant(zeros.type, 7), place)

    return types.int64(word), generate
