/* f32 and f64 arithmetic and comparisons. */

static inline uint32_t flush32(uint32_t u) { return u & 0x7F800000 ? u : u & 0x80000000u; }
static inline uint32_t canonical32(uint32_t u) { return u << 1 > 0xFF000000u ? NAN32 : u; }

static inline uint32_t saturate32(uint32_t u) {
    float x = float_of(u);
    return x > 0.0f ? (x < 1.0f ? u : 0x3F800000u) : 0;
}

static inline uint32_t finish32(const Record *r, uint32_t u) {
    if (HAS(r, U_FTZ)) u = flush32(u);
    return HAS(r, U_SAT) ? saturate32(u) : canonical32(u);
}

/* Flush, saturate, make NaNs canonical: all lanes. */
static inline void finish_row(const Record *r, Row *v) {
    if (HAS(r, U_FTZ)) EACH v->u[i] = flush32(v->u[i]);
    if (HAS(r, U_SAT)) EACH v->u[i] = saturate32(v->u[i]);
    else EACH v->u[i] = canonical32(v->u[i]);
}

/* An f32 source with |x| and -x applied, and flushed. */
static inline const Row *single(Machine *m, const Record *r, int slot, Row *room) {
    const Row *v = word(m, r, slot, room);
    uint32_t keep = r->flags & U_ABS_A << slot ? 0x7FFFFFFFu : ALL, turn = r->flags & U_NEG_A << slot ? 0x80000000u : 0;
    if (keep != ALL || turn) {
        EACH room->u[i] = (v->u[i] & keep) ^ turn;
        v = room;
    }
    if (HAS(r, U_FTZ)) {
        EACH room->u[i] = flush32(v->u[i]);
        v = room;
    }
    return v;
}

static inline uint32_t to_single(double x, uint32_t mode) {
    return mode == U_RN ? bits32((float)x) : narrow(x, SINGLE, mode);
}

static void op_fadd(Machine *m, const Record *r) {
    Row ra, rb, out;
    const Row *a = single(m, r, 0, &ra), *b = single(m, r, 1, &rb);
    uint32_t mode = mode_of(r);
    if (mode == U_RN) EACH out.f[i] = a->f[i] + b->f[i];
    else EACH out.u[i] = narrow(odd_sum(a->f[i], b->f[i], mode), SINGLE, mode);
    finish_row(r, &out);
    put(m, r->d, &out);
}

static void op_fmul(Machine *m, const Record *r) {
    Row ra, rb, out;
    const Row *a = single(m, r, 0, &ra), *b = single(m, r, 1, &rb);
    uint32_t mode = mode_of(r);
    if (mode == U_RN && r->imm == 0) {
        EACH out.f[i] = a->f[i] * b->f[i];
    } else {
        double scale = power((int)r->imm);
        EACH out.u[i] = to_single((double)a->f[i] * (double)b->f[i] * scale, mode);
    }
    finish_row(r, &out);
    put(m, r->d, &out);
}

/* The product of two f32 is exact in float64. Its float64 sum with c, rounded again, can only be wrong on what looks
 * like a tie or where f32 has fewer bits: those lanes are done anew from the exact sum. */
static void fma_nearest(const Row *a, const Row *b, const Row *c, Row *out) {
    Wide s;
    Row doubt, zero;
    EACH s.f[i] = (double)a->f[i] * (double)b->f[i] + (double)c->f[i];
    EACH out->f[i] = (float)s.f[i];
    EACH doubt.u[i] = ((uint32_t)s.u[i] & 0x1FFFFFFF) == 0x10000000 ? ALL : 0;
    EACH doubt.u[i] |= (out->u[i] & 0x7FFFFFFF) <= 0x00800000 ? ALL : 0;
    EACH zero.u[i] = s.f[i] == 0.0 ? ALL : 0; /* never but exactly */
    for (uint32_t lanes = mask_of(&doubt) & ~mask_of(&zero); lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        double error, sum = two_sum((double)a->f[i] * (double)b->f[i], c->f[i], &error);
        out->f[i] = (float)round_to_odd(sum, error);
    }
}

