/* What Python and the C core exchange. Read by cffi as well: declarations only, no preprocessor. */

typedef struct {
    uint16_t op, d;
    uint32_t flags, mod;
    uint8_t guard, guard_neg, p, p_neg, p2, p2_neg, p3, p3_neg, pd, pd2, kind[4], width, space;
    uint32_t src[4], target;
    int64_t imm;
    uint64_t pc;
} Record;

typedef struct {
    uint64_t va, nbytes, host;
    uint32_t writable, atomic;
} Range;

typedef struct {
    uint64_t number, host, nbytes;
} Bank;

/* Where a program's instructions begin, by ascending pc: the targets of BRX. */
typedef struct {
    uint64_t pc, position;
} Place;

typedef struct {
    const Record *records;
    uint64_t count, entry;
    const Place *places;
    uint64_t place_count;
    const Range *ranges; /* by ascending va, apart */
    uint64_t range_count;
    const Bank *banks;
    uint64_t bank_count;
    uint64_t shared_bytes, local_low, local_high, local_window, shared_window, budget, clock_ns;
    uint32_t grid[3], block[3];
    uint32_t lanes, instruction_bytes, patience; /* lanes of a warp: 32, 64 or 128 */
} Job;

typedef struct {
    uint64_t executed, pc, address;
    int32_t kind;   /* FAULT_* */
    int32_t access; /* ACCESS_* */
    int32_t detail; /* DETAIL_*, with its numbers */
    uint32_t block[3], thread[3];
    uint64_t detail_a, detail_b;
} Outcome;

/* The index of the first record that breaks the contract, or -1. */
int64_t hcqrt_check(const Record *records, uint64_t count);
/* 0, or -1 when the host has no memory for the launch. */
int hcqrt_run(const Job *job, Outcome *outcome);
/* Of the sources this was compiled from. */
const char *hcqrt_digest(void);
