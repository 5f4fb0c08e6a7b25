/* Operations in which lanes see each other, and special registers. */

/* Operations over the whole warp read the sources of all its slices before any is written. */

static void op_bcast(Machine *m, const Record *r) {
    Row room, out;
    int lane = first_passing(m);
    fill(&out, word(m, r, 0, &room)->u[lane]);
    EACH_SLICE(m, s) if (enter(m, s)) put(m, r->d, &out);
}

static void op_vote(Machine *m, const Record *r) {
    uint32_t yes[MAX_SLICES] = {0}, some = 0, missing = 0;
    EACH_SLICE(m, s) {
        enter(m, s);
        uint32_t here = s->passing & predicate(m, r->p, r->p_neg);
        yes[s - m->w->slices] = here;
        some |= here;
        missing |= s->passing & ~here;
    }
    int holds = r->mod == U_VOTE_ALL ? !missing : r->mod == U_VOTE_ANY ? some != 0 : !some || !missing;
    Row out;
    fill(&out, yes[r->imm]);
    EACH_SLICE(m, s) {
        if (!enter(m, s)) continue;
        put(m, r->d, &out);
        put_predicate(m, r->pd, holds ? ALL : 0);
    }
}

/* One slice of a shuffle of the words `a` of all `count` lanes. Source: PTX ISA, shfl: a lane's segment is given by the
 * mask in c, the clamp bounds the lane read in it. */
static uint32_t shuffle(Machine *m, const Record *r, const uint32_t *a, int count, Row *out) {
    Row rb, rc;
    const Row *lanes = word(m, r, 1, &rb), *c = word(m, r, 2, &rc);
    int first = (int)(m->s - m->w->slices) * LANES, most = count - 1;
    uint32_t in_range = 0;
    EACH {
        int b = (int)lanes->u[i] & most, clamp = (int)c->u[i] & most, segment = (int)(c->u[i] >> 8) & most;
        int own = first + i, low = own & segment, highest = low | (clamp & ~segment), from, valid;
        switch (r->mod) {
        case U_SHFL_IDX: from = low | (b & ~segment); break;
        case U_SHFL_UP: from = own - b; break;
        case U_SHFL_DOWN: from = own + b; break;
        default: from = own ^ b; break;
        }
        valid = r->mod == U_SHFL_UP ? from >= highest : from <= highest;
        out->u[i] = a[(valid ? from : own) & most];
        in_range |= (uint32_t)valid << i;
    }
    return in_range;
}

static void op_shfl(Machine *m, const Record *r) {
    uint32_t a[MAX_SLICES * LANES], in_range[MAX_SLICES];
    Row room, out[MAX_SLICES];
    EACH_SLICE(m, s) {
        enter(m, s);
        memcpy(a + (s - m->w->slices) * LANES, word(m, r, 0, &room), sizeof room);
    }
    EACH_SLICE(m, s) {
        ptrdiff_t k = s - m->w->slices;
        if (enter(m, s)) in_range[k] = shuffle(m, r, a, (int)m->slice_count * LANES, &out[k]);
    }
    EACH_SLICE(m, s) {
        ptrdiff_t k = s - m->w->slices;
        if (!enter(m, s)) continue;
        put(m, r->d, &out[k]);
        put_predicate(m, r->pd, in_range[k]);
    }
}

/* Warps of one slice only. */
static void op_match(Machine *m, const Record *r) {
    Row room, out;
    const Row *a = word(m, r, 0, &room);
    fill(&out, 0);
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t bit = m->s->passing & BITS.u[lane], value = a->u[lane];
        EACH out.u[i] |= a->u[i] == value ? bit : 0;
    }
    put(m, r->d, &out);
}

static inline uint32_t reduced(uint32_t how, uint32_t total, uint32_t term) {
    switch (how) {
    case U_RED_AND: return total & term;
    case U_RED_OR: return total | term;
    case U_RED_XOR: return total ^ term;
    case U_RED_SUM: return total + term;
    case U_RED_MIN: return term < total ? term : total;
    default: return term > total ? term : total;
    }
}

static void op_redux(Machine *m, const Record *r) {
    Row room, out;
    int extremes = r->mod == U_RED_MIN || r->mod == U_RED_MAX, first = first_passing(m);
    uint32_t turn = HAS(r, U_SIGNED) && extremes ? 0x80000000u : 0;
    uint32_t total = word(m, r, 0, &room)->u[first] ^ turn, done = BITS.u[first];
    for (Slice *s = m->s; s < m->w->slices + m->slice_count; s++, done = 0) {
        enter(m, s);
        const Row *a = word(m, r, 0, &room);
        for (uint32_t lanes = s->passing & ~done; lanes; lanes &= lanes - 1)
            total = reduced(r->mod, total, a->u[lowest(lanes)] ^ turn);
    }
    fill(&out, total ^ turn);
    EACH_SLICE(m, s) if (enter(m, s)) put(m, r->d, &out);
}

