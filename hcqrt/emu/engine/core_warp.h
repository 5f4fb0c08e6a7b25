/* Operations in which lanes see each other, and special registers. */

static void op_bcast(Machine *m, const Record *r) {
    Row room, out;
    const Row *a = word(m, r, 0, &room);
    fill(&out, a->u[lowest(m->passing)]);
    put(m, r->d, &out);
}

static void op_vote(Machine *m, const Record *r) {
    uint32_t asked = m->passing, yes = asked & predicate(m, r->p, r->p_neg);
    int holds = r->mod == U_VOTE_ALL ? yes == asked : r->mod == U_VOTE_ANY ? yes != 0 : yes == 0 || yes == asked;
    Row out;
    fill(&out, yes);
    put(m, r->d, &out);
    put_predicate(m, r->pd, holds ? ALL : 0);
}

/* Source: PTX ISA, shfl: a lane's segment is given by the mask in c, the clamp bounds the lane read in it. */
static void op_shfl(Machine *m, const Record *r) {
    Row ra, rb, rc, out;
    const Row *a = word(m, r, 0, &ra), *lanes = word(m, r, 1, &rb), *c = word(m, r, 2, &rc);
    uint32_t in_range = 0;
    EACH {
        int b = (int)(lanes->u[i] & 31), clamp = (int)(c->u[i] & 31), segment = (int)(c->u[i] >> 8 & 31);
        int low = i & segment, highest = low | (clamp & ~segment), from, valid;
        switch (r->mod) {
        case U_SHFL_IDX: from = low | (b & ~segment); break;
        case U_SHFL_UP: from = i - b; break;
        case U_SHFL_DOWN: from = i + b; break;
        default: from = i ^ b; break;
        }
        valid = r->mod == U_SHFL_UP ? from >= highest : from <= highest;
        out.u[i] = a->u[(valid ? from : i) & 31];
        in_range |= (uint32_t)valid << i;
    }
    put(m, r->d, &out);
    put_predicate(m, r->pd, in_range);
}

static void op_match(Machine *m, const Record *r) {
    Row room, out;
    const Row *a = word(m, r, 0, &room);
    fill(&out, 0);
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t bit = m->passing & BITS.u[lane], value = a->u[lane];
        EACH out.u[i] |= a->u[i] == value ? bit : 0;
    }
    put(m, r->d, &out);
}

static void op_redux(Machine *m, const Record *r) {
    Row room, out;
    const Row *a = word(m, r, 0, &room);
    int extremes = r->mod == U_RED_MIN || r->mod == U_RED_MAX;
    uint32_t turn = HAS(r, U_SIGNED) && extremes ? 0x80000000u : 0, total = a->u[lowest(m->passing)] ^ turn;
    for (uint32_t lanes = m->passing & (m->passing - 1); lanes; lanes &= lanes - 1) {
        uint32_t term = a->u[lowest(lanes)] ^ turn;
        switch (r->mod) {
        case U_RED_AND: total &= term; break;
        case U_RED_OR: total |= term; break;
        case U_RED_XOR: total ^= term; break;
        case U_RED_SUM: total += term; break;
        case U_RED_MIN: total = term < total ? term : total; break;
        default: total = term > total ? term : total; break;
        }
    }
    fill(&out, total ^ turn);
    put(m, r->d, &out);
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
        out.u[i] = m->w->reg[number[i]].u[i];
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
        m->w->reg[number[i]].u[i] = b->u[i];
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
    uint32_t first = m->w->number * LANES;
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
    case U_SR_LANE: EACH out.i[i] = i; break;
    case U_SR_MASK_EQ: out = BITS; break;
    case U_SR_MASK_LT: EACH out.u[i] = BITS.u[i] - 1; break;
    case U_SR_MASK_LE: EACH out.u[i] = BITS.u[i] | (BITS.u[i] - 1); break;
    case U_SR_MASK_GT: EACH out.u[i] = ~(BITS.u[i] | (BITS.u[i] - 1)); break;
    case U_SR_MASK_GE: EACH out.u[i] = ~(BITS.u[i] - 1); break;
    default: fill(&out, common_register(m, n)); break;
    }
    put(m, r->d, &out);
}