static void op_ffma(Machine *m, const Record *r) {
    Row ra, rb, rc, out;
    const Row *a = single(m, r, 0, &ra), *b = single(m, r, 1, &rb), *c = single(m, r, 2, &rc);
    uint32_t mode = mode_of(r);
    if (mode == U_RN) fma_nearest(a, b, c, &out);
    else EACH out.u[i] = narrow(odd_sum((double)a->f[i] * (double)b->f[i], c->f[i], mode), SINGLE, mode);
    finish_row(r, &out);
    put(m, r->d, &out);
}

/* f32 as integers of the same order, -0 below +0; NaNs are dealt with before. */
static inline int32_t ordered(uint32_t u) { return (int32_t)(u ^ (uint32_t)((int32_t)u >> 31) >> 1); }

/* The smaller where `least` says so, else the larger; `either`: of a number and a NaN the NaN. */
static void extremes(const Row *a, const Row *b, const Row *least, int either, Row *out) {
    EACH {
        uint32_t x = a->u[i], y = b->u[i], x_nan = x << 1 > 0xFF000000u, y_nan = y << 1 > 0xFF000000u;
        uint32_t less = ordered(x) < ordered(y) ? ALL : 0, chosen = less == least->u[i] ? x : y;
        chosen = x_nan ? y : y_nan ? x : chosen;
        out->u[i] = (either ? x_nan | y_nan : x_nan & y_nan) ? NAN32 : chosen;
    }
}

static void op_fmnmx(Machine *m, const Record *r) {
    Row ra, rb, least, out;
    const Row *a = single(m, r, 0, &ra), *b = single(m, r, 1, &rb);
    spread(predicate(m, r->p, r->p_neg), &least);
    extremes(a, b, &least, HAS(r, U_NAN_WINS), &out);
    if (HAS(r, U_SAT)) EACH out.u[i] = saturate32(out.u[i]);
    put(m, r->d, &out);
}

/* Bits 0-3 of the comparison: less, equal, greater, unordered. */
static inline uint32_t related(uint32_t code, uint32_t less, uint32_t equal, uint32_t greater) {
    uint32_t result = 0;
    if (code & 1) result |= less;
    if (code & 2) result |= equal;
    if (code & 4) result |= greater;
    return code & 8 ? result | ~(less | equal | greater) : result;
}

static uint32_t compare_rows(uint32_t code, const Row *a, const Row *b) {
    Row less, equal, greater;
    EACH less.u[i] = a->f[i] < b->f[i] ? ALL : 0;
    EACH equal.u[i] = a->f[i] == b->f[i] ? ALL : 0;
    EACH greater.u[i] = a->f[i] > b->f[i] ? ALL : 0;
    return related(code, mask_of(&less), mask_of(&equal), mask_of(&greater));
}

static uint32_t compare_singles(Machine *m, const Record *r) {
    Row ra, rb;
    const Row *a = single(m, r, 0, &ra), *b = single(m, r, 1, &rb);
    return compare_rows(r->mod & 15, a, b);
}

static void op_fsetp(Machine *m, const Record *r) { put_comparison(m, r, compare_singles(m, r)); }

static void op_fset(Machine *m, const Record *r) {
    Row out;
    uint32_t how = r->mod >> U_BOOL_SHIFT & 3, yes = HAS(r, U_SAT) ? 0x3F800000u : ALL;
    uint32_t lanes = combine(how, compare_singles(m, r), predicate(m, r->p, r->p_neg));
    EACH out.u[i] = (lanes & BITS.u[i]) ? yes : 0;
    put(m, r->d, &out);
}

static void op_mufu(Machine *m, const Record *r) {
    Row ra, out;
    const Row *a = single(m, r, 0, &ra);
    uint32_t run = m->run;
    if (r->mod == U_MUFU_RCP) EACH out.f[i] = (float)(1.0 / (double)a->f[i]);
    else EACH out.f[i] = run >> i & 1 ? (float)special(r->mod, a->f[i]) : 0.0f;
    finish_row(r, &out);
    put(m, r->d, &out);
}

