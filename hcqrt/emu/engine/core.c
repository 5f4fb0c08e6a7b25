/* The C core: runs micro-op programs block after block and warp after warp, 32 lanes at a time (a slice). */

#include <fenv.h>
#include <stddef.h>
#include <stdint.h>

#include "core_abi.h"
#include "core_base.h"
#include "core_round.h"
#include "core_special.h"
#include "core_integer.h"
#include "core_float.h"
#include "core_half.h"
#include "core_memory.h"
#include "core_warp.h"
#include "core_control.h"

typedef void (*Operation)(Machine *m, const Record *r);

/* Write registers of the running lanes, one slice at a time; the group then goes on at the next record. */
static const Operation OPERATIONS[] = {
    [OP_NOP] = op_nop, [OP_MOV] = op_mov, [OP_SEL] = op_sel, [OP_ADD3] = op_add3,
    [OP_LEA] = op_lea, [OP_LOP3] = op_lop3, [OP_PRMT] = op_prmt, [OP_SHF] = op_shf, [OP_MAD] = op_mad,
    [OP_MADW] = op_madw, [OP_MADH] = op_madh, [OP_IMNMX] = op_imnmx, [OP_IABS] = op_iabs, [OP_ISETP] = op_isetp,
    [OP_POPC] = op_popc, [OP_BREV] = op_brev, [OP_FLO] = op_flo, [OP_BMSK] = op_bmsk, [OP_SGXT] = op_sgxt,
    [OP_PLOP3] = op_plop3, [OP_P2R] = op_p2r, [OP_R2P] = op_r2p,
    [OP_MATCH] = op_match, [OP_S2R] = op_s2r, [OP_RGET] = op_rget, [OP_RPUT] = op_rput, [OP_FADD] = op_fadd, [OP_FMUL] = op_fmul,
    [OP_FFMA] = op_ffma, [OP_FMNMX] = op_fmnmx, [OP_FSETP] = op_fsetp, [OP_FSET] = op_fset, [OP_MUFU] = op_mufu,
    [OP_DADD] = op_dadd, [OP_DMUL] = op_dmul, [OP_DFMA] = op_dfma, [OP_DSETP] = op_dsetp, [OP_DMNMX] = op_dmnmx,
    [OP_HADD2] = op_hadd2, [OP_HMUL2] = op_hmul2, [OP_HFMA2] = op_hfma2, [OP_HMNMX2] = op_hmnmx2,
    [OP_HSETP2] = op_hsetp2, [OP_F2F] = op_f2f, [OP_F2I] = op_f2i, [OP_I2F] = op_i2f, [OP_FRND] = op_frnd,
    [OP_F2FP] = op_f2fp, [OP_LD] = op_ld, [OP_BSSY] = op_bssy,
    [OP_BCLR] = op_bclr, [OP_ILLEGAL] = NULL,
};

/* Likewise, but with all slices at once: one sees the other, or nothing may be written if any lane faults. */
static const Operation WHOLE[OP_ILLEGAL + 1] = {
    [OP_BCAST] = op_bcast, [OP_VOTE] = op_vote, [OP_SHFL] = op_shfl, [OP_REDUX] = op_redux, [OP_ST] = op_st,
    [OP_ATOM] = op_atom,
};

/* Move the group's lanes themselves, and run even where no lane passes the guard. */
static const Operation CONTROLS[] = {
    [OP_BRA] = op_bra, [OP_BRX] = op_brx, [OP_BSYNC] = op_bsync, [OP_BREAK] = op_break, [OP_WARPSYNC] = op_warpsync,
    [OP_EXIT] = op_exit, [OP_BAR] = op_bar, [OP_YIELD] = op_yield, [OP_TRAP] = op_stop, [OP_ILLEGAL] = op_stop,
};

#define OPERATION_COUNT (sizeof CONTROLS / sizeof *CONTROLS)

