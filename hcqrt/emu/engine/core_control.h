/* Operations that move lanes: branches, reconvergence, barriers, exits. */

static inline void choose(Row *v, uint32_t lanes, uint32_t value) {
    EACH v->u[i] = (lanes & BITS.u[i]) ? value : v->u[i];
}

/* The group goes on at `to`. */
static void advance(Machine *m, uint32_t to) {
    if (m->w->together) {
        m->w->here = to;
        return;
    }
    EACH_SLICE(m, s) if (s->group) choose(&s->position, s->group, to);
}

static inline uint32_t index_of(const Machine *m, const Record *r) { return (uint32_t)(r - m->job->records); }

/* Give each lane its own position: the group is about to split or to wait. */
static void part(Machine *m) {
    if (!m->w->together) return;
    EACH_SLICE(m, s) fill(&s->position, m->w->here);
    m->w->together = 0;
}

/* Let waiting lanes go on whose whole mask waits likewise or has ended. Lanes wait so in warps of one slice only. */
static void judge(Machine *m) {
    Slice *s = m->w->slices;
    uint32_t waiting = s->at_sync | s->at_warp, free_lanes = 0, at[U_BARRIER_REGISTERS] = {0};
    if (m->w->together || !waiting) return;
    for (uint32_t lanes = s->at_sync; lanes; lanes &= lanes - 1) at[s->waits_on[lowest(lanes)]] |= lanes & (0 - lanes);
    for (uint32_t lanes = waiting; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        uint32_t missing = s->live;
        if (s->at_sync & BITS.u[i]) missing &= s->barrier[s->waits_on[i]][i] & ~at[s->waits_on[i]];
        else missing &= s->wait_mask[i] & ~s->at_warp;
        if (!missing) free_lanes |= BITS.u[i];
    }
    for (uint32_t lanes = free_lanes; lanes; lanes &= lanes - 1) s->position.u[lowest(lanes)]++;
    s->at_sync &= ~free_lanes;
    s->at_warp &= ~free_lanes;
}

/* Whether lanes that branch backwards sit out the next choice. */
static int turn_over(Machine *m) {
    if (m->w->turns++ < m->job->patience) return 0;
    m->w->turns = 0;
    return 1;
}

static void op_bra(Machine *m, const Record *r) {
    Warp *w = m->w;
    uint32_t next = index_of(m, r) + 1;
    if (!m->any) {
        advance(m, next);
        return;
    }
    if (w->together && m->whole) {
        w->here = r->target;
        return;
    }
    part(m);
    int over = r->target < next && turn_over(m);
    EACH_SLICE(m, s) {
        choose(&s->position, s->group, next);
        choose(&s->position, s->run, r->target);
        if (over) s->skip = s->run;
    }
}

/* The position of an address, or -1. */
static int64_t position_of(const Job *job, uint64_t pc) {
    uint64_t low = 0, high = job->place_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (job->places[middle].pc < pc) low = middle + 1;
        else high = middle;
    }
    return low < job->place_count && job->places[low].pc == pc ? (int64_t)job->places[low].position : -1;
}

/* Where each running lane of every slice goes; 0 when one goes nowhere. */
static int find_targets(Machine *m, const Record *r, Row to[MAX_SLICES]) {
    EACH_SLICE(m, s) {
        Wide address;
        if (!enter(m, s)) continue;
        pair(m, r, 0, &address);
        if (m->out->kind) return 0;
        for (uint32_t lanes = s->run; lanes; lanes &= lanes - 1) {
            int i = lowest(lanes);
            uint64_t wanted = address.u[i] + (uint64_t)r->imm;
            int64_t position = position_of(m->job, wanted);
            if (position < 0) {
                fault(m, FAULT_ILLEGAL, i, wanted, 0, ACCESS_NONE);
                detail(m, DETAIL_JUMP, r->pc, 0);
                return 0;
            }
            to[s - m->w->slices].u[i] = (uint32_t)position;
        }
    }
    return 1;
}

