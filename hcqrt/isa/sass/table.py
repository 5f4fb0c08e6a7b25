# ruff: noqa: E501 - a table has one line per instruction
"""The instruction table: one line per instruction, with every field of its word.

Columns: mnemonic | opcode | suffix fields in printed order | operands in printed order [| chips].

opcode      12 bits, or `base/forms`: base = low 9 bits, forms = the digits that bits 11:9 may hold (1 register, 4
            immediate, 5 constant, 6 uniform register as B; 2, 3, 7 the last three as C, with B at bits 71:64).
suffix      `NAME@bit` flag, `NAME=v@bit` a flag that must be v · `name:enum@lsb+width` (names.py; several pieces with `,`, low bits first) ·
            `text"` a fixed piece of the mnemonic · `=lsb+width:value` bits that must hold a value other than zero.
            Bits that no field names must be zero.
operands    `name=kind`: R16 register at bit 16 · U16 uniform register · A register at 24 · S flexible slot · B, C second
            and third source, in the flexible slot or at 71:64 as the form says · P81 predicate, UP81 uniform one, `!90`
            its negation bit · EP68 either file · N72+8 number · I32+32 immediate · SR, B16, SB44 indices ·
            L38+16 constant address · Mxxx memory address and T target (rows.py).
            Modifiers of a source: `-` negation, `%` absolute value, `^` negation or `~` under .X, `~` not, `h` half, `m` high half;
            a number after one gives its bit, else the usual place. `:f32` is the kind of an immediate.
            `?` printed unless PT, RZ or 0 · `?+` printed, but source text may leave it out · `?FLAG` printed with that flag, `?!FLAG` without · `?<n` printed unless n.
chips       the chips of this line (families.py): `75`, `80-89`, `90-` and up, `-90` and below; none: all.
Sources: facts measured against the vendor disassembler, and Mesa's NAK for the roles of operands.
"""

from __future__ import annotations