/* The smallest position in the slice's group. */
static int32_t first_position(const Slice *s) {
    int32_t first = INT32_MAX;
    Row v;
    if (!s->group) return first;
    EACH v.i[i] = (s->group & BITS.u[i]) ? s->position.i[i] : INT32_MAX;
    EACH first = v.i[i] < first ? v.i[i] : first;
    return first;
}

static uint32_t lanes_at(const Slice *s, int32_t position) {
    Row v;
    if (!s->group) return 0;
    EACH v.u[i] = s->position.i[i] == position ? ALL : 0;
    return mask_of(&v);
}

/* Choose the group of the smallest position among the lanes that can run. */
INLINE int pick(Machine *m, uint32_t count) {
    Warp *w = m->w;
    uint32_t fresh = 0, any = 0, others = 0;
    int32_t here = INT32_MAX;
    if (w->together) return w->living != 0;
    EACH_OF(m, s, count) {
        s->group = s->live & ~(s->at_sync | s->at_warp | s->at_bar);
        fresh |= s->group & ~s->skip;
    }
    EACH_OF(m, s, count) {
        if (fresh) s->group &= ~s->skip;
        s->skip = 0;
        int32_t first = first_position(s);
        if (first < here) here = first;
    }
    EACH_OF(m, s, count) {
        s->group &= lanes_at(s, here);
        any |= s->group;
        others |= s->live & ~s->group;
    }
    w->here = (uint32_t)here;
    w->together = !others;
    return any != 0;
}

/* How many lanes the group has. */
INLINE uint64_t group_size(const Machine *m, uint32_t count) {
    uint64_t size = 0;
    if (m->w->together) return m->w->living;
    EACH_OF(m, s, count) size += (uint64_t)population(s->group);
    return size;
}

/* Which lanes of the group pass the guard: whether any does, and whether all do. */
INLINE int guard(Machine *m, const Record *r, uint32_t count, int *whole) {
    uint32_t any = 0, missing = 0;
    int always = r->guard == U_PT && !r->guard_neg;
    EACH_OF(m, s, count) {
        m->s = s;
        uint32_t run = always ? s->group : s->group & predicate(m, r->guard, r->guard_neg);
        s->passing = s->run = run;
        missing |= s->group ^ run;
        any |= run;
    }
    *whole = !missing;
    return any != 0;
}

/* A fault of the whole group: its first lane's. */
static void group_fault(Machine *m, int kind, uint64_t pc) {
    EACH_SLICE(m, s) s->passing = s->group;
    fault(m, kind, first_passing(m), pc, 0, ACCESS_NONE);
}

/* LD, ST and ATOM run on the lanes that passed, whatever FULL says; only constant loads do not. */
static inline int goes_full(const Record *r) {
    if (!HAS(r, U_FULL)) return 0;
    return !((r->op == OP_LD || r->op == OP_ST || r->op == OP_ATOM) && r->space != U_S_CONST);
}

/* Run one record on the lanes that pass, in the slices that have any. */
INLINE void operate(Machine *m, const Record *r, uint32_t count) {
    if (goes_full(r)) EACH_OF(m, s, count) s->run = ALL;
    if (WHOLE[r->op]) {
        WHOLE[r->op](m, r);
        return;
    }
    Operation operation = OPERATIONS[r->op];
    EACH_OF(m, s, count) if (enter(m, s)) operation(m, r);
}

/* Run one warp, of `count` slices, until no lane of it can go on. */
INLINE void run_slices(Machine *m, uint32_t count) {
    Warp *w = m->w;
    const Job *job = m->job;
    if (!pick(m, count)) return;
    m->moved = 1;
    do {
        int any, whole;
        if (w->here >= job->count) {
            group_fault(m, FAULT_ILLEGAL, job->records[job->count - 1].pc + job->instruction_bytes);
            detail(m, DETAIL_PAST_END, 0, 0);
            return;
        }
        const Record *r = &job->records[w->here];
        m->pc = r->pc;
        if (HAS(r, U_FIRST)) {
            uint64_t size = group_size(m, count);
            if (m->executed + size > job->budget) {
                group_fault(m, FAULT_BUDGET, r->pc);
                return;
            }
            m->executed += size;
        }
        any = guard(m, r, count, &whole);
        if (CONTROLS[r->op]) {
            m->any = any, m->whole = whole;
            enter(m, w->slices);
            CONTROLS[r->op](m, r);
        } else {
            if (any) operate(m, r, count);
            if (w->together) w->here++;
            else advance(m, w->here + 1);
        }
    } while (m->out->kind == FAULT_NONE && pick(m, count));
}

