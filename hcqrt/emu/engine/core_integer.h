/* Moves, integer arithmetic and comparisons. Every lane is computed; `put` keeps the running ones. */

static void op_nop(Machine *m, const Record *r) { (void)m, (void)r; }

static void op_mov(Machine *m, const Record *r) {
    if (HAS(r, U_WIDE)) {
        Wide a;
        pair(m, r, 0, &a);
        put_pair(m, r->d, &a);
    } else {
        Row a;
        put(m, r->d, word(m, r, 0, &a));
    }
}

static void op_sel(Machine *m, const Record *r) {
    uint32_t choose = predicate(m, r->p, r->p_neg);
    if (HAS(r, U_WIDE)) {
        Wide a, b;
        pair(m, r, 0, &a);
        pair(m, r, 1, &b);
        EACH a.u[i] = (choose >> i & 1) ? a.u[i] : b.u[i];
        put_pair(m, r->d, &a);
    } else {
        Row ra, rb, out;
        const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb);
        EACH out.u[i] = (choose & BITS.u[i]) ? a->u[i] : b->u[i];
        put(m, r->d, &out);
    }
}

/* Adds 1 in the lanes of the mask. */
static inline void carry_in(Row *v, uint32_t lanes) {
    if (lanes == 0) return;
    EACH v->u[i] += (lanes & BITS.u[i]) ? 1u : 0u;
}

static void op_add3(Machine *m, const Record *r) {
    Row ra, rb, rc, out, top;
    const Row *a = inverted(m, r, 0, &ra), *b = inverted(m, r, 1, &rb), *c = inverted(m, r, 2, &rc);
    uint32_t cin = predicate(m, r->p, r->p_neg), cin2 = predicate(m, r->p2, r->p2_neg), k = (uint32_t)r->imm;
    if (r->pd == U_PT && r->pd2 == U_PT) {
        EACH out.u[i] = a->u[i] + b->u[i] + c->u[i] + k;
        carry_in(&out, cin);
        carry_in(&out, cin2);
        put(m, r->d, &out);
        return;
    }
    EACH { /* how often a 32-bit sum went over */
        uint32_t s = a->u[i] + b->u[i], t = s + c->u[i], u = t + k, v = u + ((cin & BITS.u[i]) ? 1u : 0u);
        out.u[i] = v + ((cin2 & BITS.u[i]) ? 1u : 0u);
        top.u[i] = (uint32_t)(s < a->u[i]) + (t < s) + (u < t) + (v < u) + (out.u[i] < v);
    }
    Row once, twice;
    EACH once.u[i] = top.u[i] ? ALL : 0;
    EACH twice.u[i] = top.u[i] & ~1u ? ALL : 0;
    put(m, r->d, &out);
    put_predicate(m, r->pd, mask_of(&once));
    put_predicate(m, r->pd2, mask_of(&twice));
}

static void op_lea(Machine *m, const Record *r) {
    Row ra, rb, rc, v, out, over;
    uint32_t shift = (uint32_t)r->imm & 63;
    const Row *a = word(m, r, 0, &ra);
    if (HAS(r, U_HI)) {
        if (HAS(r, U_SX_A)) EACH rc.i[i] = a->i[i] >> 31;
        const Row *c = HAS(r, U_SX_A) ? &rc : word(m, r, 2, &rc);
        EACH v.u[i] = (uint32_t)(((uint64_t)c->u[i] << 32 | a->u[i]) << shift >> 32);
    } else {
        EACH v.u[i] = shift < 32 ? a->u[i] << (shift & 31) : 0;
    }
    if (HAS(r, U_INV_A)) EACH v.u[i] = ~v.u[i];
    const Row *b = inverted(m, r, 1, &rb);
    uint32_t cin = predicate(m, r->p, r->p_neg);
    if (r->pd == U_PT) {
        EACH out.u[i] = v.u[i] + b->u[i] + r->mod;
        carry_in(&out, cin);
        put(m, r->d, &out);
        return;
    }
    EACH {
        uint32_t s = v.u[i] + b->u[i], t = s + r->mod;
        out.u[i] = t + ((cin & BITS.u[i]) ? 1u : 0u);
        over.u[i] = (s < v.u[i] || t < s || out.u[i] < t) ? ALL : 0;
    }
    put(m, r->d, &out);
    put_predicate(m, r->pd, mask_of(&over));
}

