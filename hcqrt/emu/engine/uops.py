"""The micro-op contract: what a lowered program is, and what each micro-op does, bit for bit, in every core.

A program is a flat array of records (`RECORD`). A warp (a wave) has as many lanes as the launch says: one of `WAVES`.
Each lane has `REGISTERS` registers of 32 bits and `PREDICATES` predicates. Lanes run in groups of equal position (index
of the next record), smallest position first. What an ISA keeps in which register is its lowering's own affair.

Operands. `src[i]` is read as `kind[i]` says: ZERO, REG (register number), IMM (the 32 bits), CONST (bank << 16 | byte
offset). An operand of 64 bits is the register pair n, n + 1 (low first), 8 bytes of a bank, IMM sign-extended when
flag SX_IMM else zero-extended. `d` is the destination register (pairs as above), NO_REG drops the result. Predicate
numbers: 0-6, PT = 7 always true (stores are dropped), UP n = 8 + n, 15 true, scratch from 16. `p`, `p2`, `p3` are
sources, negated by `*_neg`; `pd`, `pd2` destinations. An absent carry-in is (PT, negated).

Execution. A record runs on the lanes of the group whose guard (`guard`, `guard_neg`) is true; with flag FULL it runs
on all lanes of the warp, whatever group or guard lanes there are, if at least one of the group passes the guard. All
sources are read before anything is written. Flag FIRST marks the first record of an ISA instruction: it adds the
number of the group's lanes to the instruction count, which the launch's budget limits.

Floats. FTZ turns denormal inputs and results into zeros of their sign. NaN results are canonical: f32 0x7FFFFFFF,
f16 and bf16 0x7FFF; f64 gives the first NaN source (a, b, c) with the quiet bit set, 0x7FF8000000000000 without one.
ABS then NEG apply to sources before anything else. SAT clamps to [0, 1] after rounding, NaN becomes 0. Rounding is
`RN RM RP RZ` (nearest even, down, up, to zero), of the exact result. FMA is exact before its one rounding.

Memory faults are found per lane in lane order before any lane of the record has stored. Shared, local and constant
accesses outside their size, and misaligned ones, fault; so do global ones outside every range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

WAVES = (32, 64, 128)  # how many lanes a warp may have
REGISTERS = 512  # the last three can only be the further words of an operand
UNIFORM_BASE, SCRATCH_BASE = 264, 328  # of SASS: 0-254 GPRs, 264-327 uniform registers as splats, then scratch
PREDICATES = 32
PT, UP_BASE, UPT, SCRATCH_PREDICATE = 7, 8, 15, 16
BARRIER_REGISTERS = 16  # B0-B15, a lane mask per lane
NO_REG = 0xFFFF

ZERO, REG, IMM, CONST = 0, 1, 2, 3  # kinds of source

RECORD = np.dtype(
    [
        ("op", "<u2"),
        ("d", "<u2"),
        ("flags", "<u4"),
        ("mod", "<u4"),  # per op: comparison, LUT, function, formats: see OPS
        ("guard", "u1"),
        ("guard_neg", "u1"),
        ("p", "u1"),
        ("p_neg", "u1"),
        ("p2", "u1"),
        ("p2_neg", "u1"),
        ("p3", "u1"),
        ("p3_neg", "u1"),
        ("pd", "u1"),
        ("pd2", "u1"),
        ("kind", "u1", (4,)),
        ("width", "u1"),  # of memory ops: W_*
        ("space", "u1"),  # of memory ops: S_*
        ("src", "<u4", (4,)),
        ("target", "<u4"),  # position of a branch's target
        ("imm", "<i8"),  # constant addend, address offset, shift, special register …: see OPS
        ("pc", "<u8"),  # address of the ISA instruction
    ]
)

# flags
FIRST, FULL, SX_IMM = 1 << 0, 1 << 1, 1 << 2
INV_A, INV_B, INV_C = 1 << 3, 1 << 4, 1 << 5  # integer sources: bitwise not
NEG_A, NEG_B, NEG_C, ABS_A, ABS_B, ABS_C = (1 << n for n in range(6, 12))  # float sources
FTZ, SAT, SIGNED, HI, RIGHT, WRAP, WIDE = (1 << n for n in range(12, 19))  # WIDE: 64-bit value or type
A64, B64 = 1 << 19, 1 << 20  # memory: base a, base b are 64-bit (else zero-extended 32)
EX, NAN_WINS, SH, SX_A, BF16, F32_RESULT = (1 << n for n in range(21, 27))
ROUND_SHIFT = 27  # bits 28:27
RN, RM, RP, RZ = 0, 1, 2, 3  # as SASS encodes them

# comparisons: bit 0 less, 1 equal, 2 greater, 3 unordered counts as true (floats)
C_F, C_LT, C_EQ, C_LE, C_GT, C_NE, C_GE, C_T = range(8)
C_NUM, C_NAN = 7, 8  # floats: 7 is "both are numbers", 8 "one is a NaN", 9-14 the unordered versions, 15 true
B_AND, B_OR, B_XOR = 0, 1, 2  # how a comparison combines with p
BOOL_SHIFT = 4  # mod of compares: comparison 3:0, bool 5:4

# formats, for conversions: mod = destination | source << 4
F16, BF16_FORMAT, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64 = range(12)
FORMAT_SHIFT = 4

W_U8, W_S8, W_U16, W_S16, W_32, W_64, W_128 = range(7)
S_GLOBAL, S_SHARED, S_LOCAL, S_CONST, S_GENERIC = range(5)

# special functions (mod of MUFU); RCP64H and RSQ64H are refused by lowering
MUFU_COS, MUFU_SIN, MUFU_EX2, MUFU_LG2, MUFU_RCP, MUFU_RSQ, MUFU_SQRT, MUFU_TANH = 0, 1, 2, 3, 4, 5, 8, 9

# special registers (imm of S2R)
(SR_LANE, SR_TID_X, SR_TID_Y, SR_TID_Z, SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_NTID_X, SR_NTID_Y, SR_NTID_Z, SR_NCTAID_X,
 SR_NCTAID_Y, SR_NCTAID_Z, SR_MASK_EQ, SR_MASK_LT, SR_MASK_LE, SR_MASK_GT, SR_MASK_GE, SR_CLOCK_LO, SR_CLOCK_HI,
 SR_TIME_LO, SR_TIME_HI, SR_SMEM_SIZE, SR_SHARED_WINDOW_LO, SR_SHARED_WINDOW_HI, SR_WARP_ID, SR_SM_ID, SR_ZERO,
 SR_LOCAL_WINDOW_LO, SR_LOCAL_WINDOW_HI) = range(30)  # fmt: skip

# atomic operations (mod 3:0) and types (mod 7:4)
(AT_ADD, AT_MIN, AT_MAX, AT_INC, AT_DEC, AT_AND, AT_OR, AT_XOR, AT_EXCH, AT_CAS) = range(10)
(AT_U32, AT_S32, AT_U64, AT_S64, AT_F32) = range(5)
ATOMIC_TYPE_SHIFT = 4

SHFL_IDX, SHFL_UP, SHFL_DOWN, SHFL_BFLY = range(4)
VOTE_ALL, VOTE_ANY, VOTE_EQ = range(3)
BAR_SYNC, BAR_ARRIVE = range(2)
RED_AND, RED_OR, RED_XOR, RED_SUM, RED_MIN, RED_MAX = range(6)

# name -> what it does. a, b, c, e are sources 0-3, K is imm, cin is p, cin2 is p2 (1 when true).
OPS: dict[str, str] = {
    "NOP": "nothing",
    "MOV": "d = a; WIDE: pair",
    "SEL": "d = p ? a : b; WIDE: pairs",
    "BCAST": "every lane of the warp: d = a of the lowest lane of the group that passes the guard; use with FULL",
    "ADD3": "s = a' + b' + c' + K + cin + cin2 as unsigned 32-bit words in 64 bits (' = inverted by INV_*); d = low 32; "
    "pd = s >= 2^32, pd2 = s >= 2^33",
    "LEA": "v = a << K (low 32), HI: high 32 of ((SX_A ? sign-extended a : c:a) << K); v inverted by INV_A; "
    "s = v + b' + mod + cin; d = low 32; pd = s >= 2^32 (mod: constant addend 0-2)",
    "LOP3": "d = bitwise LUT mod(7:0) of index a << 2 | b << 1 | c; pd = d != 0",
    "PRMT": "d = bytes chosen from a (0-3) and c (4-7) by selector b; mod: 0 by nibble, bit 3 of a nibble replicates the "
    "byte's sign; 1 F4E 2 B4E 3 RC8 4 ECL 5 ECR 6 RC16 as PTX prmt",
    "SHF": "v = c:a (64 bits, a low); n = b, WRAP: & 63 (WIDE) or & 31, else at most 64 (WIDE) or 32; RIGHT: v >> n "
    "(SIGNED: arithmetic), else v << n; d = HI ? high 32 : low 32",
    "MAD": "d = a * b + c' + K + cin, low 32",
    "MADW": "d pair = a * b (SIGNED) + c pair + cin; pd = carry out of the unsigned 64-bit sum",
    "MADH": "d = high 32 of (a * b (SIGNED) + c pair + cin); pd = carry out",
    "IMNMX": "d = p ? min(a, b) : max(a, b), SIGNED",
    "IABS": "d = |a| as signed, 0x80000000 stays",
    "ISETP": "r = compare(a, b) by mod 3:0 (C_*), SIGNED; EX: a and b are the high words and p2 the low words' result, used "
    "where a == b (EQ: and, NE: or); pd = r bool p, pd2 = !r bool p, bool by mod 5:4; WIDE: 64-bit a and b",
    "POPC": "d = number of set bits of a'",
    "BREV": "d = bits of a reversed",
    "FLO": "d = position of the highest set bit of a' (SIGNED: of ~a' when negative), SH: 31 - position; 0xFFFFFFFF when "
    "there is none; pd = one was found",
    "BMSK": "d = b ones from bit a up; WRAP: a and b & 31, else at most 32",
    "SGXT": "d = low b bits of a, SIGNED: sign-extended; b at most 32, WRAP: & 31",
    "PLOP3": "i = p << 2 | p2 << 1 | p3; pd = bit i of mod 7:0, pd2 = bit i of mod 15:8",
    "P2R": "d = (a & ~K) | (predicates 0-6 as bits 0-6 & K)",
    "R2P": "predicate n = bit n of a where bit n of K is set, n 0-6",
    "VOTE": "over the lanes that run: d = word K (0-3) of the mask of lanes with p, 0 past the warp's last lane; "
    "pd = ALL/ANY/EQ by mod; FULL: stored to all lanes of the warp",
    "SHFL": "mod IDX UP DOWN BFLY, value a, lane b, c = clamp 7:0 | segment mask 15:8 (PTX shfl), all three modulo the number "
    "of lanes; d = the source lane's a, active or not, own a when out of range; pd = in range",
    "MATCH": "d = mask of running lanes whose a equals this lane's",
    "REDUX": "over the running lanes, by mod RED_*, SIGNED; stored to d of all lanes of the warp with FULL",
    "RGET": "d = the register of number n = a + K (32 bits), which must be in mod 15:0 to mod 31:16, both included; else "
    "fault `register` with n as its address",
    "RPUT": "the register of number n = b of this lane; n as RGET",
    "S2R": "d = special register K; clock and time are the launch's counters, the same in both cores",
    "FADD": "d = a + b", "FMUL": "d = a * b * 2^K, scaled before the one rounding", "FFMA": "d = fma(a, b, c)",
    "FMNMX": "d = p ? min : max; -0 < +0; a NaN loses, NAN_WINS: gives NaN; both NaN: NaN; FTZ",
    "FSETP": "as ISETP with float comparisons of 4 bits; FTZ",
    "FSET": "d = (compare bool p) ? (SAT: 1.0 else 0xFFFFFFFF) : 0",
    "MUFU": "d = f(a) by mod MUFU_*, special.py's float64 steps rounded once to f32; FTZ, SAT; SIN and COS in revolutions",
    "DADD": "pairs: d = a + b", "DMUL": "pairs: d = a * b", "DFMA": "pairs: d = fma(a, b, c)",
    "DSETP": "pairs: as FSETP", "DMNMX": "pairs: as FMNMX",
    "HADD2": "per half (or BF16): d = a + b; F32_RESULT: f32 sum of the low halves. Halves of a, b, c are chosen by mod 1:0, "
    "3:2, 5:4: 0 both as they are, 2 low twice, 3 high twice",
    "HMUL2": "as HADD2: d = a * b", "HFMA2": "as HADD2: d = fma(a, b, c)",
    "HMNMX2": "as HADD2, p, NAN_WINS and NaN as FMNMX",
    "HSETP2": "as HADD2 sources; comparison mod 11:8, bool mod 13:12; pd = low half's result bool p, pd2 = high half's "
    "bool p; mod 14 (.H_AND): pd = (low and high) bool p, pd2 = !(low and high) bool p",
    "F2F": "float to float by mod formats, rounding, FTZ, SAT; f16 and bf16 lie in the low half, d's upper half is 0; "
    "imm 1: take the high half of a",
    "F2I": "float to integer: rounded by the rounding mode, clamped to the type, NaN gives 0; 8 and 16 bits are extended "
    "to 32 by their sign; FTZ; imm 1: high half",
    "I2F": "integer to float, rounded; imm: byte (8-bit) or half (16-bit) of a to take",
    "FRND": "float to integral float of the same format, rounded by the mode",
    "F2FP": "d = convert(a) << 16 | convert(b), f32 to f16 or BF16",
    "LD": "address = a + b + K; d... = `width` from `space`; W_8/16 extended to 32; S_CONST: bank is src[2], K and a as offset",
    "ST": "as LD; stores c...",
    "ATOM": "address as LD; old = memory; memory = op(old, c) by mod; AT_CAS: c compared, e stored; d = old",
    "BRA": "lanes that pass the guard go to target; the others go on. A taken branch backwards switches groups "
    "when the program's patience is spent",
    "BRX": "go to the position of address (a pair) + K: resolved by the program's map; no position: illegal instruction",
    "BSSY": "barrier register K of the running lanes = mask of the group's lanes (a target is of no effect)",
    "BSYNC": "wait until every live lane of this lane's mask in register K waits too or has left; then go on together",
    "BREAK": "take the running lanes out of register K of all lanes in their masks",
    "BCLR": "barrier register K = 0",
    "WARPSYNC": "the lanes of mask a wait for each other",
    "EXIT": "the running lanes end, and leave every mask",
    "BAR": "block barrier number a, mod SYNC or ARRIVE, b = number of threads (0: all live threads, in warps)",
    "YIELD": "switch groups",
    "TRAP": "fault `trap`",
    "ILLEGAL": "fault `illegal instruction`",
}  # fmt: skip
NUMBERS: dict[str, int] = {name: number for number, name in enumerate(OPS)}
NAMES: tuple[str, ...] = tuple(OPS)


@dataclass
class Program:
    """Lowered code. `positions` maps the address of each instruction to its first record; execution starts at `entry`."""

    records: Any  # array of RECORD
    positions: dict[int, int]
    entry: int = 0
    # whether no result can depend on the order of threads: no atomics, barriers, shared memory, votes, shuffles, clocks
    independent: bool = False
    reasons: dict[int, str] = field(default_factory=dict)  # why an instruction is ILLEGAL, by address
    detail: dict[str, Any] = field(default_factory=dict)  # what cores keep with a program
    instruction_bytes: int = 16  # of the ISA: where the last instruction ends
    patience: int = 0  # how many branches backwards parts of a warp may take before its other lanes get a turn


def record(op: str, **fields: Any) -> Any:
    """One record with everything absent where `fields` says nothing: no guard, no result, no carry-ins, zero sources."""
    new = np.zeros((), RECORD)
    new["op"] = NUMBERS[op]
    new["d"] = NO_REG
    new["guard"] = new["p"] = new["p2"] = new["p3"] = new["pd"] = new["pd2"] = PT
    new["p_neg"] = new["p2_neg"] = 1
    for name, value in fields.items():
        new[name] = value
    return new


class InvalidProgram(ValueError):
    """A record breaks the contract: a bug of lowering, never of the code that was lowered."""
