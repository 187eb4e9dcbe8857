-- SPDX-License-Identifier: MIT
--- A pair of a free key: by each lock, by bare FFI calls, by a loop in C, and the FFI's own cost.

local ffi = require "ffi"
local kinds = require "bench.kinds"
local lockshm = require "resty.lockshm"
local native = require "resty.lockshm.native"
local system = require "bench.system"

local M = {}

local PAIRS = 20000
local SLICES = 5
local now = system.now

local loops, names = {}, {}

local function add(name, loop)
    loops[name] = loop
    names[#names + 1] = name
end

-- Each loop is compiled for itself: one function for all kinds would share its compiled code among them.
local ONE_OBJECT = [[
    local new = ...
    local lock
    return function(n)
        lock = lock or new()
        for _ = 1, n do
            lock:lock("free")
            lock:unlock()
        end
    end
]]

-- As most requests do: a lock object for each lock.
local NEW_OBJECTS = [[
    local new = ...
    return function(n)
        for _ = 1, n do
            local lock = new()
            lock:lock("free")
            lock:unlock()
        end
    end
]]

for _, kind in ipairs(kinds.order) do
    add(kind, loadstring(ONE_OBJECT, "=" .. kind)(kinds[kind]))
    add("new-" .. kind, loadstring(NEW_OBJECTS, "=new-" .. kind)(kinds[kind]))
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
    add("ffi", function(n)
        local loop = segment.loop
        for _ = 1, n do
            C.lockshm_loop_acquire(loop, request, hold, nil)
            C.lockshm_release(hold, 0)
        end
        return key
    end)
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
    add("nothing", function(n)
        local loop = segment.loop
        for _ = 1, n do
            pair.bench_nothing_acquire(loop, request, hold, nil)
            pair.bench_nothing_release(hold, 0)
        end
    end)
    add("c", function(n)
        assert(pair.bench_pairs(C.lockshm_loop_acquire, C.lockshm_release, segment.loop, request, hold, n) == 0)
    end)
end

--- Opens what the loops need.
function M.prepare()
    local locks = assert(lockshm.dict(os.getenv("LOCKSHM_BENCH_DICT")))
    local hold = assert(locks:exclusive("free"))
    hold:release()
    add("object", hold_objects())
    local C = native.load()
    local request, cdata = bare_calls(C, locks.segment)
    if os.getenv("LOCKSHM_BENCH_PAIR") then
        loops_of_c(C, locks.segment, request, cdata)
    end
end

--- Slices of each loop, in nanoseconds a pair.
function M.run(emit)
    for slice = 1, SLICES do
        for i = 1, #names do
            local name = names[(i + slice) % #names + 1]
            loops[name](PAIRS / 20)
            collectgarbage()
            local start = now()
            loops[name](PAIRS)
            local kind = name:match("^new%-(.*)")
            emit(kind and "pair-new" or "pair", kind or name, (now() - start) / PAIRS * 1e9)
        end
    end
end

return M
