/* Operations that move lanes: branches, reconvergence, barriers, exits. */

/* The group goes on at `to`. */
static void advance(Machine *m, uint32_t to) {
    Warp *w = m->w;
    if (w->together) {
        w->here = to;
        return;
    }
    for (uint32_t lanes = m->group; lanes; lanes &= lanes - 1) w->position[lowest(lanes)] = to;
}

static inline uint32_t index_of(const Machine *m, const Record *r) { return (uint32_t)(r - m->job->records); }

/* Give each lane its own position: the group is about to split or to wait. */
static void part(Machine *m) {
    Warp *w = m->w;
    if (!w->together) return;
    EACH w->position[i] = w->here;
    w->together = 0;
}

/* Let waiting lanes go on whose whole mask waits likewise or has ended. */
static void judge(Warp *w) {
    uint32_t waiting = w->at_sync | w->at_warp, free_lanes = 0, at[U_BARRIER_REGISTERS] = {0};
    if (w->together || !waiting) return;
    for (uint32_t lanes = w->at_sync; lanes; lanes &= lanes - 1) at[w->waits_on[lowest(lanes)]] |= lanes & (0 - lanes);
    for (uint32_t lanes = waiting; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        uint32_t missing = w->live;
        if (w->at_sync & BITS.u[i]) missing &= w->barrier[w->waits_on[i]][i] & ~at[w->waits_on[i]];
        else missing &= w->wait_mask[i] & ~w->at_warp;
        if (!missing) free_lanes |= BITS.u[i];
    }
    for (uint32_t lanes = free_lanes; lanes; lanes &= lanes - 1) w->position[lowest(lanes)]++;
    w->at_sync &= ~free_lanes;
    w->at_warp &= ~free_lanes;
}

static void op_bra(Machine *m, const Record *r) {
    Warp *w = m->w;
    uint32_t next = index_of(m, r) + 1;
    if (!m->run) {
        advance(m, next);
        return;
    }
    if (w->together && m->run == m->group) {
        w->here = r->target;
        return;
    }
    part(m);
    for (uint32_t lanes = m->group; lanes; lanes &= lanes - 1)
        w->position[lowest(lanes)] = (m->run & lanes & (0 - lanes)) ? r->target : next;
    if (r->target < next) w->skip = m->run;
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

static void op_brx(Machine *m, const Record *r) {
    Warp *w = m->w;
    Wide address;
    uint32_t next = index_of(m, r) + 1, to[LANES], back = 0, apart = 0;
    if (!m->run) {
        advance(m, next);
        return;
    }
    pair(m, r, 0, &address);
    if (m->out->kind) return;
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        uint64_t wanted = address.u[i] + (uint64_t)r->imm;
        int64_t position = position_of(m->job, wanted);
        if (position < 0) {
            fault(m, FAULT_ILLEGAL, i, wanted, 0, ACCESS_NONE);
            detail(m, DETAIL_JUMP, r->pc, 0);
            return;
        }
        to[i] = (uint32_t)position;
        apart |= to[i] ^ to[lowest(m->run)];
        if (to[i] < next) back |= BITS.u[i];
    }
    if (w->together && m->run == m->group && !apart) {
        w->here = to[lowest(m->run)];
        return;
    }
    part(m);
    advance(m, next);
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) w->position[lowest(lanes)] = to[lowest(lanes)];
    if (back) w->skip = back;
}

static void op_yield(Machine *m, const Record *r) {
    advance(m, index_of(m, r) + 1);
    if (m->run && !m->w->together) m->w->skip = m->run;
}

static void op_bssy(Machine *m, const Record *r) {
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) m->w->barrier[r->imm][lowest(lanes)] = m->group;
}

static void op_bclr(Machine *m, const Record *r) {
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) m->w->barrier[r->imm][lowest(lanes)] = 0;
}

static void op_break(Machine *m, const Record *r) {
    uint32_t *masks = m->w->barrier[r->imm], leave[LANES] = {0};
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        uint32_t bit = lanes & (0 - lanes), theirs = masks[lowest(lanes)];
        EACH leave[i] |= (theirs & BITS.u[i]) ? bit : 0;
    }
    EACH masks[i] &= ~leave[i];
    advance(m, index_of(m, r) + 1);
    judge(m->w);
}

/* The running lanes wait at this record, the rest of the group goes on. */
static void wait_here(Machine *m, const Record *r, uint8_t number) {
    Warp *w = m->w;
    uint32_t index = index_of(m, r);
    part(m);
    advance(m, index + 1);
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        w->position[lowest(lanes)] = index;
        w->waits_on[lowest(lanes)] = number;
    }
}

/* Nobody, or everybody who lives: no one to wait for. */
static inline int alone(const Machine *m) { return !m->run || (m->w->together && m->run == m->w->live); }

static void op_bsync(Machine *m, const Record *r) {
    if (alone(m)) {
        advance(m, index_of(m, r) + 1);
        return;
    }
    wait_here(m, r, (uint8_t)r->imm);
    m->w->at_sync |= m->run;
    judge(m->w);
}

static void op_warpsync(Machine *m, const Record *r) {
    Row room;
    if (m->run) {
        const Row *masks = word(m, r, 0, &room);
        for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1)
            m->w->wait_mask[lowest(lanes)] = masks->u[lowest(lanes)];
    }
    if (alone(m)) {
        advance(m, index_of(m, r) + 1);
        return;
    }
    wait_here(m, r, 0);
    m->w->at_warp |= m->run;
    judge(m->w);
}

static void op_exit(Machine *m, const Record *r) {
    advance(m, index_of(m, r) + 1);
    if (!m->run) return;
    m->w->live &= ~m->run;
    judge(m->w);
}

static void op_bar(Machine *m, const Record *r) {
    Row ra, rb;
    if (!m->run) {
        advance(m, index_of(m, r) + 1);
        return;
    }
    int first = lowest(m->run);
    uint32_t number = word(m, r, 0, &ra)->u[first] & 15, count = word(m, r, 1, &rb)->u[first];
    m->w->arrivals[number] |= m->run;
    m->expected[number] = count;
    if (r->mod == U_BAR_SYNC) {
        wait_here(m, r, (uint8_t)number);
        m->w->at_bar |= m->run;
    } else {
        part(m);
        advance(m, index_of(m, r) + 1);
    }
}

static void op_stop(Machine *m, const Record *r) {
    if (m->run) fault(m, r->op == OP_TRAP ? FAULT_TRAP : FAULT_ILLEGAL, lowest(m->run), r->pc, 0, ACCESS_NONE);
    else advance(m, index_of(m, r) + 1);
}
