-- SPDX-License-Identifier: MIT
-- Made from lockshm.h by generate.sh: do not edit.
local M = {}

M.declarations = [[
enum lockshm_code {
    LOCKSHM_OK = 0,
    LOCKSHM_OWNER_DIED = 1,
    LOCKSHM_TOOK_OVER_EXPIRED = 2,
    LOCKSHM_LATE = 3,
    LOCKSHM_LOCAL_ONLY = 4,
    LOCKSHM_TIMEOUT = -1,
    LOCKSHM_BUSY = -2,
    LOCKSHM_CANCELLED = -3,
    LOCKSHM_LOST = -4,
    LOCKSHM_NOT_HELD = -5,
    LOCKSHM_DEADLOCK = -6,
    LOCKSHM_FULL = -7,
    LOCKSHM_INVALID = -8,
    LOCKSHM_KEY_TOO_LONG = -9,
    LOCKSHM_NO_SEGMENT = -10,
    LOCKSHM_EXISTS = -11,
    LOCKSHM_PERMISSION = -12,
    LOCKSHM_BAD_SEGMENT = -13,
    LOCKSHM_VERSION = -14,
    LOCKSHM_NO_MEMORY = -15,
    LOCKSHM_BRIDGE = -16,
    LOCKSHM_SYSTEM = -17,
    LOCKSHM_PENDING = -18
};
enum lockshm_mode {
    LOCKSHM_SHARED = 2,
    LOCKSHM_EXCLUSIVE = 3
};
enum lockshm_table {
    LOCKSHM_TABLE_NONE = 0,
    LOCKSHM_TABLE_KEYS = 1,
    LOCKSHM_TABLE_REQUESTS = 2,
    LOCKSHM_TABLE_OWNERS = 3,
    LOCKSHM_TABLE_TICKETS = 4,
    LOCKSHM_TABLE_HOST_LEASES = 5
};
enum lockshm_field {
    LOCKSHM_FIELD_NONE = 0,
    LOCKSHM_FIELD_KEY = 1,
    LOCKSHM_FIELD_MODE = 2,
    LOCKSHM_FIELD_FLAGS = 3,
    LOCKSHM_FIELD_TTL = 4,
    LOCKSHM_FIELD_TIMEOUT = 5,
    LOCKSHM_FIELD_TAG = 6,
    LOCKSHM_FIELD_CANCELLER = 7,
    LOCKSHM_FIELD_REDIS_POLICY = 8,
    LOCKSHM_FIELD_MAX_HOLD = 9
};
struct lockshm_error {
    int code;
    int sys_errno;
    int table;
    int field;
    uint32_t reserved[4];
    char message[255 + 1];
};
typedef struct lockshm lockshm_t;
typedef struct lockshm_hold {
    uint64_t opaque[16];
} lockshm_hold_t;
typedef struct lockshm_lock {
    uint64_t opaque[48];
} lockshm_lock_t;
typedef struct lockshm_canceller {
    uint64_t opaque[4];
} lockshm_canceller_t;
struct lockshm_damage {
    int status;
    int32_t pid;
    int32_t tid;
    uint64_t token;
    int64_t age_ns;
    char tag[30 + 2];
    uint64_t reserved[4];
};
struct lockshm_blocker {
    int state;
    int mode;
    int32_t pid;
    int32_t tid;
    uint64_t token;
    uint64_t ticket;
    int64_t age_ns;
    int64_t expires_in_ns;
    char name[15 + 1];
    char tag[30 + 2];
    uint64_t reserved[3];
};
struct lockshm_report {
    size_t size;
    int64_t waited_ns;
    int64_t slept_ns;
    uint64_t token;
    struct lockshm_damage damage;
    struct lockshm_error error;
    struct lockshm_blocker blocker;
};
struct lockshm_request {
    size_t size;
    const void *key;
    size_t key_len;
    int mode;
    unsigned flags;
    int64_t ttl_ns;
    int64_t timeout_ns;
    const char *tag;
    lockshm_canceller_t *canceller;
    struct lockshm_report *report;
    int redis_policy;
    int64_t max_hold_ns;
};
struct lockshm_key {
    const void *data;
    size_t len;
    int mode;
    uint32_t reserved[3];
};
enum lockshm_redis_policy {
    LOCKSHM_REDIS_FAIL = 2,
    LOCKSHM_REDIS_WAIT = 3,
    LOCKSHM_REDIS_LOCAL_ONLY = 4
};
struct lockshm_create_options {
    size_t size;
    uint32_t keys;
    uint32_t requests;
    uint32_t owners;
    unsigned int permissions;
    unsigned int group;
    unsigned flags;
    uint64_t token_floor;
    int redis_policy;
    uint32_t host_leases;
    int64_t redis_ttl_ns;
    int64_t redis_retain_ns;
    int64_t redis_gap_ns;
    uint32_t redis_wait;
    uint32_t reserved;
    char redis[1111 + 1];
    char redis_prefix[127 + 1];
    char global_keys[255 + 1];
};
int lockshm_create(lockshm_t **out, const char *name, const struct lockshm_create_options *options, struct lockshm_error *error);
enum lockshm_option_kind {
    LOCKSHM_OPTION_NUMBER = 2,
    LOCKSHM_OPTION_DURATION = 3,
    LOCKSHM_OPTION_FLAG = 4,
    LOCKSHM_OPTION_TEXT = 5,
    LOCKSHM_OPTION_LIST = 6,
    LOCKSHM_OPTION_POLICY = 7,
    LOCKSHM_OPTION_PERMISSIONS = 8,
    LOCKSHM_OPTION_GROUP = 9
};
struct lockshm_option {
    size_t size;
    const char *name;
    const char *help;
    int kind;
    int of_redis;
    char initial[40];
    char range[64];
};
int lockshm_create_option(struct lockshm_create_options *options, const char *name, const char *value, struct lockshm_error *error);
int lockshm_create_option_at(size_t index, struct lockshm_option *option);
int lockshm_open(lockshm_t **out, const char *name, unsigned flags, struct lockshm_error *error);
int lockshm_close(lockshm_t *segment);
int lockshm_destroy(const char *name, struct lockshm_error *error);
int lockshm_current(lockshm_t *segment);
int lockshm_acquire(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold);
int lockshm_acquire_many(lockshm_t *segment, const struct lockshm_request *common, const struct lockshm_key *keys, size_t n, lockshm_hold_t *holds);
int lockshm_release(lockshm_hold_t *hold, int64_t cooldown_ns);
int lockshm_release_many(lockshm_hold_t *holds, size_t n);
int lockshm_renew(lockshm_hold_t *hold, int64_t ns);
int lockshm_extend(lockshm_hold_t *hold, int64_t ns);
int lockshm_check(const lockshm_hold_t *hold, int64_t *remaining_ns);
uint64_t lockshm_token(const lockshm_hold_t *hold);
uint64_t lockshm_lost_to(const lockshm_hold_t *hold);
int lockshm_upgrade(lockshm_hold_t *hold);
int lockshm_downgrade(lockshm_hold_t *hold);
int lockshm_damage(const lockshm_hold_t *hold, struct lockshm_damage *damage);
int lockshm_acknowledge(lockshm_hold_t *hold);
enum lockshm_move_to {
    LOCKSHM_TO_PROCESS = 2,
    LOCKSHM_TO_CALLER = 3
};
int lockshm_move(lockshm_hold_t *hold, int to);
int lockshm_notify(lockshm_hold_t *hold, int fd);
int lockshm_cancel(lockshm_canceller_t *canceller);
int lockshm_lock_init(lockshm_lock_t *lock, lockshm_t *segment, const struct lockshm_request *request);
int lockshm_lock(lockshm_lock_t *lock, lockshm_t *segment);
int lockshm_trylock(lockshm_lock_t *lock, lockshm_t *segment);
int lockshm_timedlock(lockshm_lock_t *lock, lockshm_t *segment, int64_t timeout_ns);
int lockshm_unlock(lockshm_lock_t *lock);
lockshm_hold_t *lockshm_lock_hold(lockshm_lock_t *lock);
typedef struct lockshm_loop lockshm_loop_t;
struct lockshm_outcome {
    size_t size;
    int status;
    lockshm_hold_t *hold;
    void *user;
    struct lockshm_report *report;
};
int lockshm_loop_open(lockshm_loop_t **out, lockshm_t *segment, int fd, struct lockshm_error *error);
int lockshm_loop_close(lockshm_loop_t *loop);
int lockshm_loop_fd(const lockshm_loop_t *loop);
int lockshm_loop_acquire(lockshm_loop_t *loop, const struct lockshm_request *request, lockshm_hold_t *hold, void *user);
int lockshm_loop_acquire_many(lockshm_loop_t *loop, const struct lockshm_request *common, const struct lockshm_key *keys, size_t n, lockshm_hold_t *holds, void *user);
int lockshm_loop_next(lockshm_loop_t *loop, struct lockshm_outcome *outcome);
int lockshm_loop_cancel(lockshm_loop_t *loop, lockshm_hold_t *hold);
enum lockshm_request_state {
    LOCKSHM_WAITING = 2,
    LOCKSHM_HOLDING = 3,
    LOCKSHM_COOLING = 4,
    LOCKSHM_BARGEABLE = 5
};
enum lockshm_host_lease_state {
    LOCKSHM_HOST_LEASE_NONE = 2,
    LOCKSHM_HOST_LEASE_ACQUIRING = 3,
    LOCKSHM_HOST_LEASE_HELD = 4,
    LOCKSHM_HOST_LEASE_CLOSING = 5,
    LOCKSHM_HOST_LEASE_RELEASING = 6,
    LOCKSHM_HOST_LEASE_LOST = 7
};
struct lockshm_host_lease {
    int state;
    int mode;
    int64_t remaining_ns;
    int64_t blocked_ns;
    uint64_t next_token;
    uint64_t local_grants;
    uint64_t other_hosts_waiting;
    int64_t why_age_ns;
    char value[39 + 1];
    char why[255 + 1];
    uint64_t reserved[4];
};
enum lockshm_list_of {
    LOCKSHM_LIST_KEY = 2,
    LOCKSHM_LIST_BUSY = 3,
    LOCKSHM_LIST_KNOWN = 4,
    LOCKSHM_LIST_OWNERS = 5,
    LOCKSHM_LIST_SEGMENTS = 6
};
struct lockshm_row {
    size_t size;
    size_t key_len;
    size_t key_shown;
    unsigned char key[64];
    uint64_t id;
    uint32_t holders;
    uint32_t waiters;
    int known;
    int mode;
    int global;
    int alive;
    struct lockshm_blocker request;
    struct lockshm_damage damage;
    struct lockshm_host_lease lease;
    uint64_t start_time;
    int exact;
    unsigned int uid;
    unsigned int gid;
    unsigned int permissions;
    char segment[200 + 8];
};
typedef struct lockshm_list lockshm_list_t;
int lockshm_list_open(lockshm_list_t **out, lockshm_t *segment, int what, const void *key, size_t key_len);
int lockshm_list_next(lockshm_list_t *list, struct lockshm_row *row);
void lockshm_list_close(lockshm_list_t *list);
struct lockshm_stat {
    size_t size;
    uint64_t bytes;
    uint64_t created_unix_ns;
    uint64_t token_base;
    uint32_t keys;
    uint32_t keys_known;
    uint32_t keys_busy;
    uint32_t keys_damaged;
    uint32_t requests, requests_reserved, requests_used;
    uint32_t owners, owners_used, owners_dead;
    uint64_t acquires;
    uint64_t waits;
    uint64_t timeouts;
    uint64_t deadlocks;
    uint64_t lost;
    uint64_t recovered;
    uint64_t expired;
    uint64_t tries_failed;
    uint64_t keys_left;
    uint64_t refused_keys;
    uint64_t refused_requests;
    uint64_t refused_owners;
    uint64_t refused_tickets;
    uint64_t refused_host_leases;
};
int lockshm_stat(lockshm_t *segment, struct lockshm_stat *stat);
struct lockshm_bridge_stat {
    size_t size;
    char servers[1111 + 1];
    char prefix[127 + 1];
    char host[23 + 1];
    int policy;
    int quorum;
    int64_t ttl_ns;
    int64_t retain_ns;
    int64_t gap_ns;
    uint32_t wait;
    int32_t pid;
    int32_t tid;
    uint32_t host_leases, host_leases_known, host_leases_held;
    uint64_t acquired;
    uint64_t renewed;
    uint64_t released;
    uint64_t lost;
    uint64_t commands;
    uint64_t errors;
    uint64_t grants;
    char global_keys[255 + 1];
};
int lockshm_bridge_stat(lockshm_t *segment, struct lockshm_bridge_stat *stat);
int lockshm_end_hold(lockshm_t *segment, const void *key, size_t key_len, uint64_t token);
int lockshm_end_hold_of(lockshm_t *segment, uint64_t id, uint64_t token);
int lockshm_acknowledge_of(lockshm_t *segment, uint64_t id, uint64_t token);
int lockshm_sweep(lockshm_t *segment, size_t *freed);
int lockshm_explain(const struct lockshm_report *report, int64_t timeout_ns, char *text, size_t size);
const char *lockshm_strerror(int code);
const char *lockshm_code_name(int code);
const char *lockshm_version(void);
]]

