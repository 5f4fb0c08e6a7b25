"""Closing a device while others of its threads use it: they get an error, and touch no memory that is gone."""

from __future__ import annotations

import threading
import time

import pytest
from ir3image import ir3_image
from words import nop

from hcqrt.errors import HCQError

END = (0x0300_0000_0000_0000).to_bytes(8, "little") + bytes(248)  # one instruction, and nops


def test_closing_ends_a_wait_of_another_thread(qcom):
    """The memory that it looks at is unmapped."""
    never, texts = qcom.new_signal(), []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        with pytest.raises(HCQError) as caught:
            never.wait(1)
        texts.append(str(caught.value))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(10)
    time.sleep(0.05)
    qcom.close()
    thread.join(10)
    assert len(texts) == 1 and "closed" in texts[0]


def test_a_launch_that_waited_for_the_lock_meanwhile_touches_no_memory(qcom):
    program = qcom.program(ir3_image(END))
    program()
    (launch,) = program._launches.values()  # what a thread holds that is behind the checks
    queue = qcom.compute_queue().q(*nop(1))
    qcom.close()
    for call in (lambda: launch([], []), lambda: queue.submit(qcom), lambda: queue.bind(qcom)):
        with pytest.raises(HCQError, match="was closed; open it again"):
            call()
