/* Loads, stores and atomics: addresses of all lanes, faults in lane order, then the access. */

#define APERTURE ((uint64_t)1 << 24) /* a window, and the local memory of a thread */

static const uint8_t SIZES[] = {1, 1, 2, 2, 4, 8, 16};

/* Where the running lanes access memory: each its own place, or all one after the other. */
typedef struct {
    uint8_t *at[LANES];
    uint8_t *dense;
} Target;

/* The range that holds all `nbytes` at an address, or NULL. */
static const Range *range_of(Machine *m, uint64_t address, uint64_t nbytes) {
    const Range *r = m->last;
    if (r == NULL || address - r->va >= r->nbytes) {
        uint64_t low = 0, high = m->job->range_count;
        while (low < high) {
            uint64_t middle = (low + high) / 2;
            if (m->job->ranges[middle].va <= address) low = middle + 1;
            else high = middle;
        }
        if (low == 0) return NULL;
        r = &m->job->ranges[low - 1];
    }
    uint64_t offset = address - r->va;
    if (offset >= r->nbytes || r->nbytes - offset < nbytes) return NULL;
    return m->last = r;
}

static inline int allowed(const Range *r, int access) {
    return access == ACCESS_READ || (r->writable && (access == ACCESS_WRITE || r->atomic));
}

static uint8_t *reach_global(Machine *m, uint64_t address, uint32_t nbytes, int access, int *why) {
    const Range *r = range_of(m, address, nbytes);
    if (r == NULL) *why = FAULT_GLOBAL;
    else if (!allowed(r, access)) *why = r->writable ? FAULT_ATOMIC : FAULT_READ_ONLY;
    else return (uint8_t *)(uintptr_t)r->host + (address - r->va);
    return NULL;
}

static uint8_t *reach_shared(Machine *m, uint64_t offset, uint32_t nbytes, int *why) {
    if (offset + nbytes <= m->job->shared_bytes) return m->shared + offset;
    *why = FAULT_SHARED;
    return NULL;
}

/* The memory of a thread lies at both ends of its aperture. */
static uint8_t *reach_local(Machine *m, int lane, uint64_t offset, uint32_t nbytes, int *why) {
    const Job *job = m->job;
    uint64_t top = APERTURE - job->local_high;
    uint8_t *base = m->s->local + (uint64_t)lane * m->local_stride;
    if (offset >= top && offset + nbytes <= APERTURE) return base + job->local_low + (offset - top);
    if (offset + nbytes <= job->local_low) return base + offset;
    *why = FAULT_LOCAL;
    return NULL;
}

static uint8_t *reach_bank(Machine *m, uint32_t number, uint64_t offset, uint32_t nbytes, int *why) {
    const Bank *found = bank(m, number);
    if (found && offset + nbytes <= found->nbytes) return (uint8_t *)(uintptr_t)found->host + offset;
    *why = FAULT_CONSTANT;
    return NULL;
}

static uint8_t *reach(Machine *m, const Record *r, int lane, uint64_t address, uint32_t nbytes, int access, int *why) {
    uint64_t in_shared = address - m->job->shared_window, in_local = address - m->job->local_window;
    if (address & (nbytes - 1)) {
        *why = FAULT_MISALIGNED;
        return NULL;
    }
    switch (r->space) {
    case U_S_GLOBAL: return reach_global(m, address, nbytes, access, why);
    case U_S_SHARED: return reach_shared(m, address, nbytes, why);
    case U_S_LOCAL: return reach_local(m, lane, address, nbytes, why);
    case U_S_CONST: return reach_bank(m, r->src[2], address, nbytes, why);
    default:
        if (in_shared < APERTURE) return reach_shared(m, in_shared, nbytes, why);
        if (in_local < APERTURE) return reach_local(m, lane, in_local, nbytes, why);
        return reach_global(m, address, nbytes, access, why);
    }
}

