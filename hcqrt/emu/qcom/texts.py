"""The files of sysfs and procfs that tell about KGSL and its memory."""

from __future__ import annotations

from hcqrt.emu.qcom.kgsl.options import KgslOptions

SYSFS = "/sys/class/kgsl/kgsl-3d0"
LEVEL_HZ = (710_000_000, 675_000_000, 596_000_000, 520_000_000, 414_000_000, 342_000_000, 257_000_000)  # fastest first
IDLE_TIMER_MS = 80
MAX_LEVEL, MIN_LEVEL = 0, len(LEVEL_HZ) - 1


def gpu_clock(level: int) -> str:
    return f"{LEVEL_HZ[level]}\n"


def driver_texts(options: KgslOptions) -> dict[str, str]:
    values: dict[str, str | int] = {
        "gpu_model": options.model,
        "gpuclk": LEVEL_HZ[MIN_LEVEL],
        "max_gpuclk": LEVEL_HZ[MAX_LEVEL],
        "gpu_available_frequencies": " ".join(str(hz) for hz in LEVEL_HZ),
        "idle_timer": IDLE_TIMER_MS,
        "max_pwrlevel": MAX_LEVEL,
        "min_pwrlevel": MIN_LEVEL,
        "num_pwrlevels": len(LEVEL_HZ),
        "force_clk_on": 0,
        "devfreq/governor": "msm-adreno-tz",
        "devfreq/cur_freq": LEVEL_HZ[MIN_LEVEL],
        "dispatch/drawobj_timeout": options.ib_timeout_ms,
        "dispatch/fault_throttle_time": options.fault_window_ms,
        "dispatch/fault_throttle_burst": options.fault_burst,
    }
    texts = {f"{SYSFS}/{name}": f"{value}\n" for name, value in values.items()}
    texts["/proc/meminfo"] = f"MemTotal:       {options.memory_bytes >> 10} kB\n"  # the GPU has no other memory
    return texts
