/* The state of a launch, and how operations read their sources and write their results. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LANES 32 /* of a slice */
#define ALL 0xFFFFFFFFu
#define EACH for (int i = 0; i < LANES; i++)
#define HAS(r, flag) (((r)->flags & (flag)) != 0)

_Static_assert(sizeof(Record) == 64, "a record of the contract has 64 bytes");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "IEEE formats");

typedef union {
    uint32_t u[LANES];
    int32_t i[LANES];
    float f[LANES];
} Row;

typedef union {
    uint64_t u[LANES];
    int64_t i[LANES];
    double f[LANES];
} Wide;

enum { FAULT_NONE, FAULT_MISALIGNED, FAULT_GLOBAL, FAULT_READ_ONLY, FAULT_ATOMIC, FAULT_SHARED, FAULT_LOCAL,
       FAULT_CONSTANT, FAULT_ILLEGAL, FAULT_TRAP, FAULT_BUDGET, FAULT_DEADLOCK, FAULT_REGISTER };
enum { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };
enum { DETAIL_NONE, DETAIL_BANK, DETAIL_PAST_END, DETAIL_JUMP };

/* 32 lanes of a warp: it has one, two or four slices, and most operations see one slice at a time. */
typedef struct {
    Row reg[U_REGISTERS];
    uint32_t pred[U_PREDICATES];         /* a lane mask each */
    uint32_t arrivals[U_BARRIER_REGISTERS];
    Row position;                        /* of each live lane, when not together */
    uint8_t waits_on[LANES];             /* the register of a BSYNC, the number of a BAR */
    uint32_t run, live, passing, group;  /* whose registers are written; live; that pass the guard; at this position */
    uint32_t at_bar, skip;
    uint32_t number;                     /* of the slice in its block */
    uint8_t *local;
    /* only in warps of one slice */
    uint32_t barrier[U_BARRIER_REGISTERS][LANES];
    uint32_t wait_mask[LANES];           /* of lanes at WARPSYNC */
    uint32_t at_sync, at_warp;
} Slice;

typedef struct {
    Slice *slices;
    uint32_t living;                     /* how many lanes live */
    uint32_t here;                       /* the position of the group */
    int together;                        /* the group is all that live */
    uint32_t turns;                      /* branches backwards since lanes sat out for one */
    uint32_t number;                     /* of the warp in its block */
} Warp;

typedef struct {
    const Job *job;
    Outcome *out;
    Warp *w;
    Slice *s;
    uint32_t run;                 /* the lanes of `s` whose registers are written */
    int any, whole;               /* whether one lane, whether every lane of the group passes the guard */
    uint32_t slice_count;         /* of each warp */
    uint64_t executed, pc;
    Warp *warps;
    Slice *slices;
    uint32_t warp_count, threads;
    uint8_t *shared, *local;
    uint64_t local_stride;
    const Range *last;            /* the range of the last access */
    uint32_t expected[U_BARRIER_REGISTERS];
    uint32_t ctaid[3];
    uint16_t used[U_REGISTERS];   /* registers of this program */
    uint32_t used_count;
    int moved, uses_barriers, uses_local;
} Machine;

#define MAX_SLICES 4
#define EACH_OF(m, s, count) for (Slice *s = (m)->w->slices, *s##_end = s + (count); s < s##_end; s++)
#define EACH_SLICE(m, s) EACH_OF(m, s, (m)->slice_count)

static const Row ZEROS;
static const Row BITS = {{
    1u << 0, 1u << 1, 1u << 2, 1u << 3, 1u << 4, 1u << 5, 1u << 6, 1u << 7, 1u << 8, 1u << 9, 1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
    1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31}};

static inline int lowest(uint32_t mask) { return __builtin_ctz(mask); }

static inline int population(uint32_t mask) { return __builtin_popcount(mask); }

