/* Exact rounding: wide mantissas packed into any IEEE format in any direction, error-free sums and products. */

#if !defined(FLT_EVAL_METHOD)
#include <float.h>
#endif
#if FLT_EVAL_METHOD != 0
#error "float64 arithmetic must round to float64: the NumPy core does the work here"
#endif

typedef struct {
    int mantissa, exponent; /* sizes of the fields */
} Format;

#define INLINE static inline __attribute__((always_inline)) /* for one format at a time, known to the compiler */

static const Format HALF = {10, 5}, BFLOAT = {7, 8}, SINGLE = {23, 8}, DOUBLE = {52, 11};

#define NAN32 0x7FFFFFFFu
#define DEFAULT_NAN64 0x7FF8000000000000u
#define QUIET64 ((uint64_t)1 << 51)
#define SIGN64 ((uint64_t)1 << 63)
#define HIDDEN64 ((uint64_t)1 << 52)
#define LEAST_NORMAL 2.2250738585072014e-308   /* float64 */
#define LEAST_NORMAL32 1.1754943508222875e-38  /* f32 */

static inline uint64_t bits_of(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static inline double double_of(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
static inline uint32_t bits32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float float_of(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
static inline int is_nan(double x) { return x != x; }
static inline int is_finite(double x) { return x - x == 0.0; }
static inline int negative(double x) { return bits_of(x) >> 63 != 0; }
static inline uint32_t mode_of(const Record *r) { return r->flags >> U_ROUND_SHIFT & 3; }

static inline int bias_of(Format f) { return (1 << (f.exponent - 1)) - 1; }
static inline uint64_t infinity_of(Format f) { return (((uint64_t)1 << f.exponent) - 1) << f.mantissa; }

/* (-1)**minus * mantissa * 2**(exponent - top), rounded once. `mantissa` has bit `top` set; a smaller one is right
 * only below the format's smallest normal number. */
INLINE uint64_t pack(int minus, uint64_t mantissa, int top, int exponent, Format form, uint32_t mode) {
    int smallest = 1 - bias_of(form), below = exponent < smallest ? smallest - exponent : 0;
    int shift = top - form.mantissa + below;
    uint64_t sign = (uint64_t)minus << (form.mantissa + form.exponent);
    if (shift > 63) { /* all of it is cut off, and less than half a step */
        mantissa = mantissa != 0;
        shift = 2;
    }
    uint64_t kept = mantissa >> shift, rest = mantissa & (((uint64_t)1 << shift) - 1);
    uint64_t half = shift ? (uint64_t)1 << (shift - 1) : 0;
    int grow = 0;
    if (rest) {
        if (mode == U_RN) grow = rest > half || (rest == half && (kept & 1));
        else if (mode == U_RM) grow = minus;
        else if (mode == U_RP) grow = !minus;
    }
    int from = exponent < smallest ? smallest : exponent;
    if (exponent <= bias_of(form)) {
        uint64_t bits = ((uint64_t)(from + bias_of(form) - 1) << form.mantissa) + kept + (uint64_t)grow;
        if (bits < infinity_of(form)) return sign | bits;
    }
    int finite = mode == U_RZ || (mode == U_RM && !minus) || (mode == U_RP && minus);
    return sign | (infinity_of(form) - (uint64_t)finite);
}

/* A float64 rounded to bits of a smaller format; NaNs become the canonical one. */
INLINE uint32_t narrow(double x, Format form, uint32_t mode) {
    uint64_t raw = bits_of(x), magnitude = raw & ~SIGN64, mantissa = magnitude & (HIDDEN64 - 1);
    int minus = raw >> 63 != 0, biased = (int)(magnitude >> 52), top = form.mantissa + form.exponent;
    if (biased == 0x7FF) {
        if (mantissa) return (uint32_t)(((uint64_t)1 << top) - 1);
        return (uint32_t)(infinity_of(form) | (uint64_t)minus << top);
    }
    if (biased) mantissa |= HIDDEN64;
    return (uint32_t)pack(minus, mantissa, 52, (biased ? biased : 1) - 1023, form, mode);
}

/* 16-bit patterns to float64, exactly. */
static inline double widen_half(uint32_t bits, Format form) {
    if (form.mantissa == 7) return (double)float_of(bits << 16);
    uint32_t exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
    uint64_t sign = (uint64_t)(bits >> 15 & 1) << 63;
    if (exponent == 31) return double_of(sign | (uint64_t)0x7FF << 52 | (uint64_t)mantissa << 42);
    if (exponent == 0) { /* a denormal: 2**-24 each */
        double magnitude = (double)mantissa * 5.9604644775390625e-08;
        return double_of(bits_of(magnitude) | sign);
    }
    return double_of(sign | (uint64_t)(exponent + 1023 - 15) << 52 | (uint64_t)mantissa << 42);
}

/* The rounded sum; the exact error is left behind. */
static inline double two_sum(double a, double b, double *error) {
    double s = a + b, t = s - a;
    *error = (a - (s - t)) + (b - t);
    return s;
}

/* The rounded product and its exact error, by splitting each factor in two (magnitudes near 1). */
static inline double two_product(double a, double b, double *error) {
    double p = a * b, ah = a * 134217729.0, bh = b * 134217729.0; /* 2**27 + 1 */
    ah = ah - (ah - a);
    bh = bh - (bh - b);
    double al = a - ah, bl = b - bh;
    *error = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return p;
}

/* s + error as a float64 whose last bit is set whenever it is not exact: a second rounding to a format at least two
 * bits shorter is then right. Infinities and NaNs (whose error is NaN) pass. */
static inline double round_to_odd(double s, double error) {
    uint64_t bits = bits_of(s);
    if (!(error > 0.0 || error < 0.0) || (bits & 1)) return s;
    return double_of((error > 0.0) == (s > 0.0) ? bits + 1 : bits - 1);
}

/* The odd-rounded sum; rounding down, an exact zero is negative unless both terms were +0. */
static inline double odd_sum(double a, double b, uint32_t mode) {
    double error, s = two_sum(a, b, &error);
    s = round_to_odd(s, error);
    if (mode == U_RM && s == 0.0 && (negative(a) || negative(b))) return -0.0;
    return s;
}

/* The bits of a float64 result; of a NaN: those of the first source that is one, made quiet. */
static inline uint64_t quiet(double result, double a, double b, double c) {
    if (!is_nan(result)) return bits_of(result);
    if (is_nan(a)) return bits_of(a) | QUIET64;
    if (is_nan(b)) return bits_of(b) | QUIET64;
    return is_nan(c) ? bits_of(c) | QUIET64 : DEFAULT_NAN64;
}

/* x = m * 2**e with 1 <= |m| < 2; zeros stay zero. */
static double split(double x, int *e) {
    int small = fabs(x) < LEAST_NORMAL;
    uint64_t bits = bits_of(small ? x * 18014398509481984.0 : x); /* 2**54 */
    *e = (int)(bits >> 52 & 0x7FF) - 1023 - (small ? 54 : 0);
    return x == 0.0 ? x : double_of((bits & ~((uint64_t)0x7FF << 52)) | (uint64_t)1023 << 52);
}

static inline double power(int n) { return double_of((uint64_t)(n + 1023) << 52); }

/* (s + error) * 2**scale rounded once; s is the nearest float64 of the sum and not zero. */
static double round_double(double s, double error, int scale, uint32_t mode) {
    uint64_t bits = bits_of(s), mantissa = (bits & (HIDDEN64 - 1)) | HIDDEN64;
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023 + scale;
    int side = error == 0.0 ? 0 : (error > 0.0) == (s > 0.0) ? 1 : -1;
    /* Two more bits hold the side on which the exact sum lies; just below a power of two it has the finer step. */
    int below = mantissa == HIDDEN64 && side < 0;
    uint64_t wide = below ? ((uint64_t)1 << 55) - 1 : mantissa * 4 + (uint64_t)(int64_t)side;
    return double_of(pack(bits >> 63 != 0, wide, 54, exponent - below, DOUBLE, mode));
}

/* An addend this many binades away only decides the direction of the rounding. */
#define FAR 130

/* a * b + c rounded once in any direction; NaNs are not yet chosen. */
static double fused(double a, double b, double c, uint32_t mode) {
    if (!is_finite(a) || !is_finite(b) || !is_finite(c)) return is_finite(a) && is_finite(b) ? c : a * b + c;
    int minus = negative(a) != negative(b);
    int minus_zero = mode == U_RM ? minus || negative(c) : minus && negative(c);
    double cancelled = minus_zero ? -0.0 : 0.0;
    if (a == 0.0 || b == 0.0) return c == 0.0 ? cancelled : c;
    int ea, eb, ec;
    double ma = split(a, &ea), mb = split(b, &eb), mc = split(c, &ec), low, u_error, t_error, error, rest;
    double high = two_product(ma, mb, &low);
    int apart = mc == 0.0 ? -FAR : ec - (ea + eb);
    int near = apart > FAR ? FAR : apart < -FAR ? -FAR : apart;
    double u = two_sum(mc * power(near), low, &u_error);
    double t = two_sum(high, u, &t_error);
    double r = two_sum(t_error, u_error, &rest);
    double s = two_sum(t, round_to_odd(r, rest), &error);
    if (s == 0.0) return cancelled;
    return round_double(s, error, apart > FAR ? ec - FAR : ea + eb, mode);
}