static void run_warp(Machine *m) {
    if (m->slice_count == 1) run_slices(m, 1);
    else if (m->slice_count == 2) run_slices(m, 2);
    else run_slices(m, 4);
}

/* What one warp adds to a block barrier's state: 1 has arrived, 2 all its live lanes have. */
static int arrival(const Machine *m, uint32_t number) {
    uint32_t some = 0, missing = 0;
    EACH_SLICE(m, s) {
        some |= s->arrivals[number];
        missing |= s->live & ~s->arrivals[number];
    }
    return (some ? 1 : 0) | (missing ? 0 : 2);
}

static void let_go(Machine *m, uint32_t number) {
    EACH_SLICE(m, s) {
        for (uint32_t lanes = s->at_bar; lanes; lanes &= lanes - 1) {
            int i = lowest(lanes);
            if (s->waits_on[i] != number) continue;
            s->position.u[i]++;
            s->at_bar &= ~BITS.u[i];
        }
        s->arrivals[number] = 0;
    }
}

/* Let go of every block barrier that is complete. */
static int release(Machine *m) {
    int released = 0;
    for (uint32_t number = 0; number < U_BARRIER_REGISTERS; number++) {
        uint32_t any = 0, living = 0, complete = 0, met = 0, expected = m->expected[number];
        for (uint32_t k = 0; k < m->warp_count; k++) {
            m->w = &m->warps[k];
            int state = arrival(m, number);
            any |= (uint32_t)state & 1;
            living += m->w->living != 0;
            if (!(state & 2)) continue;
            complete += m->w->living != 0;
            met += state & 1; /* a warp may arrive and end */
        }
        if (!any || (expected ? (uint64_t)m->job->lanes * met < expected : complete < living)) continue;
        for (uint32_t k = 0; k < m->warp_count; k++) {
            m->w = &m->warps[k];
            let_go(m, number);
        }
        released = 1;
    }
    return released;
}

static void deadlock(Machine *m) {
    for (uint32_t k = 0; k < m->warp_count; k++) {
        Warp *w = m->w = &m->warps[k];
        if (!w->living) continue;
        EACH_SLICE(m, s) s->passing = s->live;
        int lane = first_passing(m);
        uint32_t where = w->together ? w->here : m->s->position.u[lane];
        fault(m, FAULT_DEADLOCK, lane, m->job->records[where].pc, 0, ACCESS_NONE);
        return;
    }
}

static void reset_slice(Machine *m, Slice *s) {
    uint32_t first = (uint32_t)(s - m->slices) * LANES, left = first < m->threads ? m->threads - first : 0;
    for (uint32_t k = 0; k < m->used_count; k++) s->reg[m->used[k]] = ZEROS;
    memset(s->pred, 0, sizeof s->pred);
    s->pred[U_PT] = s->pred[U_UPT] = ALL;
    if (m->uses_barriers) memset(s->barrier, 0, sizeof s->barrier);
    memset(s->arrivals, 0, sizeof s->arrivals);
    s->live = s->group = left >= LANES ? ALL : BITS.u[left] - 1;
    s->at_sync = s->at_warp = s->at_bar = s->skip = 0;
    s->number = (uint32_t)(s - m->slices);
    s->local = m->local + (uint64_t)first * m->local_stride;
}

static void reset_warp(Machine *m, uint32_t number) {
    Warp *w = m->w = &m->warps[number];
    uint32_t first = number * m->job->lanes, left = m->threads - first;
    w->slices = m->slices + (uint64_t)number * m->slice_count;
    w->living = left < m->job->lanes ? left : m->job->lanes;
    w->here = (uint32_t)m->job->entry;
    w->together = 1;
    w->number = number;
    EACH_SLICE(m, s) reset_slice(m, s);
}

