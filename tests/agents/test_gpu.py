"""What only a GPU shows: `pytest -m gpu` on a machine that has one."""

import numpy as np
import pytest
import torch

from agents.tensors import to_tensors

pytestmark = pytest.mark.gpu


def test_what_is_copied_to_a_gpu_is_what_was_sampled_even_if_its_memory_is_used_again():
    rng, device = np.random.default_rng(0), torch.device("cuda")
    columns = {
        "obs": rng.integers(0, 256, (256, 5, 84, 84)).astype(np.uint8)[:, :-1],
        "reward": rng.normal(size=256).astype(np.float32),
    }
    kept = {name: array.copy() for name, array in columns.items()}
    tensors = to_tensors(columns, device)
    for array in columns.values():
        array[...] = 0
    for name, tensor in tensors.items():
        assert tensor.device.type == "cuda"
        assert np.array_equal(tensor.cpu().numpy(), kept[name])
