/* Packed f16 and bf16 arithmetic. */

/* 16-bit patterns to f32, exactly. */
static void widen_row(const Row *bits, int brain, Row *out) {
    Row small;
    if (brain) {
        EACH out->u[i] = bits->u[i] << 16;
        return;
    }
    EACH small.f[i] = (float)(int32_t)(bits->u[i] & 0x7FFF) * 5.9604644775390625e-08f; /* of denormals: 2**-24 each */
    EACH {
        uint32_t m = bits->u[i] & 0x7FFF, sign = (bits->u[i] & 0x8000) << 16;
        uint32_t value = (m << 13) + (m >= 0x7C00 ? 2 * 0x38000000u : 0x38000000u);
        out->u[i] = sign | (m < 0x400 ? small.u[i] : value);
    }
}

/* f32 to 16 bits, to nearest; NaNs become the canonical one. */
static void narrow_row(const Row *v, int brain, Row *out) {
    Row small;
    if (brain) {
        EACH {
            uint32_t u = v->u[i], rounded = (u + 0x7FFF + (u >> 16 & 1)) >> 16;
            out->u[i] = (u & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : rounded;
        }
        return;
    }
    EACH small.u[i] = v->u[i] & 0x7FFFFFFF;
    EACH small.f[i] += 0.5f; /* rounds what is below the smallest normal number to steps of 2**-24 */
    EACH {
        uint32_t m = v->u[i] & 0x7FFFFFFF, sign = v->u[i] >> 16 & 0x8000;
        uint32_t rounded = (m - 0x38000000 + 0xFFF + (m >> 13 & 1)) >> 13;
        rounded = rounded > 0x7C00 ? 0x7C00 : rounded;
        rounded = m < 0x38800000 ? small.u[i] - 0x3F000000 : rounded;
        out->u[i] = m > 0x7F800000 ? 0x7FFF : sign | rounded;
    }
}

static void flush_halves(int brain, Row *v) {
    uint32_t infinite = brain ? 0x7F80 : 0x7C00;
    EACH v->u[i] = v->u[i] & infinite ? v->u[i] : v->u[i] & 0x8000;
}

static void saturate_halves(int brain, Row *v) {
    int32_t infinite = brain ? 0x7F80 : 0x7C00, one = brain ? 0x3F80 : 0x3C00;
    EACH v->i[i] = v->i[i] > infinite ? 0 : v->i[i] < one ? v->i[i] : one; /* NaNs and -x lie above infinity */
}

/* One of the two values of a packed source: |x|, then -x, then flushed. */
static inline void half_row(const Record *r, int slot, const Row *bits, int high, Row *out) {
    uint32_t keep = r->flags & U_ABS_A << slot ? 0x7FFF : 0xFFFF, turn = r->flags & U_NEG_A << slot ? 0x8000 : 0;
    if (high) EACH out->u[i] = (bits->u[i] >> 16 & keep) ^ turn;
    else EACH out->u[i] = (bits->u[i] & keep) ^ turn;
    if (HAS(r, U_FTZ)) flush_halves(HAS(r, U_BF16), out);
}

/* The low and high values of a packed source, chosen by mod, as f32. Whether a high one is not +0: code with one value in
 * a register is common, and what it does to zeros gives zeros. */
static int packed(Machine *m, const Record *r, int slot, Row v[2]) {
    Row room, half;
    const Row *bits = word(m, r, slot, &room);
    uint32_t choice = r->mod >> (2 * slot) & 3, any = 0;
    half_row(r, slot, bits, choice == 3, &half);
    widen_row(&half, HAS(r, U_BF16), &v[0]);
    half_row(r, slot, bits, choice != 2, &half);
    EACH any |= half.u[i];
    if (any) widen_row(&half, HAS(r, U_BF16), &v[1]);
    else v[1] = ZEROS;
    return any != 0;
}

/* f32 results of both halves, which lose nothing by being rounded a second time. */
static void put_packed(Machine *m, const Record *r, Row v[2], int high) {
    if (HAS(r, U_F32_RESULT)) {
        finish_row(r, &v[0]);
        put(m, r->d, &v[0]);
        return;
    }
    for (int k = 0; k <= high; k++) {
        narrow_row(&v[k], HAS(r, U_BF16), &v[k]);
        if (HAS(r, U_FTZ)) flush_halves(HAS(r, U_BF16), &v[k]);
        if (HAS(r, U_SAT)) saturate_halves(HAS(r, U_BF16), &v[k]);
    }
    if (high) EACH v[0].u[i] |= v[1].u[i] << 16;
    put(m, r->d, &v[0]);
}

static inline Format half_format(const Record *r) { return HAS(r, U_BF16) ? BFLOAT : HALF; }

static inline double flush_half(double x, Format form) {
    return fabs(x) < power(1 - bias_of(form)) ? copysign(0.0, x) : x;
}

/* The low and high values of a packed source: chosen by mod, then |x|, -x and flushing. */
static void halves(Machine *m, const Record *r, int slot, Wide v[2]) {
    Row room;
    const Row *bits = word(m, r, slot, &room);
    Format form = half_format(r);
    uint32_t choice = r->mod >> (2 * slot) & 3, keep = r->flags & U_ABS_A << slot ? 0x7FFF : 0xFFFF;
    uint32_t turn = r->flags & U_NEG_A << slot ? 0x8000 : 0;
    for (int k = 0; k < 2; k++) {
        int high = choice ? choice == 3 : k;
        EACH v[k].f[i] = widen_half(((high ? bits->u[i] >> 16 : bits->u[i]) & keep) ^ turn, form);
        if (HAS(r, U_FTZ)) EACH v[k].f[i] = flush_half(v[k].f[i], form);
    }
}

/* float64 to 16 bits; f16 to nearest is what nearly all kernels ask for. */
static uint32_t to_half(double x, Format form, uint32_t mode) {
    if (form.mantissa == 7) return narrow(x, BFLOAT, mode);
    return mode == U_RN ? narrow(x, HALF, U_RN) : narrow(x, HALF, mode);
}

static uint32_t finish_half(const Record *r, double x, Format form) {
    uint32_t bits = to_half(x, form, mode_of(r));
    if (!HAS(r, U_FTZ | U_SAT)) return bits;
    double value = widen_half(bits, form);
    if (HAS(r, U_FTZ)) value = flush_half(value, form);
    if (HAS(r, U_SAT)) value = saturate_double(value);
    return to_half(value, form, U_RN);
}

static void put_halves(Machine *m, const Record *r, const Wide *low, const Wide *high) {
    Row out;
    Format form = half_format(r);
    if (HAS(r, U_F32_RESULT)) EACH out.u[i] = finish32(r, to_single(low->f[i], mode_of(r)));
    else EACH out.u[i] = finish_half(r, high->f[i], form) << 16 | finish_half(r, low->f[i], form);
    put(m, r->d, &out);
}

/* Sums and products of 11 bits are rounded right by way of f32: it has more than twice as many. */
static void op_hadd2(Machine *m, const Record *r) {
    Wide a[2], b[2];
    if (mode_of(r) == U_RN) {
        Row x[2], y[2];
        int high = packed(m, r, 0, x) | packed(m, r, 1, y);
        for (int k = 0; k <= high; k++) EACH x[k].f[i] += y[k].f[i];
        put_packed(m, r, x, high);
        return;
    }
    halves(m, r, 0, a);
    halves(m, r, 1, b);
    for (int k = 0; k < 2; k++) EACH a[k].f[i] = odd_sum(a[k].f[i], b[k].f[i], mode_of(r));
    put_halves(m, r, &a[0], &a[1]);
}

static void op_hmul2(Machine *m, const Record *r) {
    Wide a[2], b[2];
    if (mode_of(r) == U_RN) {
        Row x[2], y[2];
        int high = packed(m, r, 0, x) | packed(m, r, 1, y);
        for (int k = 0; k <= high; k++) EACH x[k].f[i] *= y[k].f[i];
        put_packed(m, r, x, high);
        return;
    }
    halves(m, r, 0, a);
    halves(m, r, 1, b);
    for (int k = 0; k < 2; k++) EACH a[k].f[i] *= b[k].f[i];
    put_halves(m, r, &a[0], &a[1]);
}

/* a + b in f32, its last bit set whenever that is not exact. No sum of f16 values and products overflows it. */
static void odd_row(const Row *a, const Row *b, Row *out) {
    EACH {
        float x = a->f[i], y = b->f[i], s = x + y, t = s - x, error = (x - (s - t)) + (y - t);
        uint32_t up = (error > 0.0f) == (s > 0.0f) ? 1u : ALL, exact = !(error > 0.0f || error < 0.0f);
        uint32_t bits = bits32(s);
        out->u[i] = exact || (bits & 1) ? bits : bits + up;
    }
}

static void op_hfma2(Machine *m, const Record *r) {
    Wide a[2], b[2], c[2];
    if (mode_of(r) == U_RN && !HAS(r, U_BF16 | U_F32_RESULT)) {
        Row x[2], y[2], z[2];
        int high = packed(m, r, 0, x) | packed(m, r, 1, y) | packed(m, r, 2, z);
        for (int k = 0; k <= high; k++) {
            EACH x[k].f[i] *= y[k].f[i]; /* exact */
            odd_row(&x[k], &z[k], &x[k]);
        }
        put_packed(m, r, x, high);
        return;
    }
    halves(m, r, 0, a);
    halves(m, r, 1, b);
    halves(m, r, 2, c);
    for (int k = 0; k < 2; k++) EACH a[k].f[i] = odd_sum(a[k].f[i] * b[k].f[i], c[k].f[i], mode_of(r));
    put_halves(m, r, &a[0], &a[1]);
}

static void op_hmnmx2(Machine *m, const Record *r) {
    Row a[2], b[2], least;
    int high = packed(m, r, 0, a) | packed(m, r, 1, b);
    spread(predicate(m, r->p, r->p_neg), &least);
    for (int k = 0; k <= high; k++) extremes(&a[k], &b[k], &least, HAS(r, U_NAN_WINS), &a[k]);
    put_packed(m, r, a, high);
}

static void op_hsetp2(Machine *m, const Record *r) {
    Row a[2], b[2];
    packed(m, r, 0, a);
    packed(m, r, 1, b);
    uint32_t other = predicate(m, r->p, r->p_neg), code = r->mod >> 8 & 15, how = r->mod >> 12 & 3, result[2];
    for (int k = 0; k < 2; k++) result[k] = compare_rows(code, &a[k], &b[k]);
    if (r->mod >> 14 & 1) {
        result[0] &= result[1];
        result[1] = ~result[0];
    }
    put_predicate(m, r->pd, combine(how, result[0], other));
    put_predicate(m, r->pd2, combine(how, result[1], other));
}