static void addresses64(Machine *m, const Record *r, Wide *out) {
    Row room;
    Wide b;
    uint64_t k = (uint64_t)r->imm;
    if (HAS(r, U_A64)) {
        pair(m, r, 0, out);
        if (k) EACH out->u[i] += k;
    } else {
        const Row *a = word(m, r, 0, &room);
        EACH out->u[i] = a->u[i] + k;
    }
    if (r->kind[1] == U_ZERO) return;
    if (HAS(r, U_B64)) {
        pair(m, r, 1, &b);
        EACH out->u[i] += b.u[i];
    } else {
        const Row *v = word(m, r, 1, &room);
        EACH out->u[i] += v->u[i];
    }
}

static void addresses32(Machine *m, const Record *r, Wide *out) {
    Row ra, rb;
    const Row *a = word(m, r, 0, &ra), *b = r->space == U_S_CONST ? &ZEROS : word(m, r, 1, &rb);
    uint32_t k = (uint32_t)r->imm;
    EACH out->u[i] = a->u[i] + b->u[i] + k;
}

/* All lanes in a row in one global mapping: the common case, checked once. */
static uint8_t *dense(Machine *m, const Record *r, const Wide *address, uint32_t nbytes, int access) {
    uint64_t first = address->u[0], apart = 0;
    if (m->run != ALL || r->space != U_S_GLOBAL || (first & (nbytes - 1))) return NULL;
    if (address->u[LANES - 1] != first + (uint64_t)(LANES - 1) * nbytes) return NULL;
    EACH apart |= address->u[i] ^ (first + (uint64_t)i * nbytes);
    if (apart) return NULL;
    const Range *range = range_of(m, first, (uint64_t)LANES * nbytes);
    if (range == NULL || !allowed(range, access)) return NULL;
    return (uint8_t *)(uintptr_t)range->host + (first - range->va);
}

/* All lanes within one block of memory that begins at offset 0: checked at once. */
static int inside(const Machine *m, const Wide *address, uint32_t nbytes, uint8_t *base, uint64_t size, Target *target) {
    uint64_t odd = 0, outside = 0, last = size - nbytes;
    if (m->run != ALL || size < nbytes || size >> 63) return 0;
    EACH odd |= address->u[i];
    EACH outside |= address->u[i] | (last - address->u[i]); /* the top bit of either: beyond the last place */
    if (odd & (nbytes - 1) || outside >> 63) return 0;
    EACH target->at[i] = base + address->u[i];
    return 1;
}

/* The same for what is most often asked for; 0 where lanes must be looked at one by one. */
static int located(Machine *m, const Record *r, const Wide *address, uint32_t nbytes, int access, Target *target) {
    const Range *last = m->last;
    const Bank *found;
    Wide offset;
    switch (r->space) {
    case U_S_SHARED: return inside(m, address, nbytes, m->shared, m->job->shared_bytes, target);
    case U_S_CONST:
        found = bank(m, r->src[2]);
        return found && inside(m, address, nbytes, (uint8_t *)(uintptr_t)found->host, found->nbytes, target);
    case U_S_GLOBAL:
        if (last == NULL || !allowed(last, access) || (last->va & (nbytes - 1))) return 0;
        EACH offset.u[i] = address->u[i] - last->va;
        return inside(m, &offset, nbytes, (uint8_t *)(uintptr_t)last->host, last->nbytes, target);
    default: return 0;
    }
}

/* Whether all running lanes may go ahead; else the fault of the first that may not is noted. */
static int locate(Machine *m, const Record *r, uint32_t nbytes, int access, Target *target) {
    Wide address;
    if (r->space == U_S_GLOBAL || r->space == U_S_GENERIC) addresses64(m, r, &address);
    else addresses32(m, r, &address);
    if (m->out->kind) return 0;
    target->dense = dense(m, r, &address, nbytes, access);
    if (target->dense || located(m, r, &address, nbytes, access, target)) return 1;
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes), why = FAULT_NONE;
        target->at[i] = reach(m, r, i, address.u[i], nbytes, access, &why);
        if (why != FAULT_NONE) {
            fault(m, why, i, m->pc, address.u[i], access);
            return 0;
        }
    }
    return 1;
}