/* The register that each running lane names; a number outside the record's range is a fault. */
static int numbered(Machine *m, const Record *r, const Row *a, int access, uint32_t number[LANES]) {
    uint32_t first = r->mod & 0xFFFF, last = r->mod >> 16;
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        number[i] = a->u[i] + (uint32_t)r->imm;
        if (number[i] < first || number[i] > last) fault(m, FAULT_REGISTER, i, r->pc, number[i], access);
    }
    return m->out->kind == FAULT_NONE;
}

static void op_rget(Machine *m, const Record *r) {
    uint32_t number[LANES];
    Row room, out = ZEROS;
    if (!numbered(m, r, word(m, r, 0, &room), ACCESS_READ, number)) return;
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        out.u[i] = m->s->reg[number[i]].u[i];
    }
    put(m, r->d, &out);
}

static void op_rput(Machine *m, const Record *r) {
    uint32_t number[LANES];
    Row ra, rb;
    const Row *a = word(m, r, 0, &ra), *b = word(m, r, 1, &rb);
    if (!numbered(m, r, a, ACCESS_WRITE, number)) return;
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        m->s->reg[number[i]].u[i] = b->u[i];
    }
}

/* A special register that all lanes see alike. */
static uint32_t common_register(const Machine *m, uint32_t n) {
    const Job *job = m->job;
    uint64_t time = job->clock_ns + m->executed;
    switch (n) {
    case U_SR_CLOCK_LO: return (uint32_t)m->executed;
    case U_SR_CLOCK_HI: return (uint32_t)(m->executed >> 32);
    case U_SR_TIME_LO: return (uint32_t)time;
    case U_SR_TIME_HI: return (uint32_t)(time >> 32);
    case U_SR_SMEM_SIZE: return (uint32_t)job->shared_bytes;
    case U_SR_SHARED_WINDOW_LO: return (uint32_t)job->shared_window;
    case U_SR_SHARED_WINDOW_HI: return (uint32_t)(job->shared_window >> 32);
    case U_SR_LOCAL_WINDOW_LO: return (uint32_t)job->local_window;
    case U_SR_LOCAL_WINDOW_HI: return (uint32_t)(job->local_window >> 32);
    case U_SR_WARP_ID: return m->w->number;
    default: break;
    }
    if (n >= U_SR_CTAID_X && n <= U_SR_CTAID_Z) return m->ctaid[n - U_SR_CTAID_X];
    if (n >= U_SR_NTID_X && n <= U_SR_NTID_Z) return job->block[n - U_SR_NTID_X];
    if (n >= U_SR_NCTAID_X && n <= U_SR_NCTAID_Z) return job->grid[n - U_SR_NCTAID_X];
    return 0; /* SR_SM_ID, SR_ZERO */
}

/* The index of each thread along an axis; lanes past the block's end count on. */
static void thread_index(const Machine *m, uint32_t axis, Row *out) {
    uint32_t first = m->s->number * LANES;
    const uint32_t *block = m->job->block;
    if (axis == 0 && first % block[0] + LANES <= block[0]) {
        first %= block[0];
        EACH out->u[i] = first + (uint32_t)i;
        return;
    }
    EACH {
        uint32_t thread = first + (uint32_t)i, row = thread / block[0];
        out->u[i] = axis == 0 ? thread % block[0] : axis == 1 ? row % block[1] : row / block[1];
    }
}

static void op_s2r(Machine *m, const Record *r) {
    Row out;
    uint32_t n = (uint32_t)r->imm;
    switch (n) {
    case U_SR_TID_X: case U_SR_TID_Y: case U_SR_TID_Z: thread_index(m, n - U_SR_TID_X, &out); break;
    case U_SR_LANE: EACH out.i[i] = (int)(m->s - m->w->slices) * LANES + i; break;
    case U_SR_MASK_EQ: out = BITS; break;
    case U_SR_MASK_LT: EACH out.u[i] = BITS.u[i] - 1; break;
    case U_SR_MASK_LE: EACH out.u[i] = BITS.u[i] | (BITS.u[i] - 1); break;
    case U_SR_MASK_GT: EACH out.u[i] = ~(BITS.u[i] | (BITS.u[i] - 1)); break;
    case U_SR_MASK_GE: EACH out.u[i] = ~(BITS.u[i] - 1); break;
    default: fill(&out, common_register(m, n)); break;
    }
    put(m, r->d, &out);
}
