"""The checks of `hcqrt smoke`, in order. Each takes the context and returns a detail to show, or raises."""

from __future__ import annotations

from hcqrt.tools import device_checks, kernel_checks, queue_checks
from hcqrt.tools.check_frame import Check

CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        device_checks.open_and_name,
        device_checks.submit_and_signal,
        device_checks.wait_for_host,
        device_checks.wait_across_queues,
        device_checks.timestamps,
        device_checks.copies_of_odd_sizes,
        device_checks.fill_on_device,
        device_checks.copy_2d,
        kernel_checks.kernel_fill,
        kernel_checks.kernel_vector_add,
        kernel_checks.kernel_saxpy,
        kernel_checks.kernel_matmul,
        kernel_checks.kernel_sum,
        kernel_checks.kernel_ids,
        kernel_checks.kernel_spill,
        kernel_checks.kernel_from_mesa,
        kernel_checks.image_copies,
        queue_checks.bound_queue,
        queue_checks.many_submissions,
        queue_checks.clean_close,
    )
}
