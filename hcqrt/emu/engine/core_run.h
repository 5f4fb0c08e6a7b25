/* The order in which lanes run: groups of a warp, warps of a block, block barriers. Included behind the tables of the
 * operations. */

/* The smallest position in the slice's group. */
static int32_t first_position(const Slice *s) {
    int32_t first = INT32_MAX;
    Row v;
    if (!s->group) return first;
    EACH v.i[i] = (s->group & BITS.u[i]) ? s->position.i[i] : INT32_MAX;
    EACH first = v.i[i] < first ? v.i[i] : first;
    return first;
}

static uint32_t lanes_at(const Slice *s, int32_t position) {
    Row v;
    if (!s->group) return 0;
    EACH v.u[i] = s->position.i[i] == position ? ALL : 0;
    return mask_of(&v);
}

/* Choose the group of the smallest position among the lanes that can run. */
INLINE int pick(Machine *m, uint32_t count) {
    Warp *w = m->w;
    uint32_t fresh = 0, any = 0, others = 0;
    int32_t here = INT32_MAX;
    if (w->together) return w->living != 0;
    EACH_OF(m, s, count) {
        s->group = s->live & ~(s->at_sync | s->at_warp | s->at_bar);
        fresh |= s->group & ~s->skip;
    }
    EACH_OF(m, s, count) {
        if (fresh) s->group &= ~s->skip;
        s->skip = 0;
        int32_t first = first_position(s);
        if (first < here) here = first;
    }
    EACH_OF(m, s, count) {
        s->group &= lanes_at(s, here);
        any |= s->group;
        others |= s->live & ~s->group;
    }
    w->here = (uint32_t)here;
    w->together = !others;
    return any != 0;
}

/* How many lanes the group has. */
INLINE uint64_t group_size(const Machine *m, uint32_t count) {
    uint64_t size = 0;
    if (m->w->together) return m->w->living;
    EACH_OF(m, s, count) size += (uint64_t)population(s->group);
    return size;
}

/* Which lanes of the group pass the guard: whether any does, and whether all do. */
INLINE int guard(Machine *m, const Record *r, uint32_t count, int *whole) {
    uint32_t any = 0, missing = 0;
    int always = r->guard == U_PT && !r->guard_neg;
    EACH_OF(m, s, count) {
        m->s = s;
        uint32_t run = always ? s->group : s->group & predicate(m, r->guard, r->guard_neg);
        s->passing = s->run = run;
        missing |= s->group ^ run;
        any |= run;
    }
    *whole = !missing;
    return any != 0;
}

/* A fault of the whole group: its first lane's. */
static void group_fault(Machine *m, int kind, uint64_t pc) {
    EACH_SLICE(m, s) s->passing = s->group;
    fault(m, kind, first_passing(m), pc, 0, ACCESS_NONE);
}

/* LD, ST and ATOM run on the lanes that passed, whatever FULL says; only constant loads do not. */
static inline int goes_full(const Record *r) {
    if (!HAS(r, U_FULL)) return 0;
    return !((r->op == OP_LD || r->op == OP_ST || r->op == OP_ATOM) && r->space != U_S_CONST);
}

/* Run one record on the lanes that pass, in the slices that have any. */
INLINE void operate(Machine *m, const Record *r, uint32_t count) {
    if (goes_full(r)) EACH_OF(m, s, count) s->run = ALL;
    if (WHOLE[r->op]) {
        WHOLE[r->op](m, r);
        return;
    }
    Operation operation = OPERATIONS[r->op];
    EACH_OF(m, s, count) if (enter(m, s)) operation(m, r);
}

/* Run one warp, of `count` slices, until no lane of it can go on. */
INLINE void run_slices(Machine *m, uint32_t count) {
    Warp *w = m->w;
    const Job *job = m->job;
    if (!pick(m, count)) return;
    m->moved = 1;
    do {
        int any, whole;
        if (w->here >= job->count) {
            group_fault(m, FAULT_ILLEGAL, job->records[job->count - 1].pc + job->instruction_bytes);
            detail(m, DETAIL_PAST_END, 0, 0);
            return;
        }
        const Record *r = &job->records[w->here];
        m->pc = r->pc;
        if (HAS(r, U_FIRST)) {
            uint64_t size = group_size(m, count);
            if (m->executed + size > job->budget) {
                group_fault(m, FAULT_BUDGET, r->pc);
                return;
            }
            m->executed += size;
        }
        any = guard(m, r, count, &whole);
        if (CONTROLS[r->op]) {
            m->any = any, m->whole = whole;
            enter(m, w->slices);
            CONTROLS[r->op](m, r);
        } else {
            if (any) operate(m, r, count);
            if (w->together) w->here++;
            else advance(m, w->here + 1);
        }
    } while (m->out->kind == FAULT_NONE && pick(m, count));
}