static inline double flush_double(double x) { return fabs(x) < LEAST_NORMAL ? copysign(0.0, x) : x; }
static inline double saturate_double(double x) { return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0; }

static inline void doubles(Machine *m, const Record *r, int slot, Wide *v) {
    pair(m, r, slot, v);
    if (r->flags & U_ABS_A << slot) EACH v->u[i] &= ~SIGN64;
    if (r->flags & U_NEG_A << slot) EACH v->u[i] ^= SIGN64;
}

static inline void flushed_doubles(Machine *m, const Record *r, int slot, Wide *v) {
    doubles(m, r, slot, v);
    if (HAS(r, U_FTZ)) EACH v->f[i] = flush_double(v->f[i]);
}

static void put_doubles(Machine *m, const Record *r, Wide *v) {
    if (HAS(r, U_FTZ)) EACH v->f[i] = flush_double(v->f[i]);
    if (HAS(r, U_SAT)) EACH v->f[i] = saturate_double(v->f[i]);
    put_pair(m, r->d, v);
}

static void op_dadd(Machine *m, const Record *r) {
    Wide a, b, out;
    flushed_doubles(m, r, 0, &a);
    flushed_doubles(m, r, 1, &b);
    uint32_t mode = mode_of(r);
    EACH {
        double sum = mode == U_RN ? a.f[i] + b.f[i] : fused(a.f[i], 1.0, b.f[i], mode);
        out.u[i] = quiet(sum, a.f[i], b.f[i], 0.0);
    }
    put_doubles(m, r, &out);
}

static void op_dmul(Machine *m, const Record *r) {
    Wide a, b, out;
    flushed_doubles(m, r, 0, &a);
    flushed_doubles(m, r, 1, &b);
    uint32_t mode = mode_of(r);
    EACH {
        double x = a.f[i], y = b.f[i], zero = negative(x) != negative(y) ? -0.0 : 0.0;
        out.u[i] = quiet(mode == U_RN ? x * y : fused(x, y, zero, mode), x, y, 0.0);
    }
    put_doubles(m, r, &out);
}

static void op_dfma(Machine *m, const Record *r) {
    Wide a, b, c, out;
    flushed_doubles(m, r, 0, &a);
    flushed_doubles(m, r, 1, &b);
    flushed_doubles(m, r, 2, &c);
    uint32_t mode = mode_of(r);
    EACH {
        double sum = mode == U_RN ? fma(a.f[i], b.f[i], c.f[i]) : fused(a.f[i], b.f[i], c.f[i], mode);
        out.u[i] = quiet(sum, a.f[i], b.f[i], c.f[i]);
    }
    put_doubles(m, r, &out);
}

static void op_dsetp(Machine *m, const Record *r) {
    Wide a, b;
    flushed_doubles(m, r, 0, &a);
    flushed_doubles(m, r, 1, &b);
    uint32_t less = 0, equal = 0, greater = 0;
    EACH less |= (uint32_t)(a.f[i] < b.f[i]) << i;
    EACH equal |= (uint32_t)(a.f[i] == b.f[i]) << i;
    EACH greater |= (uint32_t)(a.f[i] > b.f[i]) << i;
    put_comparison(m, r, related(r->mod & 15, less, equal, greater));
}

/* The smaller (`least`) or the larger number, -0 below +0; a NaN loses against a number. */
static inline double extreme(double x, double y, int least) {
    if (is_nan(x)) return y;
    if (is_nan(y)) return x;
    int less = x < y || (x == y && negative(x) && !negative(y));
    return less == least ? x : y;
}

static void op_dmnmx(Machine *m, const Record *r) {
    Wide a, b, out;
    flushed_doubles(m, r, 0, &a);
    flushed_doubles(m, r, 1, &b);
    uint32_t least = predicate(m, r->p, r->p_neg);
    EACH {
        double x = a.f[i], y = b.f[i], chosen = extreme(x, y, (int)(least >> i & 1));
        if (HAS(r, U_NAN_WINS) && (is_nan(x) || is_nan(y))) chosen = NAN;
        out.u[i] = quiet(chosen, x, y, 0.0);
    }
    put_doubles(m, r, &out);
}