INTEGER = """
MOV        | 002/1456    |                                              | d=R16 b=S:uint lanes=N72+4?<15
SEL        | 007/1456    |                                              | d=R16 a=A b=S:uint ps=P87!90
ISETP      | 00c/1456    | cmp:icmp@76+3 sign:usign@73+1 bool:bool@74+2 EX@72 | pd=P81 pd2=P84 a=A b=S ps=P87!90 ps3=P68!71?EX | 80-
ISETP      | 00c/1456    | cmp:icmp@76+3 sign:usign@73+1 bool:bool@74+2 EX@72 | pd=P81 pd2=P84 a=A b=S ps=P87!90 ps3=P68!71? | 75
IADD3      | 010/1456    | X@74                       | d=R16 pd=P81? pd2=P84? a=A^72 b=S^ c=C^ ps=P87!90?X ps2=P77!80?X | -90
IADD3      | 010/1456    | X@74                       | d=R16 pd=P81?+ pd2=P84?+ a=A^72 b=S^ c=C^ ps=P87!90?X ps2=P77!80?X | 100-
LEA        | 011/1456    | HI=0@80 X@74 SX32=0@73     | d=R16 pd=P81? a=A^72 b=S:uint^ c=C?HI shift=N75+5 ps=P87!90?X
LEA        | 011/1456    | HI=1@80 X@74 SX32@73       | d=R16 pd=P81? a=A^72 b=S:uint^ c=C?!SX32 shift=N75+5 ps=P87!90?X
LOP3       | 012/1456    | LUT" PAND@80                                 | pd=P81? d=R16 a=A b=S:uint c=C:uint lut=N72+8 ps=P87!90
IABS       | 013/1456    |                                              | d=R16 b=S
VABSDIFF   | 014/1237    | sign:usign@73+1                              | d=R16 pd=P81? a=A b=B:uint c=C:uint | -103
VABSDIFF4  | 015/1234567 | sign:usign8@73+1 ACC@75                      | d=R16 pd=P81? a=A b=B:uint c=C:uint | -103
UPRMT      | 096/u14     |                                              | d=R16 a=A b=B:uint c=C:uint
PRMT       | 016/1234567 | mode:prmt@72+3                               | d=R16 a=A b=B:uint c=C:uint
IMNMX      | 017/1456    | sign:usign@73+1                              | d=R16 a=A b=S ps=P87!90 | -103
IMNMX      | 017/1456    | sign:usign@73+1                              | pd=P81?+ pd2=P84?+ d=R16 a=A b=S ps=P87!90 ps2=P77!80?+ | 120-
SHF        | 019/1234567 | dir:shift_dir@76+1 W@75 type:shift_type@73+2 HI@80 | d=R16 a=A b=B:uint c=C:uint
SGXT       | 01a/1456    | W@75 sign:usign@73+1                         | d=R16 a=A b=S:uint
BMSK       | 01b/1456    | W@75                                         | d=R16 a=A b=S:uint
IMAD       | 024/1234567 | sign:usign@73+1 X@74 =81+3:7                 | d=R16 a=A b=B c=C^ ps=P87!90?X
IMAD.WIDE  | 025/134567  | sign:usign@73+1 X@74                         | d=R16 pd=P81? a=A b=B c=C^ ps=P87!90?X
IMAD.HI    | 027/134567  | sign:usign@73+1 X@74                         | d=R16 pd=P81? a=A b=B c=C^ ps=P87!90?X
VIADD      | 036/1456    |                                              | d=R16 a=A b=S:uint-              | 90-103
VIMNMX     | 048/1456    | type:vimnmx@72+3 =81+3:7 =84+3:7             | d=R16 a=A b=S ps=P87!90             | 90
VIMNMX     | 048/1456    | type:vimnmx@72+3                             | d=R16 pd=P81?+ pd2=P84?+ a=A b=S ps=P87!90 | 100-103
VIMNMX     | 048/1456    | type:vimnmx_always@72+3 =81+3:7 =84+3:7      | d=R16 a=A b=S ps=P87!90             | 120-
IDP.4A     | 026/156     | sign_a:idp4_a@73+1 sign_b:idp4_a@74+1        | d=R16 a=A b=S c=C-75
IDP.2A.LO  | 026/156     | sign_a:idp2_a@73+1 sign_b:idp4_a@74+1 =76+2:1 | d=R16 a=A b=S c=C-75
IDP.2A.HI  | 026/156     | sign_a:idp2_a@73+1 sign_b:idp4_a@74+1 =76+2:3 | d=R16 a=A b=S c=C-75
FLO        | 100/1456    | sign:usign@73+1 SH@74                        | d=R16 pd=P81? b=S:uint~
BREV       | 101/1456    |                                              | d=R16 b=S:uint
POPC       | 109/1456    |                                              | d=R16 b=S:uint~
UMOV       | 882         |                                              | d=U16 b=I32+32u
UMOV       | c82         | =91+1:1                                      | d=U16 b=U32
I2FP       | 045/1456    | F32" sign:usign_always@74+1 round:pack_round@78+2 =84+3:2 =75+3:2 | d=R16 b=S:fint | 80-
"""

