/* Operations on bits: logic, bytes, shifts, counts, fields, and predicates as bits. Every lane is computed. */

/* The three-input table `lut` on words, bit by bit. */
static inline uint32_t logic(uint32_t lut, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (int index = 0; index < 8; index++)
        if (lut >> index & 1) result |= (index & 4 ? a : ~a) & (index & 2 ? b : ~b) & (index & 1 ? c : ~c);
    return result;
}

#define LOGIC(value) EACH { uint32_t a = pa->u[i], b = pb->u[i], c = pc->u[i]; (void)a, (void)b, (void)c; \
    out.u[i] = (value); } break

static void op_lop3(Machine *m, const Record *r) {
    Row ra, rb, rc, out;
    const Row *pa = word(m, r, 0, &ra), *pb = word(m, r, 1, &rb), *pc = word(m, r, 2, &rc);
    uint32_t lut = r->mod & 0xFF;
    switch (lut) {
    case 0xC0: LOGIC(a & b);
    case 0xFC: LOGIC(a | b);
    case 0x3C: LOGIC(a ^ b);
    case 0x33: LOGIC(~b);
    case 0x0F: LOGIC(~a);
    case 0x80: LOGIC(a & b & c);
    case 0xFE: LOGIC(a | b | c);
    case 0x96: LOGIC(a ^ b ^ c);
    case 0xF8: LOGIC(a | (b & c));
    case 0xEA: LOGIC((a & b) | c);
    default: {
        uint32_t w[8];
        for (int index = 0; index < 8; index++) w[index] = lut >> index & 1 ? ALL : 0;
        EACH {
            uint32_t a = pa->u[i], b = pb->u[i], c = pc->u[i];
            uint32_t low = (~b & ((~c & w[0]) | (c & w[1]))) | (b & ((~c & w[2]) | (c & w[3])));
            uint32_t high = (~b & ((~c & w[4]) | (c & w[5]))) | (b & ((~c & w[6]) | (c & w[7])));
            out.u[i] = (~a & low) | (a & high);
        }
    }
    }
    put(m, r->d, &out);
    if (r->pd != U_PT) {
        EACH out.u[i] = out.u[i] != 0 ? ALL : 0;
        put_predicate(m, r->pd, mask_of(&out));
    }
}

/* Named modes of PRMT (F4E B4E RC8 ECL ECR RC16): the selector by the low bits of b. Source: PTX ISA, prmt. */
static const uint16_t SELECTORS[6][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123}, {0x0000, 0x1111, 0x2222, 0x3333},
    {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};

static inline uint32_t permute(uint64_t value, uint32_t selector) {
    uint32_t result = 0;
    for (int k = 0; k < 4; k++) {
        uint32_t nibble = selector >> (4 * k) & 15, byte = (uint32_t)(value >> (nibble & 7) * 8) & 0xFF;
        if (nibble & 8) byte = byte & 0x80 ? 0xFF : 0;
        result |= byte << (8 * k);
    }
    return result;
}

/* Moves the bytes of `mask` that are `left` bits up (or down, when negative) in v. */
static void move_bytes(const Row *v, int left, uint32_t mask, Row *out) {
    if (left == 0) EACH out->u[i] |= v->u[i] & mask;
    else if (left > 0) EACH out->u[i] |= v->u[i] << left & mask;
    else EACH out->u[i] |= v->u[i] >> -left & mask;
}

/* All lanes choose the same bytes, none by its sign: bytes that stay together are moved at once. */
static void permute_all(const Row *a, const Row *c, uint32_t selector, Row *out) {
    uint32_t done = 0;
    fill(out, 0);
    for (int k = 0; k < 4; k++) {
        uint32_t from = selector >> (4 * k) & 7, mask = 0;
        const Row *v = from & 4 ? c : a;
        int apart = k - (int)(from & 3);
        if (v == &ZEROS || done >> k & 1) continue;
        for (int n = k; n < 4; n++) {
            uint32_t other = selector >> (4 * n) & 7;
            if ((other & 4) != (from & 4) || n - (int)(other & 3) != apart) continue;
            done |= 1u << n;
            mask |= 0xFFu << (8 * n);
        }
        move_bytes(v, 8 * apart, mask, out);
    }
}

static void op_prmt(Machine *m, const Record *r) {
    Row ra, rb, rc, out;
    const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb), *c = word(m, r, 2, &rc);
    if (r->kind[1] != U_REG && r->mod == 0 && !(b->u[0] & 0x8888)) {
        permute_all(a, c, b->u[0], &out);
        put(m, r->d, &out);
        return;
    }
    EACH {
        uint32_t selector = r->mod ? SELECTORS[r->mod - 1][b->u[i] & 3] : b->u[i];
        out.u[i] = permute((uint64_t)c->u[i] << 32 | a->u[i], selector);
    }
    put(m, r->d, &out);
}

/* A 64-bit value shifted by 0 to 64. */
static inline uint64_t shifted(uint64_t v, uint32_t n, int right, int arithmetic) {
    if (right && arithmetic) return (uint64_t)((int64_t)v >> (n > 63 ? 63 : n));
    if (n > 63) return 0;
    return right ? v >> n : v << n;
}

