-- SPDX-License-Identifier: MIT
--- A pair of a free key: by each lock, by bare FFI calls, by a loop in C, and the FFI's own cost.

local ffi = require "ffi"
local kinds = require "bench.kinds"
local lockshm = require "resty.lockshm"
local native = require "resty.lockshm.native"
local system = require "bench.system"

local M = {}

local PAIRS = 40000
local now = system.now

local loops = {}

local function of_kind(kind)
    local lock
    return function(n)
        lock = lock or kinds[kind]()
        for _ = 1, n do
            lock:lock("free")
            lock:unlock()
        end
    end
end

--- As most requests do: a lock object for each lock.
local function with_new(kind)
    local new = kinds[kind]
    return function(n)
        for _ = 1, n do
            local lock = new()
            lock:lock("free")
            lock:unlock()
        end
    end
end

for _, kind in ipairs(kinds.order) do
    loops[kind], loops["new-" .. kind] = of_kind(kind), with_new(kind)
end

--- One hold object for each pair: locks:exclusive().
local function hold_objects()
    local locks = assert(lockshm.dict(os.getenv("LOCKSHM_BENCH_DICT")))
    return function(n)
        for _ = 1, n do
            locks:exclusive("free"):release()
        end
    end
end

-- The first wait of a worker gives its segment another loop: it is looked up for each slice.
local function bare_calls(C, segment)
    local request = native.sized("struct lockshm_request")
    local key = "free"
    request.key, request.key_len, request.mode, request.ttl_ns = key, #key, C.LOCKSHM_EXCLUSIVE, 30000000000LL
    local hold = ffi.new("lockshm_hold_t")
    loops.ffi = function(n)
        local loop = segment.loop
        for _ = 1, n do
            C.lockshm_loop_acquire(loop, request, hold, nil)
            C.lockshm_release(hold, 0)
        end
        return key
    end
    return request, hold
end

local function loops_of_c(C, segment, request, hold)
    ffi.cdef [[
    typedef int bench_acquire_fn(lockshm_loop_t *, const struct lockshm_request *, lockshm_hold_t *, void *);
    typedef int bench_release_fn(lockshm_hold_t *, int64_t);
    int bench_pairs(bench_acquire_fn *, bench_release_fn *, lockshm_loop_t *, const struct lockshm_request *,
        lockshm_hold_t *, int);
    int bench_nothing_acquire(lockshm_loop_t *, const struct lockshm_request *, lockshm_hold_t *, void *);
    int bench_nothing_release(lockshm_hold_t *, int64_t);
    ]]
    local pair = ffi.load(os.getenv("LOCKSHM_BENCH_PAIR"))
    loops.nothing = function(n)
        local loop = segment.loop
        for _ = 1, n do
            pair.bench_nothing_acquire(loop, request, hold, nil)
            pair.bench_nothing_release(hold, 0)
        end
    end
    loops.c = function(n)
        assert(pair.bench_pairs(C.lockshm_loop_acquire, C.lockshm_release, segment.loop, request, hold, n) == 0)
    end
end

--- Opens what the loops need.
function M.prepare()
    local locks = assert(lockshm.dict(os.getenv("LOCKSHM_BENCH_DICT")))
    local hold = assert(locks:exclusive("free"))
    hold:release()
    loops.object = hold_objects()
    local C = native.load()
    local request, cdata = bare_calls(C, locks.segment)
    if os.getenv("LOCKSHM_BENCH_PAIR") then
        loops_of_c(C, locks.segment, request, cdata)
    end
end

--- One slice of each loop, in nanoseconds a pair.
function M.run(emit)
    for name, loop in pairs(loops) do
        loop(PAIRS / 20)
        collectgarbage()
        local start = now()
        loop(PAIRS)
        local kind = name:match("^new%-(.*)")
        emit(kind and "pair-new" or "pair", kind or name, (now() - start) / PAIRS * 1e9)
    end
end

return M
