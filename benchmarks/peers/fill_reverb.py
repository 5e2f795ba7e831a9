"""Reverb: a table of transitions, its server in this process, written as Acme's adders write it.

What it holds is chunks of consecutive steps, compressed with snappy; an item only names its steps.
How long a chunk grows is set by how many steps the writer keeps within reach.
"""

from functools import partial
from itertools import islice

import numpy as np
import reverb
from measure import STACK, Recording, Step, check_full, main, stacks

TABLE = "transitions"
ACTED = ("action", "reward", "discount")
IN_FLIGHT = 200  # items on their way to the server at most: more than a chunk holds


def serve(transitions: int) -> reverb.Server:
    """A server of one uniform first-in first-out table."""
    table = reverb.Table(
        TABLE,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=transitions,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    return reverb.Server([table])


def open_writer(client: reverb.Client, reach: int, chunk: int) -> reverb.TrajectoryWriter:
    """A writer whose items reach so many steps back; `chunk` 0 leaves the length to Reverb."""
    writer = client.trajectory_writer(num_keep_alive_refs=reach)
    for name in ("obs", *ACTED) if chunk else ():
        writer.configure((name,), num_keep_alive_refs=reach, max_chunk_length=chunk)
    return writer


def close_step(writer: reverb.TrajectoryWriter, step: Step) -> None:
    """Completes the open step, which has its observation: the action, and what followed."""
    outcome = {"reward": np.float32(step.reward), "discount": np.float32(not step.terminated)}
    writer.append({"action": step.action, **outcome})


def name_item(writer: reverb.TrajectoryWriter, width: int) -> None:
    """Makes an item of the last `width` + 1 observations and the one action between the last two.

    The open step has its observation only: the action stands one before the last.
    """
    history = writer.history
    acted = {name: history[name][-2:-1] for name in ACTED}
    trajectory = {"obs": history["obs"][-width - 1 :], **acted}
    writer.create_item(TABLE, priority=1.0, trajectory=trajectory)
    writer.flush(IN_FLIGHT)


def fill(
    recording: Recording, transitions: int, width: int, reach: int, chunk: int
) -> reverb.Server:
    """A full table of items, `width` observations a state.

    `width` 1: stacks are written, as the environment hands them over. `width` 4: single frames
    are written, and five of them are an item.
    """
    server = serve(transitions)
    client = server.localhost_client()
    with open_writer(client, reach, chunk) as writer:
        for obs, next_obs, step in islice(stacks(recording, axis=-1), transitions):
            first, following = (obs, next_obs) if width == 1 else (step.frame, step.next_frame)
            if step.first:
                for _ in range(width - 1):
                    writer.append({"obs": first})
                writer.append({"obs": first}, partial_step=True)
            close_step(writer, step)
            writer.append({"obs": following}, partial_step=True)
            name_item(writer, width)
            if step.over:
                close_step(writer, step)  # an episode cannot end with a step left open
                writer.end_episode()
    check_full(client.server_info()[TABLE].current_size, transitions)
    return server


if __name__ == "__main__":
    modes = {
        "stacks": partial(fill, width=1, reach=2, chunk=0),
        "frames": partial(fill, width=STACK, reach=STACK + 1, chunk=0),
        "frames_chunk64": partial(fill, width=STACK, reach=64, chunk=64),
    }
    main("reverb", "dm-reverb", modes)