static void run_block(Machine *m) {
    if (m->job->shared_bytes) memset(m->shared, 0, m->job->shared_bytes);
    if (m->uses_local) memset(m->local, 0, (uint64_t)m->warp_count * m->job->lanes * m->local_stride);
    memset(m->expected, 0, sizeof m->expected);
    for (uint32_t k = 0; k < m->warp_count; k++) reset_warp(m, k);
    for (int living = 1; living;) {
        m->moved = living = 0;
        for (uint32_t k = 0; k < m->warp_count; k++) {
            m->w = &m->warps[k];
            run_warp(m);
            if (m->out->kind != FAULT_NONE) return;
        }
        for (uint32_t k = 0; k < m->warp_count; k++) living |= m->warps[k].living != 0;
        if (living && !release(m) && !m->moved) {
            deadlock(m);
            return;
        }
    }
}

/* Which registers the program touches, and what else of a warp it uses. */
static void survey(Machine *m) {
    uint8_t seen[U_REGISTERS + 4] = {0};
    for (uint64_t k = 0; k < m->job->count; k++) {
        const Record *r = &m->job->records[k];
        uint32_t span = r->op == OP_LD || r->op == OP_ST ? 4 : 2;
        for (int slot = 0; slot < 4; slot++)
            if (r->kind[slot] == U_REG) memset(seen + r->src[slot], 1, span);
        if (r->d != U_NO_REG) memset(seen + r->d, 1, span);
        if (r->op == OP_RGET || r->op == OP_RPUT)
            memset(seen + (r->mod & 0xFFFF), 1, (r->mod >> 16) - (r->mod & 0xFFFF) + 1);
        if (r->op == OP_BSSY || r->op == OP_BSYNC || r->op == OP_BREAK || r->op == OP_BCLR) m->uses_barriers = 1;
        int memory = r->op == OP_LD || r->op == OP_ST || r->op == OP_ATOM;
        if (memory && (r->space == U_S_LOCAL || r->space == U_S_GENERIC)) m->uses_local = 1;
    }
    for (uint16_t k = 0; k < U_REGISTERS; k++)
        if (seen[k]) m->used[m->used_count++] = k;
}

/* Memory for one block, whose warps are all there at once. What a block begins with is set for each block. */
static int allocate(Machine *m) {
    const Job *job = m->job;
    uint64_t threads = (uint64_t)job->block[0] * job->block[1] * job->block[2];
    if (threads > UINT32_MAX - job->lanes) return -1;
    m->threads = (uint32_t)threads;
    m->warp_count = (m->threads + job->lanes - 1) / job->lanes;
    m->slice_count = job->lanes / LANES;
    m->local_stride = m->uses_local ? (job->local_low + job->local_high + 15) & ~(uint64_t)15 : 0;
    m->warps = malloc(((size_t)m->warp_count + 1) * sizeof *m->warps);
    m->slices = malloc(((size_t)m->warp_count * m->slice_count + 1) * sizeof *m->slices);
    m->shared = malloc(job->shared_bytes + 1);
    m->local = malloc((uint64_t)m->warp_count * job->lanes * m->local_stride + 1);
    return m->warps && m->slices && m->shared && m->local ? 0 : -1;
}

