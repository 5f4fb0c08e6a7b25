# ruff: noqa: E501 - a table has one line per form
"""The instruction table of a6xx and a7xx, which share most of it: forms, which say how words of one kind are laid out and printed, and their opcodes.

Columns: text | fixed bits | other bits | fields | opcodes.

text        as Mesa's disassembler prints it: {name} the opcode, {x} field x, {rpt} the repeat or delay count, and the
            prefixes in PREFIXES.
fixed       `lsb+width:value`: bits that must hold a value other than zero. Bits that nothing names must be zero.
other       the flags sy ss jp ul eq · rpt40+2 repeat count · nop43,51 bits that count a delay while nothing repeats ·
            full52 set: sources of 32 bits; wide, narrow: always or never so · conv46 set: the destination has the other width ·
            dstfull46 set: destination of 32 bits.
fields      name=kind@lsb+width[,lsb+width: higher bits][:rule][options]; kinds that are operands:
            R register · W source of 16 bits · N, NI, NN source of 13 bits with constants, immediates or neither ·
            P source that is a register · M, D source and destination of a move · A a0.x or a1.x ·
            I register or immediate · X scaled register offset · K constant destination · T target · C predicate.
            Others: flag · u number · o offset, printed with its sign · so the same in two's complement · oz one that another
            row lacks · pow 2 << code · words 32 * (code + 1) · mask write mask · an enum of names.py.
            rule: what an operand's width follows (slots.py, Context.is_half).
options     ! the h is not printed · % printed by number · ~ shown when clear · r43 n14 bits of (r) and (neg) · i23 bit that
            makes it an immediate, or the inversion bit · p1 the value is 1 more · =x the one legal value, or where (r) is legal.
opcodes     `lsb+width` where they lie (several with `,`, low bits first), then name=number.

Sources: facts measured with Mesa's compiler and disassembler; Mesa's ISA description for what its compiler does not emit.
Left out: what only graphics stages use (emit, cut, chmask, chsh, flow_rev, bary.f, flat.b, ldlv), and brax, whose operands are unknown.
"""

from __future__ import annotations

EARLIER = ("ldg.a", "stg.a")  # a7xx has these with other offsets, which are not in this table
LATER = ("lock", "unlock")  # came with a7xx

PREFIXES = {
    "{flow}": "{sy}{ss}{eq}{jp}",
    "{move}": "{sy}{ss}{jp}{rpt}{ul}",
    "{multi}": "{sy}{ss}{jp}{ul}",
    "{alu}": "{sy}{ss}{jp}{sat}{rpt}{ul}",
    "{mem}": "{sy}{jp}",
}

FLOW = """
{flow}{rpt}{name}              | | sy ss jp eq rpt40+3 | | 55+4,49+1 nop=0 ret=4 end=6 shpe=24 predt=29 predf=30 prede=31
{flow}{name} {pred1}           | | sy ss jp eq | pred1=C@53i52 | 55+4 kill=5
{sy}{ss}{jp}{name} {target}    | | sy ss jp | target=T@0 | 55+4,49+1 jump=2 call=3 bkt=16 getone=21 shps=23
{sy}{ss}{jp}{name}.w{w} {target} | 49+1:1 | sy ss jp | target=T@0 w=pow@52+3 | 55+4 getlast=4
{flow}{name} {pred1}, {target} | 55+4:1 | sy ss jp eq | pred1=C@53i52 target=T@0 | 37+3 br=0 bany=4 ball=5
{flow}{name} {pred1}, {pred2}, {target} | 55+4:1 | sy ss jp eq | pred1=C@53i52 pred2=C@46i45 target=T@0 | 37+3 brao=1 braa=2
{flow}{name}.{index} {target}  | 55+4:1 | sy ss jp eq | target=T@0 index=u@32+5 | 37+3 brac=3
"""