static void op_brx(Machine *m, const Record *r) {
    Warp *w = m->w;
    Row to[MAX_SLICES];
    uint32_t next = index_of(m, r) + 1, apart = 0, back = 0;
    if (!m->any) {
        advance(m, next);
        return;
    }
    if (!find_targets(m, r, to)) return;
    int first = first_passing(m);
    uint32_t target = to[m->s - w->slices].u[first];
    EACH_SLICE(m, s)
        for (uint32_t lanes = s->run; lanes; lanes &= lanes - 1) apart |= to[s - w->slices].u[lowest(lanes)] ^ target;
    if (w->together && m->whole && !apart) {
        w->here = target;
        return;
    }
    part(m);
    advance(m, next);
    EACH_SLICE(m, s)
        for (uint32_t lanes = s->run; lanes; lanes &= lanes - 1) {
            int i = lowest(lanes);
            s->position.u[i] = to[s - w->slices].u[i];
            if (s->position.u[i] < next) s->skip |= BITS.u[i];
            back |= s->skip;
        }
    if (!back || turn_over(m)) return;
    EACH_SLICE(m, s) s->skip = 0;
}

static void op_yield(Machine *m, const Record *r) {
    advance(m, index_of(m, r) + 1);
    if (!m->w->together) EACH_SLICE(m, s) s->skip = s->run;
}

static void op_bssy(Machine *m, const Record *r) {
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) m->s->barrier[r->imm][lowest(lanes)] = m->s->group;
}

static void op_bclr(Machine *m, const Record *r) {
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) m->s->barrier[r->imm][lowest(lanes)] = 0;
}

static void op_break(Machine *m, const Record *r) {
    uint32_t *masks = m->s->barrier[r->imm], leave[LANES] = {0};
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        uint32_t bit = lanes & (0 - lanes), theirs = masks[lowest(lanes)];
        EACH leave[i] |= (theirs & BITS.u[i]) ? bit : 0;
    }
    EACH masks[i] &= ~leave[i];
    advance(m, index_of(m, r) + 1);
    judge(m);
}

/* The running lanes wait at this record, the rest of the group goes on. */
static void wait_here(Machine *m, const Record *r, uint8_t number) {
    uint32_t index = index_of(m, r);
    part(m);
    advance(m, index + 1);
    EACH_SLICE(m, s) {
        choose(&s->position, s->run, index);
        for (uint32_t lanes = s->run; lanes; lanes &= lanes - 1) s->waits_on[lowest(lanes)] = number;
    }
}

/* Nobody, or everybody who lives: no one to wait for. */
static inline int alone(const Machine *m) { return !m->any || (m->w->together && m->whole); }

static void op_bsync(Machine *m, const Record *r) {
    if (alone(m)) {
        advance(m, index_of(m, r) + 1);
        return;
    }
    wait_here(m, r, (uint8_t)r->imm);
    m->s->at_sync |= m->run;
    judge(m);
}

static void op_warpsync(Machine *m, const Record *r) {
    Row room;
    if (m->run) {
        const Row *masks = word(m, r, 0, &room);
        for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1)
            m->s->wait_mask[lowest(lanes)] = masks->u[lowest(lanes)];
    }
    if (alone(m)) {
        advance(m, index_of(m, r) + 1);
        return;
    }
    wait_here(m, r, 0);
    m->s->at_warp |= m->run;
    judge(m);
}

static void op_exit(Machine *m, const Record *r) {
    advance(m, index_of(m, r) + 1);
    if (!m->any) return;
    EACH_SLICE(m, s) {
        s->live &= ~s->run;
        m->w->living -= (uint32_t)population(s->run);
        if (m->w->together) s->group = s->live;
    }
    judge(m);
}

static void op_bar(Machine *m, const Record *r) {
    Row ra, rb;
    if (!m->any) {
        advance(m, index_of(m, r) + 1);
        return;
    }
    int first = first_passing(m);
    uint32_t number = word(m, r, 0, &ra)->u[first] & 15, count = word(m, r, 1, &rb)->u[first];
    EACH_SLICE(m, s) s->arrivals[number] |= s->run;
    m->expected[number] = count;
    if (r->mod == U_BAR_SYNC) {
        wait_here(m, r, (uint8_t)number);
        EACH_SLICE(m, s) s->at_bar |= s->run;
    } else {
        part(m);
        advance(m, index_of(m, r) + 1);
    }
}

static void op_stop(Machine *m, const Record *r) {
    if (m->any) fault(m, r->op == OP_TRAP ? FAULT_TRAP : FAULT_ILLEGAL, first_passing(m), r->pc, 0, ACCESS_NONE);
    else advance(m, index_of(m, r) + 1);
}
