"""Lines of the table that stand for several: the ways to name a resource, and to give a texture an offset."""

from __future__ import annotations

from collections.abc import Iterator

from . import table


def resource_lines() -> Iterator[str]:
    """Each line for descriptors by number, and for bindless ones: bit 8 set, base at 3:1."""
    for line in table.RESOURCE.strip().splitlines():
        template, fixed, other, fields, opcodes = line.split("|")
        yield line.replace("{base}", "")
        bindless = template.replace("{base}", ".base{base}")
        yield "|".join((bindless, f"{fixed} 8+1:1", other, f"{fields} base=u@1+3", opcodes))


def _descriptors(sampler: bool) -> Iterator[tuple[str, str, str, str]]:
    """Ways to name sampler and texture: suffix of the name, last operands, fixed bits, fields."""
    shown = ", s#{sampler}" if sampler else ""
    yield "", f"{shown}, t#{{texture}}", "", "texture=u@25+7" + (" sampler=u@21+4" if sampler else "")
    base = "base=u@47,19+2"
    for suffix, register, last in (
        ("", "mode=indirect@29+3 desc=R@21:yes", ""),
        (".base{base}", f"mode=bindless@29+3 {base} desc=R@21", ""),
        (".base{base}", f"mode=bindless_a1@29+3 {base} desc=R@21", ", a1.x"),
    ):
        yield f".s2en.{{mode}}{suffix}", f", {{desc}}{last}", "51+1:1", register
    fields = f"{base} texture=u@25+4" + (" sampler=u@21+4" if sampler else "")
    yield ".base{base}", f"{shown}, t#{{texture}}", "51+1:1 29+3:6", fields
    fields = base + (" sampler=u@21+8" if sampler else "")
    yield ".base{base}", f"{shown}, a1.x", "51+1:1 29+3:7", fields


def _texture_sources(count: int, immediate: bool) -> Iterator[tuple[str, str, str]]:
    """Ways to give coordinates: operands, fixed bits, fields. `count`: sources without the offset of flag o."""
    first = (", {src1}", "src1=R@1:src") if count else ("", "")
    second = first[0] + ", {src2}", f"{first[1]} src2=R@9:src"
    if count > 1:
        yield second[0], "", f"o=flag@52 {second[1]}"
        return
    yield first[0], "", f"o=flag@52=0 {first[1]}"
    yield second[0], "", f"o=flag@52=1 {second[1]}"
    if immediate:
        yield first[0] + "{offset}", "53+1:1", f"o=flag@52=0 offset=oz@9+8 {first[1]}"


def texture_lines() -> Iterator[str]:
    common = "3d=flag@48 a=flag@49 type=type@44+3 wrmask=mask@40+4 dst=R@32:type"
    for names, count, sampler in (
        (table.SAMPLED_OFFSET, 1, True),
        (table.SAMPLED, 1, True),
        (table.SAMPLED_TWO, 2, True),
        (table.TEXTURE_ONE, 1, False),
        (table.TEXTURE_NONE, 0, False),
    ):
        integer = names is table.SAMPLED_OFFSET
        flags, flag_fields = ("{v}", "v=flag@50 1d=flag@18~") if integer else ("{p}{s}", "p=flag@53 s=flag@50")
        for suffix, last, fixed, fields in _descriptors(sampler):
            for operands, more_fixed, sources in _texture_sources(count, integer):
                name = f"{{mem}}{{name}}{{3d}}{{a}}{{o}}{flags}{suffix}{'{1d}' if integer else ''}"
                text = f"{name} ({{type}})({{wrmask}}){{dst}}{operands}{last}"
                full = "full0" if "src" in operands else ""
                everything = f"{common} {flag_fields} {sources} {fields}"
                yield f"{text} | 61+3:5 {fixed} {more_fixed} | sy jp {full} | {everything} | 54+5 {names}"