MOVE = """
{move}{name} {round}{dst}, {src1} | 61+3:1 | sy ss jp ul rpt40+2 | src_type=type@50+3=s16 dst_type=type@46+3=s16 round=round@55+2 dst=A@32:dst_type src1=M@0:src_typer43=imm | 57+2 mova=0
{move}{name} {round}{dst}, {src1} | 61+3:1 | sy ss jp ul rpt40+2 | src_type=type@50+3=u16 dst_type=type@46+3=u16 round=round@55+2 dst=A@32:dst_type src1=M@0:src_typer43=imm | 57+2 mova1=0
{move}{name}.{src_type}{dst_type} {round}{dst}, {src1} | 61+3:1 | sy ss jp ul rpt40+2 | src_type=type@50+3 dst_type=type@46+3 round=round@55+2 dst=D@32:dst_type src1=M@0:src_typer43=regs | 57+2 mov=0 cov=0
{multi}{name}.{src_type}{dst_type} {round}{dst1}, {dst2}, {src1}, {src2} | 61+3:1 57+2:2 | sy ss jp ul | src_type=type@50+3 dst_type=type@46+3 round=round@55+2 dst1=R@32:dst_type dst2=R@16:dst_type src1=R@0:src_type src2=R@8:src_type | 40+2 swz=0
{multi}{name}.{src_type}{dst_type} {round}{dst}, {src1}, {src2}, {src3}, {src4} | 61+3:1 57+2:2 | sy ss jp ul | src_type=type@50+3 dst_type=type@46+3 round=round@55+2 dst=R@32:dst_type src1=R@0:src_type src2=R@8:src_type src3=R@16:src_type src4=R@24:src_type | 40+2 gat=1
{multi}{name}.{src_type}{dst_type} {round}{dst1}, {dst2}, {dst3}, {dst4}, {src1} | 61+3:1 57+2:2 | sy ss jp ul | src_type=type@50+3 dst_type=type@46+3 round=round@55+2 dst1=R@32:dst_type dst2=R@8:dst_type dst3=R@16:dst_type dst4=R@24:dst_type src1=R@0:src_type | 40+2 sct=2
{multi}{name}.w{w} {dst} | 61+3:1 | sy ss jp ul | w=words@40+2 src_type=type@50+3=u32 dst_type=type@46+3=u32 dst=D@32:dst_type | 57+2 movmsk=3
"""

ALU = """
{alu}{name} {ei}{dst}, {src1}, {src2} | 61+3:2 | sy ss jp ul rpt40+2 nop43,51 full52 conv46 | sat=flag@42 ei=flag@47 dst=R@32:dst src1=W@0:srcr43 src2=W@16:srcr51 | 53+6 add.f=0 min.f=1 max.f=2 mul.f=3 add.u=16 add.s=17 sub.u=18 sub.s=19 min.u=22 min.s=23 max.u=24 max.s=25 and.b=28 or.b=29 xor.b=31 mul.u24=48 mul.s24=49 mull.u=50 shl.b=54 shr.b=55 ashr.b=56 mgen.b=58 getbit.b=59 shb=62 msad=63
{alu}{name}.{cond} {ei}{dst}, {src1}, {src2} | 61+3:2 | sy ss jp ul rpt40+2 nop43,51 full52 conv46 | sat=flag@42 cond=cond@48+3 ei=flag@47 dst=R@32:dst src1=W@0:srcr43 src2=W@16:srcr51 | 53+6 cmps.f=5 cmpv.f=7 cmps.u=20 cmps.s=21 cmpv.u=33 cmpv.s=34
{alu}{name} {ei}{dst}, {src1} | 61+3:2 | sy ss jp ul rpt40+2 nop43,51 full52 conv46 | sat=flag@42 ei=flag@47 dst=R@32:dst src1=W@0:srcr43 | 53+6 sign.f=4 absneg.f=6 floor.f=9 ceil.f=10 rndne.f=11 rndaz.f=12 trunc.f=13 absneg.s=26 not.b=30 bfrev.b=51 clz.s=52 clz.b=53 setrm=60 cbits.b=61
{alu}{name} {dst}, {src1}, {src2}, {src3} | 61+3:3 | sy ss jp ul rpt40+2 nop43,15 wide conv46 | sat=flag@42 dst=R@32:dst src1=N@0:srcr43n14 src2=P@47:srcr15n30 src3=N@16:srcr29n31 | 55+4 madsh.u16=1 madsh.m16=3 mad.u24=4 mad.s24=5 mad.f32=7 sel.b32=9 sel.s32=11 sel.f32=13 sad.s32=15
{alu}{name} {dst}, {src1}, {src2}, {src3} | 61+3:3 | sy ss jp ul rpt40+2 nop43,15 narrow conv46 | sat=flag@42 dst=R@32:dst src1=N@0:srcr43n14 src2=P@47:srcr15n30 src3=N@16:srcr29n31 | 55+4 mad.u16=0 mad.s16=2 mad.f16=6 sel.b16=8 sel.s16=10 sel.f16=12 sad.s16=14
{move}{name} {dst}, {src1}, {src2}, {src3} | 61+3:3 13+1:1 | sy ss jp ul rpt40+2 nop43,15 full42 conv46 | dst=R@32:dst src1=NI@0:srcr43n14 src2=P@47:srcr15n30 src3=NI@16:srcr29n31 | 55+4 shrm=8 shlm=9 shrg=10 shlg=11 andg=12
{alu}{name}.{sign}.{pack} {dst}, {src1}, {src2}, {src3} | 61+3:3 13+1:1 55+4:13 | sy ss jp ul rpt nop43,15 | sat=flag@42 sign=sign@14+1 pack=pack@30+1 dst=R@32 src1=NN@0 src2=P@47 src3=NN@16n31 | 46+1 dp2acc=0 dp4acc=1
{move}{name} {dst}, {src1}, {src2}, {src3} | 61+3:3 13+1:1 55+4:14 | sy ss jp ul rpt40+2 nop43,15 full31 dstfull46 | dst=R@32:dst src1=NN@0:srcr43n14 src2=P@47:srcr15n30 src3=NI@16:srcr29 | 42+1 wmm=0 wmm.accu=1
{alu}{name} {dst}, {src1} | 61+3:4 | sy ss jp ul rpt40+2 full52 conv46 | sat=flag@42 dst=R@32:dst src1=W@0:srcr43 | 53+6 rcp=0 rsq=1 log2=2 exp2=3 sin=4 cos=5 sqrt=6 hrsq=9 hlog2=10 hexp2=11
"""