FLOAT = """
FSEL       | 008/1456    | FTZ@80                                             | d=R16 a=A-% b=S:f32-% ps=P87!90
FMNMX      | 009/1456    | FTZ@80 unused:unused@64+8                                      | d=R16 a=A-% b=S:f32-% ps=P87!90 | 75
FMNMX      | 009/1456    | FTZ@80 NAN@81 unused:unused@64+8                                      | d=R16 a=A-% b=S:f32-% ps=P87!90 | 80-89
FMNMX      | 009/1456    | FTZ@80 NAN@81 XORSIGN@82 IS_A=0@65             | d=R16 a=A-% b=S:f32-% ps=P87!90 | 90-
FMNMX      | 009/1456    | FTZ@80 NAN@81 XORSIGN@82 IS_A=1@65 =64+1:1 =69+3:7 | d=R16 pd=P66 a=A-% b=S:f32-% ps=P87!90 | 90-
FSET       | 00a/1456    | BF" cmp:fcmp@76+4 FTZ@80 bool:bool@74+2 | d=R16 a=A-% b=S:f32-% ps=P87!90
FSETP      | 00b/1456    | cmp:fcmp@76+4 FTZ@80 bool:bool@74+2                | pd=P81 pd2=P84 a=A-% b=S:f32-% ps=P87!90
FMUL       | 020/1456    | FTZ@80 FMZ@76 scale:scale@84+3 round:round@78+2 SAT@77 unused:unused@64+8 | d=R16 a=A-% b=S:f32-%
FADD       | 021/1237    | FTZ@80 round:round@78+2 SAT@77 unused:unused@64+8 | d=R16 a=A-% b=S:f32-%
FFMA       | 023/1234567 | FTZ@80 FMZ@76 round:round@78+2 SAT@77              | d=R16 a=A-% b=B:f32-% c=C:f32-%
MUFU       | 108/1456    | op:mufu@74+4 type:only32@73+1                      | d=R16 b=S:fmufu-% | -89
MUFU       | 108/1456    | op:mufu@74+4 type:only32@72+2                      | d=R16 b=S:fmufu-% | 90-
MUFU       | 108/1456    | op:mufu16@74+4 type:only16@73+1                      | d=R16 b=S:f16s-%m60 | -89
MUFU       | 108/1456    | op:mufu16@74+4 type:half_type@72+2                 | d=R16 b=S:f16s-%m60 | 90-
FCHK       | 102/1456    |                                                    | pd=P81 a=A-% b=S:f32-%
DMUL       | 028/1456    | round:round@78+2                                   | d=R16 a=A-% b=S:f64-%
DADD       | 029/1237    | round:round@78+2                                   | d=R16 a=A-% b=C:f64-%
DSETP      | 02a/1237    | cmp:dcmp@76+4 bool:bool@74+2                       | pd=P81 pd2=P84 a=A-% b=S:f64-% ps=P87!90
DFMA       | 02b/1234567 | round:round@78+2                                   | d=R16 a=A-% b=B:f64-% c=C:f64-%
HADD2      | 030/1237    | F32=0@78 FTZ@80 SAT@77                         | d=R16 a=A-%h b=S:f16-%h
HADD2      | 030/1237    | F32=1@78 FTZ@80 SAT@77                      | d=R16 a=A-h b=S:f16s-%h
HFMA2      | 031/1234567 | BF16_V2@85 FTZ@80 FMZ@76 RELU@79 SAT@77            | d=R16 a=A-%h b=B:f16-84%83h81 c=C:f16-84%83h81 ps=P87!90?RELU&? | 80-
HFMA2      | 031/1234567 | FTZ@80 FMZ@76 SAT@77 unused:unused_p@87+3            | d=R16 a=A-%h b=B:f16-84%83h81 c=C:f16-84%83h81 | 75
HFMA2      | 035/1234567 | MMA" FTZ@80 FMZ@76 RELU@79 SAT@77                  | d=R16 a=A-% b=B:f16-84%83 c=C:f16-84%83 ps=P87!90?RELU&? | 80-90
HMUL2      | 032/1456    | FTZ@80 FMZ@76 SAT@77                        | d=R16 a=A-%h b=S:f16-%h
HSET2      | 033/1237    | result:bf@71+1 cmp:fcmp@76+4 FTZ@80 bool:bool@69+2 | d=R16 a=A-%h b=S:f16-%h ps=P87!90
HSETP2     | 034/1237    | cmp:fcmp@76+4 H_AND@71 FTZ@80 bool:bool@69+2       | pd=P81 pd2=P84 a=A-%h b=S:f16-%h ps=P87!90
HMNMX2     | 040/1456    | BF16_V2@85 FTZ@80 NAN@81 XORSIGN@82                | d=R16 a=A-%h b=S:f16-%h ps=P87!90 | 80-
F2FP       | 03e/1456    | SATFINITE@77 RELU@75 type:bf16@76+1 PACK_AB" round:pack_round@79+2 =64+8:255 | d=R16 a=A b=S:f32 | 80-87
F2FP       | 03e/1456    | SATFINITE@77 RELU@75 type:pack16@76+1 F32" PACK_AB" round:pack_round@79+2 =64+8:255 | d=R16 a=A b=S:f32 | 89-
"""

