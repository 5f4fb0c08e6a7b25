"""Spellings of the enumerated fields, as the vendor's disassembler prints them. A value without a name is refused."""

from __future__ import annotations

from collections.abc import Sequence


def _listed(names: Sequence[str | None]) -> dict[int, str]:
    return {value: name for value, name in enumerate(names) if name is not None}


def _orders_75(kinds: dict[int, str]) -> dict[int, str]:
    scopes = ("CTA", "SM", "GPU", "SYS")
    return {4 * code + at: kind + scope for code, kind in kinds.items() for at, scope in enumerate(scopes)}


_FLOAT_COMPARE = ["LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU"]


# Enumeration -> field value -> name. "" prints nothing, nor does a name that starts with `_`. A field value that is
# not listed is refused.
ENUMS: dict[str, dict[int, str]] = {
    "usign": _listed(["U32", ""]),
    "usign_always": _listed(["U32", "S32"]),
    "usign8": _listed(["U8", ""]),
    "ssign": _listed(["", "S32"]),
    "vimnmx": _listed(["U32", ""]),
    "vimnmx_always": _listed(["U32", "S32"]),
    "icmp": _listed(["F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"]),
    "fcmp": _listed(["F", *_FLOAT_COMPARE, "T"]),
    "dcmp": _listed(["MIN", *_FLOAT_COMPARE, "MAX"]),
    "bool": _listed(["AND", "OR", "XOR"]),
    "bf": _listed(["", "BF"]),
    "round": _listed(["", "RM", "RP", "RZ"]),
    "round_int": _listed(["", "FLOOR", "CEIL", "TRUNC"]),
    "scale": _listed([None, "D8", "D4", "D2", "", "M2", "M4", "M8"]),
    "prmt": _listed(["", "F4E", "B4E", "RC8", "ECL", "ECR", "RC16"]),
    "shift_dir": _listed(["L", "R"]),
    "shift_type": _listed(["S64", "U64", "S32", "U32"]),
    "idp": {0: "4A", 1: "2A.LO", 3: "2A.HI"},
    "idp4_a": _listed(["U8", "S8"]),
    "idp2_a": _listed(["U16", "S16"]),
    "lop_mode": _listed(["", "PAND"]),
    "only32": {0: ""},
    "only16": {1: "F16"},
    # A register field that the instruction does not read; compilers write 0 or RZ.
    "unused": {0: "", 255: "_RZ"},
    "unused_p": {0: "", 7: "_PT"},
    "mufu": _listed(["COS", "SIN", "EX2", "LG2", "RCP", "RSQ", "RCP64H", "RSQ64H", "SQRT", "TANH"]),
    "mufu16": {0: "COS", 1: "SIN", 2: "EX2", 3: "LG2", 4: "RCP", 5: "RSQ", 8: "SQRT", 9: "TANH"},
    "half_type": {1: "F16", 2: "BF16"},
    # Conversions: two fields make one name.
    # f2f: dst + 8 * src, f2i: dst + 4 * signed, i2f: src + 4 * signed, frnd: src + 4 * dst
    "f2f": {0o21: "F16.F32", 0o12: "F32.F16", 0o24: "BF16.F32"},
    "f2f_75": {0o21: "F16.F32", 0o12: "F32.F16"},
    "f2f_64": {0o31: "F16.F64", 0o32: "F32.F64", 0o13: "F64.F16", 0o23: "F64.F32"},
    "f2i": {0: "U8", 1: "U16", 2: "U32", 4: "S8", 5: "S16", 6: ""},
    "f2i_any": {0: "U8", 1: "U16", 2: "U32", 3: "U64", 4: "S8", 5: "S16", 6: "", 7: "S64"},
    "f2i_64": {3: "U64", 7: "S64"},
    "f2i_src": {1: "F16", 2: ""},
    "f64": {3: "F64"},
    "i2f_dst": {1: "F16", 2: ""},
    "i2f_any_dst": {1: "F16", 2: "", 3: "F64"},
    "i2f": {0: "U8", 1: "U16", 2: "U32", 4: "S8", 5: "S16", 6: ""},
    "i2f_64": {3: "U64", 7: "S64"},
    "frnd": {5: "F16", 10: ""},
    "frnd_64": {15: "F64"},
    # Memory
    "access": _listed(["U8", "S8", "U16", "S16", "", "64", "128"]),
    "const_access": _listed(["U8", "S8", "U16", "S16", "", "64"]),
    "const_mode": _listed(["", "IL", "IS", "ISL"]),
    "evict": _listed(["EF", "", "EL", "LU", "EU", "NA"]),
    "prefetch": _listed(["", "LTC64B", "LTC128B", "LTC256B"]),
    "order_load": {0: "", 4: "CONSTANT", 5: "STRONG.SM", 7: "STRONG.GPU", 10: "STRONG.SYS", 12: "MMIO.SYS"},
    "order_store": {0: "", 5: "STRONG.SM", 7: "STRONG.GPU", 10: "STRONG.SYS", 12: "MMIO.SYS"},
    # sm_75: scope in the low two bits, constant, weak, strong or I/O above
    "order_load_75": _orders_75({0: "CONSTANT.", 1: "", 2: "STRONG.", 3: "MMIO."}),
    "order_store_75": _orders_75({1: "", 2: "STRONG.", 3: "MMIO."}),
    "order_atomic_75": _orders_75({1: "", 2: "STRONG."}),
    "order_atomic": {0: "", 5: "STRONG.SM", 7: "STRONG.GPU", 10: "STRONG.SYS", 12: "MMIO.SYS"},
    "order_async": {0: "", 4: "CONSTANT"},
    "atom": _listed(["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH"]),
    "red": _listed(["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"]),
    "atom_type": _listed(["", "S32", "64", "F32.FTZ.RN", "F16x2.RN", "S64", "F64.RN"]),
    "atom_type_90": _listed(["", "S32", "64", "S64"]),
    "fatom": _listed(["ADD", "MIN", "MAX"]),
    "fatom_type": {0: "F16x2.RN", 3: "BF16x2.RN", 9: "F32.FTZ.RN", 12: "F32.RN", 15: "F64.RN"},
    "cas_type": {0: "", 2: "64"},
    "shared_type": _listed(["", "S32", "64"]),
    "shared_cas": {0: "CAS", 1: "CAST", 3: "CAST.SPIN"},
    "cas": {0: "CAS"},
    "bypass": _listed(["BYPASS", ""]),
    "async_size_100": _listed(["", "64", "128"]),
    "async_size": {4: "", 5: "64", 6: "128"},
    "ldsm_shape": _listed(["M88", "MT88"]),
    "ldsm_count": _listed(["", "2", "4"]),
    "membar": _listed(["SC", "ALL", "", "MMIO"]),
    "scope": {0: "CTA", 1: "SM", 2: "GPU", 3: "SYS", 5: "VC"},
    "cctl": {0: "PF1", 1: "PF2", 2: "WB", 3: "IV", 5: "RS", 9: "PML2", 10: "DML2", 11: "RML2"},
    "cctl_all": {4: "IVALL"},
    "cache": _listed(["", "U", "C", "I"]),
    "space": _listed(["G", "L", "S"]),
    # Warp and control flow
    "vote": _listed(["ALL", "ANY", "EQ"]),
    "match_all": {0: "ALL"},
    "match_any": {1: "ANY"},
    "wide_match": _listed(["", "U64"]),
    "shfl": _listed(["IDX", "UP", "DOWN", "BFLY"]),
    "redux": _listed(["", "OR", "XOR", "SUM", "MIN", "MAX"]),
    "bar_sync": {0: "SYNC"},
    "bar_arrive": {1: "ARV"},
    "bar_red": {2: "RED"},
    "bar_op": _listed(["POPC", "AND", "OR"]),
    "cs2r": _listed(["32", ""]),
    "depth": _listed(["", "INC", "DEC"]),
    "converge": _listed(["", "RELIABLE", "RECONVERGENT"]),
    "converge_break": _listed(["", "RELIABLE"]),
    "exit": _listed(["", "KEEPREFCOUNT", "PREEMPTED"]),
    "ret": _listed(["REL", "ABS"]),
    "clear": {1: "CLEAR"},
    # Matrix
    "hmma_shape": _listed(["1688", "16816", "1684"]),
    "hmma_acc": _listed(["F16", "F32"]),
    "hmma_type": _listed(["", "BF16", "TF32"]),
    "bf16": _listed(["", "BF16"]),
    "pack16": _listed(["F16", "BF16"]),
    "pack_round": {0: "", 3: "RZ"},
}