# Textures: opcode numbers (bits 58:54) by what the instruction takes. Each becomes rows for all ways to name its descriptors.
SAMPLED = "isamm=2 sam=3 samgq=6 getlod=7 gather4r=16 gather4g=17 gather4b=18 gather4a=19 samgp0=20 samgp1=21 samgp2=22 samgp3=23"
SAMPLED_TWO = "isaml=1 samb=4 saml=5 conv=8 convm=9"
SAMPLED_OFFSET = "isam=0"
TEXTURE_ONE = "getsize=10 getpos=12"
TEXTURE_NONE = "getbuf=11 getinfo=13"

TEXTURE = """
{mem}{name}{3d}{a}{p}{s} ({type})({wrmask}){dst}, {src1} | 61+3:5 | sy jp full0 | 3d=flag@48 a=flag@49 p=flag@53 s=flag@50 type=type@44+3 wrmask=mask@40+4 dst=R@32:type src1=R@1:src | 54+5 dsx=14 dsy=15 rgetpos=26
{mem}{name}{3d}{a}{p}{s} ({wrmask}){dst}, {src1} | 61+3:5 | sy jp full0 | 3d=flag@48 a=flag@49 p=flag@53 s=flag@50 type=type@44+3=f32 wrmask=mask@40+4 dst=R@32:type src1=R@1:src | 54+5 dsxpp.1=24 dsypp.1=25
{mem}{name}{3d}{a}{p}{s} ({type})({wrmask}){dst} | 61+3:5 | sy jp | 3d=flag@48 a=flag@49 p=flag@53 s=flag@50 type=type@44+3 wrmask=mask@40+4 dst=R@32:type | 54+5 rgetinfo=27
{mem}{name} | 61+3:5 | sy jp | | 54+5 tcinv=28
{mem}{name}.w{w} ({type})({wrmask}){dst}, {src1} | 61+3:5 | sy jp full0 | w=pow@19+2 type=type@44+3 wrmask=mask@40+4 dst=R@32:type src1=R@1:src | 53+6 brcst.active=62
{mem}{name} ({type})({wrmask}){dst}, {src1}, {src2} | 61+3:5 53+6:63 | sy jp full0 | type=type@44+3 wrmask=mask@40+4 dst=R@32:type src1=R@1:src src2=R@9:src | 19+2 quad_shuffle.brcst=0
{mem}{name} ({type})({wrmask}){dst}, {src1} | 61+3:5 53+6:63 | sy jp full0 | type=type@44+3 wrmask=mask@40+4 dst=R@32:type src1=R@1:src | 19+2 quad_shuffle.horiz=1 quad_shuffle.vert=2 quad_shuffle.diag=3
"""

