"""What a compute configuration says about ids: the registers that they go to, and the size of the last groups."""

from __future__ import annotations

from hcqrt.emu.engine.launch import Dim3
from hcqrt.emu.qcom.generation import NO_ID
from hcqrt.emu.qcom.reader import Reader

FIRST_HIGH, LAST_HIGH_VEC3 = 0xC0, 0xDD  # r48.x to r55.y: a vec3 fits


def system_registers(reader: Reader, full: int) -> dict[str, int]:
    """Where the group's and the fiber's numbers go. What lies below r48.x in the size and offset fields is ignored."""
    name = reader.generation.ids
    found = reader.fields(name)
    group_id, size, offset = found["WGIDCONSTID"], found["WGSIZECONSTID"], found["WGOFFSETCONSTID"]
    if group_id < FIRST_HIGH:
        raise reader.refuse(name, f"group id in register {group_id:#x}, it needs one from r48.x (0xc0) on")
    taken: set[int] = set()
    for what, register in (("group id", group_id), ("group size", size), ("group offset", offset)):
        if register == NO_ID or register < FIRST_HIGH:
            continue
        if register > LAST_HIGH_VEC3 or taken & {register, register + 1, register + 2}:
            raise reader.refuse(name, f"{what} in register {register:#x}: three do not fit there")
        taken |= {register, register + 1, register + 2}
    local_id, linear = found["LOCALIDREGID"], reader.fields("HLSQ_CS_CNTL_1")["LINEARLOCALIDREGID"]
    if local_id != NO_ID and local_id + 3 > 4 * full:
        raise reader.refuse(name, f"local id in register {local_id:#x}: three leave the footprint of {full} vec4")
    if linear != NO_ID and (linear >= 4 * full or local_id <= linear < local_id + 3):
        raise reader.refuse(
            "HLSQ_CS_CNTL_1", f"linear id in register {linear:#x}: outside {full} vec4, or on the local id"
        )
    return dict(group_id=group_id, group_size=size, group_offset=offset, local_id=local_id, linear_id=linear)


def last_group(reader: Reader, block: Dim3) -> Dim3:
    """Local size of the last group of each axis."""
    name = reader.generation.last_size
    if not name:
        return block
    found = reader.fields(name)
    last = found["LOCALSIZEX"] + 1, found["LOCALSIZEY"] + 1, found["LOCALSIZEZ"] + 1
    if any(part > whole for part, whole in zip(last, block, strict=True)):
        raise reader.refuse(name, f"a last group of {last}, groups have {block}")
    return last


def check_last_group(reader: Reader, block: Dim3, last: Dim3, ids: dict[str, int]) -> None:
    """No source says what sizes and linear ids are in a group that is shorter than the others."""
    if last == block:
        return
    given = [what for what in ("group_size", "group_offset") if FIRST_HIGH <= ids[what] < NO_ID]
    if ids["linear_id"] != NO_ID:
        given.append("linear_id")
    if given:
        asked = " and ".join(what.replace("_", " ") for what in given)
        raise reader.refuse(reader.generation.last_size, f"{asked} in a last group of {last} is not modelled")