/* The lanes whose word is all ones (else it is zero). */
static inline uint32_t mask_of(const Row *v) {
    uint32_t mask = 0;
#if defined(__SSE2__)
    const __m128i *p = (const __m128i *)v->u;
    for (int half = 0; half < 2; half++, p += 4) {
        __m128i low = _mm_packs_epi32(_mm_loadu_si128(p), _mm_loadu_si128(p + 1));
        __m128i high = _mm_packs_epi32(_mm_loadu_si128(p + 2), _mm_loadu_si128(p + 3));
        mask |= (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << (16 * half);
    }
#else
    EACH mask |= v->u[i] & BITS.u[i];
#endif
    return mask;
}

/* All ones in the lanes of the mask. */
static inline void spread(uint32_t mask, Row *v) {
    EACH v->u[i] = (mask & BITS.u[i]) ? ALL : 0;
}

static inline void fill(Row *v, uint32_t value) {
    EACH v->u[i] = value;
}

/* Look at one slice; whether a lane of it runs. */
static inline int enter(Machine *m, Slice *s) {
    m->s = s;
    m->run = s->run;
    return m->run != 0;
}

/* Enter the slice of the warp's first lane that passed the guard (there is one), and say which lane of it that is. */
static int first_passing(Machine *m) {
    Slice *s = m->w->slices;
    while (!s->passing) s++;
    enter(m, s);
    return lowest(s->passing);
}

/* The first fault counts; what a record does after it is never seen. */
static void fault(Machine *m, int kind, int lane, uint64_t pc, uint64_t address, int access) {
    Outcome *out = m->out;
    if (out->kind != FAULT_NONE) return;
    const uint32_t *block = m->job->block;
    uint32_t thread = m->s->number * LANES + (uint32_t)lane;
    out->kind = kind;
    out->access = access;
    out->pc = pc;
    out->address = address;
    memcpy(out->block, m->ctaid, sizeof out->block);
    out->thread[0] = thread % block[0];
    out->thread[1] = thread / block[0] % block[1];
    out->thread[2] = thread / block[0] / block[1];
}

static void detail(Machine *m, int which, uint64_t a, uint64_t b) {
    if (m->out->detail != DETAIL_NONE) return;
    m->out->detail = which;
    m->out->detail_a = a;
    m->out->detail_b = b;
}

static const Bank *bank(const Machine *m, uint64_t number) {
    for (uint64_t k = 0; k < m->job->bank_count; k++)
        if (m->job->banks[k].number == number) return &m->job->banks[k];
    return NULL;
}

static void constant_fault(Machine *m, uint32_t source, uint32_t size) {
    Slice *kept = m->s;
    uint32_t offset = source & 0xFFFF;
    if (m->out->kind == FAULT_NONE) detail(m, DETAIL_BANK, size, source >> 16);
    int lane = first_passing(m);
    fault(m, offset % size ? FAULT_MISALIGNED : FAULT_CONSTANT, lane, m->pc, offset, ACCESS_READ);
    enter(m, kept);
}

static uint64_t constant(Machine *m, uint32_t source, uint32_t size) {
    const Bank *found = bank(m, source >> 16);
    uint32_t offset = source & 0xFFFF;
    uint64_t value = 0, nbytes = found ? found->nbytes : 0;
    if (offset % size || offset + size > nbytes) {
        constant_fault(m, source, size);
        return 0;
    }
    if (size == 4) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)(uintptr_t)found->host + offset, 4);
        return word;
    }
    memcpy(&value, (const uint8_t *)(uintptr_t)found->host + offset, 8);
    return value;
}

/* A source of 32 bits; `room` holds what is not a register. */
static inline const Row *word(Machine *m, const Record *r, int slot, Row *room) {
    uint32_t source = r->src[slot];
    switch (r->kind[slot]) {
    case U_REG: return &m->s->reg[source];
    case U_IMM: fill(room, source); return room;
    case U_CONST: fill(room, (uint32_t)constant(m, source, 4)); return room;
    default: return &ZEROS;
    }
}

/* A source of 64 bits. */
static inline void pair(Machine *m, const Record *r, int slot, Wide *v) {
    uint32_t source = r->src[slot];
    uint64_t value = 0;
    switch (r->kind[slot]) {
    case U_REG: {
        const Row *low = &m->s->reg[source], *high = &m->s->reg[source + 1];
        EACH v->u[i] = (uint64_t)high->u[i] << 32 | low->u[i];
        return;
    }
    case U_IMM: value = HAS(r, U_SX_IMM) ? (uint64_t)(int64_t)(int32_t)source : source; break;
    case U_CONST: value = constant(m, source, 8); break;
    default: break;
    }
    EACH v->u[i] = value;
}

/* The word and its inverse where INV_* says so. */
static inline const Row *inverted(Machine *m, const Record *r, int slot, Row *room) {
    const Row *v = word(m, r, slot, room);
    if (!(r->flags & U_INV_A << slot)) return v;
    EACH room->u[i] = ~v->u[i];
    return room;
}

static inline uint32_t predicate(const Machine *m, uint8_t number, uint8_t negated) {
    return negated ? ~m->s->pred[number] : m->s->pred[number];
}

static inline void put(Machine *m, uint32_t d, const Row *v) {
    if (d == U_NO_REG) return;
    Row *to = &m->s->reg[d];
    if (m->run == ALL) {
        *to = *v;
        return;
    }
    uint32_t run = m->run;
    EACH to->u[i] = (run & BITS.u[i]) ? v->u[i] : to->u[i];
}

static inline void put_pair(Machine *m, uint32_t d, const Wide *v) {
    Row low, high;
    if (d == U_NO_REG) return;
    EACH low.u[i] = (uint32_t)v->u[i];
    EACH high.u[i] = (uint32_t)(v->u[i] >> 32);
    put(m, d, &low);
    put(m, d + 1, &high);
}

static inline void put_predicate(Machine *m, uint8_t number, uint32_t lanes) {
    if (number == U_PT || number == U_UPT) return;
    m->s->pred[number] = (m->s->pred[number] & ~m->run) | (lanes & m->run);
}

static inline uint32_t combine(uint32_t how, uint32_t result, uint32_t other) {
    return how == U_B_AND ? result & other : how == U_B_OR ? result | other : result ^ other;
}

static inline void put_comparison(Machine *m, const Record *r, uint32_t result) {
    uint32_t how = r->mod >> U_BOOL_SHIFT & 3, other = predicate(m, r->p, r->p_neg);
    put_predicate(m, r->pd, combine(how, result, other));
    put_predicate(m, r->pd2, combine(how, ~result, other));
}