static void run_warp(Machine *m) {
    if (m->slice_count == 1) run_slices(m, 1);
    else if (m->slice_count == 2) run_slices(m, 2);
    else run_slices(m, 4);
}

/* What one warp adds to a block barrier's state: 1 has arrived, 2 all its live lanes have. */
static int arrival(const Machine *m, uint32_t number) {
    uint32_t some = 0, missing = 0;
    EACH_SLICE(m, s) {
        some |= s->arrivals[number];
        missing |= s->live & ~s->arrivals[number];
    }
    return (some ? 1 : 0) | (missing ? 0 : 2);
}

static void let_go(Machine *m, uint32_t number) {
    EACH_SLICE(m, s) {
        for (uint32_t lanes = s->at_bar; lanes; lanes &= lanes - 1) {
            int i = lowest(lanes);
            if (s->waits_on[i] != number) continue;
            s->position.u[i]++;
            s->at_bar &= ~BITS.u[i];
        }
        s->arrivals[number] = 0;
    }
}

/* Let go of every block barrier that is complete. */
static int release(Machine *m) {
    int released = 0;
    for (uint32_t number = 0; number < U_BARRIER_REGISTERS; number++) {
        uint32_t any = 0, living = 0, complete = 0, met = 0, expected = m->expected[number];
        for (uint32_t k = 0; k < m->warp_count; k++) {
            m->w = &m->warps[k];
            int state = arrival(m, number);
            any |= (uint32_t)state & 1;
            living += m->w->living != 0;
            if (!(state & 2)) continue;
            complete += m->w->living != 0;
            met += state & 1; /* a warp may arrive and end */
        }
        if (!any || (expected ? (uint64_t)m->job->lanes * met < expected : complete < living)) continue;
        for (uint32_t k = 0; k < m->warp_count; k++) {
            m->w = &m->warps[k];
            let_go(m, number);
        }
        released = 1;
    }
    return released;
}

static void deadlock(Machine *m) {
    for (uint32_t k = 0; k < m->warp_count; k++) {
        Warp *w = m->w = &m->warps[k];
        if (!w->living) continue;
        EACH_SLICE(m, s) s->passing = s->live;
        int lane = first_passing(m);
        uint32_t where = w->together ? w->here : m->s->position.u[lane];
        fault(m, FAULT_DEADLOCK, lane, m->job->records[where].pc, 0, ACCESS_NONE);
        return;
    }
}

static void reset_slice(Machine *m, Slice *s) {
    uint32_t first = (uint32_t)(s - m->slices) * LANES, left = first < m->threads ? m->threads - first : 0;
    for (uint32_t k = 0; k < m->used_count; k++) s->reg[m->used[k]] = ZEROS;
    memset(s->pred, 0, sizeof s->pred);
    s->pred[U_PT] = s->pred[U_UPT] = ALL;
    if (m->uses_barriers) memset(s->barrier, 0, sizeof s->barrier);
    memset(s->arrivals, 0, sizeof s->arrivals);
    s->live = s->group = left >= LANES ? ALL : BITS.u[left] - 1;
    s->at_sync = s->at_warp = s->at_bar = s->skip = 0;
    s->number = (uint32_t)(s - m->slices);
    s->local = m->local + (uint64_t)first * m->local_stride;
}

static void reset_warp(Machine *m, uint32_t number) {
    Warp *w = m->w = &m->warps[number];
    uint32_t first = number * m->job->lanes, left = m->threads - first;
    w->slices = m->slices + (uint64_t)number * m->slice_count;
    w->living = left < m->job->lanes ? left : m->job->lanes;
    w->here = (uint32_t)m->job->entry;
    w->together = 1;
    w->turns = 0;
    w->number = number;
    EACH_SLICE(m, s) reset_slice(m, s);
}

static void run_block(Machine *m) {
    if (m->job->shared_bytes) memset(m->shared, 0, m->job->shared_bytes);
    if (m->uses_local) memset(m->local, 0, (uint64_t)m->warp_count * m->job->lanes * m->local_stride);
    memset(m->expected, 0, sizeof m->expected);
    for (uint32_t k = 0; k < m->warp_count; k++) reset_warp(m, k);
    for (int living = 1; living;) {
        m->moved = living = 0;
        for (uint32_t k = 0; k < m->warp_count; k++) {
            m->w = &m->warps[k];
            run_warp(m);
            if (m->out->kind != FAULT_NONE) return;
        }
        for (uint32_t k = 0; k < m->warp_count; k++) living |= m->warps[k].living != 0;
        if (living && !release(m) && !m->moved) {
            deadlock(m);
            return;
        }
    }
}