MEMORY = """
{mem}{name}.{type} {dst}, g[{addr}{offset}], {size} | 61+3:6 0+1:1 23+1:1 | sy jp | type=type@49+3 dst=R@32:type addr=R@14% offset=so@1+13 size=u@24+3 | 54+5 ldg=0
{mem}{name}.{type} {dst}, g[{addr}+{index}], {size} | 61+3:6 0+1:1 22+2:3 | sy jp | type=type@49+3 dst=R@32:type addr=R@14% index=X@1 size=u@24+3 | 54+5 ldg.a=0
{mem}{name}.{type} c[{dst}], g[{addr}{offset}], {size} | 61+3:6 0+1:1 52+1:1 | sy jp | type=type@49+3 dst=K@32 addr=R@14% offset=so@1+13 size=u@23+4 | 54+5 ldg.k=0
{mem}{name}.{type} g[{addr}{offset}], {src}, {size} | 61+3:6 23+1:1 40+1:1 | sy jp | type=type@49+3 addr=R@41% offset=so@32+8,9+5 src=R@1:type size=u@24+3 | 54+5 stg=3
{mem}{name}.{type} g[{addr}+{index}], {src}, {size} | 61+3:6 23+1:1 40+1:1 52+1:1 | sy jp | type=type@49+3 addr=R@41% index=X@32 src=R@1:type size=u@24+3 | 54+5 stg.a=3
{mem}{name}.{type} {dst}, l[{addr}{offset}], {size} | 61+3:6 0+1:1 23+1:1 | sy jp | type=type@49+3 dst=R@32:type! addr=R@14 offset=so@1+13 size=u@24+8 | 54+5 ldl=1 ldlw=10
{mem}{name}.{type} {dst}, p[{addr}{offset}], {size} | 61+3:6 0+1:1 23+1:1 | sy jp | type=type@49+3 dst=R@32:type addr=R@14 offset=so@1+13 size=u@24+8 | 54+5 ldp=2
{mem}{name}.{type} l[{addr}{offset}], {src}, {size} | 61+3:6 23+1:1 40+1:1 | sy jp | type=type@49+3 addr=R@41 offset=so@32+8,9+5 src=R@1:type! size=u@24+8 | 54+5 stl=4 stlw=11
{mem}{name}.{type} p[{addr}{offset}], {src}, {size} | 61+3:6 23+1:1 40+1:1 | sy jp | type=type@49+3 addr=R@41 offset=so@32+8,9+5 src=R@1:type! size=u@24+8 | 54+5 stp=5
{mem}{name}.{type} c[{dst}], {src}, {size} | 61+3:6 23+1:1 | sy jp | type=type@49+3 dst=K@32 src=R@1:type! size=u@24+3 | 54+5 stc=28
{mem}{name}.{type}.{dims}d {dst}, g[{slot}] | 61+3:6 | sy jp | type=type@49+3 dims=u@9+2p1 dst=R@32:type! slot=I@41i53 | 54+5 resinfo=15
{mem}{name}.{typed}.{dims}d.{type}.{components}.l {dst}, l[{addr}], {src} | 61+3:6 0+1:1 | sy jp | typed=typed@11+1 dims=u@9+2p1 type=type@49+3 components=u@12+2p1 dst=R@32 addr=I@14i22 src=I@24i23 | 54+5 atomic.add=16 atomic.sub=17 atomic.xchg=18 atomic.inc=19 atomic.dec=20 atomic.cmpxchg=21 atomic.min=22 atomic.max=23 atomic.and=24 atomic.or=25 atomic.xor=26
{mem}{name}.{typed}.{dims}d.{type}.{components}.g {dst}, {addr}, {src} | 61+3:6 0+1:1 52+1:1 | sy jp | typed=typed@11+1 dims=u@9+2p1 type=atomic@49+3 components=u@12+2p1 dst=R@32 addr=I@14i22 src=I@24i23 | 54+5 atomic.g.add=16 atomic.g.sub=17 atomic.g.xchg=18 atomic.g.inc=19 atomic.g.dec=20 atomic.g.cmpxchg=21 atomic.g.min=22 atomic.g.max=23 atomic.g.and=24 atomic.g.or=25 atomic.g.xor=26
{mem}{name}.{mode}.{type} {dst}, {src1}, {src2} | 61+3:6 52+2:2 | sy jp | mode=shuffle@45+3 type=type@49+3 dst=R@32:type src1=R@1:type src2=I@24i23 | 54+5 shfl=27
{mem}{name}.{type} {dst} | 61+3:6 52+2:2 20+4:4 | sy jp | type=type@49+3 dst=R@32:type! | 14+6 getspid=36 getwid=37
{mem}{name}.{type} {dst} | 61+3:6 52+2:2 20+4:12 | sy jp | type=type@49+3 dst=R@32:type! | 14+6 getfiberid=38
"""