static void op_mad(Machine *m, const Record *r) {
    Row ra, rb, rc, out;
    const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb), *c = inverted(m, r, 2, &rc);
    uint32_t k = (uint32_t)r->imm;
    EACH out.u[i] = a->u[i] * b->u[i] + c->u[i] + k;
    carry_in(&out, predicate(m, r->p, r->p_neg));
    put(m, r->d, &out);
}

/* a * b + the pair c + cin in 64 bits; the carry goes to pd. */
static void wide_mad(Machine *m, const Record *r, Wide *c) {
    Row ra, rb;
    const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb);
    Wide product;
    pair(m, r, 2, c);
    if (HAS(r, U_SIGNED)) EACH product.i[i] = (int64_t)a->i[i] * b->i[i];
    else EACH product.u[i] = (uint64_t)a->u[i] * b->u[i];
    uint32_t cin = predicate(m, r->p, r->p_neg), carries = 0;
    if (r->pd == U_PT) {
        EACH c->u[i] += product.u[i];
        if (cin) EACH c->u[i] += cin >> i & 1;
        return;
    }
    EACH {
        uint64_t sum = product.u[i] + c->u[i], carry = cin >> i & 1, whole = sum + carry;
        carries |= (uint32_t)(sum < product.u[i] || whole < sum) << i;
        c->u[i] = whole;
    }
    put_predicate(m, r->pd, carries);
}

static void op_madw(Machine *m, const Record *r) {
    Wide sum;
    wide_mad(m, r, &sum);
    put_pair(m, r->d, &sum);
}

static void op_madh(Machine *m, const Record *r) {
    Wide sum;
    Row out;
    wide_mad(m, r, &sum);
    EACH out.u[i] = (uint32_t)(sum.u[i] >> 32);
    put(m, r->d, &out);
}

static void op_imnmx(Machine *m, const Record *r) {
    Row ra, rb, least, out;
    const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb);
    uint32_t turn = HAS(r, U_SIGNED) ? 0x80000000u : 0;
    spread(predicate(m, r->p, r->p_neg), &least);
    EACH {
        uint32_t less = (a->u[i] ^ turn) < (b->u[i] ^ turn) ? ALL : 0;
        out.u[i] = less == least.u[i] ? a->u[i] : b->u[i];
    }
    put(m, r->d, &out);
}

static void op_iabs(Machine *m, const Record *r) {
    Row ra, out;
    const Row *a = word(m, r, 0, &ra);
    EACH out.u[i] = a->i[i] < 0 ? 0u - a->u[i] : a->u[i];
    put(m, r->d, &out);
}

/* Lanes where less, equal or greater holds and the comparison's bit for it is set. */
static uint32_t compare_words(Machine *m, const Record *r, uint32_t *equal) {
    Row ra, rb, less, same;
    const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb);
    int32_t turn = HAS(r, U_SIGNED) ? 0 : INT32_MIN;
    EACH less.i[i] = (a->i[i] ^ turn) < (b->i[i] ^ turn) ? -1 : 0;
    EACH same.i[i] = a->i[i] == b->i[i] ? -1 : 0;
    uint32_t lt = mask_of(&less), eq = mask_of(&same), code = r->mod & 7;
    *equal = eq;
    return (code & 1 ? lt : 0) | (code & 2 ? eq : 0) | (code & 4 ? ~(lt | eq) : 0);
}

static uint32_t compare_pairs(Machine *m, const Record *r, uint32_t *equal) {
    Wide a, b;
    pair(m, r, 0, &a);
    pair(m, r, 1, &b);
    uint64_t turn = HAS(r, U_SIGNED) ? (uint64_t)1 << 63 : 0;
    uint32_t lt = 0, eq = 0, code = r->mod & 7;
    EACH lt |= (uint32_t)((a.u[i] ^ turn) < (b.u[i] ^ turn)) << i;
    EACH eq |= (uint32_t)(a.u[i] == b.u[i]) << i;
    *equal = eq;
    return (code & 1 ? lt : 0) | (code & 2 ? eq : 0) | (code & 4 ? ~(lt | eq) : 0);
}

static void op_isetp(Machine *m, const Record *r) {
    uint32_t equal, code = r->mod & 7;
    uint32_t result = HAS(r, U_WIDE) ? compare_pairs(m, r, &equal) : compare_words(m, r, &equal);
    if (HAS(r, U_EX) && code != U_C_F && code != U_C_T)
        result = (result & ~equal) | (predicate(m, r->p2, r->p2_neg) & equal);
    put_comparison(m, r, result);
}