static void load_dense(const uint8_t *from, uint32_t nbytes, Row v[4]) {
    switch (nbytes) {
    case 1: EACH v[0].u[i] = from[i]; break;
    case 2: {
        uint16_t part[LANES];
        memcpy(part, from, sizeof part);
        EACH v[0].u[i] = part[i];
        break;
    }
    case 4: memcpy(&v[0], from, sizeof v[0]); break;
    default: {
        uint32_t part[LANES * 4], words = nbytes / 4;
        memcpy(part, from, LANES * nbytes);
        if (words == 2) for (int k = 0; k < 2; k++) EACH v[k].u[i] = part[2 * i + k];
        else for (int k = 0; k < 4; k++) EACH v[k].u[i] = part[4 * i + k];
    }
    }
}

static void load_each(const Target *target, uint32_t run, uint32_t nbytes, Row v[4]) {
    for (uint32_t lanes = run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        const uint8_t *from = target->at[i];
        uint32_t part[4];
        uint16_t half;
        switch (nbytes) {
        case 1: v[0].u[i] = *from; break;
        case 2: memcpy(&half, from, 2); v[0].u[i] = half; break;
        case 4: memcpy(&v[0].u[i], from, 4); break;
        default:
            memcpy(part, from, nbytes);
            for (uint32_t k = 0; k < nbytes / 4; k++) v[k].u[i] = part[k];
        }
    }
}

static void op_ld(Machine *m, const Record *r) {
    Target target;
    Row v[4];
    uint32_t nbytes = SIZES[r->width], words = nbytes < 4 ? 1 : nbytes / 4;
    if (!locate(m, r, nbytes, ACCESS_READ, &target)) return;
    if (target.dense) load_dense(target.dense, nbytes, v);
    else load_each(&target, m->run, nbytes, v);
    if (r->width == U_W_S8) EACH v[0].i[i] = (int8_t)v[0].u[i];
    if (r->width == U_W_S16) EACH v[0].i[i] = (int16_t)v[0].u[i];
    if (r->d == U_NO_REG) return;
    for (uint32_t k = 0; k < words; k++) put(m, r->d + k, &v[k]);
}

/* The words to store; what is no register gives 64 bits and zeros above. */
static void stored(Machine *m, const Record *r, uint32_t words, const Row *v[4], Row room[2]) {
    Wide value;
    if (words == 1) {
        v[0] = word(m, r, 2, &room[0]);
        return;
    }
    for (uint32_t k = 0; k < words; k++) v[k] = r->kind[2] == U_REG ? &m->s->reg[r->src[2] + k] : &ZEROS;
    if (r->kind[2] == U_REG) return;
    pair(m, r, 2, &value);
    EACH room[0].u[i] = (uint32_t)value.u[i];
    EACH room[1].u[i] = (uint32_t)(value.u[i] >> 32);
    v[0] = &room[0];
    v[1] = &room[1];
}

static void store_dense(uint8_t *to, uint32_t nbytes, const Row *v[4]) {
    switch (nbytes) {
    case 1: EACH to[i] = (uint8_t)v[0]->u[i]; break;
    case 2: {
        uint16_t part[LANES];
        EACH part[i] = (uint16_t)v[0]->u[i];
        memcpy(to, part, sizeof part);
        break;
    }
    case 4: memcpy(to, v[0], sizeof *v[0]); break;
    default: {
        uint32_t part[LANES * 4], words = nbytes / 4;
        if (words == 2) for (int k = 0; k < 2; k++) EACH part[2 * i + k] = v[k]->u[i];
        else for (int k = 0; k < 4; k++) EACH part[4 * i + k] = v[k]->u[i];
        memcpy(to, part, LANES * nbytes);
    }
    }
}

static void store_each(const Target *target, uint32_t run, uint32_t nbytes, const Row *v[4]) {
    for (uint32_t lanes = run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        uint8_t *to = target->at[i];
        uint32_t part[4];
        uint16_t half = (uint16_t)v[0]->u[i];
        switch (nbytes) {
        case 1: *to = (uint8_t)half; break;
        case 2: memcpy(to, &half, 2); break;
        case 4: memcpy(to, &v[0]->u[i], 4); break;
        default:
            for (uint32_t k = 0; k < nbytes / 4; k++) part[k] = v[k]->u[i];
            memcpy(to, part, nbytes);
        }
    }
}

