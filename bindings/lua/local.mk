# SPDX-License-Identifier: MIT
# Lua: resty.lockshm.
tests_of_bindings += \
	%D%/tests/chaos.sh \
	%D%/tests/deaths.sh \
	%D%/tests/dropin.sh \
	%D%/tests/edges.sh \
	%D%/tests/ends.sh \
	%D%/tests/exclusion.sh \
	%D%/tests/flight.sh \
	%D%/tests/generated.sh \
	%D%/tests/hosts.sh \
	%D%/tests/install.sh \
	%D%/tests/many.sh \
	%D%/tests/migrating.sh \
	%D%/tests/mlcache-suite.sh \
	%D%/tests/phases.sh \
	%D%/tests/plain.sh \
	%D%/tests/resty-lock-suite.sh \
	%D%/tests/servers.sh \
	%D%/tests/timers.sh \
	$(end)

nobase_dist_doc_DATA += \
	%D%/MIGRATING.md \
	%D%/README.md \
	%D%/bench/results.md \
	%D%/lib/resty/lockshm.lua \
	%D%/lib/resty/lockshm/hold.lua \
	%D%/lib/resty/lockshm/locks.lua \
	%D%/lib/resty/lockshm/recipes.lua \
	$(end)

EXTRA_DIST += \
	%D%/bench/conductor.lua \
	%D%/bench/first-use.sh \
	%D%/bench/free-pair.lua \
	%D%/bench/kinds.lua \
	%D%/bench/machine.lua \
	%D%/bench/pair.c \
	%D%/bench/parts.lua \
	%D%/bench/report.awk \
	%D%/bench/run.sh \
	%D%/bench/system.lua \
	%D%/bench/ticker.lua \
	%D%/bench/workers.lua \
	%D%/examples/nginx.conf \
	%D%/examples/page.lua \
	%D%/examples/report.lua \
	%D%/examples/scheduler.lua \
	%D%/generate.sh \
	%D%/lib/resty/lockshm/acquire.lua \
	%D%/lib/resty/lockshm/anchor.lua \
	%D%/lib/resty/lockshm/cdef.lua \
	%D%/lib/resty/lockshm/holder.lua \
	%D%/lib/resty/lockshm/instance.lua \
	%D%/lib/resty/lockshm/native.lua \
	%D%/lib/resty/lockshm/poll.lua \
	%D%/lib/resty/lockshm/pump.lua \
	%D%/lib/resty/lockshm/segment.lua \
	%D%/lib/resty/lockshm/slices.lua \
	%D%/lib/resty/lockshm/socketpair.lua \
	%D%/lib/resty/lockshm/spec.lua \
	%D%/lib/resty/lockshm/suspend.lua \
	%D%/lib/resty/lockshm/timer.lua \
	%D%/lua-resty-lockshm-0.1.0-1.rockspec \
	%D%/tests/agent.lua \
	%D%/tests/chaos_spec.lua \
	%D%/tests/common.sh \
	%D%/tests/deaths_spec.lua \
	%D%/tests/dropin_spec.lua \
	%D%/tests/edges_spec.lua \
	%D%/tests/ends_spec.lua \
	%D%/tests/exclusion_spec.lua \
	%D%/tests/flight_spec.lua \
	%D%/tests/hosts_spec.lua \
	%D%/tests/many_spec.lua \
	%D%/tests/phases_spec.lua \
	%D%/tests/plain_spec.lua \
	%D%/tests/servers_spec.lua \
	%D%/tests/support/client.lua \
	%D%/tests/support/configuration.lua \
	%D%/tests/support/nginx.lua \
	%D%/tests/support/phases.lua \
	%D%/tests/support/posix.lua \
	%D%/tests/support/run \
	%D%/tests/support/segment.lua \
	%D%/tests/support/wait.lua \
	%D%/tests/support/worker.lua \
	%D%/tests/timers_spec.lua \
	$(end)
