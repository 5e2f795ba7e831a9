"""Reverb as it is read: a TrajectoryDataset over a table of transitions, or of windows.

`stacks` writes stacks as they are, `frames` single frames, of which stacks are views. Its threads
count as this process, for the server runs in it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import reverb
import tensorflow as tf
from fill_reverb import ACTED, IN_FLIGHT, TABLE, close_step, fill, open_writer
from fill_reverb import serve as table_of
from measure import STACK, Recording, check_full, load, stacks
from serve import Pair, Reads, Work, serve, settings

IN_ADVANCE = 2  # batches that its threads read ahead


def fill_windows(recording: Recording, count: int, width: int, length: int) -> reverb.Server:
    """A full table of windows of so many steps, one from each step that has so many after it.

    `width`: observations of a state, as `fill_reverb.fill` takes it.
    """
    server = table_of(count)
    client, reach, made = server.localhost_client(), length + width, 0
    with open_writer(client, reach, 0) as writer:
        for obs, next_obs, step in stacks(recording, axis=-1):
            first, following = (obs, next_obs) if width == 1 else (step.frame, step.next_frame)
            if step.first:
                steps = 0
                for _ in range(width - 1):
                    writer.append({"obs": first})
                writer.append({"obs": first}, partial_step=True)
            close_step(writer, step)
            writer.append({"obs": following}, partial_step=True)
            steps += 1
            if steps >= length:
                acted = {name: writer.history[name][-length - 1 : -1] for name in ACTED}
                trajectory = {"obs": writer.history["obs"][-reach:], **acted}
                writer.create_item(TABLE, priority=1.0, trajectory=trajectory)
                writer.flush(IN_FLIGHT)
                made += 1
            if step.over:
                close_step(writer, step)
                writer.end_episode()
            if made == count:
                break
    check_full(client.server_info()[TABLE].current_size, count)
    return server


def batches(
    server: reverb.Server, recording: Recording, size: int, width: int, length: int
) -> Iterator[Any]:
    """Endless batches of items of so many steps."""
    frame = (*recording.frames.shape[1:], *((STACK,) if width == 1 else ()))
    types = {"action": tf.int64, "reward": tf.float32, "discount": tf.float32}
    shapes = {name: tf.TensorShape((length,)) for name in types}
    dataset = reverb.TrajectoryDataset(
        server.localhost_client().server_address,
        TABLE,
        {**types, "obs": tf.uint8},
        {**shapes, "obs": tf.TensorShape((length + width, *frame))},
        max_in_flight_samples_per_worker=IN_ADVANCE * size,
        num_workers_per_iterator=1,
    )
    return iter(dataset.batch(size).as_numpy_iterator())


def states(obs: np.ndarray, width: int) -> np.ndarray:
    """Stacks `[B, T + 1, 4, H, W]` of what items hold, as views."""
    if width > 1:
        obs = np.lib.stride_tricks.sliding_window_view(obs, width, axis=1)
    return np.moveaxis(obs, -1, 2)


def reading(server: reverb.Server, recording: Recording, width: int, length: int) -> Reads:
    """Batches of the table."""

    def work(size: int) -> Work:
        source = batches(server, recording, size, width, length)
        return lambda: states(next(source).data["obs"], width)

    def look(size: int) -> Pair:
        found = work(size)()
        obs, next_obs = (
            part.reshape(-1, *part.shape[2:])[:size] for part in (found[:, :-1], found[:, 1:])
        )
        return obs, next_obs

    return Reads({"uniform": work, "windows": work}, look, length)


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    recording, count, length = load(Path(given["folder"])), given["count"], given["length"]
    width = 1 if given["mode"] == "stacks" else STACK
    if given["what"] == "windows":
        server = fill_windows(recording, count, width, length)
    else:
        server = fill(recording, count, width, reach=width + 1, chunk=0)
    serve("dm-reverb", recording, reading(server, recording, width, length), given)


if __name__ == "__main__":
    main()