CONVERT = """
F2F        | 104/1456    | FTZ@80 format:f2f@75+3,84+2 round:round@78+2                 | d=R16 b=S:fsrc-%
F2F        | 110/1456    | FTZ@80 format:f2f_64@75+3,84+2 round:round@78+2              | d=R16 b=S:fsrc-%
F2I        | 105/1456    | FTZ@80 dst:f2i@75+2,72+1 src:f2i_src@84+2 round:round_int@78+2 NTZ@77     | d=R16 b=S:fsrc-%
F2I        | 111/1456    | FTZ@80 dst:f2i_any@75+2,72+1 src:f64@84+2 round:round_int@78+2 NTZ@77     | d=R16 b=S:fsrc-%
F2I        | 111/1456    | FTZ@80 dst:f2i_64@75+2,72+1 src:f2i_src@84+2 round:round_int@78+2 NTZ@77  | d=R16 b=S:fsrc-%
I2F        | 106/1456    | dst:i2f_dst@75+2 src:i2f@84+2,74+1 round:round@78+2          | d=R16 b=S:fint
I2F        | 112/1456    | dst:f64@75+2 src:i2f@84+2,74+1 round:round@78+2              | d=R16 b=S:fint
I2F        | 112/1456    | dst:i2f_any_dst@75+2 src:i2f_64@84+2,74+1 round:round@78+2   | d=R16 b=S:fint
FRND       | 107/1456    | FTZ@80 format:frnd@84+2,75+2 round:round_int@78+2            | d=R16 b=S:fsrc-%
FRND       | 113/1456    | FTZ@80 format:frnd_64@84+2,75+2 round:round_int@78+2         | d=R16 b=S:fsrc-%
"""

# The uniform datapath mirrors the vector one, field for field: name -> (vector row, base, forms).
UNIFORM = {
    "USEL": ("SEL", 0x087, "14"), "UISETP": ("ISETP", 0x08C, "14"),
    "UIADD3": ("IADD3", 0x090, "14"), "ULEA": ("LEA", 0x091, "14"), "ULOP3": ("LOP3", 0x092, "14"),
    "USHF": ("SHF", 0x099, "124"), "USGXT": ("SGXT", 0x09A, "14"),
    "UBMSK": ("BMSK", 0x09B, "14"), "UIMAD": ("IMAD", 0x0A4, "124"), "UIMAD.WIDE": ("IMAD.WIDE", 0x0A5, "14"),
    "UFLO": ("FLO", 0x0BD, "14"), "UBREV": ("BREV", 0x0BE, "14"),
    "UPOPC": ("POPC", 0x0BF, "14"),
}  # fmt: skip

