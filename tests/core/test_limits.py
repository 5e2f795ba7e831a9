"""Usable memory: the least of what the system says, control groups of both kinds included."""

from pathlib import Path

import psutil
import pytest

from core.limits import usable_memory

GB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_limits_it_is_the_free_memory(tmp_path: Path) -> None:
    usable = usable_memory(tmp_path)
    assert usable.by == "free memory"
    assert usable.bytes == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_limit_of_version_2_counts_what_is_used_less_what_can_be_given_back(
    tmp_path: Path,
) -> None:
    group = "sys/fs/cgroup/jobs/mine"
    files = {
        "proc/self/cgroup": "0::/jobs/mine\n",
        f"{group}/memory.max": f"{GB}\n",
        f"{group}/memory.current": f"{GB // 2}\n",
        f"{group}/memory.stat": f"anon 5\ninactive_file {GB // 4}\n",
    }
    usable = usable_memory(write(tmp_path, files))
    assert (usable.bytes, usable.by) == (GB - GB // 2 + GB // 4, "cgroup memory.max")


def test_the_limit_of_a_group_above_counts_too(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/jobs/mine\n",
        "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
        "sys/fs/cgroup/jobs/mine/memory.current": "1\n",
        "sys/fs/cgroup/jobs/memory.max": f"{GB}\n",
        "sys/fs/cgroup/jobs/memory.current": f"{GB // 2}\n",
    }
    assert usable_memory(write(tmp_path, files)).bytes == GB // 2


def test_a_limit_of_version_1(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n",
        # in a container the group's own path is not there, only the mount itself
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GB}\n",
        "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GB // 8}\n",
    }
    usable = usable_memory(write(tmp_path, files))
    assert (usable.bytes, usable.by) == (GB + GB // 8, "cgroup memory.limit_in_bytes")


def test_no_limit_of_version_1_is_a_number_near_2_to_the_63(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
    }
    assert usable_memory(write(tmp_path, files)).by == "free memory"


def test_a_limit_that_is_used_up_leaves_nothing(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{GB}\n",
        "sys/fs/cgroup/memory.current": f"{2 * GB}\n",
    }
    assert usable_memory(write(tmp_path, files)).bytes == 0