static void op_shf(Machine *m, const Record *r) {
    Row ra, rb, rc, out;
    const Row *a = word(m, r, 0, &ra), *c = word(m, r, 2, &rc), *b = word(m, r, 1, &rb);
    uint32_t limit = HAS(r, U_WIDE) ? 64 : 32, drop = HAS(r, U_HI) ? 32 : 0;
    int right = HAS(r, U_RIGHT), arithmetic = HAS(r, U_SIGNED), wrap = HAS(r, U_WRAP);
    if (r->kind[1] != U_REG) {
        uint32_t n = wrap ? b->u[0] & (limit - 1) : b->u[0] < limit ? b->u[0] : limit;
        EACH out.u[i] = (uint32_t)(shifted((uint64_t)c->u[i] << 32 | a->u[i], n, right, arithmetic) >> drop);
    } else {
        EACH {
            uint32_t n = wrap ? b->u[i] & (limit - 1) : b->u[i] < limit ? b->u[i] : limit;
            out.u[i] = (uint32_t)(shifted((uint64_t)c->u[i] << 32 | a->u[i], n, right, arithmetic) >> drop);
        }
    }
    put(m, r->d, &out);
}

static void op_popc(Machine *m, const Record *r) {
    Row ra, out;
    const Row *a = inverted(m, r, 0, &ra);
    EACH out.u[i] = (uint32_t)population(a->u[i]);
    put(m, r->d, &out);
}

static void op_brev(Machine *m, const Record *r) {
    Row ra, out;
    const Row *a = word(m, r, 0, &ra);
    EACH {
        uint32_t x = a->u[i];
        x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
        x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
        x = (x >> 4 & 0x0F0F0F0F) | (x & 0x0F0F0F0F) << 4;
        out.u[i] = __builtin_bswap32(x);
    }
    put(m, r->d, &out);
}

static void op_flo(Machine *m, const Record *r) {
    Row ra, out;
    const Row *a = inverted(m, r, 0, &ra);
    uint32_t found = 0;
    EACH {
        uint32_t x = HAS(r, U_SIGNED) && a->i[i] < 0 ? ~a->u[i] : a->u[i];
        uint32_t from_top = x ? (uint32_t)__builtin_clz(x) : 0;
        out.u[i] = x == 0 ? ALL : HAS(r, U_SH) ? from_top : 31 - from_top;
        found |= (uint32_t)(x != 0) << i;
    }
    put(m, r->d, &out);
    put_predicate(m, r->pd, found);
}

static inline uint32_t bounded(const Record *r, uint32_t n) {
    return HAS(r, U_WRAP) ? n & 31 : n < 32 ? n : 32;
}

static void op_bmsk(Machine *m, const Record *r) {
    Row ra, rb, out;
    const Row *b = word(m, r, 1, &rb), *a = word(m, r, 0, &ra);
    EACH out.u[i] = (uint32_t)((((uint64_t)1 << bounded(r, b->u[i])) - 1) << bounded(r, a->u[i]));
    put(m, r->d, &out);
}

static void op_sgxt(Machine *m, const Record *r) {
    Row ra, rb, out;
    const Row *b = word(m, r, 1, &rb), *a = word(m, r, 0, &ra);
    if (r->kind[1] != U_REG) {
        uint32_t ones = (uint32_t)(((uint64_t)1 << bounded(r, b->u[0])) - 1), sign = HAS(r, U_SIGNED) ? ones ^ ones >> 1 : 0;
        EACH out.u[i] = ((a->u[i] & ones) ^ sign) - sign;
        put(m, r->d, &out);
        return;
    }
    EACH {
        uint64_t ones = ((uint64_t)1 << bounded(r, b->u[i])) - 1;
        uint32_t kept = a->u[i] & (uint32_t)ones, sign = (uint32_t)(ones ^ ones >> 1);
        out.u[i] = HAS(r, U_SIGNED) ? (kept ^ sign) - sign : kept;
    }
    put(m, r->d, &out);
}

static void op_plop3(Machine *m, const Record *r) {
    uint32_t a = predicate(m, r->p, r->p_neg), b = predicate(m, r->p2, r->p2_neg), c = predicate(m, r->p3, r->p3_neg);
    put_predicate(m, r->pd, logic(r->mod & 0xFF, a, b, c));
    put_predicate(m, r->pd2, logic(r->mod >> 8 & 0xFF, a, b, c));
}

static void op_p2r(Machine *m, const Record *r) {
    Row ra, out;
    const Row *a = word(m, r, 0, &ra);
    uint32_t keep = (uint32_t)r->imm;
    EACH out.u[i] = a->u[i] & ~keep;
    for (int n = 0; n < 7; n++) {
        uint32_t lanes = keep >> n & 1 ? m->s->pred[n] : 0;
        EACH out.u[i] |= (lanes & BITS.u[i]) ? 1u << n : 0;
    }
    put(m, r->d, &out);
}

static void op_r2p(Machine *m, const Record *r) {
    Row ra;
    const Row *a = word(m, r, 0, &ra);
    for (int n = 0; n < 7; n++) {
        uint32_t lanes = 0;
        if (!(r->imm >> n & 1)) continue;
        EACH lanes |= (a->u[i] >> n & 1) << i;
        put_predicate(m, (uint8_t)n, lanes);
    }
}
