"""From the text of a shipped ir3 kernel to its image: directives, names of constants, scheduling, registers in use."""

from __future__ import annotations

import re
import struct

from gen.cubin_writer import param_layout
from gen.ir3_schedule import registers, schedule
from gen.ir3_writer import Ir3Source, driver_params_vec4, write_ir3
from hcqrt.isa.ir3 import Instruction, assemble, decode

# words of the driver parameters (Mesa's ir3, compute)
DRIVER_WORDS = {
    "groups.x": 0, "groups.y": 1, "groups.z": 2, "size.x": 8, "size.y": 9, "size.z": 10,
}  # fmt: skip
SHARED_FILE, VEC4 = 0xC0, 4  # r48.x and beyond belong to the wave
# The hardware of later a6xx and of a7xx goes wrong without these behind the ends of predication. Source: Mesa's ir3
BEHIND = {"predf": "(rpt4)nop", "prede": "(rpt6)nop"}
# What Mesa's ir3 puts in front of the end of compute shaders of a7xx: (sy)(ss)(jp)lock, unlock. Source: ir3-cat7.xml
LOCKS = (0xFBC2_1000_0000_0000, 0xE3CA_0000_0000_0000)
END = 0x0300_0000_0000_0000
SETTINGS = ("shared", "private", "branches")
BINDINGS = {"image": "images", "texture": "textures"}


def constant(word: int) -> str:
    return f"c{word // 4}.{'xyzw'[word % 4]}"


def parse(source: str) -> tuple[str, dict[str, int]]:
    """(text with every {name} replaced by its constant register, what the directives say)."""
    said, names, sizes, lines = dict.fromkeys((*SETTINGS, *BINDINGS.values()), 0), [], [], []
    for line in source.splitlines():
        directive = re.match(r"\.(\w+)\s+(.*)", line)
        if directive is None:
            lines.append(line)
            lines += [BEHIND[word] for word in line.split()[:1] if word in BEHIND]
        elif directive[1] == "param":
            name, size = directive[2].split()
            names.append(name)
            sizes.append(int(size))
        elif directive[1] in SETTINGS:
            said[directive[1]] = int(directive[2], 0)
        elif directive[1] in BINDINGS:
            said[BINDINGS[directive[1]]] += 1
        else:
            raise SystemExit(f"unknown directive {line!r}")
    offsets = param_layout(sizes)
    said["param_bytes"] = max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)
    driver = 4 * driver_params_vec4(said["param_bytes"])
    places = {name: driver + word for name, word in DRIVER_WORDS.items()}
    for name, offset in zip(names, offsets, strict=True):
        places |= {name: offset // 4, f"{name}.hi": offset // 4 + 1}
    text = re.sub(r"\{([\w.]+)\}", lambda found: constant(places[found[1]]), "\n".join(lines))
    return text, said


def one(line: str) -> Instruction:
    """The instruction of a line; where it branches to does not matter here."""
    (word,) = assemble(re.sub(r"#\w+", "#0", line))
    return decode(word)


def footprint(instructions: list[Instruction], half: bool) -> int:
    """The highest vec4 of general registers that is named, -1 where none is."""
    named = (r for i in instructions for written in (False, True) for r in registers(i, written))
    return max((number // VEC4 for narrow, number in named if narrow == half and number < SHARED_FILE), default=-1)


def build(source: str, generation: int) -> bytes:
    """The image for chips of a6xx (6) or a7xx (7): what the kernels use is encoded alike on both, save how they end."""
    text, said = parse(source)
    words = assemble(schedule(text, one))
    instructions = [decode(word) for word in words]
    if generation == 7:
        assert words.index(END) == len(words) - 1, "branches over the end would miss their targets"
        words[-1:] = [*LOCKS, END]
    # the local and the group id take three registers, whether or not all are read
    full = max(footprint(instructions, half=False), 0)
    return write_ir3(
        Ir3Source(struct.pack(f"<{len(words)}Q", *words), full, footprint(instructions, half=True), **said)
    )