MEMORY = """
LDG     | 381 | E@72 evict:evict@84+3 prefetch:prefetch@68+2 type:access@73+3 order:order_load@77+4          | pd=P81? d=R16 addr=M
LDG     | 981 | =72+1:1 E" evict:evict@84+3 prefetch:prefetch@68+2 type:access@73+3 order:order_load@77+4    | pd=P81? d=R16 addr=MU32 | 80-
LDG     | 981 | =72+1:1 E" evict:evict@84+3 prefetch:prefetch@68+2 type:access@73+3 order:order_load@77+4    | pd=P81? d=R16 addr=MV32 | 75
STG     | 386 | E@72 evict:evict@84+3 type:access@73+3 order:order_store@77+4                                 | addr=M data=R32
STG     | 986 | =72+1:1 E" evict:evict@84+3 type:access@73+3 order:order_store@77+4                           | addr=MU64 data=R32 | 80-
STG     | 986 | =72+1:1 E" evict:evict@84+3 type:access@73+3 order:order_store@77+4                           | addr=MV64 data=R32 | 75
LD      | 980 | =72+1:1 E" evict:evict@84+3 prefetch:prefetch@68+2 type:access@73+3 order:order_load@77+4    | d=R16 addr=MU32 | 80-
LD      | 980 | =72+1:1 E" evict:evict@84+3 prefetch:prefetch@68+2 type:access@73+3 order:order_load@77+4    | d=R16 addr=MV32 | 75
LD      | 980 | E@72 evict:evict@84+3 prefetch:prefetch@68+2 type:access@73+3 order:order_load@77+4          | d=R16 addr=ML
ST      | 385 | E@72 evict:evict@84+3 type:access@73+3 order:order_store@77+4                           | addr=ML data=R64
ST      | 985 | =72+1:1 E" evict:evict@84+3 type:access@73+3 order:order_store@77+4                           | addr=MU64 data=R32 | 80-
ST      | 985 | =72+1:1 E" evict:evict@84+3 type:access@73+3 order:order_store@77+4                           | addr=MV64 data=R32 | 75
LDL     | 983 | evict:evict@84+3 type:access@73+3                            | d=R16 addr=MS32
STL     | 387 | evict:evict@84+3 type:access@73+3                            | addr=M data=R32
LDS     | 984 | type:access@73+3                                             | d=R16 addr=MX32 | 80-
LDS     | 984 | U@76 type:access@73+3                                        | d=R16 addr=MX32 | 75
STS     | 388 | type:access@73+3                                             | addr=MX data=R32
STS     | 988 | type:access@73+3                                             | addr=MY64 data=R32
ATOMS   | 38c | op:atom@87+4 type:shared_type@73+2                           | d=R16 addr=MX data=R32 | 80-
ATOMS   | 38c | op:atom@87+4 type:shared_type@73+2 unused:unused@64+8 | d=R16 addr=MX data=R32 | 75
ATOMS   | 98c | op:atom@87+4 type:shared_type@73+2                           | d=R16 addr=MY64 data=R32
ATOMS   | 38d | op:shared_cas@87+2 type:shared_type@73+2                     | d=R16 addr=MX cmp=R32 data=R64
ATOMG   | 3a8 | E@72 op:atom@87+4 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=M data=R32 | 80-89
ATOMG   | 3a8 | E@72 op:atom@87+4 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | pd=P81 d=R16 addr=M data=R32 | 90-
ATOMG   | 3a8 | E@72 op:atom@87+4 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 unused:unused@64+8 | pd=P81 d=R16 addr=M data=R32 | 75
ATOMG   | 9a8 | =72+1:1 E" op:atom@87+4 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=MA data=R32 | 80-89
ATOMG   | 9a8 | =72+1:1 E" op:atom@87+4 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | pd=P81 d=R16 addr=MA data=R32 | 90
ATOMG   | 9a8 | =72+1:1 E" op:atom@87+4 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | pd=P81 d=R16 addr=MB data=R32 | 100-
ATOMG   | 9a3 | =72+1:1 E" op:fatom@88+2 evict:evict@84+3 type:fatom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=MA data=R32 | 90
ATOMG   | 9a3 | =72+1:1 E" op:fatom@88+2 evict:evict@84+3 type:fatom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=MD data=R32 | 100-
ATOMG   | 3a9 | E@72 op:cas@0+0 evict:evict@84+3 type:cas_type@73+4 order:order_atomic@77+4    | pd=P81 d=R16 addr=M cmp=R32 data=R64
ATOM    | 38a | E@72 op:atom@87+4 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=M data=R32 | 80-89
ATOM    | 38a | E@72 op:atom@87+4 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | pd=P81 d=R16 addr=M data=R32 | 90-
ATOM    | 38a | E@72 op:atom@87+4 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 unused:unused@64+8 | pd=P81 d=R16 addr=M data=R32 | 75
ATOM    | 98a | =72+1:1 E" op:atom@87+4 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=MA data=R32 | 80-89
ATOM    | 98a | =72+1:1 E" op:atom@87+4 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | pd=P81 d=R16 addr=MA data=R32 | 90
ATOM    | 98a | =72+1:1 E" op:atom@87+4 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | pd=P81 d=R16 addr=MB data=R32 | 100-
ATOM    | 9a2 | =72+1:1 E" op:fatom@88+2 evict:evict@84+3 type:fatom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=MA data=R32 | 90
ATOM    | 9a2 | =72+1:1 E" op:fatom@88+2 evict:evict@84+3 type:fatom_type@73+4 order:order_atomic@77+4 | pd=P81 d=R16 addr=MD data=R32 | 100-
ATOM    | 38b | E@72 op:cas@0+0 evict:evict@84+3 type:cas_type@73+4 order:order_atomic@77+4    | pd=P81 d=R16 addr=M cmp=R32 data=R64
RED     | 98e | E@72 op:red@87+3 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4  | addr=M data=R32 | -89
RED     | 98e | =72+1:1 E" op:red@87+3 evict:evict@84+3 type:atom_type@73+4 order:order_atomic@77+4 | addr=MR data=R32 | -89
REDG    | 98e | E@72 op:red@87+3 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4  | addr=M data=R32 | 90-
REDG    | 98e | =72+1:1 E" op:red@87+3 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | addr=MR data=R32 | 90
REDG    | 98e | =72+1:1 E" op:red@87+3 evict:evict@84+3 type:atom_type_90@73+3 order:order_atomic@77+4 | addr=MC data=R32 | 100-
REDG    | 9a6 | =72+1:1 E" op:fatom@88+2 evict:evict@84+3 type:fatom_type@73+4 order:order_atomic@77+4 | addr=MR data=R32 | 90
REDG    | 9a6 | =72+1:1 E" op:fatom@88+2 evict:evict@84+3 type:fatom_type@73+4 order:order_atomic@77+4 | addr=MC data=R32 | 100-
LDGSTS  | fae | E" bypass:bypass@81+1 evict:evict@84+3 prefetch:prefetch@71+2 type:async_size@73+3 ZFILL@82 order:order_async@77+4 | shared=MG addr=MH ps=P87!90? | 80-90
LDGSTS  | fae | E" bypass:bypass@81+1 evict:evict@84+3 prefetch:prefetch@72+2 type:async_size_100@74+2 ZFILL@82 order:order_async@77+4 | shared=MG addr=MI ps=P87!90? | 100-
LDSM    | 83b | 16" shape:ldsm_shape@78+2 count:ldsm_count@72+2              | d=R16 addr=MS32
LDC     | b82 | type:const_access@73+3 mode:const_mode@78+2                  | d=R16 b=L38+16,24
LDC     | 582 | type:const_access@73+3 mode:const_mode@78+2 =91+1:1          | d=R16 b=LX38+16,64
ULDC    | ab9 | type:const_access@73+3                                       | d=U16 b=L38+16 | -90
ULDC    | ab9 | type:const_access@73+3 =91+1:1                               | d=U16 b=LX38+16 | -90
ULDC    | abb | type:const_access@73+3 =91+1:1                               | d=U16 b=LI38+16,24 | -90
LDCU    | 7ac | type:access@73+3 =91+1:1                                     | d=U16 b=LU37+17,24 | 100-
QSPC    | 3aa | E@72 space:space@73+2                                        | pd=P81 d=R16 addr=M
CCTL    | 98f | E@72 cache:cache@78+3 op:cctl@87+4                           | addr=ML
CCTL    | 98f | cache:cache@78+3 op:cctl_all@87+4 =24+8:255                  |
MEMBAR  | 992 | kind:membar@79+2 scope:scope@76+3                            |
ERRBAR  | 9ab |                                                              |
CGAERRBAR | 5ab |                                                            | | 90-
LDGDEPBAR | 9af |                                                            | | 80-
DEPBAR  | 91a | LE" =47+1:1                                                  | sb=SB44 count=N38+6
"""

