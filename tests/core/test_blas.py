"""numpy's products keep to the threads they were given."""

from tests.harness import python

ASKED = (
    "import ctypes\n"
    "import numpy as np\n"
    "from core.blas import limit_threads\n"
    "library = ctypes.CDLL(np._core._multiarray_umath.__file__)\n"
    "asked = getattr(library, 'scipy_openblas_get_num_threads64_', None)\n"
    "for threads in (1, 2, 1):\n"
    "    limit_threads(threads)\n"
    "    assert asked is None or asked() == threads\n"
    "print((np.ones((300, 300)) @ np.ones((300, 300)))[0, 0])\n"
)


def test_the_limit_is_kept_where_the_library_can_be_told():
    assert python(ASKED) == "300.0\n"
