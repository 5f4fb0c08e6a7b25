/* The C core: runs micro-op programs block after block and warp after warp, 32 lanes at a time (a slice). */

#include <fenv.h>
#include <stddef.h>
#include <stdint.h>

#include "core_abi.h"
#include "core_base.h"
#include "core_round.h"
#include "core_special.h"
#include "core_integer.h"
#include "core_bits.h"
#include "core_float.h"
#include "core_half.h"
#include "core_convert.h"
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

#include "core_run.h"

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