/* Every slice's addresses; 0 when a lane may not access its own: then nothing is written. */
static int locate_all(Machine *m, const Record *r, uint32_t nbytes, int access, Target target[MAX_SLICES]) {
    EACH_SLICE(m, s) if (enter(m, s) && !locate(m, r, nbytes, access, &target[s - m->w->slices])) return 0;
    return 1;
}

static void op_st(Machine *m, const Record *r) {
    Target target[MAX_SLICES];
    uint32_t nbytes = SIZES[r->width];
    if (!locate_all(m, r, nbytes, ACCESS_WRITE, target)) return;
    EACH_SLICE(m, s) {
        const Target *here = &target[s - m->w->slices];
        Row room[2];
        const Row *v[4];
        if (!enter(m, s)) continue;
        stored(m, r, nbytes < 4 ? 1 : nbytes / 4, v, room);
        if (m->out->kind) return;
        if (here->dense) store_dense(here->dense, nbytes, v);
        else store_each(here, s->run, nbytes, v);
    }
}

/* f32 sums of atomics are rounded to nearest and flush denormals. */
static uint32_t atomic_fadd(uint32_t a, uint32_t b) {
    return canonical32(flush32(bits32(float_of(flush32(a)) + float_of(flush32(b)))));
}

static uint64_t atomic_result(uint32_t operation, uint32_t type, uint64_t old, uint64_t value, uint64_t swap) {
    uint64_t turn = type == U_AT_S32 ? (uint64_t)1 << 31 : type == U_AT_S64 ? SIGN64 : 0;
    switch (operation) {
    case U_AT_ADD: return type == U_AT_F32 ? atomic_fadd((uint32_t)old, (uint32_t)value) : old + value;
    case U_AT_MIN: return (old ^ turn) < (value ^ turn) ? old : value;
    case U_AT_MAX: return (old ^ turn) > (value ^ turn) ? old : value;
    case U_AT_INC: return old >= value ? 0 : old + 1;
    case U_AT_DEC: return old == 0 || old > value ? value : old - 1;
    case U_AT_AND: return old & value;
    case U_AT_OR: return old | value;
    case U_AT_XOR: return old ^ value;
    case U_AT_EXCH: return value;
    default: return old == value ? swap : old;
    }
}

static void atomic_source(Machine *m, const Record *r, int slot, uint32_t nbytes, Wide *v) {
    Row room;
    if (nbytes == 8) {
        pair(m, r, slot, v);
        return;
    }
    const Row *a = word(m, r, slot, &room);
    EACH v->u[i] = a->u[i];
}

static void atomic_slice(Machine *m, const Record *r, const Target *target, uint32_t nbytes) {
    Wide value, swap, old = {{0}};
    Row out;
    uint32_t operation = r->mod & 15, type = r->mod >> U_ATOMIC_TYPE_SHIFT & 15;
    atomic_source(m, r, 2, nbytes, &value);
    atomic_source(m, r, 3, nbytes, &swap);
    if (m->out->kind) return;
    for (uint32_t lanes = m->run; lanes; lanes &= lanes - 1) {
        int i = lowest(lanes);
        uint8_t *at = target->dense ? target->dense + (uint32_t)i * nbytes : target->at[i];
        uint64_t before = 0; /* little endian, as the memory is */
        memcpy(&before, at, nbytes);
        uint64_t after = atomic_result(operation, type, before, value.u[i], swap.u[i]);
        memcpy(at, &after, nbytes);
        old.u[i] = before;
    }
    if (nbytes == 8) {
        put_pair(m, r->d, &old);
        return;
    }
    EACH out.u[i] = (uint32_t)old.u[i];
    put(m, r->d, &out);
}

static void op_atom(Machine *m, const Record *r) {
    Target target[MAX_SLICES];
    uint32_t type = r->mod >> U_ATOMIC_TYPE_SHIFT & 15, nbytes = type == U_AT_U64 || type == U_AT_S64 ? 8 : 4;
    if (!locate_all(m, r, nbytes, ACCESS_ATOMIC, target)) return;
    EACH_SLICE(m, s) if (enter(m, s)) atomic_slice(m, r, &target[s - m->w->slices], nbytes);
}
