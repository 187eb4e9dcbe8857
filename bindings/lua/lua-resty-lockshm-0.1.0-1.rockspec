-- SPDX-License-Identifier: MIT
rockspec_format = "3.0"
package = "lua-resty-lockshm"
version = "0.1.0-1"
source = {
   -- Beside the rockspec: tar czf lua-resty-lockshm-0.1.0.tar.gz of this folder.
   url = "lua-resty-lockshm-0.1.0.tar.gz",
   dir = "lua-resty-lockshm-0.1.0",
}
description = {
   summary = "Keyed, fair, crash-proof read-write locks for nginx and LuaJIT; a drop-in for resty.lock",
   detailed = [[
      The interface of resty.lock over liblockshm: waiters are granted in order and do not poll, the locks of a killed
      worker are free at once, and a late unlock never ends another request's lock.  Shared locks, tokens, single flight,
      "once in a period" and "exactly one worker".  Needs LuaJIT and liblockshm.so.0.
   ]],
   license = "MIT",
   labels = { "openresty", "nginx", "locks" },
}
dependencies = {
   "lua == 5.1", -- LuaJIT
}
build = {
   type = "builtin",
   modules = {
      ["resty.lockshm"] = "lib/resty/lockshm.lua",
      ["resty.lockshm.acquire"] = "lib/resty/lockshm/acquire.lua",
      ["resty.lockshm.anchor"] = "lib/resty/lockshm/anchor.lua",
      ["resty.lockshm.cdef"] = "lib/resty/lockshm/cdef.lua",
      ["resty.lockshm.hold"] = "lib/resty/lockshm/hold.lua",
      ["resty.lockshm.holder"] = "lib/resty/lockshm/holder.lua",
      ["resty.lockshm.instance"] = "lib/resty/lockshm/instance.lua",
      ["resty.lockshm.locks"] = "lib/resty/lockshm/locks.lua",
      ["resty.lockshm.native"] = "lib/resty/lockshm/native.lua",
      ["resty.lockshm.poll"] = "lib/resty/lockshm/poll.lua",
      ["resty.lockshm.pump"] = "lib/resty/lockshm/pump.lua",
      ["resty.lockshm.recipes"] = "lib/resty/lockshm/recipes.lua",
      ["resty.lockshm.segment"] = "lib/resty/lockshm/segment.lua",
      ["resty.lockshm.slices"] = "lib/resty/lockshm/slices.lua",
      ["resty.lockshm.socketpair"] = "lib/resty/lockshm/socketpair.lua",
      ["resty.lockshm.spec"] = "lib/resty/lockshm/spec.lua",
      ["resty.lockshm.suspend"] = "lib/resty/lockshm/suspend.lua",
      ["resty.lockshm.timer"] = "lib/resty/lockshm/timer.lua",
   },
   copy_directories = {},
}