M.layout = {
    ["struct lockshm_error"] = { 288, { code = 0, sys_errno = 4, table = 8, field = 12, reserved = 16, message = 32, } },
    ["struct lockshm_hold"] = { 128, { opaque = 0, } },
    ["struct lockshm_lock"] = { 384, { opaque = 0, } },
    ["struct lockshm_canceller"] = { 32, { opaque = 0, } },
    ["struct lockshm_damage"] = { 96, { status = 0, pid = 4, tid = 8, token = 16, age_ns = 24, tag = 32, reserved = 64, } },
    ["struct lockshm_blocker"] = { 120, { state = 0, mode = 4, pid = 8, tid = 12, token = 16, ticket = 24, age_ns = 32, expires_in_ns = 40, name = 48, tag = 64, reserved = 96, } },
    ["struct lockshm_report"] = { 536, { size = 0, waited_ns = 8, slept_ns = 16, token = 24, damage = 32, error = 128, blocker = 416, } },
    ["struct lockshm_request"] = { 88, { size = 0, key = 8, key_len = 16, mode = 24, flags = 28, ttl_ns = 32, timeout_ns = 40, tag = 48, canceller = 56, report = 64, redis_policy = 72, max_hold_ns = 80, } },
    ["struct lockshm_key"] = { 32, { data = 0, len = 8, mode = 16, reserved = 20, } },
    ["struct lockshm_create_options"] = { 1576, { size = 0, keys = 8, requests = 12, owners = 16, permissions = 20, group = 24, flags = 28, token_floor = 32, redis_policy = 40, host_leases = 44, redis_ttl_ns = 48, redis_retain_ns = 56, redis_gap_ns = 64, redis_wait = 72, reserved = 76, redis = 80, redis_prefix = 1192, global_keys = 1320, } },
    ["struct lockshm_option"] = { 136, { size = 0, name = 8, help = 16, kind = 24, of_redis = 28, initial = 32, range = 72, } },
    ["struct lockshm_outcome"] = { 40, { size = 0, status = 8, hold = 16, user = 24, report = 32, } },
    ["struct lockshm_host_lease"] = { 384, { state = 0, mode = 4, remaining_ns = 8, blocked_ns = 16, next_token = 24, local_grants = 32, other_hosts_waiting = 40, why_age_ns = 48, value = 56, why = 96, reserved = 352, } },
    ["struct lockshm_row"] = { 952, { size = 0, key_len = 8, key_shown = 16, key = 24, id = 88, holders = 96, waiters = 100, known = 104, mode = 108, global = 112, alive = 116, request = 120, damage = 240, lease = 336, start_time = 720, exact = 728, uid = 732, gid = 736, permissions = 740, segment = 744, } },
    ["struct lockshm_stat"] = { 184, { size = 0, bytes = 8, created_unix_ns = 16, token_base = 24, keys = 32, keys_known = 36, keys_busy = 40, keys_damaged = 44, requests = 48, requests_reserved = 52, requests_used = 56, owners = 60, owners_used = 64, owners_dead = 68, acquires = 72, waits = 80, timeouts = 88, deadlocks = 96, lost = 104, recovered = 112, expired = 120, tries_failed = 128, keys_left = 136, refused_keys = 144, refused_requests = 152, refused_owners = 160, refused_tickets = 168, refused_host_leases = 176, } },
    ["struct lockshm_bridge_stat"] = { 1640, { size = 0, servers = 8, prefix = 1120, host = 1248, policy = 1272, quorum = 1276, ttl_ns = 1280, retain_ns = 1288, gap_ns = 1296, wait = 1304, pid = 1308, tid = 1312, host_leases = 1316, host_leases_known = 1320, host_leases_held = 1324, acquired = 1328, renewed = 1336, released = 1344, lost = 1352, commands = 1360, errors = 1368, grants = 1376, global_keys = 1384, } },
}

M.number = {
    KEY_MAX = 65535,
    EXPLAIN_MAX = 512,
    TAG_MAX = 30,
    NAME_MAX = 200,
    TTL_MIN = 1000000,
    AUTO_RENEW_TTL_MIN = 200000000,
    TIME_MAX = 315360000000000000,
    AUTO_RENEW = 1,
    ONLY_IF_FREE_IN_TIME = 2,
    GLOBAL = 8,
    BARGE = 16,
    ROBUST = 32,
    CREATE_OR_OPEN = 1,
    CREATE_REDIS_QUORUM = 2,
    OPEN_READ_ONLY = 1,
    OPEN_ANY_OWNER = 2,
}

M.version = "0.1.0"

return M