# Image, storage and uniform buffers: each line becomes one row for descriptors by number and one for bindless ones ({base}).
RESOURCE = """
{mem}{name}.{typed}.{dims}d.{type}.{components}.{mode}{base} {value}, {coord}, {slot} | 61+3:6 20+3:6 52+2:2 | sy jp | typed=typed@11+1 dims=u@9+2p1 type=type@49+3 components=u@12+2p1 mode=mode@6+2 value=R@32:type coord=R@24 slot=I@41 | 14+6 ldib.b=6 stib.b=29
{mem}{name}.{typed}.{dims}d.{type}.{components}.{mode}{base} {value}, {coord}{offset}, {slot} | 61+3:6 20+4:14 52+2:2 | sy jp | typed=typed@11+1 dims=u@9+2p1 type=type@49+3 components=u@12+2p1 mode=mode@6+2 value=R@32:type coord=R@24 offset=oz@54+5,4+2 slot=I@41 | 14+6 ldib.b=6 stib.b=29
{mem}{name}.{typed}.{dims}d.{type}.{components}.{mode}{base} {value}, {coord}, {slot} | 61+3:6 20+3:6 52+2:3 | sy jp | typed=typed@11+1 dims=u@9+2p1 type=atomic@49+3 components=u@12+2p1 mode=mode@6+2 value=R@32 coord=R@24 slot=I@41 | 14+6 atomic.b.add=16 atomic.b.sub=17 atomic.b.xchg=18 atomic.b.cmpxchg=21 atomic.b.min=22 atomic.b.max=23 atomic.b.and=24 atomic.b.or=25 atomic.b.xor=26
{mem}{name}{u}.offset{offset}.{components}.{mode}{base} {dst}, {addr}, {slot} | 61+3:6 20+3:4 49+3:3 52+2:2 | sy jp | u=flag@11 offset=u@9+2 components=u@12+2p1 mode=mode@6+2 dst=R@32 addr=I@24i23 slot=I@41 | 14+6 ldc=30
{mem}ldc.{size}.k.{mode}{base} c[a1.x], {addr}, {slot} | 61+3:6 20+3:4 49+3:3 52+2:3 | sy jp | size=u@32+8p1 mode=mode@6+2 addr=I@24i23 slot=I@41 | 14+6 ldc.k=30
{mem}{name}.{typed}.{dims}d.{type}.{components}.{mode}{base} {dst}, {slot} | 61+3:6 20+3:6 52+2:2 | sy jp | typed=typed@11+1 dims=u@9+2p1 type=type@49+3 components=u@12+2p1 mode=mode@6+2 dst=R@32:type! slot=I@41 | 14+6 resbase=12 resinfo.b=15
"""

BARRIER = """
{sy}{ss}{jp}{name}{g}{l}{r}{w} | 61+3:7 49+1:1 | sy ss jp | g=flag@54 l=flag@53 r=flag@52 w=flag@51 | 55+4 bar=0 fence=1
{sy}{ss}{jp}{name}.{duration}  | 61+3:7 | sy ss jp | duration=duration@51+1 | 55+4 sleep=2
{sy}{ss}{jp}{name}             | 61+3:7 | sy ss jp | | 55+4 icinv=3
{sy}{ss}{jp}{name}.{scope}     | 61+3:7 | sy ss jp | scope=scope@51+1 | 55+4 dccln=4 dcinv=5 dcflu=6
{sy}{ss}{jp}{name}             | 61+3:7 55+4:7 | sy ss jp | | 45+10 lock=528 unlock=592
"""