# The value that source text means where it names none of an enumeration whose every value is printed.
WHEN_NOT_NAMED = {"order_load_75": 7, "order_store_75": 7}

# Flags that exclude each other.
EXCLUSIVE = (("FTZ", "FMZ"), ("RELU", "SAT"))

# Special registers (S2R, S2UR, CS2R).
SPECIAL = {
    0x00: "SR_LANEID", 0x01: "SR_CLOCK", 0x02: "SR_VIRTCFG", 0x03: "SR_VIRTID", 0x0f: "SR_ORDERING_TICKET",
    0x10: "SR_PRIM_TYPE", 0x11: "SR_INVOCATION_ID", 0x12: "SR_Y_DIRECTION", 0x13: "SR_THREAD_KILL",
    0x14: "SM_SHADER_TYPE", 0x15: "SR_DIRECTCBEWRITEADDRESSLOW", 0x16: "SR_DIRECTCBEWRITEADDRESSHIGH",
    0x17: "SR_DIRECTCBEWRITEENABLED", 0x18: "SR_SW_SCRATCH", 0x19: "SR_MACHINE_ID_1", 0x1a: "SR_MACHINE_ID_2",
    0x1b: "SR_MACHINE_ID_3", 0x1c: "SR_AFFINITY", 0x1d: "SR_INVOCATION_INFO", 0x1e: "SR_WSCALEFACTOR_XY",
    0x1f: "SR_WSCALEFACTOR_Z", 0x20: "SR_TID", 0x21: "SR_TID.X", 0x22: "SR_TID.Y", 0x23: "SR_TID.Z",
    0x25: "SR_CTAID.X", 0x26: "SR_CTAID.Y", 0x27: "SR_CTAID.Z", 0x28: "SR_NTID", 0x29: "SR_CirQueueIncrMinusOne",
    0x2a: "SR_NLATC", 0x2c: "SR_SM_SPA_VERSION", 0x2d: "SR_MULTIPASSSHADERINFO", 0x2e: "SR_LWINHI", 0x2f: "SR_SWINHI",
    0x30: "SR_SWINLO", 0x31: "SR_SWINSZ", 0x32: "SR_SMEMSZ", 0x33: "SR_SMEMBANKS", 0x34: "SR_LWINLO",
    0x35: "SR_LWINSZ", 0x36: "SR_LMEMLOSZ", 0x37: "SR_LMEMHIOFF", 0x38: "SR_EQMASK", 0x39: "SR_LTMASK",
    0x3a: "SR_LEMASK", 0x3b: "SR_GTMASK", 0x3c: "SR_GEMASK", 0x3d: "SR_REGALLOC", 0x3e: "SR_BARRIERALLOC",
    0x40: "SR_GLOBALERRORSTATUS", 0x42: "SR_WARPERRORSTATUS", 0x43: "SR_VIRTUALSMID", 0x44: "SR_VIRTUALENGINEID",
    0x50: "SR_CLOCKLO", 0x51: "SR_CLOCKHI", 0x52: "SR_GLOBALTIMERLO", 0x53: "SR_GLOBALTIMERHI", 0x54: "SR_ESR_PC",
    0x55: "SR_ESR_PC_HI", 0x60: "SR_HWTASKID", 0x61: "SR_CIRCULARQUEUEENTRYINDEX",
    0x62: "SR_CIRCULARQUEUEENTRYADDRESSLOW", 0x63: "SR_CIRCULARQUEUEENTRYADDRESSHIGH", 0x64: "SR_PM0",
    0x65: "SR_PM_HI0", 0x66: "SR_PM1", 0x67: "SR_PM_HI1", 0x68: "SR_PM2", 0x69: "SR_PM_HI2", 0x6a: "SR_PM3",
    0x6b: "SR_PM_HI3", 0x6c: "SR_PM4", 0x6d: "SR_PM_HI4", 0x6e: "SR_PM5", 0x6f: "SR_PM_HI5", 0x70: "SR_PM6",
    0x71: "SR_PM_HI6", 0x72: "SR_PM7", 0x73: "SR_PM_HI7", 0x74: "SR_SNAP_PM0", 0x75: "SR_SNAP_PM_HI0",
    0x76: "SR_SNAP_PM1", 0x77: "SR_SNAP_PM_HI1", 0x78: "SR_SNAP_PM2", 0x79: "SR_SNAP_PM_HI2", 0x7a: "SR_SNAP_PM3",
    0x7b: "SR_SNAP_PM_HI3", 0x7c: "SR_SNAP_PM4", 0x7d: "SR_SNAP_PM_HI4", 0x7e: "SR_SNAP_PM5", 0x7f: "SR_SNAP_PM_HI5",
    0x80: "SR_SNAP_PM6", 0x81: "SR_SNAP_PM_HI6", 0x82: "SR_SNAP_PM7", 0x83: "SR_SNAP_PM_HI7",
    0x84: "SR_VARIABLE_RATE", 0xff: "SRZ",
}  # fmt: skip