int hcqrt_run(const Job *job, Outcome *outcome) {
    Machine *m = calloc(1, sizeof *m);
    fenv_t kept;
    int status = -1;
    if (m == NULL) return -1;
    memset(outcome, 0, sizeof *outcome);
    m->job = job;
    m->out = outcome;
    survey(m);
    /* Some host libraries leave denormals flushed. */
    fegetenv(&kept);
    fesetenv(FE_DFL_ENV);
    if (allocate(m) == 0) {
        status = 0;
        for (uint64_t z = 0; m->threads && z < job->grid[2]; z++)
            for (uint64_t y = 0; y < job->grid[1]; y++)
                for (uint64_t x = 0; x < job->grid[0]; x++) {
                    m->ctaid[0] = (uint32_t)x, m->ctaid[1] = (uint32_t)y, m->ctaid[2] = (uint32_t)z;
                    run_block(m);
                    if (outcome->kind != FAULT_NONE) goto done;
                }
    }
done:
    fesetenv(&kept);
    outcome->executed = m->executed;
    free(m->warps);
    free(m->slices);
    free(m->shared);
    free(m->local);
    free(m);
    return status;
}

static int bad_format(uint32_t format, int integer) {
    return integer ? format < U_I8 || format > U_U64 : format > U_F64;
}

/* Whether what an operation's `mod` and `imm` say is known. */
static int bad_detail(const Record *r) {
    uint32_t to = r->mod & 15, from = r->mod >> U_FORMAT_SHIFT;
    switch (r->op) {
    case OP_PRMT: return r->mod > 6;
    case OP_LEA: return r->imm < 0 || r->imm > 31;
    case OP_FMUL: return r->imm < -64 || r->imm > 64;
    case OP_MUFU: return r->mod > U_MUFU_TANH || r->mod == 6 || r->mod == 7;
    case OP_S2R: return r->imm < 0 || r->imm > U_SR_LOCAL_WINDOW_HI;
    case OP_SHFL: return r->mod > U_SHFL_BFLY;
    case OP_VOTE: return r->mod > U_VOTE_EQ || r->imm < 0 || r->imm > 3;
    case OP_RGET: case OP_RPUT: return (r->mod & 0xFFFF) > r->mod >> 16 || r->mod >> 16 >= U_REGISTERS;
    case OP_REDUX: return r->mod > U_RED_MAX;
    case OP_BAR: return r->mod > U_BAR_ARRIVE;
    case OP_ATOM: return to > U_AT_CAS || r->mod >> U_ATOMIC_TYPE_SHIFT > U_AT_F32 || r->space == U_S_CONST;
    case OP_ST: return r->space == U_S_CONST;
    case OP_F2F: case OP_FRND: return bad_format(to, 0) || bad_format(from, 0);
    case OP_F2I: return bad_format(to, 1) || bad_format(from, 0);
    case OP_I2F: return bad_format(to, 0) || bad_format(from, 1) || r->imm < 0 || r->imm > 3;
    default: return 0;
    }
}

static int bad_record(const Record *r, uint64_t count) {
    const uint8_t predicates[] = {r->guard, r->p, r->p2, r->p3, r->pd, r->pd2};
    if (r->op >= OPERATION_COUNT || (!OPERATIONS[r->op] && !WHOLE[r->op] && !CONTROLS[r->op])) return 1;
    for (size_t k = 0; k < sizeof predicates; k++)
        if (predicates[k] >= U_PREDICATES) return 1;
    for (int slot = 0; slot < 4; slot++) /* 4: the widest operand */
        if (r->kind[slot] > U_CONST || (r->kind[slot] == U_REG && r->src[slot] > U_REGISTERS - 4)) return 1;
    if (r->d != U_NO_REG && r->d > U_REGISTERS - 4) return 1;
    if (r->width > U_W_128 || r->space > U_S_GENERIC) return 1;
    if (r->op == OP_BRA && r->target >= count) return 1;
    if (r->op == OP_BSSY || r->op == OP_BSYNC || r->op == OP_BREAK || r->op == OP_BCLR)
        return r->imm < 0 || r->imm >= (int64_t)U_BARRIER_REGISTERS;
    return bad_detail(r);
}

int64_t hcqrt_check(const Record *records, uint64_t count) {
    if (count >= INT32_MAX) return 0; /* positions are compared with sign */
    for (uint64_t k = 0; k < count; k++)
        if (bad_record(&records[k], count)) return (int64_t)k;
    return -1;
}

const char *hcqrt_digest(void) { return CORE_DIGEST; }