CONTROL = """
S2R     | 919 |                                    | d=R16 sr=SR
S2UR    | 9c3 |                                    | d=U16 sr=SR
CS2R    | 805 | width:cs2r@80+1                    | d=R16 sr=SR
R2UR    | 3c2 | =84+3:0                            | pd=P81? d=U16 a=A | -89
R2UR    | 2ca | =84+3:0                            | pd=P81? d=U16 a=A | 90-
VOTE    | 806 | op:vote@72+2                       | d=R16? pd=P81 ps=P87!90
VOTEU   | 886 | op:vote@72+2                       | d=U16? pd=UP81 ps=P87!90
MATCH   | 3a1 | op:match_all@79+1 U64@73           | pd=P81 d=R16 a=A
MATCH   | 3a1 | op:match_any@79+1 U64@73 =81+3:7   | d=R16 a=A
REDUX   | 3c4 | op:redux@78+3 sign:ssign@73+1      | d=U16 a=A | 80-
SHFL    | 389 | op:shfl@58+2                       | pd=P81 d=R16 a=A b=R32 c=R64
SHFL    | 589 | op:shfl@58+2                       | pd=P81 d=R16 a=A b=R32 c=N40+13
SHFL    | 989 | op:shfl@58+2                       | pd=P81 d=R16 a=A b=N53+5 c=R64
SHFL    | f89 | op:shfl@58+2                       | pd=P81 d=R16 a=A b=N53+5 c=N40+13
PLOP3   | 81c | LUT"                               | pd=P81 pd2=P84 ps=P87!90 ps2=P77!80 ps3=EP68!71 lut=N64+3,72+5 lut2=N16+8
UPLOP3  | 89c | LUT"                               | pd=UP81 pd2=UP84 ps=UP87!90 ps2=UP77!80 ps3=UP68!71 lut=N64+3,72+5 lut2=N16+8
HMMA    | 23c | shape:hmma_shape@75+1,78+1 acc:hmma_acc@76+1 type:hmma_type@82+2 | d=R16 a=A-72 b=R32-63 c=R64
BAR     | b1d | op:bar_sync@77+3 DEFER_BLOCKING@80 | id=N54+4 count=N42+12?
BAR     | b1d | op:bar_arrive@77+3                 | id=N54+4 count=N42+12?
BAR     | b1d | op:bar_red@77+3 reduce:bar_op@74+2 DEFER_BLOCKING@80 | id=N54+4 count=N42+12? ps=P87!90
BAR     | 51d | op:bar_sync@77+3 DEFER_BLOCKING@80 | id=R32 count=N42+12?
BAR     | 51d | op:bar_arrive@77+3                 | id=R32 count=N42+12?
BAR     | 51d | op:bar_red@77+3 reduce:bar_op@74+2 DEFER_BLOCKING@80 | id=R32 count=N42+12? ps=P87!90
B2R     | 31c | RESULT" =78+1:1                    | d=R16 pd=P81?
NOP     | 918 |                                    |
BRA     | 947 | depth:depth@85+2                   | ps=P87!90? target=T34+48
BRA     | 947 | CONV" =91+1:1 =32+2:3              | ps=P87!90? a=U24~30 target=T34+48
BRX     | 949 | depth:depth@85+2                   | ps=P87!90? a=A target=D34+48
CALL    | 944 | REL" NOINC@86                      | ps=P87!90? target=T34+48
CALL    | 344 | REL" NOINC@86                      | ps=P87!90? a=A target=J34+48
RET     | 950 | kind:ret@85+1 NODEC@86             | ps=P87!90? a=A target=J34+48
EXIT    | 94d | mode:exit@84+2 NO_ATEXIT@86        | ps=P87!90?
BSSY    | 945 |                                    | ps=P87!90? barrier=B16 target=T34+30 | -90
BSSY    | 945 | kind:converge@72+2                 | ps=P87!90? barrier=B16 target=T34+30 | 100-
BSYNC   | 941 |                                    | ps=P87!90? barrier=B16 | -90
BSYNC   | 941 | kind:converge@72+2                 | ps=P87!90? barrier=B16 | 100-
BREAK   | 942 |                                    | ps=P87!90? barrier=B16 | -90
BREAK   | 942 | kind:converge_break@72+2                 | ps=P87!90? barrier=B16 | 100-
BMOV    | 355 | 32" CLEAR@84                       | d=R16 barrier=B24
BMOV    | 356 | 32" PQUAD@84                       | barrier=B24 a=R32
WARPSYNC | 948 |                                   | ps=P87!90? mask=I32+32u | -89
WARPSYNC | 948 | ALL"                              | ps=P87!90? | 90-
WARPSYNC | 348 | EXCLUSIVE@86                      | ps=P87!90? mask=R32 | -89
WARPSYNC | 348 |                                   | ps=P87!90? mask=A | 90-
NANOSLEEP | 15d/45 | RAND@86 WARP@85               | ps=P87!90? b=S:uint
NANOSLEEP | 35d | RAND@86 WARP@85                  | ps=P87!90? b=R32
YIELD   | 946 |                                    | ps=P87!90?
BPT     | 95c | TRAP" =84+3:3                      | code=N34+3
PMTRIG  | 801 |                                    | ps=P87!90? mask=N32+16
"""

TABLES = (INTEGER, FLOAT, CONVERT, MEMORY, CONTROL)
