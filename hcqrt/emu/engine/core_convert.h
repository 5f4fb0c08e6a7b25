/* Conversions between the formats of floats and integers. */

static inline Format format_of(uint32_t number) {
    return number == U_F16 ? HALF : number == U_BF16_FORMAT ? BFLOAT : number == U_F32 ? SINGLE : DOUBLE;
}

static inline int integer_bits(uint32_t number) { return 8 << ((number - U_I8) & 3); }

static inline int is_signed(uint32_t number) { return number < U_U8; }

/* Source a in a float format; FTZ concerns f32 alone. */
static void float_source(Machine *m, const Record *r, uint32_t format, Wide *v) {
    Row room;
    if (format == U_F64) {
        doubles(m, r, 0, v);
        return;
    }
    if (format == U_F32) {
        const Row *a = single(m, r, 0, &room);
        EACH v->f[i] = (double)a->f[i];
        return;
    }
    const Row *a = word(m, r, 0, &room);
    uint32_t keep = HAS(r, U_ABS_A) ? 0x7FFF : 0xFFFF, turn = HAS(r, U_NEG_A) ? 0x8000 : 0, drop = r->imm == 1 ? 16 : 0;
    EACH v->f[i] = widen_half((a->u[i] >> drop & keep) ^ turn, format_of(format));
}

/* x, exact, rounded to a format and stored; a NaN in f64 keeps what `nan` holds. */
static void put_float(Machine *m, const Record *r, const Wide *x, uint32_t format, const Wide *nan) {
    Row out;
    Wide wide;
    uint32_t mode = mode_of(r);
    if (format == U_F64) {
        EACH {
            double value = HAS(r, U_SAT) ? saturate_double(x->f[i]) : x->f[i];
            wide.u[i] = quiet(value, nan->f[i], 0.0, 0.0);
        }
        put_pair(m, r->d, &wide);
        return;
    }
    if (format == U_F32) {
        EACH out.u[i] = finish32(r, to_single(x->f[i], mode));
    } else {
        Format form = format_of(format);
        EACH out.u[i] = to_half(x->f[i], form, mode);
        if (HAS(r, U_SAT)) EACH out.u[i] = to_half(saturate_double(widen_half(out.u[i], form)), form, U_RN);
    }
    put(m, r->d, &out);
}

static inline double integral(double x, uint32_t mode) {
    return mode == U_RN ? rint(x) : mode == U_RM ? floor(x) : mode == U_RP ? ceil(x) : trunc(x);
}

/* Between f32 and 16 bits, to nearest. */
static void convert_row(Machine *m, const Record *r, uint32_t to, uint32_t from) {
    Row room, out;
    if (to == U_F32) {
        uint32_t keep = HAS(r, U_ABS_A) ? 0x7FFF : 0xFFFF, turn = HAS(r, U_NEG_A) ? 0x8000 : 0;
        uint32_t drop = r->imm == 1 ? 16 : 0;
        const Row *a = word(m, r, 0, &room);
        EACH room.u[i] = (a->u[i] >> drop & keep) ^ turn;
        widen_row(&room, from == U_BF16_FORMAT, &out);
        finish_row(r, &out);
    } else {
        const Row *a = single(m, r, 0, &room);
        narrow_row(a, to == U_BF16_FORMAT, &out);
        if (HAS(r, U_SAT)) saturate_halves(to == U_BF16_FORMAT, &out);
    }
    put(m, r->d, &out);
}

static void op_f2f(Machine *m, const Record *r) {
    Wide x;
    uint32_t to = r->mod & 15, from = r->mod >> U_FORMAT_SHIFT & 15;
    int widens = to == U_F32 && from < U_F32, narrows = to < U_F32 && from == U_F32;
    if (widens || (narrows && mode_of(r) == U_RN)) {
        convert_row(m, r, to, from);
        return;
    }
    float_source(m, r, r->mod >> U_FORMAT_SHIFT & 15, &x);
    put_float(m, r, &x, r->mod & 15, &x);
}

static void op_frnd(Machine *m, const Record *r) {
    Wide x, whole;
    float_source(m, r, r->mod >> U_FORMAT_SHIFT & 15, &x);
    EACH whole.f[i] = integral(x.f[i], mode_of(r));
    put_float(m, r, &whole, r->mod & 15, &x);
}

/* Rounded and clamped, as two's complement in 64 bits; NaN gives 0. */
static uint64_t to_integer(double x, int bits, int with_sign, uint32_t mode) {
    double y = integral(x, mode), over = power(with_sign ? bits - 1 : bits), low = with_sign ? -over : 0.0;
    uint64_t largest = ~(uint64_t)0 >> (with_sign ? 65 - bits : 64 - bits);
    if (is_nan(y)) return 0;
    if (y >= over) return largest;
    if (y < low) return with_sign ? ~largest : 0;
    return with_sign ? (uint64_t)(int64_t)y : (uint64_t)y;
}

static void op_f2i(Machine *m, const Record *r) {
    Wide x, value;
    Row out;
    uint32_t to = r->mod & 15;
    int bits = integer_bits(to), with_sign = is_signed(to);
    float_source(m, r, r->mod >> U_FORMAT_SHIFT & 15, &x);
    EACH value.u[i] = to_integer(x.f[i], bits, with_sign, mode_of(r));
    if (bits == 64) {
        put_pair(m, r->d, &value);
        return;
    }
    EACH out.u[i] = (uint32_t)value.u[i];
    put(m, r->d, &out);
}

static uint64_t from_integer(uint64_t value, int with_sign, Format form, uint32_t mode) {
    int minus = with_sign && value >> 63;
    uint64_t magnitude = minus ? 0 - value : value;
    if (magnitude == 0) return 0;
    int top = 63 - __builtin_clzll(magnitude);
    return pack(minus, magnitude << (63 - top), 63, top, form, mode);
}

static void op_i2f(Machine *m, const Record *r) {
    Wide value, wide;
    Row room, out;
    uint32_t from = r->mod >> U_FORMAT_SHIFT & 15, to = r->mod & 15, mode = mode_of(r);
    int bits = integer_bits(from), with_sign = is_signed(from);
    Format form = format_of(to);
    if (bits == 64) {
        pair(m, r, 0, &value);
    } else {
        const Row *a = word(m, r, 0, &room);
        int drop = bits < 32 ? bits * (int)r->imm & 31 : 0, spare = 32 - bits;
        EACH {
            uint32_t top = a->u[i] >> drop << spare;
            value.u[i] = with_sign ? (uint64_t)(int64_t)((int32_t)top >> spare) : top >> spare;
        }
    }
    if (to == U_F32 && mode == U_RN && bits < 64) {
        EACH out.f[i] = (float)value.i[i];
        put(m, r->d, &out);
        return;
    }
    EACH wide.u[i] = from_integer(value.u[i], with_sign, form, mode);
    if (to == U_F64) {
        put_pair(m, r->d, &wide);
        return;
    }
    EACH out.u[i] = (uint32_t)wide.u[i];
    put(m, r->d, &out);
}

static void op_f2fp(Machine *m, const Record *r) {
    Row ra, rb, out;
    const Row *a = single(m, r, 0, &ra), *b = single(m, r, 1, &rb);
    Format form = half_format(r);
    uint32_t mode = mode_of(r);
    EACH out.u[i] = to_half(a->f[i], form, mode) << 16 | to_half(b->f[i], form, mode);
    put(m, r->d, &out);
}
