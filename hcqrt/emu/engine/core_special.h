/* The special functions of special.py: the same float64 operations in the same order. */

static inline double horner(int first, int count, double z) {
    double p = SPECIAL[first + count - 1];
    for (int k = count - 2; k >= 0; k--) p = p * z + SPECIAL[first + k];
    return p;
}

static inline double nearest(double x) { return (x + MAGIC) - MAGIC; }

static double special_ex2(double x) {
    if (is_nan(x)) return x;
    x = x > EX2_CLAMP ? EX2_CLAMP : x < -EX2_CLAMP ? -EX2_CLAMP : x;
    double n = nearest(x);
    return horner(AT_EX2, LENGTH_EX2, x - n) * power((int)n);
}

static double special_lg2(double x) {
    if (x == 0.0) return -INFINITY;
    if (!(x > 0.0)) return NAN;
    if (x == INFINITY) return x;
    uint64_t bits = bits_of(x);
    double e = (double)((int64_t)(bits >> 52) - 1023);
    double m = double_of((bits & (HIDDEN64 - 1)) | (uint64_t)1023 << 52);
    if (m > SQRT2) m = m * 0.5, e = e + 1.0;
    double s = (m - 1.0) / (m + 1.0);
    return e + s * horner(AT_LG2, LENGTH_LG2, s * s);
}

/* The sine of x whole turns, `ahead` quarter turns on. */
static double special_turn(double x, int ahead) {
    if (!is_finite(x)) return NAN;
    double r = fabs(x) >= WHOLE_TURNS ? copysign(0.0, x) : x - nearest(x);
    double k = nearest(r * 4.0), a = (r - k * 0.25) * TWO_PI, z = a * a;
    switch (((int)k + ahead) & 3) {
    case 0: return a * horner(AT_SIN, LENGTH_SIN, z);
    case 1: return horner(AT_COS, LENGTH_COS, z);
    case 2: return 0.0 - a * horner(AT_SIN, LENGTH_SIN, z);
    default: return 0.0 - horner(AT_COS, LENGTH_COS, z);
    }
}

static double special_tanh(double x) {
    if (x == 0.0 || is_nan(x)) return x;
    double y = x + x;
    if (fabs(x) < TANH_SPLIT) {
        double u = y * horner(AT_EXPM1, LENGTH_EXPM1, y);
        return u / (u + 2.0);
    }
    y = y > 80.0 ? 80.0 : y < -80.0 ? -80.0 : y;
    double e = special_ex2(y * LOG2E);
    return (e - 1.0) / (e + 1.0);
}

static double special(uint32_t function, double x) {
    switch (function) {
    case U_MUFU_COS: return special_turn(x, 1);
    case U_MUFU_SIN: return special_turn(x, 0);
    case U_MUFU_EX2: return special_ex2(x);
    case U_MUFU_LG2: return special_lg2(x);
    case U_MUFU_RCP: return 1.0 / x;
    case U_MUFU_RSQ: return 1.0 / sqrt(x);
    case U_MUFU_SQRT: return sqrt(x);
    default: return special_tanh(x);
    }
}
